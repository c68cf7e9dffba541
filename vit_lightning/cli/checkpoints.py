"""Find checkpoints of earlier runs, and hold the settings they store against those asked for."""

import pickle
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOGS = Path("lightning_logs")
VERSION = re.compile(r"version_(0|[1-9][0-9]*)", re.ASCII)


def run_folders(recipe: str) -> list[Path]:
    """Return the run folders of a recipe, oldest first."""
    matches = ((p, VERSION.fullmatch(p.name)) for p in (LOGS / recipe).glob("version_*"))
    numbers = {folder: int(match[1]) for folder, match in matches if match}
    return sorted(numbers, key=numbers.__getitem__)


def find_checkpoint(name: str, recipe: str) -> Path:
    """Return the file for `--ckpt_path`: "last" or "best" of the newest run, or a path.

    It is held against its checksum. For "last" the newest one that is undamaged is taken, and those
    that are not are named.
    """
    from vit_lightning.callbacks.checkpoint_file import verify_checkpoint  # late: it needs torch

    if name not in ("last", "best"):
        path = Path(name)
        if not path.is_file():
            raise ValueError(f"there is no checkpoint {name!r}; give a path, 'last' or 'best'")
        verify_checkpoint(path)
        return path
    for run in reversed(run_folders(recipe)):
        files = checkpoint_files(run)
        if name == "last" and files:
            return newest_checkpoint(run)
        path = run / "checkpoints" / "best.ckpt"
        if name == "best" and path in files:
            verify_checkpoint(path)
            return path
    raise ValueError(
        f"no run of {recipe!r} under {LOGS}/ has a {name!r} checkpoint yet; train one with fit"
    )


def checkpoint_files(run: Path) -> list[Path]:
    """Return a run's checkpoints, newest first."""
    names = ("last.ckpt", "previous.ckpt", "best.ckpt")
    return [p for name in names if (p := run / "checkpoints" / name).is_file()]


def newest_checkpoint(run: Path) -> Path:
    """Return the newest undamaged checkpoint of a run, and name the damaged ones on the way."""
    for path in checkpoint_files(run):
        trouble = damage(path)
        if trouble is None:
            return path
        print(f"note: {trouble}; trying the one before it", file=sys.stderr)
    raise ValueError(f"{run} has no undamaged checkpoint; start a new run, without --ckpt_path")


def damage(path: Path) -> str | None:
    """Say what is wrong with a file, if anything is."""
    from vit_lightning.callbacks.checkpoint_file import DamagedCheckpointError, verify_checkpoint

    try:
        verify_checkpoint(path)
    except DamagedCheckpointError as error:
        return str(error)
    return None


def run_folder(checkpoint: Path) -> Path:
    """Return the folder of the run that a checkpoint belongs to, or else the one it lies in."""
    if checkpoint.absolute().parent.name != "checkpoints":
        return checkpoint.parent
    return (checkpoint if checkpoint.parent.name else checkpoint.absolute()).parent.parent


def is_run_of(checkpoint: Path, recipe: str) -> bool:
    """Say whether a checkpoint is that of a run which was trained here."""
    return run_folder(checkpoint).resolve().parent == (LOGS / recipe).resolve()


@dataclass(frozen=True)
class StoredSettings:
    """What a checkpoint says of the run that wrote it.

    Attributes:
        model: arguments of the model.
        data: arguments of the datamodule.
        datamodule: name of the datamodule's class, if it keeps anything in the checkpoint.
        epochs: how many are finished.
        step: optimizer steps taken.
        shapes: of the weights, by name.
        best: the best score and the epoch that had it, counted from 1.
        events: length of TensorBoard's files, by name.
        settings: of the command, beside model and data.
        machine: torch's version, the number of threads and the kind of device.
    """

    model: dict[str, Any]
    data: dict[str, Any]
    datamodule: str | None
    epochs: int
    step: int
    shapes: dict[str, tuple[int, ...]]
    best: tuple[float | None, int | None]
    events: dict[str, int]
    settings: dict[str, Any]
    machine: dict[str, str | int]


STRUCTURE: dict[str, type] = {
    "hyper_parameters": dict,
    "datamodule_hyper_parameters": dict,
    "state_dict": dict,
    "optimizer_states": list,
    "lr_schedulers": list,
    "loops": dict,
    "callbacks": dict,
    "run": dict,
    "epoch": int,
    "global_step": int,
    "pytorch-lightning_version": str,
}


