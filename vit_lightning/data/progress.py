"""Progress bars in bytes, with speed, for whatever takes more than a moment."""

import sys
from typing import NoReturn

from tqdm import tqdm


def byte_bar(title: str, total: int, show: bool, *, delay: float = 0.0) -> "tqdm[NoReturn]":
    """Make a bar that counts bytes.

    Args:
        title: What is going on, in a few words.
        total: Bytes expected.
        show: Whether to draw anything.
        delay: Seconds before the bar appears, so that quick work stays silent.

    Returns:
        A bar to be used in a `with` block and advanced with `update`.
    """
    live = sys.stderr.isatty()
    return tqdm(
        desc=title,
        total=total,
        unit="B",
        unit_scale=True,
        disable=not show,
        delay=delay,
        leave=not delay,
        mininterval=0.1 if live else 10.0,  # a log file wants a line now and then, not a film
    )
