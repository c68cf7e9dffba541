import pytest
import torch

from vit_lightning.nn import causal_mask, padding_mask
from vit_lightning.nn.masks import add_class_token_to_mask, attended_positions, canonical_mask

SHAPE = torch.Size((2, 3, 5, 5))


def test_causal_mask_is_true_where_one_may_attend():
    assert causal_mask(3).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_padding_mask():
    mask = padding_mask([3, 0, 5], 5)
    assert mask.shape == (3, 1, 1, 5)
    assert mask.sum(-1).flatten().tolist() == [3, 0, 5]
    assert mask[0].flatten().tolist() == [True, True, True, False, False]


@pytest.mark.parametrize("lengths", [[6], [-1], [[1, 2]]])
def test_padding_mask_refuses(lengths):
    with pytest.raises(ValueError, match="lengths"):
        padding_mask(lengths, 5)


def test_causal_mask_refuses_negative_sizes():
    with pytest.raises(ValueError, match="-1"):
        causal_mask(-1)


@pytest.mark.parametrize("shape", [(5, 4), (2, 5), (3, 5, 5), (2, 2, 5, 5), (1, 2, 3, 5, 5)])
def test_wrong_shapes_are_named(shape):
    with pytest.raises(ValueError, match="does not broadcast"):
        canonical_mask(torch.ones(shape, dtype=torch.bool), SHAPE)


def test_three_axes_are_batch_queries_keys():
    assert canonical_mask(torch.ones(2, 5, 5, dtype=torch.bool), SHAPE).shape == (2, 1, 5, 5)


def test_a_floating_mask_of_zeros_and_ones_is_ambiguous():
    with pytest.raises(ValueError, match="ambiguous"):
        canonical_mask(causal_mask(5).float(), SHAPE)
    assert not canonical_mask(torch.zeros(5, 5), SHAPE).any()  # adds nothing: clear enough


def test_integer_masks_hold_zeros_and_ones_only():
    assert torch.equal(canonical_mask(causal_mask(5).int(), SHAPE), causal_mask(5))
    with pytest.raises(ValueError, match="integer mask"):
        canonical_mask(torch.full((5, 5), -10000), SHAPE)


def test_attended_positions():
    mask = padding_mask([3, 5], 5) & causal_mask(5)
    present = padding_mask([3, 5], 5)[:, 0, 0]
    assert torch.equal(attended_positions(mask, SHAPE), present)
    for hidden in (-torch.inf, -1e9, -1e4):
        additive = torch.zeros(mask.shape).masked_fill(~mask, hidden)
        assert torch.equal(attended_positions(additive, SHAPE), present)
    assert attended_positions(torch.full((5, 5), -5.0), SHAPE).all()  # a bias hides nothing


@pytest.mark.parametrize("additive", [False, True])
def test_class_token_sees_and_is_seen(additive):
    for mask in (causal_mask(5), padding_mask([3, 5], 5), padding_mask([3, 5], 5) & causal_mask(5)):
        given = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf) if additive else mask
        larger = add_class_token_to_mask(given, SHAPE)
        larger = (larger == 0 if additive else larger).expand(2, 3, 6, 6)
        assert larger[..., 0].all()
        assert torch.equal(larger[..., 1:, 1:], mask.expand(SHAPE))
        present = attended_positions(mask, SHAPE)
        assert torch.equal(larger[:, 0, 0, 1:], present)
