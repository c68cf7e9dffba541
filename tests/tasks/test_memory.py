import subprocess
import sys

import pytest

from vit_lightning.tasks import memory

PROGRAM = """
import resource, torch
from vit_lightning.tasks.memory import keep_freed_memory
if {keep}:
    assert keep_freed_memory()
for _ in range(3):
    torch.ones(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(keep: bool) -> int:
    command = [sys.executable, "-c", PROGRAM.format(keep=keep)]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only the GNU C library can")
def test_freed_memory_is_used_again():
    assert page_faults(keep=True) < page_faults(keep=False) / 10


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert not memory.keep_freed_memory()
    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())  # a C library without it
    assert not memory.keep_freed_memory()
