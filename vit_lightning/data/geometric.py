"""Where a picture's pixels come from: crops, flips, shears, shifts and rotations of whole batches.

Every function moves each picture of the batch in its own way and does so with integer indices into
the uint8 pixels: no interpolation, no float copy of the pictures, no loop over them. What comes
from outside the picture is black.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def random_crop(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Shifts each picture by its own offset, as a random crop of its zero-padded self.

    Args:
        images: Pictures of shape (batch, channels, height, width), of any dtype.
        padding: Black pixels added on each side, so the largest shift.
        generator: CPU generator that decides the offsets.

    Returns:
        Pictures of the same shape.
    """
    B, _, H, W = images.shape
    offsets = torch.randint(2 * padding + 1, (2, B), generator=generator).to(images.device)
    padded = F.pad(images, (padding,) * 4)  # (B, C, H + 2p, W + 2p)
    windows = padded.unfold(2, H, 1).unfold(3, W, 1)  # (B, C, 2p + 1, 2p + 1, H, W), a view
    every = torch.arange(B, device=images.device)
    return windows[every, :, offsets[0], offsets[1]]  # (B, C, H, W)


def random_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirrors each picture left to right with probability one half."""
    flipped = torch.rand(len(images), generator=generator) < 0.5
    return torch.where(flipped.to(images.device)[:, None, None, None], images.flip(3), images)


def shear_x(images: Tensor, slope: Tensor) -> Tensor:
    """Shifts each row by `slope` times its distance from the top edge; slopes of shape (batch,)."""
    x, y = _pixel_grid(images)
    return _take(images, x + slope[:, None, None] * (y + 0.5), y)


def shear_y(images: Tensor, slope: Tensor) -> Tensor:
    """Shifts each column by `slope` times its distance from the left edge."""
    x, y = _pixel_grid(images)
    return _take(images, x, y + slope[:, None, None] * (x + 0.5))


def translate_x(images: Tensor, pixels: Tensor) -> Tensor:
    """Shifts each picture to the right by its number of `pixels`, cut to a whole number."""
    x, y = _pixel_grid(images)
    return _take(images, x - pixels.trunc()[:, None, None], y)


def translate_y(images: Tensor, pixels: Tensor) -> Tensor:
    """Shifts each picture down by its number of `pixels`, cut to a whole number."""
    x, y = _pixel_grid(images)
    return _take(images, x, y - pixels.trunc()[:, None, None])


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Turns each picture counter-clockwise about its centre by its angle in `degrees`."""
    x, y = _pixel_grid(images)
    centre_x, centre_y = (images.shape[3] - 1) / 2, (images.shape[2] - 1) / 2
    angle = degrees[:, None, None] * (math.pi / 180)
    cos, sin = angle.cos(), angle.sin()
    dx, dy = x - centre_x, y - centre_y
    return _take(images, cos * dx - sin * dy + centre_x, sin * dx + cos * dy + centre_y)


def _pixel_grid(images: Tensor) -> tuple[Tensor, Tensor]:
    """The column and row number of every pixel, as a row (1, 1, W) and a column (1, H, 1)."""
    H, W = images.shape[2:]
    columns = torch.arange(W, device=images.device, dtype=torch.float32)
    rows = torch.arange(H, device=images.device, dtype=torch.float32)
    return columns[None, None, :], rows[None, :, None]


def _take(images: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Fills each pixel with the one nearest to column `x`, row `y` of the same picture, or black.

    `x` and `y` broadcast to (batch, height, width).
    """
    B, C, H, W = images.shape
    x, y = x.round(), y.round()
    inside = (x >= 0) & (x < W) & (y >= 0) & (y < H)
    # One black pixel behind the last one is the source of everything that lies outside.
    index = torch.where(inside, y * W + x, H * W).long().view(B, 1, H * W)
    pixels = F.pad(images.reshape(B, C, H * W), (0, 1))  # (B, C, H * W + 1)
    return pixels.gather(2, index.expand(B, C, H * W)).view(B, C, H, W)
