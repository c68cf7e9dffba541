import math

import pytest
import torch

from vit_lightning.nn import PositionalEncoding, sincos_2d


@pytest.mark.parametrize("d_model", [6, 7])
def test_is_the_papers_formula(d_model):
    added = PositionalEncoding(d_model, 11)(torch.zeros(1, 5, d_model))[0]
    for position in range(5):
        for i in range(d_model):
            angle = position / 10000 ** (2 * (i // 2) / d_model)
            expected = math.cos(angle) if i % 2 else math.sin(angle)
            assert added[position, i].item() == pytest.approx(expected, abs=1e-6)


def test_longer_input_is_an_error_and_max_len_is_obeyed():
    # The notebook's max_len of 16 limited sequences in silence.
    encoding = PositionalEncoding(6, 17)
    assert encoding(torch.zeros(2, 17, 6)).shape == (2, 17, 6)
    with pytest.raises(ValueError, match=r"18 tokens but max_len is 17"):
        encoding(torch.zeros(2, 18, 6))
    assert PositionalEncoding(6)(torch.zeros(1, 4999, 6)).shape == (1, 4999, 6)


def test_is_not_in_the_state_dict():
    assert PositionalEncoding(6).state_dict() == {}


def test_refuses_negative_sizes():
    with pytest.raises(ValueError, match="-3"):
        PositionalEncoding(6, -3)


def test_sincos_2d_is_the_papers_formula_for_row_and_column():
    height, width, dim = 3, 5, 8
    encoding = sincos_2d(height, width, dim)
    assert encoding.shape == (height * width, dim)
    for row in range(height):
        for column in range(width):
            for i in range(dim):
                half, within = divmod(i, dim // 2)
                angle = (row, column)[half] / 10000 ** (2 * (within // 2) / (dim // 2))
                expected = math.cos(angle) if i % 2 else math.sin(angle)
                found = encoding[row * width + column, i].item()
                assert found == pytest.approx(expected, abs=1e-6)


def test_sincos_2d_tells_every_place_apart():
    encoding = sincos_2d(11, 13, 12)
    distance = torch.cdist(encoding, encoding).fill_diagonal_(1.0)
    assert distance.min() > 0.1


@pytest.mark.parametrize("sizes", [(3, 5, 6), (3, 5, 0), (0, 5, 8), (3, -1, 8)])
def test_sincos_2d_refuses(sizes):
    with pytest.raises(ValueError, match="must be"):
        sincos_2d(*sizes)
