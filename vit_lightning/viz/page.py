"""A page of pictures and text, laid out in its own pixels.

Coordinates are pixels from the top left, and a small picture is enlarged by a whole number, so
every pixel of it is a crisp square of the same size. The sheets of this folder are drawn with it.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

DPI = 100
CELL = 128  # wanted side of a picture on the page; whole multiples of the picture come close to it
MARGIN, GAP = 24, 8
TITLE_SIZE, TEXT_SIZE, SMALL_SIZE = 24, 15, 12
INK, FAINT, HAIRLINE, WRONG = "#222222", "#777777", "#cccccc", "#c1121f"


class Page(NamedTuple):
    """An empty page and the height, below its title, where the contents begin."""

    figure: Figure
    axes: Axes
    top: int


def new_page(width: int, height: int, title: str | None = None) -> Page:
    """Makes a page for contents of this size, with margins and a title around them."""
    top = MARGIN + (TITLE_SIZE + 2 * GAP if title else 0)
    title_width = text_width(title, TITLE_SIZE, "bold") if title else 0
    width = max(width, title_width) + 2 * MARGIN
    height = height + top + MARGIN
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    axes.set_axis_off()
    if title:
        write(axes, MARGIN, MARGIN, title, va="top", size=TITLE_SIZE, weight="bold")
    return Page(figure, axes, top)


def cell_side(images: Iterable[Tensor]) -> int:
    """The side of a cell: a whole multiple of the largest picture if it is small, else CELL."""
    largest = max(max(image.shape[1:]) for image in images)
    return largest * max(1, round(CELL / largest)) if largest <= CELL else CELL


def draw(
    axes: Axes, image: Tensor, x: float, y: float, cell: int, frame: str | None = None
) -> None:
    """Draws a picture in the middle of a square cell, in its own proportions.

    Args:
        axes: Of the page.
        image: The picture, (1 or 3, height, width), uint8.
        x: Left edge of the cell.
        y: Upper edge of the cell.
        cell: Side of the cell.
        frame: Colour of a bold frame; None for a hairline.
    """
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
    edge = 4 if frame else 1
    corner, size = (left - edge, top - edge), (width + 2 * edge, height + 2 * edge)
    axes.add_patch(Rectangle(corner, *size, fc=frame or HAIRLINE, lw=0, zorder=-1))


def write(
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


def text_width(text: str, size: int = TEXT_SIZE, weight: str = "normal") -> int:
    """How many pixels wide `write` would write this."""
    points = size * 72 / DPI
    probe = Figure(dpi=DPI).text(0, 0, text, fontsize=points, weight=weight, parse_math=False)
    return math.ceil(probe.get_window_extent().width)


def shorten(text: str, width: int, size: int = TEXT_SIZE) -> str:
    """Cuts a text that is wider than so many pixels."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text + "…"
