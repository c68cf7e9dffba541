"""Encoder: attention and a feed-forward net per block, blocks in a row."""

from typing import Literal, Self

import torch.nn.functional as F
from torch import Tensor, nn

from vit_lightning.nn.attention import Kernel, MultiheadAttention
from vit_lightning.nn.drop_path import DropPath
from vit_lightning.nn.dropout import Dropout

Norm = Literal["post", "pre", "none"]
Activation = Literal["relu", "gelu"]

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU}


class EncoderBlock(nn.Module):
    """Self-attention, then a two-layer net on each token, each with a residual around it.

    Args:
        input_dim: width of the tokens, in and out.
        num_heads: number of attention heads.
        dim_feedforward: width of the hidden layer of the feed-forward net.
        dropout: share dropped in training, of attention weights, of hidden units and of what each
            sub-layer adds.
        norm: "post" normalises after each residual sum (the 2017 paper), "pre" before each
            sub-layer (trains deep stacks more easily), "none" has no normalisation.
        activation: of the feed-forward net, "relu" or "gelu".
        layer_norm_eps: added to the variance in the normalisation.
        head_dim: width of a head's queries and keys; None means `input_dim / num_heads`.
        drop_path: probability that a sample skips a sub-layer in training.
        attention: kernel, see `MultiheadAttention`.
    """

    def __init__(
        self,
        input_dim: int,
        num_heads: int,
        dim_feedforward: int,
        dropout: float = 0.0,
        norm: Norm = "post",
        *,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        head_dim: int | None = None,
        drop_path: float = 0.0,
        attention: Kernel = "auto",
    ) -> None:
        super().__init__()
        if dim_feedforward < 1:
            raise ValueError(f"dim_feedforward must be at least 1, got {dim_feedforward}")
        if norm not in ("post", "pre", "none"):
            raise ValueError(f"norm must be 'post', 'pre' or 'none', got {norm!r}")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be 'relu' or 'gelu', got {activation!r}")
        self.norm = norm
        self.self_attn = MultiheadAttention(
            input_dim, input_dim, num_heads, head_dim=head_dim, dropout=dropout, attention=attention
        )
        self.feedforward = nn.Sequential(
            nn.Linear(input_dim, dim_feedforward),
            ACTIVATIONS[activation](),
            Dropout(dropout),
            nn.Linear(dim_feedforward, input_dim),
        )
        self.norm1, self.norm2 = (
            nn.Identity() if norm == "none" else nn.LayerNorm(input_dim, eps=layer_norm_eps)
            for _ in range(2)
        )
        self.dropout = Dropout(dropout)
        self.drop_path = DropPath(drop_path)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        return_attention: bool = False,
        queries: int | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Pass tokens (batch, length, input_dim) through the block.

        Args:
            x: the tokens.
            mask: what may attend to what.
            return_attention: also return the weights.
            queries: how many tokens, from the first on, to compute; None means every one.

        Returns:
            Tokens (batch, queries, input_dim), and with `return_attention` the weights
            (batch, num_heads, queries, length).
        """
        attended = self.self_attn(
            self.norm1(x) if self.norm == "pre" else x, mask, return_attention, queries
        )
        attended, attention = attended if return_attention else (attended, None)
        x = x[:, :queries] + self.drop_path(self.dropout(attended))
        if self.norm == "pre":
            x = x + self.drop_path(self.dropout(self.feedforward(self.norm2(x))))
        else:  # with norm="none" both norms are the identity
            x = self.norm1(x)
            x = self.norm2(x + self.drop_path(self.dropout(self.feedforward(x))))
        return x if attention is None else (x, attention)

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer) -> Self:
        """Copy the weights of torch's layer; the outputs are the same."""
        if layer.activation is F.relu or isinstance(layer.activation, nn.ReLU):
            activation: Activation = "relu"
        elif layer.activation is F.gelu or (
            isinstance(layer.activation, nn.GELU) and layer.activation.approximate == "none"
        ):
            activation = "gelu"
        else:
            raise ValueError(f"activation must be relu or the exact gelu, got {layer.activation!r}")
        if layer.linear1.bias is None:
            raise ValueError("an nn.TransformerEncoderLayer without biases cannot be read")
        block = cls(
            layer.linear1.in_features,
            layer.self_attn.num_heads,
            layer.linear1.out_features,
            layer.dropout.p,
            "pre" if layer.norm_first else "post",
            activation=activation,
            layer_norm_eps=layer.norm1.eps,
        ).to(layer.linear1.weight)
        block.self_attn = MultiheadAttention.from_torch(layer.self_attn)
        for ours, theirs in block._pairs(layer):
            ours.load_state_dict(theirs.state_dict())
        return block.train(layer.training)

    def to_torch(self) -> nn.TransformerEncoderLayer:
        """Copy the weights into torch's layer (`batch_first=True`); the outputs are the same."""
        if self.norm == "none":
            raise ValueError(
                "nn.TransformerEncoderLayer always normalises; norm='none' has no place in it"
            )
        if self.drop_path.rate:
            raise ValueError(
                f"nn.TransformerEncoderLayer has no drop_path; this one has {self.drop_path.rate}"
            )
        linear = self.feedforward[0]
        assert isinstance(linear, nn.Linear)
        assert isinstance(self.norm1, nn.LayerNorm)
        layer = nn.TransformerEncoderLayer(
            linear.in_features,
            self.self_attn.num_heads,
            linear.out_features,
            self.dropout.p,
            F.gelu if isinstance(self.feedforward[1], nn.GELU) else F.relu,
            self.norm1.eps,
            batch_first=True,
            norm_first=self.norm == "pre",
        ).to(linear.weight)
        layer.self_attn = self.self_attn.to_torch()
        for ours, theirs in self._pairs(layer):
            theirs.load_state_dict(ours.state_dict())
        return layer.train(self.training)

    def _pairs(self, layer: nn.TransformerEncoderLayer) -> list[tuple[nn.Module, nn.Module]]:
        """Our parts beside torch's, attention aside."""
        return [
            (self.feedforward[0], layer.linear1),
            (self.feedforward[3], layer.linear2),
            (self.norm1, layer.norm1),
            (self.norm2, layer.norm2),
        ]


