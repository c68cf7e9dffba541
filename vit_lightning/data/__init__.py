"""Datasets, DataModules and where they come from.

The names are imported when they are first asked for: fetching and listing data need neither torch
nor Lightning, and should not wait for them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vit_lightning.data.image_modules import (
        CIFAR10DataModule,
        DigitsDataModule,
        FashionMNISTDataModule,
        ImageDataModule,
        MNISTDataModule,
    )
    from vit_lightning.data.sequence_modules import (
        ReverseDataModule,
        SequenceDataModule,
        SequencePropertyDataModule,
    )
    from vit_lightning.data.sequences import (
        ReverseDataset,
    )

__all__ = [
    "CIFAR10DataModule",
    "DigitsDataModule",
    "FashionMNISTDataModule",
    "ImageDataModule",
    "MNISTDataModule",
    "ReverseDataModule",
    "ReverseDataset",
    "SequenceDataModule",
    "SequencePropertyDataModule",
]

_HOMES = {
    "CIFAR10DataModule": "image_modules",
    "DigitsDataModule": "image_modules",
    "FashionMNISTDataModule": "image_modules",
    "ImageDataModule": "image_modules",
    "MNISTDataModule": "image_modules",
    "ReverseDataModule": "sequence_modules",
    "ReverseDataset": "sequences",
    "SequenceDataModule": "sequence_modules",
    "SequencePropertyDataModule": "sequence_modules",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
