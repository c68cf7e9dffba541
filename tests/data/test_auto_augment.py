import pytest
import torch
from torchvision.transforms import v2

from vit_lightning.data import auto_augment
from vit_lightning.data.auto_augment import MAX_MAGNITUDE, Operation

H, W = 29, 31
SPACES = {
    "randaugment": auto_augment.rand_augment_space(H, W),
    "trivialaugment": auto_augment.trivial_augment_space(),
}
REFERENCES = {"randaugment": v2.RandAugment(), "trivialaugment": v2.TrivialAugmentWide()}
OPERATION_NAMES = list(v2.RandAugment._AUGMENTATION_SPACE)

# Here a strength may lie on a border, between two pixels or two levels, where rounding errors
# decide: both results count, so also those with a hair more or less.
AT_A_BORDER = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Solarize")
ROUNDED = ("Brightness", "Color", "Contrast", "Sharpness", "AutoContrast")  # to 1 grey level


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(batch: int, channels: int = 3) -> torch.Tensor:
    noise = torch.rand((batch, channels, H, W), generator=generator(1))
    return (30 + 200 * noise.square()).to(torch.uint8)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", OPERATION_NAMES)
@pytest.mark.parametrize("policy", ["randaugment", "trivialaugment"])
def test_against_torchvision_operation_at_every_magnitude(
    policy: str, name: str, channels: int
) -> None:
    operation = SPACES[policy][OPERATION_NAMES.index(name)]
    values, both_ways = REFERENCES[policy]._AUGMENTATION_SPACE[name]
    table = values(MAX_MAGNITUDE + 1, H, W)
    image = pictures(1, channels)

    def theirs(value: float) -> torch.Tensor:
        return REFERENCES[policy]._apply_image_or_video_transform(
            image, name, value, interpolation=v2.InterpolationMode.NEAREST, fill={}
        )

    assert operation.both_ways == both_ways
    for magnitude in range(0, MAX_MAGNITUDE + 1, 3):
        for sign in (1, -1) if both_ways else (1,):
            value = 0.0 if table is None else sign * float(table[magnitude])
            strength = operation.start + operation.span * sign * magnitude / MAX_MAGNITUDE
            ours = operation.apply(image, torch.tensor([strength])).int()
            apart = (ours - theirs(value).int()).abs()
            if name in AT_A_BORDER and apart.any():
                for hair in (1e-4, -1e-4):
                    apart = apart.minimum((ours - theirs(value * (1 + hair)).int()).abs())
            assert apart.max() <= (1 if name in ROUNDED else 0)


def only(names: list[str]) -> list[Operation]:
    return [SPACES["randaugment"][OPERATION_NAMES.index(name)] for name in names]


def test_each_picture_gets_one_of_the_operations_on_itself() -> None:
    images = pictures(97)
    space = only(["Identity", "Solarize", "Equalize"])
    level = torch.full((97,), 0.5)
    result = auto_augment._apply_random(images, level, space, generator())
    strengths = torch.full((97,), 127.5)
    candidates = torch.stack([operation.apply(images, strengths) for operation in space])
    matches = (candidates == result).flatten(2).all(dim=2)  # (3, 97)
    assert torch.all(matches.any(dim=0))
    assert torch.all(matches.sum(dim=1) > 20)


def test_an_operation_with_a_direction_goes_both_ways_and_one_without_does_not() -> None:
    images, level = pictures(61), torch.full((61,), 0.5)
    shifted = auto_augment._apply_random(images, level, only(["TranslateX"]), generator())
    pixels = int(150 / 331 * W / 2)
    black_left = (shifted[..., :pixels] == 0).flatten(1).all(dim=1)
    black_right = (shifted[..., -pixels:] == 0).flatten(1).all(dim=1)
    assert torch.all(black_left ^ black_right)
    assert 15 < black_left.sum() < 46
    coarse = auto_augment._apply_random(images, level, only(["Posterize"]), generator())
    assert torch.equal(coarse, images // 4 * 4)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("policy", ["randaugment", "trivialaugment"])
def test_a_repeated_picture_comes_out_in_many_ways(policy: str, channels: int) -> None:
    images = pictures(1, channels).expand(101, -1, -1, -1)
    if policy == "randaugment":
        result = auto_augment.rand_augment(images, 2, 9, generator())
    else:
        result = auto_augment.trivial_augment(images, generator())
    assert result.shape == images.shape
    assert result.dtype == torch.uint8
    assert len(result.flatten(1).unique(dim=0)) > 40
    assert torch.equal(images[0], pictures(1, channels)[0])  # the input is left alone


def test_no_operations_change_nothing() -> None:
    images = pictures(7)
    assert torch.equal(auto_augment.rand_augment(images, 0, 9, generator()), images)


def test_more_magnitude_and_more_operations_change_more() -> None:
    images = pictures(211)

    def change(num_ops: int, magnitude: int) -> float:
        result = auto_augment.rand_augment(images, num_ops, magnitude, generator())
        return float((result.int() - images.int()).abs().float().mean())

    assert change(1, 3) < change(1, 15) < change(1, 30)
    assert change(1, 9) < change(2, 9) < change(3, 9)


def test_float_or_two_channel_pictures_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be uint8 with 1 or 3 channels.*float32"):
        auto_augment.trivial_augment(pictures(2).float(), generator())
    with pytest.raises(ValueError, match=r"got torch.uint8 with 2 channels"):
        auto_augment.rand_augment(pictures(2, channels=2), 1, 9, generator())
