"""Which classes a model takes for which others."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor


def confusion_matrix(counts: Tensor, class_names: Sequence[str], title: str = "") -> Figure:
    """Draw a confusion matrix, each row in per cent of its true class.

    Args:
        counts: how many pictures of class i (row) were taken for class j, (classes, classes).
        class_names: names of the classes.
        title: above the matrix.
    """
    n = len(class_names)
    if counts.shape != (n, n):
        raise ValueError(f"{n} classes are named but counts has the shape {tuple(counts.shape)}")
    counts = counts.double().cpu()
    percent = (100 * counts / counts.sum(dim=1, keepdim=True).clamp(min=1)).numpy()
    side = 2.0 + 0.55 * n
    figure = Figure(figsize=(side + 1.0, side), layout="constrained", dpi=110)
    axes = figure.subplots()
    image = axes.imshow(percent, vmin=0, vmax=100, cmap="Blues")
    axes.set_xticks(range(n), class_names, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(n), class_names)
    axes.tick_params(length=0)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    for i in range(n):
        for j in range(n):
            if percent[i, j] >= 0.05:
                colour = "white" if percent[i, j] > 55 else "black"
                text = f"{percent[i, j]:.1f}"
                axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=8)
    figure.colorbar(image, label="% of the true class", shrink=0.8)
    if title:
        axes.set_title(title, fontsize=11)
    return figure
