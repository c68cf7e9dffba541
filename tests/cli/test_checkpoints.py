from pathlib import Path

import pytest
import torch

from vit_lightning.callbacks import SealedCheckpointIO
from vit_lightning.cli import checkpoints
from vit_lightning.cli.checkpoints import (
    StoredSettings,
    check_origin,
    check_sizes,
    contradictions,
    find_checkpoint,
    flat,
    read_settings,
    run_folder,
)

PATH = Path("some.ckpt")


def stored(datamodule: str | None = "CIFAR10DataModule") -> StoredSettings:
    model = {"num_classes": 10, "mean": 0.5, "lr": 0.1}
    return StoredSettings(model, {}, datamodule, 3, 30, {}, (None, None), {}, {}, {})


def sealed(content: object, path: Path) -> None:
    SealedCheckpointIO().save_checkpoint(content, path)


def test_flat_writes_dotted_names():
    nested = {"a": 1, "b": {"c": 2, "d": {"e": None}}, "f": [1, {"g": 2}], "h": {}}
    assert flat(nested) == {"a": 1, "b.c": 2, "b.d.e": None, "f": [1, {"g": 2}]}


def test_contradictions_are_told_apart_by_who_asked():
    kept = {"size": 3, "augment.flip": True, "augment.cutout": 2, "gone": 1, "same": 7}
    asked = {"size": 5, "augment.flip": False, "augment.cutout": 4, "new": 1, "same": 7}
    by_flag, by_recipe = contradictions("data", kept, asked, {"data.augment.flip"})
    assert by_flag == ["data.augment.flip is False here but True in the checkpoint"]
    assert by_recipe == [
        "data.augment.cutout is 4 here but 2 in the checkpoint",
        "data.size is 5 here but 3 in the checkpoint",
    ]


def test_a_flag_stands_for_all_that_is_inside_and_for_no_namesake():
    kept, asked = {"augment.flip": True, "augmented": 1}, {"augment.flip": False, "augmented": 2}
    by_flag, by_recipe = contradictions("data", kept, asked, {"data.augment"})
    assert [text.split()[0] for text in by_flag] == ["data.augment.flip"]
    assert [text.split()[0] for text in by_recipe] == ["data.augmented"]
    assert contradictions("model", kept, asked, {"data.augment"})[0] == []


def test_origin():
    check_origin(PATH, stored(), ["num_classes"], "CIFAR10DataModule")
    check_origin(PATH, stored(None), ["num_classes"], "CIFAR10DataModule")  # it does not say
    with pytest.raises(ValueError, match=r"some\.ckpt holds another kind of model"):
        check_origin(PATH, stored(), ["num_classes", "image_size"], "CIFAR10DataModule")
    with pytest.raises(ValueError, match=r"trained on CIFAR10DataModule.* are MNISTDataModule"):
        check_origin(PATH, stored(), ["num_classes"], "MNISTDataModule")


def test_sizes():
    check_sizes(PATH, stored(), {"num_classes": 10, "mean": 0.5000001})
    with pytest.raises(ValueError, match=r"some\.ckpt has num_classes=10, .* num_classes=7"):
        check_sizes(PATH, stored(), {"num_classes": 7})


def test_the_folder_of_a_run():
    assert run_folder(Path("logs/reverse/version_3/checkpoints/best.ckpt")) == Path(
        "logs/reverse/version_3"
    )
    assert run_folder(Path("kept/best.ckpt")) == Path("kept")
    assert run_folder(Path("best.ckpt")) == Path()


def test_the_newest_run_that_has_one_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "LOGS", tmp_path)
    for version in (2, 9, 10, 11):
        (tmp_path / f"mine/version_{version}/checkpoints").mkdir(parents=True)
    for version in (2, 10):  # in the order of numbers, not of letters
        sealed({"version": version}, tmp_path / f"mine/version_{version}/checkpoints/last.ckpt")
    path = tmp_path / "mine/version_10/checkpoints/last.ckpt"
    assert find_checkpoint("last", "mine") == path
    assert find_checkpoint(str(path), "other") == path
    with pytest.raises(ValueError, match=r"no run of 'mine' .* has a 'best' checkpoint yet"):
        find_checkpoint("best", "mine")
    with pytest.raises(ValueError, match=r"no checkpoint 'nope\.ckpt'"):
        find_checkpoint("nope.ckpt", "mine")


