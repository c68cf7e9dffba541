"""Learning curves: loss and score against epoch, for one run or several, up to chosen horizons."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit_lightning.viz.values import format_value

History = Mapping[str, Sequence[tuple[int, float]]]
"""For each metric, such as "val/acc", pairs of an epoch (counted from 1) and a value."""

# Okabe and Ito's colours, which colour-blind people tell apart too.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
STYLES = {"train": "--", "val": "-"}
NAMES = {"loss": "loss", "acc": "accuracy (%)", "r2": "R²"}


def learning_curves(
    runs: Mapping[str, History], horizons: Sequence[int] = (), title: str = ""
) -> Figure:
    """Draws loss on the left and accuracy (or R²) on the right, train dashed and val solid.

    Args:
        runs: For each run, by the name it has in the legend, the history of its metrics:
            `train/` and `val/` followed by `loss`, `acc` (as a fraction) or `r2`.
        horizons: Numbers of epochs; each gets a row of panels that show epochs 1 to there, and the
            values reached there. None means one row with all epochs.
        title: Above the panels.

    Returns:
        A figure that belongs to no window.
    """
    if not runs:
        raise ValueError("runs must hold at least one run, got none.")
    lengths = {name: _last_epoch(name, history) for name, history in runs.items()}
    for horizon in horizons:
        if horizon < 1:
            raise ValueError(f"horizons must be at least 1 epoch, got {horizon}.")
        for name, length in lengths.items():
            if horizon > length:
                raise ValueError(
                    f"the horizon of {horizon} epochs is beyond the {length} that {name} has."
                )
    rows = sorted(set(horizons)) or [max(lengths.values())]
    metrics = ("loss", _score(runs))
    figure = Figure(figsize=(12, 0.6 + 3.8 * len(rows)), dpi=110, layout="constrained")
    # One scale for a column: what looks lower is lower, whichever the horizon.
    grid = figure.subplots(len(rows), 2, squeeze=False, sharey="col")
    for horizon, panels in zip(rows, grid, strict=True):
        for metric, panel in zip(metrics, panels, strict=True):
            _draw(panel, runs, metric, horizon)
    for metric, panel in zip(metrics, grid[0], strict=True):
        _frame(panel, metric)
    if title:
        figure.suptitle(title, fontsize=14, fontweight="bold", parse_math=False)
    return figure


def value_at(points: Sequence[tuple[int, float]], epoch: int) -> tuple[int, float] | None:
    """The last pair at or before an epoch: what a run had reached by then, and when."""
    return max((point for point in points if point[0] <= epoch), default=None)


def _draw(panel: Axes, runs: Mapping[str, History], metric: str, horizon: int) -> None:
    """Draws all runs up to a horizon, the values they have there in the legend."""
    for i, (name, history) in enumerate(runs.items()):
        for stage, style in STYLES.items():
            points = sorted(p for p in history.get(f"{stage}/{metric}", ()) if p[0] <= horizon)
            reached = value_at(points, horizon)
            if reached is None:
                continue
            epoch, value = reached
            label = f"{stage} {format_value(metric, value)}"
            if len(runs) > 1:
                label = f"{name}: {label}"
            if epoch < horizon:
                label += f" at {epoch}"
            panel.plot(
                [epoch for epoch, _ in points],
                [100 * value if metric == "acc" else value for _, value in points],
                style,
                color=COLORS[i % len(COLORS)],
                label=label,
                linewidth=1.8,
                marker="o",
                markersize=4 if len(points) <= 30 else 0,
            )
    name = NAMES[metric]
    span = "epoch 1" if horizon == 1 else f"epochs 1 to {horizon}"
    panel.set_title(f"{name.removesuffix(' (%)').capitalize()}, {span}", loc="left")
    panel.set_xlabel("epoch")
    panel.set_ylabel(name)
    margin = max(0.3, 0.02 * horizon)
    panel.set_xlim(1 - margin, horizon + margin)
    panel.set_xticks(epoch_ticks(horizon))
    panel.tick_params(labelleft=True)
    panel.grid(alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
    if panel.lines:
        legend = panel.legend(
            title=f"at epoch {horizon}",
            loc="best" if metric == "loss" else "lower right",  # scores rise and leave it free
            framealpha=0.9,
            handlelength=3.2,
            fontsize=9,
        )
        for text in legend.get_texts():
            text.set_parse_math(False)


def _frame(panel: Axes, metric: str) -> None:
    """Starts losses at 0 and ends accuracies at 100 %, with room for the line's width."""
    high = panel.get_ylim()[1]
    if metric == "loss" and panel.dataLim.y0 >= 0:
        panel.set_ylim(bottom=0)
    elif metric == "acc":
        panel.set_ylim(top=min(high, 100.5))


def epoch_ticks(last: int) -> list[int]:
    """Whole epochs to mark on an axis: the first, the last, and round ones between."""
    step = next(10**k * n for k in range(10) for n in (1, 2, 5) if last <= 10 * 10**k * n)
    between = [t for t in range(step, last, step) if t > 1 + step // 3 and last - t > step // 3]
    return sorted({1, *between, last})


def _last_epoch(name: str, history: History) -> int:
    epochs = [epoch for points in history.values() for epoch, _ in points]
    if not epochs:
        raise ValueError(f"the run {name} has no values to draw.")
    return max(epochs)


def _score(runs: Mapping[str, History]) -> str:
    """The metric of the right-hand panels."""
    found = {metric.partition("/")[2]: name for name, history in runs.items() for metric in history}
    scores = {metric: name for metric, name in found.items() if metric in ("acc", "r2")}
    if len(scores) > 1:
        raise ValueError(
            f"{scores['acc']} has accuracies but {scores['r2']} has R², which share no axis."
        )
    return next(iter(scores), "acc")
