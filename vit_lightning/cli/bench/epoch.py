"""The part `epoch`: a whole epoch of the Trainer, against the bare step and against a notebook.

All three train the course notebook's model. Ours goes through `vit-lightning vit fit`, with all
that a run has: data, augmentation, metrics, logging, checkpoints and pictures of attention.
Validation is left out of the time, as it is no overhead but another thing to do.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import yaml
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint, TQDMProgressBar

from vit_lightning.cli.bench.gate import Gate
from vit_lightning.cli.bench.parts import Job, Part, Row, Sample, Wish
from vit_lightning.cli.bench.report import by_job, find_row, number, percent, spread, summarize
from vit_lightning.cli.bench.sizes import Sizes
from vit_lightning.cli.bench.training import our_step, steps_per_second
from vit_lightning.data import CIFAR10DataModule
from vit_lightning.data.fetch import store_path

if TYPE_CHECKING:
    from vit_lightning.viz.bars import Panel

OURS, BARE, NOTEBOOK = "ours", "bare-step", "notebook"
SETTINGS = {OURS: "Trainer epoch", BARE: "no Trainer", NOTEBOOK: "Trainer epoch, float32"}


def jobs(wish: Wish) -> tuple[list[Job], list[str]]:
    """Make the three contenders."""
    return [wish.job("epoch", name, setting) for name, setting in SETTINGS.items()], []


def measure(job: Job, gate: Gate) -> None:
    """Answer how many images a second the contender trains on."""
    sizes = job.sizes
    if job.contender == OURS:
        from vit_lightning.cli.vit import launch

        launch(["fit", "--config", str(write_recipe(Path("bench-epoch.yaml"), sizes, gate))])
    elif job.contender == NOTEBOOK:
        _fit_notebook(sizes, gate)
    else:
        step = our_step(sizes.epoch, "default")
        for _ in range(2):
            step()
        for _ in gate:
            step()
            rate = steps_per_second(step, 10 * sizes.seconds)
            gate.answer(images_per_second=rate * sizes.epoch.batch_size)


def write_recipe(path: Path, sizes: Sizes, gate: Gate) -> Path:
    """Write the recipe of our run, with the timer among its callbacks."""
    shape = sizes.epoch
    there = sizes.epoch_size >= 1000 and store_path("cifar10").is_dir()
    module = "vit_lightning.data.CIFAR10DataModule" if there else f"{__name__}.MadeUpDataModule"
    timer = {"read": gate.read, "write": gate.write, "images": sizes.epoch_size, "warm_epochs": 1}
    recipe = {
        "data": {
            "class_path": module,
            "init_args": {
                "train_size": sizes.epoch_size,
                "val_size": 2 * shape.batch_size,
                "batch_size": shape.batch_size,
                "augment": {"crop_padding": 4, "flip": True},
            },
        },
        "model": {
            "patch_size": shape.patch_size,
            "embed_dim": shape.embed_dim,
            "num_layers": shape.num_layers,
            "num_heads": shape.num_heads,
            "dim_feedforward": shape.dim_feedforward,
            "dropout": shape.dropout,
        },
        "trainer": {
            "accelerator": "cpu",
            "max_epochs": 1_000,  # it is stopped when there are no more rounds
            "gradient_clip_val": 1.0,
            "callbacks": [{"class_path": f"{__name__}.EpochTimer", "init_args": timer}],
        },
    }
    path.write_text(yaml.safe_dump(recipe))
    return path


class EpochTimer(Callback):
    """Waits at the gate before each epoch and answers after it how fast it was.

    Args:
        read: descriptor of the gate.
        write: descriptor of the gate.
        images: training pictures of an epoch.
        warm_epochs: epochs that are over before the first turn.
    """

    def __init__(self, read: int, write: int, images: int, warm_epochs: int = 0) -> None:
        self.gate = Gate(read, write)
        self.images = images
        self.warm_epochs = warm_epochs
        self.start: float | None = None
        self.validation = 0.0

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Answer for the epoch before, with what came after its last step, and wait."""
        if self.start is not None:
            seconds = time.perf_counter() - self.start - self.validation
            self.gate.answer(images_per_second=self.images / seconds)
        if trainer.current_epoch < self.warm_epochs:
            return
        self.gate.wait()
        self.validation = 0.0
        self.start = time.perf_counter()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop the clock."""
        self.validation -= time.perf_counter()

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Let it go on before the pictures are drawn: this callback is the first."""
        self.validation += time.perf_counter()


