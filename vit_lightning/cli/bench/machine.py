"""What the figures were measured on: processor, cores, instructions, torch, threads."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
# The instructions that decide how fast a matrix product is, in either family's spelling.
TELLING = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_tile", "bf16", "sve")


def describe_machine(threads: int) -> dict[str, str | float]:
    """Describe this machine, in the words a reader of the figures needs."""
    info = _first_processor()
    flags = (info.get("flags") or info.get("Features") or "").split()
    return {
        "processor": info.get("model name") or platform.processor() or platform.machine(),
        "cores": usable_cores(),
        "instructions": " ".join(flag for flag in TELLING if flag in flags) or "unknown",
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "torch": version("torch"),
        "threads": threads,
        "load": _load(),
    }


def usable_cores() -> int:
    """Count the physical cores that this process may use; more threads would share one."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    cores = {
        (block.get("physical id"), block.get("core id", block.get("processor")))
        for block in _processors()
        if int(block.get("processor", -1)) in allowed
    }
    return len(cores) or len(allowed)


def _load() -> float:
    """Return how many processes have been at work in the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0


def _memory_gb() -> int:
    if not hasattr(os, "sysconf"):
        return 0
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)


def _processors() -> list[dict[str, str]]:
    """Read what Linux tells of each processor; nothing elsewhere."""
    if not CPUINFO.is_file():
        return []
    blocks = CPUINFO.read_text().split("\n\n")
    pairs = [[line.partition(":") for line in block.splitlines()] for block in blocks]
    return [{key.strip(): value.strip() for key, _, value in block} for block in pairs if block]


def _first_processor() -> dict[str, str]:
    return next(iter(_processors()), {})
