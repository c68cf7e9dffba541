"""Stochastic depth: in training, some samples skip a residual branch."""

from torch import Tensor, nn

from vit_lightning.nn.dropout import dropout


class DropPath(nn.Module):
    """Zero the whole branch for some samples and scale it up for the others.

    "Deep Networks with Stochastic Depth", 2016. The expectation stays, and in evaluation, or with
    rate 0, nothing happens.

    Args:
        rate: probability that a sample skips the branch.
    """

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"drop_path must lie in [0, 1), got {rate}")
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Drop samples of x, (batch, ...)."""
        if self.rate == 0 or not self.training:
            return x
        ones = x.new_ones(x.shape[0], *(1 for _ in x.shape[1:]))  # (B, 1, ...)
        return x * dropout(ones, self.rate)  # 0 or 1 / (1 - rate) for each sample

    def extra_repr(self) -> str:
        """Show the rate when printed."""
        return f"rate={self.rate}"