def read_settings(path: Path) -> StoredSettings:
    """Read a checkpoint's settings without running any code that a stranger may have put in it."""
    import torch  # late: finding a run's folder should not wait for it

    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        # Lightning passes over what is missing here in silence.
        whole = (
            isinstance(checkpoint, dict)
            and all(isinstance(checkpoint[key], kind) for key, kind in STRUCTURE.items())
            and len(checkpoint["optimizer_states"]) == len(checkpoint["lr_schedulers"]) == 1
            and "epoch_progress" in checkpoint["loops"]["fit_loop"]
            and isinstance(checkpoint["run"]["settings"], dict)
        )
        if not whole:
            raise TypeError
        run, kept = checkpoint["run"], checkpoint["callbacks"]["RunCheckpoint"]
        return StoredSettings(
            {str(key): value for key, value in checkpoint["hyper_parameters"].items()},
            {str(key): value for key, value in checkpoint["datamodule_hyper_parameters"].items()},
            # Lightning files what a datamodule keeps under the name of its class.
            next((key for key in checkpoint if key.endswith("DataModule")), None),
            int(run["epochs"]),
            checkpoint["global_step"],
            {str(key): tuple(weight.shape) for key, weight in checkpoint["state_dict"].items()},
            (kept["best_score"], kept["best_epoch"]),
            {str(key): int(length) for key, length in run["events"].items()},
            run["settings"],
            {key: run[key] for key in ("torch", "threads", "device")},
        )
    except (
        pickle.UnpicklingError,
        RuntimeError,
        LookupError,
        EOFError,
        TypeError,
        ValueError,
        AttributeError,
        OSError,
    ):
        raise ValueError(f"{path} is damaged or not a checkpoint of this suite") from None


def check_origin(
    path: Path, stored: StoredSettings, arguments: Iterable[str], datamodule: str
) -> None:
    """Refuse the checkpoint of another kind of model, or of a model for other data.

    Args:
        path: of the checkpoint.
        stored: its settings.
        arguments: names that the arguments of the model must have among them.
        datamodule: name of the class of the data at hand.
    """
    if not set(arguments) <= stored.model.keys():
        raise ValueError(f"{path} holds another kind of model than this command trains")
    if stored.datamodule not in (None, datamodule):
        raise ValueError(
            f"{path} was trained on {stored.datamodule}, but the data here are {datamodule}; "
            "name the recipe of its run with --config"
        )


def check_sizes(path: Path, stored: StoredSettings, needed: dict[str, Any]) -> None:
    """Refuse a checkpoint whose model does not have the sizes that the data need."""
    for name, value in needed.items():
        # What is a float was measured on the data, and no two machines need agree on its last bit.
        if stored.model[name] != value and not isinstance(value, float):
            raise ValueError(
                f"the model of {path} has {name}={stored.model[name]}, "
                f"but the data here need {name}={value}"
            )


def check_shapes(path: Path, stored: StoredSettings, weights: dict[str, tuple[int, ...]]) -> None:
    """Refuse a checkpoint whose weights are not those of the model that its settings describe."""
    if stored.shapes != weights:
        names = sorted(stored.shapes.items() ^ weights.items())
        raise ValueError(
            f"{path} does not hold the weights that its own settings describe, "
            f"such as {names[0][0]}"
        )


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Write nested settings with dotted names: {"a": {"b": 1}} becomes {"a.b": 1}."""
    result: dict[str, Any] = {}
    for key, value in settings.items():
        nested = isinstance(value, dict)
        result |= flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return result


def contradictions(
    section: str, stored: dict[str, Any], asked: dict[str, Any], flags: set[str]
) -> tuple[list[str], list[str]]:
    """Compare settings.

    Args:
        section: "model" or "data".
        stored: the checkpoint's, with dotted names.
        asked: those of recipe and flags together, with dotted names.
        flags: the names given on the command line, such as "model.lr" or "data.augment", which
            stands for all that is inside.

    Returns:
        What differs by a flag, and what differs by the recipe, each told with both values.
    """
    by_flag: list[str] = []
    by_recipe: list[str] = []
    for key in sorted(stored.keys() & asked.keys()):
        if stored[key] != asked[key]:
            name = f"{section}.{key}"
            text = f"{name} is {asked[key]} here but {stored[key]} in the checkpoint"
            flagged = any(f"{name}.".startswith(f"{flag}.") for flag in flags)
            (by_flag if flagged else by_recipe).append(text)
    return by_flag, by_recipe
