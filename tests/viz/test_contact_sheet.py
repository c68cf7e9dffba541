import io
import sys

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from vit_lightning.viz.contact_sheet import contact_sheet


def pictures(number: int, channels: int = 3, height: int = 32, width: int = 32) -> torch.Tensor:
    shape = (number, channels, height, width)
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)


def rendered(figure: Figure) -> np.ndarray:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3]


def shown(figure: Figure) -> list[np.ndarray]:
    """What the finished page holds at the place of each picture, at its enlarged size."""
    page = rendered(figure)
    result = []
    for image in figure.axes[0].images:
        left, right, bottom, top = (round(edge) for edge in image.get_extent())
        result.append(page[top:bottom, left:right])
    return result


def enlarged(image: torch.Tensor, scale: int) -> np.ndarray:
    pixels = image.expand(3, -1, -1).permute(1, 2, 0).numpy()
    return pixels.repeat(scale, axis=0).repeat(scale, axis=1)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize(("channels", "side", "scale"), [(3, 32, 4), (1, 28, 5), (1, 8, 16)])
def test_every_pixel_is_a_crisp_square(channels: int, side: int, scale: int) -> None:
    images = pictures(5, channels, side, side)
    figure = contact_sheet(images, list("abcde"))
    for square, image in zip(shown(figure), images, strict=True):
        np.testing.assert_array_equal(square, enlarged(image, scale))


def test_variants_stand_in_the_row_of_their_picture_right_of_it() -> None:
    images = pictures(3)
    variants = 255 - torch.stack([images, images // 2])
    figure = contact_sheet(images, ["cat", "dog", "ship"], variants)
    expected = [picture for i in range(3) for picture in (images[i], *variants[:, i])]
    for square, image in zip(shown(figure), expected, strict=True):
        np.testing.assert_array_equal(square, enlarged(image, 4))
    extents = np.array([image.get_extent() for image in figure.axes[0].images]).reshape(3, 3, 4)
    assert (np.diff(extents[:, :, 3], axis=1) == 0).all()  # one row
    assert (extents[:, 1:, 0] > extents[:, :-1, 1]).all()  # each to the right of the last
    assert (extents[1:, :, 3] > extents[:-1, :, 2]).all()  # each row below the last
    assert texts(figure) == ["original", "augmented", "cat", "dog", "ship"]


def test_headings_stand_above_their_columns_and_captions_under_their_pictures() -> None:
    images = pictures(2)
    variants = torch.stack([images] * 3)
    captions = [["a1", "b1"], ["a2", "b2"], ["a3", "b3"]]
    figure = contact_sheet(
        images, ["a", "b"], variants, headings=["crop", "flip", "mix"], captions=captions
    )
    places = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    extents = np.array([image.get_extent() for image in figure.axes[0].images]).reshape(2, 4, 4)
    for k, heading in enumerate(["original", "crop", "flip", "mix"]):
        assert places[heading][0] == extents[0, k, 0]
        assert places[heading][1] < extents[0, k, 3]
    for k in range(3):
        for i, name in enumerate("ab"):
            x, y = places[f"{name}{k + 1}"]
            assert x == extents[i, k + 1, 0]
            assert y > extents[i, k + 1, 2]


@pytest.mark.parametrize("kind", ["grid", "variants", "captions"])
def test_everything_lies_on_the_page_and_nothing_overlaps(kind: str) -> None:
    images = pictures(7)
    labels = ["airplane", "automobile", "WWWWWWWWWWWWWWWW", "m" * 99, "", "x", "frog"]
    variants = None if kind == "grid" else torch.stack([images] * 2)
    title = "A title that is quite a bit longer than that"
    if kind == "captions":
        captions = [["70 % automobile\n30 % " + "gy" * 30] * 7] * 2
        figure = contact_sheet(images, labels, variants, title, ["W" * 40, "all"], captions)
    else:
        figure = contact_sheet(images, labels, variants, title)
    page = figure.bbox
    rendered(figure)
    axes = figure.axes[0]
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
    boxes += [image.get_window_extent() for image in axes.images]
    for i, box in enumerate(boxes):
        assert box.x0 >= page.x0
        assert box.x1 <= page.x1
        assert box.y0 >= page.y0
        assert box.y1 <= page.y1
        assert box.count_overlaps(boxes[i + 1 :]) == 0


def test_labels_and_title_are_written_as_they_are() -> None:
    figure = contact_sheet(pictures(2), ["a $5 bill", "50 % $x^2$"], title="What $ costs")
    rendered(figure)
    assert texts(figure) == ["What $ costs", "a $5 bill", "50 % $x^2$"]
    assert all(not text.get_parse_math() for text in figure.axes[0].texts)


def test_a_list_may_hold_pictures_of_any_size_in_their_own_proportions() -> None:
    images = [pictures(1, 3, 300, 200)[0], pictures(1, 1, 7, 5)[0]]
    figure = contact_sheet(images, ["large", "small"])
    rendered(figure)
    for drawn, image in zip(figure.axes[0].images, images, strict=True):
        left, right, bottom, top = drawn.get_extent()
        assert (bottom - top) / (right - left) == pytest.approx(image.shape[1] / image.shape[2])
        assert bottom - top <= 128


def test_grey_pictures_are_not_stretched_to_full_contrast() -> None:
    figure = contact_sheet(torch.full((1, 1, 8, 8), 77, dtype=torch.uint8), ["flat"])
    assert np.unique(shown(figure)[0]).tolist() == [77]


def test_the_figure_saves_itself_and_opens_no_pyplot_window() -> None:
    pyplot = sys.modules.get("matplotlib.pyplot")
    before = pyplot.get_fignums() if pyplot else []
    buffer = io.BytesIO()
    contact_sheet(pictures(2), ["a", "b"]).savefig(buffer, format="png")
    assert buffer.getvalue().startswith(b"\x89PNG")
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert (pyplot.get_fignums() if pyplot else []) == before


def test_mismatched_input_is_refused() -> None:
    images = pictures(3)
    with pytest.raises(ValueError, match="one text for each of the 3 images, got 2"):
        contact_sheet(images, ["a", "b"])
    with pytest.raises(ValueError, match="must be uint8 pictures"):
        contact_sheet(images / 255, list("abc"))
    with pytest.raises(ValueError, match="at least one picture"):
        contact_sheet(images[:0], [])
    with pytest.raises(ValueError, match=r"shape \(versions, 3, channels, height, width\), got"):
        contact_sheet(images, list("abc"), images)
    with pytest.raises(ValueError, match=r"got \(1, 2, 3, 32, 32\)"):
        contact_sheet(images, list("abc"), images[None, :2])
    with pytest.raises(ValueError, match=r"got \(0, 3, 3, 32, 32\)"):
        contact_sheet(images, list("abc"), images[None][:0])
    with pytest.raises(ValueError, match="headings must be given for each of the 1 versions"):
        contact_sheet(images, list("abc"), images[None], headings=["one", "two"])
    with pytest.raises(ValueError, match="captions must have 3 texts for each version"):
        contact_sheet(images, list("abc"), images[None], captions=[["one", "two"]])
    with pytest.raises(ValueError, match="are those of variants, but there are none"):
        contact_sheet(images, list("abc"), headings=["one"])
