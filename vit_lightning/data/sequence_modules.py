"""LightningDataModules for sequences: reversal, and three questions about the whole sequence."""

import math
from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from vit_lightning.data.loader import TensorLoader
from vit_lightning.data.sequences import (
    PAD,
    break_palindromes,
    check_sizes,
    distinct_sequences,
    draw_sequences,
    make_palindromes,
    reverse_sequences,
    symbol_counts,
)

Objective = Literal["cross_entropy", "binary_cross_entropy", "mean_squared_error"]


class SequenceDataModule(LightningDataModule, ABC):
    """Disjoint splits of random sequences, all of it a function of the seed.

    Args:
        num_categories: number of different symbols.
        seq_len: length of a sequence, or of the longest.
        min_len: length of the shortest; None means all have `seq_len`.
        train_size: number of training sequences.
        val_size: number of validation sequences.
        test_size: number of test sequences.
        batch_size: sequences a batch.
        seed: of the sequences, the split and the order.
    """

    def __init__(
        self,
        num_categories: int = 10,
        seq_len: int = 16,
        min_len: int | None = None,
        train_size: int = 50_000,
        val_size: int = 1_000,
        test_size: int = 10_000,
        batch_size: int = 128,
        seed: int = 0,
    ) -> None:
        super().__init__()
        sizes = {"train_size": train_size, "val_size": val_size, "test_size": test_size}
        check_sizes(num_categories, seq_len, min_len, **sizes, batch_size=batch_size)
        self.num_categories = num_categories
        self.seq_len = seq_len
        self.min_len = seq_len if min_len is None else min_len
        self.sizes = (train_size, val_size, test_size)
        self.batch_size = batch_size
        self.seed = seed
        self.splits: dict[str, tuple[Tensor, Tensor]] = {}
        self.test_split = "test"  # which of them `test` measures
        self.save_hyperparameters()

    @property
    @abstractmethod
    def objective(self) -> Objective:
        """The loss the labels are made for."""

    @property
    @abstractmethod
    def num_outputs(self) -> int:
        """Numbers the model predicts at a time."""

    @property
    def label_mean(self) -> float:
        """Expected value of labels that are numbers; 0 for classes."""
        return 0.0

    @property
    def label_std(self) -> float:
        """Standard deviation of labels that are numbers; 1 for classes."""
        return 1.0

    @property
    def steps_per_epoch(self) -> int:
        """Training batches an epoch."""
        return -(-self.sizes[0] // self.batch_size)

    @abstractmethod
    def sequences(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw `size` different sequences in random order, padded to (size, seq_len)."""

    @abstractmethod
    def label(self, sequences: Tensor) -> Tensor:
        """Say what is to be predicted of the sequences."""

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw `size` sequences of independent symbols, not all different."""
        return draw_sequences(self.num_categories, self.seq_len, size, self.min_len, generator)

    def setup(self, stage: str | None = None) -> None:
        """Draw the sequences, once, and split them."""
        if self.splits:
            return
        sequences = self.sequences(sum(self.sizes), torch.Generator().manual_seed(self.seed))
        parts = torch.split(sequences, list(self.sizes))
        names = ("train", "val", "test")
        self.splits = {n: (part, self.label(part)) for n, part in zip(names, parts, strict=True)}

    def train_dataloader(self) -> TensorLoader:
        """Return the training batches, in another order every epoch."""
        return TensorLoader(self.splits["train"], self.batch_size, shuffle=True, seed=self.seed)

    def val_dataloader(self) -> TensorLoader:
        """Return the validation batches."""
        return TensorLoader(self.splits["val"], self.batch_size)

    def test_dataloader(self) -> TensorLoader:
        """Return the test batches."""
        return TensorLoader(self.splits[self.test_split], self.batch_size)

    def predict_dataloader(self) -> TensorLoader:
        """Return the test batches, to look at what is predicted for them."""
        return self.test_dataloader()


class ReverseDataModule(SequenceDataModule):
    """Predict the flipped sequence, element by element."""

    @property
    def objective(self) -> Objective:
        """Each element is a choice among the symbols."""
        return "cross_entropy"

    @property
    def num_outputs(self) -> int:
        """One logit a symbol."""
        return self.num_categories

    def sequences(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw different sequences of independent symbols."""
        return distinct_sequences(lambda n: self.draw(n, generator), size, generator)

    def label(self, sequences: Tensor) -> Tensor:
        """Flip the sequences."""
        return reverse_sequences(sequences)


class SequencePropertyDataModule(SequenceDataModule):
    """Predict one thing of the whole sequence.

    Args:
        target: "majority" asks for the most frequent symbol (sequences with a tie are left out),
            "palindrome" whether the sequence reads the same backwards (half of them do; the others
            are palindromes with one to all of their pairs broken), "sum" for the symbols' sum.
        sequences: the arguments of `SequenceDataModule`.
    """

    def __init__(self, target: Literal["majority", "palindrome", "sum"], **sequences: Any) -> None:
        super().__init__(**sequences)
        if target not in ("majority", "palindrome", "sum"):
            raise ValueError(f"target must be 'majority', 'palindrome' or 'sum', got {target!r}")
        if target == "palindrome" and self.min_len < 2:
            raise ValueError(f"min_len must be at least 2 for palindromes, got {self.min_len}")
        self.target = target

    @property
    def objective(self) -> Objective:
        """Each target has the loss that fits it."""
        objectives: dict[str, Objective] = {
            "majority": "cross_entropy",
            "palindrome": "binary_cross_entropy",
            "sum": "mean_squared_error",
        }
        return objectives[self.target]

    @property
    def num_outputs(self) -> int:
        """One logit a symbol for the most frequent, otherwise one number."""
        return self.num_categories if self.target == "majority" else 1

    @property
    def label_mean(self) -> float:
        """Expected sum of the symbols."""
        mean_length = (self.min_len + self.seq_len) / 2
        return mean_length * (self.num_categories - 1) / 2 if self.target == "sum" else 0.0

    @property
    def label_std(self) -> float:
        """Standard deviation of the sum: of the symbols, and of the length if it varies."""
        if self.target != "sum":
            return 1.0
        mean_length = (self.min_len + self.seq_len) / 2
        of_symbols = mean_length * (self.num_categories**2 - 1) / 12
        of_length = ((self.seq_len - self.min_len + 1) ** 2 - 1) / 12
        return math.sqrt(of_symbols + of_length * ((self.num_categories - 1) / 2) ** 2)

    def sequences(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw different sequences for which the question has an answer."""
        if self.target == "palindrome":
            halves = [
                distinct_sequences(draw, (size + 1) // 2, generator)
                for draw in (
                    lambda n: make_palindromes(self.draw(n, generator)),
                    lambda n: break_palindromes(
                        make_palindromes(self.draw(n, generator)), self.num_categories, generator
                    ),
                )
            ]
            return torch.stack(halves, dim=1).flatten(0, 1)[
                :size
            ]  # alternating: every split balanced
        if self.target == "majority":
            return distinct_sequences(lambda n: self._without_ties(n, generator), size, generator)
        return distinct_sequences(lambda n: self.draw(n, generator), size, generator)

    def _without_ties(self, size: int, generator: torch.Generator) -> Tensor:
        sequences = self.draw(2 * size, generator)
        first, second = symbol_counts(sequences, self.num_categories).topk(2).values.unbind(-1)
        return sequences[first > second]

    def label(self, sequences: Tensor) -> Tensor:
        """Answer the question: a class number, or a float (batch,)."""
        if self.target == "majority":
            return symbol_counts(sequences, self.num_categories).argmax(dim=1)
        if self.target == "palindrome":
            return (reverse_sequences(sequences).clamp(min=PAD) == sequences).all(dim=1).float()
        return sequences.clamp(min=0).sum(dim=1).float()
