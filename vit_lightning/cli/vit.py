"""`vit-lightning vit`: train a Vision Transformer on pictures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vit_lightning.cli.errors import run_command

if TYPE_CHECKING:
    from vit_lightning.cli.training import TrainingCLI

DESCRIPTION = """Train a Vision Transformer from scratch to classify pictures.

  {command} fit                                the digits inside scikit-learn, offline, a minute
  {command} fit --config cifar10-small         another recipe, or your own YAML file
  {command} fit --model.num_layers 4           change one thing
  {command} fit --ckpt_path last               go on where the last run stopped
  {command} test                               measure the best checkpoint on the test set
  {command} predict --images FILE_OR_FOLDER    classify your own pictures

Recipes: {recipes}.
Every flag can stand in the YAML file too; `{command} fit --help` lists them all."""


def main(argv: Sequence[str] | None = None, command: str = "vit-lightning vit") -> int:
    """Run the command.

    Args:
        argv: the arguments, or None for those of the process.
        command: what the person typed, for the commands this suggests.
    """
    return run_command(lambda arguments: launch(arguments, command), argv)


def launch(arguments: list[str], command: str = "vit-lightning vit") -> "TrainingCLI":
    """Run a subcommand and return what was built for it: trainer, model and data."""
    # Imported late, so that what only looks at this module does not wait for torch.
    from vit_lightning.callbacks import ImageAttentionPictures
    from vit_lightning.cli.recipes import recipe_names
    from vit_lightning.cli.vit_training import VisionCLI
    from vit_lightning.data import ImageDataModule
    from vit_lightning.tasks import LitViT

    return VisionCLI(
        LitViT,
        ImageDataModule,
        links={
            "image_size": "image_size",
            "in_channels": "in_channels",
            "num_classes": "num_classes",
        },
        command=command,
        default_recipe="digits",
        pictures=[ImageAttentionPictures(every_n_epochs=5)],
        description=DESCRIPTION.format(command=command, recipes=", ".join(recipe_names("vit"))),
        args=arguments,
    )
