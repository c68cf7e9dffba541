"""Bring the settings of a command into line with the checkpoint that it goes on from."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import yaml
from jsonargparse import ArgumentParser, Namespace

from vit_lightning.cli.checkpoints import (
    StoredSettings,
    check_origin,
    contradictions,
    flat,
    run_folder,
)


def resume_settings(
    config: Namespace,
    parser: ArgumentParser,
    checkpoint: Path,
    stored: StoredSettings,
    *,
    flags: set[str],
    linked: Iterable[str],
) -> Namespace:
    """Take the settings from the checkpoint, and name what was asked otherwise.

    Args:
        config: all settings of the command line and the recipe.
        parser: their parser.
        checkpoint: the file.
        stored: what it says of the run that wrote it.
        flags: names given on the command line, such as "model.lr".
        linked: the model arguments that follow from the data.

    Returns:
        The settings to go on with.
    """
    command: str = config.subcommand
    section = config[command]
    section.ckpt_path = str(checkpoint)
    section.weights_only = True  # a stranger's file must not run code
    check_origin(checkpoint, stored, linked, section.data.class_path.rpartition(".")[2])
    _take_model_and_data(section, checkpoint, stored, flags)
    config = _take_trainer(config, parser, run_folder(checkpoint) / "config.yaml", flags)
    if command == "fit" and (config[command].trainer.max_epochs or 0) <= stored.epochs:
        print(f"note: this run has its {stored.epochs} epochs; raise --trainer.max_epochs")
    return config


def machine_notes(stored: StoredSettings, device: str) -> list[str]:
    """Say what is other than where the checkpoint was written and may change the last bits."""
    here = {"torch": str(torch.__version__), "threads": torch.get_num_threads(), "device": device}
    return [
        f"{name} is {value} here and was {stored.machine[name]}; results may differ in their last "
        "bits from those of a run without a stop"
        for name, value in here.items()
        if stored.machine[name] != value
    ]


def _take_model_and_data(
    section: Namespace, checkpoint: Path, stored: StoredSettings, flags: set[str]
) -> None:
    by_flag: list[str] = []
    by_recipe: list[str] = []
    for name, settings, asked in (
        ("model", flat(stored.model), section.model),
        ("data", flat(stored.data), section.data.init_args),
    ):
        current = vars(asked.as_flat())
        flagged, differing = contradictions(name, settings, current, flags)
        by_flag += flagged
        by_recipe += differing
        for key in settings.keys() & current.keys():
            asked[key] = settings[key]
    if by_flag:
        raise ValueError(
            f"{'; '.join(by_flag)}: leave the flag out to go on with {checkpoint}, "
            "or leave --ckpt_path out to start a new run"
        )
    for text in by_recipe:
        print(f"note: {text}, which holds")


def _take_trainer(
    config: Namespace, parser: ArgumentParser, path: Path, flags: set[str]
) -> Namespace:
    """Take the trainer settings from the run's config.yaml; a flag may change one, with a note."""
    if not path.is_file():
        return config
    command: str = config.subcommand
    stored: dict[str, Any] = yaml.safe_load(path.read_text())["trainer"]
    if command != "fit":
        stored = {"precision": stored["precision"]}
    asked = config[command].trainer.clone()
    config = parser.parse_object({command: {"trainer": stored}}, config)
    trainer = config[command].trainer
    changed = {name.split(".")[1] for name in flags if name.startswith("trainer.")}
    for key in sorted(changed):
        if trainer[key] != asked[key]:
            if key != "max_epochs":
                print(f"note: trainer.{key} was {trainer[key]} and is {asked[key]} from here on")
            trainer[key] = asked[key]
    return config
