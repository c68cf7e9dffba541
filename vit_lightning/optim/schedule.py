"""Learning rate over a run: a linear warmup under a cosine that ends at zero."""

import math
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


def cosine_warmup_factor(step: int, warmup: int, max_iters: int) -> float:
    """Return what the base learning rate is multiplied by at `step`.

    The cosine falls from 1 at step 0 to 0 at `max_iters` and stays there; over the first `warmup`
    steps a line from 0 to 1 holds it down.
    """
    cosine = 0.5 * (1 + math.cos(math.pi * min(step, max_iters) / max_iters))
    return cosine * step / warmup if step < warmup else cosine


class CosineWarmupScheduler(LRScheduler):
    """Follow `cosine_warmup_factor`, one step per optimizer step.

    Args:
        optimizer: whose learning rates are set.
        warmup: steps of linear warmup; 0 for none.
        max_iters: steps until the rate is zero.
    """

    def __init__(self, optimizer: Optimizer, warmup: int, max_iters: int) -> None:
        if warmup < 0:
            raise ValueError(f"warmup must be at least 0, got {warmup}")
        if max_iters < 1:
            raise ValueError(f"max_iters must be at least 1, got {max_iters}")
        self.warmup = warmup
        self.max_iters = max_iters
        super().__init__(optimizer)

    def state_dict(self) -> dict[str, Any]:
        """Keep the step, but not the horizon: a run that is resumed for longer ends later."""
        return {k: v for k, v in super().state_dict().items() if k not in ("warmup", "max_iters")}

    def get_lr(self) -> list[float | Tensor]:
        """Return each parameter group's learning rate at the current step."""
        factor = cosine_warmup_factor(self.last_epoch, self.warmup, self.max_iters)
        return [base * factor for base in self.base_lrs]
