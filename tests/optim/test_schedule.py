import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.optim import CosineWarmupScheduler, cosine_warmup_factor


def optimizer(lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def test_is_the_courses_formula():
    for step in range(101):
        expected = 0.5 * (1 + math.cos(math.pi * step / 100)) * min(1, step / 20)
        assert cosine_warmup_factor(step, 20, 100) == pytest.approx(expected)


@given(warmup=st.integers(0, 50), max_iters=st.integers(1, 200))
def test_zero_at_the_end_and_never_rising_again(warmup, max_iters):
    factors = [cosine_warmup_factor(step, warmup, max_iters) for step in range(2 * max_iters + 3)]
    assert all(0 <= factor <= 1 for factor in factors)
    assert factors[max_iters:] == [0.0] * len(factors[max_iters:])
    after_warmup = factors[warmup:]
    assert after_warmup == sorted(after_warmup, reverse=True)


def test_warmup_zero_starts_at_the_base_rate():
    scheduler = CosineWarmupScheduler(optimizer(0.1), warmup=0, max_iters=10)
    assert scheduler.get_last_lr() == [0.1]


def test_resumes_from_its_state():
    opt = optimizer()
    scheduler = CosineWarmupScheduler(opt, warmup=3, max_iters=17)
    rates = []
    for _ in range(17):
        rates.append(scheduler.get_last_lr()[0])
        opt.step()
        scheduler.step()
        if len(rates) == 7:
            state = scheduler.state_dict()
            opt_state = opt.state_dict()
    opt = optimizer()
    resumed = CosineWarmupScheduler(opt, warmup=3, max_iters=17)
    opt.load_state_dict(opt_state)
    resumed.load_state_dict(state)
    for rate in rates[7:]:
        assert opt.param_groups[0]["lr"] == resumed.get_last_lr()[0] == rate
        opt.step()
        resumed.step()


def test_resumed_for_longer_it_ends_later():
    opt = optimizer(0.1)
    scheduler = CosineWarmupScheduler(opt, warmup=0, max_iters=10)
    for _ in range(10):
        opt.step()
        scheduler.step()
    assert scheduler.get_last_lr() == [0.0]
    longer = CosineWarmupScheduler(opt, warmup=0, max_iters=20)
    longer.load_state_dict(scheduler.state_dict())
    opt.step()
    longer.step()
    assert longer.get_last_lr()[0] == pytest.approx(0.1 * cosine_warmup_factor(11, 0, 20))


@pytest.mark.parametrize(("warmup", "max_iters"), [(-1, 10), (0, 0)])
def test_bad_arguments(warmup, max_iters):
    with pytest.raises(ValueError, match="must be at least"):
        CosineWarmupScheduler(optimizer(), warmup, max_iters)
