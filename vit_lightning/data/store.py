"""The verified store: an image set on disk that opens at once and is never half there.

A store is a folder with four `.npy` files, which are memory-mapped, and `manifest.json`, which says
where the pictures are from, when they were verified, and what every file's sha256 is. It is written
beside its place and renamed into it, so a kill at any moment leaves either a whole store or none.
"""

import fcntl
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import numpy as np

from vit_lightning.data.formats import Labels, Pixels
from vit_lightning.data.progress import byte_bar

ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
MANIFEST = "manifest.json"
CHUNK = 1 << 22

log = logging.getLogger(__name__)


class DamagedStoreError(ValueError):
    """A store that is there but must not be used; the message says what is wrong with it."""


@dataclass(frozen=True)
class ImageSet:
    """A labelled image set, held as raw bytes.

    Attributes:
        name: What a person types to get it.
        train_images: Pictures to train on, shape (number, channels, height, width), uint8.
        train_labels: Their labels, shape (number,), int64.
        test_images: Pictures to test on, like `train_images`.
        test_labels: Their labels.
        class_names: Names of the classes, in the order of their labels.
        source: Where the pictures came from.
    """

    name: str
    train_images: Pixels
    train_labels: Labels
    test_images: Pixels
    test_labels: Labels
    class_names: tuple[str, ...]
    source: str


def read_manifest(path: Path) -> dict[str, Any]:
    """Read and check the manifest of the store at `path`.

    Raises:
        FileNotFoundError: If there is no store.
        DamagedStoreError: If there is one, but its manifest is missing or altered.
    """
    if not path.is_dir():
        raise FileNotFoundError(path)
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        seal = manifest.pop("seal")
        if seal != _seal(manifest):
            raise DamagedStoreError(f"{MANIFEST} was altered (its seal does not match)")
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError, KeyError) as error:
        raise DamagedStoreError(f"{MANIFEST} is missing or unreadable") from error
    except (AttributeError, TypeError) as error:
        raise DamagedStoreError(f"{MANIFEST} is not a manifest") from error
    return dict(manifest)


def open_store(
    path: Path, checksums: Mapping[str, str], *, verify: bool = True, progress: bool = False
) -> ImageSet:
    """Open a store without reading its pictures into memory.

    Args:
        path: The store's folder.
        checksums: The md5 of each official file, from which the store must have been made.
        verify: Whether to read every byte once and compare; otherwise only sizes are compared.
        progress: Whether to draw a bar if that takes more than two seconds.

    Returns:
        The set, its arrays memory-mapped and read-only.

    Raises:
        FileNotFoundError: If there is no store.
        DamagedStoreError: If there is one that must not be used.
    """
    manifest = read_manifest(path)
    if manifest["official_md5"] != dict(checksums):
        raise DamagedStoreError("it was made from other official files than those known today")
    total = sum(entry["bytes"] for entry in manifest["files"].values())
    with byte_bar(f"checking {path.name}", total, progress and verify, delay=2.0) as bar:
        for name, entry in manifest["files"].items():
            file = path / name
            if not file.is_file():
                raise DamagedStoreError(f"{name} is missing")
            if (size := file.stat().st_size) != entry["bytes"]:
                raise DamagedStoreError(f"{name} has {size:,} bytes instead of {entry['bytes']:,}")
            if verify and _sha256(file, bar.update) != entry["sha256"]:
                raise DamagedStoreError(f"{name} was altered (its sha256 does not match)")
    arrays = {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in ARRAYS}
    return ImageSet(
        name=manifest["name"],
        class_names=tuple(manifest["class_names"]),
        source=manifest["source"],
        **arrays,
    )


def write_store(path: Path, images: ImageSet, checksums: Mapping[str, str], work: Path) -> None:
    """Write a store so that it appears at `path` whole or not at all.

    The caller holds the lock and has made sure that nothing is at `path`.

    Args:
        path: The store's folder.
        images: What to store, already verified.
        checksums: The md5 of each official file from which `images` was decoded.
        work: A scratch folder on the same disk.
    """
    new = work / "store"
    new.mkdir()
    files = {}
    for name in ARRAYS:
        file, array = new / f"{name}.npy", np.ascontiguousarray(getattr(images, name))
        with file.open("wb") as output:
            # Not by `np.save`, which hides the reason when a disk is full.
            header = np.lib.format.header_data_from_array_1_0(array)
            np.lib.format.write_array_header_1_0(output, header)
            output.write(array.data)
            _sync(output)
        files[file.name] = {
            "bytes": file.stat().st_size,
            "sha256": _sha256(file),
            "shape": list(array.shape),
        }
    manifest: dict[str, Any] = {
        "name": images.name,
        "source": images.source,
        "verified": datetime.now(UTC).isoformat(timespec="seconds"),
        "class_names": list(images.class_names),
        "official_md5": dict(checksums),
        "files": files,
    }
    with (new / MANIFEST).open("w") as output:
        json.dump({**manifest, "seal": _seal(manifest)}, output, indent=2)
        _sync(output)
    _sync_folder(new)
    new.rename(path)
    _sync_folder(path.parent)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of the store at `path`, so that one process at a time writes it.

    Args:
        path: The store's folder; the lock is a file beside it, and outlives a kill harmlessly.
        wait: Whether to wait for whoever holds it.

    Yields:
        Whether the lock is held; always true when waiting.
    """
    with path.with_name(f"{path.name}.lock").open("a") as file:
        held = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = wait
            if wait:
                log.warning("Another process is preparing %s; waiting for it.", path)
                fcntl.flock(file, fcntl.LOCK_EX)
        yield held  # closing the file lets the lock go


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Make a scratch folder beside the store at `path`, removed in the end."""
    work = path.with_name(f"{path.name}.{os.getpid()}.partial")
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def set_aside(path: Path) -> Path:
    """Move a damaged store out of the way, in place of any older one, and say where it is."""
    aside = path.with_name(f"{path.name}.damaged")
    shutil.rmtree(aside, ignore_errors=True)
    return path.rename(aside)


def leftovers(path: Path) -> list[Path]:
    """Find what is of no use beside the store at `path`.

    These are scratch folders, of a running process or of a killed one, and, once there is a store
    again, the damaged one that was set aside.
    """
    found = list(path.parent.glob(f"{path.name}.*.partial"))
    aside = path.with_name(f"{path.name}.damaged")
    return [*found, aside] if path.exists() and aside.exists() else found


def sweep(path: Path) -> None:
    """Remove the leftovers; only under the lock, when no other process is at work."""
    for leftover in leftovers(path):
        log.info("Removing %s, left by an earlier fetch.", leftover)
        shutil.rmtree(leftover, ignore_errors=True)


def _seal(manifest: Mapping[str, Any]) -> str:
    """Checksum of the manifest itself, so that a changed byte anywhere shows."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _sha256(file: Path, advance: Callable[[int], object] | None = None) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(CHUNK):
            digest.update(chunk)
            if advance is not None:
                advance(len(chunk))
    return digest.hexdigest()


def _sync(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
