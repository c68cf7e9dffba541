"""A run's folder: one process at a time writes to it, and `run.json` says how the run stands."""

import fcntl
import json
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from vit_lightning.cli.checkpoints import LOGS, run_folders
from vit_lightning.data.store import locked

State = Literal["running", "finished", "stopped", "crashed"]
RECORD, LOCK = "run.json", "run.lock"


@dataclass
class RunRecord:
    """How a run stands.

    Attributes:
        command: what was typed before `fit`.
        config: the recipe, or the path of a YAML file.
        max_epochs: epochs it is to have; None or negative if something else ends it.
        epochs: finished epochs in the latest checkpoint.
        step: optimizer steps in it.
        monitor: the metric that says which epoch was best.
        best: its value.
        best_epoch: that epoch, counted from 1.
        state: of the process; one that was killed stays "running".
    """

    command: str
    config: str
    max_epochs: int | None
    epochs: int = 0
    step: int = 0
    monitor: str = ""
    best: float | None = None
    best_epoch: int | None = None
    state: State = "running"

    def write(self, run: Path) -> None:
        """Write it whole or not at all."""
        from vit_lightning.callbacks.checkpoint_file import write_file  # late: reading needs none

        write_file(run / RECORD, [json.dumps(asdict(self), indent=1).encode()])

    def resume_command(self, checkpoint: str = "last") -> str:
        """Return what to type to go on."""
        config, path = shlex.quote(self.config), shlex.quote(checkpoint)
        return f"{self.command} fit --config {config} --ckpt_path {path}"


def read_record(run: Path) -> RunRecord | None:
    """Return a run's record, or None if it has none that makes sense."""
    try:
        record = RunRecord(**json.loads((run / RECORD).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    words = (record.command, record.config, record.monitor, record.state)
    limits = (record.max_epochs or 0, record.best_epoch or 0)
    numbers = (record.epochs, record.step, record.best or 0, *limits)
    if not all(isinstance(word, str) and word.isprintable() for word in words):
        return None
    if not all(isinstance(number, int | float) for number in numbers):
        return None
    if record.state == "running" and not is_held(run):
        record.state = "crashed"
    return record


def is_held(run: Path) -> bool:
    """Say whether a process writes to the folder now."""
    try:
        with (run / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def new_run_folder(recipe: str) -> Path:
    """Make the folder of a new run; two processes at the same time get two."""
    folders = run_folders(recipe)
    number = int(folders[-1].name.removeprefix("version_")) + 1 if folders else 0
    while True:
        folder = LOGS / recipe / f"version_{number}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            if not folder.is_dir():
                raise
            number += 1


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Keep other processes from writing to the folder; a kill ends that, too.

    Raises:
        ValueError: if another process does so already.
    """
    deadline = time.monotonic() + 0.5  # somebody may only be asking, as `is_held` does
    while True:
        with locked(run / "run", wait=False) as free:
            if free:
                (run / LOCK).write_text(f"{os.getpid()}\n")
                yield
                return
        if time.monotonic() > deadline:
            owner = (run / LOCK).read_text().strip() or "?"
            raise ValueError(
                f"another process ({owner}) trains in {run}; wait for it, stop it, or leave "
                "--ckpt_path out to start a new run"
            )
        time.sleep(0.02)
