"""Save a run so that it can go on from the file as if it had never stopped, to the last bit.

Lightning's checkpoints lack the state of the random generators, of the metrics over an epoch and of
the log, and its own callback saves before the figures of a step or an epoch are logged. Here a
checkpoint is taken between two steps, when everything about the one before is done.
"""

import contextlib
import copy
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from torch.optim import Optimizer
from torchmetrics import Metric

from vit_lightning.callbacks.checkpoint_file import sync_folder, write_file
from vit_lightning.callbacks.event_files import event_lengths

State = dict[str, Any]


class RunStopped(Exception):
    """The run was asked to stop, and has saved itself."""


@dataclass(frozen=True)
class Moment:
    """A point between two steps.

    Attributes:
        batch: batches of the epoch that are done; None between two epochs.
        random: states of the random generators.
        metrics: states of the metrics, by name.
    """

    batch: int | None
    random: State
    metrics: State


class RunCheckpoint(Callback):
    """Keep the latest checkpoint, the one before it and the best, as `last`, `previous`, `best`.

    They are written when training starts, after every epoch, every so many minutes, when the run is
    asked to stop and, if the weights are still those of the step before, when it fails. This must
    be the first of the callbacks, so that none has logged anything about the coming step.

    Args:
        folder: where they go.
        monitor: the validation metric that says which is best.
        mode: whether "min" or "max" of it is.
        every_minutes: longest time between two checkpoints.
        stop_asked: says whether the run should stop.
        on_saved: is told of each checkpoint, for keeping a record.
    """

    def __init__(
        self,
        folder: Path,
        monitor: str,
        mode: str,
        every_minutes: float = 5.0,
        stop_asked: Callable[[], bool] = lambda: False,
        on_saved: Callable[["RunCheckpoint"], None] = lambda _: None,
    ) -> None:
        if every_minutes <= 0:
            raise ValueError(f"checkpoint.every_minutes must be positive, got {every_minutes}")
        self.folder = folder
        self.monitor = monitor
        self.mode = mode
        self.every_minutes = every_minutes
        self.stop_asked = stop_asked
        self.on_saved = on_saved
        self.best_score: float | None = None
        self.best_epoch: int | None = None
        self.epochs = 0  # of the latest checkpoint
        self.step = 0
        self._moment: Moment | None = None
        self._restored: State | None = None
        self._validated = False
        self._saved_at = 0.0

    def state_dict(self) -> State:
        """Remember the best across a stop."""
        return {"best_score": self.best_score, "best_epoch": self.best_epoch}

    def load_state_dict(self, state_dict: State) -> None:
        """Take it up again."""
        self.best_score = state_dict["best_score"]
        self.best_epoch = state_dict["best_epoch"]

    # When to save

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Go on where the checkpoint was written; in a new run, write the first."""
        if self._restored is not None:
            set_random_states(self._restored["random"])
            set_metric_states(pl_module, self._restored["metrics"])
            self._restored = None
        self._saved_at = time.monotonic()
        if not (self.folder / "last.ckpt").is_file():
            self._save(trainer, self._take(pl_module, None))

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the epoch before."""
        if trainer.current_epoch > self.epochs:
            self._save_epoch(trainer, pl_module)
        self._stop_if_asked()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the last epoch."""
        if trainer.current_epoch > self.epochs:
            self._save_epoch(trainer, pl_module)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remember that there are new figures."""
        self._validated = not trainer.sanity_checking

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Save within the epoch, if it is time."""
        # Half a step's gradients are in no checkpoint. Before the first batch nothing is new, and
        # after a validation within the epoch Lightning could not tell that it is over.
        if batch_idx % trainer.accumulate_grad_batches or batch_idx == 0 or self._validated:
            self._validated = False
            return
        self._moment = self._take(pl_module, batch_idx)
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

    def _take(self, pl_module: LightningModule, batch: int | None) -> Moment:
        return Moment(batch, random_states(), metric_states(pl_module))

    def _save_epoch(self, trainer: Trainer, pl_module: LightningModule) -> None:
        score = trainer.callback_metrics.get(self.monitor)
        best = self._validated and score is not None and self._is_better(float(score))
        if best and score is not None:
            self.best_score, self.best_epoch = float(score), trainer.current_epoch
        self._validated = False
        self._save(trainer, self._take(pl_module, None), best=best)

    def _is_better(self, score: float) -> bool:
        if self.best_score is None:
            return score == score  # anything but NaN
        return score < self.best_score if self.mode == "min" else score > self.best_score

    def _save(self, trainer: Trainer, moment: Moment, *, best: bool = False) -> None:
        check_weights(trainer)
        self._moment = moment
        new = self.folder / "next.ckpt"
        trainer.save_checkpoint(new)
        last = self.folder / "last.ckpt"
        # Whatever happens between two of these lines, a whole `last` or `previous` is there, and
        # `best` is never older than the best that they know of.
        if best:
            write_file(self.folder / "best.ckpt", [new.read_bytes()])
        if last.is_file():
            last.replace(self.folder / "previous.ckpt")
        new.replace(last)
        sync_folder(self.folder)
        self._saved_at = time.monotonic()
        self.epochs, self.step = trainer.current_epoch, trainer.global_step
        self.on_saved(self)

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: State
    ) -> None:
        """Add what Lightning leaves out, and set its counters to the moment."""
        moment = self._moment
        if moment is None:  # somebody else saves, in the middle of a step
            return
        set_progress(checkpoint["loops"]["fit_loop"], moment.batch)
        checkpoint["run"] = {
            "random": moment.random,
            "metrics": moment.metrics,
            "events": logged(trainer),
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


def check_weights(trainer: Trainer) -> None:
    """Refuse to save weights that are of no use.

    Raises:
        FloatingPointError: if one is infinite or not a number.
    """
    weights = [weight.detach() for weight in trainer.lightning_module.parameters()]
    if not bool(torch.nn.utils.get_total_norm(weights).isfinite()):
        raise FloatingPointError(f"the weights are not finite after step {trainer.global_step}")


def random_states() -> State:
    """Return the states of the generators that dropout, say, draws from."""
    states: State = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    if torch.backends.mps.is_available():
        states["mps"] = torch.mps.get_rng_state()
    return states


def set_random_states(states: State) -> None:
    """Put the generators into these states, as far as they are there."""
    torch.set_rng_state(states["torch"])
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])
    if "mps" in states and torch.backends.mps.is_available():
        torch.mps.set_rng_state(states["mps"])


def _metrics(module: LightningModule) -> dict[str, Metric]:
    return {name: m for name, m in module.named_modules() if isinstance(m, Metric)}


def metric_states(module: LightningModule) -> State:
    """Return what the metrics that were updated have counted so far."""
    return {
        name: {
            "states": {key: copy.deepcopy(value) for key, value in metric.metric_state.items()},
            "updates": metric.update_count,
        }
        for name, metric in _metrics(module).items()
        if metric.update_called
    }


def set_metric_states(module: LightningModule, states: State) -> None:
    """Let the metrics go on counting from there."""
    metrics = _metrics(module)
    for name, state in states.items():
        for key, value in state["states"].items():
            setattr(metrics[name], key, value)
        metrics[name]._update_count = state["updates"]


def set_progress(loop: State, batch: int | None) -> None:
    """Set the counters of a checkpoint to a point between two steps.

    Args:
        loop: the state of Lightning's fit loop.
        batch: batches of the epoch that are done; None between two epochs.
    """
    if batch is None:
        for counts in (loop["epoch_progress"]["total"], loop["epoch_progress"]["current"]):
            counts["ready"] = counts["started"] = counts["processed"] = counts["completed"]
        return
    progress = loop["epoch_loop.batch_progress"]
    begun = progress["current"]["completed"] - batch  # of a step that takes several batches
    for counts in (progress["total"], progress["current"]):
        done = counts["completed"] - begun
        counts["ready"] = counts["started"] = counts["processed"] = counts["completed"] = done
    progress["is_last_batch"] = False
    for loader in loop["state_dict"].get("combined_loader", []):
        loader["position"] = batch


def logged(trainer: Trainer) -> dict[str, int]:
    """Write out what was logged, and say how long the files are."""
    logger = trainer.logger
    if not isinstance(logger, TensorBoardLogger):
        return {}
    logger.experiment.flush()
    return event_lengths(Path(logger.log_dir))
