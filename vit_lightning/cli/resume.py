"""Bring the settings of a command into line with the checkpoint that it goes on from."""

from argparse import ArgumentError
from collections.abc import Iterable
from pathlib import Path

import torch
from jsonargparse import ArgumentParser, Namespace

from vit_lightning.cli.checkpoints import (
    StoredSettings,
    check_origin,
    contradictions,
    flat,
)


def resume_settings(
    config: Namespace,
    parser: ArgumentParser,
    checkpoint: Path,
    stored: StoredSettings,
    *,
    flags: set[str],
    linked: Iterable[str],
    trusted: bool,
) -> Namespace:
    """Take the settings from the checkpoint, and name what was asked otherwise.

    Args:
        config: all settings of the command line and the recipe.
        parser: their parser.
        checkpoint: the file.
        stored: what it says of the run that wrote it.
        flags: names given on the command line, such as "model.lr".
        linked: the model arguments that follow from the data.
        trusted: whether the run was trained here, so that classes it names may be made.

    Returns:
        The settings to go on with.
    """
    command: str = config.subcommand
    section = config[command]
    section.ckpt_path = str(checkpoint)
    section.weights_only = True  # a stranger's file must not run code
    check_origin(checkpoint, stored, linked, section.data.class_path.rpartition(".")[2])
    _take_model_and_data(section, checkpoint, stored, flags)
    config = _take_others(config, parser, stored, flags, trusted=trusted)
    epochs = config[command].trainer.max_epochs
    if command == "fit" and epochs is not None and 0 <= epochs <= stored.epochs:
        if epochs < stored.epochs:
            raise ValueError(
                f"{checkpoint} has {stored.epochs} epochs already; trainer.max_epochs must be at "
                f"least that, got {epochs}"
            )
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


def _take_others(
    config: Namespace,
    parser: ArgumentParser,
    stored: StoredSettings,
    flags: set[str],
    *,
    trusted: bool,
) -> Namespace:
    """Take the settings beside model and data; a flag may change one, with a note."""
    command: str = config.subcommand
    settings = dict(stored.settings)
    trainer = settings.get("trainer", {})
    if command != "fit":
        settings = {"trainer": {key: trainer[key] for key in ("precision",) if key in trainer}}
    elif not trusted:  # a class of somebody else's choice is code of somebody else's choice
        plain = {key: v for key, v in trainer.items() if isinstance(v, int | float | str | None)}
        settings = {"trainer": plain}
        for key in sorted(trainer.keys() - plain.keys()):
            print(f"note: trainer.{key} of a run from elsewhere is not taken over")
    asked = config[command].clone()
    try:
        config = parser.parse_object({command: settings}, config)
    except ArgumentError as error:
        raise ValueError(f"the checkpoint's settings make no sense here: {error}") from error
    taken = config[command]
    for name in sorted(flags):
        if not name.startswith(("model.", "data.")):
            key = ".".join(name.split(".")[:2])
            if taken[key] != asked[key]:
                if key != "trainer.max_epochs":
                    print(f"note: {key} was {taken[key]} and is {asked[key]} from here on")
                taken[key] = asked[key]
    return config
