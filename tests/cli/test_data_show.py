from pathlib import Path

import numpy as np
import pytest

from vit_lightning.cli import data_show
from vit_lightning.cli.data import main
from vit_lightning.data import catalog
from vit_lightning.data.store import ImageSet
from vit_lightning.viz import contact_sheet


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where the pictures go, and the tiny sets of 13 pictures that they show."""
    monkeypatch.chdir(tmp_path)

    def fake_fetch(name, dir):
        spec = catalog.CATALOG[name]
        draw = np.random.default_rng(0)
        images = draw.integers(0, 256, (13, *spec.shape), dtype=np.uint8)
        labels = np.array([0, 0, 0, 0, 1, 1, 1, 2, 3, 2, 1, 9, 0])
        return ImageSet(name, images, labels, images[:0], labels[:0], spec.class_names, "a test")

    monkeypatch.setattr(data_show, "fetch", fake_fetch)
    return tmp_path


@pytest.fixture
def drawn(monkeypatch):
    """What the contact sheet was asked to draw."""
    calls = []
    original = contact_sheet.contact_sheet

    def spy(images, labels, variants=None, title=None, headings=None, captions=None):
        calls.append((images, labels, variants, headings, captions))
        return original(images, labels, variants, title, headings, captions)

    monkeypatch.setattr(contact_sheet, "contact_sheet", spy)
    return calls


def test_each_kind_alone_then_all_together(folder, drawn, capsys):
    assert main(["show", "cifar10", "--count", "5", "--variants", "2"]) == 0
    assert capsys.readouterr().out == "wrote cifar10.png\n"
    assert (folder / "cifar10.png").read_bytes().startswith(b"\x89PNG")
    ((images, labels, variants, headings, captions),) = drawn
    # One of each class there is, before a second of any.
    assert labels == ["airplane", "automobile", "bird", "cat", "truck"]
    alone = ["crop", "flip", "trivialaugment", "erasing", "mixup", "cutmix"]
    assert headings == [*alone, "together 1", "together 2"]
    assert variants.shape == (8, *images.shape)
    assert not any((variant == images).all() for variant in variants)
    assert captions[0] == [""] * 5
    shares = [int(line.split(" % ")[0]) for line in captions[4][0].splitlines()]
    assert sum(shares) == pytest.approx(100, abs=1)


def test_a_mirrored_digit_is_none(drawn):
    assert main(["show", "digits", "--count", "2"]) == 0
    assert "flip" not in drawn[0][3]


def test_chosen_kinds(drawn):
    assert main(["show", "mnist", "--augment", "flip", "--variants", "3"]) == 0
    images, _, variants, headings, captions = drawn.pop()
    assert headings == ["flip"] * 3
    assert captions is None
    for variant in variants:
        for picture, version in zip(images, variant, strict=True):
            assert (version == picture).all() or (version == picture.flip(-1)).all()
    assert main(["show", "mnist", "--augment"]) == 0
    assert drawn.pop()[2] is None


def test_the_seed_decides(drawn):
    for seed in ("0", "0", "1"):
        assert main(["show", "digits", "--seed", seed]) == 0
    first, again, other = (call[2] for call in drawn)
    assert (first == again).all()
    assert not (first == other).all()


def test_nothing_is_overwritten_unless_it_is_named(folder, capsys):
    short = ["show", "digits", "--count", "1", "--augment"]
    for _ in range(3):
        assert main(short) == 0
    assert main([*short, "--output", "digits.png"]) == 0
    assert main([*short, "--output", "new/page.svg"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "wrote digits.png",
        "wrote digits-2.png",
        "wrote digits-3.png",
        "replaced digits.png",
        f"wrote {Path('new/page.svg')}",
    ]
    assert "<svg" in (folder / "new/page.svg").read_text()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["imagenet"], "The data set must be one of cifar10,"),
        (["digits", "--count", "0"], "--count must be 1 to 100, got 0"),
        (["digits", "--variants", "-1"], "--variants must be 0 to 20, got -1"),
        (["digits", "--augment", "randaugment", "trivialaugment"], "--augment must have one of"),
        (["digits", "--augment", "--output", "page.xyz"], "must end in .png, .svg or .pdf"),
        (["digits", "--augment", "--output", "."], "cannot write .: "),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(argv, message, capsys):
    assert main(["show", *argv]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert message in shown.err
    assert shown.out == ""
