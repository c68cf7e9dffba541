import json
import logging
import threading

import numpy as np
import pytest

from vit_lightning.data.store import (
    DamagedStoreError,
    ImageSet,
    leftovers,
    locked,
    open_store,
    read_manifest,
    scratch_folder,
    set_aside,
    sweep,
    write_store,
)

CHECKSUMS = {"a.bin": "1" * 32}


@pytest.fixture
def images():
    draw = np.random.default_rng(0)
    return ImageSet(
        name="some",
        train_images=draw.integers(0, 256, (7, 3, 5, 2), dtype=np.uint8),
        train_labels=draw.integers(0, 10, 7),
        test_images=draw.integers(0, 256, (3, 3, 5, 2), dtype=np.uint8),
        test_labels=draw.integers(0, 10, 3),
        class_names=("cat", "dog"),
        source="somewhere",
    )


@pytest.fixture
def path(tmp_path, images):
    target = tmp_path / "some"
    with scratch_folder(target) as work:
        write_store(target, images, CHECKSUMS, work)
    return target


def test_what_is_written_is_read_back_memory_mapped(path, images):
    again = open_store(path, CHECKSUMS)
    for name in ("train_images", "train_labels", "test_images", "test_labels"):
        array = getattr(again, name)
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
        assert array.dtype == getattr(images, name).dtype
        assert np.array_equal(array, getattr(images, name))
    assert (again.name, again.class_names, again.source) == ("some", ("cat", "dog"), "somewhere")
    assert list(path.parent.iterdir()) == [path]


def test_the_manifest_tells_where_from_and_when(path):
    manifest = read_manifest(path)
    assert manifest["source"] == "somewhere"
    assert manifest["verified"].startswith("20")
    assert manifest["files"]["train_images.npy"]["shape"] == [7, 3, 5, 2]


def test_any_flipped_byte_is_found(path):
    for file in sorted(path.iterdir()):
        data = file.read_bytes()
        for position in range(0, len(data), 13):
            altered = bytearray(data)
            altered[position] ^= 0x01
            file.write_bytes(altered)
            if file.suffix == ".json" and _same_meaning(altered, data):
                continue  # a newline that became another blank
            with pytest.raises(DamagedStoreError, match=file.name):
                open_store(path, CHECKSUMS)
        file.write_bytes(data)
    open_store(path, CHECKSUMS)


def _same_meaning(one, two):
    try:
        return json.loads(one) == json.loads(two)
    except ValueError:
        return False


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", ["train_images.npy", "test_labels.npy", "manifest.json"])
def test_truncated_and_missing_files_are_found_even_unverified(path, name, verify):
    file = path / name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DamagedStoreError, match=name):
        open_store(path, CHECKSUMS, verify=verify)
    file.unlink()
    with pytest.raises(DamagedStoreError, match=f"{name} is missing"):
        open_store(path, CHECKSUMS, verify=verify)


@pytest.mark.parametrize("text", ["[]", "3", "{}", "null", ""])
def test_a_manifest_of_another_kind_is_refused(path, text):
    (path / "manifest.json").write_text(text)
    with pytest.raises(DamagedStoreError, match=r"manifest\.json"):
        open_store(path, CHECKSUMS)


def test_a_store_of_other_official_files_is_refused(path):
    with pytest.raises(DamagedStoreError, match="other official files"):
        open_store(path, {"a.bin": "2" * 32})


def test_no_store_is_told_apart_from_a_damaged_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_store(tmp_path / "none", CHECKSUMS)


def test_the_lock_admits_one_and_tells_who_waits(tmp_path, caplog):
    path, order = tmp_path / "some", []

    def second():
        with locked(path):
            order.append("second")

    with locked(path) as held:
        assert held
        with locked(path, wait=False) as also:
            assert not also
        with caplog.at_level(logging.WARNING):
            thread = threading.Thread(target=second)
            thread.start()
            while not caplog.messages:
                thread.join(0.01)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert caplog.messages == [f"Another process is preparing {path}; waiting for it."]


def test_leftovers_are_swept_but_not_a_neighbours(path):
    ours, other = path.with_name("some.123.partial"), path.with_name("awesome.123.partial")
    for folder in (ours, other):
        folder.mkdir()
        (folder / "half.npy").write_bytes(b"half")
    assert leftovers(path) == [ours]
    sweep(path)
    assert not ours.exists()
    assert other.exists()
    open_store(path, CHECKSUMS)


def test_a_damaged_store_stays_aside_until_there_is_a_new_one(path, images):
    for _ in range(2):
        aside = set_aside(path)
        sweep(path)
        assert aside.is_dir()
        with scratch_folder(path) as work:
            write_store(path, images, CHECKSUMS, work)
    sweep(path)
    assert list(path.parent.iterdir()) == [path]
