"""What happens to a training batch between the store and the model, on the model's device.

`Augment` takes the uint8 pictures of a batch and returns normalised floats with their targets. Each
picture is changed in its own way, whole batches at a time, and every draw comes from the generator
that is passed in: with `keyed_generator` a batch depends on (seed, epoch, step) and on nothing
else, so a run that was killed and resumed sees the same pictures as one that never stopped. Draws
are made on the CPU and moved, so they are also the same on every device.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from vit_lightning.data.auto_augment import MAX_MAGNITUDE, rand_augment, trivial_augment
from vit_lightning.data.erasing import cutout, random_erasing
from vit_lightning.data.geometric import random_crop, random_flip
from vit_lightning.data.mixing import cutmix, mixup, mixup_or_cutmix, one_hot_smooth

__all__ = [
    "Augment",
    "cutmix",
    "cutout",
    "denormalize",
    "mixup",
    "mixup_or_cutmix",
    "normalize",
    "one_hot_smooth",
    "rand_augment",
    "random_crop",
    "random_erasing",
    "random_flip",
    "trivial_augment",
]


@dataclass(frozen=True, kw_only=True)
class Augment:
    """A choice of augmentations; what is left at its default does nothing.

    Args:
        crop_padding: Random crops of the picture padded with this many black pixels.
        flip: Mirror half of the pictures left to right; not for digits or letters.
        policy: Random operations: `randaugment`, `trivialaugment` or `none`.
        num_ops: RandAugment's operations for each picture.
        magnitude: RandAugment's strength, 0 to 30.
        erasing: Probability of hiding a random rectangle.
        cutout: Side of a square hidden in each picture, 0 for none.
        mixup: Alpha of mixup, 0 for none; with `cutmix` too each picture gets one of the two.
        cutmix: Alpha of CutMix, 0 for none.
        label_smoothing: Part of the label's weight shared among all classes.
    """

    crop_padding: int = 0
    flip: bool = False
    policy: Literal["none", "randaugment", "trivialaugment"] = "none"
    num_ops: int = 2
    magnitude: int = 9
    erasing: float = 0.0
    cutout: int = 0
    mixup: float = 0.0
    cutmix: float = 0.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        for name in ("crop_padding", "num_ops", "cutout", "mixup", "cutmix"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be a number that is at least 0, got {value}.")
        if self.policy not in ("none", "randaugment", "trivialaugment"):
            raise ValueError(
                f"policy must be none, randaugment or trivialaugment, got {self.policy!r}."
            )
        if not 0 <= self.magnitude <= MAX_MAGNITUDE:
            raise ValueError(f"magnitude must be 0 to {MAX_MAGNITUDE}, got {self.magnitude}.")
        if not 0 <= self.erasing <= 1:
            raise ValueError(f"erasing must be a probability from 0 to 1, got {self.erasing}.")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"label_smoothing must be at least 0 and below 1, got {self.label_smoothing}."
            )

    @property
    def soft_targets(self) -> bool:
        """Whether targets come out as rows of class weights rather than as class numbers."""
        return self.mixup > 0 or self.cutmix > 0 or self.label_smoothing > 0

    def __call__(
        self,
        images: Tensor,
        labels: Tensor,
        *,
        num_classes: int,
        mean: Sequence[float],
        std: Sequence[float],
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """Augments and normalises one batch.

        Args:
            images: Pictures of shape (batch, channels, height, width), uint8.
            labels: Class numbers of shape (batch,).
            num_classes: Number of classes, the length of soft targets.
            mean: Mean of each channel of the training pictures, in [0, 1].
            std: Standard deviation of each channel.
            generator: CPU generator for all draws, usually of `keyed_generator`.

        Returns:
            Normalised float32 pictures of the same shape, and the targets: `labels` themselves, or
            rows of shape (batch, num_classes) if `soft_targets`.
        """
        _check_images(images)
        if self.crop_padding:
            images = random_crop(images, self.crop_padding, generator)
        if self.flip:
            images = random_flip(images, generator)
        if self.policy == "randaugment":
            images = rand_augment(images, self.num_ops, self.magnitude, generator)
        elif self.policy == "trivialaugment":
            images = trivial_augment(images, generator)
        images = normalize(images, mean, std)
        if self.erasing:
            images = random_erasing(images, self.erasing, generator)
        if self.cutout:
            images = cutout(images, self.cutout, generator)
        if not self.soft_targets:
            return images, labels
        targets = one_hot_smooth(labels, num_classes, self.label_smoothing)  # (B, num_classes)
        if self.mixup and self.cutmix:
            return mixup_or_cutmix(images, targets, self.mixup, self.cutmix, generator)
        if self.mixup:
            return mixup(images, targets, self.mixup, generator)
        if self.cutmix:
            return cutmix(images, targets, self.cutmix, generator)
        return images, targets


def normalize(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Scales uint8 pictures to [0, 1], then each channel by its mean and standard deviation.

    Args:
        images: Pictures of shape (batch, channels, height, width), uint8.
        mean: Mean of each channel, in [0, 1].
        std: Standard deviation of each channel.

    Returns:
        Pictures of the same shape, float32.
    """
    _check_images(images)
    if not len(mean) == len(std) == images.shape[1]:
        raise ValueError(
            f"mean and std must have one number for each of the {images.shape[1]} channels, "
            f"got {len(mean)} and {len(std)}."
        )
    shift = torch.tensor(mean, dtype=torch.float32, device=images.device)[:, None, None]
    scale = torch.tensor(std, dtype=torch.float32, device=images.device)[:, None, None]
    return images.float().sub_(255 * shift).div_(255 * scale)


def denormalize(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """The uint8 pictures whose `normalize` these are, for looking at what the model sees."""
    shift = torch.tensor(mean, dtype=torch.float32, device=images.device)[:, None, None]
    scale = torch.tensor(std, dtype=torch.float32, device=images.device)[:, None, None]
    return (255 * (images * scale + shift)).round().clamp(0, 255).to(torch.uint8)


def _check_images(images: Tensor) -> None:
    if images.ndim != 4 or images.dtype != torch.uint8:
        raise ValueError(
            "images must be uint8 of shape (batch, channels, height, width), "
            f"got {images.dtype} of shape {tuple(images.shape)}."
        )
