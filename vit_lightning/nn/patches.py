"""Patches: pictures cut into squares that become tokens, and put together again."""

from typing import Literal

from torch import Tensor, nn

PatchKind = Literal["linear", "conv"]


def image_to_patches(x: Tensor, patch_size: int) -> Tensor:
    """Cut images into squares, row by row from the top left.

    Args:
        x: images, (batch, channels, height, width).
        patch_size: side of a square; it must divide height and width.

    Returns:
        Patches, (batch, number of patches, channels * patch_size * patch_size), each with its
        pixels in the order (channels, rows, columns) in which a convolution keeps its weights.
    """
    if x.ndim != 4:
        raise ValueError(
            f"x must have the shape (batch, channels, height, width), got {tuple(x.shape)}"
        )
    B, C, H, W = x.shape
    rows, columns = _grid(H, W, patch_size)
    x = x.reshape(B, C, rows, patch_size, columns, patch_size)  # (B, C, h, p, w, p)
    x = x.permute(0, 2, 4, 1, 3, 5)  # (B, C, h, p, w, p) -> (B, h, w, C, p, p)
    return x.reshape(B, rows * columns, C * patch_size**2)  # (B, h * w, C * p * p)


def patches_to_image(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """Put patches together again, the inverse of `image_to_patches`.

    Args:
        patches: (batch, number of patches, channels * patch_size * patch_size).
        patch_size: side of a square.
        height: of the images, in pixels.
        width: of the images, in pixels.

    Returns:
        Images, (batch, channels, height, width).
    """
    rows, columns = _grid(height, width, patch_size)
    area = patch_size**2
    if patches.ndim != 3 or patches.shape[1] != rows * columns or patches.shape[2] % area:
        raise ValueError(
            f"patches must have the shape (batch, {rows * columns}, channels * {area}) "
            f"for {height}x{width} images, got {tuple(patches.shape)}"
        )
    B, C = patches.shape[0], patches.shape[2] // area
    x = patches.reshape(B, rows, columns, C, patch_size, patch_size)  # (B, h, w, C, p, p)
    x = x.permute(0, 3, 1, 4, 2, 5)  # (B, h, w, C, p, p) -> (B, C, h, p, w, p)
    return x.reshape(B, C, height, width)


def _grid(height: int, width: int, patch_size: int) -> tuple[int, int]:
    if patch_size < 1 or height % patch_size or width % patch_size:
        raise ValueError(
            f"patch_size must divide height and width, got patch_size={patch_size} "
            f"for {height}x{width} images"
        )
    return height // patch_size, width // patch_size


class PatchEmbedding(nn.Module):
    """One token for each patch of an image, as a linear function of its pixels.

    Args:
        in_channels: channels of the images.
        embed_dim: width of the tokens.
        patch_size: side of a patch.
        kind: "linear" cuts patches and applies a linear layer, "conv" is a convolution with the
            patch as kernel and stride. With the same weights, reshaped, they give the same tokens.
    """

    def __init__(
        self, in_channels: int, embed_dim: int, patch_size: int, kind: PatchKind = "linear"
    ) -> None:
        super().__init__()
        if min(in_channels, embed_dim, patch_size) < 1:
            raise ValueError(
                "in_channels, embed_dim and patch_size must be at least 1, "
                f"got {in_channels}, {embed_dim} and {patch_size}"
            )
        if kind not in ("linear", "conv"):
            raise ValueError(f"patch_embedding must be 'linear' or 'conv', got {kind!r}")
        self.patch_size = patch_size
        self.projection: nn.Linear | nn.Conv2d = (
            nn.Linear(in_channels * patch_size**2, embed_dim)
            if kind == "linear"
            else nn.Conv2d(in_channels, embed_dim, patch_size, stride=patch_size)
        )
        # Tokens as large as the pixels, 1 for normalised images: on a par with sin-cos positions.
        fan_in = in_channels * patch_size**2
        nn.init.trunc_normal_(self.projection.weight, std=fan_in**-0.5)
        assert self.projection.bias is not None
        nn.init.zeros_(self.projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Turn images (batch, channels, height, width) into tokens (batch, patches, embed_dim)."""
        if isinstance(self.projection, nn.Conv2d):
            x = self.projection(x).flatten(2).transpose(1, 2)  # (B, D, h, w) -> (B, N, D)
        else:
            x = self.projection(image_to_patches(x, self.patch_size))  # (B, C, H, W) -> (B, N, D)
        return x
