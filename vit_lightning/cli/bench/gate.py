"""The gate between the benchmark and a contender's process: wait for one's turn, then answer.

Messages are lines of JSON. The contender says `ready` once it is prepared, gets a `case`, answers
with its `figures`, and so on until the pipe closes.
"""

import json
import os
from collections.abc import Iterator
from typing import Any


class Gate:
    """The contender's end.

    Args:
        read: descriptor that turns come from.
        write: descriptor that answers go to.
    """

    def __init__(self, read: int, write: int) -> None:
        self.read = read
        self.write = write
        self._ready = False

    def wait(self) -> dict[str, Any]:
        """Wait for the next turn and return what is to be measured; at the end, leave."""
        if not self._ready:
            self._ready = True
            self._send({"ready": True})
        line = b""
        while not line.endswith(b"\n"):  # byte by byte: nothing of the next message may be taken
            byte = os.read(self.read, 1)
            if not byte:
                raise SystemExit(0)
            line += byte
        case: dict[str, Any] = json.loads(line)["case"]
        return case

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            yield self.wait()

    def answer(self, **figures: float | str | None) -> None:
        """Tell what was measured."""
        self._send({"figures": figures})

    def fail(self, reason: str) -> None:
        """Tell why this contender cannot take part any longer."""
        self._send({"error": reason})

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self.write, data) :]
