"""Pooling: from one vector a token to one for the whole sequence."""

import torch
from torch import Tensor, nn


def mean_pool(x: Tensor, present: Tensor | None = None) -> Tensor:
    """Average tokens (batch, length, dim) to (batch, dim), over those `present` (batch, length)."""
    if present is None:
        return x.mean(dim=1)
    weight = present.to(x.dtype)[..., None]  # (B, L, 1)
    return (x * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)


class AttentionPool(nn.Module):
    """A weighted average whose weights are a softmax over learned scores (SeqPool)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.score = nn.Linear(dim, 1)

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """Average tokens (batch, length, dim) to (batch, dim), over those `present`."""
        score: Tensor = self.score(x).squeeze(-1)  # (B, L)
        if present is not None:
            score = score.masked_fill(~present, torch.finfo(score.dtype).min)
        weight = score.softmax(dim=-1)
        return (weight[:, None, :].to(x.dtype) @ x).squeeze(1)  # (B, 1, L) @ (B, L, D) -> (B, D)
