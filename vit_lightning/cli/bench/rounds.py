"""Rounds that are interleaved across contenders, each of which is a process that waits its turn.

Whatever slows the machine down for a while then slows all of them down, and no one inherits the
caches, compiled code or memory of another. Only one of them computes at any time.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn, Protocol

from tqdm import tqdm

from vit_lightning.cli.bench.parts import Job, Sample


class WorkerError(Exception):
    """A contender that cannot go on; the message says why."""


class Contender(Protocol):
    """A contender that has been started."""

    def measure(self, case: dict[str, Any]) -> dict[str, Any]:
        """Let it measure one case and return its figures."""

    def stop(self) -> None:
        """End it."""


class Worker:
    """A contender's process.

    Args:
        job: what it measures.
        folder: where it runs and may leave files.
    """

    def __init__(self, job: Job, folder: Path) -> None:
        # A file, as a pipe that nobody reads would fill up and stop it.
        self.log = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (stop closes it)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vit_lightning.cli.bench.worker", json.dumps(asdict(job))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=folder,
            text=True,
        )
        try:
            self._receive()  # ready
        except BaseException:
            self.stop()
            raise

    def measure(self, case: dict[str, Any]) -> dict[str, Any]:
        """Let it measure one case and return its figures."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"case": case}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(self._last_words()) from None
        figures: dict[str, Any] = self._receive()["figures"]
        return figures

    def stop(self) -> None:
        """Close its pipe, which ends it, or end it if it does not."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        message: dict[str, Any] = json.loads(line) if line else {"error": self._last_words()}
        if "error" in message:
            raise WorkerError(message["error"])
        return message

    def _last_words(self) -> str:
        status = self.process.wait()
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        # A negative status is a signal; 9 is what a machine that runs out of memory sends.
        return f"its process ended with status {status}" + (f": {said[-1][:300]}" if said else "")


class Rounds:
    """Starts contenders, gives each its turn round after round, and keeps what they answer.

    Args:
        start: makes a contender of a job.
        show: whether to draw a progress bar.
    """

    def __init__(self, start: Callable[[Job], Contender], show: bool = True) -> None:
        self.start = start
        self.show = show
        self.failures: dict[Job, str] = {}

    def run(
        self, jobs: Sequence[Job], cases: Sequence[dict[str, Any]], rounds: int, *, fresh: bool
    ) -> list[Sample]:
        """Measure every case of every job in every round.

        Args:
            jobs: the contenders.
            cases: what each measures; the contenders take turns case by case.
            rounds: how often.
            fresh: whether each measurement is to have a process of its own.

        Returns:
            All that was measured; a contender that fails is in `failures` instead.
        """
        samples = []
        total = rounds * len(cases) * len(jobs) + (0 if fresh else len(jobs))
        title = jobs[0].part if jobs else ""
        with contextlib.ExitStack() as stack, _bar(title, total, self.show) as bar:
            workers: dict[Job, Contender] = {}
            for job in [] if fresh else jobs:
                bar.set_postfix_str(f"preparing {job.name}", refresh=False)
                with self._noting(job):
                    workers[job] = self.start(job)
                    stack.callback(workers[job].stop)
                bar.update()
            for _ in range(rounds):
                for case in cases:
                    for job in jobs:
                        bar.set_postfix_str(job.name, refresh=False)
                        if job not in self.failures:
                            with self._noting(job), contextlib.ExitStack() as brief:
                                if fresh:
                                    workers[job] = self.start(job)
                                    brief.callback(workers[job].stop)
                                samples.append(Sample(job, case, workers[job].measure(case)))
                        bar.update()
        return [sample for sample in samples if sample.job not in self.failures]

    @contextlib.contextmanager
    def _noting(self, job: Job) -> Iterator[None]:
        try:
            yield
        except WorkerError as error:
            self.failures[job] = str(error)


def _bar(title: str, total: int, show: bool) -> "tqdm[NoReturn]":
    live = sys.stderr.isatty()
    return tqdm(
        desc=title,
        total=total,
        disable=not show,
        leave=False,
        mininterval=0.1 if live else 10.0,  # a log file wants a line now and then, not a film
        bar_format="{desc} {n_fmt}/{total_fmt} |{bar:20}| {elapsed}<{remaining} {postfix}",
    )
