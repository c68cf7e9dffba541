import os

import torch

from vit_lightning.cli.bench import machine
from vit_lightning.cli.bench.machine import describe_machine, usable_cores
from vit_lightning.cli.bench.peak import mark_peak, peak_bytes

CPUINFO = """processor\t: 0
model name\t: Some CPU @ 3 GHz
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu avx2 avx512f amx_tile

processor\t: 1
model name\t: Some CPU @ 3 GHz
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu avx2 avx512f amx_tile

"""


def test_what_a_reader_needs_to_know(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    described = describe_machine(3)
    assert described["processor"] == "Some CPU @ 3 GHz"
    assert described["cores"] == 1  # two threads of one core
    assert described["instructions"] == "avx2 avx512f amx_tile"
    assert described["threads"] == 3
    assert described["load"] >= 0
    assert described["torch"] == torch.__version__.partition("+")[0]


def test_a_machine_that_tells_little(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "nothing")
    described = describe_machine(1)
    assert described["processor"]
    assert described["instructions"] == "unknown"
    assert usable_cores() >= 1


def test_a_peak_is_what_was_used_since_the_mark():
    before = mark_peak()
    held = torch.ones(50_000_000 // 4)  # 50 MB
    del held
    assert peak_bytes() - before > 40_000_000
    before = mark_peak()
    assert peak_bytes() - before < 40_000_000
