"""The part `memory`: what a training step of ours needs as batch and pictures grow.

Every case has a new process, so that its peak is its own: weights, gradients, optimizer state and
everything that is kept for the backward pass.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from vit_lightning.cli.bench.gate import Gate
from vit_lightning.cli.bench.parts import Job, Part, Row, Sample, Wish
from vit_lightning.cli.bench.peak import mark_peak, peak_bytes
from vit_lightning.cli.bench.report import by_case, number, summarize
from vit_lightning.cli.bench.sizes import SIZES, Sizes
from vit_lightning.cli.bench.training import our_step, steps_per_second

if TYPE_CHECKING:
    from vit_lightning.viz.bars import Panel


def jobs(wish: Wish) -> tuple[list[Job], list[str]]:
    """Measure ours, as it trains by default."""
    return [wish.job("memory", "ours", "default")], []


def cases(sizes: Sizes) -> list[dict[str, Any]]:
    """Cross batches with picture sizes, as far as they fit."""
    return [
        {"image_size": image, "batch_size": batch}
        for image in sizes.memory_images
        for batch in sizes.memory_batches
        if batch * replace(sizes.step, image_size=image).num_tokens <= sizes.memory_tokens
    ]


def measure(job: Job, gate: Gate) -> None:
    """Answer the peak of two steps (the second has the optimizer's state) and their speed."""
    # What torch sets up once is not the step's: let a tiny one pay for it.
    first = our_step(SIZES["tiny"].step, job.setting)
    for _ in range(2):
        first()
    for case in gate:
        shape = replace(job.sizes.step, **case)
        before = mark_peak()
        step = our_step(shape, job.setting)
        step()
        step()
        peak = peak_bytes() - before
        rate = steps_per_second(step, job.sizes.seconds / 3)
        gate.answer(
            peak_mb=peak / 1e6,
            images_per_second=rate * shape.batch_size,
            tokens=shape.num_tokens,
        )


def rows(samples: Sequence[Sample]) -> list[Row]:
    """Set each picture size against the next smaller one at the same batch.

    The growth of cost is the exponent e in "time of a picture grows as tokens to the e": 1 is in
    proportion, 2 is what attention alone would be.
    """
    found: list[Row] = []
    for case, same in by_case(samples):
        image, batch = case["image_size"], case["batch_size"]
        row: Row = {"contender": "ours", "setting": f"batch {batch}, {image}x{image}"}
        row |= dict(case)
        row["tokens"] = same[0].figures["tokens"]
        row |= summarize(same, "peak_mb")
        row["images_per_second"] = median(s.figures["images_per_second"] for s in same)
        smaller = next((r for r in reversed(found) if r["batch_size"] == batch), None)
        row["cost_growth"] = _exponent(smaller, row, "images_per_second", -1)
        row["memory_growth"] = _exponent(smaller, row, "peak_mb", 1)
        found.append(row)
    return found


def verdict(rows: Sequence[Row]) -> list[str]:
    """Tell how cost and memory grow from the smallest pictures to the largest."""
    lines = []
    for batch in dict.fromkeys(row["batch_size"] for row in rows):
        same = [row for row in rows if row["batch_size"] == batch]
        first, last = same[0], same[-1]
        cost = _exponent(first, last, "images_per_second", -1)
        memory = _exponent(first, last, "peak_mb", 1)
        if cost is not None and memory is not None:
            lines.append(
                f"batch {batch}, {first['tokens']} to {last['tokens']} tokens: time grows as"
                f" tokens^{cost:.2f}, memory as tokens^{memory:.2f}"
            )
    return lines


def panels(rows: Sequence[Row], sizes: Sizes) -> "list[Panel]":
    """Draw memory and speed against the size of the pictures."""
    from vit_lightning.viz.bars import Bar, Panel

    figures = {
        "peak_mb": ("Peak memory of a training step of ours", "MB"),
        "images_per_second": ("Its speed", "images per second"),
    }
    return [
        Panel(
            title=title,
            unit=unit,
            bars=[
                Bar(
                    f"{row['image_size']}x{row['image_size']}\n{row['tokens']} tokens",
                    f"batch {row['batch_size']}",
                    max(row[figure], 0.01),
                )
                for row in rows
            ],
            log=True,
            axis="picture",
        )
        for figure, (title, unit) in figures.items()
    ]


def _exponent(smaller: Row | None, larger: Row, figure: str, sign: int) -> float | None:
    if smaller is None or smaller["tokens"] == larger["tokens"]:
        return None
    if min(smaller[figure], larger[figure]) <= 0:
        return None
    growth = math.log(larger[figure] / smaller[figure])
    return sign * growth / math.log(larger["tokens"] / smaller["tokens"])


PART = Part(
    rounds=1,
    jobs=jobs,
    measure=measure,
    rows=rows,
    columns={
        "tokens": number("tokens"),
        "peak MB": number("peak_mb"),
        "images/s": number("images_per_second"),
        "cost growth": number("cost_growth", ".2f"),
        "memory growth": number("memory_growth", ".2f"),
    },
    verdict=verdict,
    panels=panels,
    cases=cases,
    fresh=True,
)
