"""Figures to files."""

from pathlib import Path

from matplotlib.figure import Figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure, in the format that the file's suffix names, or as PNG without a suffix.

    Raises:
        ValueError: if the file cannot be written, or not in that format.
    """
    kind = path.suffix.removeprefix(".").lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise ValueError(f"the output {path} must end in .png, .svg or .pdf")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format=kind)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from error
