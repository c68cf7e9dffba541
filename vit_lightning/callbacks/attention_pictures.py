"""Draw what attention does to the first validation samples, while the model learns."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch import Tensor

from vit_lightning.viz.attention import pixels, sequence_attention, to_png
from vit_lightning.viz.picture_attention import picture_attention


class AttentionPictures(Callback, ABC):
    """Log the attention for the first validation samples; keep the newest as `attention.png`.

    Args:
        every_n_epochs: validation epochs between two pictures; the last epoch has one in any case.
    """

    def __init__(self, every_n_epochs: int = 1) -> None:
        self.every_n_epochs = every_n_epochs
        self._samples: tuple[Tensor, Tensor] | None = None

    @abstractmethod
    def draw(self, trainer: Trainer, module: Any, samples: tuple[Tensor, Tensor]) -> bytes:
        """Draw the attention for the first of these inputs, with their labels, as PNG."""

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: STEP_OUTPUT,
        batch: tuple[Tensor, Tensor],
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Remember the first samples."""
        if batch_idx == 0:
            self._samples = batch[0][:4], batch[1][:4]

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw them."""
        due = trainer.current_epoch % self.every_n_epochs == 0
        last = trainer.current_epoch + 1 == trainer.max_epochs
        logger = trainer.logger
        if trainer.sanity_checking or not (due or last) or self._samples is None:
            return
        if not isinstance(logger, TensorBoardLogger):
            return
        with torch.no_grad():
            png = self.draw(trainer, pl_module, self._samples)
        step = max(0, trainer.global_step - 1)  # as Lightning counts for the other figures
        logger.experiment.add_image("attention", pixels(png), step, dataformats="HWC")
        folder = Path(logger.log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "attention.png").write_bytes(png)


class SequenceAttentionPictures(AttentionPictures):
    """One panel per layer and head for the first validation sequence."""

    def draw(self, trainer: Trainer, module: Any, samples: tuple[Tensor, Tensor]) -> bytes:
        """Draw the first sequence, without its padding, which has nothing to show."""
        symbols = samples[0][0]
        symbols = symbols[symbols >= 0]
        maps = [layer[0] for layer in module.get_attention_maps(symbols[None])]
        tokens = [str(int(symbol)) for symbol in symbols]
        if maps[0].shape[-1] > len(tokens):
            tokens = ["CLS", *tokens]
        title = f"attention after epoch {trainer.current_epoch + 1}"
        return to_png(sequence_attention(maps, tokens, title))


class ImageAttentionPictures(AttentionPictures):
    """Where the model looks in the first four validation pictures."""

    def draw(self, trainer: Trainer, module: Any, samples: tuple[Tensor, Tensor]) -> bytes:
        """Draw each picture, what the heads of the last layer look at in it, and the rollout."""
        images, labels = samples
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by fit
        network = module.network
        figure = picture_attention(
            data.denormalize(images),
            module.get_attention_maps(images),
            grid=network.grid_size,
            num_prefix_tokens=network.num_prefix_tokens,
            class_token=network.class_token is not None,
            labels=[data.class_names[i] for i in labels],
            predictions=[data.class_names[i] for i in module(images).argmax(-1)],
            title=f"attention after epoch {trainer.current_epoch + 1}",
        )
        return to_png(figure)
