"""The part `step`: images a second of a training step, the same model in every library."""

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from vit_lightning.cli.bench.gate import Gate
from vit_lightning.cli.bench.gemm import measure_limit, step_products
from vit_lightning.cli.bench.parts import Job, Part, Row, Sample, Wish
from vit_lightning.cli.bench.peak import mark_peak, peak_bytes, release_memory
from vit_lightning.cli.bench.peers import PEERS, is_installed
from vit_lightning.cli.bench.report import by_job, find_row, number, percent, spread, summarize
from vit_lightning.cli.bench.sizes import Sizes
from vit_lightning.cli.bench.training import (
    SETTINGS,
    arithmetic,
    our_step,
    peer_step,
    steps_per_second,
)

if TYPE_CHECKING:
    from vit_lightning.viz.bars import Panel

OURS, LIMIT = "ours", "limit"
CONTENDERS = (OURS, *PEERS)


def jobs(wish: Wish) -> tuple[list[Job], list[str]]:
    """Make every contender in every setting, ours also as it trains by default, and the limits."""
    wanted = [name for name in CONTENDERS if name in (wish.contenders or CONTENDERS)]
    absent = [name for name in wanted if name in PEERS and not is_installed(name)]
    settings = [setting for setting in SETTINGS if setting in (wish.settings or SETTINGS)]
    made = [wish.job("step", LIMIT, kind) for kind in ("float32", "bf16")]
    if OURS in wanted:
        made.append(wish.job("step", OURS, "default"))
    for setting in settings:
        made += [wish.job("step", name, setting) for name in wanted if name not in absent]
    return made, absent


def measure(job: Job, gate: Gate) -> None:
    """Answer how many images a second the contender trains on, and what a step adds to memory."""
    if job.contender == LIMIT:
        return measure_limit(job, gate)
    shape = job.sizes.step
    if job.contender == OURS:
        step = our_step(shape, job.setting)
    else:
        step = peer_step(job.contender, shape, job.setting)
    kind = arithmetic(job.setting)
    for _ in range(2):  # compile, fill caches, make the optimizer's state
        step()
    release_memory()
    for _ in gate:
        before = mark_peak()
        step()
        rate = steps_per_second(step, job.sizes.seconds)
        gate.answer(
            images_per_second=rate * shape.batch_size,
            peak_mb=(peak_bytes() - before) / 1e6,
            arithmetic=kind,
        )
        release_memory()


def rows(samples: Sequence[Sample]) -> list[Row]:
    """Set each contender against the limit of its arithmetic."""
    groups = by_job(samples)
    limits: dict[str, float] = {}
    found: list[Row] = []
    for job, group in groups.items():
        row: Row = {"contender": job.contender, "setting": job.setting}
        row |= summarize(group, "images_per_second")
        if job.contender == LIMIT:
            limits[job.setting] = row["images_per_second"]
            kind = job.setting
            row["gflops"] = median(sample.figures["gflops"] for sample in group)
        else:
            kind = group[0].figures["arithmetic"]
            row["peak_mb"] = median(sample.figures["peak_mb"] for sample in group)
        if job.contender == OURS:
            row["share_of_products"] = _share_of_products(job.sizes)
        limit = limits.get(kind)
        row["arithmetic"] = kind
        row["share_of_limit"] = row["images_per_second"] / limit if limit else None
        found.append(row)
    return found


def verdict(rows: Sequence[Row]) -> list[str]:
    """Set ours by default against the best peer, and the median peer as it comes."""
    ours = find_row(rows, OURS, "default")
    peers = [row for row in rows if row["contender"] in PEERS]
    if ours is None:
        return []
    rate = ours["images_per_second"]
    lines = [
        f"ours by default ({ours['arithmetic']}): {rate:,.0f} images/s"
        + (
            f", {100 * ours['share_of_limit']:.0f} % of the limit" if ours["share_of_limit"] else ""
        ),
        f"it makes {100 * ours['share_of_products']:.0f} % of the limit's products: in the last"
        " block only the class token is computed, as nothing else is read",
    ]
    if peers:
        best = max(peers, key=lambda row: row["images_per_second"])
        lines.append(
            f"{rate / best['images_per_second']:.2f} x the best peer "
            f"({best['contender']}, {best['setting']})"
        )
    plain = [row["images_per_second"] for row in peers if row["setting"] == "float32"]
    if plain:
        lines.append(f"{rate / median(plain):.2f} x the median peer in its default, float32")
    return lines


def panels(rows: Sequence[Row], sizes: Sizes) -> "list[Panel]":
    """Draw the contenders, grouped by setting, under the limit of each."""
    from vit_lightning.viz.bars import Bar, Panel

    limits = {row["setting"]: row["images_per_second"] for row in rows if row["contender"] == LIMIT}
    return [
        Panel(
            title=f"Training step: {sizes.step.describe()}",
            unit="images per second",
            bars=[
                Bar(
                    _group(row["setting"], row["arithmetic"]),
                    row["contender"],
                    row["images_per_second"],
                    spread=row["spread"],
                )
                for row in sorted(rows, key=lambda row: row["setting"] == "default")
                if row["contender"] != LIMIT
            ],
            limits={
                _group(row["setting"], row["arithmetic"]): limits[row["arithmetic"]]
                for row in rows
                if row["contender"] != LIMIT and row["arithmetic"] in limits
            },
            limit_name="limit: matrix products alone",
        )
    ]


def _share_of_products(sizes: Sizes) -> float:
    ours, all_tokens = (
        sum(product.flops for product in step_products(sizes.step, num_read))
        for num_read in (1, None)
    )
    return ours / all_tokens


def _group(setting: str, kind: str) -> str:
    return f"default ({kind})" if setting == "default" else setting.replace("+", " + ")


PART = Part(
    rounds=5,
    jobs=jobs,
    measure=measure,
    rows=rows,
    columns={
        "images/s": number("images_per_second"),
        "": spread,
        "of limit": percent("share_of_limit"),
        "MB a step": number("peak_mb"),
        "GFLOPS": number("gflops"),
    },
    verdict=verdict,
    panels=panels,
)
