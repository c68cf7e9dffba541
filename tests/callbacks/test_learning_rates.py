import torch

from vit_lightning.callbacks import LearningRates


class Module:
    def log_dict(self, values: dict[str, float], **how: bool) -> None:
        self.values = values
        assert how == {"on_step": True, "on_epoch": False}


def logged(**names: dict[str, object]) -> dict[str, float]:
    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    groups = [{"params": [w], **extra} for w, extra in zip(weights, names.values(), strict=True)]
    module = Module()
    LearningRates().on_before_optimizer_step(None, module, torch.optim.AdamW(groups, lr=0.5))
    return module.values


def test_groups_without_a_name_share_one_rate():
    assert logged(a={}, b={}) == {"lr": 0.5}


def test_groups_with_a_name_have_their_own():
    assert logged(a={"name": "muon", "lr": 0.25}, b={}) == {"lr/muon": 0.25, "lr": 0.5}
