"""Many small pictures on one page, with their labels and with what augmentation makes of them."""

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from vit_lightning.viz.page import (
    FAINT,
    GAP,
    MARGIN,
    SMALL_SIZE,
    TEXT_SIZE,
    cell_side,
    draw,
    new_page,
    shorten,
    text_width,
    write,
)


def contact_sheet(
    images: Tensor | Sequence[Tensor],
    labels: Sequence[str],
    variants: Tensor | None = None,
    title: str | None = None,
    headings: Sequence[str] | None = None,
    captions: Sequence[Sequence[str]] | None = None,
) -> Figure:
    """Draws labelled pictures, in a grid or, with variants, one picture to a row.

    Args:
        images: Pictures of shape (number, 1 or 3, height, width), uint8, or a list of pictures of
            shape (1 or 3, height, width) that may differ in size.
        labels: One text for each picture.
        variants: Versions of the same pictures, shape (versions, number, channels, height, width),
            uint8, to be shown to the right of each.
        title: Heading of the page.
        headings: One text above each column of variants, instead of "augmented" above them all.
        captions: For each version one text, of one or two lines, under each of its pictures.

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
    if variants is None:
        if headings is not None or captions is not None:
            raise ValueError("headings and captions are those of variants, but there are none.")
        return _grid(images, labels, title)
    if variants.ndim != 5 or variants.shape[1] != len(images) or len(variants) == 0:
        raise ValueError(
            f"variants must have the shape (versions, {len(images)}, channels, height, width), "
            f"got {tuple(variants.shape)}."
        )
    for name, texts in (("headings", headings), ("captions", captions)):
        if texts is not None and len(texts) != len(variants):
            raise ValueError(
                f"{name} must be given for each of the {len(variants)} versions, got {len(texts)}."
            )
    if captions is not None and any(len(texts) != len(images) for texts in captions):
        raise ValueError(f"captions must have {len(images)} texts for each version.")
    return _rows(images, labels, variants, title, headings, captions)


def _grid(images: Tensor | Sequence[Tensor], labels: Sequence[str], title: str | None) -> Figure:
    """A page about as wide as a screen, each label under its picture."""
    cell = cell_side(images)
    columns = min(len(images), max(1, round((2 * len(images)) ** 0.5)))
    rows = -(-len(images) // columns)
    row_height = cell + TEXT_SIZE + 2 * GAP
    page = new_page(columns * (cell + GAP) - GAP, rows * row_height - GAP, title)
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        x = MARGIN + (i % columns) * (cell + GAP)
        y = page.top + (i // columns) * row_height
        draw(page.axes, image, x, y, cell)
        text = shorten(label, cell)
        write(page.axes, x + cell / 2, y + cell + GAP / 2, text, ha="center", va="top")
    return page.figure


def _rows(
    images: Tensor | Sequence[Tensor],
    labels: Sequence[str],
    variants: Tensor,
    title: str | None,
    headings: Sequence[str] | None,
    captions: Sequence[Sequence[str]] | None,
) -> Figure:
    """One row to a picture: its label, itself, and after a space its variants."""
    cell = cell_side(images)
    texts = [shorten(label, 2 * cell) for label in labels]
    label_width = max(text_width(text) for text in texts) + 2 * GAP
    lefts = [label_width + cell + 3 * GAP + k * (cell + GAP) for k in range(len(variants))]
    top = TEXT_SIZE + GAP  # for the headings
    row_height = cell + GAP + (round(2.6 * SMALL_SIZE) + GAP if captions else 0)
    page = new_page(lefts[-1] + cell, top + len(images) * row_height - GAP, title)
    columns = [shorten(text, cell) for text in headings] if headings else ["augmented"]
    for x, text in zip([label_width, *lefts], ["original", *columns], strict=False):
        write(page.axes, MARGIN + x, page.top, text, va="top", color=FAINT)
    for i, text in enumerate(texts):
        y = page.top + top + i * row_height
        x = MARGIN + label_width
        write(page.axes, x - 2 * GAP, y + cell / 2, text, ha="right", va="center")
        draw(page.axes, images[i], x, y, cell)
        for k, left in enumerate(lefts):
            x = MARGIN + left
            draw(page.axes, variants[k, i], x, y, cell)
            if captions:
                lines = (shorten(line, cell, SMALL_SIZE) for line in captions[k][i].splitlines())
                caption = "\n".join(lines)
                write(page.axes, x, y + cell + GAP / 2, caption, size=SMALL_SIZE, va="top")
    return page.figure
