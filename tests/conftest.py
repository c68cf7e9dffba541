"""What every test shares: few threads, a fixed seed, a fast hypothesis profile."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)  # the tensors are small, and threads would only wait for each other

settings.register_profile(
    "suite",
    deadline=None,  # the first call into torch is slow; a time limit would only measure that
    max_examples=25,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def _data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def data_folder(_data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder that the tests share, in place of the person's own."""
    monkeypatch.setenv("VIT_LIGHTNING_DATA", str(_data_folder))
    return _data_folder


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Two threads instead of one, for what behaves differently then."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)
