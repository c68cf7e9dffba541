"""Dropout that is not the slowest layer of a training step on a CPU."""

import math
import threading

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 2**16  # of a random number that decides over an element


class _RandomNumbers(threading.local):
    """Where a thread draws from; None means torch's own generator, of which there is only one."""

    generator: torch.Generator | None = None


random_numbers = _RandomNumbers()


def dropout(x: Tensor, rate: float) -> Tensor:
    """Zero each element with probability `rate` and scale the others so that the mean stays.

    On a CPU torch draws a Bernoulli number for every element, which takes over twenty times as long
    as the GELU beside it. Here a draw of 64 bits decides over four elements, so the probability is
    `rate` rounded to 1/65536, and the scale is that of the rounded one.
    """
    dropped = round(rate * LEVELS)
    if not dropped:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate)
    if dropped == LEVELS:
        return x * 0.0
    draws = torch.empty(math.ceil(x.numel() / 4), dtype=torch.int64)
    draws.random_(-(2**63), None, generator=random_numbers.generator)
    numbers = draws.view(torch.int16)[: x.numel()].view(x.shape)  # from -LEVELS / 2 on
    # 0 or 1 in x's own dtype at once: to convert a boolean takes as long as to draw.
    kept = torch.ge(numbers, dropped - LEVELS // 2, out=torch.empty_like(x, requires_grad=False))
    return x * kept.mul_(LEVELS / (LEVELS - dropped))


class Dropout(nn.Dropout):
    """torch's layer, with the function above; in evaluation nothing happens."""

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of x, of any shape."""
        return dropout(x, self.p) if self.training else x
