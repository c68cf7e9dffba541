"""From samples to figures, and from rows to a table on screen."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from vit_lightning.cli.bench.parts import Job, Row, Sample


def summarize(samples: Sequence[Sample], figure: str) -> dict[str, Any]:
    """Return the median of a figure, its spread, and what was measured in each round.

    The spread is half the distance from the lowest to the highest, as a share of the median.
    """
    values = [sample.figures[figure] for sample in samples]
    middle = median(values)
    spread = (max(values) - min(values)) / 2 / middle if middle else 0.0
    return {figure: middle, "spread": spread, "rounds": values}


def by_job(samples: Sequence[Sample]) -> dict[Job, list[Sample]]:
    """Sort samples by their contender, in the order in which they first had their turn."""
    groups: dict[Job, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.job, []).append(sample)
    return groups


def by_case(samples: Sequence[Sample]) -> list[tuple[Mapping[str, Any], list[Sample]]]:
    """Sort samples by what they measured."""
    groups: dict[str, tuple[Mapping[str, Any], list[Sample]]] = {}
    for sample in samples:
        groups.setdefault(json.dumps(sample.case), (sample.case, []))[1].append(sample)
    return list(groups.values())


def format_table(rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str]]) -> str:
    """Lay rows out under their headings: the words on the left, the numbers on the right."""
    words = ("contender", "setting")
    head = [*words, *columns]
    body = [
        [*(str(row[w]) for w in words), *(write(row) for write in columns.values())] for row in rows
    ]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]

    def lay_out(line: list[str]) -> str:
        cells = (
            cell.ljust(width) if i < len(words) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return "\n".join(lay_out(line) for line in [head, *body])


def number(name: str, form: str = ",.0f") -> Callable[[Row], str]:
    """Write a figure of a row as a number, or a dash where there is none."""
    return lambda row: "-" if row.get(name) is None else format(row[name], form)


def percent(name: str, form: str = ".0f") -> Callable[[Row], str]:
    """Write a share as per cent, or a dash where there is none."""
    return lambda row: "-" if row.get(name) is None else f"{100 * row[name]:{form}} %"


def spread(row: Row) -> str:
    """Write how far the rounds lie apart."""
    return f"± {100 * row['spread']:.0f} %" if row.get("spread") is not None else "-"


def find_row(rows: Sequence[Row], contender: str, setting: str | None = None) -> Row | None:
    """Return the first row of a contender, in a setting if that matters."""
    return next(
        (r for r in rows if r["contender"] == contender and setting in (None, r["setting"])), None
    )


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file that is also pleasant to read."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from error
