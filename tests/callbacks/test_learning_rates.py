from typing import ClassVar

import torch

from vit_lightning.callbacks import LearningRates


class Module:
    values: ClassVar[dict[str, float]] = {}

    def log_dict(self, values: dict[str, float], **how: bool) -> None:
        self.values = values
        assert how == {"on_step": True, "on_epoch": False}


class Run:
    log_every_n_steps = 3
    should_stop = False

    def __init__(self, global_step: int) -> None:
        self.global_step = global_step


def logged(step: int = 2, **names: dict[str, object]) -> dict[str, float]:
    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    groups = [{"params": [w], **extra} for w, extra in zip(weights, names.values(), strict=True)]
    module = Module()
    optimizer = torch.optim.AdamW(groups, lr=0.5)
    LearningRates().on_before_optimizer_step(Run(step), module, optimizer)
    return module.values


def test_groups_without_a_name_share_one_rate():
    assert logged(a={}, b={}) == {"lr": 0.5}


def test_groups_with_a_name_have_their_own():
    assert logged(a={"name": "muon", "lr": 0.25}, b={}) == {"lr/muon": 0.25, "lr": 0.5}


def test_only_steps_that_the_log_has_are_given_to_it():
    assert [bool(logged(step, a={}, b={})) for step in range(6)] == [False, False, True] * 2
