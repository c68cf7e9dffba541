"""Two hundred damaged, foreign and hostile checkpoints: none loads, none runs code."""

import copy
import io
import os
import pickle
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from vit_lightning.callbacks.checkpoint_file import seal
from vit_lightning.cli.reverse import main

FIT = ["fit", "--data.train_size=96", "--data.val_size=16", "--trainer.max_epochs=2"]
FIT += ["--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false"]
RUN = Path("lightning_logs/reverse/version_0/checkpoints")
MARKER = "executed"


class Hostile:
    """Unpickling it makes a file."""

    def __init__(self, call: object = os.system, argument: str = f"touch {MARKER}") -> None:
        self.how = (call, (argument,))

    def __reduce__(self) -> object:
        return self.how


def sealed(content: object, **how: object) -> bytes:
    """Save with a valid checksum, as somebody could who means harm."""
    buffer = io.BytesIO()
    torch.save(content, buffer, **how)
    return b"".join(seal(buffer.getvalue()))


def truncated(good: bytes) -> Iterator[bytes]:
    draw = random.Random(0)
    for length in (0, 1, 4, 22, 100, len(good) - 1, len(good) - 64, len(good) - 85):
        yield good[:length]
    for _ in range(42):
        yield good[: draw.randrange(len(good))]


def flipped(good: bytes) -> Iterator[bytes]:
    draw = random.Random(1)
    for _ in range(60):
        content = bytearray(good)
        content[draw.randrange(len(good))] ^= 1 << draw.randrange(8)
        yield bytes(content)


def no_checkpoint(good: bytes) -> Iterator[bytes]:
    yield b"hello\n"
    yield b"\x89PNG\r\n\x1a\n" + bytes(1000)
    yield random.Random(2).randbytes(5000)
    yield bytes(100_000)
    yield good + b"\0"
    yield b"\0" + good
    yield good + good[:1000]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "not torch's")
    yield archive.getvalue()
    yield b"".join(seal(archive.getvalue()))
    yield b"".join(seal(b"no archive at all"))


def wrong_type(good: bytes) -> Iterator[bytes]:
    contents = [None, 3, "text", [1, 2], (1,), torch.zeros(3), {}, {"state_dict": {}}, {"run": {}}]
    for content in [*contents, {1: 2}, {"hyper_parameters": {"lr": 0.1}}]:
        yield sealed(content)
    checkpoint = torch.load(io.BytesIO(good), weights_only=True)
    yield sealed(checkpoint["state_dict"])
    yield sealed([checkpoint])


def altered(good: bytes) -> Iterator[bytes]:
    """Take a part away or exchange it, with a checksum that fits."""
    checkpoint = torch.load(io.BytesIO(good), weights_only=True)
    needed = ("hyper_parameters", "datamodule_hyper_parameters", "state_dict", "optimizer_states")
    for key in (*needed, "lr_schedulers", "loops", "callbacks", "run", "global_step"):
        yield sealed({k: v for k, v in checkpoint.items() if k != key})
        yield sealed(checkpoint | {key: None})
        yield sealed(checkpoint | {key: "text"})
    for path, value in {
        ("hyper_parameters", "model_dim"): 64,
        ("hyper_parameters", "lr"): "fast",
        ("hyper_parameters", "num_heads"): 0,
        ("datamodule_hyper_parameters", "batch_size"): None,
        ("datamodule_hyper_parameters", "num_categories"): 7,
        ("optimizer_states", 0): {},
        ("lr_schedulers", 0): None,
        ("loops", "fit_loop"): {"epoch_progress": 3},
        ("callbacks", "RunCheckpoint"): [],
        ("run", "random"): {"torch": torch.zeros(3)},
        ("run", "metrics"): 5,
        ("run", "events"): [1],
        ("run", "epochs"): "many",
    }.items():
        changed = copy.deepcopy(checkpoint)
        changed[path[0]][path[1]] = value
        yield sealed(changed)
    for change in (lambda w: w[:1], lambda w: w[None], lambda w: w.numpy().tolist()):
        changed = copy.deepcopy(checkpoint)
        name = next(iter(changed["state_dict"]))
        changed["state_dict"][name] = change(changed["state_dict"][name])
        yield sealed(changed)


def hostile(good: bytes) -> Iterator[bytes]:
    checkpoint = torch.load(io.BytesIO(good), weights_only=True)
    python = f"open({MARKER!r}, 'w')"
    for bad in (Hostile(), Hostile(eval, python), Hostile(exec, python)):
        yield pickle.dumps(bad)
        yield pickle.dumps(checkpoint | {"state_dict": bad})
        yield sealed(bad)
        buffer = io.BytesIO()
        torch.save(checkpoint | {"run": bad}, buffer, _use_new_zipfile_serialization=False)
        yield buffer.getvalue()
        yield b"".join(seal(buffer.getvalue()))
        for key in ("hyper_parameters", "state_dict", "loops", "callbacks", "run"):
            yield sealed(checkpoint | {key: bad})
        yield sealed(checkpoint | {"unheard_of": bad})


KINDS = [truncated, flipped, no_checkpoint, wrong_type, altered, hostile]


@pytest.fixture
def good(tmp_path, monkeypatch) -> bytes:
    monkeypatch.chdir(tmp_path)
    assert main([*FIT]) == 0
    return (RUN / "last.ckpt").read_bytes()


def refuse(content: bytes, capsys) -> None:
    """Give the file to `fit`, which must say one sentence and leave everything as it was."""
    Path("bad.ckpt").write_bytes(content)
    capsys.readouterr()
    assert main(["fit", "--ckpt_path=bad.ckpt", "--trainer.max_epochs=3"]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1, said
    assert said[0].startswith("error: ")
    assert not Path(MARKER).exists()
    assert [path.name for path in RUN.parent.parent.iterdir()] == ["version_0"]


def test_there_are_two_hundred(good):
    assert sum(len(list(kind(good))) for kind in KINDS) >= 200


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_some_of_each_kind_are_refused(kind, good, capsys):
    for content in list(kind(good))[::8]:
        refuse(content, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_all_of_them_are_refused(kind, good, capsys):
    for content in kind(good):
        refuse(content, capsys)


def test_a_run_falls_back_on_the_one_before(good, capsys):
    for content in (good[:-7], b"", pickle.dumps(Hostile())):
        (RUN / "last.ckpt").write_bytes(content)
        assert main(["fit", "--ckpt_path=last", "--trainer.max_epochs=2"]) == 0
        assert "last.ckpt is cut short" in capsys.readouterr().err
        assert torch.load(RUN / "last.ckpt", weights_only=True)["run"]["epochs"] == 2
    assert not Path(MARKER).exists()
