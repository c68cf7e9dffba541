import pytest
from lightning.pytorch import LightningDataModule, Trainer

from vit_lightning.tasks.horizon import planned_steps


class Data(LightningDataModule):
    steps_per_epoch = 17


def trainer(**kwargs) -> Trainer:
    made = Trainer(logger=False, enable_checkpointing=False, accelerator="cpu", **kwargs)
    made.datamodule = Data()
    return made


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        ({"max_epochs": 3}, 51),
        ({"max_epochs": 3, "max_steps": 23}, 23),
        ({"max_epochs": 3, "limit_train_batches": 5}, 15),
        ({"max_epochs": 3, "limit_train_batches": 0.5}, 24),
        ({"max_epochs": 3, "accumulate_grad_batches": 4}, 15),
    ],
)
def test_planned_steps(arguments, steps):
    assert planned_steps(trainer(**arguments)) == steps


def test_without_an_end_it_says_so():
    with pytest.raises(ValueError, match="max_iters"):
        planned_steps(trainer(max_epochs=-1))
