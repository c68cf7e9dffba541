"""`./scripts/quickstart`: from nothing to a trained transformer and a picture of why it works."""

import sys
import time
from collections.abc import Sequence

from vit_lightning.cli.errors import run_command

NEXT = """
Next (in this folder, after `source .venv/bin/activate`):
  tensorboard --logdir lightning_logs                                   watch the curves
  vit-lightning reverse fit --ckpt_path last --trainer.max_epochs 10    go on training
  vit-lightning reverse fit --config palindrome                         another task
  vit-lightning --help                                                  everything else"""


def main(argv: Sequence[str] | None = None) -> int:
    """Train, test, draw, and say what to do next."""
    return run_command(_run, argv)


def _run(arguments: list[str]) -> int:
    if arguments:
        print("usage: ./scripts/quickstart\n\nTrain a first transformer and look at its attention.")
        return 0 if arguments[0] in ("-h", "--help") else 2
    print("Training a transformer with one attention head to reverse sequences of 16 digits ...")
    sequences()
    print(NEXT)
    return 0


def sequences() -> None:
    """Train the reversal predictor and print its accuracy on train, val and test."""
    import torch
    from lightning.pytorch import Trainer

    from vit_lightning.cli.checkpoints import find_checkpoint
    from vit_lightning.cli.reverse import launch

    start = time.perf_counter()
    cli = launch(["fit"])
    seconds = time.perf_counter() - start
    checkpoint = torch.load(find_checkpoint("best", "reverse"), weights_only=True)
    cli.model.load_state_dict(checkpoint["state_dict"])
    trainer = Trainer(logger=False, enable_progress_bar=False, enable_model_summary=False)
    print(f"\n{'set':<6} {'sequences':>9}   accuracy")
    data = cli.datamodule
    loaders = (data.train_dataloader(), data.val_dataloader(), data.test_dataloader())
    for name, loader in zip(("train", "val", "test"), loaders, strict=True):
        result = trainer.test(cli.model, loader, verbose=False)
        print(f"{name:<6} {loader.sampler.size:>9,}   {100 * result[0]['test/acc']:.2f} %")
    print(f"\nTrained in {seconds:.0f} s. In the picture, the anti-diagonal is the reversal.")


if __name__ == "__main__":
    sys.exit(main())
