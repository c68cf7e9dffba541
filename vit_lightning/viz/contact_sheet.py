"""Many small pictures on one page, with their labels and with what augmentation makes of them.

The page is laid out in its own pixels and each picture is enlarged by a whole number, so every
pixel of a picture is a crisp square of the same size.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

DPI = 100
CELL = 128  # wanted side of a picture on the page; whole multiples of the picture come close to it
MARGIN, GAP = 24, 8
TITLE_SIZE, TEXT_SIZE = 24, 15
INK, FAINT, HAIRLINE = "#222222", "#777777", "#cccccc"


def contact_sheet(
    images: Tensor | Sequence[Tensor],
    labels: Sequence[str],
    variants: Tensor | None = None,
    title: str | None = None,
) -> Figure:
    """Draws labelled pictures, in a grid or, with variants, one picture to a row.

    Args:
        images: Pictures of shape (number, 1 or 3, height, width), uint8, or a list of pictures of
            shape (1 or 3, height, width) that may differ in size.
        labels: One text for each picture.
        variants: Versions of the same pictures, shape (versions, number, channels, height, width),
            uint8, to be shown to the right of each.
        title: Heading of the page.

    Returns:
        A figure that belongs to no window; `figure.savefig(path)` writes it.
    """
    if len(images) == 0:
        raise ValueError("images must hold at least one picture, got none.")
    if any(image.dtype != torch.uint8 or image.ndim != 3 for image in images):
        raise ValueError("images must be uint8 pictures of shape (1 or 3, height, width) each.")
    if len(labels) != len(images):
        raise ValueError(
            f"labels must have one text for each of the {len(images)} images, got {len(labels)}."
        )
    if variants is not None and (variants.ndim != 5 or variants.shape[1] != len(images)):
        raise ValueError(
            f"variants must have the shape (versions, {len(images)}, channels, height, width), "
            f"got {tuple(variants.shape)}."
        )
    cell = _cell_side(images)
    if variants is None:
        return _grid(images, labels, cell, title)
    return _rows(images, labels, variants, cell, title)


def _grid(
    images: Tensor | Sequence[Tensor], labels: Sequence[str], cell: int, title: str | None
) -> Figure:
    """A page about as wide as a screen, each label under its picture."""
    columns = min(len(images), max(1, round((2 * len(images)) ** 0.5)))
    rows = -(-len(images) // columns)
    row_height = cell + TEXT_SIZE + 2 * GAP
    page = _page(columns * (cell + GAP) - GAP, rows * row_height - GAP, title)
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        x = MARGIN + (i % columns) * (cell + GAP)
        y = page.top + (i // columns) * row_height
        _draw(page.axes, image, x, y, cell)
        text = _shorten(label, cell)
        _write(page.axes, x + cell / 2, y + cell + GAP / 2, text, ha="center", va="top")
    return page.figure


def _rows(
    images: Tensor | Sequence[Tensor],
    labels: Sequence[str],
    variants: Tensor,
    cell: int,
    title: str | None,
) -> Figure:
    """One row to a picture: its label, itself, and after a space its variants."""
    texts = [_shorten(label, 2 * cell) for label in labels]
    label_width = max(_text_width(text) for text in texts) + 2 * GAP
    first_variant = label_width + cell + 3 * GAP
    heading = TEXT_SIZE + GAP
    width = first_variant + len(variants) * (cell + GAP) - GAP
    page = _page(width, heading + len(images) * (cell + GAP) - GAP, title)
    for x, text in ((label_width, "original"), (first_variant, "augmented")):
        _write(page.axes, MARGIN + x, page.top, text, va="top", color=FAINT)
    for i, text in enumerate(texts):
        y = page.top + heading + i * (cell + GAP)
        x = MARGIN + label_width
        _write(page.axes, x - 2 * GAP, y + cell / 2, text, ha="right", va="center")
        _draw(page.axes, images[i], x, y, cell)
        for k in range(len(variants)):
            x = MARGIN + first_variant + k * (cell + GAP)
            _draw(page.axes, variants[k, i], x, y, cell)
    return page.figure


class _Page(NamedTuple):
    figure: Figure
    axes: Axes
    top: int  # where the contents begin


def _page(width: int, height: int, title: str | None) -> _Page:
    """An empty page for contents of this size, whose coordinates are pixels from the top left."""
    top = MARGIN + (TITLE_SIZE + 2 * GAP if title else 0)
    title_width = _text_width(title, TITLE_SIZE, "bold") if title else 0
    width = max(width, title_width) + 2 * MARGIN
    height = height + top + MARGIN
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    axes.set_axis_off()
    if title:
        _write(axes, MARGIN, MARGIN, title, va="top", size=TITLE_SIZE, weight="bold")
    return _Page(figure, axes, top)


def _draw(axes: Axes, image: Tensor, x: float, y: float, cell: int) -> None:
    """Draws a picture (C, H, W) in the middle of a square cell, in its own proportions."""
    H, W = image.shape[1:]
    scale: float = cell / max(H, W)
    if scale >= 1:
        scale = int(scale)
    height, width = H * scale, W * scale
    left, top = x + (cell - width) // 2, y + (cell - height) // 2
    pixels = image.cpu().expand(3, H, W).permute(1, 2, 0).numpy()  # (H, W, 3)
    axes.imshow(
        pixels,
        extent=(left, left + width, top + height, top),
        aspect="auto",
        interpolation="nearest" if scale >= 1 else "antialiased",
    )
    # A hairline around it, so that one sees where a white picture ends.
    around = Rectangle((left - 1, top - 1), width + 2, height + 2, fc=HAIRLINE, lw=0, zorder=-1)
    axes.add_patch(around)


def _write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    size: int = TEXT_SIZE,
    weight: str = "normal",
    color: str = INK,
    ha: str = "left",
    va: str = "baseline",
) -> None:
    """Writes text of a `size` in pixels; file names may hold dollar signs, so none is maths."""
    points = size * 72 / DPI
    axes.text(
        x, y, text, fontsize=points, weight=weight, color=color, ha=ha, va=va, parse_math=False
    )


def _text_width(text: str, size: int = TEXT_SIZE, weight: str = "normal") -> int:
    """How many pixels wide `_write` would write this."""
    points = size * 72 / DPI
    probe = Figure(dpi=DPI).text(0, 0, text, fontsize=points, weight=weight, parse_math=False)
    return math.ceil(probe.get_window_extent().width)


def _shorten(text: str, width: int) -> str:
    """Cuts a text that is wider than so many pixels."""
    if _text_width(text) <= width:
        return text
    while text and _text_width(text + "…") > width:
        text = text[:-1]
    return text + "…"


def _cell_side(images: Tensor | Sequence[Tensor]) -> int:
    """The side of a cell: a whole multiple of the largest picture if it is small, else CELL."""
    largest = max(max(image.shape[1:]) for image in images)
    return largest * max(1, round(CELL / largest)) if largest <= CELL else CELL
