"""Dropout: the right share, the right scale, the right gradient, and only in training."""

import pytest
import torch
import torch.nn.functional as F

from vit_lightning.nn import Dropout
from vit_lightning.nn.dropout import dropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.83])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_share_and_scale_are_those_of_torch(rate, dtype):
    x = torch.ones(300_001, dtype=dtype)
    ours, theirs = dropout(x, rate), F.dropout(x, rate)
    kept = ours != 0
    assert kept.float().mean() == pytest.approx(1 - rate, abs=5e-3)
    scales = ours[kept].unique(), theirs[theirs != 0].unique()
    torch.testing.assert_close(*scales, rtol=1e-4, atol=0)  # the rate is rounded to 1/65536


def test_elements_are_dropped_independently():
    kept = (dropout(torch.ones(400_000), 0.3) != 0).float()
    for distance in (1, 2, 3, 4):  # four neighbours share a draw
        together = (kept[distance:] * kept[:-distance]).mean()
        assert together == pytest.approx(0.49, abs=5e-3)


def test_gradient_goes_where_the_values_went():
    x = torch.randn(7, 13, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x, y)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 0, 2), (3, 5, 7)])
def test_any_shape(shape):
    assert dropout(torch.ones(shape), 0.5).shape == shape
    assert dropout(torch.ones(9, 4, 2).transpose(0, 1), 0.5).shape == (4, 9, 2)


def test_all_or_nothing():
    x = torch.randn(11)
    assert dropout(x, 0.0) is x
    assert not dropout(x, 1.0).any()


def test_nothing_happens_in_evaluation():
    x = torch.randn(3, 5)
    before = torch.get_rng_state()
    assert Dropout(0.5).eval()(x) is x
    assert torch.equal(torch.get_rng_state(), before)


def test_draws_from_the_ambient_generator():
    x = torch.ones(101)
    torch.manual_seed(3)
    first = Dropout(0.5)(x)
    assert not torch.equal(first, Dropout(0.5)(x))
    torch.manual_seed(3)
    assert torch.equal(first, Dropout(0.5)(x))
