import pytest
import torch

from vit_lightning.models import TransformerPredictor
from vit_lightning.nn import causal_mask, padding_mask

B, L, C, E, K = 2, 7, 5, 6, 3
TIGHT = {"rtol": 0.0, "atol": 1e-10}
POOLINGS = [None, "mean", "cls", "attention"]


def predictor(**kwargs) -> TransformerPredictor:
    sizes = {"input_dim": C, "model_dim": E, "num_classes": K, "num_heads": 2, "num_layers": 2}
    return TransformerPredictor(**(sizes | kwargs)).double()


@pytest.mark.parametrize("pooling", POOLINGS)
def test_output_shape(pooling):
    output = predictor(pooling=pooling)(torch.randn(B, L, C, dtype=torch.float64))
    assert output.shape == ((B, L, K) if pooling is None else (B, K))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padded_equals_truncated(pooling):
    model = predictor(pooling=pooling)
    x = torch.randn(B, L, C, dtype=torch.float64)
    mask = padding_mask([4, 4], L)
    for form in (mask, mask.long(), torch.zeros(mask.shape).double().masked_fill(~mask, -1e4)):
        padded = model(x, form)
        padded = padded[:, :4] if pooling is None else padded
        torch.testing.assert_close(padded, model(x[:, :4]), **TIGHT)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_maps_are_those_of_the_forward_pass_and_respect_the_mask(pooling):
    model = predictor(pooling=pooling)
    x = torch.randn(B, L, C, dtype=torch.float64)
    mask = padding_mask([L, 4], L) & causal_mask(L)
    maps = model.get_attention_maps(x, mask)
    extra = int(pooling == "cls")
    assert [tuple(m.shape) for m in maps] == 2 * [(B, 2, L + extra, L + extra)]
    for attention in maps:
        inner = attention[:, :, extra:, extra:]
        assert not inner[~mask.expand_as(inner)].any()
    seen = []
    for layer in model.encoder.layers:
        layer.self_attn.attention = "readable"
        layer.self_attn.register_forward_hook(
            lambda module, args, _: seen.append(type(module).forward(module, *args[:2], True)[1])
        )
    model(x, mask)
    torch.testing.assert_close(seen, maps, **TIGHT)


def test_the_mask_reaches_every_layer_of_the_forward_pass():
    model = predictor(num_layers=3)
    x = torch.randn(B, L, C, dtype=torch.float64)
    changed = x.clone()
    changed[:, 5:] += 1
    difference = model(x, causal_mask(L)) - model(changed, causal_mask(L))
    assert not difference[:, :5].any()
    assert difference[:, 5:].any()


def test_without_positions_the_order_does_not_matter():
    model = predictor(pooling="mean")
    x = torch.randn(B, L, C, dtype=torch.float64)
    plain = model(x, add_positional_encoding=False)
    flipped = model(x.flip(1), add_positional_encoding=False)
    torch.testing.assert_close(plain, flipped, **TIGHT)
    assert not torch.allclose(model(x), model(x.flip(1)), atol=1e-6)


def test_max_len():
    assert predictor(pooling="cls", max_len=7)(torch.zeros(B, 7, C).double()).shape == (B, K)
    with pytest.raises(ValueError, match="max_len"):
        predictor(max_len=6)(torch.zeros(B, 7, C).double())


@pytest.mark.parametrize("wrong", [{"pooling": "max"}, {"model_dim": -4}, {"num_heads": 4}])
def test_bad_arguments(wrong):
    with pytest.raises(ValueError, match="must be"):
        predictor(**wrong)
