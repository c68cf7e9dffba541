"""A person's mistake becomes one sentence and exit code 2; `--debug` shows the traceback."""

import contextlib
import sys
from argparse import ArgumentError
from collections.abc import Callable, Sequence


def run_command(command: Callable[[list[str]], int], argv: Sequence[str] | None) -> int:
    """Run a command and turn what it raises into an exit code.

    Args:
        command: takes the arguments without `--debug`.
        argv: the arguments, or None for those of the process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    with contextlib.suppress(ValueError):
        arguments.remove("--debug")
    try:
        return command(arguments)
    except (ValueError, ArgumentError, FileNotFoundError) as error:
        if debug:
            raise
        print(f"error: {one_sentence(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def one_sentence(error: Exception) -> str:
    """Fold an exception's message into one line."""
    message = error.message if isinstance(error, ArgumentError) else str(error)
    lines = [line.strip() for line in str(message).splitlines()]
    # jsonargparse lists why each alternative of a type failed; the first is the one that was meant.
    reasons = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    if reasons and lines[0].startswith("Does not validate"):
        return reasons[0]
    return " ".join(line for line in lines if line)
