"""Muon on the hidden matrices and AdamW on the rest, as one optimizer.

Muon (https://kellerjordan.github.io/posts/muon) steps a matrix in the direction of its momentum
with all singular values made equal, so that directions with small gradients are learned as fast as
the others. That makes sense for matrices between hidden layers; embeddings, head, biases and norms
keep AdamW. Lightning's automatic optimization takes a single optimizer, so here the two are one.
"""

from typing import Any

import torch
from torch.optim import Optimizer


class MuonAdamW(Optimizer):
    """Step `torch.optim.Muon` and `torch.optim.AdamW` together.

    Parameter groups (Muon's first) and state are those of the two, so a schedule sees every rate
    and a checkpoint holds everything.

    Args:
        muon_groups: parameter groups of matrices for Muon, see `muon_groups`.
        adamw_groups: parameter groups for AdamW.
        muon_lr: learning rate of Muon, the size of a step for a square matrix; larger than AdamW's.
        lr: learning rate of AdamW.
        fused: whether AdamW takes torch's fused kernel, which is faster and rounds otherwise.
    """

    def __init__(
        self,
        muon_groups: list[dict[str, Any]],
        adamw_groups: list[dict[str, Any]],
        *,
        muon_lr: float,
        lr: float,
        fused: bool = False,
    ) -> None:
        self.muon = torch.optim.Muon(muon_groups, lr=muon_lr)
        self.adamw = torch.optim.AdamW(adamw_groups, lr=lr, fused=fused)
        super().__init__([*self.muon.param_groups, *self.adamw.param_groups], {})
        self._share()

    def _share(self) -> None:
        """Let both work on the groups and the state of this one."""
        count = len(self.muon.param_groups)
        self.muon.param_groups = self.param_groups[:count]
        self.adamw.param_groups = self.param_groups[count:]
        self.muon.state = self.adamw.state = self.state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state of `state_dict()`."""
        super().load_state_dict(state_dict)
        self._share()

    def step(self, closure: Any = None) -> Any:
        """Step both; a closure that computes the gradients is called once, before them."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.muon.step()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.adamw.step()
        return loss
