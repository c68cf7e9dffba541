"""Sequences of symbols, drawn in one vectorised call, and what can be asked of them.

Shorter sequences are padded: `PAD` in the inputs, `IGNORE` in labels that go element by element.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.data import Dataset

PAD = -1
IGNORE = -100  # what torch's cross-entropy skips


def draw_sequences(
    num_categories: int, seq_len: int, size: int, min_len: int, generator: torch.Generator
) -> Tensor:
    """Draw `size` sequences of `min_len` to `seq_len` symbols, padded to (size, seq_len)."""
    symbols = torch.randint(num_categories, (size, seq_len), generator=generator)
    if min_len < seq_len:
        lengths = torch.randint(min_len, seq_len + 1, (size, 1), generator=generator)
        symbols[torch.arange(seq_len) >= lengths] = PAD
    return symbols


def distinct_sequences(
    draw: Callable[[int], Tensor], size: int, generator: torch.Generator
) -> Tensor:
    """Draw until there are `size` sequences of which no two are the same, in random order.

    Args:
        draw: gives about that many sequences.
        size: how many are wanted.
        generator: of the order.
    """
    found: Tensor = torch.unique(draw(size + size // 10), dim=0)
    while len(found) < size:
        more = torch.unique(torch.cat([found, draw(size)]), dim=0)
        # A draw as large as the whole set that brings next to nothing has exhausted what there is.
        if len(more) - len(found) < max(1, (size - len(more)) // 100):
            raise ValueError(
                f"only about {len(more)} different sequences exist but train, val and test need "
                f"{size} together; raise seq_len or num_categories or lower the sizes"
            )
        found = more
    return found[torch.randperm(len(found), generator=generator)[:size]]


def reverse_sequences(sequences: Tensor) -> Tensor:
    """Flip each sequence and leave its padding behind it, as `IGNORE`."""
    length = (sequences != PAD).sum(dim=1, keepdim=True)  # (N, 1)
    source = length - 1 - torch.arange(sequences.shape[1])  # (N, L), negative in the padding
    flipped = sequences.gather(1, source.clamp(min=0))
    return flipped.masked_fill(source < 0, IGNORE)


def make_palindromes(sequences: Tensor) -> Tensor:
    """Copy the first half of each sequence, mirrored, over its second."""
    mirrored = reverse_sequences(sequences)
    length = (sequences != PAD).sum(dim=1, keepdim=True)  # (N, 1)
    in_second_half = 2 * torch.arange(sequences.shape[1]) >= length  # (N, L)
    return torch.where(in_second_half & (sequences != PAD), mirrored, sequences)


def break_palindromes(
    palindromes: Tensor, num_categories: int, generator: torch.Generator
) -> Tensor:
    """Change the first symbol of some pairs, at least one in each palindrome.

    How many pairs break is uniform between one and all, so that near misses are common.
    """
    size, seq_len = palindromes.shape
    num_pairs = (palindromes != PAD).sum(dim=1, keepdim=True) // 2  # (N, 1)
    is_pair = torch.arange(seq_len) < num_pairs  # (N, L)
    num_broken = 1 + (torch.rand(size, 1, generator=generator) * num_pairs).long()  # (N, 1)
    chance = torch.rand(size, seq_len, generator=generator).masked_fill(~is_pair, 2.0)
    broken = (chance.argsort(dim=1).argsort(dim=1) < num_broken) & is_pair
    shift = torch.randint(1, num_categories, (size, seq_len), generator=generator)
    return torch.where(broken, (palindromes + shift) % num_categories, palindromes)


def symbol_counts(sequences: Tensor, num_categories: int) -> Tensor:
    """Count each symbol in each sequence: (N, L) -> (N, num_categories)."""
    present = (sequences != PAD).long()
    counts = torch.zeros(len(sequences), num_categories, dtype=torch.long)
    return counts.scatter_add_(1, sequences.clamp(min=0), present)


class ReverseDataset(Dataset[tuple[Tensor, Tensor]]):
    """Random sequences; the labels are the flipped sequence.

    Args:
        num_categories: number of different symbols.
        seq_len: length of a sequence, or of the longest.
        size: number of sequences.
        min_len: length of the shortest; None means all have `seq_len`.
        seed: the sequences are a function of it.
    """

    def __init__(
        self,
        num_categories: int,
        seq_len: int,
        size: int,
        *,
        min_len: int | None = None,
        seed: int = 0,
    ) -> None:
        check_sizes(num_categories, seq_len, min_len, size=size)
        generator = torch.Generator().manual_seed(seed)
        shortest = seq_len if min_len is None else min_len
        self.inputs = draw_sequences(num_categories, seq_len, size, shortest, generator)
        self.labels = reverse_sequences(self.inputs)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.labels[index]


def check_sizes(num_categories: int, seq_len: int, min_len: int | None, **sizes: int) -> None:
    """Refuse sizes that make no sequences."""
    if num_categories < 2:
        raise ValueError(f"num_categories must be at least 2, got {num_categories}")
    for name, value in {"seq_len": seq_len, **sizes}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if min_len is not None and not 1 <= min_len <= seq_len:
        raise ValueError(f"min_len must lie between 1 and seq_len={seq_len}, got {min_len}")
