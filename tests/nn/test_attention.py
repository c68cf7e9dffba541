"""Attention against torch's, the shapes the course states, and what must hold of any attention."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from vit_lightning.nn import (
    MultiheadAttention,
    causal_mask,
    padding_mask,
    projection_weights,
    scaled_dot_product,
)

B, H, L, D = 2, 3, 7, 5  # all prime: a swapped axis cannot pass
E = H * D
TIGHT = {"rtol": 0.0, "atol": 1e-10}


def arbitrary_mask() -> Tensor:
    mask = torch.rand(B, H, L, L) > 0.4
    mask[..., 0] = True  # torch's module gives NaN for a row with nothing to attend to
    return mask


MASKS = {
    "none": lambda: None,
    "causal": lambda: causal_mask(L),
    "padding": lambda: padding_mask([L, 4], L),
    "arbitrary": arbitrary_mask,
    "integer": lambda: causal_mask(L).long(),
    "additive": lambda: torch.zeros(L, L, dtype=torch.float64).masked_fill(~causal_mask(L), -1e4),
    "additive_inf": lambda: torch.zeros(L, L, dtype=torch.float64).masked_fill(
        ~causal_mask(L), -torch.inf
    ),
    "per_batch": lambda: torch.stack([causal_mask(L), causal_mask(L).T]),
}
every_mask = pytest.mark.parametrize("make_mask", MASKS.values(), ids=MASKS.keys())


def as_torch(mask: Tensor | None, *, hidden_is_true: bool) -> Tensor | None:
    """Write a mask of ours the way torch wants it."""
    if mask is None or mask.is_floating_point():
        return mask
    mask = mask.bool().unsqueeze(1) if mask.ndim == 3 else mask.bool()
    return ~mask if hidden_is_true else mask


@every_mask
def test_against_torch_function(make_mask):
    mask = make_mask()
    ours = [torch.randn(B, H, L, D, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    theirs = [t.detach().clone().requires_grad_() for t in ours]
    values, attention = scaled_dot_product(*ours, mask)
    expected = F.scaled_dot_product_attention(*theirs, as_torch(mask, hidden_is_true=False))
    torch.testing.assert_close(values, expected, **TIGHT)
    assert attention.shape == (B, H, L, L)
    values.square().sum().backward()
    expected.square().sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, **TIGHT)


@every_mask
@pytest.mark.parametrize("kernel", ["readable", "fused"])
def test_against_torch_module(make_mask, kernel):
    mask = make_mask()
    theirs = nn.MultiheadAttention(E, H, batch_first=True, dtype=torch.float64)
    nn.init.normal_(theirs.in_proj_bias)
    ours = MultiheadAttention.from_torch(theirs)
    ours.attention = kernel
    x = torch.randn(B, L, E, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    their_mask = as_torch(mask, hidden_is_true=True)
    if their_mask is not None:
        their_mask = their_mask.expand(B, H, L, L).flatten(0, 1)
    expected, weights = theirs(y, y, y, attn_mask=their_mask, average_attn_weights=False)
    output = ours(x, mask)
    torch.testing.assert_close(output, expected, **TIGHT)
    torch.testing.assert_close(ours(x, mask, return_attention=True)[1], weights, **TIGHT)
    output.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, **TIGHT)
    torch.testing.assert_close(ours.qkv_proj.weight.grad, theirs.in_proj_weight.grad, **TIGHT)
    torch.testing.assert_close(ours.o_proj.bias.grad, theirs.out_proj.bias.grad, **TIGHT)


@every_mask
def test_both_kernels_agree(make_mask):
    mask = make_mask()
    layer = MultiheadAttention(11, E, H, head_dim=2, beta=0.3).double()
    grads = []
    outputs = []
    for kernel in ("readable", "fused"):
        layer.attention = kernel
        x = torch.linspace(-1, 1, B * L * 11, dtype=torch.float64).view(B, L, 11).requires_grad_()
        outputs.append(layer(x, mask))
        grads.append(torch.autograd.grad(outputs[-1].square().sum(), [x, *layer.parameters()]))
    torch.testing.assert_close(outputs[0], outputs[1], **TIGHT)
    torch.testing.assert_close(grads[0], grads[1], **TIGHT)


@every_mask
@pytest.mark.parametrize("kernel", ["readable", "fused"])
@pytest.mark.parametrize("bias", [True, False])
def test_some_queries_give_what_all_give(make_mask, kernel, bias):
    mask = make_mask()
    layer = MultiheadAttention(11, E, H, head_dim=2, bias=bias, attention=kernel).double()
    grads = []
    for queries in (None, 2):
        x = torch.linspace(-1, 1, B * L * 11, dtype=torch.float64).view(B, L, 11).requires_grad_()
        output = layer(x, mask, queries=queries)[:, :2]
        grads.append(torch.autograd.grad(output.square().sum(), [x, *layer.parameters()]))
    torch.testing.assert_close(layer(x, mask, queries=2), layer(x, mask)[:, :2], **TIGHT)
    torch.testing.assert_close(grads[0], grads[1], **TIGHT)
    maps = [layer(x, mask, True, queries)[1][:, :, :2] for queries in (None, 2)]
    torch.testing.assert_close(maps[0], maps[1], **TIGHT)


@pytest.mark.parametrize("bias", [True, False])
def test_torch_round_trip_is_exact(bias):
    theirs = nn.MultiheadAttention(E, H, dropout=0.25, bias=bias, batch_first=True)
    back = MultiheadAttention.from_torch(theirs).to_torch()
    assert back.dropout == theirs.dropout
    torch.testing.assert_close(back.state_dict(), theirs.state_dict(), rtol=0, atol=0)


def test_an_additive_mask_is_judged_as_a_whole():
    layer = MultiheadAttention(11, E, H).double()
    x = torch.randn(B, L, 11, dtype=torch.float64)
    mask = torch.zeros(L, L, dtype=x.dtype)
    mask[0, 1], mask[2, 0] = 1.0, -3.0  # the first rows by themselves would be ambiguous
    torch.testing.assert_close(layer(x, mask, queries=2), layer(x, mask)[:, :2], **TIGHT)


def test_what_torch_has_no_room_for_is_refused():
    with pytest.raises(ValueError, match="no room"):
        MultiheadAttention(11, E, H).to_torch()
    with pytest.raises(ValueError, match="no room"):
        MultiheadAttention(E, E, H, beta=2.0).to_torch()
    with pytest.raises(ValueError, match="only a self-attention"):
        MultiheadAttention.from_torch(nn.MultiheadAttention(E, H, kdim=11))


@pytest.mark.parametrize(
    ("dtype", "length", "dropout", "kernel"),
    [
        (torch.float32, 65, 0.0, "readable"),
        (torch.float32, 128, 0.0, "fused"),
        (torch.float32, 128, 0.1, "readable"),
        (torch.bfloat16, 257, 0.0, "readable"),
        (torch.bfloat16, 512, 0.0, "fused"),
    ],
)
def test_auto_picks_by_dtype_length_and_dropout(dtype, length, dropout, kernel, monkeypatch):
    taken = []
    fused = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F,
        "scaled_dot_product_attention",
        lambda *a, **k: [taken.append("fused"), fused(*a, **k)][1],
    )
    layer = MultiheadAttention(4, 4, 1, dropout=dropout).to(dtype)
    layer(torch.randn(1, length, 4, dtype=dtype))
    assert (taken or ["readable"]) == [kernel]


@pytest.mark.parametrize("kernel", ["readable", "fused"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_with_masks(dtype, kernel):
    layer = MultiheadAttention(E, E, H, attention=kernel).to(dtype)
    x = (30 * torch.randn(B, L, E)).to(dtype).requires_grad_()
    nothing = torch.ones(L, L, dtype=torch.bool)
    nothing[2] = False
    very_negative = torch.zeros(L, L).masked_fill(~causal_mask(L), -1e9)
    for mask in (None, causal_mask(L), nothing, very_negative):
        output = layer(x, mask)
        (grad,) = torch.autograd.grad(output.float().sum(), x)
        assert output.dtype == dtype
        assert output.isfinite().all()
        assert grad.isfinite().all()
    with torch.autocast("cpu", dtype):
        assert MultiheadAttention(E, E, H, attention=kernel)(x.float(), nothing).isfinite().all()


@pytest.mark.parametrize("kernel", ["readable", "fused"])
def test_dropout_is_on_in_training_only(kernel):
    layer = MultiheadAttention(E, E, H, dropout=0.5, attention=kernel)
    x = torch.randn(B, L, E)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_returned_attention_is_from_before_dropout():
    layer = MultiheadAttention(E, E, H, dropout=0.5)
    attention = layer(torch.randn(B, L, E), return_attention=True)[1]
    torch.testing.assert_close(attention.sum(-1), torch.ones(B, H, L))


def test_initial_weights():
    layer = MultiheadAttention(11, E, H)
    bound = (6 / (11 + 3 * E)) ** 0.5
    assert layer.qkv_proj.weight.abs().max() <= bound
    assert layer.qkv_proj.weight.abs().max() > 0.9 * bound
    assert not layer.qkv_proj.bias.any()
    assert not layer.o_proj.bias.any()


def test_shapes_the_course_states_for_one_head():
    layer = MultiheadAttention(256, 256, 1, head_dim=64)
    w_q, w_k, w_v = projection_weights(layer)
    # The course writes x W, so its matrices are the transposes.
    assert w_q.T.shape == w_k.T.shape == (256, 64)
    assert w_v.T.shape == (256, 256)


def test_shapes_the_course_states_for_twelve_heads():
    layer = MultiheadAttention(768, 768, 12)
    tokens = torch.randn(1, 5, 768)
    assert all(t.shape == (1, 5, 12, 64) for t in layer.project(tokens))
    output, attention = layer(tokens, return_attention=True)
    assert attention.shape == (1, 12, 5, 5)
    assert output.shape == (1, 5, 768)


def test_column_form_of_the_course():
    X = torch.randn(768, 6, dtype=torch.float64)  # one column a token
    layer = MultiheadAttention(768, 768, 1).double()
    w_q, w_k, w_v = projection_weights(layer)
    weights = ((w_k @ X).T @ (w_q @ X) / 768**0.5).softmax(dim=0)  # one column a query
    output, attention = layer(X.T[None], return_attention=True)
    torch.testing.assert_close(attention[0, 0], weights.T, **TIGHT)
    torch.testing.assert_close(output[0].T, layer.o_proj.weight @ (w_v @ X @ weights), **TIGHT)


@pytest.mark.parametrize("kernel", ["readable", "fused"])
def test_causal_mask_of_the_course_gives_our_output(kernel):
    course = torch.zeros(5, 5, dtype=torch.float64).masked_fill(~causal_mask(5), -10000.0)
    assert course[0].tolist() == [0.0, -10000.0, -10000.0, -10000.0, -10000.0]
    layer = MultiheadAttention(E, E, H, attention=kernel).double()
    x = torch.randn(B, 5, E, dtype=torch.float64)
    torch.testing.assert_close(layer(x, course), layer(x, causal_mask(5)), rtol=0, atol=1e-14)


def test_projection_weights_are_whole_matrices():
    # The course's notebook takes in_proj_weight[0] for W_q; that is its first row.
    theirs = nn.MultiheadAttention(E, H)
    w_q, w_k, w_v = projection_weights(theirs)
    assert w_q.shape == w_k.shape == w_v.shape == (E, E)
    assert torch.equal(torch.cat([w_q, w_k, w_v]), theirs.in_proj_weight)
    assert torch.equal(projection_weights(MultiheadAttention.from_torch(theirs))[1], w_k)
    separate = nn.MultiheadAttention(E, H, kdim=11, vdim=13)
    assert [tuple(w.shape) for w in projection_weights(separate)] == [(E, E), (E, 11), (E, 13)]


def test_output_width_does_not_depend_on_the_input_width():
    # The notebook's reshape used the input's width.
    layer = MultiheadAttention(11, E, H)
    assert layer(torch.randn(B, L, 11)).shape == (B, L, E)


def test_masking_does_not_overflow_in_half_precision():
    # The notebook's fill of -9e15 does.
    q = torch.randn(1, 1, 5, 4).half()
    values, attention = scaled_dot_product(q, q, q, causal_mask(5))
    assert attention.dtype == torch.float16
    assert values.isfinite().all()
    assert not attention.triu(1).any()


@given(seed=st.integers(0, 2**32), beta=st.floats(0.01, 20.0))
def test_rows_sum_to_one_and_hidden_weights_are_zero(seed, beta):
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(B, H, L, D, dtype=torch.float64, generator=generator) for _ in range(3))
    mask = torch.rand(B, H, L, L, generator=generator) > 0.6
    values, attention = scaled_dot_product(q, k, v, mask, beta=beta)
    something = mask.any(-1)
    torch.testing.assert_close(attention.sum(-1), something.double(), **TIGHT)
    assert (attention[~mask] == 0).all()
    assert (values[~something] == 0).all()


@pytest.mark.parametrize("kernel", ["readable", "fused"])
@pytest.mark.parametrize("form", ["bool", "inf"])
def test_a_query_with_nothing_to_attend_to_gets_zeros(kernel, form):
    layer = MultiheadAttention(E, E, H, attention=kernel)
    mask = torch.ones(L, L, dtype=torch.bool)
    mask[3] = False
    if form == "inf":
        mask = torch.zeros(L, L).masked_fill(~mask, -torch.inf)
    x = torch.randn(B, L, E, requires_grad=True)
    output = layer(x, mask)
    torch.testing.assert_close(output[:, 3], layer.o_proj.bias.expand(B, E))
    assert output.isfinite().all()
    output.sum().backward()
    assert x.grad.isfinite().all()


@given(seed=st.integers(0, 2**32))
def test_temperature_from_uniform_to_one_hot(seed):
    torch.manual_seed(seed)
    q, k, v = (torch.randn(B, H, L, D, dtype=torch.float64) for _ in range(3))
    values, attention = scaled_dot_product(q, k, v, beta=0.0)
    torch.testing.assert_close(attention, torch.full_like(attention, 1 / L), **TIGHT)
    torch.testing.assert_close(values, v.mean(-2, keepdim=True).expand_as(values), **TIGHT)
    best = (q @ k.transpose(-2, -1)).argmax(-1)
    attention = scaled_dot_product(q, k, v, beta=1e9)[1]
    torch.testing.assert_close(attention, F.one_hot(best, L).double(), **TIGHT)


@pytest.mark.parametrize("kernel", ["readable", "fused"])
@given(seed=st.integers(0, 2**32), present=st.integers(1, L - 1))
def test_causal_attention_does_not_see_the_future(kernel, seed, present):
    torch.manual_seed(seed)
    layer = MultiheadAttention(E, E, H, attention=kernel)
    x = torch.randn(B, L, E)
    changed = x.clone()
    changed[:, present:] += 1
    before, after = layer(x, causal_mask(L)), layer(changed, causal_mask(L))
    assert torch.equal(before[:, :present], after[:, :present])
    assert not torch.allclose(before[:, present:], after[:, present:])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"embed_dim": 10, "num_heads": 3}, "embed_dim=10 and num_heads=3"),
        ({"embed_dim": -6, "num_heads": 3}, "at least 1"),
        ({"embed_dim": 6, "num_heads": 0}, "at least 1"),
        ({"embed_dim": 6, "num_heads": 3, "head_dim": 0}, "head_dim"),
        ({"embed_dim": 6, "num_heads": 3, "dropout": 1.5}, "dropout"),
        ({"embed_dim": 6, "num_heads": 3, "attention": "flash"}, "flash"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiheadAttention(5, **arguments)


def test_bad_input_shape():
    with pytest.raises(ValueError, match="input_dim=11"):
        MultiheadAttention(11, E, H)(torch.randn(B, L, E))
