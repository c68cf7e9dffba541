import pytest
import torch

from vit_lightning.viz.attention import pixels, sequence_attention, to_png


def test_one_panel_per_layer_and_head_with_tokens_on_both_axes():
    maps = [torch.eye(5).expand(3, 5, 5), torch.eye(5).flip(0).expand(3, 5, 5)]
    figure = sequence_attention(maps, list("abcde"), "a title")
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == [
        f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2, 3)
    ]
    for axes in panels:
        assert [t.get_text() for t in axes.get_xticklabels()] == list("abcde")
        assert [t.get_text() for t in axes.get_yticklabels()] == list("abcde")
    assert panels[3].images[0].get_array()[0, 4] == 1.0  # queries downwards, keys to the right
    assert panels[0].get_ylabel() == "token (query)"
    assert panels[3].get_xlabel() == "attends to (key)"


def test_png_and_its_pixels():
    figure = sequence_attention([torch.eye(5)[None]], list("abcde"))
    png = to_png(figure)
    assert png.startswith(b"\x89PNG")
    image = pixels(png)
    assert image.shape[-1] == 3
    assert len(image.reshape(-1, 3).max(0)) == 3
    assert image.std() > 10


def test_tokens_must_fit():
    with pytest.raises(ValueError, match="5 tokens have attention but 2 were named"):
        sequence_attention([torch.eye(5)[None]], ["a", "b"])
