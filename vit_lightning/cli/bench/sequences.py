"""Sequence reversal the way a course notebook has it, to compare with: one sample at a time.

The set-up of the UvA deep-learning course: one layer, one head, 32 wide, Adam under a cosine with
warmup, a Dataset that returns single samples. It is written anew after that description.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from vit_lightning.optim import cosine_warmup_factor

NUM_CATEGORIES, LENGTH, DIM, BATCH = 10, 16, 32, 128


class ReversedSamples(Dataset[tuple[Tensor, Tensor]]):
    """Random sequences, reversed when they are asked for.

    Args:
        size: how many.
        seed: of the sequences.
    """

    def __init__(self, size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.data = torch.randint(NUM_CATEGORIES, (size, LENGTH), generator=generator)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        sequence = self.data[index]
        return sequence, torch.flip(sequence, dims=(0,))


def sample_loaders(size: int, seed: int) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Make the loaders for training and validation."""
    train = DataLoader(ReversedSamples(size, seed), BATCH, shuffle=True, drop_last=True)
    return train, DataLoader(ReversedSamples(1_000, seed + 1_000), BATCH)


class NotebookPredictor(LightningModule):
    """The network with its loss, optimizer and schedule.

    Args:
        max_iters: steps until the learning rate is zero.
    """

    positions: Tensor

    def __init__(self, max_iters: int) -> None:
        super().__init__()
        self.max_iters = max_iters
        self.embed = nn.Linear(NUM_CATEGORIES, DIM)
        self.register_buffer("positions", _waves(LENGTH, DIM))
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        for layer in (self.qkv, self.out):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.net = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.ReLU(), nn.Linear(2 * DIM, DIM))
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.head = nn.Sequential(
            nn.Linear(DIM, DIM), nn.LayerNorm(DIM), nn.ReLU(), nn.Linear(DIM, NUM_CATEGORIES)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Predict an element for each of the one-hot ones, (batch, length, categories)."""
        x = self.embed(x) + self.positions
        q, k, v = self.qkv(x).chunk(3, dim=-1)  # (B, L, D) each
        weights = (q @ k.mT / math.sqrt(DIM)).softmax(dim=-1)  # (B, L, L)
        x = self.norm1(x + self.out(weights @ v))
        x = self.norm2(x + self.net(x))
        logits: Tensor = self.head(x)
        return logits

    def _step(self, batch: tuple[Tensor, Tensor], stage: str) -> Tensor:
        sequences, labels = batch
        logits = self(F.one_hot(sequences, NUM_CATEGORIES).float())
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        self.log(f"{stage}_loss", loss)
        self.log(f"{stage}_acc", (logits.argmax(dim=-1) == labels).float().mean())
        return loss

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """Return the loss of a training batch."""
        return self._step(batch, "train")

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        """Log the accuracy of a validation batch."""
        self._step(batch, "val")

    def configure_optimizers(self) -> Any:
        """Set up Adam, and a schedule that is stepped with it."""
        optimizer = torch.optim.Adam(self.parameters(), lr=5e-4)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: cosine_warmup_factor(step, 50, self.max_iters)
        )
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


def _waves(length: int, dim: int) -> Tensor:
    angles = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(0, dim, 2) / dim)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (L, D)
