import io

import pytest
from matplotlib.colors import to_hex

from vit_lightning.viz.bars import HIGHLIGHT, Bar, Panel, format_value, grouped_bars


def panel(**changes) -> Panel:
    bars = [
        Bar("float32", "ours", 97.0, spread=0.1),
        Bar("float32", "theirs", 53.0),
        Bar("bf16", "ours", 401.0),
    ]
    return Panel(**{"title": "a step", "unit": "images per second", "bars": bars} | changes)


def test_bars_stand_over_their_group_in_the_colour_of_their_series() -> None:
    (axes,) = grouped_bars([panel()], "title", "a machine").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["float32", "bf16"]
    ours, theirs = axes.containers[1], axes.containers[2]  # the first are the error bars of ours
    assert [bar.get_height() for bar in ours] == [97, 401]
    assert [bar.get_height() for bar in theirs] == [53]
    middles = [bar.get_x() + bar.get_width() / 2 for bar in (*ours, *theirs)]
    assert middles[0] < 0 < middles[2]  # side by side around the first group
    assert middles[1] == pytest.approx(1)  # alone in the second
    assert {to_hex(bar.get_facecolor()) for bar in ours} == {HIGHLIGHT}
    assert axes.get_ylabel() == "images per second"
    assert axes.get_ylim()[0] == 0
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ours", "theirs"]
    assert {text.get_text() for text in axes.texts} == {"97", "53", "401"}


def test_the_limit_is_a_line_across_its_group() -> None:
    figure = grouped_bars([panel(limits={"bf16": 520.0}, limit_name="what is possible")])
    line = next(line for line in figure.axes[0].lines if line.get_label() == "what is possible")
    assert list(line.get_ydata()) == [520, 520]
    start, end = line.get_xdata()
    assert start < 1 < end
    assert figure.axes[0].get_ylim()[1] > 520


def test_panels_below_each_other_and_logarithmic_ones() -> None:
    figure = grouped_bars([panel(), panel(log=True, axis="tokens", highlight="theirs")], "$ and %")
    first, second = figure.axes
    assert first.get_position().y0 > second.get_position().y0
    assert (first.get_yscale(), second.get_yscale()) == ("linear", "log")
    assert second.get_ylim()[0] > 0
    assert second.get_xlabel() == "tokens"
    figure.savefig(io.BytesIO(), format="png")


def test_nothing_to_draw_is_refused() -> None:
    for panels in ([], [panel(bars=[])]):
        with pytest.raises(ValueError, match="at least one bar"):
            grouped_bars(panels)


@pytest.mark.parametrize(
    ("value", "text"), [(12345.6, "12,346"), (401.4, "401"), (33.04, "33"), (9.87, "9.9"), (0, "0")]
)
def test_values_are_short(value: float, text: str) -> None:
    assert format_value(value) == text
