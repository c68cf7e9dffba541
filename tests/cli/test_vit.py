"""The vision command end to end: on the embedded digits, and on made-up pictures for the rest."""

import csv
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vit_lightning.cli import vit_training
from vit_lightning.cli.recipes import recipe_names
from vit_lightning.cli.reverse import main as reverse
from vit_lightning.cli.vit import launch, main
from vit_lightning.data import catalog, image_modules
from vit_lightning.data.store import ImageSet

TINY = [
    "--model.embed_dim=8",
    "--model.num_layers=1",
    "--model.num_heads=2",
    "--model.dim_feedforward=16",
    "--data.train_size=128",
    "--data.val_size=37",
    "--data.batch_size=32",
    "--trainer.max_epochs=2",
    "--trainer.log_every_n_steps=1",
]
RUN = Path("lightning_logs/digits/version_0")
BEST = RUN / "checkpoints/best.ckpt"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch, data_folder):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("trained")


@pytest.fixture
def trained(kept, capsys) -> str:
    """A finished run in the current folder, made once; what it said."""
    if not (kept / "said").exists():
        assert main(["fit", *TINY]) == 0
        shutil.copytree("lightning_logs", kept / "lightning_logs")
        (kept / "said").write_text(capsys.readouterr().out)
    else:
        shutil.copytree(kept / "lightning_logs", "lightning_logs")
    return (kept / "said").read_text()


@pytest.fixture
def made_up(monkeypatch):
    """Forty training and 11 test pictures of noise, for every set, in its real shape."""

    def fetch(name, dir, verify=True):
        spec, draw = catalog.CATALOG[name], np.random.default_rng(0)
        train, test = (
            draw.integers(0, 256, (count, *spec.shape), dtype=np.uint8) for count in (40, 11)
        )
        labels = np.arange(40) % len(spec.class_names)
        return ImageSet(name, train, labels, test, labels[:11], spec.class_names, "a test")

    monkeypatch.setattr(image_modules, "fetch", fetch)


def mistake(arguments: list[str], capsys, command=main) -> str:
    """Run a command that must fail in one sentence; return the sentence."""
    assert command(arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0].removeprefix("error: ")


def picture(path: str, size: tuple[int, int] = (19, 11), mode: str = "RGB") -> str:
    draw = np.random.default_rng(len(path))
    pixels = draw.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if mode == "I;16":
        Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(path)
    else:
        Image.fromarray(pixels).convert(mode).save(path)
    return path


# Training.


def test_fit_leaves_everything_in_the_run_folder_and_says_so(trained):
    for name in ("checkpoints/best.ckpt", "checkpoints/last.ckpt", "attention.png", "config.yaml"):
        assert (RUN / name).is_file()
    assert re.search(r"after 2 epochs, 8 steps:\nval/acc +\d+\.\d\d %\nval/acc_top5 ", trained)
    assert re.search(r"^best val/acc +\d+\.\d\d %$", trained, re.MULTILINE)
    assert f"picture  {RUN}/attention.png" in trained
    assert "test     vit-lightning vit test --config digits --ckpt_path best" in trained
    events = EventAccumulator(str(RUN))
    events.Reload()
    scalars = set(events.Tags()["scalars"])
    assert {"train/loss_epoch", "train/acc", "val/loss", "val/acc", "val/acc_top5"} <= scalars
    assert len(events.Images("attention")) == 2


def test_the_models_sizes_follow_from_the_data(trained):
    settings = torch.load(BEST, weights_only=True)["hyper_parameters"]
    sizes = {name: settings[name] for name in ("image_size", "in_channels", "num_classes")}
    assert sizes == {"image_size": 8, "in_channels": 1, "num_classes": 10}


