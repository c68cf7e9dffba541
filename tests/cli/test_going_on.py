"""Going on from checkpoints in all the ways that people find."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from killing import compare, start
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vit_lightning.callbacks import SealedCheckpointIO, run_checkpoint
from vit_lightning.cli import run_guard
from vit_lightning.cli.recipes import find_recipe
from vit_lightning.cli.reverse import main
from vit_lightning.cli.run_record import read_record
from vit_lightning.cli.runs import main as runs
from vit_lightning.cli.stop_signals import StopSignals

SMALL = ["--data.train_size=96", "--data.val_size=16", "--data.batch_size=16"]  # 6 steps an epoch
SMALL += ["--trainer.max_epochs=2", "--trainer.enable_progress_bar=false"]
SMALL += ["--trainer.enable_model_summary=false", "--trainer.log_every_n_steps=1"]
SMALL += ["--model.dropout=0.2"]
RUN = Path("lightning_logs/reverse/version_0")
LAST = RUN / "checkpoints/last.ckpt"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def stop_after(step: int, arguments: list[str], monkeypatch) -> None:
    """Run until a step is done, then as if Ctrl-C had been pressed."""

    def asked(self: StopSignals) -> bool:
        if guards[-1].checkpoints._moment and trainers[-1].global_step >= step:
            self.received = signal.SIGINT
        return self.received is not None

    guards, trainers = [], []
    train = run_guard.RunGuard._train

    def spy(self, trainer, *rest):
        guards.append(self)
        trainers.append(trainer)
        return train(self, trainer, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(StopSignals, "asked", asked)
        patch.setattr(run_guard.RunGuard, "_train", spy)
        assert main(arguments) == 130


@pytest.fixture
def whole() -> Path:
    """The folder of a run that was never stopped, out of the way."""
    assert main(["fit", *SMALL]) == 0
    shutil.move("lightning_logs", "whole")
    return Path("whole/reverse/version_0")


@pytest.mark.parametrize("way", ["last is gone", "last is damaged", "a copy elsewhere"])
def test_stopped_twice_within_an_epoch_with_no_last_in_between(way, whole, monkeypatch):
    stop_after(3, ["fit", *SMALL], monkeypatch)
    checkpoint = "last"
    if way == "last is gone":  # a kill between two renames
        LAST.rename(LAST.with_name("previous.ckpt"))
    elif way == "last is damaged":
        shutil.copy(LAST, LAST.with_name("previous.ckpt"))
        LAST.write_bytes(LAST.read_bytes()[:-9])
    else:
        shutil.copytree(RUN, "copy")
        shutil.rmtree("lightning_logs")
        checkpoint = "copy/checkpoints/last.ckpt"
    saved = run_checkpoint.RunCheckpoint._save
    calls = []

    def killed(self, trainer, moment, **how):
        """Let the first checkpoint be written, and die when the next one is due."""
        if calls:
            raise SystemError("killed")
        calls.append(1)
        saved(self, trainer, moment, **how)

    with monkeypatch.context() as patch:
        patch.setattr(run_checkpoint.RunCheckpoint, "_save", killed)
        with pytest.raises(SystemError, match="killed"):
            main(["fit", f"--ckpt_path={checkpoint}"])
    assert main(["fit", "--ckpt_path=last"]) == 0
    compare(whole, RUN)


def test_going_on_without_a_log_leaves_the_log_alone():
    assert main(["fit", *SMALL]) == 0
    (log,) = RUN.glob("events.*")
    before = log.read_bytes()
    off = "--trainer.logger=false"
    assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=3", off]) == 0
    assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=4"]) == 0
    assert log.read_bytes() == before


def test_a_checkpoint_that_changes_before_the_folder_is_ours(monkeypatch, capsys):
    assert main(["fit", *SMALL]) == 0
    newest = run_guard.RunGuard._is_newest

    def meanwhile(self, checkpoint: Path) -> bool:
        answer = newest(self, checkpoint)
        shutil.copy(LAST.with_name("previous.ckpt"), LAST)  # another process writes it
        return answer

    monkeypatch.setattr(run_guard.RunGuard, "_is_newest", meanwhile)
    assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=3"]) == 2
    assert f"{LAST} has just been written anew; try again" in capsys.readouterr().err


def test_fewer_epochs_than_there_are_change_nothing(capsys):
    assert main(["fit", *SMALL]) == 0
    before = {path: path.read_bytes() for path in RUN.rglob("*") if path.is_file()}
    assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=1"]) == 2
    said = f"{LAST} has 2 epochs already; trainer.max_epochs must be at least that, got 1"
    assert said in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in RUN.rglob("*") if path.is_file()}


def test_the_record_goes_on_with_the_run():
    assert main(["fit", *SMALL]) == 0
    before = read_record(RUN)
    assert main(["fit", "--ckpt_path=last"]) == 0  # nothing to do
    assert read_record(RUN) == before
    assert before is not None
    assert (before.epochs, before.step, before.best_epoch is not None) == (2, 12, True)


def test_settings_beside_model_and_data_go_on_with_the_run(capsys):
    own = ["--checkpoint.every_minutes=0.5", "--seed_everything=7", "--trainer.gradient_clip_val=2"]
    assert main(["fit", *SMALL, *own]) == 0
    capsys.readouterr()
    assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=3"]) == 0
    settings = torch.load(LAST, weights_only=True)["run"]["settings"]
    assert settings["checkpoint"] == {"every_minutes": 0.5}
    assert settings["seed_everything"] == 7
    assert settings["trainer"]["gradient_clip_val"] == 2
    changed = ["--checkpoint.every_minutes=3", "--trainer.max_epochs=4"]
    assert main(["fit", "--ckpt_path=last", *changed]) == 0
    said = "note: checkpoint.every_minutes was 0.5 and is 3.0 from here on"
    assert said in capsys.readouterr().out


def test_classes_that_a_stranger_names_are_not_made(capsys):
    Path("evil.py").write_text("open('executed', 'w')\n")
    assert main(["fit", *SMALL]) == 0
    checkpoint = torch.load(LAST, weights_only=True)
    checkpoint["run"]["settings"]["trainer"]["callbacks"] = [{"class_path": "evil.Evil"}]
    checkpoint["run"]["settings"]["trainer"]["gradient_clip_val"] = 3
    Path("download").mkdir()
    SealedCheckpointIO().save_checkpoint(checkpoint, "download/a.ckpt")
    capsys.readouterr()
    assert main(["fit", "--ckpt_path=download/a.ckpt", "--trainer.max_epochs=3"]) == 0
    said = "note: trainer.callbacks of a run from elsewhere is not taken over"
    assert said in capsys.readouterr().out
    assert not Path("executed").exists()
    new = RUN.with_name("version_1") / "checkpoints/last.ckpt"
    settings = torch.load(new, weights_only=True)["run"]["settings"]
    assert settings["trainer"]["gradient_clip_val"] == 3


def test_from_within_the_folder_of_the_checkpoints(monkeypatch):
    assert main(["fit", *SMALL, "--trainer.accumulate_grad_batches=2"]) == 0
    monkeypatch.chdir(LAST.parent)
    assert main(["fit", "--ckpt_path=last.ckpt", "--trainer.max_epochs=3"]) == 0
    last = torch.load(LAST, weights_only=True)  # relative to here: a run of its own
    assert last["run"]["settings"]["trainer"]["accumulate_grad_batches"] == 2
    assert len(list(RUN.glob("events.*"))) == 2


def test_a_branch_knows_its_best():
    assert main(["fit", *SMALL]) == 0
    assert main(["fit", f"--ckpt_path={LAST.with_name('previous.ckpt')}"]) == 0
    branch = RUN.with_name("version_1")
    record = read_record(branch)
    assert record is not None
    best = torch.load(branch / "checkpoints/best.ckpt", weights_only=True)
    assert (record.best, record.best_epoch) == (
        best["callbacks"]["RunCheckpoint"]["best_score"],
        best["run"]["epochs"],
    )


def test_tensorboard_shows_every_picture_of_a_run_that_went_on():
    assert main(["fit", *SMALL]) == 0
    assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=3"]) == 0
    events = EventAccumulator(str(RUN), size_guidance={"images": 0, "scalars": 0})
    events.Reload()
    assert [event.step for event in events.Images("attention")] == [5, 11, 17]
    assert [event.step for event in events.Scalars("val/loss")] == [5, 11, 17]
    assert [event.step for event in events.Scalars("train/loss_step")] == list(range(18))


def test_a_run_without_checkpoints_has_nothing_to_resume(capsys):
    assert main(["fit", *SMALL]) == 0
    assert main(["fit", *SMALL, "--trainer.enable_checkpointing=false"]) == 0
    capsys.readouterr()
    assert runs([]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert "--ckpt_path last --trainer.max_epochs 4" in first
    assert second.split()[-1] == "-"
    assert main(["fit", "--ckpt_path=last"]) == 0
    assert f"going on from {LAST}: 2 epochs, 12 steps" in capsys.readouterr().out


def test_sigterm_without_checkpoints_is_143():
    long = ["--trainer.max_epochs=100000", "--trainer.enable_checkpointing=false"]
    process = start(Path(), ["reverse", "fit", *SMALL, *long])
    while not (RUN / "run.json").is_file():
        assert process.poll() is None, Path("output.txt").read_text()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143


def test_files_that_cannot_be_written_are_named(capsys):
    Path("lightning_logs").write_text("a file")
    assert main(["fit", *SMALL]) == 1
    assert capsys.readouterr().err == "error: lightning_logs/reverse/version_0: Not a directory\n"
    Path("lightning_logs").unlink()
    assert main(["fit", *SMALL]) == 0
    (RUN / "run.lock").unlink()
    (RUN / "run.lock").mkdir()
    capsys.readouterr()
    assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=3"]) == 1
    assert capsys.readouterr().err == f"error: {RUN / 'run.lock'}: Is a directory\n"


def test_strange_folders_do_not_keep_runs_from_being_listed(capsys):
    assert main(["fit", *SMALL]) == 0
    good = json.loads((RUN / "run.json").read_text())
    for number, change in enumerate(
        [{"best": "x"}, {"monitor": None}, {"epochs": None}, {"config": "\x1b[31m"}], start=1
    ):
        folder = RUN.with_name(f"version_{number}")
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps(good | change))
    RUN.with_name("version_²").mkdir()
    RUN.with_name("version_007").mkdir()
    capsys.readouterr()
    assert runs([]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_commands_are_quoted_for_the_shell(capsys):
    Path("my recipes").mkdir()
    shutil.copy(find_recipe("reverse"), "my recipes/one.yaml")
    assert main(["fit", *SMALL, "--config", "my recipes/one.yaml"]) == 0
    said = capsys.readouterr().out
    command = "vit-lightning reverse fit --config 'my recipes/one.yaml' --ckpt_path last"
    assert f"resume   {command}\n" in said
    assert os.path.isfile("lightning_logs/one/version_0/checkpoints/last.ckpt")
