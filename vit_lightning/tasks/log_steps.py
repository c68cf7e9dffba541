"""Which steps the log has."""

from lightning.pytorch import LightningModule


def is_logged(module: LightningModule) -> bool:
    """Say whether the figures of the step under way go into the log.

    `log` takes a tenth of a small model's step, and what it is given at other steps goes nowhere.
    """
    trainer = module._trainer  # None when a step is called by hand, where `trainer` would raise
    if trainer is None:
        return False
    interval: int = trainer.log_every_n_steps  # type: ignore[attr-defined]  # a connector sets it
    due = interval > 0 and (trainer.global_step + 1) % interval == 0
    return due or trainer.should_stop
