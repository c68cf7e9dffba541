"""Datasets, DataModules and where they come from."""

from vit_lightning.data.sequence_modules import (
    ReverseDataModule,
    SequenceDataModule,
    SequencePropertyDataModule,
)
from vit_lightning.data.sequences import ReverseDataset

__all__ = [
    "ReverseDataModule",
    "ReverseDataset",
    "SequenceDataModule",
    "SequencePropertyDataModule",
]
