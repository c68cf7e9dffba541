import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.transforms.v2 import functional as reference

from vit_lightning.data import geometric

B, C, H, W = 5, 3, 11, 13


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(batch: int = B, channels: int = C, height: int = H, width: int = W) -> torch.Tensor:
    shape = (batch, channels, height, width)
    return torch.randint(1, 256, shape, generator=generator(1), dtype=torch.uint8)


@settings(deadline=None, max_examples=25)
@given(
    padding=st.integers(0, 3),
    height=st.sampled_from([5, 7]),
    width=st.sampled_from([5, 11]),
    channels=st.sampled_from([1, 3]),
    seed=st.integers(0, 2**31),
)
def test_every_crop_is_a_window_of_the_padded_picture(
    padding: int, height: int, width: int, channels: int, seed: int
) -> None:
    images = pictures(3, channels, height, width)
    crops = geometric.random_crop(images, padding, generator(seed))
    assert crops.shape == images.shape
    assert crops.dtype == torch.uint8
    padded = reference.pad(images, [padding])
    for picture, crop in zip(padded, crops, strict=True):
        windows = [
            picture[:, y : y + height, x : x + width]
            for y in range(2 * padding + 1)
            for x in range(2 * padding + 1)
        ]
        assert any(torch.equal(crop, window) for window in windows)


def test_crops_reach_every_offset_and_each_picture_has_its_own() -> None:
    one = pictures(1)
    crops = geometric.random_crop(one.expand(400, -1, -1, -1), 1, generator())
    assert len(crops.flatten(1).unique(dim=0)) == 9


def test_flip_is_an_involution() -> None:
    images = pictures(31)
    once = geometric.random_flip(images, generator(3))
    assert not torch.equal(once, images)
    assert torch.equal(geometric.random_flip(once, generator(3)), images)


def test_flip_mirrors_about_half_of_the_pictures_left_to_right() -> None:
    images = pictures(401)
    flipped = geometric.random_flip(images, generator())
    kept = (flipped == images).flatten(1).all(dim=1)
    mirrored = (flipped == images.flip(3)).flatten(1).all(dim=1)
    assert torch.all(kept ^ mirrored)
    assert 160 < mirrored.sum() < 240


# The numbers are chosen so that no source pixel lies halfway between two others.
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("slope", [math.sqrt(2) / 10, -math.sqrt(3) / 10, 0.7071])
def test_against_torchvision_shear(slope: float, channels: int) -> None:
    images, slopes = pictures(channels=channels), torch.full((B,), slope)
    degrees = math.degrees(math.atan(slope))
    for shear, ours in (
        ([degrees, 0.0], geometric.shear_x(images, slopes)),
        ([0.0, degrees], geometric.shear_y(images, slopes)),
    ):
        theirs = reference.affine(
            images, angle=0, translate=[0, 0], scale=1, shear=shear, center=[0, 0]
        )
        assert torch.equal(ours, theirs)
        assert not torch.equal(ours, images)


@pytest.mark.parametrize("pixels", [3.7, -3.7, 2.0, -100.0])
def test_against_torchvision_translate(pixels: float) -> None:
    images, shift = pictures(), torch.full((B,), pixels)
    for translate, ours in (
        ([int(pixels), 0], geometric.translate_x(images, shift)),
        ([0, int(pixels)], geometric.translate_y(images, shift)),
    ):
        theirs = reference.affine(images, angle=0, translate=translate, scale=1, shear=[0, 0])
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("size", [(11, 13), (8, 8), (32, 32)])
@pytest.mark.parametrize("degrees", [17.3, -29.1, 101.7, 135.0])
def test_against_torchvision_rotate(degrees: float, size: tuple[int, int]) -> None:
    images = pictures(height=size[0], width=size[1])
    ours = geometric.rotate(images, torch.full((B,), degrees))
    assert torch.equal(ours, reference.rotate(images, degrees))


@pytest.mark.parametrize(
    "move",
    [
        geometric.shear_x,
        geometric.shear_y,
        geometric.translate_x,
        geometric.translate_y,
        geometric.rotate,
    ],
)
def test_each_picture_moves_by_its_own_strength(move) -> None:
    images = pictures()
    strengths = torch.tensor([0.0, 1.3, -2.1, 5.7, 0.4])
    together = move(images, strengths)
    assert torch.equal(together[0], images[0])
    for i in range(B):
        assert torch.equal(together[i : i + 1], move(images[i : i + 1], strengths[i : i + 1]))
