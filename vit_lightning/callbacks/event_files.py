"""TensorBoard's files of a run, taken back to where a checkpoint was written.

What was logged after it is logged again when the run goes on, and would otherwise be there twice.
"""

import os
import shutil
from pathlib import Path

PATTERN = "events.out.tfevents.*"
Lengths = dict[str, int]  # bytes by file name


def event_lengths(folder: Path) -> Lengths:
    """Say how long each file is, on the disk; the writer must have been flushed."""
    lengths = {}
    for path in sorted(folder.glob(PATTERN)):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            lengths[path.name] = file.seek(0, os.SEEK_END)
    return lengths


def rewind_events(folder: Path, lengths: Lengths) -> None:
    """Cut the files to what they were, and remove those that came later."""
    for path in folder.glob(PATTERN):
        length = lengths.get(path.name)
        if length is None:
            path.unlink()
        elif path.stat().st_size > length:
            with path.open("r+b") as file:
                file.truncate(length)


def copy_events(source: Path, folder: Path, lengths: Lengths) -> None:
    """Begin a run's files as a copy of another run's, as they were."""
    for path in source.glob(PATTERN):
        if path.name in lengths:
            shutil.copy2(path, folder)
    rewind_events(folder, lengths)
