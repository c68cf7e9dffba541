"""Log the learning rate together with the other figures of a step.

Lightning's LearningRateMonitor logs it before the step, so that a step which is interrupted and
done again would be in the log twice.
"""

from lightning.pytorch import Callback, LightningModule, Trainer
from torch.optim import Optimizer


class LearningRates(Callback):
    """Log `lr`, or `lr/NAME` for parameter groups that have a name."""

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        """Log the rates that this step is taken with, if the log has this step."""
        interval: int = trainer.log_every_n_steps  # type: ignore[attr-defined]  # a connector sets it
        due = interval > 0 and (trainer.global_step + 1) % interval == 0
        if not due and not trainer.should_stop:
            return  # as tasks/log_steps.py has it for the loss
        groups = optimizer.param_groups
        rates = {f"lr/{g['name']}" if "name" in g else "lr": float(g["lr"]) for g in groups}
        pl_module.log_dict(rates, on_step=True, on_epoch=False)
