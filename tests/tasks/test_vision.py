import math

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint
from torch import Tensor

from vit_lightning.data import DigitsDataModule
from vit_lightning.data.augment import Augment
from vit_lightning.optim import CosineWarmupScheduler, MuonAdamW
from vit_lightning.tasks import LitViT

pytestmark = pytest.mark.usefixtures("data_folder")

NETWORK = {"patch_size": 2, "embed_dim": 16, "num_layers": 1, "num_heads": 2, "pooling": "mean"}
MIXED = Augment(crop_padding=1, mixup=0.2, cutmix=1.0, label_smoothing=0.1)


def digits(**kwargs) -> DigitsDataModule:
    return DigitsDataModule(**({"train_size": 211, "val_size": 53, "batch_size": 32} | kwargs))


def vit(**kwargs) -> LitViT:
    return LitViT(8, 1, 10, **(NETWORK | {"lr": 1e-2, "warmup": 3} | kwargs))


def trainer(tmp_path, **kwargs) -> Trainer:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    quiet |= {"accelerator": "cpu", "max_epochs": 2, "default_root_dir": tmp_path}
    return Trainer(**(quiet | {"enable_checkpointing": False} | kwargs))


def silent(model: LitViT) -> LitViT:
    """A model outside a Trainer, whose steps log nothing."""
    model.log = model.log_dict = lambda *args, **kwargs: None
    return model


def some_images(count: int = 7) -> Tensor:
    return torch.randn(count, 1, 8, 8)


@pytest.mark.parametrize("augment", [Augment(), Augment(mixup=0.2, label_smoothing=0.1)])
def test_it_learns_digits(augment, tmp_path):
    data, model = digits(augment=augment), vit()
    run = trainer(tmp_path, max_epochs=20)
    before = run.validate(model, data, verbose=False)[0]
    run.fit(model, data)
    after = run.callback_metrics
    assert after["val/loss"] < before["val/loss"] - 0.2
    assert after["val/acc"] > max(before["val/acc"], 0.25)
    assert after["val/acc_top5"] >= after["val/acc"]
    assert {"train/loss_epoch", "train/acc"} <= after.keys()


def test_the_loss_of_hard_targets():
    model, images = silent(vit()), some_images()
    labels = torch.arange(7)
    loss = model.training_step((images, labels), 0)
    log_p = model(images).log_softmax(-1)
    torch.testing.assert_close(loss, -log_p[range(7), labels].mean())
    right = (log_p.argmax(-1) == labels).float().mean()
    torch.testing.assert_close(model.train_acc.compute(), right)


def test_the_loss_of_soft_targets_and_the_accuracy_on_their_heaviest_class():
    model, images = silent(vit()), some_images()
    targets = torch.rand(7, 10).softmax(-1)
    loss = model.training_step((images, targets), 0)
    log_p = model(images).log_softmax(-1)
    torch.testing.assert_close(loss, -(targets * log_p).sum(-1).mean())
    right = (log_p.argmax(-1) == targets.argmax(-1)).float().mean()
    torch.testing.assert_close(model.train_acc.compute(), right)


def test_one_hot_rows_cost_what_class_numbers_do():
    model, images, labels = silent(vit()), some_images(), torch.arange(7)
    rows = torch.nn.functional.one_hot(labels, 10).float()
    soft, hard = (model.training_step((images, t), 0) for t in (rows, labels))
    torch.testing.assert_close(soft, hard)


def test_top_5_counts_a_class_among_the_five_likeliest():
    model, images = silent(vit()).eval(), some_images(31)
    rank = model(images).argsort(dim=-1, descending=True)
    labels = rank[:, 4].clone()  # the fifth guess
    labels[:11] = rank[:11, 5]  # and the sixth
    labels[11:14] = rank[11:14, 0]  # and the first
    model.validation_step((images, labels), 0)
    metrics = model.val_metrics.compute()
    assert metrics["val/acc"].item() == pytest.approx(3 / 31)
    assert metrics["val/acc_top5"].item() == pytest.approx(20 / 31)


def test_with_fewer_classes_top_5_is_all_of_them():
    model = silent(LitViT(8, 1, 3, **NETWORK))
    model.validation_step((some_images(), torch.arange(7) % 3), 0)
    assert model.val_metrics.compute()["val/acc_top5"] == 1


def test_flip_averaging_is_the_mean_of_both_probabilities():
    plain = vit().eval()
    averaging = vit(flip_averaging=True).eval()
    averaging.load_state_dict(plain.state_dict())
    images = some_images()
    torch.testing.assert_close(plain.log_probabilities(images), plain(images).log_softmax(-1))
    both = (plain(images).softmax(-1) + plain(images.flip(-1)).softmax(-1)) / 2
    assert not torch.allclose(both, plain(images).softmax(-1), atol=1e-4)
    torch.testing.assert_close(averaging.predict_step((images, images), 0), both)
    mirrored = averaging.log_probabilities(images.flip(-1))
    torch.testing.assert_close(averaging.log_probabilities(images), mirrored)


def test_training_does_not_average():
    images, labels = some_images(), torch.arange(7)
    plain, averaging = silent(vit()), silent(vit(flip_averaging=True))
    averaging.load_state_dict(plain.state_dict())
    losses = [model.training_step((images, labels), 0) for model in (plain, averaging)]
    torch.testing.assert_close(*losses)


def test_the_confusion_matrix_counts_the_test_pictures_once(tmp_path):
    data, model = digits(), vit()
    run = trainer(tmp_path, max_epochs=3)
    run.fit(model, data)
    for _ in range(2):  # a second test starts anew
        (result,) = run.test(model, data, verbose=False)
    counts = model.confusion.compute()
    assert counts.sum() == 359
    assert counts.sum(dim=1).tolist() == data.splits["test"][1].bincount(minlength=10).tolist()
    assert counts.trace().item() / 359 == pytest.approx(result["test/acc"])
    assert result.keys() == {"test/loss", "test/acc", "test/acc_top5"}


def test_predictions_are_probabilities(tmp_path):
    data, model = digits(), vit()
    data.pictures = torch.randint(256, (67, 1, 8, 8), dtype=torch.uint8)
    data.load_state_dict({"mean": [0.3], "std": [0.4]})
    probabilities = torch.cat(trainer(tmp_path).predict(model, data))
    assert probabilities.shape == (67, 10)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(67))


def test_adamw_decays_only_matrices(tmp_path):
    model, run = vit(pooling="cls", weight_decay=0.07), trainer(tmp_path, max_steps=1)
    run.fit(model, digits())
    (optimizer,) = run.optimizers
    assert isinstance(optimizer, torch.optim.AdamW)
    decays = {id(p): g["weight_decay"] for g in optimizer.param_groups for p in g["params"]}
    assert len(decays) == len(list(model.parameters()))
    network = model.network
    assert decays[id(network.head.weight)] == 0.07
    for parameter in (network.class_token, network.positions, network.head.bias):
        assert decays[id(parameter)] == 0


def test_muon_takes_the_encoder_under_the_same_schedule(tmp_path):
    rates = []
    model = vit(optimizer="muon", muon_lr=0.04, lr=0.02, warmup=2, schedule="constant")
    model.on_train_batch_start = lambda batch, batch_idx: rates.append(
        [group["lr"] for group in model.trainer.optimizers[0].param_groups]
    )
    run = trainer(tmp_path, max_epochs=1, gradient_clip_val=1.0)
    run.fit(model, digits())
    assert isinstance(run.optimizers[0], MuonAdamW)
    assert rates[:3] == [[0.0] * 3, [0.02, 0.01, 0.01], [0.04, 0.02, 0.02]]
    (hidden, *_) = run.optimizers[0].param_groups
    assert len(hidden["params"]) == 4


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_fused_and_plain_optimizers_agree(optimizer, tmp_path):
    def trained(fused: bool) -> LitViT:
        torch.manual_seed(1)
        model = vit(optimizer=optimizer, fused_optimizer=fused, lr=1e-3)
        trainer(tmp_path, gradient_clip_val=0.1).fit(model, digits())
        assert model.trainer.optimizers[0].param_groups[-1]["fused"] is fused
        return model

    fused, plain = trained(True), trained(False)
    torch.testing.assert_close(fused.state_dict(), plain.state_dict(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("algorithm", ["norm", "value"])
def test_a_fused_optimizer_with_mixed_precision_clips(algorithm, optimizer, tmp_path):
    def largest(model: LitViT) -> Tensor:
        norm_type = 2.0 if algorithm == "norm" else math.inf
        return torch.nn.utils.get_total_norm([p.grad for p in model.parameters()], norm_type)

    before, model = [], vit(optimizer=optimizer)
    # Lightning clips after this hook.
    model.on_before_optimizer_step = lambda optimizer: before.append(largest(model))
    clip = {"gradient_clip_val": 1e-3, "gradient_clip_algorithm": algorithm}
    run = trainer(tmp_path, max_steps=3, precision="bf16-mixed", **clip)
    run.fit(model, digits())
    assert run.optimizers[0].param_groups[-1]["fused"]
    assert min(before) > 1e-2
    assert largest(model) == pytest.approx(1e-3, rel=1e-2)


def test_a_cosine_ends_with_the_run(tmp_path):
    run = trainer(tmp_path)
    run.fit(vit(), digits())
    scheduler = run.lr_scheduler_configs[0].scheduler
    assert isinstance(scheduler, CosineWarmupScheduler)
    assert scheduler.max_iters == 2 * math.ceil(211 / 32) == run.global_step
    assert scheduler.last_epoch == run.global_step  # stepped with the optimizer
    assert scheduler.get_last_lr() == [0.0, 0.0]


@pytest.mark.parametrize("warmup", [0, 5])
def test_a_constant_rate_stays_after_warmup(warmup, tmp_path):
    rates = []
    model = vit(schedule="constant", warmup=warmup, lr=0.1)
    model.on_train_batch_start = lambda batch, batch_idx: rates.append(
        model.trainer.optimizers[0].param_groups[0]["lr"]
    )
    trainer(tmp_path, max_epochs=1).fit(model, digits())
    expected = [0.1 * min(1, step / warmup if warmup else 1) for step in range(7)]
    assert rates == pytest.approx(expected)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_checkpoint_is_plain_and_resuming_gives_the_same_weights(optimizer, tmp_path):
    def run(epochs: int, **kwargs) -> tuple[Trainer, LitViT]:
        torch.manual_seed(1)
        model = vit(max_iters=21, optimizer=optimizer, stem="pooled")
        made = trainer(tmp_path, max_epochs=epochs)
        made.fit(model, digits(augment=MIXED), **kwargs)
        return made, model

    straight = run(3)[1]
    path = tmp_path / "a.ckpt"
    run(2)[0].save_checkpoint(path)
    kept = torch.load(path, weights_only=True)
    assert kept["hyper_parameters"]["embed_dim"] == 16
    assert kept["datamodule_hyper_parameters"]["augment"]["cutmix"] == 1.0
    assert "dir" not in kept["datamodule_hyper_parameters"]
    assert set(kept["DigitsDataModule"]) == {"mean", "std"}
    resumed = run(3, ckpt_path=path, weights_only=True)[1]
    torch.testing.assert_close(resumed.state_dict(), straight.state_dict(), rtol=0, atol=0)


def test_a_constant_schedule_is_in_the_checkpoint(tmp_path):
    run = trainer(tmp_path, max_epochs=1)
    run.fit(vit(schedule="constant"), digits())
    run.save_checkpoint(tmp_path / "a.ckpt")
    (kept,) = torch.load(tmp_path / "a.ckpt", weights_only=True)["lr_schedulers"]
    assert kept["last_epoch"] == 7


# About callbacks that only fit needs.
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`")
def test_lightnings_weight_averaging(tmp_path):
    data, model = digits(), vit(schedule="constant")
    callbacks = [
        EMAWeightAveraging(decay=0.8),
        ModelCheckpoint(tmp_path, "a", save_on_train_epoch_end=True),  # as the commands do
    ]
    run = trainer(tmp_path, max_epochs=3, callbacks=callbacks, enable_checkpointing=True)
    run.fit(model, data)
    kept = torch.load(tmp_path / "a.ckpt", weights_only=True)
    averaged, raw = kept["state_dict"], kept["current_model_state"]
    assert averaged.keys() == model.state_dict().keys()
    assert not torch.equal(averaged["network.head.weight"], raw["network.head.weight"])

    loaded = vit(schedule="constant")
    (result,) = trainer(tmp_path).validate(
        loaded, data, ckpt_path=tmp_path / "a.ckpt", weights_only=True, verbose=False
    )
    torch.testing.assert_close(loaded.state_dict(), dict(averaged), rtol=0, atol=0)
    assert result["val/loss"] == pytest.approx(run.callback_metrics["val/loss"].item(), abs=1e-5)

    more = trainer(tmp_path, max_epochs=4, callbacks=[EMAWeightAveraging(decay=0.8)])
    more.fit(vit(schedule="constant"), data, ckpt_path=tmp_path / "a.ckpt", weights_only=True)
    assert more.global_step == 28


def test_attention_maps_are_those_of_the_network():
    maps = vit(num_layers=2, num_heads=4).get_attention_maps(some_images(3))
    assert [tuple(layer.shape) for layer in maps] == [(3, 4, 16, 16)] * 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": 0.0},
        {"muon_lr": -0.1},
        {"optimizer": "sgd"},
        {"warmup": -1},
        {"schedule": "step"},
        {"weight_decay": -0.1},
        {"patch_size": 3},
    ],
)
def test_bad_arguments(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        vit(**wrong)
