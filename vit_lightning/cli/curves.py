"""`vit-lightning curves`: draw how loss and accuracy went, from what the runs have logged."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from vit_lightning.cli.errors import run_command

EXAMPLES = """examples:
  vit-lightning curves digits                               the newest run of a recipe
  vit-lightning curves lightning_logs/digits/version_3      a certain run
  vit-lightning curves digits --epochs 10 20 30 50          a row of panels for each horizon
  vit-lightning curves lightning_logs/digits/version_* --output both.png     several, overlaid
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments, or None for those of the process.
    """
    return run_command(_run, argv)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vit-lightning curves",
        description="Draw loss and accuracy against epoch, train dashed and val solid, from the"
        " TensorBoard files of one run or several.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a run folder, or a recipe's name for its newest run under lightning_logs/",
    )
    parser.add_argument(
        "--epochs",
        nargs="+",
        type=int,
        default=[],
        metavar="N",
        help="horizons: a row of panels for each, with epochs 1 to N (default: all epochs)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="the picture to write (default: curves.png in the folder of the first run)",
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _run(arguments: list[str]) -> int:
    args = _parser().parse_args(arguments)
    # Imported late: --help should not wait for TensorBoard and matplotlib.
    from vit_lightning.cli.history import find_run, read_history
    from vit_lightning.viz.curves import learning_curves
    from vit_lightning.viz.figure_file import save_figure
    from vit_lightning.viz.values import format_value

    folders = list(dict.fromkeys(find_run(name) for name in args.runs))
    histories = {
        name: read_history(folder) for name, folder in zip(_names(folders), folders, strict=True)
    }
    title = next(iter(histories)) if len(histories) == 1 else ""
    figure = learning_curves(histories, args.epochs, title)
    path = args.output or folders[0] / "curves.png"
    save_figure(figure, path)
    for name, history in histories.items():
        last = max(points[-1][0] for points in history.values())
        values = (f"{metric} {format_value(metric, p[-1][1])}" for metric, p in history.items())
        print(f"{name} after {last} epochs: {', '.join(values)}")
    print(f"curves   {path}")
    return 0


def _names(folders: list[Path]) -> list[str]:
    """Name runs by recipe and version, or by their paths where that is not enough."""
    names = ["/".join(folder.resolve().parts[-2:]) for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]
