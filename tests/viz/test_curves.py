import io

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from vit_lightning.viz.curves import epoch_ticks, learning_curves, value_at
from vit_lightning.viz.values import format_value


def history(num_epochs: int, score: str = "acc") -> dict[str, list[tuple[int, float]]]:
    epochs = range(1, num_epochs + 1)
    return {
        "train/loss": [(e, 2 / e) for e in epochs],
        "val/loss": [(e, 3 / e) for e in epochs],
        f"train/{score}": [(e, 1 - 0.5 / e) for e in epochs],
        f"val/{score}": [(e, 1 - 0.75 / e) for e in epochs],
    }


def legend(panel) -> list[str]:
    return [text.get_text() for text in panel.get_legend().get_texts()]


def test_loss_on_the_left_and_accuracy_in_per_cent_on_the_right() -> None:
    figure = learning_curves({"a run": history(7)})
    loss, accuracy = figure.axes
    assert (loss.get_xlabel(), loss.get_ylabel()) == ("epoch", "loss")
    assert (accuracy.get_xlabel(), accuracy.get_ylabel()) == ("epoch", "accuracy (%)")
    train, val = accuracy.lines
    assert (train.get_linestyle(), val.get_linestyle()) == ("--", "-")
    assert train.get_color() == val.get_color()
    assert list(val.get_xdata()) == [1, 2, 3, 4, 5, 6, 7]
    assert list(val.get_ydata()) == pytest.approx([100 - 75 / e for e in range(1, 8)])
    assert legend(accuracy) == ["train 92.86 %", "val 89.29 %"]
    assert legend(loss) == ["train 0.2857", "val 0.4286"]
    assert list(loss.get_xticks()) == [1, 2, 3, 4, 5, 6, 7]


def test_epochs_increase_whatever_the_order_they_come_in() -> None:
    backwards = {metric: points[::-1] for metric, points in history(5).items()}
    for panel in learning_curves({"a": backwards}).axes:
        for line in panel.lines:
            assert list(line.get_xdata()) == [1, 2, 3, 4, 5]


def test_a_row_for_each_horizon_with_the_values_reached_there() -> None:
    figure = learning_curves({"a": history(53)}, [20, 10, 10, 50])
    assert len(figure.axes) == 6
    for row, horizon in enumerate([10, 20, 50]):
        loss, accuracy = figure.axes[2 * row : 2 * row + 2]
        for panel in (loss, accuracy):
            assert list(panel.lines[0].get_xdata()) == list(range(1, horizon + 1))
            assert panel.get_title(loc="left").endswith(f"epochs 1 to {horizon}")
            assert panel.get_xticks()[-1] == horizon
        assert legend(accuracy)[1] == f"val {100 - 75 / horizon:.2f} %"


def test_runs_overlay_each_in_its_colour() -> None:
    figure = learning_curves({"first": history(3), "second": history(5)})
    colors = [line.get_color() for line in figure.axes[0].lines]
    assert colors[0] == colors[1] != colors[2] == colors[3]
    assert legend(figure.axes[1])[1] == "first: val 75.00 % at 3"  # where it ended
    assert legend(figure.axes[1])[3] == "second: val 85.00 %"


def test_runs_that_lack_something_are_drawn_all_the_same() -> None:
    sparse = {"train/loss": [(1, 0.5), (2, float("nan"))], "val/loss": [(2, 0.25)]}
    figure = learning_curves({"a $x^2$ run": sparse, "b": history(2, "r2")}, title="$ and %")
    FigureCanvasAgg(figure).draw()
    assert figure.axes[1].get_ylabel() == "R²"
    assert len(figure.axes[0].lines) == 4
    assert len(figure.axes[1].lines) == 2
    only_loss = learning_curves({"a": sparse})
    only_loss.savefig(io.BytesIO(), format="png")


def test_impossible_wishes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"horizon of 50 epochs is beyond the 30 that b has"):
        learning_curves({"a": history(60), "b": history(30)}, [10, 50])
    with pytest.raises(ValueError, match="at least 1 epoch, got 0"):
        learning_curves({"a": history(3)}, [0])
    with pytest.raises(ValueError, match="at least one run"):
        learning_curves({})
    with pytest.raises(ValueError, match="the run a has no values"):
        learning_curves({"a": {"val/acc": []}})
    with pytest.raises(ValueError, match=r"a has accuracies but b has R², which share no axis"):
        learning_curves({"a": history(3), "b": history(3, "r2")})


@pytest.mark.parametrize(
    ("last", "ticks"),
    [
        (1, [1]),
        (2, [1, 2]),
        (10, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (20, [1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20]),
        (50, [1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50]),
        (101, [1, 20, 40, 60, 80, 101]),
        (1000, [1, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]),
    ],
)
def test_ticks_are_whole_epochs_from_the_first_to_the_last(last: int, ticks: list[int]) -> None:
    assert epoch_ticks(last) == ticks


def test_values_are_those_reached_by_then_written_as_they_are_read() -> None:
    assert value_at([(5, 0.5), (10, 0.75)], 9) == (5, 0.5)
    assert value_at([(5, 0.5)], 4) is None
    assert format_value("val/acc", 0.9461) == "94.61 %"
    assert format_value("val/loss", 0.25) == "0.2500"
