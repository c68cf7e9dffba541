"""`vit-lightning`: one name for all commands."""

import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "reverse": "train a transformer on sequences: reversal, majority, palindromes, sums",
    "vit": "train a Vision Transformer on pictures: digits, MNIST, CIFAR-10",
    "runs": "list runs, how they stand, and how to resume them",
    "curves": "draw loss and accuracy against epoch from runs",
    "data": "fetch, verify and show the image sets",
    "bench": "measure how fast this machine trains, beside other people's libraries",
}

HELP = """usage: vit-lightning COMMAND ...

Transformers from scratch: train them, watch them, resume them, look inside.

commands:
{commands}

`vit-lightning COMMAND --help` explains each. Runs go to lightning_logs/;
watch them with `tensorboard --logdir lightning_logs`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Hand over to the module of the command."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP.format(commands="\n".join(f"  {n:<9} {t}" for n, t in COMMANDS.items())))
        return 0
    name = arguments.pop(0)
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"error: there is no command {name!r}; there are: {known}", file=sys.stderr)
        return 2
    # Imported late, so that --help does not wait for torch.
    status: int = import_module(f"vit_lightning.cli.{name}").main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
