import pytest
import torch

from vit_lightning.cli import precision
from vit_lightning.cli.precision import pick_precision


@pytest.mark.parametrize(
    ("speedup", "expected"), [(0.5, "32-true"), (1.4, "32-true"), (1.6, "bf16-mixed")]
)
def test_on_a_cpu_mixed_precision_must_pay(speedup, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    times = {torch.float32: 1.0, torch.bfloat16: 1 / speedup}
    monkeypatch.setattr(precision, "_seconds", times.__getitem__)
    assert pick_precision("auto") == expected


@pytest.mark.parametrize(("supported", "expected"), [(True, "bf16-mixed"), (False, "16-mixed")])
def test_on_cuda(supported, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: supported)
    assert pick_precision("auto") == expected


def test_on_mps(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert pick_precision("auto") == "32-true"


def test_the_measurement_is_short_and_a_time():
    assert 0 < precision._seconds(torch.float32) < 1
