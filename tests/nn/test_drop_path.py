"""Stochastic depth: whole samples, the right share, the right scale, and only in training."""

import pytest
import torch

from vit_lightning.nn import DropPath, EncoderBlock, TransformerEncoder

B, L, E = 5, 7, 6


def test_drops_whole_samples_and_keeps_the_expectation():
    scale = DropPath(0.25)(torch.ones(2003, L, E))
    assert torch.equal(scale, scale[:, :1, :1].expand_as(scale))
    kept = scale[:, 0, 0] != 0
    torch.testing.assert_close(scale[kept, 0, 0], torch.full((int(kept.sum()),), 4 / 3))
    assert kept.float().mean() == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("shape", [(B,), (B, L), (B, L, E, 2)])
def test_any_shape(shape):
    assert DropPath(0.5)(torch.ones(shape)).shape == shape


def test_nothing_happens_with_rate_zero_or_in_evaluation():
    x = torch.randn(B, L, E)
    before = torch.get_rng_state()
    assert DropPath(0.0)(x) is x
    assert DropPath(0.5).eval()(x) is x
    assert torch.equal(torch.get_rng_state(), before)


def test_draws_from_the_ambient_generator():
    x = torch.ones(101, 1)
    torch.manual_seed(3)
    first = DropPath(0.5)(x)
    assert not torch.equal(first, DropPath(0.5)(x))
    torch.manual_seed(3)
    assert torch.equal(first, DropPath(0.5)(x))


@pytest.mark.parametrize("norm", ["pre", "none"])
def test_a_sample_that_skips_both_branches_passes_unchanged(norm):
    block = EncoderBlock(E, 2, 11, norm=norm, drop_path=0.5)
    x = torch.randn(101, L, E)
    unchanged = (block(x) == x).flatten(1).all(1)
    assert 0.1 < unchanged.float().mean() < 0.4
    assert not (block.eval()(x) == x).flatten(1).all(1).any()


def test_the_rate_grows_linearly_to_the_last_layer():
    layers = TransformerEncoder(4, E, 2, 11, drop_path=0.3).layers
    assert [layer.drop_path.rate for layer in layers] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert TransformerEncoder(1, E, 2, 11, drop_path=0.3).layers[0].drop_path.rate == 0.3


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_bad_rates(rate):
    with pytest.raises(ValueError, match=rf"drop_path must lie in \[0, 1\), got {rate}"):
        DropPath(rate)
