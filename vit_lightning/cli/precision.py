"""Pick the arithmetic that this machine is fastest at."""

import time

import torch


def pick_precision(accelerator: str) -> str:
    """Return Lightning's name of the fastest precision: mixed where it pays, else float32.

    Not every processor that knows bfloat16 is fast at it, so on a CPU both are timed.

    Args:
        accelerator: what the run asks for: "auto", "cpu", "gpu", "cuda", "mps", ...
    """
    if accelerator != "cpu":
        if torch.cuda.is_available():
            return "bf16-mixed" if torch.cuda.is_bf16_supported() else "16-mixed"
        if torch.backends.mps.is_available():
            return "32-true"
    speedup = _seconds(torch.float32) / _seconds(torch.bfloat16)
    return "bf16-mixed" if speedup > 1.5 else "32-true"


def _seconds(dtype: torch.dtype) -> float:
    """Time the matrix product of a feed-forward layer; the best of five."""
    a, b = torch.ones(2048, 256, dtype=dtype), torch.ones(256, 1024, dtype=dtype)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return min(times)
