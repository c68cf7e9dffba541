"""Runs that are killed and resumed end, bit for bit, as those that were never stopped.

The default version is small; `pytest -m slow tests/test_resume.py` kills 20 times and more each.
"""

from pathlib import Path

import pytest
import yaml
from killing import Outcome, compare, finish, finish_despite_kills, scalars

OFTEN = "--checkpoint.every_minutes=0.003"
QUIET = ["--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"]
REVERSE = ["reverse", "fit", OFTEN, *QUIET, "--model.dropout=0.1", "--model.input_dropout=0.1"]

# Everything that draws random numbers or keeps a state of its own.
EVERYTHING = {
    "data": {
        "class_path": "DigitsDataModule",
        "init_args": {
            "val_size": 200,
            "batch_size": 32,
            "augment": {
                "crop_padding": 1,
                "flip": True,
                "policy": "randaugment",
                "erasing": 0.3,
                "cutout": 2,
                "mixup": 0.4,
                "cutmix": 1.0,
                "label_smoothing": 0.1,
            },
        },
    },
    "model": {
        "patch_size": 2,
        "stem": "pooled",
        "optimizer": "muon",
        "embed_dim": 32,
        "num_layers": 3,
        "num_heads": 2,
        "dim_feedforward": 64,
        "pooling": "mean",
        "dropout": 0.1,
        "drop_path": 0.2,
        "warmup": 20,
    },
    "trainer": {
        "precision": "bf16-mixed",
        "gradient_clip_val": 1.0,
        "accumulate_grad_batches": 2,
        "log_every_n_steps": 3,
        "callbacks": [
            {
                "class_path": "lightning.pytorch.callbacks.EMAWeightAveraging",
                "init_args": {"decay": 0.98},
            }
        ],
    },
}


def vit(folder: Path) -> list[str]:
    """Write the recipe and return the arguments that train it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "everything.yaml"
    path.write_text(yaml.safe_dump(EVERYTHING))
    return ["vit", "fit", f"--config={path}", OFTEN, *QUIET]


def small_reverse(epochs: int) -> list[str]:
    sizes = ["--data.train_size=6400", "--data.val_size=200", f"--trainer.max_epochs={epochs}"]
    return [*REVERSE, *sizes, "--trainer.log_every_n_steps=3"]


def test_a_killed_reversal_ends_as_if_it_had_not_been(tmp_path):
    arguments = small_reverse(4)
    whole = finish(tmp_path / "whole", arguments, "reverse")
    killed = finish_despite_kills(
        tmp_path / "killed", arguments, "reverse", kills=3, seconds=0.4, seed=3
    )
    assert len(killed.stops) == 3
    compare(whole.run, killed.run)


def test_a_killed_vision_transformer_ends_as_if_it_had_not_been(tmp_path, data_folder):
    arguments = [*vit(tmp_path), "--trainer.max_epochs=3"]
    whole = finish(tmp_path / "whole", arguments, "everything")
    killed = finish_despite_kills(
        tmp_path / "killed", arguments, "everything", kills=3, seconds=0.7, seed=5
    )
    assert len(killed.stops) == 3
    compare(whole.run, killed.run)


def repeat(whole: Outcome, folder: Path, arguments: list[str], recipe: str, **how) -> None:
    """Kill runs until there were 20 kills, and hold each against the whole run."""
    stops, during_save, seed = [], 0, 0
    while len(stops) < 20:
        killed = finish_despite_kills(
            folder / str(seed), arguments, recipe, kills=20 - len(stops), seed=seed, **how
        )
        compare(whole.run, killed.run)
        stops += killed.stops
        during_save += killed.during_save
        seed += 1
    print(f"\n{recipe}: {seed} runs, killed at steps {stops}, {during_save} while saving")
    if how.get("while_saving"):
        assert during_save > 0


@pytest.mark.slow
@pytest.mark.parametrize("while_saving", [False, True])
def test_twenty_kills_of_a_reversal(while_saving, tmp_path):
    arguments = [*REVERSE, "--trainer.max_epochs=7"]
    whole = finish(tmp_path / "whole", arguments, "reverse")
    how = {"seconds": 2.0, "while_saving": while_saving}
    repeat(whole, tmp_path, arguments, "reverse", **how)


@pytest.mark.slow
@pytest.mark.parametrize("while_saving", [False, True])
def test_twenty_kills_of_a_vision_transformer(while_saving, tmp_path, data_folder):
    arguments = [*vit(tmp_path), "--trainer.max_epochs=12"]
    whole = finish(tmp_path / "whole", arguments, "everything")
    how = {"seconds": 2.0, "while_saving": while_saving}
    repeat(whole, tmp_path, arguments, "everything", **how)


@pytest.mark.slow
def test_kills_while_going_on_for_more_epochs_than_first_asked(tmp_path):
    """The cosine is stretched to the new end in both, so both have the same learning rates."""
    first, more = small_reverse(3), "--trainer.max_epochs=6"
    outcomes = []
    for name, kills in (("whole", 0), ("killed", 8)):
        outcome = finish_despite_kills(
            tmp_path / name, first, "reverse", kills=kills // 2, seconds=0.4, seed=7
        )
        outcomes.append(
            finish_despite_kills(
                tmp_path / name,
                [*first, more],
                "reverse",
                later=REVERSE,  # the run still knows how long it is to be
                kills=kills,
                seconds=0.4,
                seed=8,
                first=outcome,
            )
        )
    assert len(outcomes[1].stops) == 8
    compare(outcomes[0].run, outcomes[1].run)
    rates = {step: value for tag, step, value in scalars(outcomes[1].run) if tag == "lr"}
    before, after = max(s for s in rates if s < 150), min(s for s in rates if s >= 150)
    assert rates[after] > 100 * rates[before]  # from almost 0 back up to the longer cosine
