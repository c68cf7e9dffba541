"""The training commands end to end, on sizes that take a second."""

import csv
import re
from pathlib import Path

import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vit_lightning.cli.recipes import recipe_names
from vit_lightning.cli.reverse import launch, main

SMALL = [
    "--data.num_categories=5",
    "--data.seq_len=7",
    "--data.train_size=128",
    "--data.val_size=32",
    "--data.test_size=48",
    "--data.batch_size=32",
    "--trainer.max_epochs=2",
    "--trainer.log_every_n_steps=1",
]
RUN = Path("lightning_logs/reverse/version_0")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def trained(capsys) -> str:
    assert main(["fit", *SMALL]) == 0
    return capsys.readouterr().out


def test_fit_leaves_everything_in_the_run_folder_and_says_so(trained):
    for name in ("checkpoints/best.ckpt", "checkpoints/last.ckpt", "attention.png", "config.yaml"):
        assert (RUN / name).is_file()
    assert re.search(
        r"after 2 epochs, 8 steps:\nval/acc +\d+\.\d\d %\nval/loss +\d+\.\d+\n", trained
    )
    assert re.search(r"best val/loss +\d+\.\d+", trained)
    for line in (
        f"run      {RUN}",
        "watch    tensorboard --logdir lightning_logs",
        "resume   vit-lightning reverse fit --config reverse --ckpt_path last",
        "test     vit-lightning reverse test --config reverse --ckpt_path best",
    ):
        assert line in trained
    events = EventAccumulator(str(RUN))
    events.Reload()
    scalars = set(events.Tags()["scalars"])
    assert {"train/loss_epoch", "train/acc", "val/loss", "val/acc", "lr"} <= scalars


def test_last_is_the_latest_and_resuming_goes_on_in_the_same_run(trained, capsys):
    last = torch.load(RUN / "checkpoints/last.ckpt", weights_only=True)
    assert (last["run"]["epochs"], last["global_step"]) == (2, 8)
    assert main(["fit", "--ckpt_path", "last", "--trainer.max_epochs=3"]) == 0
    last = torch.load(RUN / "checkpoints/last.ckpt", weights_only=True)
    assert (last["run"]["epochs"], last["global_step"]) == (3, 12)
    assert [p.name for p in Path("lightning_logs/reverse").iterdir()] == ["version_0"]
    output = capsys.readouterr().out
    # The small sizes came as flags; resuming takes them from the checkpoint and says so.
    assert "note: data.seq_len is 16 here but 7 in the checkpoint, which holds" in output


def test_resumed_for_longer_it_really_trains(trained, capsys):
    before = torch.load(RUN / "checkpoints/last.ckpt", weights_only=True)
    assert before["lr_schedulers"][0]["_last_lr"] == [0.0]
    assert main(["fit", "--ckpt_path", "last", "--trainer.max_epochs=4"]) == 0
    after = torch.load(RUN / "checkpoints/last.ckpt", weights_only=True)
    for name, weight in before["state_dict"].items():
        if name.endswith("weight"):
            assert not torch.equal(weight, after["state_dict"][name])
    assert after["lr_schedulers"][0]["_last_lr"] == [0.0]


def test_resuming_goes_on_with_the_trainer_settings_of_the_run(capsys):
    flags = ["--trainer.gradient_clip_val=0.5", "--trainer.accumulate_grad_batches=2"]
    assert main(["fit", *SMALL, *flags, "--trainer.precision=bf16-mixed"]) == 0
    capsys.readouterr()
    more = ["--trainer.max_epochs=3", "--trainer.accumulate_grad_batches=4"]
    trainer = launch(["fit", "--ckpt_path=last", *more]).trainer
    assert trainer.max_epochs == 3
    assert trainer.gradient_clip_val == 0.5
    assert trainer.precision == "bf16-mixed"
    assert trainer.accumulate_grad_batches == 4
    said = capsys.readouterr().out
    assert "note: trainer.accumulate_grad_batches was 2 and is 4 from here on" in said
    assert launch(["test"]).trainer.precision == "bf16-mixed"


def test_the_precision_that_was_picked_is_recorded(trained):
    config = yaml.safe_load((RUN / "config.yaml").read_text())
    assert config["trainer"]["precision"] == "32-true"


@pytest.mark.parametrize("switch", ["logger", "enable_progress_bar", "enable_checkpointing"])
def test_what_can_be_switched_off(switch):
    assert main(["fit", *SMALL, f"--trainer.{switch}=false"]) == 0
    assert (RUN / "checkpoints/last.ckpt").is_file() == (switch != "enable_checkpointing")
    assert bool(list(RUN.glob("events.*"))) == (switch != "logger")


def test_an_absolute_path_goes_on_in_the_same_run(trained):
    path = (RUN / "checkpoints/last.ckpt").resolve()
    assert main(["fit", f"--ckpt_path={path}", "--trainer.max_epochs=3"]) == 0
    assert [p.name for p in Path("lightning_logs/reverse").iterdir()] == ["version_0"]


