"""Each part at a tiny size, and what a person sees of it. No figure is held against another."""

import json
import os
import subprocess
import sys
import threading

import pytest

from vit_lightning.cli.bench import main, notebook, rounds, step
from vit_lightning.cli.bench.gate import Gate
from vit_lightning.cli.bench.parts import PARTS
from vit_lightning.cli.bench.peers import PEERS
from vit_lightning.cli.bench.worker import serve

TINY = ["--size", "tiny", "--threads", "1", "--rounds", "1"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class ThreadWorker(rounds.Worker):
    """A contender in a thread: the same messages, without the seconds that a process takes."""

    def __init__(self, job, folder):
        answers, self.write_answers = os.pipe()
        self.read_turns, turns = os.pipe()
        self.answers, self.turns = os.fdopen(answers), os.fdopen(turns, "w")
        gate = Gate(self.read_turns, self.write_answers)
        self.thread = threading.Thread(target=self.serve, args=(job, gate))
        self.thread.start()
        self.process = self
        self.stdin, self.stdout = self.turns, self.answers
        self._receive()

    def serve(self, job, gate):
        try:
            serve(job, gate)
        finally:
            os.close(self.write_answers)

    def stop(self):
        self.turns.close()
        self.thread.join()
        self.answers.close()
        os.close(self.read_turns)


@pytest.fixture
def in_threads(monkeypatch):
    monkeypatch.setattr(rounds, "Worker", ThreadWorker)
    # A process that forks while other threads hold locks may wait for them forever.
    monkeypatch.setattr(notebook, "WORKERS", 0)


FIGURES = {
    "step": {"images_per_second", "share_of_limit", "spread", "rounds"},
    "epoch": {"images_per_second", "share_of_bare_step", "spread", "rounds"},
    "attention": {"length", "kernel", "milliseconds", "peak_mb", "over_best"},
    "reverse": {"seconds", "epochs", "perfect", "runs"},
    "memory": {"tokens", "peak_mb", "images_per_second", "cost_growth"},
}


@pytest.mark.parametrize("part", PARTS)
def test_each_part(part, in_threads, folder, capsys):
    flags = ["--contenders", "ours", "torch-encoder", "--settings", "float32", "bf16"]
    assert main(["--parts", part, *TINY, *flags, "--json", "out/rows.json"]) == 0
    rows = json.loads((folder / "out/rows.json").read_text())
    assert rows
    for row in rows:
        assert row["part"] == part
        assert {"contender", "setting"} | FIGURES[part] <= row.keys()
    run = folder / "lightning_logs/bench/version_0"
    stored = json.loads((run / "results.json").read_text())
    assert stored["rows"] == rows
    assert stored["machine"]["threads"] == 1
    shown = capsys.readouterr().out
    assert f"{part}: {PARTS[part]}" in shown
    assert "skipped" not in shown
    for row in rows:
        assert f"\n{row['contender']} " in shown
    if part != "reverse":  # which at this size gets nowhere
        assert (run / f"{part}.png").read_bytes().startswith(b"\x89PNG")
        assert f"chart    lightning_logs/bench/version_0/{part}.png" in shown


def test_ours_stands_beside_its_default_and_the_limits(in_threads, folder):
    flags = ["--contenders", "ours", "--settings", "float32"]
    for _ in range(2):  # runs are numbered
        assert main(["--parts", "step", *TINY, *flags, "--json", "rows.json"]) == 0
    rows = json.loads((folder / "rows.json").read_text())
    assert [(row["contender"], row["setting"]) for row in rows] == [
        *(("limit", "float32"), ("limit", "bf16"), ("ours", "default"), ("ours", "float32"))
    ]
    assert [p.name for p in sorted(folder.glob("lightning_logs/bench/*"))] == [
        *("version_0", "version_1")
    ]


def test_absent_peers_and_failing_ones_are_named(in_threads, monkeypatch, capsys):
    monkeypatch.setitem(PEERS, "timm", ("no_such_module", PEERS["timm"][1]))

    def out_of_memory(shape):
        raise RuntimeError("not enough memory")

    monkeypatch.setitem(PEERS, "torchvision", ("torch", out_of_memory))
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    flags = ["--contenders", "timm", "torchvision", "torch-encoder", "--settings", "float32"]
    assert main(["--parts", "step", *TINY, *flags]) == 0
    shown = capsys.readouterr().out
    assert "skipped timm: it is not installed" in shown
    assert "skipped torchvision float32: RuntimeError: not enough memory" in shown
    assert "\ntorch-encoder" in shown


def test_nothing_measured_is_an_error(monkeypatch, capsys):
    def refuse(job, folder):
        raise rounds.WorkerError("it will not start")

    monkeypatch.setattr(rounds, "Worker", refuse)
    assert main(["--parts", "memory", *TINY]) == 1
    assert "error: nothing could be measured" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--parts", "stp"], "--parts must be among step, epoch, attention, reverse, memory, got"),
        (["--size", "huge"], "--size must be among full, tiny, got 'huge'"),
        (["--rounds", "0"], "--rounds must be at least 1, got 0"),
        (["--threads", "-1"], "--threads must be at least 1, got -1"),
        (["--contenders", "tim"], "--contenders must be among ours, torchvision, timm"),
        (["--settings", "fp8"], "--settings must be among float32, bf16, bf16+compile, got 'fp8'"),
        (["--json", "file/rows.json"], "cannot write file/rows.json: "),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(argv, message, folder, capsys):
    (folder / "file").touch()
    assert main([*TINY, *argv]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


def test_every_setting_by_default():
    from vit_lightning.cli.bench.parts import Wish

    jobs, absent = step.jobs(Wish("full", 2, [], []))
    names = {job.name for job in jobs}
    there = [name for name in step.CONTENDERS if name not in absent]
    assert {f"{name} {s}" for name in there for s in step.SETTINGS} < names
    assert len(jobs) == 3 * len(there) + 3


def test_help_explains_and_does_not_wait_for_torch():
    code = (
        "import sys; from vit_lightning.cli.main import main\n"
        "try: main(['bench', '--help'])\n"
        "except SystemExit: sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0
    assert "usage: vit-lightning bench" in result.stdout
    assert all(f"  {part}" in result.stdout for part in PARTS)
    assert "examples:" in result.stdout


@pytest.mark.slow
def test_compiled(folder):
    flags = ["--contenders", "ours", "timm", "--settings", "bf16+compile"]
    assert main(["--parts", "step", *TINY, *flags, "--json", "rows.json"]) == 0
    rows = json.loads((folder / "rows.json").read_text())
    assert {row["contender"] for row in rows} == {"limit", "ours", "timm"}
