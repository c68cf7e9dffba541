"""Keep a run safe: its folder, its record, its checkpoints, and last words when it ends."""

import contextlib
import shutil
import signal
from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import LambdaCallback
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities.exceptions import SIGTERMException

from vit_lightning.callbacks import RunCheckpoint, RunStopped, StopOnDivergence
from vit_lightning.callbacks.checkpoint_file import write_file
from vit_lightning.callbacks.event_files import copy_events, rewind_events
from vit_lightning.cli.checkpoints import (
    LOGS,
    StoredSettings,
    checkpoint_files,
    damage,
    is_run_of,
    read_settings,
    run_folder,
)
from vit_lightning.cli.errors import RunError
from vit_lightning.cli.run_failure import explain
from vit_lightning.cli.run_record import RunRecord, State, held, new_run_folder
from vit_lightning.cli.stop_signals import StopSignals
from vit_lightning.viz.values import format_value


class RunGuard:
    """What stands around `Trainer.fit`.

    Args:
        record: how the run stands.
        recipe: name of the folder for its runs.
        model: says which metric tells the best checkpoint.
        every_minutes: longest time between two checkpoints.
        saving: whether there are checkpoints.
        logging: whether there is a log for TensorBoard.

    Attributes:
        callbacks: to give the Trainer, before all others.
        run: the folder, once the run has one.
    """

    def __init__(
        self,
        record: RunRecord,
        recipe: str,
        model: Any,
        *,
        every_minutes: float,
        saving: bool,
        logging: bool,
    ) -> None:
        self.record = record
        self.record.monitor = model.monitor
        self.recipe = recipe
        self.logging = logging
        self.run = Path()
        self.config = ""
        self.started = False
        self.signals = StopSignals()
        self.checkpoints = RunCheckpoint(
            Path(),
            model.monitor,
            model.monitor_mode,
            every_minutes,
            stop_asked=self.signals.asked,
            on_saved=self._note,
        )
        start = LambdaCallback(on_train_start=lambda *_: self._start())
        self.callbacks: list[Callback] = [start, StopOnDivergence()]
        if saving:
            self.callbacks = [self.signals, self.checkpoints, *self.callbacks]

    def fit(
        self,
        trainer: Trainer,
        arguments: dict[str, Any],
        config: str,
        checkpoint: Path | None,
        stored: StoredSettings | None,
    ) -> None:
        """Train in a folder that nobody else writes to.

        Args:
            trainer: that trains.
            arguments: of its `fit`.
            config: all settings, as YAML.
            checkpoint: to go on from.
            stored: what it says.
        """
        self.config = config
        settings = yaml.safe_load(config)
        kept = ("trainer", "checkpoint", "seed_everything")
        self.checkpoints.settings = {key: settings[key] for key in kept}
        going_on = checkpoint is not None and self._is_newest(checkpoint)
        self.run = (
            run_folder(checkpoint) if checkpoint and going_on else new_run_folder(self.recipe)
        )
        try:
            with held(self.run):
                self.checkpoints.folder = self.run / "checkpoints"
                if checkpoint is not None and stored is not None:
                    self._take_over(checkpoint, stored)
                if self.logging:
                    trainer.logger = TensorBoardLogger(
                        LOGS,
                        name=self.recipe,
                        version=int(self.run.name.removeprefix("version_")),
                        default_hp_metric=False,
                        # A TensorBoard that is open has read what is now taken back.
                        purge_step=stored.step if stored else None,
                    )
                self._train(trainer, arguments, checkpoint)
        finally:
            if not self.started and not going_on:
                shutil.rmtree(self.run, ignore_errors=True)  # nothing came of it

    def _is_newest(self, checkpoint: Path) -> bool:
        """Say whether going on from a checkpoint leaves nothing of its run behind."""
        if not is_run_of(checkpoint, self.recipe):
            return False
        for path in checkpoint_files(run_folder(checkpoint)):
            if path.samefile(checkpoint):
                return True
            if damage(path) is None:
                return False
        return False

    def _take_over(self, checkpoint: Path, stored: StoredSettings) -> None:
        """Go on with the record and the log of the checkpoint's run, as it was then."""
        now = read_settings(checkpoint)
        if (now.step, now.events) != (stored.step, stored.events):
            raise ValueError(f"{checkpoint} has just been written anew; try again")
        self.record.epochs, self.record.step = stored.epochs, stored.step
        self.record.best, self.record.best_epoch = stored.best
        source = run_folder(checkpoint)
        print(f"going on from {checkpoint}: {stored.epochs} epochs, {stored.step} steps")
        if source.resolve() != self.run.resolve():
            print(f"note: that is not the newest of a run here, so this is a new run, {self.run}")
            copy_events(source, self.run, stored.events)
            best = source / "checkpoints" / "best.ckpt"
            if best.is_file() and damage(best) is None and read_settings(best).best == stored.best:
                write_file(self.checkpoints.folder / "best.ckpt", [best.read_bytes()])
            return
        rewind_events(self.run, stored.events)
        for path in checkpoint_files(self.run):
            if path.samefile(checkpoint):
                break
            path.rename(path.with_name(f"{path.name}.damaged"))

    def _start(self) -> None:
        """Note that training begins: from here on there is something to keep."""
        self.started = True
        write_file(self.run / "config.yaml", [self.config.encode()])
        self._write("running")

    def _train(self, trainer: Trainer, arguments: dict[str, Any], checkpoint: Path | None) -> None:
        try:
            trainer.fit(**arguments)
            self._write("finished")
        except RunStopped:
            self._write("stopped")
            self.report(trainer)
            if self.signals.received == signal.SIGINT:
                raise KeyboardInterrupt from None
            raise SystemExit(128 + signal.SIGTERM) from None
        except SIGTERMException:  # from Lightning, where there are no checkpoints
            self._write("stopped")
            raise SystemExit(128 + signal.SIGTERM) from None
        except SystemExit:  # Lightning's answer to Ctrl-C before training, or without checkpoints
            self._write("stopped")
            raise KeyboardInterrupt from None
        except Exception as error:
            self._write("crashed")
            raise self._in_words(error, trainer, checkpoint) from error

    def _in_words(self, error: Exception, trainer: Trainer, checkpoint: Path | None) -> Exception:
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by fit
        last = self.checkpoints.folder / "last.ckpt"
        latest = f"{last} of step {self.checkpoints.step}" if last.is_file() else None
        words = explain(error, latest, self.record.resume_command(), data.batch_size)
        if words:
            return RunError(words)
        unfit = isinstance(error, RuntimeError | LookupError | TypeError | AttributeError)
        if unfit and checkpoint is not None and not self.started:
            return ValueError(f"{checkpoint} does not hold what this run needs: {error}")
        return error

    def report(self, trainer: Trainer) -> None:
        """Say what was reached, where it is and what to do next."""
        print(f"\nafter {trainer.current_epoch} epochs, {trainer.global_step} steps:")
        for name, value in sorted(trainer.callback_metrics.items()):
            if name.startswith("val/"):
                print(f"{name:<13} {format_value(name, float(value))}")
        if self.record.best is not None:
            score = format_value(self.record.monitor, self.record.best)
            print(f"{'best ' + self.record.monitor:<13} {score}")
        print(f"run      {self.run}")
        files = checkpoint_files(self.run)
        for path in files:
            print(f"{path.stem:<8} {path}")
        if (self.run / "attention.png").is_file():
            print(f"picture  {self.run / 'attention.png'}")
        if self.logging:
            print(f"watch    tensorboard --logdir {LOGS}")
        if files:
            resume = self.record.resume_command()
            print(f"resume   {resume}")
            if (self.checkpoints.folder / "best.ckpt").is_file():
                test = resume.replace(" fit --config ", " test --config ", 1)
                print(f"test     {test.removesuffix('last')}best")

    def _note(self, checkpoints: RunCheckpoint) -> None:
        self.record.epochs, self.record.step = checkpoints.epochs, checkpoints.step
        self.record.best, self.record.best_epoch = checkpoints.best_score, checkpoints.best_epoch
        if self.started:
            self.record.write(self.run)

    def _write(self, state: State) -> None:
        self.record.state = state
        with contextlib.suppress(OSError):  # of a full disk the checkpoints tell
            if self.started:
                self.record.write(self.run)
