import pytest
import torch
from torchvision.transforms.v2 import functional as reference

from vit_lightning.data import photometric

B, H, W = 5, 17, 19


def pictures(channels: int, height: int = H, width: int = W) -> torch.Tensor:
    """Pictures that use only part of the grey levels, so stretching and spreading do something."""
    shape = (B, channels, height, width)
    noise = torch.rand(shape, generator=torch.Generator().manual_seed(2))
    return (40 + 150 * noise.square()).to(torch.uint8)


def grey_levels_apart(ours: torch.Tensor, theirs: torch.Tensor) -> int:
    assert ours.dtype == theirs.dtype == torch.uint8
    assert ours.shape == theirs.shape
    return int((ours.int() - theirs.int()).abs().max())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("factor", [0.01, 0.37, 1.0, 1.63, 1.99])
@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "sharpness"])
def test_against_torchvision_factors(name: str, factor: float, channels: int) -> None:
    images = pictures(channels)
    ours = getattr(photometric, f"adjust_{name}")(images, torch.full((B,), factor))
    theirs = getattr(reference, f"adjust_{name}")(images, factor)
    assert grey_levels_apart(ours, theirs) <= 1  # a rounding error on either side of a level
    if factor == 1.0 or (name == "saturation" and channels == 1):
        assert torch.equal(ours, images)
    else:
        assert not torch.equal(ours, images)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("bits", [2, 4, 5, 8])
def test_against_torchvision_posterize(bits: int, channels: int) -> None:
    images = pictures(channels)
    ours = photometric.posterize(images, torch.full((B,), float(bits)))
    assert torch.equal(ours, reference.posterize(images, bits))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("threshold", [0.0, 76.5, 100.0, 255.0])
def test_against_torchvision_solarize(threshold: float, channels: int) -> None:
    images = pictures(channels)
    ours = photometric.solarize(images, torch.full((B,), threshold))
    assert torch.equal(ours, reference.solarize(images, threshold))


@pytest.mark.parametrize("channels", [1, 3])
def test_against_torchvision_autocontrast(channels: int) -> None:
    images = pictures(channels)
    images[1] = 77  # flat: nothing to stretch
    ours = photometric.autocontrast(images)
    assert grey_levels_apart(ours, reference.autocontrast(images)) <= 1
    assert torch.equal(ours[1], images[1])
    assert ours[0].min() == 0
    assert ours[0].max() == 255


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(17, 19), (32, 32), (5, 7), (61, 67)])
def test_against_torchvision_equalize(size: tuple[int, int], channels: int) -> None:
    images = pictures(channels, *size)
    images[1] = 77
    images[2, :, :2] = 255
    assert torch.equal(photometric.equalize(images), reference.equalize(images))


def test_sharpness_leaves_a_picture_without_inner_pixels_alone() -> None:
    images = pictures(3, 2, 7)
    assert torch.equal(photometric.adjust_sharpness(images, torch.zeros(B)), images)


@pytest.mark.parametrize(
    ("change", "strengths"),
    [
        (photometric.adjust_brightness, [0.0, 0.3, 1.0, 1.2, 1.9]),
        (photometric.adjust_contrast, [0.0, 0.3, 1.0, 1.2, 1.9]),
        (photometric.adjust_saturation, [0.0, 0.3, 1.0, 1.2, 1.9]),
        (photometric.adjust_sharpness, [0.0, 0.3, 1.0, 1.2, 1.9]),
        (photometric.posterize, [1.0, 2.0, 8.0, 3.0, 4.0]),
        (photometric.solarize, [20.0, 60.0, 255.0, 100.0, 130.0]),
    ],
)
def test_each_picture_changes_by_its_own_strength(change, strengths: list[float]) -> None:
    images = pictures(3)
    together = change(images, torch.tensor(strengths))
    assert torch.equal(together[2], images[2])
    for i, strength in enumerate(strengths):
        alone = change(images[i : i + 1], torch.tensor([strength]))
        assert torch.equal(together[i : i + 1], alone)
        assert i == 2 or not torch.equal(together[i], images[i])
