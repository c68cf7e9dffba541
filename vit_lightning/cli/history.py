"""What a run has logged, epoch by epoch, from its own TensorBoard files."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vit_lightning.cli.checkpoints import LOGS, run_folders

PATTERN = "events.out.tfevents.*"
# Lightning's name for the mean over an epoch of what is also logged per step, before the plain one.
TAGS = {
    f"{stage}/{metric}": (f"{stage}/{metric}_epoch", f"{stage}/{metric}")
    for stage in ("train", "val")
    for metric in ("loss", "acc", "r2")
}

Scalars = dict[str, dict[int, float]]  # by tag, then by step
History = dict[str, list[tuple[int, float]]]  # by metric; epochs count from 1


class _File(NamedTuple):
    written: float
    scalars: Scalars


def find_run(name: str) -> Path:
    """Return the folder for RUN: a run folder, or the newest logged run of a recipe."""
    path = Path(name)
    if any(path.glob(PATTERN)):
        return path
    folders = run_folders(path.name if path.parent == LOGS else name)
    for folder in reversed(folders):
        if any(folder.glob(PATTERN)):
            return folder
    if folders or path.is_dir():
        raise ValueError(f"{folders[-1] if folders else path} has no TensorBoard files of a run")
    known = sorted(p.name for p in LOGS.glob("*") if p.is_dir())
    raise ValueError(
        f"there is no run folder {name!r}, nor a recipe of that name with runs under {LOGS}/, "
        + (f"which has: {', '.join(known)}" if known else "which has none yet")
    )


def read_history(run: Path) -> History:
    """Read the metrics of each epoch.

    A resumed run has several files. A later one replaces what earlier ones say from the step where
    it sets in, since the run went back to there.

    Args:
        run: a folder with TensorBoard files.

    Returns:
        For each metric, such as "train/loss", its epochs in increasing order with their values.
    """
    merged: Scalars = {}
    for file in sorted(_read_files(run), key=lambda file: file.written):
        start = min(file.scalars["epoch"])
        for tag in merged:
            merged[tag] = {step: value for step, value in merged[tag].items() if step < start}
        for tag, points in file.scalars.items():
            merged.setdefault(tag, {}).update(points)
    epochs = merged.get("epoch", {})
    history: History = {}
    for metric, tags in TAGS.items():
        points = next((merged[tag] for tag in tags if merged.get(tag)), {})
        # Of several in an epoch, as with validation within it, the last one stays.
        last = {int(epochs[s]) + 1: value for s, value in sorted(points.items()) if s in epochs}
        if last:
            history[metric] = sorted(last.items())
    if not history:
        raise ValueError(f"{run} has no finished epoch yet")
    return history


def _read_files(run: Path) -> Iterator[_File]:
    """Read those files in which a Trainer has logged; it writes the epoch beside every metric."""
    # Imported late, since it is slow.
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # a file that ends early is expected
    for path in run.glob(PATTERN):
        events = EventAccumulator(
            str(path), size_guidance={"scalars": 0}, purge_orphaned_data=False
        )
        events.Reload()
        tags = events.Tags()["scalars"]
        if "epoch" in tags:
            scalars = {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in tags}
            yield _File(events.FirstEventTimestamp(), scalars)
