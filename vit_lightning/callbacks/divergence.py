"""Stop a run whose loss is no longer a number, before it wastes a night."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor


class StopOnDivergence(Callback):
    """Raise FloatingPointError when the training loss is infinite or not a number.

    On a CPU every step is looked at; elsewhere, where looking means waiting for the device, as many
    at a time as lie between two entries in the log.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[int, float]] = []  # their numbers and learning rates
        self._losses: list[Tensor] = []

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Note the step and its learning rate."""
        self._steps.append((trainer.global_step, trainer.optimizers[0].param_groups[0]["lr"]))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Look at the loss."""
        self._losses.append(outputs["loss"].detach())
        interval: int = trainer.log_every_n_steps  # type: ignore[attr-defined]  # a connector sets it
        if self._losses[-1].device.type == "cpu" or len(self._losses) >= interval:
            self._check(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look at the rest."""
        self._check(trainer)

    def _check(self, trainer: Trainer) -> None:
        steps, losses = self._steps, self._losses
        self._steps, self._losses = [], []
        if not losses or bool(torch.stack(losses).isfinite().all()):
            return
        (step, rate), loss = next(
            (s, float(x)) for s, x in zip(steps, losses, strict=True) if not x.isfinite()
        )
        raise FloatingPointError(
            f"the loss is {loss} at step {step} (epoch {trainer.current_epoch + 1}, "
            f"learning rate {rate:.3g})"
        )
