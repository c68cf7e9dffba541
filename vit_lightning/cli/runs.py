"""`vit-lightning runs`: what was trained here, how it stands, and how to go on."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from vit_lightning.cli.checkpoints import LOGS, checkpoint_files, run_folders
from vit_lightning.cli.errors import run_command
from vit_lightning.cli.run_record import RunRecord, read_record
from vit_lightning.viz.values import format_value

EXAMPLES = """states:
  running    a process trains it now
  finished   it has all its epochs; a larger --trainer.max_epochs goes on
  stopped    by Ctrl-C or SIGTERM, after it was saved
  crashed    it failed or was killed; it goes on from its latest checkpoint
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments, or None for those of the process.
    """
    return run_command(_run, argv)


def _run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="vit-lightning runs",
        description="List the runs under lightning_logs/ with the command that resumes each.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipe", nargs="?", help="only runs of this recipe")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    wanted = parser.parse_args(arguments).recipe
    recipes = sorted(path.name for path in LOGS.glob("*") if path.is_dir())
    if wanted is not None and wanted not in recipes:
        raise ValueError(
            f"there are no runs of {wanted!r} under {LOGS}/, "
            + (f"but of: {', '.join(recipes)}" if recipes else "nor of anything else yet")
        )
    rows = [
        row(run, record)
        for recipe in ([wanted] if wanted else recipes)
        for run in run_folders(recipe)
        if (record := read_record(run)) is not None
    ]
    if not rows:
        print(f"no runs under {LOGS}/ yet; start one with: vit-lightning reverse fit")
        return 0
    head = ("run", "state", "epoch", "best", "resume")
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head) - 1)]
    for line in [head, *rows]:
        cells = [f"{cell:<{width}}" for cell, width in zip(line, widths, strict=False)]
        print("  ".join([*cells, line[-1]]))
    return 0


def row(run: Path, record: RunRecord) -> tuple[str, ...]:
    """Return a run's cells."""
    best = ""
    if record.best is not None:
        score = format_value(record.monitor, record.best)
        best = f"{record.monitor} {score} (epoch {record.best_epoch})"
    limited = record.max_epochs is not None and record.max_epochs > 0
    resume = "-"
    if checkpoint_files(run) and record.state != "running":
        newest = next(r for r in reversed(run_folders(run.parent.name)) if checkpoint_files(r))
        resume = record.resume_command(
            "last" if run == newest else str(run / "checkpoints" / "last.ckpt")
        )
        if record.state == "finished" and limited:
            resume += f" --trainer.max_epochs {2 * record.epochs}"
    return (
        str(run.relative_to(LOGS)),
        record.state,
        f"{record.epochs}/{record.max_epochs if limited else '?'}",
        best,
        resume,
    )
