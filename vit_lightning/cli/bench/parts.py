"""What a part of the benchmark is made of, and where to find each by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vit_lightning.cli.bench.sizes import SIZES, Sizes

if TYPE_CHECKING:
    from vit_lightning.cli.bench.gate import Gate
    from vit_lightning.viz.bars import Panel

Figures = Mapping[str, Any]
Row = dict[str, Any]

# Said here and not in the modules, so that --help need not import them.
PARTS = {
    "step": "a training step of the same ViT in every library, and the limit of matrix products",
    "epoch": "a whole epoch of ours against the bare step and a notebook-style Lightning ViT",
    "attention": "attention kernels against sequence length: time, memory and what auto picks",
    "reverse": "seconds until a transformer reverses sequences without a mistake",
    "memory": "peak memory and cost of a training step as batch and pictures grow",
}


@dataclass(frozen=True)
class Job:
    """One contender in one setting, in words that can be sent to its process."""

    part: str
    contender: str
    setting: str
    size: str
    threads: int

    @property
    def sizes(self) -> Sizes:
        """How large everything is."""
        return SIZES[self.size]

    @property
    def name(self) -> str:
        """How the job is called on screen."""
        return f"{self.contender} {self.setting}".strip()


@dataclass(frozen=True)
class Sample:
    """What a job answered in one round for one case."""

    job: Job
    case: Mapping[str, Any]
    figures: Figures


@dataclass(frozen=True)
class Wish:
    """What a person asked for."""

    size: str
    threads: int
    contenders: Sequence[str]
    settings: Sequence[str]

    def job(self, part: str, contender: str, setting: str) -> Job:
        """Make the job of a contender."""
        return Job(part, contender, setting, self.size, self.threads)


@dataclass(frozen=True)
class Part:
    """A part of the benchmark.

    Attributes:
        rounds: how often each contender gets its turn, unless the person says otherwise.
        jobs: the contenders for a wish, and the names of those that are not installed.
        measure: runs in the contender's process; prepares, then answers at the gate.
        rows: what was sampled as rows of the table; each has `contender` and `setting`.
        columns: heading of a column and how a row is written there.
        verdict: what the rows say, in sentences.
        panels: the rows, measured at these sizes, as charts.
        cases: what each contender measures in a round, one after the other, for these sizes.
        fresh: whether every measurement needs a new process.
    """

    rounds: int
    jobs: Callable[[Wish], tuple[list[Job], list[str]]]
    measure: Callable[[Job, "Gate"], None]
    rows: Callable[[Sequence[Sample]], list[Row]]
    columns: Mapping[str, Callable[[Row], str]]
    verdict: Callable[[Sequence[Row]], list[str]]
    panels: Callable[[Sequence[Row], Sizes], "list[Panel]"]
    cases: Callable[[Sizes], list[dict[str, Any]]] = lambda sizes: [{}]
    fresh: bool = False


def find_part(name: str) -> Part:
    """Return the part of that name."""
    part: Part = import_module(f"vit_lightning.cli.bench.{name}").PART
    return part
