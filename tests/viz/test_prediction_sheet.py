import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from vit_lightning.viz.page import WRONG
from vit_lightning.viz.prediction_sheet import as_channels_first, prediction_sheet


def pixels(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_each_picture_has_its_class_its_confidence_and_the_verdict() -> None:
    images = [pixels(3, 32, 32), pixels(300, 200, 3), pixels(28, 28), torch.zeros(1, 8, 8).byte()]
    figure = prediction_sheet(
        images, ["cat", "automobile", "$7", "7"], [0.876, 1.0, 0.0, 0.5], ["cat", "frog", "7", None]
    )
    assert texts(figure) == [
        *("cat", "88 %, correct"),
        *("automobile", "100 %, is frog"),
        *("$7", "0 %, is 7"),
        *("7", "50 %"),
    ]
    colors = [text.get_color() for text in figure.axes[0].texts]
    assert [color == WRONG for color in colors] == [False] * 2 + [True] * 4 + [False] * 2
    frames = [patch.get_width() - 1 for patch in figure.axes[0].patches]
    drawn = [image.get_extent()[1] - image.get_extent()[0] for image in figure.axes[0].images]
    bold = [frame - width > 2 for frame, width in zip(frames, drawn, strict=True)]
    assert bold == [False, True, True, False]


def test_everything_lies_on_the_page_and_nothing_overlaps() -> None:
    number = 13
    images = [pixels(3, 32, 32)] * 11 + [pixels(500, 20, 3), pixels(28, 28)]
    names = ["automobile", "W" * 40, *["gy"] * 11]
    truths = ["gy" * 40] * number
    figure = prediction_sheet(images, names, [0.5] * number, truths, "A title")
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    boxes = [artist.get_window_extent() for artist in (*axes.texts, *axes.images)]
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
        assert box.count_overlaps(boxes[i + 1 :]) == 0
    assert "automobile" in texts(figure)  # there is room for the names of CIFAR-10


def test_pictures_come_whichever_way_round() -> None:
    picture = pixels(3, 5, 7)
    for image in (picture, picture.transpose(1, 2, 0), torch.from_numpy(picture)):
        np.testing.assert_array_equal(as_channels_first(image), picture)
    assert as_channels_first(pixels(5, 7)).shape == (1, 5, 7)
    assert as_channels_first(pixels(5, 7, 1)).shape == (1, 5, 7)
    # Either end could be the channels: first in a tensor, last in an array.
    assert as_channels_first(torch.from_numpy(pixels(3, 5, 1))).shape == (3, 5, 1)
    assert as_channels_first(pixels(3, 5, 1)).shape == (1, 3, 5)


def test_arrays_that_cannot_be_written_to_are_fine() -> None:
    image = pixels(3, 5, 7)
    image.flags.writeable = False
    prediction_sheet(image[None], ["cat"], [1.0])


def test_mismatched_input_is_refused() -> None:
    image = pixels(3, 5, 7)
    with pytest.raises(ValueError, match="at least one picture"):
        prediction_sheet([], [], [])
    with pytest.raises(ValueError, match="confidences must be given for each of the 1 images"):
        prediction_sheet([image], ["cat"], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"confidences must be 0 to 1, got 87\.6"):
        prediction_sheet([image], ["cat"], [87.6])
    with pytest.raises(ValueError, match=r"must be uint8, .* got torch.float64 of shape \(3, 5, 7"):
        prediction_sheet([image / 255], ["cat"], [0.5])
    with pytest.raises(ValueError, match=r"got torch.uint8 of shape \(4, 5, 7\)"):
        prediction_sheet([pixels(4, 5, 7)], ["cat"], [0.5])
