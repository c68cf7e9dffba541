import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from vit_lightning.viz.page import FAINT, WRONG
from vit_lightning.viz.picture_attention import (
    attention_over_patches,
    picture_attention,
    rollout,
)


def maps(layers: int = 3, batch: int = 2, heads: int = 5, tokens: int = 7) -> list[torch.Tensor]:
    return [torch.randn(batch, heads, tokens, tokens).softmax(dim=-1) for _ in range(layers)]


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_rollout_is_a_mixture_of_tokens() -> None:
    result = rollout(maps())
    assert result.shape == (2, 7, 7)
    assert (result > 0).all()
    torch.testing.assert_close(result.sum(dim=-1), torch.ones(2, 7))


def test_tokens_that_attend_to_themselves_stay_what_they_are() -> None:
    identity = torch.eye(7).expand(2, 5, 7, 7)
    torch.testing.assert_close(rollout([identity] * 3), torch.eye(7).expand(2, 7, 7))


def test_rollout_by_hand() -> None:
    # One head. First layer: both tokens look at token 0; second: both look at token 1.
    first = torch.tensor([[1.0, 0.0], [1.0, 0.0]])[None, None]
    second = torch.tensor([[0.0, 1.0], [0.0, 1.0]])[None, None]
    # Half of each is itself: [[1, 0], [.5, .5]] and [[.5, .5], [0, 1]], the second applied last.
    expected = torch.tensor([[[0.75, 0.25], [0.5, 0.5]]])
    torch.testing.assert_close(rollout([first, second]), expected)
    # Two heads count by their mean.
    both = torch.cat([first, second], dim=1)
    torch.testing.assert_close(rollout([both]), torch.tensor([[[0.75, 0.25], [0.25, 0.75]]]))


def test_rollout_where_nothing_is_attended_to() -> None:
    torch.testing.assert_close(rollout([torch.zeros(1, 1, 3, 3)]), torch.eye(3)[None])


def test_the_class_token_is_asked_if_there_is_one() -> None:
    attention = torch.rand(2, 5, 8, 8)
    patches = attention_over_patches(attention, (2, 3), num_prefix_tokens=2, class_token=True)
    assert patches.shape == (2, 5, 2, 3)
    assert patches[1, 4, 1, 0] == attention[1, 4, 0, 2 + 3]


def test_registers_are_not_asked() -> None:
    attention = torch.rand(2, 8, 8)
    patches = attention_over_patches(attention, (2, 3), num_prefix_tokens=2, class_token=False)
    torch.testing.assert_close(patches[0, 1, 2], attention[0, 2:, 7].mean())


def test_without_prefix_tokens_it_is_the_mean_over_the_patches() -> None:
    attention = torch.rand(2, 6, 6).softmax(dim=-1)
    patches = attention_over_patches(attention, (2, 3), num_prefix_tokens=0, class_token=False)
    assert patches.shape == (2, 2, 3)
    torch.testing.assert_close(patches[0, 1, 2], attention[0, :, 5].mean())
    torch.testing.assert_close(patches.sum(dim=(1, 2)), torch.ones(2))


@pytest.mark.parametrize(("channels", "side", "dtype"), [(3, 32, "uint8"), (1, 8, "float")])
def test_a_row_has_the_picture_each_head_their_mean_and_the_rollout(channels, side, dtype) -> None:
    images = torch.randint(0, 256, (2, channels, side, side), dtype=torch.uint8)
    shown = images if dtype == "uint8" else images / 255
    figure = picture_attention(
        shown,
        maps(tokens=5),
        grid=(2, 2),
        num_prefix_tokens=1,
        class_token=True,
        labels=["cat", "dog"],
        predictions=["cat", "$ship"],
        title="title",
    )
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    assert len(axes.images) == 2 * (1 + 5 + 1 + 1)
    for i in range(2):
        drawn = np.asarray(axes.images[8 * i].get_array())
        np.testing.assert_array_equal(drawn, images[i].expand(3, -1, -1).permute(1, 2, 0))
    headings = [f"head {h}" for h in range(1, 6)]
    assert texts(figure)[:11] == [
        "title",
        "layer 3 of 3",
        "all layers",
        "picture",
        *headings,
        "mean",
        "rollout",
    ]
    colors = {text.get_text(): text.get_color() for text in axes.texts}
    assert colors["predicted cat"] == FAINT
    assert colors["predicted $ship"] == WRONG
    assert any("the class token" in text for text in texts(figure))
    page = figure.bbox
    for text in axes.texts:
        box = text.get_window_extent()
        assert page.x0 <= box.x0 < box.x1 <= page.x1
        assert page.y0 <= box.y0 < box.y1 <= page.y1


def test_the_brightest_place_is_the_patch_with_the_most_attention() -> None:
    weights = torch.full((1, 1, 17, 17), 0.01)
    weights[..., 1 + 4 * 2 + 3] = 0.84  # row 2, column 3
    images = torch.full((1, 1, 32, 32), 128, dtype=torch.uint8)
    figure = picture_attention(
        images, [weights], grid=(4, 4), num_prefix_tokens=1, class_token=True
    )
    picture, head, _ = figure.axes[0].images  # one head has no mean beside it
    assert np.asarray(picture.get_array()).std() == 0
    brightness = np.asarray(head.get_array()).astype(float).sum(axis=-1)
    row, column = np.unravel_index(brightness.argmax(), brightness.shape)
    assert (row * 4 // 128, column * 4 // 128) == (2, 3)
    assert "1.0 to 84.0 %" in texts(figure)


def test_flat_attention_and_other_layers() -> None:
    images = torch.rand(1, 3, 300, 200)
    flat = torch.full((1, 2, 6, 6), 1 / 6)
    figure = picture_attention(
        images, [flat] * 3, grid=(3, 2), num_prefix_tokens=0, class_token=False, layer=0
    )
    FigureCanvasAgg(figure).draw()
    assert "layer 1 of 3" in texts(figure)
    assert "16.7 to 16.7 %" in texts(figure)


def test_mismatched_input_is_refused() -> None:
    images, good = torch.rand(2, 3, 8, 8), maps(tokens=5)
    options = {"grid": (2, 2), "num_prefix_tokens": 1, "class_token": True}
    with pytest.raises(ValueError, match=r"between 0 \+ 2 x 2 = 4 tokens, got 5 x 5"):
        picture_attention(images, good, grid=(2, 2), num_prefix_tokens=0, class_token=False)
    with pytest.raises(ValueError, match="not normalised ones"):
        picture_attention(3 * images - 1, good, **options)
    with pytest.raises(ValueError, match="images must have the shape"):
        picture_attention(images[0], good, **options)
    with pytest.raises(ValueError, match="labels must be given for each of the 2 images, got 1"):
        picture_attention(images, good, labels=["a"], **options)
    with pytest.raises(ValueError, match="maps must be given for each of the 1 images, got 2"):
        picture_attention(images[:1], good, **options)
    with pytest.raises(ValueError, match="layer must be one of 3, got 3"):
        picture_attention(images, good, layer=3, **options)
    with pytest.raises(ValueError, match="at least one layer"):
        rollout([])
