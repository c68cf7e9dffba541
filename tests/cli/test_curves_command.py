import time

import pytest
from torch.utils.tensorboard import SummaryWriter

from vit_lightning.cli.curves import main
from vit_lightning.cli.history import find_run, read_history

STEPS = 7  # in an epoch


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "lightning_logs"


def log_run(folder, epochs, *, add=0.0, score="acc", stop_at=None):
    """Log as Lightning does: the epoch beside every metric, val before train, the last step each.

    Args:
        folder: of the run.
        epochs: which epochs, counted from 0.
        add: to every value.
        score: the name of the metric.
        stop_at: step of a further epoch at which the run is killed.
    """
    with SummaryWriter(folder) as writer:

        def log(step, epoch, **metrics):
            for name, value in metrics.items():
                writer.add_scalar(name.replace("__", "/"), value + add, step)
            writer.add_scalar("epoch", epoch, step)

        for epoch in epochs:
            first = epoch * STEPS
            log(first + 2, epoch, train__loss_step=9.0)
            last = first + STEPS - 1
            log(last, epoch, val__loss=2.0 / (epoch + 1), **{f"val__{score}": epoch / 100})
            log(last, epoch, train__loss_epoch=1.0 / (epoch + 1), **{f"train__{score}": 0.5})
        if stop_at is not None:
            log(stop_at, stop_at // STEPS, train__loss_step=9.0)
    return folder


def test_epochs_count_from_one_and_steps_stay_out(logs):
    history = read_history(log_run(logs / "digits/version_0", range(3)))
    assert list(history) == ["train/loss", "train/acc", "val/loss", "val/acc"]
    assert [epoch for epoch, _ in history["train/loss"]] == [1, 2, 3]
    assert [v for _, v in history["train/loss"]] == pytest.approx([1, 1 / 2, 1 / 3])
    assert [v for _, v in history["val/acc"]] == pytest.approx([0, 0.01, 0.02])


def test_more_epochs_than_tensorboard_keeps_by_default(logs):
    folder = logs / "long/version_0"
    with SummaryWriter(folder) as writer:
        for epoch in range(10_007):
            writer.add_scalar("val/loss", epoch, epoch)
            writer.add_scalar("epoch", epoch, epoch)
    assert read_history(folder)["val/loss"] == [(e + 1, float(e)) for e in range(10_007)]


def test_a_resumed_run_is_one_curve(logs):
    folder = logs / "digits/version_0"
    log_run(folder, range(2), stop_at=17)  # killed in its third epoch
    time.sleep(0.01)
    log_run(folder, range(2, 5), add=0.25)
    assert len(list(folder.iterdir())) == 2
    values = read_history(folder)["val/loss"]
    assert [epoch for epoch, _ in values] == [1, 2, 3, 4, 5]
    assert [v for _, v in values] == pytest.approx([2, 1, 2 / 3 + 0.25, 2 / 4 + 0.25, 2 / 5 + 0.25])


def test_a_run_that_went_back_forgets_what_came_after(logs):
    folder = logs / "digits/version_0"
    log_run(folder, range(6))
    time.sleep(0.01)
    log_run(folder, range(2, 4), add=0.25)
    values = read_history(folder)["val/loss"]
    assert [v for _, v in values] == pytest.approx([2, 1, 2 / 3 + 0.25, 2 / 4 + 0.25])


def test_files_cut_short_or_empty_do_no_harm(logs, caplog):
    folder = log_run(logs / "digits/version_0", range(3))
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    (folder / "events.out.tfevents.1.empty").touch()
    (folder / "events.out.tfevents.2.strange").write_bytes(b"no such format" * 9)
    assert len(read_history(folder)["val/loss"]) == 3
    assert not caplog.records


def test_the_last_of_several_validations_in_an_epoch_counts(logs):
    folder = logs / "a/version_0"
    with SummaryWriter(folder) as writer:
        for step, value in ((3, 0.5), (6, 0.25), (9, 0.125)):
            writer.add_scalar("val/acc", value, step)
            writer.add_scalar("epoch", step // 7, step)
    assert read_history(folder)["val/acc"] == [(1, 0.25), (2, 0.125)]


def test_runs_are_found_by_folder_or_as_the_newest_of_a_recipe(logs):
    for version in (0, 9, 10):
        log_run(logs / f"digits/version_{version}", range(1))
    (logs / "digits/version_11").mkdir()  # died before it logged
    assert find_run("lightning_logs/digits/version_9").name == "version_9"
    assert find_run("digits").name == "version_10"
    assert find_run("lightning_logs/digits/").name == "version_10"


def test_the_picture_goes_into_the_run_and_the_last_values_are_told(logs, capsys):
    folder = log_run(logs / "digits/version_3", range(11))
    assert main(["digits", "--epochs", "5", "10"]) == 0
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.splitlines() == [
        "digits/version_3 after 11 epochs: train/loss 0.0909, train/acc 50.00 %, "
        "val/loss 0.1818, val/acc 10.00 %",
        "curves   lightning_logs/digits/version_3/curves.png",
    ]


def test_several_runs_in_one_picture(logs, tmp_path, capsys):
    log_run(logs / "sum/version_0", range(2), score="r2")
    log_run(tmp_path / "elsewhere/sum/version_0", range(3), score="r2")
    runs = ["sum", "elsewhere/sum/version_0", "lightning_logs/sum/version_0"]
    assert main([*runs, "--output", "out/both.svg"]) == 0
    shown = capsys.readouterr().out.splitlines()
    # Each once, and by its path, since the short names are the same.
    assert shown[0].startswith("lightning_logs/sum/version_0 after 2 epochs: ")
    assert shown[1].startswith("elsewhere/sum/version_0 after 3 epochs: ")
    assert "val/r2 0.0200" in shown[1]
    assert shown[2:] == ["curves   out/both.svg"]
    assert "<svg" in (tmp_path / "out/both.svg").read_text()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nothing"], "there is no run folder 'nothing', nor a recipe"),
        (["lightning_logs"], "lightning_logs has no TensorBoard files of a run"),
        (["begun"], "version_0 has no finished epoch yet"),
        (["digits", "--epochs", "10", "50"], "horizon of 10 epochs is beyond the 3 that digits/"),
        (["digits", "--epochs", "0"], "at least 1 epoch, got 0"),
        (["digits", "--output", "page.xyz"], "must end in .png, .svg or .pdf"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(argv, message, logs, capsys):
    log_run(logs / "digits/version_0", range(3))
    log_run(logs / "begun/version_0", [], stop_at=2)
    assert main(argv) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert message in shown.err
    assert shown.out == ""
    with pytest.raises(ValueError, match=r"\w"):
        main([*argv, "--debug"])


def test_help(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "usage: vit-lightning curves" in capsys.readouterr().out
