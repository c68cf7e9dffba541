"""What `vit-lightning vit` does beyond training: a confusion matrix, and pictures of one's own."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch.cli import LightningArgumentParser

from vit_lightning.cli.checkpoints import run_folder
from vit_lightning.cli.training import TrainingCLI
from vit_lightning.data.image_files import find_images, fit_images, load_image
from vit_lightning.viz.confusion import confusion_matrix
from vit_lightning.viz.figure_file import save_figure
from vit_lightning.viz.prediction_sheet import prediction_sheet

SHEET = 60  # pictures on the sheet; the CSV has all


class VisionCLI(TrainingCLI):
    """The training command for Vision Transformers."""

    def _prepare_subcommand_parser(
        self, klass: type, subcommand: str, **kwargs: Any
    ) -> LightningArgumentParser:
        parser = super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        if subcommand == "predict":
            parser.add_argument(
                "--images", type=str, nargs="+", default=[], help="image files or folders"
            )
            parser.add_argument(
                "--output", type=str | None, default=None, help="folder for what is written"
            )
        return parser

    def test(self, **kwargs: Any) -> None:
        """Measure on the test set, print it and draw the confusion matrix."""
        super().test(**kwargs)
        path = self._run_folder() / "confusion.png"
        counts = self.model.confusion.compute()
        title = f"{self.datamodule.dataset}, test set"
        save_figure(confusion_matrix(counts, self.datamodule.class_names, title), path)
        print(f"{'confusion':<13} {path}")

    def predict(self, **kwargs: Any) -> None:
        """Classify the pictures of `--images`; write a CSV and an annotated sheet."""
        names = self.config.predict.images
        if not names:
            raise ValueError("--images needs at least one image file or folder")
        files = find_images(names)
        squares: list[torch.Tensor] = []
        shown: list[np.ndarray] = []
        for path in files:  # one at a time: photographs are large, and there may be many
            picture = load_image(path, self.datamodule.in_channels)
            squares.append(fit_images([picture], self.datamodule.image_size))
            if len(shown) < SHEET:
                shown.append(np.asarray(picture))
        self.datamodule.pictures = torch.cat(squares)
        batches: Any = self.trainer.predict(**kwargs)
        probabilities = torch.cat(batches).float()
        confidence, classes = probabilities.max(dim=-1)
        class_names = self.datamodule.class_names
        predicted = [class_names[i] for i in classes]
        labels = [path.parent.name if path.parent.name in class_names else None for path in files]
        folder = Path(self.config.predict.output or self._run_folder())
        rows = zip(files, predicted, confidence, probabilities, strict=True)
        _write_csv(
            folder / "predictions.csv",
            ["file", "prediction", "confidence", *class_names],
            (
                [str(path), name, f"{sure:.4f}", *(f"{p:.4f}" for p in each)]
                for path, name, sure, each in rows
            ),
        )
        sheet = prediction_sheet(
            shown,
            predicted[:SHEET],
            confidence[:SHEET].tolist(),
            labels[:SHEET],
            f"{len(files)} pictures" + (f", the first {SHEET}" if len(files) > SHEET else ""),
        )
        save_figure(sheet, folder / "predictions.png")
        print(f"predictions {folder / 'predictions.csv'}")
        print(f"sheet       {folder / 'predictions.png'}")

    def _run_folder(self) -> Path:
        assert self.checkpoint is not None
        return run_folder(self.checkpoint)


def _write_csv(path: Path, head: list[str], rows: Iterable[list[str]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([head, *rows])
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from error
