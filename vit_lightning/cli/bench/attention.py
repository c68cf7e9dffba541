"""The part `attention`: each kernel against sequence length, and how good the choice of `auto` is.

Projections are left out, so that nothing but the kernel counts: queries, keys and values go in as
they are. A batch has the same number of tokens at every length.
"""

import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from vit_lightning.cli.bench.gate import Gate
from vit_lightning.cli.bench.gemm import DTYPES
from vit_lightning.cli.bench.parts import Job, Part, Row, Sample, Wish
from vit_lightning.cli.bench.peak import mark_peak, peak_bytes
from vit_lightning.cli.bench.report import by_case, by_job, number, percent, spread, summarize
from vit_lightning.cli.bench.sizes import Sizes
from vit_lightning.nn import MultiheadAttention
from vit_lightning.nn.attention import Kernel

if TYPE_CHECKING:
    from vit_lightning.viz.bars import Panel

EMBED_DIM, NUM_HEADS = 256, 8
KERNELS: tuple[Kernel, ...] = get_args(Kernel)


def jobs(wish: Wish) -> tuple[list[Job], list[str]]:
    """Make every kernel in either arithmetic; `auto` is one of them."""
    return [wish.job("attention", kernel, kind) for kind in DTYPES for kernel in KERNELS], []


def cases(sizes: Sizes) -> list[dict[str, Any]]:
    """Measure at every length."""
    return [{"length": length} for length in sizes.lengths]


def attention_without_projections(kernel: Kernel) -> MultiheadAttention:
    """Make attention that takes queries, keys and values side by side, (batch, length, 3 * dim)."""
    module = MultiheadAttention(3 * EMBED_DIM, EMBED_DIM, NUM_HEADS, attention=kernel)
    for name in ("qkv_proj", "o_proj"):
        setattr(module, name, nn.Identity())
    return module


def measure(job: Job, gate: Gate) -> None:
    """Answer how long forward and backward take at a length, and how much memory."""
    kernel: Kernel = next(kernel for kernel in KERNELS if kernel == job.contender)
    module = attention_without_projections(kernel)
    for case in gate:
        shape = _shape(case["length"], job.sizes)
        x = torch.randn(shape).to(DTYPES[job.setting]).requires_grad_()
        gradient = torch.randn(*shape[:2], EMBED_DIM).to(x)
        picked = picked_kernel(x.detach()) if kernel == "auto" else kernel
        _both_ways(module, x, gradient)
        before = mark_peak()
        _both_ways(module, x, gradient)
        peak = peak_bytes() - before
        times: list[float] = []
        while not times or sum(times) < job.sizes.seconds / 10:
            start = time.perf_counter()
            _both_ways(module, x, gradient)
            times.append(time.perf_counter() - start)
        gate.answer(milliseconds=1e3 * median(times), peak_mb=peak / 1e6, kernel=picked)


def picked_kernel(x: Tensor) -> str:
    """Find out which kernel `auto` takes: the one that runs the same operations."""
    operations = {kernel: _operations(kernel, x) for kernel in KERNELS}
    return next(k for k in KERNELS if k != "auto" and operations[k] == operations["auto"])


def rows(samples: Sequence[Sample]) -> list[Row]:
    """Set each kernel at each length against the fastest there."""
    found: list[Row] = []
    for job, group in by_job(samples).items():
        for case, same in by_case(group):
            row: Row = {"contender": job.contender, "setting": f"{job.setting}, {case['length']}"}
            row |= {"arithmetic": job.setting, "length": case["length"]}
            row |= {"kernel": same[0].figures["kernel"]}
            row |= summarize(same, "milliseconds")
            row["peak_mb"] = median(sample.figures["peak_mb"] for sample in same)
            found.append(row)
    found.sort(key=lambda row: (list(DTYPES).index(row["arithmetic"]), row["length"]))
    for row in found:
        kernels = {
            r["contender"]: r["milliseconds"]
            for r in found
            if r["setting"] == row["setting"] and r["contender"] != "auto"
        }
        if not kernels:
            continue
        best = min(kernels, key=lambda kernel: kernels[kernel])
        row["over_best"] = row["milliseconds"] / kernels[best] - 1
        if row["contender"] == "auto":
            # By the time of the kernel it picks, so that no noise passes for a bad choice.
            row["best_kernel"] = best
            row["choice_over_best"] = kernels.get(row["kernel"], kernels[best]) / kernels[best] - 1
    return found


def verdict(rows: Sequence[Row]) -> list[str]:
    """Tell where the choice of `auto` costs most."""
    auto = [row for row in rows if row.get("choice_over_best") is not None]
    lines = []
    for kind in dict.fromkeys(row["arithmetic"] for row in auto):
        same = [row for row in auto if row["arithmetic"] == kind]
        worst = max(same, key=lambda row: row["choice_over_best"])
        lines.append(
            f"{kind}: what auto picks is at most {100 * worst['choice_over_best']:.0f} % slower"
            f" than the best kernel (at {worst['length']} tokens: {worst['kernel']} instead of"
            f" {worst['best_kernel']})"
            if worst["choice_over_best"]
            else f"{kind}: auto picks the best kernel at every length"
        )
    return lines


def panels(rows: Sequence[Row], sizes: Sizes) -> "list[Panel]":
    """Draw time and memory against length, for each arithmetic."""
    from vit_lightning.viz.bars import Bar, Panel

    figures = {"milliseconds": ("time", "milliseconds"), "peak_mb": ("peak memory", "MB")}
    kinds = dict.fromkeys(row["arithmetic"] for row in rows)
    return [
        Panel(
            title=f"Attention, forward and backward, {kind}: {what}",
            unit=unit,
            bars=[
                Bar(str(row["length"]), row["contender"], max(row[figure], 0.01))
                for row in rows
                if row["arithmetic"] == kind
            ],
            log=True,
            axis="tokens in a sequence",
            highlight="auto",
        )
        for figure, (what, unit) in figures.items()
        for kind in kinds
    ]


def _shape(length: int, sizes: Sizes) -> tuple[int, int, int]:
    return max(1, sizes.attention_tokens // length), length, 3 * EMBED_DIM


def _both_ways(module: nn.Module, x: Tensor, gradient: Tensor) -> None:
    x.grad = None
    with _autocast(x):
        values = module(x)
    values.backward(gradient)


def _autocast(x: Tensor) -> torch.autocast:
    """Run as in training, where bfloat16 is autocast's doing."""
    return torch.autocast("cpu", torch.bfloat16, enabled=x.dtype == torch.bfloat16)


def _operations(kernel: Kernel, x: Tensor) -> list[str]:
    recorder = _Recorder()
    with torch.no_grad(), _autocast(x), recorder:
        attention_without_projections(kernel)(x)
    return recorder.names


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Writes down which operations run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


PART = Part(
    rounds=5,
    jobs=jobs,
    measure=measure,
    rows=rows,
    columns={
        "ms": number("milliseconds", ",.2f"),
        "": spread,
        "MB": number("peak_mb"),
        "over best": percent("over_best", "+.0f"),
        "kernel": lambda row: str(row["kernel"]),
    },
    verdict=verdict,
    panels=panels,
    cases=cases,
)