def test_resuming_goes_on_in_the_same_run_with_the_stored_settings(trained, capsys):
    assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=3"]) == 0
    output = capsys.readouterr().out
    assert "note: model.embed_dim is 64 here but 8 in the checkpoint, which holds" in output
    last = torch.load(RUN / "checkpoints/last.ckpt", weights_only=True)
    assert (last["run"]["epochs"], last["global_step"]) == (3, 12)
    assert [path.name for path in RUN.parent.iterdir()] == ["version_0"]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--data.augment.flip=true", "data.augment.flip is True here but False in the checkpoint"),
        ('--data.augment={"flip": true}', "data.augment.flip is True here but False in the"),
        ("--data.init_args.augment.crop_padding=2", "data.augment.crop_padding is 2 here but 1 in"),
        ("--data.seed=5", "data.seed is 5 here but 0 in the checkpoint"),
        ("--model.embed_dim=16", "model.embed_dim is 16 here but 8 in the checkpoint"),
    ],
)
def test_a_flag_that_contradicts_the_checkpoint_is_named(flag, message, trained, capsys):
    said = mistake(["fit", flag, "--ckpt_path=last"], capsys)
    assert said.startswith(message)
    assert f"leave the flag out to go on with {RUN}/checkpoints/last.ckpt" in said


def test_augmentation_of_the_run_survives_resuming(capsys):
    assert main(["fit", *TINY, "--data.augment.cutmix=1", "--data.augment.erasing=0.5"]) == 0
    assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=3"]) == 0
    kept = torch.load(RUN / "checkpoints/last.ckpt", weights_only=True)
    augment = kept["datamodule_hyper_parameters"]["augment"]
    assert (augment["cutmix"], augment["erasing"], augment["crop_padding"]) == (1.0, 0.5, 1)


@pytest.mark.parametrize("name", recipe_names("vit"))
def test_every_recipe_runs(name, made_up):
    few = ["--data.train_size=23", "--data.val_size=7", "--data.batch_size=5"]
    cli = launch(["fit", "--config", name, *few, "--trainer.fast_dev_run=True"])
    assert cli.trainer.global_step == 1


@pytest.mark.parametrize("name", recipe_names("vit"))
def test_every_recipe_fits_the_real_sizes_of_its_set(name, monkeypatch):
    monkeypatch.setattr(image_modules, "fetch", None)  # nothing may be fetched
    monkeypatch.setattr(vit_training.VisionCLI, "_run_subcommand", lambda self, subcommand: None)
    cli = launch(["fit", "--config", name])
    data, spec = cli.datamodule, catalog.CATALOG[cli.datamodule.dataset]
    assert 0.5 * spec.num_train < data.train_size + data.val_size <= spec.num_train
    logits = cli.model.eval()(torch.zeros(2, *spec.shape))
    assert logits.shape == (2, len(spec.class_names))


# Measuring.


def test_validate_and_test_use_the_best_checkpoint(trained, capsys):
    assert main(["validate"]) == 0
    assert main(["test"]) == 0
    output = capsys.readouterr().out
    assert output.count(f"checkpoint    {BEST}") == 2
    for name in ("val/acc", "val/acc_top5", "test/acc", "test/acc_top5"):
        assert re.search(rf"^{name} +\d+\.\d\d %$", output, re.MULTILINE)
    assert f"confusion     {RUN}/confusion.png" in output
    assert (RUN / "confusion.png").read_bytes().startswith(b"\x89PNG")


def test_the_figures_are_those_of_the_whole_test_set(trained, capsys):
    cli = launch(["test"])
    counts = cli.model.confusion.compute()
    assert counts.sum() == 359
    shown = re.search(r"test/acc +([\d.]+) %", capsys.readouterr().out)
    assert float(shown[1]) == pytest.approx(100 * counts.trace().item() / 359, abs=0.006)


# Predicting.


