"""A person's mistake becomes one sentence and exit code 2; `--debug` shows the traceback."""

import contextlib
import re
import sys
from argparse import ArgumentError
from collections.abc import Callable, Sequence

from vit_lightning.data.fetch import DataUnavailableError

# How jsonargparse reports a value that fits none of the types in a union.
ALTERNATIVES = re.compile(
    r"Does not validate against any .*?Errors: - (.*?)"
    r"(?: Given value type: .*? Given value: (.*))?$"
)


class RunError(Exception):
    """A run failed through no mistake in what was typed: exit code 1."""


def run_command(command: Callable[[list[str]], object], argv: Sequence[str] | None) -> int:
    """Run a command and turn what it raises into an exit code.

    Args:
        command: takes the arguments without `--debug`; an integer it returns is the exit code.
        argv: the arguments, or None for those of the process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    with contextlib.suppress(ValueError):
        arguments.remove("--debug")
    try:
        status = command(arguments)
        return status if isinstance(status, int) else 0
    except (ValueError, ArgumentError, FileNotFoundError) as error:
        if debug:
            raise
        print(f"error: {one_sentence(error)}", file=sys.stderr)
        return 2
    except (RunError, OSError) as error:
        if debug:
            raise
        print(f"error: {told(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def told(error: Exception) -> str:
    """Say what is wrong with which file, or what the error says itself."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def one_sentence(error: Exception) -> str:
    """Fold an exception's message into one line, unless it is a list that was laid out."""
    if isinstance(error, DataUnavailableError):
        return str(error)
    message = error.message if isinstance(error, ArgumentError) else str(error)
    return ALTERNATIVES.sub(_reasons, " ".join(str(message).split()))


def _reasons(match: re.Match[str]) -> str:
    """Say why each alternative of a type failed, but not that the value is not None."""
    reasons = [r for r in match[1].split(" - ") if not re.fullmatch("Expected .*None.*", r)]
    # These are not what the person typed; their reasons quote that.
    typed = match[2] and not match[2].startswith(("NestedArg(", "Namespace("))
    return " or ".join(reasons) + (f", got {match[2]}" if typed else "")
