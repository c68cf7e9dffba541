"""Peak memory of this process, and how to make it start from where the process is now."""

import contextlib
import ctypes
import gc
import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def release_memory() -> None:
    """Give back what is free, for contenders that wait must not take memory from the one at work.

    Where the C library has no such call, nothing happens.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def mark_peak() -> int:
    """Give back what is free, forget the peak so far where the system can, and return bytes in use.

    Elsewhere than on Linux the peak so far is returned, and what stays below it does not show.
    """
    release_memory()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS") or peak_bytes()


def peak_bytes() -> int:
    """Return the most that this process has had in memory since `mark_peak`."""
    # Not ru_maxrss where it can be helped: on Linux it starts at the peak of the parent process.
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _status(name: str) -> int:
    if not STATUS.is_file():
        return 0
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    return 0
