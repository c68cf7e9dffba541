#!/usr/bin/env python
"""Measure how fast this machine trains: `python scripts/benchmark.py --parts step`."""

import sys

try:
    from vit_lightning.cli.bench import main
except ModuleNotFoundError as error:
    print(
        f"error: the module {error.name} is not installed here;"
        " run ./scripts/quickstart once, or use .venv/bin/python.",
        file=sys.stderr,
    )
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(main(command="python scripts/benchmark.py"))
