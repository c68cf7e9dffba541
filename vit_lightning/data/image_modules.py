"""LightningDataModules for image sets that fit in memory.

Pictures stay uint8 tensors in RAM; a batch is augmented and normalised, all of it at once, after it
has been moved to where the model runs.
"""

from dataclasses import asdict
from typing import Any, ClassVar

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from vit_lightning.data.augment import Augment, denormalize, normalize
from vit_lightning.data.catalog import CATALOG
from vit_lightning.data.fetch import fetch
from vit_lightning.data.keyed import keyed_generator
from vit_lightning.data.loader import TensorLoader


class ImageDataModule(LightningDataModule):
    """A seeded train/val split of the training pictures; the test pictures are left for `test`.

    Args:
        dir: the data folder; None means `VIT_LIGHTNING_DATA` or a per-user cache.
        train_size: training pictures; None means all that validation leaves.
        val_size: pictures of the training set kept for validation; None means a tenth.
        batch_size: pictures a batch.
        augment: what is done to training pictures, and to no others.
        seed: of split, order and augmentation.
    """

    dataset: ClassVar[str]

    def __init__(
        self,
        dir: str | None = None,
        train_size: int | None = None,
        val_size: int | None = None,
        batch_size: int = 128,
        augment: Augment = Augment(),  # noqa: B008  (frozen)
        seed: int = 0,
    ) -> None:
        super().__init__()
        spec = CATALOG[self.dataset]
        self.dir = dir
        self.val_size = spec.num_train // 10 if val_size is None else val_size
        self.train_size = spec.num_train - self.val_size if train_size is None else train_size
        for name, size in (("train_size", self.train_size), ("val_size", self.val_size)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        if self.train_size + self.val_size > spec.num_train:
            raise ValueError(
                f"train_size + val_size must be at most the {spec.num_train:,} training pictures "
                f"of {self.dataset}, got {self.train_size:,} + {self.val_size:,}"
            )
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.batch_size = batch_size
        self.augment = augment
        self.seed = seed
        self.class_names = spec.class_names
        self.num_classes = len(spec.class_names)
        self.in_channels, self.image_size, _ = spec.shape
        self.mean: list[float] = []
        self.std: list[float] = []
        self.splits: dict[str, tuple[Tensor, Tensor]] = {}
        self.test_split = "test"  # which of them `test` measures
        self.pictures: Tensor | None = None  # uint8, to predict; they need none of the data set
        # A checkpoint may be used on another machine, where the folder is another.
        self.save_hyperparameters(ignore=["dir", "augment"])
        self.hparams["augment"] = asdict(augment)

    @property
    def steps_per_epoch(self) -> int:
        """Training batches an epoch."""
        return -(-self.train_size // self.batch_size)

    def prepare_data(self) -> None:
        """Fetch the set if it is not there yet."""
        if self.pictures is None:
            fetch(self.dataset, self.dir)

    def setup(self, stage: str | None = None) -> None:
        """Load the pictures, once, split them and measure the training part."""
        if self.splits or self.pictures is not None:
            return
        images = fetch(self.dataset, self.dir, verify=False)
        pictures, labels = torch.tensor(images.train_images), torch.tensor(images.train_labels)
        order = torch.randperm(len(labels), generator=keyed_generator(self.seed))
        train, val = order[self.val_size :][: self.train_size], order[: self.val_size]
        self.splits = {
            "train": (pictures[train], labels[train]),
            "val": (pictures[val], labels[val]),
            "test": (torch.tensor(images.test_images), torch.tensor(images.test_labels)),
        }
        self.mean, self.std = channel_statistics(self.splits["train"][0])

    def train_dataloader(self) -> TensorLoader:
        """Return the training batches, in another order every epoch."""
        return TensorLoader(
            self.splits["train"], self.batch_size, shuffle=True, seed=self.seed, keyed=True
        )

    def val_dataloader(self) -> TensorLoader:
        """Return the validation batches."""
        return TensorLoader(self.splits["val"], self.batch_size)

    def test_dataloader(self) -> TensorLoader:
        """Return the test batches."""
        return TensorLoader(self.splits[self.test_split], self.batch_size)

    def predict_dataloader(self) -> TensorLoader:
        """Return batches of `pictures`, with their numbers for labels."""
        if self.pictures is None:
            raise ValueError("pictures must be set to uint8 images before they can be predicted")
        return TensorLoader((self.pictures, torch.arange(len(self.pictures))), self.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """Keep what pictures are normalised by in the checkpoint."""
        return {"mean": self.mean, "std": self.std}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Normalise as the run did that wrote the checkpoint."""
        self.mean, self.std = state_dict["mean"], state_dict["std"]

    def denormalize(self, images: Tensor) -> Tensor:
        """Return the uint8 pictures behind normalised ones."""
        return denormalize(images, self.mean, self.std)

    def on_after_batch_transfer(
        self, batch: tuple[Any, ...], dataloader_idx: int
    ) -> tuple[Tensor, Tensor]:
        """Augment the batches that carry a key, which are those for training; normalise all."""
        images, labels, *key = batch
        if not key:
            return normalize(images, self.mean, self.std), labels
        return self.augment(
            images,
            labels,
            num_classes=self.num_classes,
            mean=self.mean,
            std=self.std,
            generator=keyed_generator(self.seed, *key[0]),
        )


class CIFAR10DataModule(ImageDataModule):
    """CIFAR-10: 32x32 colour photographs of ten kinds of things; 45,000/5,000/10,000 by default."""

    dataset = "cifar10"


class MNISTDataModule(ImageDataModule):
    """MNIST: 28x28 grey handwritten digits; 54,000/6,000/10,000 by default."""

    dataset = "mnist"


class FashionMNISTDataModule(ImageDataModule):
    """Fashion-MNIST: 28x28 grey pieces of clothing; 54,000/6,000/10,000 by default."""

    dataset = "fashion-mnist"


class DigitsDataModule(ImageDataModule):
    """Digits: 8x8 grey handwritten digits inside scikit-learn, there without any network."""

    dataset = "digits"


def channel_statistics(images: Tensor) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel of uint8 pictures, as parts of 255."""
    levels = torch.arange(256, dtype=torch.float64)
    means, deviations = [], []
    for channel in images.unbind(1):
        share = torch.bincount(channel.flatten(), minlength=256).double() / channel.numel()
        mean = (share * levels).sum()
        means.append(mean.item() / 255)
        deviations.append((share * (levels - mean) ** 2).sum().sqrt().item() / 255)
    return means, deviations
