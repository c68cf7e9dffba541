import pytest
import torch

from vit_lightning.viz.page import MARGIN, cell_side, draw, new_page, shorten, text_width


def test_a_page_has_room_for_its_contents_and_its_title() -> None:
    page = new_page(300, 200, "title")
    width, height = page.figure.get_size_inches() * page.figure.dpi
    assert width == pytest.approx(300 + 2 * MARGIN)
    assert height == pytest.approx(page.top + 200 + MARGIN)
    assert page.top > new_page(300, 200).top == MARGIN
    wide = new_page(10, 10, "a title that is wider than its page")
    assert wide.figure.get_size_inches()[0] > 3


def test_cells_are_whole_multiples_of_small_pictures() -> None:
    assert cell_side(torch.zeros(2, 3, 32, 32)) == 128
    assert cell_side(torch.zeros(2, 1, 28, 28)) == 140
    assert cell_side([torch.zeros(3, 5, 7), torch.zeros(1, 300, 400)]) == 128


def test_texts_are_cut_to_their_width() -> None:
    assert shorten("frog", 100) == "frog"
    cut = shorten("a very long name of a class", 100)
    assert cut.endswith("…")
    assert 80 < text_width(cut) <= 100
    assert len(shorten("a very long name of a class", 100, size=12)) > len(cut)


def test_a_frame_is_bold_and_of_its_colour() -> None:
    page = new_page(100, 100)
    picture = torch.zeros(3, 32, 32, dtype=torch.uint8)
    draw(page.axes, picture, 0, 0, 64)
    draw(page.axes, picture, 0, 0, 64, frame="#ff0000")
    thin, bold = page.axes.patches
    assert thin.get_width() == 66
    assert bold.get_width() == 72
    assert bold.get_facecolor() == (1, 0, 0, 1)