class MadeUpDataModule(CIFAR10DataModule):
    """Random pictures in the form of CIFAR-10, where that is not at hand."""

    def prepare_data(self) -> None:
        """Fetch nothing."""

    def setup(self, stage: str | None = None) -> None:
        """Draw the pictures, once."""
        if not self.splits:
            for name, size in (("train", self.train_size), ("val", self.val_size)):
                pictures = torch.randint(256, (size, 3, 32, 32), dtype=torch.uint8)
                self.splits[name] = (pictures, torch.randint(10, (size,)))
            self.mean, self.std = [0.5] * 3, [0.25] * 3


def _fit_notebook(sizes: Sizes, gate: Gate) -> None:
    from vit_lightning.cli.bench.notebook import NotebookViT, picture_loader

    size, shape = sizes.notebook_size, sizes.epoch
    pictures = torch.randint(256, (size, 3, 32, 32), dtype=torch.uint8)
    loader = picture_loader(pictures, torch.randint(10, (size,)), shape.batch_size)
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1_000,
        callbacks=[
            EpochTimer(gate.read, gate.write, len(loader) * shape.batch_size),
            ModelCheckpoint(save_weights_only=True, mode="max", monitor="train_acc"),
            LearningRateMonitor("epoch"),
            TQDMProgressBar(),
        ],
        log_every_n_steps=1 if sizes.notebook_size < 1000 else 50,
    )
    trainer.fit(NotebookViT(shape), loader)


def rows(samples: Sequence[Sample]) -> list[Row]:
    """Set each against the bare step."""
    found: list[Row] = []
    for job, group in by_job(samples).items():
        row: Row = {"contender": job.contender, "setting": job.setting}
        found.append(row | summarize(group, "images_per_second"))
    bare = find_row(found, BARE)
    for row in found:
        row["share_of_bare_step"] = (
            row["images_per_second"] / bare["images_per_second"] if bare else None
        )
    return found


def verdict(rows: Sequence[Row]) -> list[str]:
    """Tell what the Trainer costs, and how much faster ours is."""
    ours, notebook = find_row(rows, OURS), find_row(rows, NOTEBOOK)
    lines = []
    if ours is not None and ours["share_of_bare_step"] is not None:
        cost = 100 * (1 / ours["share_of_bare_step"] - 1)
        lines.append(f"the whole epoch takes {cost:.1f} % longer than its bare steps")
    if ours is not None and notebook is not None:
        times = ours["images_per_second"] / notebook["images_per_second"]
        lines.append(f"{times:.2f} x the notebook's Lightning ViT")
    return lines


def panels(rows: Sequence[Row], sizes: Sizes) -> "list[Panel]":
    """Draw ours and the notebook's under the bare step."""
    from vit_lightning.viz.bars import Bar, Panel

    bare = find_row(rows, BARE)
    shown = [row for row in rows if row["contender"] != BARE] or list(rows)
    return [
        Panel(
            title=f"Epoch with data, augmentation and logging: {sizes.epoch.describe()}",
            unit="images per second",
            bars=[
                Bar(row["setting"], row["contender"], row["images_per_second"], row["spread"])
                for row in shown
            ],
            limits={r["setting"]: bare["images_per_second"] for r in shown} if bare else {},
            limit_name="bare step of ours",
        )
    ]


PART = Part(
    rounds=3,
    jobs=jobs,
    measure=measure,
    rows=rows,
    columns={
        "images/s": number("images_per_second"),
        "": spread,
        "of the bare step": percent("share_of_bare_step", ".1f"),
    },
    verdict=verdict,
    panels=panels,
)
