"""A run's folder: one process at a time writes to it, and `run.json` says how the run stands."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from vit_lightning.cli.checkpoints import LOGS, run_folders
from vit_lightning.data.store import locked

State = Literal["running", "finished", "stopped", "crashed"]
RECORD = "run.json"


@dataclass
class RunRecord:
    """How a run stands.

    Attributes:
        command: what was typed before `fit`.
        config: the recipe, or the path of a YAML file.
        max_epochs: epochs it is to have.
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
        part = run / f"{RECORD}.part"
        part.write_text(json.dumps(asdict(self), indent=1))
        part.replace(run / RECORD)

    def resume_command(self, checkpoint: str = "last") -> str:
        """Return what to type to go on."""
        return f"{self.command} fit --config {self.config} --ckpt_path {checkpoint}"


def read_record(run: Path) -> RunRecord | None:
    """Return a run's record, or None if it has none that makes sense."""
    try:
        record = RunRecord(**json.loads((run / RECORD).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    plain = all(
        isinstance(getattr(record, f.name), int | float | str | None) for f in fields(record)
    )
    if not plain:
        return None
    if record.state == "running" and not is_held(run):
        record.state = "crashed"
    return record


def is_held(run: Path) -> bool:
    """Say whether a process writes to the folder now."""
    if not (run / "run.lock").is_file():
        return False
    with locked(run / "run", wait=False) as free:
        return not free


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
            number += 1


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Keep other processes from writing to the folder; a kill ends that, too.

    Raises:
        ValueError: if another process does so already.
    """
    with locked(run / "run", wait=False) as free:
        if not free:
            owner = (run / "run.lock").read_text().strip() or "?"
            raise ValueError(
                f"another process ({owner}) trains in {run}; wait for it, stop it, or leave "
                "--ckpt_path out to start a new run"
            )
        (run / "run.lock").write_text(f"{os.getpid()}\n")
        yield
