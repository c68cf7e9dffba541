"""LitPredictor: a TransformerPredictor with its loss, metric, optimizer and schedule."""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor
from torchmetrics import MeanMetric, Metric, R2Score
from torchmetrics.classification import BinaryAccuracy, MulticlassAccuracy

from vit_lightning.models import TransformerPredictor
from vit_lightning.optim import CosineWarmupScheduler
from vit_lightning.tasks.horizon import planned_steps
from vit_lightning.tasks.log_steps import is_logged

IGNORE = -100  # the label of padding; torch's cross-entropy skips it by default
Batch = tuple[Tensor, Tensor]


class LitPredictor(LightningModule):
    """Train a `TransformerPredictor` on sequences of symbols.

    A batch is (symbols, labels): symbols are integers (batch, length), negative where padded;
    labels are (batch, length) for a prediction per element or (batch,) for one per sequence.

    Args:
        input_dim: number of different symbols.
        num_classes: outputs per prediction.
        objective: the loss; accuracy is the metric for the two cross-entropies, R2 for the error.
        label_mean: what a regression's output of 0 stands for.
        label_std: what a regression's output of 1 adds to it.
        lr: highest learning rate.
        warmup: steps of linear warmup.
        max_iters: steps until the learning rate is zero; None means the length of the run.
        optimizer: "adam" or "adamw".
        weight_decay: of the optimizer.
        add_positional_encoding: whether the model is told the order.
        network: the remaining arguments of `TransformerPredictor`.
    """

    # The loss still tells two models apart when both answer everything right.
    monitor = "val/loss"
    monitor_mode = "min"

    def __init__(
        self,
        input_dim: int,
        num_classes: int,
        *,
        objective: Literal[
            "cross_entropy", "binary_cross_entropy", "mean_squared_error"
        ] = "cross_entropy",
        label_mean: float = 0.0,
        label_std: float = 1.0,
        lr: float = 5e-4,
        warmup: int = 50,
        max_iters: int | None = None,
        optimizer: Literal["adam", "adamw"] = "adam",
        weight_decay: float = 0.0,
        add_positional_encoding: bool = True,
        **network: Any,
    ) -> None:
        super().__init__()
        if lr <= 0:
            raise ValueError(f"lr must be positive, got {lr}")
        if warmup < 0:
            raise ValueError(f"warmup must be at least 0, got {warmup}")
        if optimizer not in ("adam", "adamw"):
            raise ValueError(f"optimizer must be 'adam' or 'adamw', got {optimizer!r}")
        self.save_hyperparameters()
        self.input_dim = input_dim
        self.objective = objective
        self.metric_name = "r2" if objective == "mean_squared_error" else "acc"
        self.network = TransformerPredictor(input_dim=input_dim, num_classes=num_classes, **network)
        # A metric of our own, and not Lightning's mean, so that it can be in a checkpoint.
        self.train_loss = MeanMetric(nan_strategy="disable")
        self.metrics = torch.nn.ModuleDict(
            {f"{stage}_metric": self._new_metric(num_classes) for stage in ("train", "val", "test")}
        )

    def _new_metric(self, num_classes: int) -> Metric:
        match self.objective:
            case "cross_entropy":
                return MulticlassAccuracy(num_classes, average="micro", ignore_index=IGNORE)
            case "binary_cross_entropy":
                return BinaryAccuracy()
            case "mean_squared_error":
                return R2Score()
        raise ValueError(
            "objective must be 'cross_entropy', 'binary_cross_entropy' or 'mean_squared_error', "
            f"got {self.objective!r}"
        )

    def features(self, symbols: Tensor) -> tuple[Tensor, Tensor | None]:
        """Turn symbols into one-hot features, and their padding, if there is any, into a mask."""
        present = symbols >= 0  # (B, L)
        one_hot = F.one_hot(symbols.clamp(min=0), self.input_dim) * present[..., None]
        mask = None if bool(present.all()) else present[:, None, None, :]
        return one_hot.to(self.dtype), mask  # (B, L, input_dim), (B, 1, 1, L)

    def forward(self, symbols: Tensor) -> Tensor:
        """Predict: logits (..., num_classes), or one logit or number a sequence, (batch,)."""
        x, mask = self.features(symbols)
        output: Tensor = self.network(x, mask, self.hparams["add_positional_encoding"])
        return output if self.objective == "cross_entropy" else output.squeeze(-1)

    def get_attention_maps(self, symbols: Tensor) -> list[Tensor]:
        """Return each layer's attention weights, (batch, num_heads, length, length)."""
        x, mask = self.features(symbols)
        return self.network.get_attention_maps(x, mask, self.hparams["add_positional_encoding"])

    def _step(self, batch: Batch, stage: str) -> Tensor:
        symbols, labels = batch
        output = self(symbols).float()
        predicted = output.shape[:-1] if self.objective == "cross_entropy" else output.shape
        if predicted != labels.shape:
            raise ValueError(
                "model.pooling must be set for one label a sequence and null for one an element; "
                f"the labels are {tuple(labels.shape)}, the predictions {tuple(predicted)}"
            )
        scores = output.detach()
        match self.objective:
            case "cross_entropy":
                output = output.flatten(0, -2)  # (B, L, C) -> (B * L, C)
                scores = output.detach()
                labels = labels.flatten()
                loss = F.cross_entropy(output, labels, ignore_index=IGNORE)
            case "binary_cross_entropy":
                scores = scores.sigmoid()  # torchmetrics would guess whether these are logits
                loss = F.binary_cross_entropy_with_logits(output, labels)
            case _:
                labels = (labels - self.hparams["label_mean"]) / self.hparams["label_std"]
                loss = F.mse_loss(output, labels)
        metric = self.metrics[f"{stage}_metric"]
        assert isinstance(metric, Metric)
        metric.update(scores, labels)
        if stage == "train":
            self.train_loss.update(loss.detach(), len(symbols))
            if is_logged(self):
                self.log("train/loss_step", loss, on_step=True, on_epoch=False)
        else:
            self.log(f"{stage}/loss", loss, on_epoch=True, batch_size=len(symbols))
            self.log(f"{stage}/{self.metric_name}", metric, on_epoch=True, prog_bar=True)
        return loss

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a training batch."""
        return self._step(batch, "train")

    def on_train_epoch_end(self) -> None:
        """Log loss and metric of the epoch: here, as a metric is slow to log at every step."""
        self.log("train/loss_epoch", self.train_loss)
        metric = self.metrics["train_metric"]
        assert isinstance(metric, Metric)
        self.log(f"train/{self.metric_name}", metric, prog_bar=True)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Log loss and metric of a validation batch."""
        self._step(batch, "val")

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Log loss and metric of a test batch."""
        self._step(batch, "test")

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the most likely classes, the 0/1 answers or the numbers, in the labels' units."""
        output: Tensor = self(batch[0])
        match self.objective:
            case "cross_entropy":
                return output.argmax(dim=-1)
            case "binary_cross_entropy":
                return (output > 0).long()
        mean, std = (float(self.hparams[name]) for name in ("label_mean", "label_std"))
        return output * std + mean

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """Set up Adam or AdamW under a cosine schedule with warmup, stepped with the optimizer."""
        hparams = self.hparams
        adam = torch.optim.AdamW if hparams["optimizer"] == "adamw" else torch.optim.Adam
        optimizer = adam(
            self.network.parameters(), lr=hparams["lr"], weight_decay=hparams["weight_decay"]
        )
        horizon = hparams["max_iters"] or planned_steps(self.trainer)
        scheduler = CosineWarmupScheduler(optimizer, hparams["warmup"], horizon)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }
