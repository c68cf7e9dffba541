import math

import pytest
import torch
from lightning.pytorch import Trainer

from vit_lightning.data import ReverseDataModule, SequencePropertyDataModule
from vit_lightning.optim import CosineWarmupScheduler
from vit_lightning.tasks import LitPredictor

SIZES = {"train_size": 211, "val_size": 31, "test_size": 53, "batch_size": 32}
NETWORK = {"model_dim": 12, "num_heads": 2, "num_layers": 1}


def model_for(data, **kwargs) -> LitPredictor:
    return LitPredictor(
        data.num_categories,
        data.num_outputs,
        objective=data.objective,
        label_mean=data.label_mean,
        label_std=data.label_std,
        **(NETWORK | {"lr": 3e-3, "warmup": 3} | kwargs),
    )


def trainer(tmp_path, **kwargs) -> Trainer:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    quiet |= {"accelerator": "cpu", "max_epochs": 2, "default_root_dir": tmp_path}
    return Trainer(**(quiet | {"enable_checkpointing": False} | kwargs))


@pytest.mark.parametrize("min_len", [None, 3])
@pytest.mark.parametrize("target", ["reverse", "majority", "palindrome", "sum"])
def test_every_target_trains_and_improves(target, min_len, tmp_path):
    if target == "reverse":
        data = ReverseDataModule(5, 7, min_len, **SIZES)
        model = model_for(data)
    else:
        data = SequencePropertyDataModule(
            target, num_categories=5, seq_len=7, min_len=min_len, **SIZES
        )
        model = model_for(data, pooling="mean")
    run = trainer(tmp_path, max_epochs=6)
    before = run.validate(model, data, verbose=False)[0]["val/loss"]
    run.fit(model, data)
    assert run.callback_metrics["val/loss"] < before
    assert f"val/{model.metric_name}" in run.callback_metrics
    predictions = torch.cat(run.predict(model, data))
    assert predictions.shape == data.splits["test"][1].shape
    if target == "sum":  # in the labels' own units
        assert abs(predictions.mean() - data.label_mean) < 2 * data.label_std


def test_padding_counts_neither_in_loss_nor_accuracy():
    data = ReverseDataModule(5, 7, 3, **SIZES)
    data.setup()
    model = model_for(data).eval()
    symbols, labels = (part[:20] for part in data.splits["train"])
    logits = model(symbols)
    right = (logits.argmax(-1) == labels)[labels >= 0]
    picked = logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1)
    expected = -picked[labels >= 0].mean()
    model.log = lambda *args, **kwargs: None
    loss = model._step((symbols, labels), "val")
    torch.testing.assert_close(loss, expected)
    accuracy = model.metrics["val_metric"].compute()
    torch.testing.assert_close(accuracy, right.float().mean())


def test_binary_accuracy_counts_logits_above_zero():
    model = LitPredictor(5, 1, objective="binary_cross_entropy", pooling="mean", **NETWORK)
    model.log = lambda *args, **kwargs: None
    logits = torch.tensor([0.3, 0.4, 0.2, -0.1])
    model.forward = lambda symbols: logits  # all but one between 0 and 1, like probabilities
    model._step((torch.zeros(4, 7, dtype=torch.long), torch.tensor([1.0, 1.0, 1.0, 1.0])), "val")
    assert model.metrics["val_metric"].compute() == 0.75
    logits = torch.tensor([0.3, 0.4, 0.2])
    model._step((torch.zeros(3, 7, dtype=torch.long), torch.ones(3)), "test")
    assert model.metrics["test_metric"].compute() == 1.0


def test_padded_symbols_do_not_change_the_prediction():
    model = LitPredictor(5, 5, **NETWORK).eval()
    symbols = torch.tensor([[1, 2, 3, -1, -1], [4, 3, 2, 1, 0]])
    torch.testing.assert_close(model(symbols)[0, :3], model(symbols[:1, :3])[0])


def test_optimizer_and_schedule_follow_the_run(tmp_path):
    data = ReverseDataModule(5, 7, **SIZES)
    model = model_for(data, optimizer="adamw", weight_decay=0.1)
    run = trainer(tmp_path)
    run.fit(model, data)
    scheduler = run.lr_scheduler_configs[0].scheduler
    assert isinstance(scheduler, CosineWarmupScheduler)
    assert scheduler.max_iters == 2 * math.ceil(211 / 32) == run.global_step
    assert scheduler.last_epoch == run.global_step  # stepped with the optimizer
    assert scheduler.get_last_lr()[0] == 0.0
    assert isinstance(run.optimizers[0], torch.optim.AdamW)


def test_checkpoint_holds_all_that_resuming_needs(tmp_path):
    # The notebook stepped its schedule by hand and saved only weights.
    data = ReverseDataModule(5, 7, **SIZES)
    run = trainer(tmp_path, max_epochs=2)
    run.fit(model_for(data, max_iters=21), data)
    path = tmp_path / "a.ckpt"
    run.save_checkpoint(path)
    checkpoint = torch.load(path, weights_only=True)
    assert checkpoint["lr_schedulers"][0]["last_epoch"] == 14
    assert checkpoint["optimizer_states"][0]["state"][0]["step"] == 14
    assert checkpoint["hyper_parameters"]["model_dim"] == 12
    assert checkpoint["datamodule_hyper_parameters"]["seq_len"] == 7

    resumed = trainer(tmp_path, max_epochs=3)
    resumed.fit(model_for(data, max_iters=21), data, ckpt_path=path, weights_only=True)
    straight = trainer(tmp_path, max_epochs=3)
    torch.manual_seed(1)
    straight.fit(model_for(data, max_iters=21), data)
    assert resumed.global_step == straight.global_step == 21
    for run in (resumed, straight):
        assert run.lr_scheduler_configs[0].scheduler.get_last_lr() == [0.0]


def test_resumed_weights_equal_those_of_a_run_without_a_stop(tmp_path):
    data = ReverseDataModule(5, 7, **SIZES)

    def run(epochs: int, **kwargs) -> tuple[Trainer, LitPredictor]:
        torch.manual_seed(1)
        model, made = model_for(data, max_iters=21), trainer(tmp_path, max_epochs=epochs)
        made.fit(model, data, **kwargs)
        return made, model

    straight = run(3)[1]
    run(2)[0].save_checkpoint(tmp_path / "a.ckpt")
    resumed = run(3, ckpt_path=tmp_path / "a.ckpt", weights_only=True)[1]
    torch.testing.assert_close(resumed.state_dict(), straight.state_dict(), rtol=0, atol=0)


def test_without_positions_reversal_cannot_be_learned():
    model = LitPredictor(5, 5, add_positional_encoding=False, **NETWORK).eval()
    symbols = torch.tensor([[1, 2, 3, 4]])
    torch.testing.assert_close(model(symbols).flip(1), model(symbols.flip(1)))


@pytest.mark.parametrize(
    "wrong", [{"lr": 0.0}, {"warmup": -1}, {"optimizer": "sgd"}, {"objective": "hinge"}]
)
def test_bad_arguments(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LitPredictor(5, 5, **NETWORK, **wrong)
