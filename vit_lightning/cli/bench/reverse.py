"""The part `reverse`: seconds until every element of the validation sequences is right.

The clock runs from when the Trainer has its data to the end of the validation that is perfect.
Every round has another seed, the same for all contenders.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import yaml
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint, TQDMProgressBar

from vit_lightning.cli.bench.gate import Gate
from vit_lightning.cli.bench.parts import Job, Part, Row, Sample, Wish
from vit_lightning.cli.bench.report import by_job, find_row, number, spread, summarize
from vit_lightning.cli.bench.sizes import SIZES, Sizes
from vit_lightning.cli.recipes import find_recipe, recipe_names

if TYPE_CHECKING:
    from vit_lightning.viz.bars import Panel

OURS, NOTEBOOK = "ours", "notebook"
RECIPES = ("reverse", "reverse-fast")
EPOCHS = 10  # of the notebook


def jobs(wish: Wish) -> tuple[list[Job], list[str]]:
    """Make ours with each recipe that there is, and the notebook."""
    there = [name for name in RECIPES if name in recipe_names("reverse")]
    made = [wish.job("reverse", OURS, f"recipe {name}") for name in there]
    return [*made, wish.job("reverse", NOTEBOOK, "as the course has it")], []


class PerfectClock(Callback):
    """Measures the time until validation has no mistake, and stops there."""

    def __init__(self) -> None:
        self.start = 0.0
        self.seconds: float | None = None
        self.epochs: int | None = None
        self.accuracy = 0.0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Start the clock."""
        self.start = time.perf_counter()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop it if everything is right."""
        metrics = trainer.callback_metrics
        found = next((metrics[name] for name in ("val/acc", "val_acc") if name in metrics), None)
        if trainer.sanity_checking or found is None or self.seconds is not None:
            return
        self.accuracy = float(found)
        if self.accuracy == 1.0:
            self.seconds = time.perf_counter() - self.start
            self.epochs = trainer.current_epoch + 1
            trainer.should_stop = True


def measure(job: Job, gate: Gate) -> None:
    """Answer the seconds to perfection, or none if the run ended before."""
    _fit(job, SIZES["tiny"], 0)  # what is imported or set up once is not part of training
    for seed, _ in enumerate(gate):
        clock = _fit(job, job.sizes, seed)
        gate.answer(seconds=clock.seconds, epochs=clock.epochs, accuracy=clock.accuracy)


def _fit(job: Job, sizes: Sizes, seed: int) -> PerfectClock:
    if job.contender == NOTEBOOK:
        return _fit_notebook(sizes, seed)
    return _fit_ours(job.setting.removeprefix("recipe "), sizes, seed)


def _fit_ours(name: str, sizes: Sizes, seed: int) -> PerfectClock:
    from vit_lightning.cli.reverse import launch

    recipe = yaml.safe_load(find_recipe(name).read_text())
    data = recipe["data"]["init_args"]
    data["seed"] = seed
    if sizes.sequences < data["train_size"]:
        data["train_size"], data["val_size"], data["test_size"] = sizes.sequences, 10, 10
        recipe["trainer"]["max_epochs"] = 1
    recipe["trainer"]["accelerator"] = "cpu"
    recipe["trainer"].setdefault("callbacks", [])
    recipe["trainer"]["callbacks"].append({"class_path": f"{__name__}.PerfectClock"})
    path = Path(f"bench-{name}.yaml")
    path.write_text(yaml.safe_dump(recipe))
    cli = launch(["fit", "--config", str(path), "--seed_everything", str(seed)])
    callbacks: list[Callback] = cli.trainer.callbacks  # type: ignore[attr-defined]  # a connector sets it
    return next(c for c in callbacks if isinstance(c, PerfectClock))


def _fit_notebook(sizes: Sizes, seed: int) -> PerfectClock:
    from vit_lightning.cli.bench.sequences import NotebookPredictor, sample_loaders

    seed_everything(seed, verbose=False)
    train, val = sample_loaders(sizes.sequences, seed)
    clock = PerfectClock()
    epochs = EPOCHS if sizes.sequences >= 1000 else 1
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=epochs,
        gradient_clip_val=5.0,
        callbacks=[
            clock,
            ModelCheckpoint(save_weights_only=True, mode="max", monitor="val_acc"),
            TQDMProgressBar(),
        ],
    )
    trainer.fit(NotebookPredictor(epochs * len(train)), train, val)
    return clock


def rows(samples: Sequence[Sample]) -> list[Row]:
    """Summarize the runs that got there, and count those that did not."""
    found: list[Row] = []
    for job, group in by_job(samples).items():
        row: Row = {"contender": job.contender, "setting": job.setting}
        arrived = [sample for sample in group if sample.figures["seconds"] is not None]
        row["runs"], row["perfect"] = len(group), len(arrived)
        row["accuracy"] = median(sample.figures["accuracy"] for sample in group)
        row["seconds"] = row["epochs"] = row["spread"] = None
        if arrived:
            row |= summarize(arrived, "seconds")
            row["epochs"] = median(sample.figures["epochs"] for sample in arrived)
        found.append(row)
    return found


def verdict(rows: Sequence[Row]) -> list[str]:
    """Set ours against the notebook."""
    notebook = find_row(rows, NOTEBOOK)
    if notebook is None or notebook["seconds"] is None:
        return []
    return [
        f"{row['setting']} is {notebook['seconds'] / row['seconds']:.2f} x as fast as the notebook"
        for row in rows
        if row["contender"] == OURS and row["seconds"] is not None
    ]


def panels(rows: Sequence[Row], sizes: Sizes) -> "list[Panel]":
    """Draw the seconds."""
    from vit_lightning.viz.bars import Bar, Panel

    return [
        Panel(
            title="Reversing sequences: time to 100 % validation accuracy",
            unit="seconds",
            bars=[
                Bar(row["setting"], row["contender"], row["seconds"], row["spread"])
                for row in rows
                if row["seconds"] is not None
            ],
        )
    ]


PART = Part(
    rounds=3,
    jobs=jobs,
    measure=measure,
    rows=rows,
    columns={
        "seconds": number("seconds", ".2f"),
        "": spread,
        "epochs": number("epochs", ".0f"),
        "perfect": lambda row: f"{row['perfect']} of {row['runs']}",
    },
    verdict=verdict,
    panels=panels,
)
