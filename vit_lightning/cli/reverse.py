"""`vit-lightning reverse`: train the sequence predictor."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit_lightning.cli.errors import run_command

if TYPE_CHECKING:
    from vit_lightning.cli.training import TrainingCLI

DESCRIPTION = """Train a transformer on sequences: reverse them, or answer a question about them.

  {command} fit                                  learn to reverse sequences (recipe: reverse)
  {command} fit --config palindrome              another recipe, or your own YAML file
  {command} fit --model.num_layers 2             change one thing
  {command} fit --ckpt_path last                 go on where the last run stopped
  {command} test                                 measure the best checkpoint on the test set

Recipes: {recipes}.
Every flag can stand in the YAML file too; `{command} fit --help` lists them all."""


def main(argv: Sequence[str] | None = None, command: str = "vit-lightning reverse") -> int:
    """Run the command.

    Args:
        argv: the arguments, or None for those of the process.
        command: what the person typed, for the commands this suggests.
    """
    return run_command(lambda arguments: launch(arguments, command), argv)


def launch(arguments: list[str], command: str = "vit-lightning reverse") -> "TrainingCLI":
    """Run a subcommand and return what was built for it: trainer, model and data."""
    # Imported late, so that what only looks at this module does not wait for torch.
    from vit_lightning.callbacks import SequenceAttentionPictures
    from vit_lightning.cli.checkpoints import run_folder
    from vit_lightning.cli.recipes import recipe_names
    from vit_lightning.cli.training import TrainingCLI
    from vit_lightning.data import SequenceDataModule
    from vit_lightning.tasks import LitPredictor

    class SequenceCLI(TrainingCLI):
        def predict(self, **kwargs: Any) -> None:
            """Write the test sequences, what they should give and what the model says, as CSV."""
            predictions = self.trainer.predict(**kwargs)
            assert self.checkpoint is not None
            path = run_folder(self.checkpoint) / "predictions.csv"
            _write_predictions(path, self.datamodule.predict_dataloader(), predictions)
            print(f"predictions {path}")

    return SequenceCLI(
        LitPredictor,
        SequenceDataModule,
        links={
            "num_categories": "input_dim",
            "num_outputs": "num_classes",
            "objective": "objective",
            "label_mean": "label_mean",
            "label_std": "label_std",
        },
        command=command,
        default_recipe="reverse",
        pictures=[SequenceAttentionPictures()],
        description=DESCRIPTION.format(command=command, recipes=", ".join(recipe_names("reverse"))),
        args=arguments,
    )


def _write_predictions(path: Path, batches: Any, predictions: Any) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sequence", "label", "prediction"])
        for (inputs, labels), predicted in zip(batches, predictions, strict=True):
            for row in zip(inputs, labels, predicted, strict=True):
                present = row[0] >= 0
                cells = [cell[present] if cell.ndim else cell for cell in row]
                writer.writerow(
                    " ".join(f"{v:g}" for v in cell.flatten().tolist()) for cell in cells
                )
