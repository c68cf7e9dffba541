"""Attention from scratch: scaled dot product as a function, multi-head attention as a module.

`scaled_dot_product` is the definition. `MultiheadAttention` holds the weights around it and can
hand the same computation to torch's fused kernel where that is measured to be faster.
"""

from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_lightning.nn.dropout import dropout as apply_dropout
from vit_lightning.nn.masks import canonical_mask

Kernel = Literal["auto", "readable", "fused"]


def scaled_dot_product(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    beta: float | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Attend: softmax(beta * q k^T) v, equation 1 of "Attention Is All You Need".

    Args:
        q: queries, (..., queries, head_dim).
        k: keys, (..., keys, head_dim).
        v: values, (..., keys, value_dim).
        mask: what each query may attend to, see `vit_lightning.nn.masks`. A query that may attend
            to nothing gets zeros.
        beta: inverse temperature; None means 1/sqrt(head_dim), 0 averages, a large one picks.
        dropout: share of the attention weights dropped before the values are averaged.

    Returns:
        The values (..., queries, value_dim), and the attention weights (..., queries, keys) as they
        were before dropout.
    """
    if mask is not None:
        batch = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])  # type: ignore[no-untyped-call]  # torch leaves it untyped
        mask = canonical_mask(mask, torch.Size((*batch, q.shape[-2], k.shape[-2])))
    return _attend(q, k, v, mask, beta, dropout)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, beta: float | None, dropout: float
) -> tuple[Tensor, Tensor]:
    if beta is None:
        beta = q.shape[-1] ** -0.5
    logits = (beta * q) @ k.transpose(-2, -1)  # (..., L, D) @ (..., D, S) -> (..., L, S)
    if mask is None:
        attention = logits.softmax(dim=-1)
    else:
        # The lowest finite number rather than -inf: a row of -inf has no softmax, nor a gradient.
        lowest = torch.finfo(logits.dtype).min
        if mask.is_floating_point():
            mask = mask.to(logits.dtype)
            logits = (logits + mask).clamp(min=lowest)
            mask = mask > -torch.inf
        attention = logits.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)
    return apply_dropout(attention, dropout) @ v.to(attention.dtype), attention


def fused_is_faster(q: Tensor, dropout: float = 0.0) -> bool:
    """Say which kernel `attention="auto"` takes for these queries.

    On a CPU by measurement (`vit-lightning bench --parts attention`, forward and backward): in
    bfloat16 the fused kernel takes up to nine times as long as the plain products, which lose only
    when the (length, length) matrix leaves the cache, at about 512 tokens; in float32 the two meet
    at about 100 tokens (on one thread at 40), and from 256 on the fused one is twice as fast. With
    dropout torch has no fused kernel there. On other devices it is taken to be faster, unmeasured.
    """
    if q.device.type != "cpu":
        return True
    return not dropout and q.shape[-2] > (384 if q.dtype.itemsize < 4 else 96)


class MultiheadAttention(nn.Module):
    """Self-attention with several heads side by side.

    Args:
        input_dim: width of the tokens that come in.
        embed_dim: width of the tokens that go out; each head carries `embed_dim / num_heads` of it.
        num_heads: number of heads; 1 is single-head attention.
        head_dim: width of a head's queries and keys; None means `embed_dim / num_heads`.
        dropout: share of attention weights dropped in training.
        bias: whether the projections have biases.
        beta: inverse temperature; None means 1/sqrt(head_dim).
        attention: "readable" for `scaled_dot_product`, "fused" for torch's kernel (but with dropout
            on a CPU, where torch has none, the readable one), "auto" for the one measured to be
            faster. They give the same numbers.
    """

    def __init__(
        self,
        input_dim: int,
        embed_dim: int,
        num_heads: int,
        *,
        head_dim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        beta: float | None = None,
        attention: Kernel = "auto",
    ) -> None:
        super().__init__()
        if min(input_dim, embed_dim, num_heads) < 1:
            raise ValueError(
                "input_dim, embed_dim and num_heads must be at least 1, "
                f"got {input_dim}, {embed_dim} and {num_heads}"
            )
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim must be divisible by num_heads, got embed_dim={embed_dim} "
                f"and num_heads={num_heads}"
            )
        if head_dim is not None and head_dim < 1:
            raise ValueError(f"head_dim must be at least 1, got {head_dim}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {dropout}")
        if attention not in ("auto", "readable", "fused"):
            raise ValueError(f"attention must be 'auto', 'readable' or 'fused', got {attention!r}")
        self.input_dim = input_dim
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.value_dim = embed_dim // num_heads
        self.head_dim = self.value_dim if head_dim is None else head_dim
        self.dropout = dropout
        self.beta = beta
        self.attention: Kernel = attention
        # Rows of W_q, then W_k, then W_v: one product instead of three.
        self.qkv_proj = nn.Linear(input_dim, 2 * num_heads * self.head_dim + embed_dim, bias=bias)
        self.o_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw Xavier-uniform weights and zero the biases."""
        for linear in (self.qkv_proj, self.o_proj):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def project(self, x: Tensor, queries: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Make queries, keys and values, each (batch, length, num_heads, width of a head)."""
        H, D, Dv = self.num_heads, self.head_dim, self.value_dim
        if queries is None:
            q, k, v = self.qkv_proj(x).split([H * D, H * D, H * Dv], dim=-1)  # (B, L, H * D) each
        else:
            weight, bias = self.qkv_proj.weight, self.qkv_proj.bias
            rows = [H * D, H * D + H * Dv]
            w_q, w_kv = torch.split(weight, rows)
            b_q, b_kv = (None, None) if bias is None else torch.split(bias, rows)
            q = F.linear(x[:, :queries], w_q, b_q)
            k, v = torch.split(F.linear(x, w_kv, b_kv), [H * D, H * Dv], dim=-1)
        return q.unflatten(-1, (H, D)), k.unflatten(-1, (H, D)), v.unflatten(-1, (H, Dv))

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        return_attention: bool = False,
        queries: int | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Let the tokens attend to each other.

        Args:
            x: tokens, (batch, length, input_dim).
            mask: what may attend to what, broadcastable to (batch, num_heads, length, length).
            return_attention: also return the weights; this takes the readable kernel.
            queries: how many tokens, from the first on, attend to all; None means every one.

        Returns:
            Tokens (batch, queries, embed_dim), and with `return_attention` the attention weights
            (batch, num_heads, queries, length).
        """
        if x.ndim != 3 or x.shape[-1] != self.input_dim:
            raise ValueError(
                f"x must have the shape (batch, length, input_dim={self.input_dim}), "
                f"got {tuple(x.shape)}"
            )
        # (B, L, H, D) -> (B, H, L, D)
        q, k, v = (t.transpose(1, 2) for t in self.project(x, queries))
        if mask is not None:
            shape = torch.Size((len(x), self.num_heads, x.shape[1], x.shape[1]))
            mask = canonical_mask(mask, shape)
            if queries is not None:
                mask = mask.expand(shape)[:, :, :queries]
        dropout = self.dropout if self.training else 0.0
        attention = None
        if return_attention or not self._use_fused(q, dropout):
            values, attention = _attend(q, k, v, mask, self.beta, dropout)
        else:
            if mask is not None and mask.is_floating_point():
                mask = mask.to(q.dtype)
            values = F.scaled_dot_product_attention(q, k, v, mask, dropout, scale=self.beta)
        values = values.transpose(1, 2).flatten(2)  # (B, H, L, D) -> (B, L, H * D)
        output: Tensor = self.o_proj(values)
        return (output, attention) if return_attention and attention is not None else output

    def _use_fused(self, q: Tensor, dropout: float) -> bool:
        if self.attention == "auto" or (dropout and q.device.type == "cpu"):
            return fused_is_faster(q, dropout)
        return self.attention == "fused"

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> Self:
        """Copy the weights of torch's module; the outputs are the same."""
        weight = module.in_proj_weight
        if weight is None or module.bias_k is not None or module.add_zero_attn:
            raise ValueError(
                "only a self-attention nn.MultiheadAttention can be read: "
                "no kdim, vdim, add_bias_kv or add_zero_attn"
            )
        ours = cls(
            module.embed_dim,
            module.embed_dim,
            module.num_heads,
            dropout=module.dropout,
            bias=module.in_proj_bias is not None,
        ).to(weight)
        ours.qkv_proj.load_state_dict(_linear_state(weight, module.in_proj_bias))
        ours.o_proj.load_state_dict(module.out_proj.state_dict())
        return ours.train(module.training)

    def to_torch(self) -> nn.MultiheadAttention:
        """Copy the weights into torch's module (`batch_first=True`); the outputs are the same."""
        if (
            self.input_dim != self.embed_dim
            or self.head_dim != self.value_dim
            or self.beta is not None
        ):
            raise ValueError(
                "nn.MultiheadAttention has no room for input_dim != embed_dim, a head_dim or a "
                f"beta of its own; this one has {self.input_dim} -> {self.embed_dim}, "
                f"head_dim={self.head_dim}, beta={self.beta}"
            )
        bias = self.qkv_proj.bias
        theirs = nn.MultiheadAttention(
            self.embed_dim, self.num_heads, self.dropout, bias=bias is not None, batch_first=True
        ).to(self.qkv_proj.weight)
        with torch.no_grad():
            theirs.in_proj_weight.copy_(self.qkv_proj.weight)
            if bias is not None:
                theirs.in_proj_bias.copy_(bias)
        theirs.out_proj.load_state_dict(self.o_proj.state_dict())
        return theirs.train(self.training)


def projection_weights(
    module: MultiheadAttention | nn.MultiheadAttention,
) -> tuple[Tensor, Tensor, Tensor]:
    """Read W_q, W_k and W_v of our attention or of torch's as (out, in) matrices."""
    if isinstance(module, MultiheadAttention):
        H, D = module.num_heads, module.head_dim
        sizes = [H * D, H * D, module.embed_dim]
        w_q, w_k, w_v = torch.split(module.qkv_proj.weight.detach(), sizes)
        return w_q, w_k, w_v
    if module.in_proj_weight is None:  # torch keeps three matrices when kdim or vdim differ
        separate = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        w_q, w_k, w_v = (w.detach() for w in separate if w is not None)
    else:
        w_q, w_k, w_v = module.in_proj_weight.detach().chunk(3)
    return w_q, w_k, w_v


def _linear_state(weight: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
    return {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
