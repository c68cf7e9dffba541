"""Pictures in files, of any size, colour or grey, made to fit a model."""

import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}


def find_images(paths: Iterable[str | Path]) -> list[Path]:
    """List image files: those named, and those anywhere inside the folders named."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(
                p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file()
            )
            if not inside:
                raise ValueError(
                    f"the folder {path} holds no images ({', '.join(sorted(SUFFIXES))})"
                )
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise ValueError(f"there is no file or folder {path}")
    if not found:
        raise ValueError("no images were named")
    return found


def load_image(path: Path, channels: int) -> Image.Image:
    """Open a picture, turned the way its camera says, in colour (3 channels) or grey (1).

    What is transparent becomes white, as viewers show it; 16 bits become 8.
    """
    try:
        # Pillow warns of what it then refuses, and of pictures that are merely large.
        with warnings.catch_warnings(action="ignore"), Image.open(path) as image:
            upright = _opaque(_eight_bits(ImageOps.exif_transpose(image)))
            return upright.convert("RGB" if channels == 3 else "L")
    except UnidentifiedImageError:
        raise ValueError(f"{path} is not an image that can be read") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is damaged or cannot be read: {error}") from None


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale deep pixels, which Pillow would cut off at 255."""
    if image.mode == "F":
        raise ValueError("it has floating-point pixels, of which no one knows what is white")
    if not image.mode.startswith("I"):
        return image
    return Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))


def _opaque(image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA"))


def fit_images(images: Iterable[Image.Image], image_size: int) -> Tensor:
    """Scale pictures and cut out the middle square: uint8 (batch, channels, size, size)."""
    size = (image_size, image_size)
    squares = [np.asarray(ImageOps.fit(i, size, Image.Resampling.BILINEAR)) for i in images]
    batch = torch.from_numpy(np.stack(squares))
    return batch[:, None] if batch.ndim == 3 else batch.permute(0, 3, 1, 2).contiguous()
