"""`vit-lightning bench`: how fast this machine trains, ours beside everyone else's."""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit_lightning.cli.bench.parts import PARTS
from vit_lightning.cli.bench.sizes import SIZES, Sizes
from vit_lightning.cli.errors import run_command
from vit_lightning.cli.run_record import new_run_folder

if TYPE_CHECKING:
    from vit_lightning.cli.bench.parts import Part, Row, Wish
    from vit_lightning.cli.bench.rounds import Rounds

BUSY = 0.5  # load of the machine from which on the figures are in doubt

EXAMPLES = """parts:
{parts}

examples:
  {command}                                            everything, an hour or so
  {command} --parts step --contenders ours timm        two libraries
  {command} --parts step attention --json out.json     two parts, the rows to a file
  {command} --size tiny                                a try, whose figures mean nothing

Each contender runs in a process of its own, about half a GB of memory each, and they take turns:
round after round, one at a time. Leave the machine alone meanwhile. timm, transformers and
vit-pytorch take part if they are installed (pip install 'vit_lightning[bench]'). All figures are
of the processor, not of a GPU."""


def main(argv: Sequence[str] | None = None, command: str = "vit-lightning bench") -> int:
    """Run the command.

    Args:
        argv: the arguments, or None for those of the process.
        command: what the person typed, for the help.
    """
    return run_command(lambda arguments: _run(arguments, command), argv)


def _parser(command: str) -> argparse.ArgumentParser:
    parts = "\n".join(f"  {name:<10} {text}" for name, text in PARTS.items())
    parser = argparse.ArgumentParser(
        prog=command,
        description="Measure how fast this machine trains transformers, ours and other people's,"
        " and how far each is from what its arithmetic allows.",
        epilog=EXAMPLES.format(parts=parts, command=command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--parts", nargs="+", metavar="PART", default=list(PARTS), help="which (default: all)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help="turns of each contender, of which the median counts (default: what the part needs)",
    )
    parser.add_argument(
        "--contenders",
        nargs="+",
        metavar="NAME",
        default=[],
        help="whom to measure in the part step: ours, torchvision, timm, transformers-vit,"
        " transformers-bert, vit-pytorch, torch-encoder (default: all)",
    )
    parser.add_argument(
        "--settings",
        nargs="+",
        metavar="NAME",
        default=[],
        help="in which settings in the part step: float32, bf16, bf16+compile (default: all)",
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="of each process (default: physical cores)"
    )
    parser.add_argument(
        "--size", default="full", metavar="SIZE", help="full, or tiny to try it (default: full)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as a JSON list")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _run(arguments: list[str], command: str) -> int:
    args = _parser(command).parse_args(arguments)
    _one_of("--parts", args.parts, PARTS)
    _one_of("--size", [args.size], SIZES)
    for flag, value in (("--rounds", args.rounds), ("--threads", args.threads)):
        if value is not None and value < 1:
            raise ValueError(f"{flag} must be at least 1, got {value}")
    # Imported late: --help should not wait for torch.
    from vit_lightning.cli.bench.machine import describe_machine, usable_cores
    from vit_lightning.cli.bench.parts import Wish, find_part
    from vit_lightning.cli.bench.report import write_json
    from vit_lightning.cli.bench.rounds import Rounds, Worker
    from vit_lightning.cli.bench.step import CONTENDERS
    from vit_lightning.cli.bench.training import SETTINGS

    _one_of("--contenders", args.contenders, CONTENDERS)
    _one_of("--settings", args.settings, SETTINGS)
    wish = Wish(args.size, args.threads or usable_cores(), args.contenders, args.settings)
    machine = describe_machine(wish.threads)
    for name, value in machine.items():
        print(f"{name:<13} {value}")
    if float(machine["load"]) > BUSY:
        print(f"note: other programs are at work (load {machine['load']}); figures will be too low")
    folder = _new_folder()
    if args.json is not None:
        write_json(args.json, [])  # if it cannot be written, better to know before the hour
    everything: list[dict[str, Any]] = []
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no idle helpers in memory
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as scratch:
        rounds = Rounds(lambda job: Worker(job, Path(scratch)))
        for name in dict.fromkeys(args.parts):
            part = find_part(name)
            rows = _measure(name, part, wish, args.rounds or part.rounds, rounds)
            if rows:
                everything += rows
                _report(name, part, rows, SIZES[args.size], machine, folder)
            write_json(folder / "results.json", {"machine": machine, "rows": everything})
            if args.json is not None:
                write_json(args.json, everything)
    print(f"\nresults  {folder / 'results.json'}")
    if not everything:
        print("error: nothing could be measured", file=sys.stderr)
        return 1
    return 0


def _measure(
    name: str, part: "Part", wish: "Wish", num_rounds: int, rounds: "Rounds"
) -> "list[Row]":
    """Measure a part and name what could not be."""
    jobs, absent = part.jobs(wish)
    print(f"\n{name}: {PARTS[name]}", flush=True)
    for peer in absent:
        print(f"skipped {peer}: it is not installed")
    cases = part.cases(SIZES[wish.size])
    samples = rounds.run(jobs, cases, num_rounds, fresh=part.fresh)
    for job in jobs:
        if job in rounds.failures:
            print(f"skipped {job.name}: {rounds.failures[job]}")
    return [{"part": name, **row} for row in part.rows(samples)]


def _report(
    name: str,
    part: "Part",
    rows: "list[Row]",
    sizes: Sizes,
    machine: dict[str, str | float],
    folder: Path,
) -> None:
    """Print the table and what it says, and draw it."""
    from vit_lightning.cli.bench.report import format_table
    from vit_lightning.viz.bars import grouped_bars
    from vit_lightning.viz.figure_file import save_figure

    print(format_table(rows, part.columns))
    for line in part.verdict(rows):
        print(f"- {line}")
    panels = [panel for panel in part.panels(rows, sizes) if panel.bars]
    if panels:
        note = "{processor} ({instructions}), threads: {threads}, torch {torch}".format(**machine)
        path = folder / f"{name}.png"
        save_figure(grouped_bars(panels, note=note), path)
        print(f"chart    {path}", flush=True)


def _new_folder() -> Path:
    """Return the folder of this run, numbered after the last one."""
    try:
        return new_run_folder("bench")
    except OSError as error:
        raise ValueError(f"cannot write {error.filename}: {error.strerror or error}") from error


def _one_of(flag: str, values: Sequence[str], allowed: Sequence[str] | dict[str, Any]) -> None:
    for value in values:
        if value not in allowed:
            raise ValueError(f"{flag} must be among {', '.join(allowed)}, got {value!r}")
