#!/usr/bin/env python
"""Train the sequence predictor: `python scripts/train_reverse.py fit`."""

import sys

try:
    from vit_lightning.cli.reverse import main
except ModuleNotFoundError as error:
    print(
        f"error: the module {error.name} is not installed here;"
        " run ./scripts/quickstart once, or use .venv/bin/python.",
        file=sys.stderr,
    )
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(main(command="python scripts/train_reverse.py"))
