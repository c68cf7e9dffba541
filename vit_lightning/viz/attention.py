"""Attention weights as pictures."""

import io
from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor


def sequence_attention(maps: Sequence[Tensor], tokens: Sequence[str], title: str = "") -> Figure:
    """Draw one panel per layer (row) and head (column), tokens on both axes.

    Args:
        maps: for each layer the weights of one sequence, (num_heads, length, length).
        tokens: what stands at each position.
        title: above the panels.

    Returns:
        The figure. A bright cell means: the row's token takes much from the column's.
    """
    num_layers, num_heads, length = len(maps), maps[0].shape[0], maps[0].shape[-1]
    if len(tokens) != length:
        raise ValueError(f"{length} tokens have attention but {len(tokens)} were named")
    side = max(2.6, min(5.0, 0.28 * length))
    figure = Figure(figsize=(side * num_heads + 1.6, side * num_layers + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(num_layers, num_heads, squeeze=False)
    font = 9 if length <= 24 else 6
    image = None
    for layer, heads in enumerate(maps):
        for head, weights in enumerate(heads.detach().float().cpu().numpy()):
            panel = axes[layer, head]
            image = panel.imshow(weights, vmin=0.0, vmax=1.0, cmap="viridis")
            panel.set_xticks(range(length), tokens, fontsize=font)
            panel.set_yticks(range(length), tokens, fontsize=font)
            panel.tick_params(length=0)
            panel.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=10)
            if layer == num_layers - 1:
                panel.set_xlabel("attends to (key)")
            if head == 0:
                panel.set_ylabel("token (query)")
    assert image is not None
    figure.colorbar(image, ax=axes, shrink=0.8, label="attention weight")
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def to_png(figure: Figure, dpi: int = 110) -> bytes:
    """Render a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def pixels(png: bytes) -> NDArray[np.uint8]:
    """Decode a PNG to RGB pixels, (height, width, 3)."""
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))
