"""The LightningCLI behind the training commands: recipes, defaults, resuming, last words."""

import os
import re
from argparse import ArgumentError, RawDescriptionHelpFormatter
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint, TQDMProgressBar
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import TensorBoardLogger

from vit_lightning.cli.checkpoints import (
    LOGS,
    StoredSettings,
    check_sizes,
    find_checkpoint,
    read_settings,
    run_folder,
)
from vit_lightning.cli.errors import one_sentence
from vit_lightning.cli.precision import pick_precision
from vit_lightning.cli.quiet import be_quiet
from vit_lightning.cli.recipes import with_recipe
from vit_lightning.cli.resume import resume_settings
from vit_lightning.viz.curves import format_value

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
        named = (re.match(r"--((?:model|data|trainer)\.[\w.]+)", arg) for arg in args)
        self.flags = {match[1].replace(".init_args", "") for match in named if match}
        self.checkpoint: Path | None = None
        self.stored: StoredSettings | None = None
        be_quiet(fitting=args[:1] == ["fit"])
        parser = {"exit_on_error": False, "prog": command}
        try:
            super().__init__(
                model_class,
                datamodule_class,
                subclass_mode_data=True,
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

    def setup_parser(self, *args: Any, **kwargs: Any) -> None:
        """Describe the subcommands in our words rather than those of Trainer's docstrings."""
        super().setup_parser(*args, **kwargs)
        assert self.parser._subcommands_action is not None
        for action in self.parser._subcommands_action._choices_actions:
            action.help = SUBCOMMANDS[action.dest]

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Let the model's sizes follow from the data."""
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
        )

    def after_instantiate_classes(self) -> None:
        """Hold the checkpoint against the data, and give a tiny model one thread.

        More threads would only wait for each other.
        """
        if self.checkpoint is not None and self.stored is not None:
            needed = {arg: getattr(self.datamodule, name) for name, arg in self.links.items()}
            check_sizes(self.checkpoint, self.stored, needed)
        if self.trainer.world_size > 1:
            raise ValueError(
                "trainer.devices must be 1: every process would train on the whole set"
            )
        if self._is_tiny() and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)

    def _is_tiny(self) -> bool:
        size: int = sum(parameter.numel() for parameter in self.model.parameters())
        return size < TINY

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Add logger and callbacks that every run has."""
        if self.subcommand != "fit":
            self.save_config_callback = None
            return super().instantiate_trainer(logger=False, enable_checkpointing=False, **kwargs)
        given = self._get(self.config_init, "trainer")["logger"]
        if given not in (None, True):
            return super().instantiate_trainer(**kwargs)
        version = None
        run = run_folder(self.checkpoint) if self.checkpoint else None
        if run is not None and run.parent.resolve() == (LOGS / self.recipe).resolve():
            version = int(run.name.removeprefix("version_"))  # go on in the same run
            self.save_config_callback = None
        logger = TensorBoardLogger(LOGS, name=self.recipe, version=version, default_hp_metric=False)
        return super().instantiate_trainer(logger=logger, **kwargs)

    def _instantiate_trainer(self, config: dict[str, Any], callbacks: list[Callback]) -> Trainer:
        if config["precision"] is None:
            tiny = self._is_tiny()
            config["precision"] = "32-true" if tiny else pick_precision(config["accelerator"])
            self.config[self.subcommand].trainer.precision = config["precision"]  # for resuming
        if self.subcommand == "fit" and not config["fast_dev_run"]:
            callbacks = [*callbacks, *self._standard_callbacks(config)]
        return super()._instantiate_trainer(config, callbacks)

    def _standard_callbacks(self, config: dict[str, Any]) -> list[Callback]:
        """Make the callbacks that every run has, unless they are switched off."""
        callbacks: list[Callback] = []
        if config["enable_checkpointing"] is not False:
            best, mode = self.model.monitor, self.model.monitor_mode
            often: dict[str, Any] = {"save_on_train_epoch_end": True}
            often["enable_version_counter"] = False
            callbacks.append(ModelCheckpoint(filename="best", monitor=best, mode=mode, **often))
            callbacks.append(ModelCheckpoint(filename="last", **often))
        if config["enable_progress_bar"] is not False:
            callbacks.append(TQDMProgressBar(refresh_rate=20))
        if config["logger"]:
            callbacks += [LearningRateMonitor("step"), *self.pictures]
        return callbacks

    def fit(self, **kwargs: Any) -> None:
        """Train; when the person stops it, say how to go on."""
        try:
            self.trainer.fit(**kwargs)
        except SystemExit:  # Lightning's answer to Ctrl-C
            if not self.trainer.interrupted:
                raise
            self.after_fit()
            raise KeyboardInterrupt from None

    def after_fit(self) -> None:
        """Say what was reached, where it is and what to do next."""
        best = self.trainer.checkpoint_callback
        if not isinstance(best, ModelCheckpoint) or self.trainer.log_dir is None:
            return
        run = Path(self.trainer.log_dir)
        print(f"\nafter {self.trainer.current_epoch} epochs:")
        for name, value in sorted(self.trainer.callback_metrics.items()):
            if name.startswith("val/"):
                print(f"{name:<13} {format_value(name, float(value))}")
        if best.monitor is not None and best.best_model_score is not None:
            score = format_value(best.monitor, float(best.best_model_score))
            print(f"{'best ' + best.monitor:<13} {score}")
        print(f"run      {run}")
        for name in ("best", "last"):
            print(f"{name:<8} {run / 'checkpoints' / f'{name}.ckpt'}")
        if (run / "attention.png").is_file():
            print(f"picture  {run / 'attention.png'}")
        print(f"watch    tensorboard --logdir {LOGS}")
        print(f"resume   {self.command} fit --config {self.config_name} --ckpt_path last")
        print(f"test     {self.command} test --config {self.config_name} --ckpt_path best")

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
