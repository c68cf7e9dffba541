"""Blocks and the encoder against torch's, and masks and maps through the layers."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from vit_lightning.nn import EncoderBlock, PositionalEncoding, TransformerEncoder, causal_mask
from vit_lightning.nn.masks import padding_mask

B, H, L, E, FF = 2, 3, 7, 15, 11
TIGHT = {"rtol": 0.0, "atol": 1e-10}


def torch_layer(**kwargs) -> nn.TransformerEncoderLayer:
    layer = nn.TransformerEncoderLayer(E, H, FF, batch_first=True, dtype=torch.float64, **kwargs)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    return layer


@pytest.mark.parametrize("kernel", ["readable", "fused"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("masked", ["none", "causal", "padding", "additive"])
def test_against_torch_layer(norm_first, activation, masked, kernel):
    theirs = torch_layer(dropout=0.0, norm_first=norm_first, activation=activation)
    ours = EncoderBlock.from_torch(theirs)
    ours.self_attn.attention = kernel
    ours_mask, theirs_mask = {
        "none": (None, {}),
        "causal": (causal_mask(L), {"src_mask": ~causal_mask(L)}),
        "padding": (
            padding_mask([L, 4], L),
            {"src_key_padding_mask": ~padding_mask([L, 4], L)[:, 0, 0]},
        ),
        "additive": 2 * (torch.zeros(L, L).double().masked_fill(~causal_mask(L), -1e4),),
    }[masked]
    if masked == "additive":
        theirs_mask = {"src_mask": theirs_mask}
    x = torch.randn(B, L, E, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    output, expected = ours(x, ours_mask), theirs(y, **theirs_mask)
    torch.testing.assert_close(output, expected, **TIGHT)
    output.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, **TIGHT)
    torch.testing.assert_close(ours.norm1.weight.grad, theirs.norm1.weight.grad, **TIGHT)
    torch.testing.assert_close(ours.feedforward[3].weight.grad, theirs.linear2.weight.grad, **TIGHT)


@pytest.mark.parametrize("norm_first", [False, True])
def test_torch_round_trip_is_exact(norm_first):
    theirs = torch_layer(
        dropout=0.25, norm_first=norm_first, activation="gelu", layer_norm_eps=1e-3
    )
    back = EncoderBlock.from_torch(theirs).to_torch()
    torch.testing.assert_close(back.state_dict(), theirs.state_dict(), rtol=0, atol=0)
    assert (back.norm_first, back.dropout.p, back.norm1.eps) == (norm_first, 0.25, 1e-3)
    x = torch.randn(B, L, E, dtype=torch.float64)
    assert torch.equal(back.eval()(x), theirs.eval()(x))


def test_what_cannot_be_converted_is_refused():
    with pytest.raises(ValueError, match="activation"):
        EncoderBlock.from_torch(torch_layer(activation=torch.tanh))
    with pytest.raises(ValueError, match="exact gelu"):
        EncoderBlock.from_torch(torch_layer(activation=nn.GELU(approximate="tanh")))
    with pytest.raises(ValueError, match="without biases"):
        EncoderBlock.from_torch(torch_layer(bias=False))
    with pytest.raises(ValueError, match="always normalises"):
        EncoderBlock(E, H, FF, norm="none").to_torch()
    with pytest.raises(ValueError, match="no drop_path"):
        EncoderBlock(E, H, FF, drop_path=0.1).to_torch()


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_against_torch(norm_first):
    layers = [torch_layer(dropout=0.0, norm_first=norm_first) for _ in range(2)]
    theirs = nn.TransformerEncoder(layers[0], 2, enable_nested_tensor=False)
    theirs.layers = nn.ModuleList(layers)
    ours = TransformerEncoder(2, E, H, FF, norm="pre" if norm_first else "post").double()
    ours.layers = nn.ModuleList(EncoderBlock.from_torch(layer) for layer in layers)
    if norm_first:
        theirs.norm = ours.norm
    x = torch.randn(B, L, E, dtype=torch.float64)
    torch.testing.assert_close(ours(x, causal_mask(L)), theirs(x, ~causal_mask(L)), **TIGHT)


def test_norm_none_has_no_norm():
    block = EncoderBlock(E, H, FF, norm="none")
    assert not any(isinstance(m, nn.LayerNorm) for m in block.modules())
    x = torch.randn(B, L, E)
    after_attention = x + block.self_attn(x)
    expected = after_attention + block.feedforward(after_attention)
    torch.testing.assert_close(block(x), expected)


def test_the_final_norm_can_be_left_to_others():
    encoder = TransformerEncoder(2, E, H, FF, norm="pre")
    bare = TransformerEncoder(2, E, H, FF, norm="pre", final_norm=False)
    bare.load_state_dict(encoder.state_dict(), strict=False)
    x = torch.randn(B, L, E)
    assert torch.equal(encoder.norm(bare(x)), encoder(x))


def test_two_norms_and_the_feedforward_width_is_obeyed():
    # The notebook shared one LayerNorm and ignored dim_feedforward.
    block = EncoderBlock(E, H, FF)
    assert block.norm1 is not block.norm2
    assert block.norm1.weight is not block.norm2.weight
    assert block.feedforward[0].weight.shape == (FF, E)


@pytest.mark.parametrize("norm", ["post", "pre", "none"])
def test_the_mask_holds_in_every_layer(norm):
    # In the notebook it never arrived, or only in the first layer of the maps.
    encoder = TransformerEncoder(3, E, H, FF, norm=norm)
    x = torch.randn(B, L, E)
    maps = encoder.get_attention_maps(x, causal_mask(L))
    assert len(maps) == 3
    for attention in maps:
        assert attention.shape == (B, H, L, L)
        assert not attention.triu(1).any()
        assert attention[..., causal_mask(L)].all()
    changed = x.clone()
    changed[:, 5:] += 1
    difference = (encoder(x, causal_mask(L)) - encoder(changed, causal_mask(L))).abs()
    assert not difference[:, :5].any()
    assert difference[:, 5:].any()


@pytest.mark.parametrize("norm", ["post", "pre", "none"])
def test_maps_are_those_of_the_forward_pass(norm):
    encoder = TransformerEncoder(2, E, H, FF, norm=norm).double()
    mask = padding_mask([L, 4], L)
    x = torch.randn(B, L, E, dtype=torch.float64)
    output, maps = encoder(x, mask, return_attention=True)
    torch.testing.assert_close(output, encoder(x, mask), **TIGHT)
    tokens = x
    for layer, attention in zip(encoder.layers, maps, strict=True):
        inside = layer.norm1(tokens) if norm == "pre" else tokens
        torch.testing.assert_close(layer.self_attn(inside, mask, True)[1], attention, **TIGHT)
        tokens = layer(tokens, mask)


@pytest.mark.parametrize("norm", ["post", "pre", "none"])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_what_is_not_read_is_not_needed(norm, num_layers):
    encoder = TransformerEncoder(num_layers, E, H, FF, norm=norm).double()
    x, mask = torch.randn(B, L, E, dtype=torch.float64), causal_mask(L).flip(0, 1)
    torch.testing.assert_close(encoder(x, mask, num_read=2), encoder(x, mask)[:, :2], **TIGHT)
    maps = encoder(x, mask, return_attention=True, num_read=2)[1]
    for part, whole in zip(maps, encoder.get_attention_maps(x, mask), strict=True):
        torch.testing.assert_close(part, whole[:, :, : part.shape[2]], **TIGHT)


@given(seed=st.integers(0, 2**32), length=st.integers(1, L))
def test_padded_equals_truncated(seed, length):
    torch.manual_seed(seed)
    encoder = TransformerEncoder(2, E, H, FF).double()
    x = torch.randn(B, L, E, dtype=torch.float64)
    padded = encoder(x, padding_mask([length, length], L))[:, :length]
    torch.testing.assert_close(padded, encoder(x[:, :length]), **TIGHT)


@given(seed=st.integers(0, 2**32), order=st.permutations(range(L)))
def test_permutation_equivariance_without_positions_only(seed, order):
    assume(order != list(range(L)))
    torch.manual_seed(seed)
    encoder = TransformerEncoder(2, E, H, FF).double()
    positions = PositionalEncoding(E).double()
    x = torch.randn(B, L, E, dtype=torch.float64)
    torch.testing.assert_close(encoder(x)[:, order], encoder(x[:, order]), **TIGHT)
    with_positions = encoder(positions(x))[:, order]
    assert not torch.allclose(with_positions, encoder(positions(x[:, order])), atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim_feedforward": 0}, "dim_feedforward"),
        ({"norm": "layer"}, "norm"),
        ({"activation": "tanh"}, "activation"),
        ({"num_layers": 0}, "num_layers"),
        ({"drop_path": 1.0}, "drop_path"),
    ],
)
def test_bad_arguments(arguments, message):
    defaults = {"num_layers": 1, "input_dim": E, "num_heads": H, "dim_feedforward": FF}
    with pytest.raises(ValueError, match=message):
        TransformerEncoder(**(defaults | arguments))
