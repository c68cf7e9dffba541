"""Bar charts of measurements: bars in groups, how far rounds lie apart, and limits as lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from vit_lightning.viz.curves import COLORS

HIGHLIGHT = "#d55e00"
# Without black, which would stand out more than the highlight.
MUTED = (*(color for color in COLORS if color not in (HIGHLIGHT, "#000000")), "#999999")
WIDTH = 0.84  # of a group, of the room between two


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        group: what it stands over.
        series: what its colour stands for.
        value: its height.
        spread: how far below and above it measurements lie, as a share of the value.
    """

    group: str
    series: str
    value: float
    spread: float = 0.0


@dataclass(frozen=True)
class Panel:
    """Bars that share an axis.

    Attributes:
        title: above them.
        unit: beside the axis of values.
        bars: groups and series come in the order in which they first appear here.
        limits: for each group that has one, the height of a line across it.
        limit_name: what the line is called in the legend.
        log: whether the axis is logarithmic.
        axis: below the groups.
        highlight: the series that stands out.
    """

    title: str
    unit: str
    bars: Sequence[Bar]
    limits: Mapping[str, float] = field(default_factory=dict)
    limit_name: str = "limit"
    log: bool = False
    axis: str = ""
    highlight: str = "ours"


def grouped_bars(panels: Sequence[Panel], title: str = "", note: str = "") -> Figure:
    """Draws panels below each other.

    Args:
        panels: What to draw.
        title: Above all.
        note: Below all, such as what it was measured on.

    Returns:
        A figure that belongs to no window.
    """
    if not panels or not all(panel.bars for panel in panels):
        raise ValueError("panels must hold at least one panel, each with at least one bar.")
    figure = Figure(figsize=(13, 0.9 + 5.2 * len(panels)), dpi=120, layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for panel, ax in zip(panels, axes, strict=True):
        _draw(ax, panel)
    if title:
        figure.suptitle(title, fontsize=17, fontweight="bold", parse_math=False)
    if note:
        figure.supxlabel(note, fontsize=10, color="0.35", parse_math=False)
    return figure


def format_value(value: float) -> str:
    """Writes a number with the two or three digits that a reader takes in at a glance."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 10 else f"{value:.2g}"


def _draw(ax: Axes, panel: Panel) -> None:
    groups = list(dict.fromkeys(bar.group for bar in panel.bars))
    series = list(dict.fromkeys(bar.series for bar in panel.bars))
    places = _places(panel.bars, groups, series)
    colors = _colors(series, panel.highlight)
    high = max([bar.value * (1 + bar.spread) for bar in panel.bars] + list(panel.limits.values()))
    width = min(places.width, 0.42)
    longest = max(len(format_value(bar.value)) for bar in panel.bars)
    upright = len(panel.bars) * longest > 100  # side by side they would overlap
    for name in series:
        bars = [bar for bar in panel.bars if bar.series == name]
        centers = [places.centers[bar.group, name] for bar in bars]
        ax.bar(
            centers,
            [bar.value for bar in bars],
            width=0.92 * width,
            color=colors[name],
            label=name,
            edgecolor="black" if name == panel.highlight else "none",
            linewidth=1.2,
            yerr=[bar.value * bar.spread for bar in bars] if any(b.spread for b in bars) else None,
            error_kw={"ecolor": "0.25", "elinewidth": 1.2, "capsize": 2.5},
        )
        for center, bar in zip(centers, bars, strict=True):
            ax.annotate(
                format_value(bar.value),
                (center, bar.value * (1 + bar.spread)),
                (0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=9 if len(panel.bars) <= 24 else 7.5,
                rotation=90 if upright else 0,
                fontweight="bold" if name == panel.highlight else "normal",
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
                zorder=4,  # a limit that runs through it must not make it unreadable
            )
    for i, (group, limit) in enumerate(panel.limits.items()):
        center = groups.index(group)
        ends = (center - 0.48, center + 0.48)
        label = panel.limit_name if i == 0 else None
        ax.plot(ends, (limit, limit), "--", color="black", linewidth=1.6, label=label)
        ax.annotate(
            format_value(limit),
            (ends[1], limit),
            (0, 3),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=10,
        )
    _frame(ax, panel, groups, high)
    _legend(ax)


def _frame(ax: Axes, panel: Panel, groups: list[str], high: float) -> None:
    ax.set_title(panel.title, loc="left", fontsize=14, parse_math=False)
    ax.set_ylabel(panel.unit, fontsize=12)
    ax.set_xlabel(panel.axis, fontsize=12)
    ax.set_xticks(range(len(groups)), groups, fontsize=12 if len(groups) <= 12 else 10)
    ax.set_xlim(-0.55, len(groups) - 0.45)
    ax.tick_params(axis="y", labelsize=11)
    ax.tick_params(axis="x", length=0)
    if panel.log:
        ax.set_yscale("log")
        low = min(bar.value for bar in panel.bars if bar.value > 0)
        ax.set_ylim(low / 2, high * 4)  # bars of a logarithmic axis start wherever one looks
    else:
        ax.set_ylim(0, high * 1.12)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _legend(ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    if len(labels) < 2:
        return
    # Beside the bars, as they may be high anywhere.
    legend = ax.legend(
        handles, labels, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=11, frameon=False
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


@dataclass(frozen=True)
class _Places:
    centers: dict[tuple[str, str], float]
    width: float


def _places(bars: Sequence[Bar], groups: list[str], series: list[str]) -> _Places:
    """Puts the bars of each group side by side around its middle, in the order of the series."""
    members = {
        g: [s for s in series if any((b.group, b.series) == (g, s) for b in bars)] for g in groups
    }
    width = WIDTH / max(len(names) for names in members.values())
    bar_width = min(width, 0.42)
    centers = {
        (group, name): i + (j - (len(names) - 1) / 2) * bar_width
        for i, (group, names) in enumerate(members.items())
        for j, name in enumerate(names)
    }
    return _Places(centers, width)


def _colors(series: list[str], highlight: str) -> dict[str, str]:
    others = [name for name in series if name != highlight]
    colors = {name: MUTED[i % len(MUTED)] for i, name in enumerate(others)}
    return colors | {highlight: HIGHLIGHT}
