from lightning.pytorch import Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vit_lightning.callbacks import SequenceAttentionPictures
from vit_lightning.data import ReverseDataModule, SequencePropertyDataModule
from vit_lightning.tasks import LitPredictor


def fit(tmp_path, data, every_n_epochs=1, **network) -> EventAccumulator:
    model = LitPredictor(
        data.num_categories,
        data.num_outputs,
        objective=data.objective,
        model_dim=8,
        num_heads=2,
        num_layers=2,
        **network,
    )
    Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=TensorBoardLogger(tmp_path, "run", version=0),
        callbacks=[SequenceAttentionPictures(every_n_epochs)],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        log_every_n_steps=1,
    ).fit(model, data)
    events = EventAccumulator(str(tmp_path / "run" / "version_0"))
    events.Reload()
    return events


def test_pictures_in_tensorboard_and_in_the_run_folder(tmp_path):
    data = ReverseDataModule(5, 7, 3, train_size=64, val_size=16, test_size=8, batch_size=32)
    events = fit(tmp_path, data)
    assert [image.step for image in events.Images("attention")] == [2, 4, 6]
    assert (tmp_path / "run" / "version_0" / "attention.png").stat().st_size > 1000


def test_class_token_and_less_often(tmp_path):
    data = SequencePropertyDataModule(
        "majority", num_categories=5, seq_len=7, train_size=64, val_size=16, test_size=8
    )
    events = fit(tmp_path, data, every_n_epochs=2, pooling="cls")
    assert len(events.Images("attention")) == 2  # the first epoch and the last
