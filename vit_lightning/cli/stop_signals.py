"""Ctrl-C and SIGTERM: the first asks the run to save and stop, the second leaves at once."""

import os
import signal
import sys
import threading
from types import FrameType

from lightning.pytorch import Callback, LightningModule, Trainer


class StopSignals(Callback):
    """Take note of signals while a run trains.

    Lightning would stop in the middle of a step, which cannot be saved exactly, and put its own
    handlers back when training is over.

    Attributes:
        received: the first signal, if there was one.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None

    def asked(self) -> bool:
        """Say whether there was a signal."""
        return self.received is not None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Listen; Lightning has set up its own handlers by now."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            print("\nleft at once; the latest checkpoint is whole", file=sys.stderr, flush=True)
            os._exit(128 + number)
        self.received = signal.Signals(number)
        print(
            f"\n{self.received.name}: saving after this step (a validation is finished first); "
            "once more leaves at once",
            file=sys.stderr,
            flush=True,
        )
