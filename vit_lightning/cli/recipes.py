"""Packaged recipes: YAML files that `--config NAME` finds by name."""

from collections.abc import Container
from importlib.resources import files
from pathlib import Path

import yaml


def recipe_names(command: str | None = None) -> list[str]:
    """Return the names of the packaged recipes, or of those for one command such as "reverse"."""
    names = sorted(p.stem for p in _folder().iterdir() if p.suffix == ".yaml")
    return [n for n in names if command is None or recipe_command(n) == command]


def recipe_command(name: str) -> str:
    """Return the command a packaged recipe is written for: the one whose data it names."""
    data = yaml.safe_load((_folder() / f"{name}.yaml").read_text())["data"]
    return "reverse" if data["class_path"] in _SEQUENCES else "vit"


_SEQUENCES = ("ReverseDataModule", "SequencePropertyDataModule")


def find_recipe(name: str, command: str | None = None) -> Path:
    """Return the file for `--config NAME`: a path that exists, or a packaged recipe.

    With a `command`, a packaged recipe must be one of that command's.
    """
    path = Path(name)
    if path.is_file():
        return path
    packaged = _folder() / f"{name.removesuffix('.yaml')}.yaml"
    if packaged.is_file():
        written_for = recipe_command(packaged.stem)
        if command not in (None, written_for):
            raise ValueError(
                f"the recipe {name!r} is for `vit-lightning {written_for}`; "
                f"the recipes here are: {', '.join(recipe_names(command))}"
            )
        return packaged
    raise ValueError(
        f"there is no recipe or file {name!r}; the recipes are: {', '.join(recipe_names(command))}"
    )


def with_recipe(
    args: list[str], default: str, subcommands: Container[str]
) -> tuple[str, list[str]]:
    """Replace a recipe's name by its path, and return what was asked for beside the arguments.

    It goes right behind the subcommand, so that flags change it wherever they stand.
    """
    args = list(args)
    command = recipe_command(default)
    for i, arg in enumerate(args):
        flag, _, value = arg.partition("=")
        if flag in ("--config", "-c"):
            if not value and i + 1 == len(args):
                raise ValueError(f"{flag} needs the name of a recipe or the path of a file")
            name = value or args[i + 1]
            del args[i : i + 1 if value else i + 2]
            args.insert(min(1, i), f"--config={find_recipe(name, command)}")
            return name, args
    if args and args[0] in subcommands and not {"-h", "--help"} & set(args):
        args.insert(1, f"--config={find_recipe(default)}")
    return default, args


def _folder() -> Path:
    return Path(str(files("vit_lightning.recipes")))
