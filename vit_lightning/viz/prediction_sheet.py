"""A page of pictures, each with what the model takes it for, how surely, and whether that is so."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from vit_lightning.viz.page import (
    CELL,
    FAINT,
    GAP,
    INK,
    MARGIN,
    SMALL_SIZE,
    TEXT_SIZE,
    WRONG,
    cell_side,
    draw,
    new_page,
    shorten,
    write,
)

Picture = Tensor | NDArray[np.uint8]


def prediction_sheet(
    images: Sequence[Picture] | Tensor | NDArray[np.uint8],
    predictions: Sequence[str],
    confidences: Sequence[float],
    labels: Sequence[str | None] | None = None,
    title: str = "",
) -> Figure:
    """Draws pictures in a grid; a prediction that is wrong is framed and written in red.

    Args:
        images: Pictures of any size, uint8: (1 or 3, height, width), (height, width, 1 or 3) or
            (height, width).
        predictions: The class that each picture is taken for.
        confidences: The probability that the model gives to it, 0 to 1.
        labels: The true class of each, None where it is not known.
        title: Heading of the page.

    Returns:
        A figure that belongs to no window.
    """
    if len(images) == 0:
        raise ValueError("images must hold at least one picture, got none.")
    given = {"predictions": predictions, "confidences": confidences, "labels": labels}
    for name, values in given.items():
        if values is not None and len(values) != len(images):
            raise ValueError(
                f"{name} must be given for each of the {len(images)} images, got {len(values)}."
            )
    for confidence in confidences:
        if not 0 <= confidence <= 1 + 1e-6:
            raise ValueError(f"confidences must be 0 to 1, got {confidence}.")
    truths = [None] * len(images) if labels is None else list(labels)
    pictures = [as_channels_first(image) for image in images]
    cell = max(CELL, cell_side(pictures))  # never narrower than the text needs
    columns = min(len(pictures), max(6, round((2 * len(pictures)) ** 0.5)))
    rows = -(-len(pictures) // columns)
    row_height = cell + round(1.5 * (TEXT_SIZE + SMALL_SIZE)) + 3 * GAP
    step = cell + 2 * GAP
    page = new_page(columns * step - 2 * GAP, rows * row_height - 2 * GAP, title)
    for i, (picture, prediction, truth) in enumerate(
        zip(pictures, predictions, truths, strict=True)
    ):
        wrong = truth is not None and truth != prediction
        x = MARGIN + (i % columns) * step
        y = page.top + (i // columns) * row_height
        draw(page.axes, picture, x, y, cell, frame=WRONG if wrong else None)
        middle, below = x + cell / 2, y + cell + GAP
        color = WRONG if wrong else INK
        text = shorten(prediction, cell)
        write(page.axes, middle, below, text, ha="center", va="top", color=color)
        color = WRONG if wrong else FAINT
        text = f"{100 * confidences[i]:.0f} %"
        if truth is not None:
            text += f", is {truth}" if wrong else ", correct"
        text = shorten(text, cell, SMALL_SIZE)
        below += 1.5 * TEXT_SIZE
        write(page.axes, middle, below, text, size=SMALL_SIZE, ha="center", va="top", color=color)
    return page.figure


def as_channels_first(image: Picture) -> Tensor:
    """Makes a picture (1 or 3, height, width), whichever way round it comes.

    Where both ends could be the channels, a tensor has them first and an array has them last, as is
    the custom of torch and of numpy.
    """
    # Copied, since torch warns of memory-mapped arrays, which it could write to.
    pixels = image if isinstance(image, Tensor) else torch.from_numpy(np.array(image))
    first = pixels.ndim == 3 and pixels.shape[0] in (1, 3)
    last = pixels.ndim == 3 and pixels.shape[-1] in (1, 3)
    if pixels.dtype != torch.uint8 or not (pixels.ndim == 2 or first or last):
        raise ValueError(
            "images must be uint8, grey or of 1 or 3 channels, "
            f"got {pixels.dtype} of shape {tuple(pixels.shape)}."
        )
    if pixels.ndim == 2:
        return pixels[None]  # (H, W) -> (1, H, W)
    if first and (not last or isinstance(image, Tensor)):
        return pixels
    return pixels.permute(2, 0, 1)  # (H, W, C) -> (C, H, W)
