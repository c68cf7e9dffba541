import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from vit_lightning.data import mixing

H, W = 13, 17
MIXES = {
    "mixup": lambda x, y, alpha, g: mixing.mixup(x, y, alpha, g),
    "cutmix": lambda x, y, alpha, g: mixing.cutmix(x, y, alpha, g),
    "either": lambda x, y, alpha, g: mixing.mixup_or_cutmix(x, y, alpha, alpha, g),
}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def one_hot_pictures(batch: int) -> torch.Tensor:
    """Picture i is 1 in channel i and 0 in the others: pixels show whom they come from."""
    return torch.eye(batch)[:, :, None, None].expand(batch, batch, H, W).contiguous()


@pytest.mark.parametrize("mix", MIXES)
@settings(deadline=None, max_examples=25)
@given(
    batch=st.sampled_from([1, 2, 7, 23]),
    alpha=st.sampled_from([0.1, 0.8, 1.0, 4.0]),
    seed=st.integers(0, 2**31),
)
def test_labels_mix_as_pictures_do(mix: str, batch: int, alpha: float, seed: int) -> None:
    images, targets = MIXES[mix](one_hot_pictures(batch), torch.eye(batch), alpha, generator(seed))
    torch.testing.assert_close(images.mean(dim=(2, 3)), targets, rtol=0, atol=1e-5)
    torch.testing.assert_close(targets.sum(dim=1), torch.ones(batch), rtol=0, atol=1e-5)
    assert torch.all((targets >= 0) & (targets <= 1))
    assert torch.all((targets > 0).sum(dim=1) <= 2)  # itself and one partner


def test_mixup_blends_all_pixels_of_a_picture_alike_and_each_picture_differently() -> None:
    images, targets = mixing.mixup(one_hot_pictures(41), torch.eye(41), 1.0, generator())
    assert torch.equal(images, images[:, :, :1, :1].expand_as(images))
    assert len(targets.diagonal().unique()) > 35
    assert len(targets.fill_diagonal_(0).argmax(dim=1).unique()) > 35  # the partners


def test_mixup_stays_between_the_two_pictures() -> None:
    images = torch.randn(19, 3, H, W, generator=generator(1))
    mixed, targets = mixing.mixup(images, torch.eye(19), 1.0, generator())
    for i in range(19):
        partner = int(targets[i].clone().index_fill_(0, torch.tensor(i), 0).argmax())
        low = torch.minimum(images[i], images[partner])
        high = torch.maximum(images[i], images[partner])
        assert torch.all((mixed[i] >= low - 1e-6) & (mixed[i] <= high + 1e-6))


def test_cutmix_pastes_one_box_and_its_area_is_the_label_weight() -> None:
    images, targets = mixing.cutmix(one_hot_pictures(101), torch.eye(101), 1.0, generator())
    assert torch.all((images == 0) | (images == 1))
    own = images.diagonal(dim1=0, dim2=1).permute(2, 0, 1)  # (B, H, W): 1 where kept
    pasted = own == 0
    height, width = pasted.any(dim=2).sum(dim=1), pasted.any(dim=1).sum(dim=1)
    area = pasted.sum(dim=(1, 2))
    assert torch.equal(area, height * width)
    torch.testing.assert_close(targets.diagonal(), 1 - area / (H * W))
    assert len(area.unique()) > 30


def test_cutmix_boxes_have_the_drawn_area_and_lie_anywhere() -> None:
    # With a huge alpha each picture keeps one half: boxes of sqrt(1/2) of either side, then cut.
    images, _ = mixing.cutmix(one_hot_pictures(307), torch.eye(307), 1e9, generator())
    pasted = images.diagonal(dim1=0, dim2=1).permute(2, 0, 1) == 0  # (B, H, W)
    assert pasted.any(dim=2).sum(dim=1).max() == int(0.5**0.5 * H)
    assert pasted.any(dim=1).sum(dim=1).max() == int(0.5**0.5 * W)
    share = pasted.float().mean(dim=0)
    assert share.min() > 0.05
    assert (share - share.flip(0)).abs().max() < 0.2  # as often above as below
    assert (share - share.flip(1)).abs().max() < 0.2


def test_either_gives_some_pictures_mixup_and_others_cutmix() -> None:
    images, _ = mixing.mixup_or_cutmix(one_hot_pictures(199), torch.eye(199), 1.0, 1.0, generator())
    blended = ((images > 0) & (images < 1)).flatten(1).any(dim=1)
    assert 70 < blended.sum() < 130


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0, 3.0])
def test_against_scipy_beta(alpha: float) -> None:
    draws = mixing._symmetric_beta(20_011, alpha, generator(5))
    points = torch.linspace(0.001, 0.999, 997)
    share_below = (draws[:, None] <= points).double().mean(dim=0)
    expected = torch.from_numpy(stats.beta(alpha, alpha).cdf(points.double().numpy()))
    assert (share_below - expected).abs().max() < 1.63 / 20_011**0.5  # Kolmogorov-Smirnov, 1 %


def test_extreme_alphas_stay_finite() -> None:
    for alpha in (1e-6, 1e6):
        draws = mixing._symmetric_beta(1009, alpha, generator())
        assert torch.all((draws >= 0) & (draws <= 1))


def test_one_hot_smooth_shares_the_smoothed_weight_among_all_classes() -> None:
    rows = mixing.one_hot_smooth(torch.tensor([2, 0]), 4, 0.2)
    expected = torch.tensor([[0.05, 0.05, 0.85, 0.05], [0.85, 0.05, 0.05, 0.05]])
    torch.testing.assert_close(rows, expected)


def test_against_torch_label_smoothing() -> None:
    logits = torch.randn(11, 7, generator=generator())
    labels = torch.randint(7, (11,), generator=generator())
    soft = torch.nn.functional.cross_entropy(logits, mixing.one_hot_smooth(labels, 7, 0.1))
    hard = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=0.1)
    torch.testing.assert_close(soft, hard)
