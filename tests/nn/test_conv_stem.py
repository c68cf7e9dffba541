import pytest
import torch

from vit_lightning.nn import ConvStem


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_halves_the_picture_and_keeps_the_size_of_the_signal(activation):
    output = ConvStem(3, 29, activation)(torch.randn(7, 3, 22, 26))
    assert output.shape == (7, 29, 11, 13)
    assert 0.5 < output.square().mean().sqrt() < 2


def test_sees_across_patch_borders():
    stem = ConvStem(3, 5)
    x = torch.randn(1, 3, 8, 8)
    changed = x.clone()
    changed[..., 4] += 1
    difference = (stem(x) - stem(changed)).abs().sum((0, 1, 2))
    assert difference[1] > 0  # pixels 2 and 3 belong to another 4x4 patch than pixel 4
