"""What stands around training: folders, locks, signals, and what is said when it fails."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from killing import COMMAND, start

from vit_lightning.callbacks.checkpoint_file import verify_checkpoint
from vit_lightning.cli.reverse import main
from vit_lightning.cli.run_record import held, read_record
from vit_lightning.cli.runs import main as runs
from vit_lightning.data import ReverseDataModule
from vit_lightning.tasks import LitPredictor

SMALL = ["--data.train_size=96", "--data.val_size=16", "--data.batch_size=16"]
SMALL += ["--trainer.max_epochs=2", "--trainer.enable_progress_bar=false"]
SMALL += ["--trainer.enable_model_summary=false", "--trainer.log_every_n_steps=1"]
RUN = Path("lightning_logs/reverse/version_0")
LAST = RUN / "checkpoints/last.ckpt"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def state(run: Path = RUN) -> str:
    record = read_record(run)
    assert record is not None
    return record.state


def launched() -> "subprocess.Popen[bytes]":
    """Start a long run and wait until it has saved an epoch."""
    process = start(Path(), ["reverse", "fit", *SMALL, "--trainer.max_epochs=100000"])
    deadline = time.monotonic() + 120
    while not (RUN / "checkpoints/best.ckpt").is_file():
        assert process.poll() is None, Path("output.txt").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_resume(number, code):
    process = launched()
    assert state() == "running"
    process.send_signal(number)
    assert process.wait() == code
    said = Path("output.txt").read_text()
    assert f"{number.name}: saving after this step" in said
    assert "resume   vit-lightning reverse fit --config reverse --ckpt_path last\n" in said
    verify_checkpoint(LAST)
    assert state() == "stopped"


def test_two_signals_leave_at_once_with_a_whole_checkpoint():
    process = launched()
    process.send_signal(signal.SIGSTOP)  # so that both are there when it looks
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert process.wait() in (130, 143)
    assert "left at once" in Path("output.txt").read_text()
    verify_checkpoint(LAST)
    assert state() == "crashed"


def test_a_file_that_cannot_grow_leaves_the_checkpoint_before_it():
    """The first checkpoint, without the optimizer's state, is small enough; the second is not."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))

    process = subprocess.run(
        [sys.executable, "-c", COMMAND, "reverse", "fit", *SMALL],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=limit,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 1, process.stderr
    assert process.stderr == (
        f"error: cannot write {LAST.with_name('next.ckpt')}: File too large; {LAST} of step 0 is "
        "still there, and whole; make room, then go on with: "
        "vit-lightning reverse fit --config reverse --ckpt_path last\n"
    )
    assert os.listdir(LAST.parent) == ["last.ckpt"]
    assert state() == "crashed"
    assert main(["fit", "--ckpt_path=last"]) == 0


def test_one_process_at_a_time_writes_to_a_run(capsys):
    assert main(["fit", *SMALL]) == 0
    before = LAST.read_bytes()
    with held(RUN):
        assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=3"]) == 2
        assert f"another process ({os.getpid()}) trains in {RUN}" in capsys.readouterr().err
        assert main(["fit", *SMALL]) == 0  # a new run has a folder of its own
    assert LAST.read_bytes() == before
    assert state(RUN.with_name("version_1")) == "finished"


def test_a_loss_that_is_not_a_number_ends_the_run(capsys):
    assert main(["fit", *SMALL, "--model.lr=1e30", "--model.warmup=0"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: the loss is nan at step 1 (epoch 1, learning rate 9.83e+29); ")
    assert f"the last good checkpoint is {LAST} of step 0; start a new run with a smaller" in said
    assert torch.load(LAST, weights_only=True)["global_step"] == 0
    assert state() == "crashed"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
    ],
)
def test_out_of_memory_suggests_half_the_batch(error, monkeypatch, capsys):
    def fail(*_) -> None:
        raise error

    monkeypatch.setattr(LitPredictor, "training_step", fail)
    assert main(["fit", *SMALL]) == 1
    assert capsys.readouterr().err == (
        "error: out of memory with --data.batch_size 16; start a new run with --data.batch_size 8 "
        "--trainer.accumulate_grad_batches 2, which takes the same steps in half the memory\n"
    )


def test_a_model_that_is_too_large_is_told_in_one_sentence(capsys):
    assert main(["fit", *SMALL, "--model.model_dim=1000000000"]) == 1
    assert capsys.readouterr().err.startswith("error: out of memory; make the model")


def test_a_defect_keeps_its_traceback_and_the_run_its_state(monkeypatch):
    def fail(self, batch, batch_idx) -> None:
        if batch_idx == 3:
            raise ZeroDivisionError("a defect")

    monkeypatch.setattr(LitPredictor, "on_train_batch_start", fail)
    with pytest.raises(ZeroDivisionError, match="a defect"):
        main(["fit", *SMALL])
    assert state() == "crashed"
    assert torch.load(LAST, weights_only=True)["global_step"] == 3  # saved before that step


def test_what_never_trained_leaves_no_folder(monkeypatch):
    def fail(*_, **__) -> None:
        raise ValueError("no such data")

    monkeypatch.setattr(ReverseDataModule, "setup", fail)
    assert main(["fit", *SMALL]) == 2
    assert list(RUN.parent.iterdir()) == []


def test_going_on_from_an_older_checkpoint_is_a_new_run_with_the_same_past(capsys):
    assert main(["fit", *SMALL]) == 0
    before = {path: path.read_bytes() for path in RUN.rglob("*") if path.is_file()}
    previous = LAST.with_name("previous.ckpt")
    assert main(["fit", f"--ckpt_path={previous}"]) == 0
    assert "that is not the newest of a run here, so this is a new run" in capsys.readouterr().out
    other = RUN.with_name("version_1")
    pair = [torch.load(run / "checkpoints/last.ckpt", weights_only=True) for run in (RUN, other)]
    for name, weight in pair[0]["state_dict"].items():
        assert torch.equal(weight, pair[1]["state_dict"][name])
    lock = RUN / "run.lock"
    assert before == {p: p.read_bytes() for p in RUN.rglob("*") if p.is_file() and p != lock} | {
        lock: before[lock]
    }
    assert len(list(other.glob("events.*"))) == 2  # the past, cut off, and what came after


def test_another_number_of_threads_is_noted(capsys):
    assert main(["fit", *SMALL]) == 0
    checkpoint = torch.load(LAST, weights_only=True)
    assert checkpoint["run"]["threads"] == 1
    os.environ["OMP_NUM_THREADS"] = "2"  # what a person would type before the command
    try:
        torch.set_num_threads(2)
        assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=3"]) == 0
    finally:
        del os.environ["OMP_NUM_THREADS"]
        torch.set_num_threads(1)
    said = capsys.readouterr().out
    assert "note: threads is 2 here and was 1; results may differ in their last bits" in said


def test_runs_are_listed_with_how_to_resume_them(capsys):
    assert runs([]) == 0
    assert "no runs under lightning_logs/ yet" in capsys.readouterr().out
    assert main(["fit", *SMALL]) == 0
    assert main(["fit", *SMALL, "--trainer.max_epochs=1"]) == 0
    capsys.readouterr()
    assert runs([]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["run", "state", "epoch", "best", "resume"]
    assert [line.split()[:3] for line in lines] == [
        ["reverse/version_0", "finished", "2/2"],
        ["reverse/version_1", "finished", "1/1"],
    ]
    command = "vit-lightning reverse fit --config reverse --ckpt_path"
    assert lines[0].endswith(f"{command} {LAST} --trainer.max_epochs 4")
    assert lines[1].endswith(f"{command} last --trainer.max_epochs 2")
    arguments = lines[0].partition("vit-lightning reverse ")[2].split()
    assert main(arguments) == 0  # the command it gives is one that works
    assert state() == "finished"
    assert torch.load(LAST, weights_only=True)["run"]["epochs"] == 4
    with held(RUN):
        assert runs(["reverse"]) == 0
        assert "running" not in capsys.readouterr().out  # held, but its record says finished
    assert runs(["other"]) == 2
    assert "there are no runs of 'other' under lightning_logs/, but of: reverse" in (
        capsys.readouterr().err
    )


def test_a_record_that_makes_no_sense_is_passed_over(capsys):
    RUN.mkdir(parents=True)
    for content in ("", "[]", '{"command": 3}', '{"what": 1}'):
        (RUN / "run.json").write_text(content)
        assert read_record(RUN) is None
    assert runs([]) == 0
