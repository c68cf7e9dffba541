"""Pictures blended with others, and labels blended alike: mixup, CutMix and label smoothing.

Both mixes are one formula. Each pixel keeps a weight `w` of its own picture and takes the rest
from a partner; mixup has one weight for all pixels of a picture, CutMix has weight 0 in a box and
1 outside. The label keeps the mean weight of the pixels, so labels mix exactly as pictures do.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_lightning.data.erasing import box_mask


def one_hot_smooth(labels: Tensor, num_classes: int, smoothing: float) -> Tensor:
    """Label rows that give `smoothing` of their weight to all classes equally.

    Args:
        labels: Class numbers of shape (batch,).
        num_classes: Length of a row.
        smoothing: 0 for one-hot rows, 1 for uniform ones.

    Returns:
        Rows of shape (batch, num_classes) that sum to 1, float32.
    """
    rows = F.one_hot(labels.long(), num_classes).float()  # (B, num_classes)
    return rows * (1 - smoothing) + smoothing / num_classes


def mixup(
    images: Tensor, targets: Tensor, alpha: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Blends each picture with another one of the batch (Zhang et al., 2018).

    Args:
        images: Float pictures of shape (batch, channels, height, width).
        targets: Label rows of shape (batch, num_classes).
        alpha: Of the Beta distribution of the weights: small values rarely mix much.
        generator: CPU generator that decides partners and weights, anew for each picture.

    Returns:
        Mixed pictures and their mixed label rows.
    """
    return _mix(images, targets, _mixup_weights(images, alpha, generator), generator)


def cutmix(
    images: Tensor, targets: Tensor, alpha: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Pastes a box of another picture of the batch into each picture (Yun et al., 2019).

    Args:
        images: Float pictures of shape (batch, channels, height, width).
        targets: Label rows of shape (batch, num_classes).
        alpha: Of the Beta distribution of the part that stays.
        generator: CPU generator that decides partners and boxes, anew for each picture.

    Returns:
        Mixed pictures and their label rows, mixed by the area that each picture really covers.
    """
    return _mix(images, targets, _cutmix_weights(images, alpha, generator), generator)


def mixup_or_cutmix(
    images: Tensor,
    targets: Tensor,
    mixup_alpha: float,
    cutmix_alpha: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Applies to each picture either `mixup` or `cutmix`, with equal chances."""
    heads = torch.rand(len(images), generator=generator) < 0.5
    weights = torch.where(
        heads.to(images.device)[:, None, None, None],
        _mixup_weights(images, mixup_alpha, generator),
        _cutmix_weights(images, cutmix_alpha, generator),
    )
    return _mix(images, targets, weights, generator)


def _mix(
    images: Tensor, targets: Tensor, weights: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Blends pictures and label rows with those of a random partner, which may be the picture.

    `weights` is what each pixel keeps of itself, shape (batch, 1, height or 1, width or 1).
    """
    partner = torch.randperm(len(images), generator=generator).to(images.device)
    label_weights = weights.mean(dim=(1, 2, 3))[:, None]  # (B, 1)
    return (
        torch.lerp(images[partner], images, weights),
        torch.lerp(targets[partner], targets, label_weights),
    )


def _mixup_weights(images: Tensor, alpha: float, generator: torch.Generator) -> Tensor:
    """One weight for all pixels of a picture, shape (batch, 1, 1, 1)."""
    kept = _symmetric_beta(len(images), alpha, generator)
    return kept.to(images.device)[:, None, None, None]


def _cutmix_weights(images: Tensor, alpha: float, generator: torch.Generator) -> Tensor:
    """Weight 0 inside a random box and 1 outside it, shape (batch, 1, height, width)."""
    B, _, H, W = images.shape
    side = (1 - _symmetric_beta(B, alpha, generator)).sqrt()
    height, width = (side * H).floor(), (side * W).floor()
    top = torch.randint(H, (B,), generator=generator) - (height / 2).floor()
    left = torch.randint(W, (B,), generator=generator) - (width / 2).floor()
    return (~box_mask(images, top, left, top + height, left + width)).to(images.dtype)


def _symmetric_beta(count: int, alpha: float, generator: torch.Generator) -> Tensor:
    """Draws `count` numbers from Beta(alpha, alpha); torch's own sampler takes no generator.

    Devroye's exact one-liner (1996) from two uniform numbers, written with u ** (1 / alpha) so
    that no alpha overflows: a Student t variable by the polar method, squeezed into (0, 1).
    """
    uniform = torch.rand(2, count, generator=generator, dtype=torch.float64)
    w, cos = uniform[0].pow(1 / alpha), (2 * math.pi * uniform[1]).cos()
    ratio = (1 - w) / (w + (1 - w) * cos.square())
    return (0.5 + 0.5 * cos * ratio.sqrt()).clamp(0, 1).float()