def test_a_flag_that_contradicts_the_checkpoint_is_named_with_both_values(trained, capsys):
    for flag, text in {
        "--model.lr=0.1": "model.lr is 0.1 here but 0.0005 in the checkpoint",
        "--data.batch_size=16": "data.batch_size is 16 here but 32 in the checkpoint",
        "--data.init_args.seed=3": "data.seed is 3 here but 0 in the checkpoint",
    }.items():
        assert main(["fit", flag, "--ckpt_path=last"]) == 2
        assert text in capsys.readouterr().err
    same = ["--data.batch_size=32", "--trainer.max_epochs=2"]
    assert main(["fit", *same, "--ckpt_path=last"]) == 0  # no quarrel
    assert "raise --trainer.max_epochs" in capsys.readouterr().out


def test_validate_test_and_predict_use_the_best_checkpoint(trained, capsys):
    assert main(["validate"]) == 0
    assert main(["test"]) == 0
    output = capsys.readouterr().out
    assert output.count("checkpoints/best.ckpt") == 2
    assert re.search(r"test/acc +\d+\.\d\d %", output)
    assert main(["predict", "--ckpt_path=last"]) == 0
    with (RUN / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 48
    assert rows[0]["label"].split() == rows[0]["sequence"].split()[::-1]
    assert len(rows[0]["prediction"].split()) == 7


def test_a_recipe_of_ones_own(capsys):
    recipe = {
        "data": {"class_path": "ReverseDataModule", "init_args": {"train_size": 64}},
        "model": {"model_dim": 8, "num_heads": 2, "num_layers": 1},
        "trainer": {"max_epochs": 1, "limit_train_batches": 1, "log_every_n_steps": 1},
    }
    Path("mine.yaml").write_text(yaml.safe_dump(recipe))
    assert main(["fit", "-c", "mine.yaml"]) == 0
    assert Path("lightning_logs/mine/version_0/checkpoints/last.ckpt").is_file()
    assert "fit --config mine.yaml --ckpt_path last" in capsys.readouterr().out


@pytest.mark.parametrize("name", recipe_names("reverse"))
def test_every_recipe_runs(name):
    cli = launch(["fit", "--config", name, "--trainer.fast_dev_run=True"])
    assert cli.trainer.global_step == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "--config", "nope"], "no recipe or file 'nope'; the recipes are: "),
        (["fit", "--config"], "--config needs"),
        (["fit", "--config", "digits"], "the recipe 'digits' is for `vit-lightning vit`"),
        (["fit", "--data.batch_size", "x"], "Expected a <class 'int'>. Got value: x"),
        (["fit", "--model.num_heads", "3"], "embed_dim must be divisible by num_heads"),
        (["fit", "--model.lrr", "3"], "did you mean --model.lr"),
        (["fit", "--model.lr", "fast"], "model.lr"),
        (["fit", "--model.max_len", "10"], "max_len is 10"),
        (["fit", "--bogus"], "unrecognized arguments: --bogus"),
        (["fit", "--data.seq_len", "-4"], "seq_len must be at least 1, got -4"),
        (["fit", "--trainer.max_epochs", "-3"], "max_epochs"),
        (["fit", "--trainer.devices", "2"], "devices must be 1"),
        (["fit", "--config=sum", "--model.pooling=null"], "model.pooling must be set"),
        (["fit", "--config=majority", "--model.pooling=null"], "model.pooling must be set"),
        (["fit", "--model.pooling=mean"], "model.pooling must be set"),
        (["fit", "--ckpt_path", "nothere.ckpt"], "no checkpoint 'nothere.ckpt'"),
        (["fit", "--ckpt_path", "last"], "no run of 'reverse'"),
        (["test"], "no run of 'reverse'"),
        (["frobnicate"], "frobnicate"),
        ([], "fit"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, message, capsys):
    assert main(arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    said = [i for i, line in enumerate(lines) if "error: " in line]
    assert len(said) == 1
    assert message in lines[said[0]]
    # Nothing follows but what is left of a progress bar.
    assert all("it/s" in line or not line.strip() for line in lines[said[0] + 1 :])


def test_a_checkpoint_that_does_not_fit_the_data_is_refused(trained, capsys):
    path = str(RUN / "checkpoints/best.ckpt")
    assert main(["test", "--config=palindrome", f"--ckpt_path={path}"]) == 2
    said = f"error: the model of {path} has num_classes=5, but the data here need num_classes=1\n"
    assert capsys.readouterr().err == said


def test_a_checkpoint_that_was_moved_keeps_its_predictions_beside_it(trained, capsys):
    Path("kept").mkdir()
    (RUN / "checkpoints/best.ckpt").rename("kept/mine.ckpt")
    assert main(["predict", "--ckpt_path=kept/mine.ckpt"]) == 0
    assert Path("kept/predictions.csv").is_file()


def test_the_one_before_a_damaged_checkpoint_is_used_and_nothing_is_lost(trained, capsys):
    path = RUN / "checkpoints/last.ckpt"
    damaged = path.read_bytes()[:5000]
    path.write_bytes(damaged)
    assert main(["fit", "--ckpt_path", "last"]) == 0
    said = capsys.readouterr().err
    assert f"note: {path} is cut short or not a checkpoint of this suite; trying the one" in said
    assert (RUN / "checkpoints/last.ckpt.damaged").read_bytes() == damaged
    last = torch.load(path, weights_only=True)
    assert (last["run"]["epochs"], last["global_step"]) == (2, 8)
