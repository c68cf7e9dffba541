"""Hiding part of a picture, so that no single part of it decides: random erasing and cutout.

Both work on normalised pictures, where 0 is the mean colour of the data set: that is what a hidden
part becomes.
"""

import math

import torch
from torch import Tensor


def random_erasing(
    images: Tensor,
    probability: float,
    generator: torch.Generator,
    *,
    area: tuple[float, float] = (0.02, 0.33),
    aspect: tuple[float, float] = (0.3, 3.3),
) -> Tensor:
    """Hides a random rectangle of some of the pictures (Zhong et al., 2020).

    Where the paper draws anew for a rectangle that does not fit, this one cuts it to the picture's
    height or width, so that a batch costs the same whatever is drawn.

    Args:
        images: Normalised pictures of shape (batch, channels, height, width).
        probability: Of a picture to lose a rectangle.
        generator: CPU generator that decides all of it.
        area: Smallest and largest part of the picture to hide.
        aspect: Smallest and largest ratio of height to width of the rectangle.

    Returns:
        Pictures of the same shape.
    """
    B, _, H, W = images.shape
    hit, size, shape, y, x = torch.rand(5, B, generator=generator)
    size = (area[0] + (area[1] - area[0]) * size) * H * W
    log_low, log_high = math.log(aspect[0]), math.log(aspect[1])
    shape = (log_low + (log_high - log_low) * shape).exp()
    height = (size * shape).sqrt().round().clamp(1, H)
    width = (size / shape).sqrt().round().clamp(1, W)
    height = torch.where(hit < probability, height, 0)
    top = (y * (H - height + 1)).floor()
    left = (x * (W - width + 1)).floor()
    return images.masked_fill(box_mask(images, top, left, top + height, left + width), 0)


def cutout(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Hides one square of side `size` in each picture (DeVries & Taylor, 2017).

    Its centre may be any pixel, so near the border part of the square lies outside.
    """
    B, _, H, W = images.shape
    top = torch.randint(H, (B,), generator=generator) - size // 2
    left = torch.randint(W, (B,), generator=generator) - size // 2
    return images.masked_fill(box_mask(images, top, left, top + size, left + size), 0)


def box_mask(images: Tensor, top: Tensor, left: Tensor, bottom: Tensor, right: Tensor) -> Tensor:
    """True inside one box per picture, on the pictures' device.

    Args:
        images: Pictures of shape (batch, channels, height, width), for their size and device.
        top: First row inside, shape (batch,); boxes may reach beyond the picture.
        left: First column inside.
        bottom: First row below.
        right: First column to the right.

    Returns:
        Boolean mask of shape (batch, 1, height, width).
    """
    H, W = images.shape[2:]
    rows, columns = torch.arange(H), torch.arange(W)
    in_rows = (rows >= top[:, None]) & (rows < bottom[:, None])  # (B, H)
    in_columns = (columns >= left[:, None]) & (columns < right[:, None])  # (B, W)
    in_rows, in_columns = in_rows.to(images.device), in_columns.to(images.device)
    return in_rows[:, None, :, None] & in_columns[:, None, None, :]  # (B, 1, H, W)
