import pytest
import torch

from vit_lightning.nn import ConvStem
from vit_lightning.nn.conv_stem import MatrixConv


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_halves_the_picture_and_keeps_the_size_of_the_signal(activation, pooled):
    output = ConvStem(3, [29], activation, pooled=pooled)(torch.randn(7, 3, 22, 26))
    assert output.shape == (7, 29, 11, 13)
    assert 0.5 < output.square().mean().sqrt() < 2


@pytest.mark.parametrize("pooled", [False, True])
def test_each_stage_halves_again(pooled):
    stem = ConvStem(3, [5, 7, 11], pooled=pooled)
    assert stem(torch.randn(2, 3, 16, 24)).shape == (2, 11, 2, 3)
    assert [p.shape[0] for p in stem.parameters() if p.ndim > 1] == [5, 5, 7, 7, 11, 11]


def test_matrix_conv_against_torch():
    ours, theirs = MatrixConv(3, 7), torch.nn.Conv2d(3, 7, 3, padding=1, bias=False)
    with torch.no_grad():
        theirs.weight.copy_(ours.weight.view_as(theirs.weight))
    x = torch.randn(2, 3, 5, 11)
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("pooled", [False, True])
def test_the_layout_in_memory_changes_no_number(pooled):
    fast, plain = (
        ConvStem(3, [5, 7], "gelu", pooled=pooled, channels_last=last).double()
        for last in (True, False)
    )
    plain.load_state_dict(fast.state_dict())
    x = torch.randn(2, 3, 16, 24, dtype=torch.float64)
    torch.testing.assert_close(fast(x), plain(x))
    assert fast(x).is_contiguous(memory_format=torch.channels_last)


def test_a_pooled_stem_normalises_channels_over_the_batch():
    stem = ConvStem(3, [29], pooled=True)
    output = stem.layers[:-1](50 * torch.randn(7, 3, 22, 26)).transpose(0, 1).flatten(1)
    torch.testing.assert_close(output.mean(1), torch.zeros(29), atol=1e-5, rtol=0)
    torch.testing.assert_close(output.var(1), torch.ones(29), atol=1e-2, rtol=0)


@pytest.mark.parametrize("wrong", [[], [8, 0]])
def test_bad_channels(wrong):
    with pytest.raises(ValueError, match="stem_channels"):
        ConvStem(3, wrong)


def test_sees_across_patch_borders():
    stem = ConvStem(3, [5])
    x = torch.randn(1, 3, 8, 8)
    changed = x.clone()
    changed[..., 4] += 1
    difference = (stem(x) - stem(changed)).abs().sum((0, 1, 2))
    assert difference[1] > 0  # pixels 2 and 3 belong to another 4x4 patch than pixel 4
