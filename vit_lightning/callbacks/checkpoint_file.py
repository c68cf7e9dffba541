"""Checkpoint files that can be trusted: whole or not there at all, and with a checksum inside.

A file is written under another name, synced to the disk and then renamed. It is what torch writes,
a zip archive, with a SHA-256 of everything before it as the archive's comment; so torch and every
zip tool still read it, and a single flipped bit is noticed, which torch alone does not do.
"""

import hashlib
import io
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

Buffer = bytes | memoryview

MARK = b"vit-lightning sha256 "
SEAL = len(MARK) + 64  # bytes of the comment


class DamagedCheckpointError(ValueError):
    """A file that is not, or no longer, a checkpoint of this suite."""


def seal(archive: Buffer) -> list[Buffer]:
    """Give a zip archive without a comment its checksum as comment, and return the parts."""
    body = memoryview(archive)[:-2]  # the last two bytes are the length of the comment
    length = SEAL.to_bytes(2, "little")
    digest = hashlib.sha256(body)
    digest.update(length)
    return [body, length, MARK + digest.hexdigest().encode()]


def write_file(path: Path, parts: Sequence[Buffer]) -> None:
    """Write a file so that, whenever the power goes, the old or the new one is there, and whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    sync_folder(path.parent)


def replace_by_copy(source: Path, path: Path) -> None:
    """Let `path` be what `source` is; there is no moment in which either is missing."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    try:
        os.link(source, part)
    except OSError:  # a file system without links
        shutil.copyfile(source, part)
    part.replace(path)


def sync_folder(folder: Path) -> None:
    """Make the renames in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def verify_checkpoint(path: Path) -> None:
    """Hold a file against its checksum.

    Raises:
        DamagedCheckpointError: if it has none, or one that does not fit.
    """
    try:
        content = memoryview(path.read_bytes())
    except OSError as error:
        raise DamagedCheckpointError(f"{path} cannot be read: {error.strerror}") from None
    comment = bytes(content[-SEAL:])
    if not comment.startswith(MARK):
        raise DamagedCheckpointError(f"{path} is cut short or not a checkpoint of this suite")
    if hashlib.sha256(content[:-SEAL]).hexdigest().encode() != comment[len(MARK) :]:
        raise DamagedCheckpointError(f"{path} is damaged: it does not match its checksum")


class SealedCheckpointIO(TorchCheckpointIO):
    """How Lightning's Trainer writes and reads such files."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Write a checkpoint; on a full disk what was there before stays."""
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        write_file(Path(path), seal(buffer.getbuffer()))

    def load_checkpoint(
        self,
        path: str | Path,
        map_location: Callable[..., Any] | None = lambda storage, _: storage,
        weights_only: bool | None = True,
    ) -> dict[str, Any]:
        """Read a checkpoint that is undamaged, without running any code that may be in it."""
        verify_checkpoint(Path(path))
        loaded: dict[str, Any] = torch.load(path, map_location=map_location, weights_only=True)
        return loaded