class TransformerEncoder(nn.Module):
    """Blocks in a row; with norm="pre" a last normalisation follows them unless told otherwise.

    Args:
        num_layers: number of blocks.
        input_dim: width of the tokens, in and out.
        num_heads: number of attention heads.
        dim_feedforward: width of the hidden layer of each feed-forward net.
        dropout: see `EncoderBlock`.
        norm: see `EncoderBlock`.
        activation: see `EncoderBlock`.
        layer_norm_eps: see `EncoderBlock`.
        head_dim: see `EncoderBlock`.
        drop_path: probability that a sample skips a sub-layer of the last block in training; it
            grows linearly from 0 in the first, as early features serve all that follows.
        final_norm: whether the last normalisation of norm="pre" is here; False leaves it to whoever
            takes the tokens.
        attention: kernel, see `MultiheadAttention`.
    """

    def __init__(
        self,
        num_layers: int,
        input_dim: int,
        num_heads: int,
        dim_feedforward: int,
        dropout: float = 0.0,
        norm: Norm = "post",
        *,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        head_dim: int | None = None,
        drop_path: float = 0.0,
        final_norm: bool = True,
        attention: Kernel = "auto",
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, got {num_layers}")
        if not 0 <= drop_path < 1:
            raise ValueError(f"drop_path must lie in [0, 1), got {drop_path}")
        # From 0 up; a single block is the last one and has the full rate.
        shares = [i / (num_layers - 1) for i in range(num_layers)] if num_layers > 1 else [1.0]
        self.layers = nn.ModuleList(
            EncoderBlock(
                input_dim,
                num_heads,
                dim_feedforward,
                dropout,
                norm,
                activation=activation,
                layer_norm_eps=layer_norm_eps,
                head_dim=head_dim,
                drop_path=drop_path * share,
                attention=attention,
            )
            for share in shares
        )
        has_norm = norm == "pre" and final_norm
        self.norm = nn.LayerNorm(input_dim, eps=layer_norm_eps) if has_norm else nn.Identity()

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        return_attention: bool = False,
        num_read: int | None = None,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Pass tokens (batch, length, input_dim) through all blocks; the mask holds in every one.

        Args:
            x: the tokens.
            mask: what may attend to what.
            return_attention: also return the weights.
            num_read: how many tokens, from the first on, are read afterwards. The last block then
                computes no others; the one before it must, as the last attends to them.

        Returns:
            Tokens (batch, num_read, input_dim), all of them by default, and with `return_attention`
            a list with each layer's weights (batch, num_heads, length, length), of which the last
            has only the rows of the tokens that are read.
        """
        maps = []
        for layer in self.layers:
            last = layer is self.layers[-1]
            x = layer(x, mask, return_attention, num_read if last else None)
            if return_attention:
                x, attention = x
                maps.append(attention)
        x = self.norm(x)
        return (x, maps) if return_attention else x

    def get_attention_maps(self, x: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        """Return each layer's weights (batch, num_heads, length, length) of the forward pass."""
        maps = self.forward(x, mask, return_attention=True)[1]
        assert isinstance(maps, list)
        return maps
