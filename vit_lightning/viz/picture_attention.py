"""Where in a picture a Vision Transformer looks: attention weights as heat over the pixels."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from matplotlib import colormaps
from matplotlib.figure import Figure
from torch import Tensor

from vit_lightning.viz.page import (
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
    text_width,
    write,
)

GREY = (0.299, 0.587, 0.114)  # ITU-R BT.601: how bright red, green and blue look


def rollout(maps: Sequence[Tensor]) -> Tensor:
    """Follows attention through all layers down to the input (Abnar & Zuidema, 2020).

    In each layer a token is half itself, by the residual connection, and half what the mean of the
    heads takes from the others; the layers' matrices are multiplied.

    Args:
        maps: For each layer, first to last, its weights, (batch, num_heads, tokens, tokens).

    Returns:
        How much of each output token (row) comes from each input token, (batch, tokens, tokens);
        rows sum to one.
    """
    if not maps:
        raise ValueError("maps must hold the weights of at least one layer, got none.")
    tokens = maps[0].shape[-1]
    identity = torch.eye(tokens, device=maps[0].device)
    result = identity.expand(len(maps[0]), tokens, tokens)
    for layer in maps:
        mixed = layer.detach().float().mean(dim=1) + identity  # (B, H, T, T) -> (B, T, T)
        # Dividing by the sum and not by 2 also holds for rows that attend to nothing.
        result = mixed / mixed.sum(dim=-1, keepdim=True) @ result
    return result


def attention_over_patches(
    attention: Tensor, grid: tuple[int, int], num_prefix_tokens: int, class_token: bool
) -> Tensor:
    """Takes from attention weights how much goes to each patch of the picture.

    Args:
        attention: Weights, (..., tokens, tokens), queries in rows.
        grid: Rows and columns of patches.
        num_prefix_tokens: Tokens before the patches.
        class_token: Whether the first of these is a class token, which is then asked where it
            looks; else it is the mean over all patches.

    Returns:
        Weights of shape (..., rows, columns).
    """
    rows, columns = grid
    expected = num_prefix_tokens + rows * columns
    if attention.shape[-2:] != (expected, expected):
        raise ValueError(
            f"attention must be between {num_prefix_tokens} + {rows} x {columns} = {expected}"
            f" tokens, got {' x '.join(str(size) for size in attention.shape[-2:])}."
        )
    patches = attention[..., num_prefix_tokens:, :]  # (..., N, T)
    weights = attention[..., 0, :] if class_token else patches.mean(dim=-2)  # (..., T)
    return weights[..., num_prefix_tokens:].reshape(
        *weights.shape[:-1], *grid
    )  # (..., rows, columns)


def picture_attention(
    images: Tensor,
    maps: Sequence[Tensor],
    *,
    grid: tuple[int, int],
    num_prefix_tokens: int,
    class_token: bool,
    labels: Sequence[str] | None = None,
    predictions: Sequence[str] | None = None,
    title: str = "",
    layer: int = -1,
) -> Figure:
    """Draws one row to a picture: itself, each head of a layer, their mean, and the rollout.

    Each panel has its own scale, from its lowest weight to its highest, which stand under it: heads
    differ a lot, and a rollout is flat beside any of them.

    Args:
        images: Pictures, (number, 1 or 3, height, width), uint8 or floats from 0 to 1.
        maps: For each layer its weights, (number, num_heads, tokens, tokens).
        grid: Rows and columns of patches.
        num_prefix_tokens: Tokens before the patches.
        class_token: Whether the first of these is a class token; see `attention_over_patches`.
        labels: What each picture shows.
        predictions: What the model says; it stands in red where it differs from the label.
        title: Heading of the page.
        layer: Whose heads are drawn; -1 is the last.

    Returns:
        A figure that belongs to no window.
    """
    pictures = _bytes(images)
    counts = {"labels": labels, "predictions": predictions, "maps": maps[0] if maps else None}
    for name, given in counts.items():
        if given is not None and len(given) != len(pictures):
            raise ValueError(
                f"{name} must be given for each of the {len(pictures)} images, got {len(given)}."
            )
    if not -len(maps) <= layer < len(maps):
        raise ValueError(f"layer must be one of {len(maps)}, got {layer}.")
    number = range(1, len(maps) + 1)[layer]
    tokens = (grid, num_prefix_tokens, class_token)
    heads = attention_over_patches(maps[layer].detach().float(), *tokens)
    panels = {f"head {h + 1}": heads[:, h] for h in range(heads.shape[1])}
    if len(panels) > 1:
        panels["mean"] = heads.mean(dim=1)
    panels["rollout"] = attention_over_patches(rollout(maps), *tokens)
    who = "the class token" if class_token else "all patches, on average,"
    note = f"Attention of {who} to each patch: dark is low, bright is high."

    cell = cell_side(pictures)
    texts = _texts(labels, predictions, len(pictures), 2 * cell)
    label_width = max((text_width(t) + 2 * GAP for row in texts for t, _ in row), default=0)
    lefts = [MARGIN + label_width + k * (cell + GAP) for k in range(1 + len(panels))]
    # A space before the heads of the layer, and before the rollout, which is of all layers.
    lefts = [x + 2 * GAP * ((k > 0) + (k == len(panels))) for k, x in enumerate(lefts)]
    top = 2 * (TEXT_SIZE + GAP)
    row_height = cell + SMALL_SIZE + 2 * GAP
    width = max(lefts[-1] + cell, lefts[0] + text_width(note)) - MARGIN
    page = new_page(width, top + len(pictures) * row_height + TEXT_SIZE, title)
    write(page.axes, lefts[1], page.top, f"layer {number} of {len(maps)}", va="top")
    write(page.axes, lefts[-1], page.top, "all layers", va="top")
    for x, heading in zip(lefts, ["picture", *panels], strict=True):
        write(page.axes, x, page.top + TEXT_SIZE + GAP, heading, va="top", color=FAINT)
    for i, picture in enumerate(pictures):
        y = page.top + top + i * row_height
        middle = y + cell / 2 - (len(texts[i]) - 1) * 0.7 * TEXT_SIZE
        for line, (text, color) in enumerate(texts[i]):
            right, height = lefts[0] - 2 * GAP, middle + 1.4 * line * TEXT_SIZE
            write(page.axes, right, height, text, ha="right", va="center", color=color)
        draw(page.axes, picture, lefts[0], y, cell)
        for x, heat in zip(lefts[1:], panels.values(), strict=True):
            weights = heat[i].cpu()
            draw(page.axes, _heated(picture, weights, cell), x, y, cell)
            span = f"{100 * float(weights.min()):.1f} to {100 * float(weights.max()):.1f} %"
            below = y + cell + GAP / 2
            write(page.axes, x, below, span, size=SMALL_SIZE, va="top", color=FAINT)
    bottom = page.top + top + len(pictures) * row_height + TEXT_SIZE
    write(page.axes, lefts[0], bottom, note, color=FAINT)
    return page.figure


def _bytes(images: Tensor) -> Tensor:
    """Checks pictures and makes them uint8 on the CPU."""
    if images.ndim != 4 or images.shape[1] not in (1, 3) or len(images) == 0:
        raise ValueError(
            "images must have the shape (number, 1 or 3, height, width), "
            f"got {tuple(images.shape)}."
        )
    images = images.detach().cpu()
    if images.dtype == torch.uint8:
        return images
    if images.min() < -1e-3 or images.max() > 1 + 1e-3:
        raise ValueError(
            "images must be uint8 or floats from 0 to 1, not normalised ones, got "
            f"{float(images.min()):.2f} to {float(images.max()):.2f}."
        )
    return (255 * images.float()).round().clamp(0, 255).to(torch.uint8)


def _texts(
    labels: Sequence[str] | None, predictions: Sequence[str] | None, number: int, width: int
) -> list[list[tuple[str, str]]]:
    """What stands beside each picture, line by line, each with its colour."""
    rows: list[list[tuple[str, str]]] = [[] for _ in range(number)]
    for i, row in enumerate(rows):
        if labels is not None:
            row.append((shorten(labels[i], width), INK))
        if predictions is not None:
            wrong = labels is not None and labels[i] != predictions[i]
            row.append((shorten(f"predicted {predictions[i]}", width), WRONG if wrong else FAINT))
    return rows


def _heated(picture: Tensor, weights: Tensor, cell: int) -> Tensor:
    """Lays weights (rows, columns) as colour over the grey picture, enlarged for its cell."""
    H, W = picture.shape[1:]
    scale = max(1, cell // max(H, W))
    brightness = torch.tensor(GREY)[:, None, None] * picture.expand(3, H, W) / 255
    grey = brightness.sum(dim=0).repeat_interleave(scale, 0).repeat_interleave(scale, 1)
    low, high = weights.min(), weights.max()
    weights = (weights - low) / (high - low).clamp(min=1e-12)
    heat = F.interpolate(weights[None, None], grey.shape, mode="bilinear")[0, 0]  # (H, W)
    color = torch.from_numpy(colormaps["inferno"](heat.numpy())[..., :3]).float()  # (H, W, 3)
    alpha = 0.45 + 0.3 * heat[..., None]
    blended = (1 - alpha) * grey[..., None] + alpha * color
    return (255 * blended).round().to(torch.uint8).permute(2, 0, 1)