def test_predict_takes_files_and_folders_of_every_kind(trained, capsys):
    files = [
        picture("mine/3/a.png"),
        picture("mine/7/b.jpg", (8, 8)),
        picture("mine/other/c.png", (1, 50), "L"),
        picture("mine/other/d.png", (64, 3), "RGBA"),
        picture("mine/other/e.gif", (9, 9), "P"),
        picture("mine/other/f.png", (30, 40), "I;16"),
        picture("single.bmp", (2, 2)),
    ]
    Path("mine/notes.txt").write_text("not looked at")
    assert main(["predict", "--images", "mine", "single.bmp"]) == 0
    output = capsys.readouterr().out
    assert f"predictions {RUN}/predictions.csv" in output
    assert f"sheet       {RUN}/predictions.png" in output
    with (RUN / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows] == files
    for row in rows:
        probabilities = {name: float(row[name]) for name in "0123456789"}
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-3)
        assert probabilities[row["prediction"]] == max(probabilities.values())
        assert float(row["confidence"]) == max(probabilities.values())
    with Image.open(RUN / "predictions.png") as sheet:
        assert sheet.width > 100


def test_a_picture_of_the_set_is_predicted_as_the_model_does(trained):
    cli = launch(["validate"])
    stored, _ = cli.datamodule.splits["val"]
    Image.fromarray(stored[0, 0].numpy()).save("first.png")
    expected = cli.model.eval().log_probabilities(
        cli.datamodule.on_after_batch_transfer((stored[:1], torch.zeros(1)), 0)[0]
    )
    assert main(["predict", "--images=first.png", f"--ckpt_path={BEST}", "--output=here"]) == 0
    with Path("here/predictions.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    shown = [float(row[name]) for name in "0123456789"]
    assert shown == pytest.approx(expected.exp()[0].tolist(), abs=1e-3)


def test_labels_come_from_folders_and_the_sheet_shows_the_first(trained, monkeypatch):
    drawn = []
    original = vit_training.prediction_sheet

    def spy(images, predictions, confidences, labels, title):
        drawn.append((len(images), labels, title))
        return original(images, predictions, confidences, labels, title)

    monkeypatch.setattr(vit_training, "prediction_sheet", spy)
    monkeypatch.setattr(vit_training, "SHEET", 3)
    for name in ("3/a.png", "3/b.png", "cats/c.png", "d.png"):
        picture(f"mine/{name}")
    assert main(["predict", "--images", "mine"]) == 0
    assert drawn == [(3, ["3", "3", None], "4 pictures, the first 3")]
    with (RUN / "predictions.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 4


def test_prediction_needs_no_data_set(trained, monkeypatch):
    monkeypatch.setattr(image_modules, "fetch", None)
    assert main(["predict", "--images", picture("a.png")]) == 0


def test_a_checkpoint_that_was_moved_has_its_results_beside_it(trained):
    Path("kept").mkdir()
    BEST.rename("kept/mine.ckpt")
    picture("a.png")
    assert main(["predict", "--images=a.png", "--ckpt_path=kept/mine.ckpt"]) == 0
    assert main(["test", "--ckpt_path=kept/mine.ckpt"]) == 0
    names = sorted(path.name for path in Path("kept").iterdir())
    assert names == ["confusion.png", "mine.ckpt", "predictions.csv", "predictions.png"]


# Mistakes.


def test_what_cannot_be_predicted_is_named(trained, capsys):
    Path("notes.txt").write_text("hello")
    whole = Path(picture("whole.png", (50, 50))).read_bytes()
    Path("cut.png").write_bytes(whole[: len(whole) // 2])
    Path("empty").mkdir()
    for given, message in {
        "notes.txt": "notes.txt is not an image that can be read",
        "cut.png": "cut.png is damaged or cannot be read: ",
        "empty": "the folder empty holds no images",
        "nowhere": "there is no file or folder nowhere",
    }.items():
        assert message in mistake(["predict", "--images", "whole.png", given], capsys)
    assert not (RUN / "predictions.csv").exists()
    assert "--images needs at least one" in mistake(["predict"], capsys)
    blocked = mistake(["predict", "--images=whole.png", "--output=notes.txt"], capsys)
    assert blocked == "cannot write notes.txt/predictions.csv: File exists"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model.patch_size=3"], "patch_size must divide image_size, got patch_size=3 and"),
        (["--model.stem=conv", "--model.patch_size=1"], "patch_size must be even"),
        (["--model.num_classes=3"], "num_classes"),
        (["--model.weight_decay=-1"], "weight_decay must be at least 0, got -1"),
        (["--data.train_size=5000"], "at most the 1,438 training pictures of digits"),
        (["--data.augment.erasing=3"], "erasing must be a probability from 0 to 1, got 3"),
        (["--data.augment.policy=magic"], "policy"),
        (["--data.augment.blur=1"], "unrecognized arguments: --augment.blur=1"),
        (["--data=PetsDataModule"], "PetsDataModule"),
        (["--data.dir=notes.txt"], "cannot be kept in"),
        (["--trainer.max_epochs=soon"], "trainer.max_epochs"),
        (["--config=reverse"], "the recipe 'reverse' is for `vit-lightning reverse`"),
        (["--config=nope"], "no recipe or file 'nope'; the recipes are: "),
    ],
)
def test_bad_settings(arguments, message, capsys):
    Path("notes.txt").write_text("hello")
    assert message in mistake(["fit", *arguments], capsys)


def test_a_set_that_cannot_be_had(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("VIT_LIGHTNING_DATA", str(tmp_path))
    nowhere = (catalog.MNIST.sources[0],)
    spec = vars(catalog.MNIST) | {"sources": nowhere}
    monkeypatch.setitem(catalog.CATALOG, "mnist", catalog.Spec(**spec))
    assert main(["fit", "--data=MNISTDataModule", "--model.patch_size=14"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: MNIST could not be had from any source. Tried, in this order:\n")
    assert "\n  - " in said  # laid out as a list


def test_the_checkpoint_of_another_kind_of_model(trained, capsys):
    sizes = ["--data.train_size=32", "--data.val_size=16", "--trainer.max_epochs=1"]
    assert reverse(["fit", *sizes, "--trainer.log_every_n_steps=1"]) == 0
    capsys.readouterr()
    other = "lightning_logs/reverse/version_0/checkpoints/best.ckpt"
    for arguments in (["test"], ["fit"], ["predict", "--images", picture("a.png")]):
        said = mistake([*arguments, "--ckpt_path", other], capsys)
        assert said == f"{other} holds another kind of model than this command trains"
    said = mistake(["test", "--ckpt_path", str(BEST)], capsys, command=reverse)
    assert said == f"{BEST} holds another kind of model than this command trains"


def test_the_checkpoint_of_another_data_set(made_up, capsys):
    few = ["--data.train_size=23", "--data.val_size=7", "--data.batch_size=32"]
    grey = ["--data=MNISTDataModule", "--model.patch_size=14"]
    assert main(["fit", *TINY, *grey, *few]) == 0
    capsys.readouterr()
    for module in ("DigitsDataModule", "FashionMNISTDataModule"):  # of another size and of the same
        assert mistake(["test", f"--data={module}", f"--ckpt_path={BEST}"], capsys) == (
            f"{BEST} was trained on MNISTDataModule, but the data here are {module}; "
            "name the recipe of its run with --config"
        )


def test_a_class_count_that_does_not_fit_the_checkpoint(trained, capsys, monkeypatch):
    spec = vars(catalog.DIGITS) | {"class_names": catalog.DIGIT_NAMES[:7]}
    monkeypatch.setitem(catalog.CATALOG, "digits", catalog.Spec(**spec))
    said = mistake(["test"], capsys)
    assert said == f"the model of {BEST} has num_classes=10, but the data here need num_classes=7"


def test_a_damaged_checkpoint(trained, capsys):
    BEST.write_bytes(BEST.read_bytes()[:5000])
    assert "best.ckpt is cut short or not a checkpoint of this suite" in mistake(["test"], capsys)
