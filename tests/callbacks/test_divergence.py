import pytest
import torch
from lightning.pytorch import Trainer

from vit_lightning.callbacks import StopOnDivergence
from vit_lightning.data import ReverseDataModule
from vit_lightning.tasks import LitPredictor


class Diverging(LitPredictor):
    """Has a loss of this value from the fourth step on."""

    value = float("nan")

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * self.value if batch_idx >= 3 else loss


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_it_tells_step_epoch_and_learning_rate(value, tmp_path):
    model = Diverging(10, 10, model_dim=8, num_heads=1, num_layers=1, warmup=0, max_iters=1000)
    model.value = value
    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=[StopOnDivergence()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    with pytest.raises(FloatingPointError) as raised:
        trainer.fit(model, ReverseDataModule(train_size=320, val_size=32, batch_size=32))
    assert str(raised.value) == (
        f"the loss is {value} at step 3 (epoch 1, learning rate {5e-4:.3g})"
    )


def test_elsewhere_several_steps_are_looked_at_together():
    guard = StopOnDivergence()
    guard._steps = [(n, 0.1 * n) for n in range(4)]
    guard._losses = [torch.tensor(x) for x in (1.0, 2.0, float("inf"), float("nan"))]
    trainer = type("Trainer", (), {"current_epoch": 0})()
    with pytest.raises(FloatingPointError, match=r"the loss is inf at step 2 .*learning rate 0\.2"):
        guard._check(trainer)
    guard._check(trainer)  # and it starts anew
