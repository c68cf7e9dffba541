import gzip
import json
import os
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.data.formats import (
    OfficialFile,
    SourceError,
    decode,
    official_bytes,
    records,
    wanted_names,
)


def bag_of(files):
    return {name: partial(bytes, data) for name, data in files.items()}


@pytest.mark.parametrize("packing", ["bin", "pickle", "sheet"])
def test_every_packing_of_cifar_gives_the_official_bytes(cifar, packing):
    bag = bag_of(cifar.packed[packing])
    for file in cifar.spec.files:
        assert official_bytes(file, cifar.spec.files, bag) == cifar.official[file.name]


@pytest.mark.parametrize("packing", ["idx", "gz"])
def test_every_packing_of_mnist_gives_the_official_bytes(mnist, packing):
    bag = bag_of(mnist.packed[packing])
    for file in mnist.spec.files:
        assert official_bytes(file, mnist.spec.files, bag) == mnist.official[file.name]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_batches_pickled_again_by_python_3(cifar, protocol):
    file = cifar.spec.files[2]
    flat = cifar.pixels["test"].reshape(5, -1)
    batch = {"data": flat, "labels": cifar.labels["test"].tolist()}
    bag = bag_of({"test_batch": pickle.dumps(batch, protocol=protocol)})
    assert official_bytes(file, cifar.spec.files, bag) == cifar.official[file.name]


class Evil:
    def __reduce__(self):
        return os.mkdir, ("executed",)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_that_calls_something_is_refused_and_not_run(
    cifar, protocol, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    bag = bag_of({"test_batch": pickle.dumps({"data": Evil(), "labels": []}, protocol=protocol)})
    with pytest.raises(SourceError, match=r"mkdir, which no batch needs"):
        official_bytes(cifar.spec.files[2], cifar.spec.files, bag)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("packing", ["bin", "pickle", "sheet"])
def test_every_decoder_names_what_is_cut_short(cifar, packing):
    cut = {name: data[: len(data) // 2] for name, data in cifar.packed[packing].items()}
    with pytest.raises(SourceError, match="data_batch_1"):
        official_bytes(cifar.spec.files[0], cifar.spec.files, bag_of(cut))


def test_cut_gzip_is_named(mnist):
    name = mnist.spec.files[0].name
    bag = bag_of({f"{name}.gz": gzip.compress(mnist.official[name])[:-9]})
    with pytest.raises(SourceError, match=rf"{name}\.gz cannot be read"):
        official_bytes(mnist.spec.files[0], mnist.spec.files, bag)


def test_one_wrong_label_is_found_and_the_label_file_named(cifar):
    files = dict(cifar.packed["sheet"])
    labels = json.loads(files["train_lables.json"])
    labels[9] = (labels[9] + 1) % 10  # in the second of the two batches
    files["train_lables.json"] = json.dumps(labels).encode()
    bag = bag_of(files)
    first, second, _ = cifar.spec.files
    assert official_bytes(first, cifar.spec.files, bag) == cifar.official[first.name]
    with pytest.raises(SourceError, match=r"data_batch_2\.png with train_lables\.json does not"):
        official_bytes(second, cifar.spec.files, bag)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (b"[1, 2]", "2 labels for 7 pictures"),
        (b"{}", "cannot be read"),
        (b"\xff", "cannot be read"),
    ],
)
def test_label_files_of_another_kind_are_refused(cifar, labels, says):
    bag = bag_of({**cifar.packed["sheet"], "train_lables.json": labels})
    with pytest.raises(SourceError, match=says):
        official_bytes(cifar.spec.files[0], cifar.spec.files, bag)


def test_missing_files_are_named(cifar):
    with pytest.raises(SourceError, match=r"data_batch_1\.bin is missing"):
        official_bytes(cifar.spec.files[0], cifar.spec.files, {})
    sheets = {n: d for n, d in cifar.packed["sheet"].items() if n.endswith("png")}
    with pytest.raises(SourceError, match=r"train_lables\.json is missing"):
        official_bytes(cifar.spec.files[0], cifar.spec.files, bag_of(sheets))


def test_wanted_names_cover_every_packing(cifar, mnist):
    for fake in (cifar, mnist):
        names = wanted_names(fake.spec.files)
        assert all(names.issuperset(files) for files in fake.packed.values())


def test_decode_gives_pictures_and_labels_in_order(cifar, mnist):
    for fake in (cifar, mnist):
        for split in ("train", "test"):
            pixels, labels = decode(fake.official, fake.spec.files, fake.spec.shape, split)
            assert np.array_equal(pixels, fake.pixels[split])
            assert np.array_equal(labels, fake.labels[split])
            assert (pixels.dtype, labels.dtype) == (np.uint8, np.int64)


@given(st.integers(1, 5), st.sampled_from([(1, 2, 3), (3, 5, 2)]), st.integers(0, 99))
def test_decode_inverts_records(number, shape, seed):
    draw = np.random.default_rng(seed)
    pixels = draw.integers(0, 256, (number, *shape), dtype=np.uint8)
    labels = draw.integers(0, 10, number)
    file = OfficialFile("x.bin", "test", "records", "")
    again, marks = decode({"x.bin": records(pixels, labels)}, [file], shape, "test")
    assert np.array_equal(again, pixels)
    assert np.array_equal(marks, labels)
