import torch

from vit_lightning.data.keyed import keyed_generator


def draw(*key: int) -> float:
    return torch.rand(1, generator=keyed_generator(*key), dtype=torch.float64).item()


def test_a_key_gives_the_same_numbers_whenever_it_is_asked_for():
    torch.manual_seed(7)
    first = draw(3, 5, 7)
    torch.manual_seed(8)
    assert draw(3, 5, 7) == first


def test_keys_do_not_run_into_each_other():
    keys = [(a, b, c) for a in range(5) for b in range(5) for c in range(5)]
    keys += [(a, b) for a in range(5) for b in range(5)]
    assert len({draw(*key) for key in keys}) == len(keys)


def test_the_ambient_state_is_left_alone():
    before = torch.get_rng_state()
    draw(1, 2)
    assert torch.equal(torch.get_rng_state(), before)
