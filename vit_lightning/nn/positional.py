"""Positional encoding: what tells attention, which is blind to order, where a token stands."""

import math

import torch
from torch import Tensor, nn


def sincos_1d(length: int, dim: int) -> Tensor:
    """Write positions 0, 1, ... as sines and cosines, section 3.5 of "Attention Is All You Need".

    Returns:
        (length, dim) in float64, sines and cosines in turns.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]  # (length, 1)
    frequency = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * (-math.log(10000.0) / dim))
    angles = position * frequency  # (length, ceil(dim / 2))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :dim]


def sincos_2d(height: int, width: int, dim: int) -> Tensor:
    """Write places on a grid as sines and cosines: half of the width for the row, half the column.

    Args:
        height: rows of the grid.
        width: columns of the grid.
        dim: width of the encoding, divisible by 4.

    Returns:
        (height * width, dim), row by row as `image_to_patches` cuts.
    """
    if height < 1 or width < 1:
        raise ValueError(f"height and width must be at least 1, got {height} and {width}")
    if dim < 4 or dim % 4:
        raise ValueError(f"dim must be divisible by 4 for 2-D sin-cos positions, got {dim}")
    rows = sincos_1d(height, dim // 2)[:, None].expand(-1, width, -1)  # (height, width, dim / 2)
    columns = sincos_1d(width, dim // 2)[None].expand(height, -1, -1)  # (height, width, dim / 2)
    return torch.cat([rows, columns], dim=-1).flatten(0, 1).float()  # (height * width, dim)


class PositionalEncoding(nn.Module):
    """Add `sincos_1d` to the tokens of a sequence.

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
        pe = sincos_1d(max_len, d_model)
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
