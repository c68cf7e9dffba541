"""Masks: which query may look at which key.

A mask is boolean and True means *may attend*, as in `F.scaled_dot_product_attention`
(`nn.MultiheadAttention` has it the other way round). Attention also takes integer masks of 0 and 1
with the same meaning, and floating masks that are added to the logits (0 and very negative).
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def causal_mask(n: int, *, device: torch.device | str | None = None) -> Tensor:
    """Let each of `n` positions attend to itself and to what came before it.

    Returns:
        A boolean (n, n) tensor, True on and below the diagonal.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


def padding_mask(lengths: Tensor | Sequence[int], max_len: int) -> Tensor:
    """Hide the padding behind sequences of different lengths.

    Args:
        lengths: how many positions of each sequence are real; integers of shape (batch,).
        max_len: the padded length.

    Returns:
        A boolean (batch, 1, 1, max_len) tensor that broadcasts over heads and queries.
    """
    lengths = torch.as_tensor(lengths)
    if lengths.ndim != 1:
        raise ValueError(f"lengths must have the shape (batch,), got {tuple(lengths.shape)}")
    if lengths.numel() and (lengths.min() < 0 or lengths.max() > max_len):
        raise ValueError(
            f"lengths must lie between 0 and max_len={max_len}, "
            f"got {lengths.min()} to {lengths.max()}"
        )
    present = torch.arange(max_len, device=lengths.device) < lengths[:, None]  # (B, max_len)
    return present[:, None, None, :]


def canonical_mask(mask: Tensor, shape: torch.Size) -> Tensor:
    """Check a mask at the door of attention and bring it to one of two forms.

    Args:
        mask: boolean, integer (0 and 1) or floating (additive); it must broadcast to `shape`, where
            three axes against four are read as (batch, queries, keys).
        shape: the shape of the attention logits, (..., queries, keys).

    Returns:
        A boolean mask (True = may attend) or an additive floating one, broadcastable to `shape`.
    """
    if mask.ndim == 3 and len(shape) == 4:
        mask = mask.unsqueeze(1)  # (B, L, S) -> (B, 1, L, S)
    fits = mask.ndim <= len(shape) and all(
        have in (1, want) for have, want in zip(reversed(mask.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} does not broadcast to attention of {tuple(shape)}; "
            "use (queries, keys), (batch, queries, keys) or (batch, heads, queries, keys), "
            "and padding_mask(lengths, max_len) for padding"
        )
    if mask.dtype == torch.bool:
        return mask
    only_zeros_and_ones = bool(((mask == 0) | (mask == 1)).all())
    if mask.is_floating_point():
        if only_zeros_and_ones and bool(mask.any()):
            raise ValueError(
                "a floating mask of zeros and ones is ambiguous, as floating masks are added to "
                "the logits; use mask.bool() if 1 means 'may attend'"
            )
        return mask
    if not only_zeros_and_ones:
        raise ValueError("an integer mask may hold only 0 (hidden) and 1 (may attend)")
    return mask.bool()


def attended_positions(mask: Tensor, shape: torch.Size) -> Tensor:
    """Find the positions that at least one query of at least one head may attend to.

    Args:
        mask: as for attention.
        shape: (batch, heads, queries, keys) of the attention it is meant for.

    Returns:
        Booleans of shape (batch, keys): what pooling over a padded sequence should count.
    """
    mask = canonical_mask(mask, shape)
    # An additive mask hides what it leaves no weight: exp(-10000) is 0, exp(-5) is a bias.
    allowed = mask if mask.dtype == torch.bool else mask.float().exp() > 0
    return allowed.expand(shape).flatten(1, 2).any(dim=1)  # (B, H, L, S) -> (B, S)


def add_class_token_to_mask(mask: Tensor, shape: torch.Size) -> Tensor:
    """Make room for a token put in front of the sequence.

    Every query may attend to the new token, and it may attend to whatever any other query may.

    Args:
        mask: as for attention, for the sequence without the token.
        shape: (batch, heads, queries, keys) of the attention without the token.

    Returns:
        A mask that broadcasts to (batch, heads, queries + 1, keys + 1).
    """
    mask = canonical_mask(mask, shape)
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if mask.shape[-1] == 1 != shape[-1]:
        mask = mask.expand(*mask.shape[:-1], shape[-1])
    if mask.shape[-2] > 1:
        own_row = (
            mask.amax(dim=-2, keepdim=True) if mask.is_floating_point() else mask.any(-2, True)
        )
        mask = torch.cat([own_row, mask], dim=-2)  # (..., L, S) -> (..., L + 1, S)
    column = mask.new_zeros(()) if mask.is_floating_point() else mask.new_ones(())
    return torch.cat([column.expand(*mask.shape[:-1], 1), mask], dim=-1)  # (..., S) -> (..., S + 1)
