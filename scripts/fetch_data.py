#!/usr/bin/env python
"""Fetch image sets and verify them: `python scripts/fetch_data.py cifar10`."""

import sys

try:
    from vit_lightning.cli.data import main
except ModuleNotFoundError as error:
    print(
        f"error: the module {error.name} is not installed here;"
        " run ./scripts/quickstart once, or use .venv/bin/python.",
        file=sys.stderr,
    )
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(main(["fetch", *sys.argv[1:]]))
