import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vit_lightning.callbacks import ImageAttentionPictures, SequenceAttentionPictures
from vit_lightning.callbacks import attention_pictures as module
from vit_lightning.data import DigitsDataModule, ReverseDataModule, SequencePropertyDataModule
from vit_lightning.tasks import LitPredictor, LitViT


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
    return train(tmp_path, model, data, SequenceAttentionPictures(every_n_epochs))


def train(tmp_path, model, data, pictures) -> EventAccumulator:
    Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=TensorBoardLogger(tmp_path, "run", version=0),
        callbacks=[pictures],
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
    assert [image.step for image in events.Images("attention")] == [1, 3, 5]
    assert (tmp_path / "run" / "version_0" / "attention.png").stat().st_size > 1000


def test_class_token_and_less_often(tmp_path):
    data = SequencePropertyDataModule(
        "majority", num_categories=5, seq_len=7, train_size=64, val_size=16, test_size=8
    )
    events = fit(tmp_path, data, every_n_epochs=2, pooling="cls")
    assert len(events.Images("attention")) == 2  # the first epoch and the last


@pytest.mark.parametrize(
    "network", [{"pooling": "cls", "num_registers": 3}, {"pooling": "mean", "stem": "conv"}]
)
def test_what_a_vision_transformer_looks_at(network, tmp_path, data_folder, monkeypatch):
    drawn = []

    def spy(images, maps, **kwargs):
        drawn.append((images, maps, kwargs))
        return original(images, maps, **kwargs)

    original = module.picture_attention
    monkeypatch.setattr(module, "picture_attention", spy)
    data = DigitsDataModule(train_size=64, val_size=16, batch_size=32)
    sizes = {"patch_size": 2, "embed_dim": 8, "num_heads": 2, "num_layers": 2}
    model = LitViT(8, 1, 10, **sizes, **network)
    events = train(tmp_path, model, data, ImageAttentionPictures())
    assert [image.step for image in events.Images("attention")] == [1, 3, 5]
    assert (tmp_path / "run" / "version_0" / "attention.png").stat().st_size > 1000

    images, maps, told = drawn[-1]
    stored, labels = data.splits["val"]
    assert (images == stored[:4]).all()  # as they were before they were normalised
    assert told["labels"] == [str(int(label)) for label in labels[:4]]
    assert told["grid"] == (4, 4)
    tokens = 16 + told["num_prefix_tokens"]
    assert [tuple(layer.shape) for layer in maps] == [(4, 2, tokens, tokens)] * 2
    assert told["title"] == "attention after epoch 3"