def test_the_newest_undamaged_one_is_found_and_the_damaged_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(checkpoints, "LOGS", tmp_path)
    folder = tmp_path / "mine/version_0/checkpoints"
    for name in ("last", "previous", "best"):
        sealed({"name": name}, folder / f"{name}.ckpt")
    for name, after in (("last", "previous"), ("previous", "best")):
        path = folder / f"{name}.ckpt"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        assert find_checkpoint("last", "mine") == folder / f"{after}.ckpt"
        assert f"note: {path} is damaged: it does not match its checksum" in capsys.readouterr().err
    (folder / "best.ckpt").write_bytes(b"")
    with pytest.raises(ValueError, match="version_0 has no undamaged checkpoint"):
        find_checkpoint("last", "mine")
    for name in ("best", str(folder / "best.ckpt")):  # no other one will do
        with pytest.raises(ValueError, match=r"best\.ckpt is cut short"):
            find_checkpoint(name, "mine")


def contents() -> dict[str, object]:
    run = {"epochs": 7, "events": {"a": 5}, "torch": "2.0", "threads": 3, "device": "cpu"}
    run |= {"settings": {"trainer": {}}}
    return {
        "hyper_parameters": {"lr": 0.1},
        "datamodule_hyper_parameters": {"seed": 3},
        "MNISTDataModule": {"mean": [0.1]},
        "state_dict": {"w": torch.zeros(2, 3)},
        "optimizer_states": [{}],
        "lr_schedulers": [{}],
        "loops": {"fit_loop": {"epoch_progress": {}}},
        "callbacks": {"RunCheckpoint": {"best_score": 0.5, "best_epoch": 6}},
        "epoch": 7,
        "global_step": 70,
        "pytorch-lightning_version": "2.6",
        "run": run,
    }


def test_settings_are_read_from_a_checkpoint(tmp_path):
    content = contents()
    sealed(content, tmp_path / "a.ckpt")
    machine = {"torch": "2.0", "threads": 3, "device": "cpu"}
    assert read_settings(tmp_path / "a.ckpt") == StoredSettings(
        {"lr": 0.1},
        {"seed": 3},
        "MNISTDataModule",
        7,
        70,
        {"w": (2, 3)},
        (0.5, 6),
        {"a": 5},
        {"trainer": {}},
        machine,
    )
    del content["MNISTDataModule"]
    sealed(content, tmp_path / "b.ckpt")
    assert read_settings(tmp_path / "b.ckpt").datamodule is None


class Stranger:
    """Not a plain type: loading it would run code."""


@pytest.mark.parametrize(
    "content",
    [
        {"epoch": 7},
        [1, 2],
        torch.zeros(3),
        contents() | {"hyper_parameters": Stranger()},
        contents() | {"hyper_parameters": [1]},
        contents() | {"state_dict": {"w": 3}},
        contents() | {"run": {"epochs": 3}},
        contents() | {"run": None},
        contents() | {"lr_schedulers": []},
        contents() | {"loops": {"fit_loop": {}}},
        contents() | {"callbacks": {}},
    ],
)
def test_what_is_no_checkpoint_of_ours_is_refused(content, tmp_path):
    torch.save(content, tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match=r"a\.ckpt is damaged or not a checkpoint"):
        read_settings(tmp_path / "a.ckpt")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04" + bytes(50)])
def test_what_is_no_torch_file_is_refused(content, tmp_path):
    (tmp_path / "a.ckpt").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.ckpt is damaged or not a checkpoint"):
        read_settings(tmp_path / "a.ckpt")
