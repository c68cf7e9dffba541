"""Stopped after any step and resumed, in one process, a run ends as one without a stop."""

import contextlib
import os
import random
from pathlib import Path

import pytest
import torch
from killing import compare, differences
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging
from lightning.pytorch.loggers import TensorBoardLogger

from vit_lightning.callbacks import (
    LearningRates,
    RunCheckpoint,
    RunStopped,
    SealedCheckpointIO,
)
from vit_lightning.callbacks.event_files import rewind_events
from vit_lightning.data import ReverseDataModule
from vit_lightning.tasks import LitPredictor

STEPS = 5  # an epoch


class Failing(LitPredictor):
    """Fails once, in a step of the second epoch, after the forward pass."""

    fails = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        if self.fails and (self.trainer.current_epoch, batch_idx) == (1, 3):
            raise RuntimeError("a cable came loose")
        return loss


def train(folder: Path, *, stop: int = -1, fails: bool = False, resume: bool = False, **how):
    """Train for two epochs; `stop` is the step after which it is asked to stop."""
    torch.manual_seed(3)
    random.seed(3)
    kind = {"model_dim": 8, "num_heads": 1, "num_layers": 1, "dropout": 0.3, "warmup": 2}
    model = Failing(5, 5, **kind)
    model.fails = fails
    callback = RunCheckpoint(
        folder / "checkpoints",
        "val/loss",
        "min",
        every_minutes=how.pop("every_minutes", 5),
        stop_asked=lambda: 0 < stop <= trainer.global_step,
    )
    trainer = Trainer(
        max_epochs=how.pop("max_epochs", 2),
        accelerator="cpu",
        callbacks=[callback, LearningRates(), EMAWeightAveraging(decay=0.7)],
        logger=TensorBoardLogger(folder, name="", version="", default_hp_metric=False),
        log_every_n_steps=1,
        plugins=[SealedCheckpointIO()],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **how,
    )
    data = ReverseDataModule(
        num_categories=5, seq_len=6, train_size=32 * STEPS - 3, val_size=32, batch_size=32
    )
    last = folder / "checkpoints" / "last.ckpt"
    if resume:
        rewind_events(folder, torch.load(last, weights_only=True)["run"]["events"])
    path = str(last) if resume else None
    trainer.fit(model, data, ckpt_path=path, weights_only=True)
    return callback


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    train(folder)
    return folder


@pytest.mark.parametrize("stop", range(1, 2 * STEPS))
def test_stopped_after_any_step(stop, whole, tmp_path):
    with pytest.raises(RunStopped):
        train(tmp_path, stop=stop)
    last = torch.load(tmp_path / "checkpoints/last.ckpt", weights_only=True)
    assert last["global_step"] == stop
    train(tmp_path, resume=True)
    compare(whole, tmp_path)


@pytest.mark.parametrize("stop", [1, 3, 4, 5, 6])
@pytest.mark.parametrize(
    "how",
    [
        {"accumulate_grad_batches": 2},
        {"val_check_interval": 1},
        {"val_check_interval": 2},
        {"val_check_interval": 2, "accumulate_grad_batches": 2},
        {"val_check_interval": 3},
        {"check_val_every_n_epoch": 2},
        {"limit_train_batches": 4},
        {"max_steps": 8},
        {"max_steps": 8, "max_epochs": -1},
    ],
    ids=str,
)
def test_stopped_with_other_settings_of_the_trainer(stop, how, tmp_path):
    train(tmp_path / "whole", **how)
    with contextlib.suppress(RunStopped):  # one of them has fewer steps
        train(tmp_path / "stopped", stop=stop, **how)
    train(tmp_path / "stopped", resume=True, **how)
    compare(tmp_path / "whole", tmp_path / "stopped")


def test_a_step_that_fails_is_taken_back(whole, tmp_path):
    with pytest.raises(RuntimeError, match="a cable came loose"):
        train(tmp_path, fails=True)
    last = torch.load(tmp_path / "checkpoints/last.ckpt", weights_only=True)
    assert last["global_step"] == STEPS + 3
    train(tmp_path, resume=True)
    compare(whole, tmp_path)


def test_saving_at_every_step_changes_nothing(whole, tmp_path):
    train(tmp_path, every_minutes=1e-9)
    compare(whole, tmp_path)
    previous = torch.load(tmp_path / "checkpoints/previous.ckpt", weights_only=True)
    assert previous["global_step"] == 2 * STEPS - 1


def test_the_latest_the_one_before_and_the_best_are_kept(whole):
    files = {p.stem: torch.load(p, weights_only=True) for p in (whole / "checkpoints").iterdir()}
    assert files.keys() == {"last", "previous", "best"}
    assert files["last"]["run"]["epochs"] == 2
    assert files["previous"]["run"]["epochs"] == 1
    state = files["last"]["callbacks"]["RunCheckpoint"]
    assert files["best"]["run"]["epochs"] == state["best_epoch"]
    # For whoever only wants to use the model: the averaged weights.
    assert differences(files["last"]["state_dict"], files["last"]["current_model_state"]) != []


def test_the_best_is_told_by_the_mode_and_never_by_nan(tmp_path):
    for mode, better in (("min", 1.0), ("max", 3.0)):
        callback = RunCheckpoint(tmp_path, "val/loss", mode)
        assert not callback._is_better(float("nan"))
        assert callback._is_better(2.0)
        callback.best_score = 2.0
        assert callback._is_better(better)
        assert not callback._is_better(4.0 - better)
        assert not callback._is_better(2.0)
        assert not callback._is_better(float("nan"))


def test_weights_that_are_not_finite_are_not_saved(tmp_path, monkeypatch):
    step = torch.optim.Adam.step

    def broken(self, closure=None):
        loss = step(self, closure)
        self.param_groups[0]["params"][0].data.fill_(float("inf"))
        return loss

    monkeypatch.setattr(torch.optim.Adam, "step", broken)
    with pytest.raises(FloatingPointError, match="the weights are not finite after step 1"):
        train(tmp_path, every_minutes=1e-9)
    assert os.listdir(tmp_path / "checkpoints") == ["last.ckpt"]
    assert torch.load(tmp_path / "checkpoints/last.ckpt", weights_only=True)["global_step"] == 0


def test_minutes_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="every_minutes must be positive, got 0"):
        RunCheckpoint(tmp_path, "val/loss", "min", every_minutes=0)
