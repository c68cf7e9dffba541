"""How many optimizer steps a run will take, for schedules that end with it."""

import math

from lightning.pytorch import Trainer


def planned_steps(trainer: Trainer) -> int:
    """Count the optimizer steps of the whole run.

    `trainer.estimated_stepping_batches` would do, but reading it while optimizers are set up builds
    the loaders too early and a resumed loader then loses its position. So the datamodule is asked.
    """
    if trainer.max_steps and trainer.max_steps > 0:
        return int(trainer.max_steps)
    datamodule = getattr(trainer, "datamodule", None)
    batches = getattr(datamodule, "steps_per_epoch", None)
    if batches is None or trainer.max_epochs is None or trainer.max_epochs < 1:
        raise ValueError(
            "the learning-rate schedule needs to know where the run ends: give max_iters, or "
            "trainer.max_steps, or trainer.max_epochs with a datamodule that has steps_per_epoch"
        )
    limit = trainer.limit_train_batches
    batches = min(batches, limit) if isinstance(limit, int) else int(batches * (limit or 0))
    return max(1, math.ceil(batches / trainer.accumulate_grad_batches) * trainer.max_epochs)
