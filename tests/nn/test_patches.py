"""Patches there and back, and that a linear layer on them is a convolution."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.nn import PatchEmbedding, image_to_patches, patches_to_image

B, C, P, ROWS, COLUMNS, E = 2, 5, 3, 7, 11, 13  # all prime: a swapped axis cannot pass
HEIGHT, WIDTH = ROWS * P, COLUMNS * P
TIGHT = {"rtol": 0.0, "atol": 1e-10}


def test_a_patch_holds_its_pixels_in_channel_row_column_order():
    x = torch.randn(B, C, HEIGHT, WIDTH)
    patches = image_to_patches(x, P)
    assert patches.shape == (B, ROWS * COLUMNS, C * P * P)
    for row, column in [(0, 0), (0, 1), (5, 2), (ROWS - 1, COLUMNS - 1)]:
        square = x[:, :, row * P : (row + 1) * P, column * P : (column + 1) * P]
        assert torch.equal(patches[:, row * COLUMNS + column], square.flatten(1))


@given(
    sizes=st.tuples(*(st.integers(1, 5) for _ in range(5))),
    dtype=st.sampled_from([torch.float32, torch.uint8]),
)
def test_there_and_back_is_exact(sizes, dtype):
    batch, channels, rows, columns, patch_size = sizes
    height, width = rows * patch_size, columns * patch_size
    x = torch.randint(0, 256, (batch, channels, height, width)).to(dtype)
    patches = image_to_patches(x, patch_size)
    assert torch.equal(patches_to_image(patches, patch_size, height, width), x)


def test_a_strided_view_is_cut_alike():
    x = torch.randn(B, HEIGHT, WIDTH, C).permute(0, 3, 1, 2)
    assert torch.equal(image_to_patches(x, P), image_to_patches(x.contiguous(), P))


def test_patches_and_linear_equal_a_convolution():
    linear = PatchEmbedding(C, E, P, "linear").double()
    conv = PatchEmbedding(C, E, P, "conv").double()
    torch.nn.init.normal_(linear.projection.bias)
    with torch.no_grad():
        conv.projection.weight.copy_(linear.projection.weight.view(E, C, P, P))
        conv.projection.bias.copy_(linear.projection.bias)
    x = torch.randn(B, C, HEIGHT, WIDTH, dtype=torch.float64, requires_grad=True)
    tokens, expected = linear(x), conv(x)
    assert tokens.shape == (B, ROWS * COLUMNS, E)
    torch.testing.assert_close(tokens, expected, **TIGHT)
    grads, expected_grads = (
        torch.autograd.grad(out.square().sum(), [x, layer.projection.weight, layer.projection.bias])
        for out, layer in ((tokens, linear), (expected, conv))
    )
    torch.testing.assert_close(grads[0], expected_grads[0], **TIGHT)
    torch.testing.assert_close(grads[1], expected_grads[1].flatten(1), **TIGHT)
    torch.testing.assert_close(grads[2], expected_grads[2], **TIGHT)


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_tokens_start_about_as_large_as_the_pixels(kind):
    tokens = PatchEmbedding(C, 97, P, kind)(torch.randn(B, C, HEIGHT, WIDTH))
    assert 0.8 < tokens.std() < 1.2


@pytest.mark.parametrize(
    ("shape", "patch_size", "message"),
    [
        ((B, C, HEIGHT, WIDTH), 2, "patch_size=2 for 21x33 images"),
        ((B, C, HEIGHT, WIDTH), 0, "patch_size=0"),
        ((C, HEIGHT, WIDTH), P, "shape"),
    ],
)
def test_what_cannot_be_cut(shape, patch_size, message):
    with pytest.raises(ValueError, match=message):
        image_to_patches(torch.zeros(shape), patch_size)


@pytest.mark.parametrize("shape", [(B, 76, 45), (B, 77, 44), (77, 45)])
def test_what_cannot_be_put_together(shape):
    with pytest.raises(ValueError, match=r"\(batch, 77, channels \* 9\) for 21x33"):
        patches_to_image(torch.zeros(shape), P, HEIGHT, WIDTH)


@pytest.mark.parametrize("wrong", [{"kind": "mlp"}, {"patch_size": 0}, {"in_channels": -1}])
def test_bad_arguments(wrong):
    arguments = {"in_channels": C, "embed_dim": E, "patch_size": P}
    with pytest.raises(ValueError, match="must be"):
        PatchEmbedding(**(arguments | wrong))
