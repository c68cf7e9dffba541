"""The LightningCLI behind the training commands: recipes, defaults, resuming, results."""

import os
import re
from argparse import ArgumentError, RawDescriptionHelpFormatter
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from vit_lightning.callbacks import LearningRates, SealedCheckpointIO
from vit_lightning.cli.checkpoints import (
    StoredSettings,
    check_shapes,
    check_sizes,
    find_checkpoint,
    is_run_of,
    read_settings,
)
from vit_lightning.cli.errors import RunError, one_sentence
from vit_lightning.cli.precision import pick_precision
from vit_lightning.cli.quiet import be_quiet
from vit_lightning.cli.recipes import with_recipe
from vit_lightning.cli.resume import machine_notes, resume_settings
from vit_lightning.cli.run_failure import is_out_of_memory
from vit_lightning.cli.run_guard import RunGuard
from vit_lightning.cli.run_record import RunRecord
from vit_lightning.viz.values import format_value

TINY = 200_000  # parameters; below that one thread is as fast as two, and yields to other programs

SUBCOMMANDS = {
    "fit": "train, or go on training with --ckpt_path last",
    "validate": "measure on the validation set",
    "test": "measure on the test set, once you have chosen a model",
    "predict": "write predictions to a file",
}


class TrainingCLI(LightningCLI):
    """`fit`, `validate`, `test` and `predict` for one kind of model.

    Args:
        model_class: the LightningModule.
        datamodule_class: base class of the datamodules a recipe may name.
        links: datamodule attributes and the model arguments that follow from them.
        command: what the person typed, for the commands this suggests.
        default_recipe: used when no `--config` is given.
        pictures: callbacks that draw during `fit`.
        description: of the command, for `--help`.
        args: the arguments.
    """

    def __init__(
        self,
        model_class: type[LightningModule],
        datamodule_class: type[LightningDataModule],
        *,
        links: dict[str, str],
        command: str,
        default_recipe: str,
        pictures: list[Callback],
        description: str,
        args: list[str],
    ) -> None:
        self.links = links
        self.command = command
        self.pictures = pictures
        self.config_name, args = with_recipe(args, default_recipe, SUBCOMMANDS)
        self.recipe = Path(self.config_name).stem
        names = r"--((?:model|data|trainer|checkpoint)\.[\w.]+|seed_everything)"
        named = (re.match(names, arg) for arg in args)
        self.flags = {match[1].replace(".init_args", "") for match in named if match}
        self.checkpoint: Path | None = None
        self.stored: StoredSettings | None = None
        self.guard: RunGuard | None = None  # of a run that trains
        be_quiet(fitting=args[:1] == ["fit"])
        parser = {"exit_on_error": False, "prog": command}
        try:
            super().__init__(
                model_class,
                datamodule_class,
                subclass_mode_data=True,
                save_config_callback=None,  # the guard does that
                seed_everything_default=0,
                trainer_defaults={"accelerator": "auto", "devices": 1, "num_sanity_val_steps": 0},
                parser_kwargs={
                    **parser,
                    "description": description,
                    "formatter_class": RawDescriptionHelpFormatter,
                    **{
                        name: {"exit_on_error": False, "description": text}
                        for name, text in SUBCOMMANDS.items()
                    },
                },
                auto_configure_optimizers=False,
                load_from_checkpoint_support=False,  # store what __init__ really received
                args=args,
            )
        except MisconfigurationException as error:
            raise ValueError(str(error)) from error
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise RunError("out of memory; make the model or --data.batch_size smaller") from error

    def setup_parser(self, *args: Any, **kwargs: Any) -> None:
        """Describe the subcommands in our words rather than those of Trainer's docstrings."""
        super().setup_parser(*args, **kwargs)
        assert self.parser._subcommands_action is not None
        for action in self.parser._subcommands_action._choices_actions:
            action.help = SUBCOMMANDS[action.dest]

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Let the model's sizes follow from the data, and say how often to save."""
        parser.add_argument(
            "--checkpoint.every_minutes",
            type=float,
            default=5.0,
            help="longest time between two checkpoints; all but very short epochs end with one",
        )
        for source, target in self.links.items():
            parser.link_arguments(f"data.{source}", f"model.{target}", apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse without LightningCLI's warning about arguments that do not come from the shell."""
        try:
            self.config = parser.parse_args(args)
        except ArgumentError as error:
            raise ValueError(one_sentence(error) + self._suggestion(args)) from error

    def _suggestion(self, args: list[str]) -> str:
        """Name the flags that a misspelt one may have meant."""
        parser = self._subcommand_parsers.get(args[0]) if args else None
        flags = parser._option_string_actions if parser else {}
        wrong = [arg for arg in args if arg.startswith("--") and arg.partition("=")[0] not in flags]
        close = get_close_matches(wrong[0], flags, n=2, cutoff=0.75) if flags and wrong else []
        return f"; did you mean {' or '.join(close)}?" if close else ""

    def _parse_ckpt_path(self) -> None:
        """Go on with the checkpoint's settings; LightningCLI would do so in silence."""
        wanted = self.config[self.config.subcommand].ckpt_path
        if wanted is None and self.config.subcommand != "fit":
            wanted = "best"
        if wanted is None:
            return
        self.checkpoint = find_checkpoint(wanted, self.recipe)
        self.stored = read_settings(self.checkpoint)
        self.config = resume_settings(
            self.config,
            self.parser,
            self.checkpoint,
            self.stored,
            flags=self.flags,
            linked=self.links.values(),
            trusted=is_run_of(self.checkpoint, self.recipe),
        )

    def after_instantiate_classes(self) -> None:
        """Hold the checkpoint against the data, and give a tiny model one thread.

        More threads would only wait for each other.
        """
        if self.checkpoint is not None and self.stored is not None:
            needed = {arg: getattr(self.datamodule, name) for name, arg in self.links.items()}
            check_sizes(self.checkpoint, self.stored, needed)
            weights = self.model.state_dict()
            shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
            check_shapes(self.checkpoint, self.stored, shapes)
        if self.trainer.world_size > 1:
            raise ValueError(
                "trainer.devices must be 1: every process would train on the whole set"
            )
        if self._is_tiny() and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        if self.subcommand == "fit" and self.checkpoint is not None and self.stored is not None:
            device = self.trainer.strategy.root_device.type
            for note in machine_notes(self.stored, device):
                print(f"note: {note}")

    def _is_tiny(self) -> bool:
        size: int = sum(parameter.numel() for parameter in self.model.parameters())
        return size < TINY

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Leave logging and checkpoints to the guard."""
        config = self._get(self.config_init, "trainer")
        given = config["logger"] if self.subcommand == "fit" else False
        kwargs["logger"] = False if given in (None, True) else given
        kwargs["plugins"] = [*_as_list(config["plugins"]), SealedCheckpointIO()]
        return super().instantiate_trainer(**kwargs)

    def _instantiate_trainer(self, config: dict[str, Any], callbacks: list[Callback]) -> Trainer:
        if config["precision"] is None:
            tiny = self._is_tiny()
            config["precision"] = "32-true" if tiny else pick_precision(config["accelerator"])
            self.config[self.subcommand].trainer.precision = config["precision"]  # for resuming
        if self.subcommand == "fit" and not config["fast_dev_run"]:
            settings = self.config[self.subcommand]
            self.guard = RunGuard(
                RunRecord(self.command, self.config_name, config["max_epochs"]),
                self.recipe,
                self.model,
                every_minutes=settings.checkpoint.every_minutes,
                saving=config["enable_checkpointing"] is not False,
                logging=settings.trainer.logger in (None, True),
            )
            others = (
                [LearningRates(), *self.pictures] if settings.trainer.logger is not False else []
            )
            if config["enable_progress_bar"] is not False:
                others.append(TQDMProgressBar(refresh_rate=20))
            config["callbacks"] = [*self.guard.callbacks, *_as_list(config["callbacks"]), *others]
        config["enable_checkpointing"] = False  # Lightning's own
        return super()._instantiate_trainer(config, callbacks)

    def fit(self, **kwargs: Any) -> None:
        """Train."""
        if self.guard is None:
            self.trainer.fit(**kwargs)
            return
        settings = self._parser("fit").dump(self.config.fit, skip_none=False)
        self.guard.fit(self.trainer, kwargs, settings, self.checkpoint, self.stored)

    def after_fit(self) -> None:
        """Say what was reached, where it is and what to do next."""
        if self.guard is not None:
            self.guard.report(self.trainer)

    def validate(self, **kwargs: Any) -> None:
        """Measure on the validation set and print it."""
        self._report(self.trainer.validate(**(kwargs | {"verbose": False})))

    def test(self, **kwargs: Any) -> None:
        """Measure on the test set and print it."""
        self._report(self.trainer.test(**(kwargs | {"verbose": False})))

    def _report(self, results: Any) -> None:
        print(f"{'checkpoint':<13} {self.checkpoint}")
        for name, value in results[0].items():
            print(f"{name:<13} {format_value(name, value)}")


def _as_list(value: Any) -> list[Any]:
    """Return what a Trainer takes as one thing, several or none as a list."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
