"""Save a run so that it can go on from the file as if it had never stopped, to the last bit.

Lightning's checkpoints lack the state of the random generators, of the metrics over an epoch and of
the log, and its own callback saves before the figures of a step or an epoch are logged. Here a
checkpoint is taken between two steps, when everything about the one before is done.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.optim import Optimizer
from torchmetrics import Metric

from vit_lightning.callbacks.checkpoint_file import replace_by_copy, sync_folder, write_file
from vit_lightning.callbacks.run_state import (
    State,
    check_weights,
    logged,
    metric_states,
    metrics_of,
    random_states,
    set_metric_states,
    set_progress,
    set_random_states,
)

SHARE = 0.02  # of the time that saving after short epochs may take


class RunStopped(Exception):
    """The run was asked to stop, and has saved itself."""


@dataclass(frozen=True)
class Moment:
    """A point between two steps.

    Attributes:
        batch: batches of the epoch that are done; None between two epochs.
        validated: whether a validation came after the last of them.
        random: states of the random generators.
        metrics: states of the metrics, by name.
    """

    batch: int | None
    validated: bool
    random: State
    metrics: State


class RunCheckpoint(Callback):
    """Keep the latest checkpoint, the one before it and the best, as `last`, `previous`, `best`.

    They are written when training starts, after every epoch, every so many minutes, when the run is
    asked to stop, at the end and, if the weights are still those of the step before, when it fails.
    Epochs so short that saving each would take over 2 % of the time are passed over, but for the
    best and the last. This must be the first of the callbacks, so that none has logged anything
    about the coming step.

    Args:
        folder: where they go.
        monitor: the validation metric that says which is best.
        mode: whether "min" or "max" of it is.
        every_minutes: longest time between two checkpoints.
        settings: plain ones, that a command which goes on is to use again.
        stop_asked: says whether the run should stop.
        on_saved: is told of each checkpoint, for keeping a record.
    """

    def __init__(
        self,
        folder: Path,
        monitor: str,
        mode: str,
        every_minutes: float = 5.0,
        settings: State | None = None,
        stop_asked: Callable[[], bool] = lambda: False,
        on_saved: Callable[["RunCheckpoint"], None] = lambda _: None,
    ) -> None:
        if every_minutes <= 0:
            raise ValueError(f"checkpoint.every_minutes must be positive, got {every_minutes}")
        self.folder = folder
        self.monitor = monitor
        self.mode = mode
        self.every_minutes = every_minutes
        self.settings = settings or {}
        self.stop_asked = stop_asked
        self.on_saved = on_saved
        self.best_score: float | None = None
        self.best_epoch: int | None = None
        self.epochs = 0  # of the latest checkpoint
        self.step = 0
        self._metrics: dict[str, Metric] = {}
        self._moment: Moment | None = None
        self._restored: State | None = None
        self._score: float | None = None  # the latest of this epoch
        self._validated = False  # since the last step
        self._saved_at = 0.0
        self._save_seconds = 0.0  # so far
        self._began = 0.0

    def state_dict(self) -> State:
        """Remember the best across a stop, and what was measured since the last epoch."""
        best = {"best_score": self.best_score, "best_epoch": self.best_epoch}
        return best | {"score": self._score}

    def load_state_dict(self, state_dict: State) -> None:
        """Take it up again."""
        self.best_score = state_dict["best_score"]
        self.best_epoch = state_dict["best_epoch"]
        self._score = state_dict["score"]

    # When to save

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Go on where the checkpoint was written; in a new folder, write the first."""
        self._metrics = metrics_of(pl_module)
        batch = None
        if self._restored is not None:
            set_random_states(self._restored["random"])
            set_metric_states(self._metrics, self._restored["metrics"])
            batch = self._restored["batch"]
            self._validated = self._restored["validated"]
            if batch is None:  # with max_steps Lightning would not see that
                trainer.fit_loop.epoch_loop.restarting = False
            self._restored = None
        if not (self.folder / "best.ckpt").is_file():
            self.best_score = self.best_epoch = None
        self._began = self._saved_at = time.monotonic()
        if not (self.folder / "last.ckpt").is_file():
            self._save(trainer, self._take(batch))

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the epoch before."""
        if trainer.current_epoch > self.epochs:
            self._save_epoch(trainer, sparing=not self.stop_asked())
        self._stop_if_asked()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the last epoch."""
        if trainer.current_epoch > self.epochs:
            self._save_epoch(trainer)
        self._moment = None

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remember the score."""
        if not trainer.sanity_checking and self.monitor in trainer.callback_metrics:
            self._score = float(trainer.callback_metrics[self.monitor])
        self._validated = True

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Save within the epoch, if it is time."""
        # Half a step's gradients are in no checkpoint, and before the first batch nothing is new.
        if batch_idx % trainer.accumulate_grad_batches or batch_idx == 0:
            self._validated = False
            return
        self._moment = self._take(batch_idx)
        self._validated = False
        overdue = time.monotonic() - self._saved_at >= 60 * self.every_minutes
        if overdue or self.stop_asked():
            self._save(trainer, self._moment)
        self._stop_if_asked()

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        """Forget the moment: from here on the weights are no longer those of it."""
        self._moment = None

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Save what was reached before the step that failed."""
        if self._moment is not None and not isinstance(exception, RunStopped | OSError):
            with contextlib.suppress(OSError, FloatingPointError):  # what happened first is told
                self._save(trainer, self._moment)

    def _stop_if_asked(self) -> None:
        if self.stop_asked():
            raise RunStopped

    # What is saved

    def _take(self, batch: int | None) -> Moment:
        return Moment(batch, self._validated, random_states(), metric_states(self._metrics))

    def _save_epoch(self, trainer: Trainer, *, sparing: bool = False) -> None:
        best = self._score is not None and self._is_better(self._score)
        if best:
            self.best_score, self.best_epoch = self._score, trainer.current_epoch
        self._score = None
        dear = self._save_seconds > SHARE * (time.monotonic() - self._began)
        if best or not (sparing and dear):
            self._save(trainer, self._take(None), best=best)

    def _is_better(self, score: float) -> bool:
        if self.best_score is None:
            return score == score  # anything but NaN
        return score < self.best_score if self.mode == "min" else score > self.best_score

    def _save(self, trainer: Trainer, moment: Moment, *, best: bool = False) -> None:
        start = time.monotonic()
        check_weights(trainer)
        self._moment = moment
        new = self.folder / "next.ckpt"
        trainer.save_checkpoint(new)
        last = self.folder / "last.ckpt"
        # Whatever happens between two of these lines, a whole `last` is there, and `best` is never
        # older than the best that it knows of.
        if best:
            write_file(self.folder / "best.ckpt", [new.read_bytes()])
        if last.is_file():
            replace_by_copy(last, self.folder / "previous.ckpt")
        new.replace(last)
        sync_folder(self.folder)
        self._saved_at = time.monotonic()
        self._save_seconds += self._saved_at - start
        self.epochs, self.step = trainer.current_epoch, trainer.global_step
        self.on_saved(self)

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: State
    ) -> None:
        """Add what Lightning leaves out, and set its counters to the moment."""
        moment = self._moment
        if moment is None:  # somebody else saves, in the middle of a step
            return
        set_progress(checkpoint["loops"]["fit_loop"], moment.batch, validated=moment.validated)
        checkpoint["run"] = {
            "settings": self.settings,
            "batch": moment.batch,
            "validated": moment.validated,
            "random": moment.random,
            "metrics": moment.metrics,
            "events": logged(trainer, self.folder.parent),
            "epochs": trainer.current_epoch,
            "torch": str(torch.__version__),
            "threads": torch.get_num_threads(),
            "device": trainer.strategy.root_device.type,
        }

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: State
    ) -> None:
        """Remember what is to be set when training starts."""
        self._restored = checkpoint["run"]
        self.epochs = checkpoint["run"]["epochs"]
        self.step = checkpoint["global_step"]
