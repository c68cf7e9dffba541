import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vit_lightning.data.erasing import box_mask, cutout, random_erasing

H, W = 23, 29


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ones(batch: int) -> torch.Tensor:
    return torch.ones(batch, 3, H, W)


def hidden_boxes(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Height, width and area of what is hidden, the same in all channels."""
    hidden = images == 0
    assert torch.equal(hidden, hidden[:, :1].expand_as(hidden))
    hidden = hidden[:, 0]
    return hidden.any(dim=2).sum(dim=1), hidden.any(dim=1).sum(dim=1), hidden.sum(dim=(1, 2))


@settings(deadline=None, max_examples=25)
@given(size=st.integers(1, 11), seed=st.integers(0, 2**31))
def test_cutout_hides_one_square_cut_by_the_border(size: int, seed: int) -> None:
    height, width, area = hidden_boxes(cutout(ones(17), size, generator(seed)))
    assert torch.equal(area, height * width)
    assert torch.all((height <= size) & (width <= size))
    assert torch.all((height >= size // 2) & (width >= size // 2) & (area > 0))


def test_cutout_is_elsewhere_in_each_picture_and_reaches_every_pixel() -> None:
    images = cutout(ones(997), 8, generator())
    assert len(images.flatten(1).unique(dim=0)) > 300
    assert torch.all((images == 0).any(dim=0))
    height, width, _ = hidden_boxes(images)
    whole = ((height == 8) & (width == 8)).float().mean()
    assert abs(whole - (H - 7) * (W - 7) / (H * W)) < 0.06


def test_erasing_hides_a_rectangle_of_the_wanted_area_and_shape() -> None:
    images = random_erasing(ones(499), 1.0, generator(), area=(0.1, 0.2), aspect=(0.5, 2.0))
    height, width, area = hidden_boxes(images)
    assert torch.equal(area, height * width)
    part, aspect = area / (H * W), height / width
    assert 0.08 < part.min() < 0.11
    assert 0.19 < part.max() < 0.22
    assert 0.45 < aspect.min() < 0.6
    assert 1.7 < aspect.max() < 2.2


def test_erasing_hits_the_wanted_share_of_the_pictures() -> None:
    _, _, area = hidden_boxes(random_erasing(ones(997), 0.3, generator()))
    assert 0.25 < (area > 0).float().mean() < 0.35
    assert torch.equal(random_erasing(ones(7), 0.0, generator()), ones(7))


def test_erasing_cuts_a_rectangle_too_long_for_the_picture() -> None:
    images = random_erasing(ones(101), 1.0, generator(), area=(0.5, 0.5), aspect=(9.0, 9.0))
    height, _, _ = hidden_boxes(images)
    assert torch.all(height == H)


def test_box_mask_is_true_inside_and_may_reach_beyond_the_picture() -> None:
    box = [torch.tensor([v]) for v in (-2, 3, 2, 99)]
    expected = torch.zeros(1, 1, 5, 7, dtype=torch.bool)
    expected[:, :, :2, 3:] = True
    assert torch.equal(box_mask(torch.zeros(1, 3, 5, 7), *box), expected)
