"""Keep a run safe: its folder, its record, its checkpoints, and last words when it ends."""

import contextlib
import shutil
import signal
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import LambdaCallback
from lightning.pytorch.loggers import TensorBoardLogger

from vit_lightning.callbacks import RunCheckpoint, RunStopped, StopOnDivergence
from vit_lightning.callbacks.checkpoint_file import write_file
from vit_lightning.callbacks.event_files import copy_events, rewind_events
from vit_lightning.cli.checkpoints import (
    LOGS,
    StoredSettings,
    checkpoint_files,
    damage,
    run_folder,
)
from vit_lightning.cli.errors import RunError
from vit_lightning.cli.run_failure import explain
from vit_lightning.cli.run_record import RunRecord, State, held, new_run_folder
from vit_lightning.cli.stop_signals import StopSignals
from vit_lightning.viz.curves import format_value


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
        self.signals = StopSignals()
        self.checkpoints = RunCheckpoint(
            Path(),
            model.monitor,
            model.monitor_mode,
            every_minutes,
            self.signals.asked,
            self._note,
        )
        self.started = False
        starts = LambdaCallback(on_train_start=lambda *_: setattr(self, "started", True))
        self.callbacks: list[Callback] = [starts, StopOnDivergence()]
        if saving:
            self.callbacks = [self.checkpoints, self.signals, *self.callbacks]

    def fit(
        self,
        trainer: Trainer,
        arguments: dict[str, Any],
        settings: str,
        checkpoint: Path | None,
        stored: StoredSettings | None,
    ) -> None:
        """Train in a folder that nobody else writes to.

        Args:
            trainer: that trains.
            arguments: of its `fit`.
            settings: all of them, as YAML.
            checkpoint: to go on from.
            stored: what it says.
        """
        going_on = checkpoint is not None and self._is_newest(checkpoint)
        self.run = (
            run_folder(checkpoint) if checkpoint and going_on else new_run_folder(self.recipe)
        )
        with held(self.run):
            self.checkpoints.folder = self.run / "checkpoints"
            write_file(self.run / "config.yaml", [settings.encode()])
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
            self._write("running")
            self._train(trainer, arguments, checkpoint)

    def _is_newest(self, checkpoint: Path) -> bool:
        """Say whether going on from a checkpoint leaves nothing of its run behind."""
        run = run_folder(checkpoint)
        if run.parent.resolve() != (LOGS / self.recipe).resolve():
            return False
        newest = next((path for path in checkpoint_files(run) if damage(path) is None), None)
        return newest is not None and newest.samefile(checkpoint)

    def _take_over(self, checkpoint: Path, stored: StoredSettings) -> None:
        """Take the log back to the checkpoint, and put newer files that are damaged aside."""
        source = run_folder(checkpoint)
        if source.resolve() != self.run.resolve():
            copy_events(source, self.run, stored.events)
            print(f"note: {checkpoint} is not the newest of a run here; this is a new run")
            return
        rewind_events(self.run, stored.events)
        for path in checkpoint_files(self.run):
            if path.samefile(checkpoint):
                break
            path.rename(path.with_name(f"{path.name}.damaged"))

    def _train(self, trainer: Trainer, arguments: dict[str, Any], checkpoint: Path | None) -> None:
        try:
            trainer.fit(**arguments)
            self._write("finished")
        except RunStopped:
            self._write("stopped")
            self.report(trainer)
            assert self.signals.received is not None
            if self.signals.received == signal.SIGINT:
                raise KeyboardInterrupt from None
            raise SystemExit(128 + self.signals.received) from None
        except SystemExit:  # Lightning's answer to a Ctrl-C that came before training
            self._write("stopped")
            raise KeyboardInterrupt from None
        except Exception as error:
            self._write("crashed")
            raise self._in_words(error, trainer, checkpoint) from error
        finally:
            if not checkpoint_files(self.run) and not self.started:
                shutil.rmtree(self.run)  # nothing came of it

    def _in_words(self, error: Exception, trainer: Trainer, checkpoint: Path | None) -> Exception:
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        latest = f"{self.checkpoints.folder / 'last.ckpt'} of step {self.checkpoints.step}"
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
        for path in checkpoint_files(self.run):
            print(f"{path.stem:<8} {path}")
        if (self.run / "attention.png").is_file():
            print(f"picture  {self.run / 'attention.png'}")
        if self.logging:
            print(f"watch    tensorboard --logdir {LOGS}")
        if checkpoint_files(self.run):
            print(f"resume   {self.record.resume_command()}")
        if (self.checkpoints.folder / "best.ckpt").is_file():
            command, config = self.record.command, self.record.config
            print(f"test     {command} test --config {config} --ckpt_path best")

    def _note(self, checkpoints: RunCheckpoint) -> None:
        self.record.epochs, self.record.step = checkpoints.epochs, checkpoints.step
        self.record.best, self.record.best_epoch = checkpoints.best_score, checkpoints.best_epoch
        self.record.write(self.run)

    def _write(self, state: State) -> None:
        self.record.state = state
        with contextlib.suppress(OSError):  # of a full disk the checkpoints tell
            self.record.write(self.run)
