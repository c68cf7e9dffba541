import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.data import ReverseDataset
from vit_lightning.data.sequences import (
    IGNORE,
    PAD,
    break_palindromes,
    distinct_sequences,
    draw_sequences,
    make_palindromes,
    reverse_sequences,
    symbol_counts,
)


def padded(seed: int) -> torch.Tensor:
    return draw_sequences(5, 11, 23, 2, torch.Generator().manual_seed(seed))


def trimmed(row: torch.Tensor) -> list[int]:
    return [value for value in row.tolist() if value >= 0]


def test_labels_are_the_flipped_sequence():
    data = ReverseDataset(10, 7, 13, seed=3)
    assert len(data) == 13
    inputs, labels = data[5]
    assert inputs.shape == (7,)
    assert torch.equal(labels, inputs.flip(0))
    assert set(data.inputs.unique().tolist()) <= set(range(10))
    assert torch.equal(ReverseDataset(10, 7, 13, seed=3).inputs, data.inputs)
    assert not torch.equal(ReverseDataset(10, 7, 13, seed=4).inputs, data.inputs)


@given(seed=st.integers(0, 2**31))
def test_padding_stays_behind(seed):
    inputs = padded(seed)
    labels = reverse_sequences(inputs)
    for sequence, label in zip(inputs, labels, strict=True):
        assert trimmed(label) == trimmed(sequence)[::-1]
        assert (label == IGNORE).equal(sequence == PAD)
        assert (sequence == PAD).long().diff().min() >= 0  # padding only at the end
        assert len(trimmed(sequence)) >= 2


@given(seed=st.integers(0, 2**31))
def test_palindromes_and_broken_ones(seed):
    palindromes = make_palindromes(padded(seed))
    broken = break_palindromes(palindromes, 5, torch.Generator().manual_seed(seed))
    for whole, cracked in zip(palindromes, broken, strict=True):
        assert trimmed(whole) == trimmed(whole)[::-1]
        assert trimmed(cracked) != trimmed(cracked)[::-1]
        assert (whole == PAD).equal(cracked == PAD)
        assert cracked.max() < 5


def test_near_misses_are_common():
    generator = torch.Generator().manual_seed(0)
    palindromes = make_palindromes(draw_sequences(10, 16, 4000, 16, generator))
    changes = (break_palindromes(palindromes, 10, generator) != palindromes).sum(1)
    counts = changes.bincount(minlength=9)
    assert counts[0] == 0
    assert all(400 < count < 600 for count in counts[1:])  # 4000 over one to eight pairs


def test_symbol_counts_leave_padding_out():
    counts = symbol_counts(torch.tensor([[0, 2, 2, PAD], [1, 1, 1, 0]]), 3)
    assert counts.tolist() == [[1, 0, 2], [1, 3, 0]]


def test_distinct_sequences():
    generator = torch.Generator().manual_seed(0)
    found = distinct_sequences(lambda n: draw_sequences(3, 4, n, 4, generator), 75, generator)
    assert len(found) == len(found.unique(dim=0)) == 75  # of 81 that exist
    assert not torch.equal(found, found.unique(dim=0))  # not sorted
    with pytest.raises(ValueError, match="different sequences exist"):
        distinct_sequences(lambda n: draw_sequences(3, 4, n, 4, generator), 82, generator)


@pytest.mark.parametrize(
    "wrong", [{"num_categories": 1}, {"seq_len": 0}, {"size": -2}, {"min_len": 8}, {"min_len": 0}]
)
def test_bad_sizes(wrong):
    with pytest.raises(ValueError, match="must"):
        ReverseDataset(**({"num_categories": 5, "seq_len": 7, "size": 11} | wrong))
