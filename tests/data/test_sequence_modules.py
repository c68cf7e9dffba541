import pytest
import torch

from vit_lightning.data import ReverseDataModule, SequencePropertyDataModule
from vit_lightning.data.sequences import PAD

SIZES = {"train_size": 211, "val_size": 31, "test_size": 53, "num_categories": 5, "seq_len": 7}


def reverse(**kwargs):
    return ReverseDataModule(**(SIZES | kwargs))


def majority(**kwargs):
    return SequencePropertyDataModule("majority", **(SIZES | kwargs))


def palindrome(**kwargs):
    return SequencePropertyDataModule("palindrome", **(SIZES | kwargs))


def total(**kwargs):
    return SequencePropertyDataModule("sum", **(SIZES | kwargs))


every_module = pytest.mark.parametrize("make", [reverse, majority, palindrome, total])
every_length = pytest.mark.parametrize("min_len", [None, 4])


@every_length
@every_module
def test_splits_are_disjoint_and_a_function_of_the_seed(make, min_len):
    data, again, other = (make(min_len=min_len, seed=seed) for seed in (1, 1, 2))
    for module in (data, again, other):
        module.setup()
    parts = [inputs for inputs, _ in data.splits.values()]
    assert [len(part) for part in parts] == [211, 31, 53]
    assert len(torch.cat(parts).unique(dim=0)) == 295
    assert all(
        torch.equal(a[0], b[0])
        for a, b in zip(data.splits.values(), again.splits.values(), strict=True)
    )
    assert not torch.equal(data.splits["train"][0], other.splits["train"][0])
    assert bool((torch.cat(parts) == PAD).any()) == (min_len is not None)


@every_length
def test_majority_is_the_most_frequent_symbol(min_len):
    data = majority(min_len=min_len)
    data.setup()
    for sequence, label in zip(*data.splits["train"], strict=True):
        symbols = [s for s in sequence.tolist() if s != PAD]
        counts = sorted((symbols.count(s) for s in set(symbols)), reverse=True)
        assert symbols.count(label.item()) == counts[0]
        assert len(counts) == 1 or counts[0] > counts[1]


@every_length
def test_palindromes_are_balanced_in_every_split(min_len):
    data = palindrome(min_len=min_len)
    data.setup()
    for sequences, labels in data.splits.values():
        assert abs(2 * labels.sum().item() - len(labels)) <= 1
        for sequence, label in zip(sequences, labels, strict=True):
            symbols = [s for s in sequence.tolist() if s != PAD]
            assert (symbols == symbols[::-1]) == bool(label)


@every_length
def test_sum_and_its_stated_mean_and_deviation(min_len):
    data = total(min_len=min_len, train_size=20_000, num_categories=10, seq_len=11)
    data.setup()
    sequences, labels = data.splits["train"]
    assert labels[3] == sum(s for s in sequences[3].tolist() if s != PAD)
    assert labels.mean().item() == pytest.approx(data.label_mean, rel=0.02)
    assert labels.std().item() == pytest.approx(data.label_std, rel=0.02)


def test_each_loss_is_used():
    objectives = [make().objective for make in (reverse, majority, palindrome, total)]
    assert objectives == [
        "cross_entropy",
        "cross_entropy",
        "binary_cross_entropy",
        "mean_squared_error",
    ]


def test_loaders():
    data = reverse(batch_size=13)
    data.setup()
    assert len(data.train_dataloader()) == data.steps_per_epoch == 17
    assert data.train_dataloader().sampler.shuffle
    assert not data.val_dataloader().sampler.shuffle
    assert torch.equal(next(iter(data.test_dataloader()))[0], data.splits["test"][0][:13])


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (reverse, {"batch_size": 0}),
        (reverse, {"seq_len": -7}),
        (palindrome, {"min_len": 1}),
        (lambda **kwargs: SequencePropertyDataModule("mode", **kwargs), {}),
    ],
)
def test_bad_arguments(make, wrong):
    with pytest.raises(ValueError, match="must be"):
        make(**wrong)


def test_more_sequences_than_exist():
    with pytest.raises(ValueError, match="different sequences exist"):
        reverse(seq_len=2).setup()
