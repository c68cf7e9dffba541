"""Kill a run at random moments until it finishes, and compare it with one that was not stopped."""

import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

COMMAND = "import sys; from vit_lightning.cli.main import main; sys.exit(main())"
Scalars = list[tuple[str, int, float]]  # tag, step, value


@dataclass
class Outcome:
    """What became of a run.

    Attributes:
        run: its folder.
        stops: where each kill left it: step of the checkpoint that it went on from.
        during_save: how many kills came while a checkpoint was being written.
    """

    run: Path
    stops: list[int] = field(default_factory=list)
    during_save: int = 0


def start(folder: Path, arguments: list[str]) -> "subprocess.Popen[bytes]":
    """Launch `vit-lightning` in a folder, with its output in a file there."""
    environment = os.environ | {"OMP_NUM_THREADS": "2"}  # so that a ViT has a part on each
    with (folder / "output.txt").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
        )


def finish(folder: Path, arguments: list[str], recipe: str) -> Outcome:
    """Run without a stop."""
    folder.mkdir(parents=True)
    assert start(folder, arguments).wait() == 0, (folder / "output.txt").read_text()
    return Outcome(folder / "lightning_logs" / recipe / "version_0")


def finish_despite_kills(
    folder: Path,
    arguments: list[str],
    recipe: str,
    *,
    kills: int,
    seconds: float,
    seed: int,
    while_saving: bool = False,
    first: Outcome | None = None,
    later: list[str] | None = None,
) -> Outcome:
    """Run, kill -9 after a random while, resume, and so on until it finishes.

    Args:
        folder: to run in.
        arguments: of `vit-lightning`.
        recipe: whose run it is.
        kills: at most so many.
        seconds: longest time that training is left in peace after its first checkpoint.
        seed: of the moments.
        while_saving: whether to wait, after that time, for a checkpoint to be written.
        first: a run to go on with, rather than a new one.
        later: the arguments after the first kill, if they are others.
    """
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    outcome = first or Outcome(folder / "lightning_logs" / recipe / "version_0")
    last = outcome.run / "checkpoints" / "last.ckpt"
    while True:
        resume = ["--ckpt_path", "last"] if last.is_file() else []
        before = signature(last)
        process = start(folder, [*arguments, *resume])
        if len(outcome.stops) < kills:
            if draw.random() < 0.2:  # before it trains, or while it takes up where it stopped
                time.sleep(draw.uniform(0, 5))
            else:
                while process.poll() is None and signature(last) == before:
                    time.sleep(0.005)
                time.sleep(draw.uniform(0, seconds))
            part = last.with_name("next.ckpt.part")
            while while_saving and process.poll() is None and not part.is_file():
                pass
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        status = process.wait()
        if status == 0:
            return outcome
        assert status == -signal.SIGKILL, (folder / "output.txt").read_text()[-3000:]
        outcome.during_save += last.with_name("next.ckpt.part").is_file()
        outcome.stops.append(step_of(last))
        arguments = later or arguments
        if not last.is_file():  # it did not come to its first checkpoint, and starts anew
            shutil.rmtree(outcome.run, ignore_errors=True)


def signature(path: Path) -> tuple[int, int] | None:
    """Tell whether a file is another one than before."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def step_of(path: Path) -> int:
    """Return the step that a checkpoint was written after, or -1 if there is none."""
    if not path.is_file():
        return -1
    return int(torch.load(path, weights_only=True)["global_step"])


def scalars(run: Path) -> Scalars:
    """Return everything that was logged, in the order in which the files were begun."""
    files = [list(LegacyEventFileLoader(str(p)).Load()) for p in run.glob("events.out.tfevents.*")]
    return [
        (value.tag, event.step, value.simple_value)
        for events in sorted(files, key=lambda events: float(events[0].wall_time))
        for event in events
        for value in event.summary.value
        if value.HasField("simple_value")
    ]


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Name where two nested structures differ, by a single bit or by a type."""
    if isinstance(one, dict) and isinstance(other, dict):
        if list(one) != list(other):
            return [f"{where}: {list(one)} / {list(other)}"]
        return [d for key in one for d in differences(one[key], other[key], f"{where}.{key}")]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return [f"{where}: length {len(one)} / {len(other)}"]
        pairs = enumerate(zip(one, other, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{where}[{i}]")]
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        same = one.dtype == other.dtype and torch.equal(one, other)
    elif isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        same = math.isnan(other)
    else:
        same = type(one) is type(other) and one == other
    return [] if same else [f"{where}: {one} / {other}"]


def compare(one: Path, other: Path) -> None:
    """Assert that two runs ended the same: checkpoints, the best one, and every figure logged."""
    for name in ("last", "best"):
        pair = [
            torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)
            for run in (one, other)
        ]
        for checkpoint in pair:
            del checkpoint["run"]["events"]  # the files have other names
        found = differences(*pair)
        assert not found, found
    logged = [scalars(run) for run in (one, other)]
    assert logged[0] == logged[1], set(logged[0]) ^ set(logged[1])
    for tag in {tag for tag, _, _ in logged[1]} - {"epoch"}:
        steps = [step for t, step, _ in logged[1] if t == tag]
        assert steps == sorted(set(steps)), f"{tag} has a step twice, or out of order"
