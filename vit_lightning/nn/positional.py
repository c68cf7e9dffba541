"""Positional encoding: what tells attention, which is blind to order, where a token stands."""

import math

import torch
from torch import Tensor, nn


class PositionalEncoding(nn.Module):
    """Add sines and cosines of the position, section 3.5 of "Attention Is All You Need".

    Args:
        d_model: width of the tokens.
        max_len: longest sequence; a longer one is a ValueError.
    """

    pe: Tensor

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        if d_model < 1 or max_len < 1:
            raise ValueError(f"d_model and max_len must be at least 1, got {d_model} and {max_len}")
        self.max_len = max_len
        position = torch.arange(max_len, dtype=torch.float64)[:, None]  # (max_len, 1)
        frequency = torch.exp(
            torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model)
        )
        angles = position * frequency  # (max_len, ceil(d_model / 2))
        pe = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]
        # Computed, not learned: out of the state dict, so max_len can change between runs.
        self.register_buffer("pe", pe.float()[None], persistent=False)  # (1, max_len, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Add the encoding of positions 0, 1, ... to tokens of shape (batch, length, d_model)."""
        length = x.shape[1]
        if length > self.max_len:
            raise ValueError(
                f"the sequence has {length} tokens but max_len is {self.max_len}; raise max_len"
            )
        return x + self.pe[:, :length]
