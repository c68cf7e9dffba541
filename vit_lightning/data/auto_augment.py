"""RandAugment and TrivialAugment for whole batches: each picture gets operations of its own.

Both draw from one list of fourteen operations and differ in how often and how strongly they
apply them. The batch is split by operation, so the loop runs over the operations and never over
the pictures. Operations and strengths are torchvision's, in 31 steps from 0 to 30.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from vit_lightning.data import geometric, photometric

MAX_MAGNITUDE = 30


class Operation(NamedTuple):
    """A function of pictures (n, C, H, W) and strengths (n,), and how strong it may be.

    The strength goes from `start` at magnitude 0 to `start + span` at magnitude 30 or, where a
    direction makes sense, as far to the other side of `start`.
    """

    apply: Callable[[Tensor, Tensor], Tensor]
    start: float = 0.0
    span: float = 0.0
    both_ways: bool = False


def operations(
    *,
    slope: float,
    pixels: tuple[float, float],
    degrees: float,
    factor: float,
    lost_bits: int,
) -> list[Operation]:
    """The fourteen operations, given what magnitude 30 means for each family of them.

    Args:
        slope: Of the shears.
        pixels: Of the shifts, across and down.
        degrees: Of the rotation.
        factor: How far brightness, saturation, contrast and sharpness go from 1.
        lost_bits: How many of the 8 bits posterizing drops.
    """
    return [
        Operation(lambda images, _: images),
        Operation(geometric.shear_x, 0, slope, True),
        Operation(geometric.shear_y, 0, slope, True),
        Operation(geometric.translate_x, 0, pixels[0], True),
        Operation(geometric.translate_y, 0, pixels[1], True),
        Operation(geometric.rotate, 0, degrees, True),
        Operation(photometric.adjust_brightness, 1, factor, True),
        Operation(photometric.adjust_saturation, 1, factor, True),
        Operation(photometric.adjust_contrast, 1, factor, True),
        Operation(photometric.adjust_sharpness, 1, factor, True),
        Operation(photometric.posterize, 8, -lost_bits),
        Operation(photometric.solarize, 255, -255),
        Operation(lambda images, _: photometric.autocontrast(images)),
        Operation(lambda images, _: photometric.equalize(images)),
    ]


def rand_augment_space(height: int, width: int) -> list[Operation]:
    """RandAugment's operations for pictures of this size."""
    shift = 150 / 331  # of the picture: 150 pixels of the 331 in the paper
    return operations(
        slope=0.3, pixels=(shift * width, shift * height), degrees=30, factor=0.9, lost_bits=4
    )


def trivial_augment_space() -> list[Operation]:
    """TrivialAugment's operations, those of the paper's "wide" space."""
    return operations(slope=0.99, pixels=(32, 32), degrees=135, factor=0.99, lost_bits=6)


def rand_augment(
    images: Tensor, num_ops: int, magnitude: int, generator: torch.Generator
) -> Tensor:
    """Applies `num_ops` random operations of one strength to each picture (Cubuk et al., 2020).

    Args:
        images: Pictures of shape (batch, 1 or 3, height, width), uint8.
        num_ops: Operations applied to each picture, one after the other.
        magnitude: Strength of all of them, 0 to 30.
        generator: CPU generator that decides operations and directions.

    Returns:
        Pictures of the same shape and dtype.
    """
    space = rand_augment_space(*images.shape[2:])
    level = torch.full((len(images),), magnitude / MAX_MAGNITUDE)
    for _ in range(num_ops):
        images = _apply_random(images, level, space, generator)
    return images


def trivial_augment(images: Tensor, generator: torch.Generator) -> Tensor:
    """Applies one random operation of random strength to each picture (Müller & Hutter, 2021).

    The strengths go up to turning a picture by 135 degrees and shifting it by 32 pixels.

    Args:
        images: Pictures of shape (batch, 1 or 3, height, width), uint8.
        generator: CPU generator that decides operations, strengths and directions.

    Returns:
        Pictures of the same shape and dtype.
    """
    space = trivial_augment_space()
    level = torch.randint(MAX_MAGNITUDE + 1, (len(images),), generator=generator) / MAX_MAGNITUDE
    return _apply_random(images, level, space, generator)


def _apply_random(
    images: Tensor, level: Tensor, space: list[Operation], generator: torch.Generator
) -> Tensor:
    """Applies one random operation to each picture, `level` (0 to 1) of the way to its limit."""
    if images.dtype != torch.uint8 or images.shape[1] not in (1, 3):
        raise ValueError(
            "images must be uint8 with 1 or 3 channels for RandAugment and TrivialAugment, "
            f"got {images.dtype} with {images.shape[1]} channels."
        )
    # Drawn and sorted on the CPU: on a GPU no operation then waits to learn how many it gets.
    choice = torch.randint(len(space), (len(images),), generator=generator)
    sign = 1 - 2 * torch.randint(2, (len(images),), generator=generator)
    result = images.clone()
    for number, operation in enumerate(space):
        chosen = (choice == number).nonzero().squeeze(1)
        if len(chosen) == 0:
            continue
        way = level[chosen] * sign[chosen] if operation.both_ways else level[chosen]
        strength = (operation.start + operation.span * way).to(images.device)
        chosen = chosen.to(images.device)
        result[chosen] = operation.apply(images[chosen], strength)
    return result
