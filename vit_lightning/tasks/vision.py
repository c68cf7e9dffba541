"""LitViT: a VisionTransformer with its loss, metrics, optimizer and schedule."""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix

from vit_lightning.models import VisionTransformer
from vit_lightning.optim import CosineWarmupScheduler, MuonAdamW, decay_groups, muon_groups
from vit_lightning.tasks.horizon import planned_steps
from vit_lightning.tasks.log_steps import is_logged
from vit_lightning.tasks.memory import keep_freed_memory

Batch = tuple[Tensor, Tensor]


class LitViT(LightningModule):
    """Train a `VisionTransformer` to classify pictures.

    A batch is (pictures, targets): normalised floats (batch, channels, height, width), and class
    numbers (batch,) or, where augmentation mixes or smooths them, class weights (batch, classes).
    Accuracy while training is counted against the heaviest class of a mixed target.

    Args:
        image_size: side of the pictures.
        in_channels: channels of the pictures.
        num_classes: number of classes.
        lr: highest learning rate.
        schedule: "cosine" falls to zero over the run, "constant" stays at `lr`; both after warmup.
        warmup: steps of linear warmup.
        max_iters: steps until the cosine is zero; None means the length of the run.
        weight_decay: of the linear and convolutional weights.
        optimizer: "adamw", or "muon" for Muon on the matrices of encoder and pooled stem, and AdamW
            on the rest.
        muon_lr: highest learning rate of Muon; `lr` is then that of the rest.
        fused_optimizer: whether AdamW takes torch's fused kernel; not with float16, whose gradients
            it would see unscaled too late to clip them.
        keep_memory: whether freed memory is kept for the next step instead of being given back; it
            saves about a tenth of a step's time on a CPU under Linux and changes no number.
        flip_averaging: in validation and test, average the prediction for a picture and its mirror
            image.
        network: the remaining arguments of `VisionTransformer`.
    """

    monitor = "val/acc"
    monitor_mode = "max"

    def __init__(
        self,
        image_size: int,
        in_channels: int,
        num_classes: int,
        *,
        lr: float = 1e-3,
        schedule: Literal["cosine", "constant"] = "cosine",
        warmup: int = 100,
        max_iters: int | None = None,
        weight_decay: float = 0.05,
        optimizer: Literal["adamw", "muon"] = "adamw",
        muon_lr: float = 0.02,
        fused_optimizer: bool = True,
        keep_memory: bool = True,
        flip_averaging: bool = False,
        **network: Any,
    ) -> None:
        super().__init__()
        for name, rate in (("lr", lr), ("muon_lr", muon_lr)):
            if rate <= 0:
                raise ValueError(f"{name} must be positive, got {rate}")
        if warmup < 0:
            raise ValueError(f"warmup must be at least 0, got {warmup}")
        if weight_decay < 0:
            raise ValueError(f"weight_decay must be at least 0, got {weight_decay}")
        if schedule not in ("cosine", "constant"):
            raise ValueError(f"schedule must be 'cosine' or 'constant', got {schedule!r}")
        if optimizer not in ("adamw", "muon"):
            raise ValueError(f"optimizer must be 'adamw' or 'muon', got {optimizer!r}")
        self.save_hyperparameters()
        self.network = VisionTransformer(
            image_size=image_size, in_channels=in_channels, num_classes=num_classes, **network
        )
        accuracy = MetricCollection(
            {
                "acc": MulticlassAccuracy(num_classes, average="micro"),
                "acc_top5": MulticlassAccuracy(
                    num_classes, average="micro", top_k=min(5, num_classes)
                ),
            }
        )
        # A metric of our own, and not Lightning's mean, so that it can be in a checkpoint.
        self.train_loss = MeanMetric(nan_strategy="disable")
        self.train_acc = MulticlassAccuracy(num_classes, average="micro")
        self.val_metrics = accuracy.clone(prefix="val/")
        self.test_metrics = accuracy.clone(prefix="test/")
        self.confusion = MulticlassConfusionMatrix(num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, (batch, num_classes)."""
        logits: Tensor = self.network(images.to(self.dtype))
        return logits

    def get_attention_maps(self, images: Tensor) -> list[Tensor]:
        """Return each layer's attention weights, (batch, num_heads, tokens, tokens)."""
        return self.network.get_attention_maps(images.to(self.dtype))

    def log_probabilities(self, images: Tensor) -> Tensor:
        """Return log-probabilities (batch, num_classes), flip-averaged if that is asked for."""
        logits: Tensor = self(images).float()
        if self.hparams["flip_averaging"]:
            mirrored: Tensor = self(images.flip(-1)).float()
            return ((logits.softmax(-1) + mirrored.softmax(-1)) / 2).clamp(min=1e-12).log()
        return logits.log_softmax(-1)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a training batch."""
        images, targets = batch
        logits = self(images).float()
        loss = F.cross_entropy(logits, targets)
        labels = targets.argmax(-1) if targets.is_floating_point() else targets
        self.train_loss.update(loss.detach(), len(images))
        self.train_acc.update(logits.detach(), labels)
        if is_logged(self):
            self.log("train/loss_step", loss, on_step=True, on_epoch=False)
        return loss

    def on_train_epoch_end(self) -> None:
        """Log loss and accuracy of the epoch: here, as a metric is slow to log at every step."""
        self.log("train/loss_epoch", self.train_loss)
        self.log("train/acc", self.train_acc, prog_bar=True)

    def _evaluate(self, batch: Batch, stage: str, metrics: MetricCollection) -> None:
        images, labels = batch
        scores = self.log_probabilities(images)
        loss = F.nll_loss(scores, labels)
        metrics.update(scores, labels)
        self.log(f"{stage}/loss", loss, on_epoch=True, batch_size=len(images))
        self.log_dict(metrics, on_epoch=True, prog_bar=stage == "val")
        if stage == "test":
            self.confusion.update(scores, labels)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Log loss and accuracy of a validation batch."""
        self._evaluate(batch, "val", self.val_metrics)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Log loss and accuracy of a test batch, and count confusions."""
        self._evaluate(batch, "test", self.test_metrics)

    def on_test_epoch_start(self) -> None:
        """Count confusions anew."""
        self.confusion.reset()

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return class probabilities, (batch, num_classes)."""
        return self.log_probabilities(batch[0]).exp()

    def on_fit_start(self) -> None:
        """Tell the allocator what training is like."""
        if self.hparams["keep_memory"]:
            keep_freed_memory()

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip as Lightning does, which refuses to with mixed precision and a fused optimizer."""
        if gradient_clip_val is None:
            return
        if not self._fused:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)
        elif gradient_clip_algorithm == "value":
            clip_grad_value_(self.parameters(), gradient_clip_val)
        else:
            clip_grad_norm_(self.parameters(), gradient_clip_val)

    @property
    def _fused(self) -> bool:
        return self.hparams["fused_optimizer"] and self.trainer.precision != "16-mixed"

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Set up the optimizer, and the schedule, stepped with it."""
        hparams, network = self.hparams, self.network
        lr, decay = hparams["lr"], hparams["weight_decay"]
        if hparams["optimizer"] == "muon":
            groups = muon_groups(network, [network.stem, network.encoder], decay)
            optimizer: Optimizer = MuonAdamW(
                *groups, muon_lr=hparams["muon_lr"], lr=lr, fused=self._fused
            )
        else:
            optimizer = torch.optim.AdamW(decay_groups(network, decay), lr=lr, fused=self._fused)
        if hparams["schedule"] == "constant":
            warmup = hparams["warmup"]
            scheduler: LRScheduler = LambdaLR(
                optimizer, lambda step: step / warmup if step < warmup else 1.0
            )
        else:
            horizon = hparams["max_iters"] or planned_steps(self.trainer)
            scheduler = CosineWarmupScheduler(optimizer, hparams["warmup"], horizon)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }
