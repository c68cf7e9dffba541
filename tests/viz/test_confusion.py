import pytest
import torch

from vit_lightning.viz.confusion import confusion_matrix

COUNTS = torch.tensor([[8, 2, 0], [0, 5, 0], [0, 0, 0]])


def test_each_row_is_in_per_cent_of_its_true_class():
    figure = confusion_matrix(COUNTS, ["cat", "dog", "ship"], "some set")
    axes = figure.axes[0]
    shown = {tuple(map(int, text.get_position())): text.get_text() for text in axes.texts}
    assert shown == {(0, 0): "80.0", (1, 0): "20.0", (1, 1): "100.0"}  # (predicted, true)
    assert axes.get_title() == "some set"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted class", "true class")
    for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [tick.get_text() for tick in ticks] == ["cat", "dog", "ship"]


def test_numbers_stay_readable_on_their_colour():
    texts = confusion_matrix(COUNTS, ["cat", "dog", "ship"]).axes[0].texts
    assert {text.get_text(): text.get_color() for text in texts} == {
        "80.0": "white",
        "20.0": "black",
        "100.0": "white",
    }


def test_it_can_be_drawn_without_a_title_and_without_pictures():
    confusion_matrix(torch.zeros(2, 2), ["a", "b"]).canvas.draw()


def test_as_many_names_as_classes():
    with pytest.raises(ValueError, match=r"2 classes are named but counts has the shape \(3, 3\)"):
        confusion_matrix(COUNTS, ["cat", "dog"])
