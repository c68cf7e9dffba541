"""Pictures in files, of any size, colour or grey, made to fit a model."""

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
            inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES)
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
    """Open a picture, turned the way its camera says, in colour (3 channels) or grey (1)."""
    try:
        with Image.open(path) as image:
            return ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")
    except UnidentifiedImageError:
        raise ValueError(f"{path} is not an image that can be read") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is damaged or cannot be read: {error}") from None


def fit_images(images: Iterable[Image.Image], image_size: int) -> Tensor:
    """Scale pictures and cut out the middle square: uint8 (batch, channels, size, size)."""
    size = (image_size, image_size)
    squares = [np.asarray(ImageOps.fit(i, size, Image.Resampling.BILINEAR)) for i in images]
    batch = torch.from_numpy(np.stack(squares))
    return batch[:, None] if batch.ndim == 3 else batch.permute(0, 3, 1, 2).contiguous()
