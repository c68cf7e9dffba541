"""What a checkpoint must hold for an exact resume, beyond what Lightning puts into it."""

import random
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor
from torchmetrics import Metric

from vit_lightning.callbacks.event_files import event_lengths

State = dict[str, Any]


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
    # Asked at every step; is_available would take long.
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch leaves it untyped
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


def metrics_of(module: LightningModule) -> dict[str, Metric]:
    """Return the metrics of a module by name."""
    return {name: m for name, m in module.named_modules() if isinstance(m, Metric)}


def metric_states(metrics: dict[str, Metric]) -> State:
    """Return what those of the metrics that were updated have counted so far."""
    return {
        name: {
            "states": {key: _copied(value) for key, value in metric.metric_state.items()},
            "updates": metric.update_count,
        }
        for name, metric in metrics.items()
        if metric.update_called
    }


def _copied(state: Tensor | list[Tensor]) -> Tensor | list[Tensor]:
    return state.clone() if isinstance(state, Tensor) else [part.clone() for part in state]


def set_metric_states(metrics: dict[str, Metric], states: State) -> None:
    """Let the metrics go on counting from there."""
    for name, state in states.items():
        for key, value in state["states"].items():
            setattr(metrics[name], key, value)
        metrics[name]._update_count = state["updates"]


def set_progress(loop: State, batch: int | None, *, validated: bool) -> None:
    """Set the counters of a checkpoint to a point between two steps.

    Args:
        loop: the state of Lightning's fit loop.
        batch: batches of the epoch that are done; None between two epochs.
        validated: whether a validation came after the last of them.
    """
    for loader in loop["state_dict"].get("combined_loader", []):
        loader["position"] = batch or 0
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
    steps = loop["epoch_loop.automatic_optimization.optim_progress"]["optimizer"]["step"]
    for counts in (steps["total"], steps["current"]):
        counts["ready"] = counts["completed"]  # a step that failed had begun
    if validated:  # Lightning skips that validation when it goes on, but counts the step again
        loop["epoch_loop.state_dict"]["_batches_that_stepped"] -= 1


def logged(trainer: Trainer, run: Path) -> dict[str, int]:
    """Write out what was logged, and say how long TensorBoard's files in the folder are."""
    if isinstance(trainer.logger, TensorBoardLogger):
        trainer.logger.experiment.flush()
    return event_lengths(run)
