import errno
import os
import zipfile
from pathlib import Path

import pytest
import torch

from vit_lightning.callbacks import DamagedCheckpointError, SealedCheckpointIO
from vit_lightning.callbacks.checkpoint_file import verify_checkpoint, write_file

CONTENT = {"weights": torch.arange(7.0), "name": "seven"}


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "folder" / "a.ckpt"
    SealedCheckpointIO().save_checkpoint(CONTENT, path)
    return path


def test_what_is_written_is_read_by_us_by_torch_and_by_zip(path):
    verify_checkpoint(path)
    for loaded in (SealedCheckpointIO().load_checkpoint(path), torch.load(path, weights_only=True)):
        assert loaded["name"] == "seven"
        assert torch.equal(loaded["weights"], CONTENT["weights"])
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.comment.startswith(b"vit-lightning sha256 ")
    assert os.listdir(path.parent) == ["a.ckpt"]


def test_every_flipped_bit_is_noticed_where_torch_notices_few(path):
    good = path.read_bytes()
    unnoticed = 0
    for position in range(0, len(good), 7):
        content = bytearray(good)
        content[position] ^= 1 << position % 8
        path.write_bytes(content)
        with pytest.raises(DamagedCheckpointError):
            SealedCheckpointIO().load_checkpoint(path)
        try:
            torch.load(path, weights_only=True)
            unnoticed += 1
        except Exception:  # of any kind
            pass
    assert unnoticed > 10


def test_a_missing_file_and_a_folder_are_damaged_too(tmp_path):
    for name in ("missing.ckpt", "."):
        with pytest.raises(DamagedCheckpointError, match="cannot be read"):
            verify_checkpoint(tmp_path / name)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'") as raised:
        write_file(path, [b"new"])
    assert raised.value.errno == errno.ENOSPC
    verify_checkpoint(path)
    assert os.listdir(path.parent) == ["a.ckpt"]


def test_code_in_a_checkpoint_is_not_run(path):
    torch.save({"a": pytest.raises}, path)  # a function of somebody's
    with pytest.raises(DamagedCheckpointError):
        SealedCheckpointIO().load_checkpoint(path)
    SealedCheckpointIO().save_checkpoint({"a": pytest.raises}, path)
    with pytest.raises(Exception, match="Weights only load failed"):
        SealedCheckpointIO().load_checkpoint(path)
