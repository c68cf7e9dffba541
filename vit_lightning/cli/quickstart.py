"""`./scripts/quickstart`: from nothing to trained transformers and pictures of their attention."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vit_lightning.cli.errors import run_command

if TYPE_CHECKING:
    from vit_lightning.cli.training import TrainingCLI

NEXT = """
Next (in this folder, after `source .venv/bin/activate`):
  tensorboard --logdir lightning_logs                                   watch the curves
  vit-lightning reverse fit --ckpt_path last --trainer.max_epochs 10    go on training
  vit-lightning reverse fit --config palindrome                         another task
  vit-lightning vit fit --config cifar10-small                          photographs, 10 minutes
  vit-lightning --help                                                  everything else"""


def main(argv: Sequence[str] | None = None) -> int:
    """Train, test, draw, and say what to do next."""
    return run_command(_run, argv)


def _run(arguments: list[str]) -> int:
    if arguments:
        print("usage: ./scripts/quickstart\n\nTrain two transformers and look at their attention.")
        return 0 if arguments[0] in ("-h", "--help") else 2
    from vit_lightning.cli import reverse, vit

    rows = []
    print("Training a transformer with one attention head to reverse sequences of 16 digits ...")
    start = time.perf_counter()
    rows.append(measure("reversal", reverse.launch(["fit"]), start))
    print("\nTraining a Vision Transformer to read handwritten digits of 8x8 pixels ...")
    start = time.perf_counter()
    rows.append(measure("digits", vit.launch(["fit", "--config", "digits"]), start))
    print(
        f"\n{'task':<10} {'train':>9} {'val':>9} {'test':>9} {'seconds':>8}   picture of attention"
    )
    print("\n".join(rows))
    print("\nReversal: each row of the picture looks at one place above all, on the anti-diagonal.")
    print("Digits: the heat shows which parts of a picture decide.")
    print(NEXT)
    return 0


def measure(task: str, cli: "TrainingCLI", start: float) -> str:
    """Return a line of the table: the best checkpoint's accuracy on train, val and test."""
    import torch
    from lightning.pytorch import Trainer

    from vit_lightning.cli.checkpoints import find_checkpoint

    seconds = time.perf_counter() - start
    checkpoint = torch.load(find_checkpoint("best", cli.recipe), weights_only=True)
    cli.model.load_state_dict(checkpoint["state_dict"])
    trainer = Trainer(
        devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False
    )
    figures = []
    for split in ("train", "val", "test"):
        cli.datamodule.test_split = split
        accuracy = trainer.test(cli.model, cli.datamodule, verbose=False)[0]["test/acc"]
        figures.append(f"{100 * accuracy:7.2f} %")
    assert cli.guard is not None
    return f"{task:<10} {' '.join(figures)} {seconds:>8.0f}   {cli.guard.run}/attention.png"


if __name__ == "__main__":
    sys.exit(main())
