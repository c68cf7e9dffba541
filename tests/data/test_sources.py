import re
from pathlib import Path

import numpy as np
import pytest

from vit_lightning.data.catalog import DIGITS
from vit_lightning.data.formats import SourceError, decode, official_bytes
from vit_lightning.data.sources import BundledDigits, InstalledFiles, OwnFiles, Place, open_bag


@pytest.fixture
def place(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "work").mkdir()
    return Place(folder=tmp_path / "data", work=tmp_path / "work", progress=False)


def test_a_bag_is_the_same_from_a_folder_and_from_an_archive(cifar, tmp_path):
    folder = cifar.write("sheet", tmp_path / "folder")
    (folder / "README.md").write_text("of no interest")
    archive = cifar.tar("sheet", tmp_path / "some.tgz")
    for path in (folder, archive):
        bag = open_bag(path, cifar.spec.files)
        assert {name: read() for name, read in bag.items()} == cifar.packed["sheet"]


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.9])
def test_a_truncated_archive_is_refused(cifar, tmp_path, kept):
    path = cifar.tar("bin", tmp_path / "cifar-10-binary.tar.gz")
    data = path.read_bytes()
    path.write_bytes(data[: kept if isinstance(kept, int) else int(len(data) * kept)])
    with pytest.raises(SourceError, match="cut short or damaged"):
        open_bag(path, cifar.spec.files)


def test_own_files_are_offered_folder_first(cifar, place):
    source = OwnFiles(("cifar-10-batches-py", "."), ("cifar-10-binary.tar.gz",))
    cifar.tar("bin", place.folder / "cifar-10-binary.tar.gz")
    cifar.write("pickle", place.folder / "cifar-10-batches-py")
    cifar.write("bin", place.folder)
    origins = [offer.origin for offer in source.offers(cifar.spec.files, place)]
    assert origins == [
        "your own cifar-10-batches-py",
        "your own files",
        "your own cifar-10-binary.tar.gz",
    ]


def test_own_files_say_where_they_looked(cifar, place):
    (place.folder / "cifar-10-batches-py").mkdir()
    source = OwnFiles(("cifar-10-batches-py",), ("cifar-10-binary.tar.gz",))
    with pytest.raises(SourceError, match=re.escape(f"none found in {place.folder}")):
        next(source.offers(cifar.spec.files, place))
    remedy = source.remedy(cifar.spec.files, place.folder)
    assert f"put cifar-10-binary.tar.gz into {place.folder}, or data_batch_1" in remedy
    bare = OwnFiles(("raw",), ()).remedy(cifar.spec.files, place.folder)
    assert bare.startswith("put data_batch_1 and the other 2 official files")


def test_installed_files(mnist, place, tmp_path):
    source = InstalledFiles(tmp_path / "installed", "dataset-some")
    with pytest.raises(SourceError, match="not installed"):
        next(source.offers(mnist.spec.files, place))
    mnist.write("gz", tmp_path / "installed")
    (offer,) = source.offers(mnist.spec.files, place)
    assert set(offer.unpack()) == set(mnist.packed["gz"])
    assert "apt-get install dataset-some" in source.remedy(mnist.spec.files, place.folder)


def test_digits_are_verified_complete_and_stratified(place):
    (offer,) = BundledDigits().offers(DIGITS.files, place)
    bag = offer.unpack()
    data = {file.name: official_bytes(file, DIGITS.files, bag) for file in DIGITS.files}
    train, train_labels = decode(data, DIGITS.files, DIGITS.shape, "train")
    test, test_labels = decode(data, DIGITS.files, DIGITS.shape, "test")
    assert (train.shape, test.shape) == ((1438, 1, 8, 8), (359, 1, 8, 8))
    assert (train.min(), train.max()) == (0, 255)
    shares = np.bincount(test_labels) / (np.bincount(test_labels) + np.bincount(train_labels))
    assert np.all(np.abs(shares - 0.2) < 0.005)


def test_remedies_for_the_bundled_digits():
    assert "pip install" in BundledDigits().remedy(DIGITS.files, Path("anywhere"))
