"""What every test shares: few threads, a fixed seed, a fast hypothesis profile."""

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


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
