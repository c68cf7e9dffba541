#!/usr/bin/env python
"""Train a Vision Transformer: `python scripts/train_vit.py fit --config digits`."""

import sys

try:
    from vit_lightning.cli.vit import main
except ModuleNotFoundError as error:
    print(
        f"error: the module {error.name} is not installed here;"
        " run ./scripts/quickstart once, or use .venv/bin/python.",
        file=sys.stderr,
    )
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(main(command="python scripts/train_vit.py"))
