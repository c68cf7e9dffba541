from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.transforms.v2 import functional as reference

from vit_lightning.data.augment import Augment, denormalize, normalize
from vit_lightning.data.keyed import keyed_generator

B, H, W, CLASSES = 23, 11, 13, 7
MEAN, STD = (0.31, 0.47, 0.59), (0.21, 0.23, 0.27)

EVERYTHING = {
    "crop": {"crop_padding": 2},
    "flip": {"flip": True},
    "randaugment": {"policy": "randaugment"},
    "trivialaugment": {"policy": "trivialaugment"},
    "erasing": {"erasing": 0.5},
    "cutout": {"cutout": 3},
    "mixup": {"mixup": 0.8},
    "cutmix": {"cutmix": 1.0},
    "both": {"mixup": 0.8, "cutmix": 1.0},
    "all": {
        "crop_padding": 2,
        "flip": True,
        "policy": "randaugment",
        "erasing": 0.3,
        "cutout": 3,
        "mixup": 0.8,
        "cutmix": 1.0,
        "label_smoothing": 0.1,
    },
}


def batch(channels: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = (B, channels, H, W)
    images = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return images, torch.randint(CLASSES, (B,), generator=generator)


def run(
    config: dict[str, Any], *, seed: int = 0, epoch: int = 0, step: int = 0, channels: int = 3
) -> tuple[torch.Tensor, torch.Tensor]:
    return Augment(**config)(
        *batch(channels),
        num_classes=CLASSES,
        mean=MEAN[:channels],
        std=STD[:channels],
        generator=keyed_generator(seed, epoch, step),
    )


def test_against_torchvision_normalize() -> None:
    images, _ = batch()
    theirs = reference.normalize(reference.to_dtype(images, torch.float32, scale=True), MEAN, STD)
    ours = normalize(images, MEAN, STD)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_denormalize_gives_the_very_pictures_back() -> None:
    images, _ = batch()
    assert torch.equal(denormalize(normalize(images, MEAN, STD), MEAN, STD), images)
    outside = torch.tensor([-9.0, 9.0]).view(2, 1, 1, 1)
    assert denormalize(outside, [0.5], [0.2]).flatten().tolist() == [0, 255]


def test_the_default_normalises_and_changes_nothing_else() -> None:
    images, labels = batch()
    result, targets = run({})
    assert torch.equal(result, normalize(images, MEAN, STD))
    assert torch.equal(targets, labels)
    assert not targets.is_floating_point()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", EVERYTHING)
def test_every_augmentation_changes_pictures_and_keeps_shape_and_type(
    name: str, channels: int
) -> None:
    images, labels = batch(channels)
    kept = images.clone()
    result, targets = run(EVERYTHING[name], channels=channels)
    plain = normalize(images, MEAN[:channels], STD[:channels])
    assert result.shape == images.shape
    assert result.dtype == torch.float32
    assert torch.isfinite(result).all()
    assert not torch.equal(result, plain)
    assert torch.equal(images, kept)
    if Augment(**EVERYTHING[name]).soft_targets:
        assert targets.shape == (B, CLASSES)
        torch.testing.assert_close(targets.sum(dim=1), torch.ones(B))
    else:
        assert torch.equal(targets, labels)


@pytest.mark.parametrize("name", EVERYTHING)
def test_pictures_are_a_function_of_seed_epoch_and_step(name: str) -> None:
    images, targets = run(EVERYTHING[name], seed=3, epoch=5, step=7)
    torch.rand(11)  # ambient draws in between make no difference
    again, targets_again = run(EVERYTHING[name], seed=3, epoch=5, step=7)
    assert torch.equal(images, again)
    assert torch.equal(targets, targets_again)
    for key in ((4, 5, 7), (3, 6, 7), (3, 5, 8)):
        other, _ = run(EVERYTHING[name], seed=key[0], epoch=key[1], step=key[2])
        assert not torch.equal(images, other)


def test_ambient_random_state_is_untouched() -> None:
    before = torch.get_rng_state()
    for config in EVERYTHING.values():
        run(config)
    assert torch.equal(torch.get_rng_state(), before)


def test_smoothing_alone_gives_soft_targets() -> None:
    _, labels = batch()
    _, targets = run({"label_smoothing": 0.14})
    assert torch.equal(targets.argmax(dim=1), labels)
    torch.testing.assert_close(targets.amin(dim=1), torch.full((B,), 0.02))


def test_hidden_parts_have_the_mean_colour() -> None:
    images, _ = batch()
    result, _ = run({"cutout": 3})
    changed = result != normalize(images, MEAN, STD)
    assert changed.any()
    assert torch.all(result[changed] == 0)


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(-(2**40), 2**63), epoch=st.integers(0, 2**20), step=st.integers(0, 2**31))
def test_neighbouring_keys_give_unrelated_numbers(seed: int, epoch: int, step: int) -> None:
    keys = [(seed, epoch, step), (seed + 1, epoch, step), (seed, epoch + 1, step)]
    keys += [(seed, epoch, step + 1), (seed, step + 2, epoch), (epoch + 3, seed, step)]
    draws = torch.stack([torch.rand(997, generator=keyed_generator(*key)) for key in keys])
    correlation = torch.corrcoef(draws) - torch.eye(len(keys))
    assert correlation.abs().max() < 0.2
    assert torch.equal(draws[0], torch.rand(997, generator=keyed_generator(*keys[0])))


def test_first_numbers_of_successive_steps_are_spread_evenly() -> None:
    first = torch.stack([torch.rand(1, generator=keyed_generator(0, 0, i)) for i in range(2000)])
    counts = torch.histc(first, bins=10, min=0, max=1)
    assert torch.all((counts > 140) & (counts < 260))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"crop_padding": -1}, "crop_padding must be a number that is at least 0, got -1"),
        ({"num_ops": -2}, "num_ops must be a number that is at least 0, got -2"),
        ({"cutout": -3}, "cutout must be a number that is at least 0, got -3"),
        ({"mixup": -0.1}, "mixup must be a number that is at least 0, got -0.1"),
        ({"cutmix": float("nan")}, "cutmix must be a number that is at least 0, got nan"),
        ({"policy": "autoaugment"}, "policy must be none, randaugment or trivialaugment"),
        ({"magnitude": 31}, "magnitude must be 0 to 30, got 31"),
        ({"erasing": 1.5}, "erasing must be a probability from 0 to 1, got 1.5"),
        ({"label_smoothing": 1.0}, "label_smoothing must be at least 0 and below 1, got 1.0"),
    ],
)
def test_impossible_settings_are_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Augment(**config)


def test_wrong_pictures_are_refused() -> None:
    images, _ = batch()
    with pytest.raises(ValueError, match=r"must be uint8 of shape .* got torch.float32"):
        normalize(images.float(), MEAN, STD)
    with pytest.raises(ValueError, match=r"got torch.uint8 of shape \(3, 11, 13\)"):
        Augment(crop_padding=2)(
            images[0],
            torch.zeros(1),
            num_classes=CLASSES,
            mean=MEAN,
            std=STD,
            generator=keyed_generator(0, 0, 0),
        )
    with pytest.raises(ValueError, match="one number for each of the 3 channels, got 1 and 1"):
        normalize(images, [0.5], [0.2])
