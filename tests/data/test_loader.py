import pytest
import torch

from vit_lightning.data.loader import TensorLoader


def loader(**kwargs) -> TensorLoader:
    return TensorLoader((torch.arange(11), torch.arange(11) * 2), 3, **kwargs)


def test_every_sample_comes_once_and_the_tensors_stay_together():
    batches = list(loader(shuffle=True))
    assert [len(x) for x, _ in batches] == [3, 3, 3, 2]
    assert len(loader()) == 4
    x, y = (torch.cat(part) for part in zip(*batches, strict=True))
    assert sorted(x.tolist()) == list(range(11))
    assert torch.equal(y, 2 * x)


def test_order_is_a_function_of_seed_and_epoch():
    def order(seed: int, epoch: int) -> list[int]:
        batches = loader(shuffle=True, seed=seed)
        batches.sampler.set_epoch(epoch)
        torch.manual_seed(torch.randint(1000, ()).item())  # the ambient state does not matter
        return torch.cat([x for x, _ in batches]).tolist()

    assert order(3, 5) == order(3, 5)
    orders = [order(seed, epoch) for seed in range(3) for epoch in range(3)]
    assert len({tuple(o) for o in orders}) == 9


def test_without_shuffling_the_order_is_that_of_the_tensors():
    assert torch.cat([x for x, _ in loader()]).tolist() == list(range(11))


def test_keyed_batches_tell_epoch_and_number():
    batches = loader(shuffle=True, keyed=True)
    batches.sampler.set_epoch(7)
    plain = loader(shuffle=True)
    plain.sampler.set_epoch(7)
    keyed = list(batches)
    assert [key for *_, key in keyed] == [(7, 0), (7, 1), (7, 2), (7, 3)]
    for (x, y, _), expected in zip(keyed, plain, strict=True):
        assert torch.equal(x, expected[0])
        assert torch.equal(y, expected[1])
    assert [key for *_, key in batches] == [(7, 0), (7, 1), (7, 2), (7, 3)]  # from the start again


def test_bad_batch_size():
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        TensorLoader((torch.arange(3),), 0)


@pytest.mark.parametrize("position", range(6))
def test_it_goes_on_in_the_middle_of_an_epoch(position):
    def loader() -> TensorLoader:
        new = TensorLoader((torch.arange(53),), 11, shuffle=True, seed=3, keyed=True)
        new.sampler.set_epoch(2)
        return new

    first = loader()
    whole = [(numbers.tolist(), key) for numbers, key in first]
    stopped = loader()
    batches = iter(stopped)
    for _ in range(position):
        next(batches)
    assert stopped.state_dict() == {"position": position}
    resumed = loader()
    resumed.load_state_dict(stopped.state_dict())
    assert resumed.state_dict() == {"position": position}
    assert [(numbers.tolist(), key) for numbers, key in resumed] == whole[position:]
    assert [(numbers.tolist(), key) for numbers, key in resumed] == whole  # the next one is whole
