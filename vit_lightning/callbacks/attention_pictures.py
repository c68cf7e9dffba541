"""Draw what attention does to one validation sequence, while the model learns."""

from pathlib import Path
from typing import Protocol, cast

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch import Tensor

from vit_lightning.viz.attention import pixels, sequence_attention, to_png


class HasMaps(Protocol):
    """A model that can say what it attends to."""

    def get_attention_maps(self, x: Tensor) -> list[Tensor]:
        """Return each layer's attention weights, (batch, num_heads, length, length)."""


class SequenceAttentionPictures(Callback):
    """Log the attention of the first validation sequence, and keep the newest as `attention.png`.

    Args:
        every_n_epochs: validation epochs between two pictures in TensorBoard.
    """

    def __init__(self, every_n_epochs: int = 1) -> None:
        self.every_n_epochs = every_n_epochs
        self._symbols: Tensor | None = None

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: STEP_OUTPUT,
        batch: tuple[Tensor, Tensor],
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Remember the first sequence."""
        if batch_idx == 0:
            self._symbols = batch[0][0]

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw it."""
        due = trainer.current_epoch % self.every_n_epochs == 0
        last = trainer.current_epoch + 1 == trainer.max_epochs
        logger = trainer.logger
        if (
            trainer.sanity_checking
            or not (due or last)
            or not isinstance(logger, TensorBoardLogger)
        ):
            return
        assert self._symbols is not None
        symbols = self._symbols[self._symbols >= 0]  # the padding has nothing to show
        with torch.no_grad():
            maps = [
                layer[0] for layer in cast(HasMaps, pl_module).get_attention_maps(symbols[None])
            ]
        tokens = [str(int(symbol)) for symbol in symbols]
        if maps[0].shape[-1] > len(tokens):
            tokens = ["CLS", *tokens]
        title = f"attention after epoch {trainer.current_epoch + 1}"
        figure = sequence_attention(maps, tokens, title)
        png = to_png(figure)
        logger.experiment.add_image(
            "attention", pixels(png), trainer.global_step, dataformats="HWC"
        )
        folder = Path(logger.log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "attention.png").write_bytes(png)
