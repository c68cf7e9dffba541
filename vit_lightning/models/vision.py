"""The Vision Transformer: an encoder over the patches of a picture, and a class read from it."""

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from vit_lightning.nn import (
    AttentionPool,
    ConvStem,
    Dropout,
    EncoderBlock,
    PatchEmbedding,
    TransformerEncoder,
    mean_pool,
    sincos_2d,
)
from vit_lightning.nn.attention import Kernel
from vit_lightning.nn.encoder import ACTIVATIONS, Activation, Norm
from vit_lightning.nn.patches import PatchKind
from vit_lightning.nn.threads import on_threads

Stem = Literal["none", "conv", "pooled"]
ImagePooling = Literal["cls", "mean", "attention"]
Positions = Literal["none", "learned", "sincos"]
Head = Literal["linear", "mlp"]

# Hidden units of a feed-forward net in a piece of the batch, for each thread that shares in it:
# 8 MB in bfloat16.
PIECE_ELEMENTS = 2**22


class VisionTransformer(nn.Module):
    """Patches, positions, encoder, pooling and head ("An Image is Worth 16x16 Words", 2020).

    The tokens are, in this order: the class token if there is one, the registers, the patches row
    by row.

    Args:
        image_size: side of the square images, in pixels.
        patch_size: side of a patch; it must divide `image_size`.
        num_classes: number of classes.
        embed_dim: width of the tokens.
        num_layers: encoder blocks.
        num_heads: attention heads per block.
        in_channels: channels of the images, 3 for colour and 1 for grey.
        dim_feedforward: hidden width of the feed-forward nets; None means `4 * embed_dim`.
        patch_embedding: "linear" (cut patches, then a linear layer) or "conv" (a convolution with
            the patch as kernel and stride); the same function, with different speed.
        stem: "none", or 3x3 convolutions in front, two for each number of `stem_channels`, which
            halve the picture: "conv" by a stride, "pooled" by taking the maximum of 2x2 pixels, and
            with batch normalisation. Patches are then half as large, so there are as many of them.
        stem_channels: channels of each stage of the stem; None means one of `embed_dim / 4`.
        pooling: what the class is read from: "cls" (a class token), "mean" (the average patch) or
            "attention" (a learned weighted average of the patches).
        num_registers: learned tokens that take part in attention and are not read.
        positions: how a patch knows its place: "none", "learned" or "sincos" (fixed, 2-D).
        norm: where the blocks normalise, "post", "pre" or "none".
        norm_after_pooling: with norm="pre", normalise the pooled vector instead of every token
            before pooling; it makes a difference unless pooling is "cls".
        activation: of feed-forward nets, stem and MLP head, "relu" or "gelu".
        dropout: dropout on the embedded tokens and inside the blocks.
        drop_path: probability that a picture skips a sub-layer of the last block in training,
            growing linearly from 0 in the first.
        head: "linear", or "mlp" for two linear layers, `embed_dim` wide, and an activation between.
        layer_norm_eps: added to the variance in the normalisation.
        attention: kernel, "auto", "readable" or "fused".
        skip_unread: with pooling="cls", compute nothing in the last block but the class token, as
            nothing else of it is read; the logits are the same.
        split_batch: on a CPU, take the batch through the encoder in pieces that stay in the cache,
            and in training on each thread pieces of its own; the logits are the same.
    """

    positions: Tensor | None

    def __init__(
        self,
        *,
        image_size: int,
        patch_size: int,
        num_classes: int,
        embed_dim: int,
        num_layers: int,
        num_heads: int,
        in_channels: int = 3,
        dim_feedforward: int | None = None,
        patch_embedding: PatchKind = "linear",
        stem: Stem = "none",
        stem_channels: Sequence[int] | None = None,
        pooling: ImagePooling = "cls",
        num_registers: int = 0,
        positions: Positions = "learned",
        norm: Norm = "pre",
        norm_after_pooling: bool = False,
        activation: Activation = "gelu",
        dropout: float = 0.0,
        drop_path: float = 0.0,
        head: Head = "linear",
        layer_norm_eps: float = 1e-5,
        attention: Kernel = "auto",
        skip_unread: bool = True,
        split_batch: bool = True,
    ) -> None:
        super().__init__()
        for name, value, allowed in (
            ("stem", stem, get_args(Stem)),
            ("pooling", pooling, get_args(ImagePooling)),
            ("positions", positions, get_args(Positions)),
            ("activation", activation, get_args(Activation)),
            ("head", head, get_args(Head)),
        ):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        if min(image_size, num_classes) < 1:
            raise ValueError(
                f"image_size and num_classes must be at least 1, got {image_size} and {num_classes}"
            )
        if patch_size < 1 or image_size % patch_size:
            raise ValueError(
                f"patch_size must divide image_size, got patch_size={patch_size} "
                f"and image_size={image_size}"
            )
        if stem_channels is None:
            stem_channels = [max(in_channels, embed_dim // 4)]
        shrink = 1 if stem == "none" else 2 ** len(stem_channels)
        if patch_size % shrink:
            raise ValueError(
                "patch_size must be even with a stem, each stage of which halves it: "
                f"{patch_size} is not divisible by {shrink}"
            )
        if num_registers < 0:
            raise ValueError(f"num_registers must be at least 0, got {num_registers}")
        if norm_after_pooling and norm != "pre":
            raise ValueError(
                f"norm_after_pooling moves the last normalisation of norm='pre', got norm={norm!r}"
            )
        self.image_shape = (in_channels, image_size, image_size)
        self.grid_size = (image_size // patch_size, image_size // patch_size)
        self.num_prefix_tokens = num_registers + (pooling == "cls")
        self.pooling = pooling
        self.num_read = 1 if pooling == "cls" and skip_unread else None
        self.split_batch = split_batch
        self.dim_feedforward = 4 * embed_dim if dim_feedforward is None else dim_feedforward

        self.stem: nn.Module = nn.Identity()
        channels = in_channels
        if stem != "none":
            pooled = stem == "pooled"
            self.stem = ConvStem(in_channels, stem_channels, activation, pooled=pooled)
            channels = stem_channels[-1]
        self.patch_embedding = PatchEmbedding(
            channels, embed_dim, patch_size // shrink, patch_embedding
        )
        # Only patches have positions: a token that always stands in the same place learns its own.
        num_patches = self.grid_size[0] * self.grid_size[1]
        if positions == "learned":
            # On the scale of the patches, as sin-cos positions are. The usual 0.02 is lost beside
            # them at first: a short training on digits gave 83-88 % with it, 95-96 % with this.
            self.positions = _normal(1, num_patches, embed_dim, std=0.5)
        elif positions == "sincos":
            encoding = sincos_2d(*self.grid_size, embed_dim)[None]  # (1, N, embed_dim)
            self.register_buffer("positions", encoding, persistent=False)
        else:
            self.positions = None
        self.class_token = _normal(1, 1, embed_dim, std=0.02) if pooling == "cls" else None
        self.registers = _normal(1, num_registers, embed_dim, std=0.02) if num_registers else None
        self.dropout = Dropout(dropout)
        self.encoder = TransformerEncoder(
            num_layers,
            embed_dim,
            num_heads,
            self.dim_feedforward,
            dropout,
            norm,
            activation=activation,
            layer_norm_eps=layer_norm_eps,
            drop_path=drop_path,
            final_norm=not norm_after_pooling,
            attention=attention,
        )
        self.pool = AttentionPool(embed_dim) if pooling == "attention" else None
        self.norm = (
            nn.LayerNorm(embed_dim, eps=layer_norm_eps) if norm_after_pooling else nn.Identity()
        )
        readout = nn.Linear(embed_dim, num_classes)
        self.head: nn.Module = readout
        if head == "mlp":
            self.head = nn.Sequential(
                nn.Linear(embed_dim, embed_dim), ACTIVATIONS[activation](), readout
            )
        for block in self.encoder.layers:
            assert isinstance(block, EncoderBlock)
            _xavier(block.feedforward)
        _xavier(self.head)
        # Small logits: training starts from "every class is as likely".
        nn.init.trunc_normal_(readout.weight, std=0.02)

    def forward(self, images: Tensor) -> Tensor:
        """Classify images (batch, in_channels, image_size, image_size).

        Returns:
            Logits, (batch, num_classes).
        """
        return self._forward(images)[0]

    def get_attention_maps(self, images: Tensor) -> list[Tensor]:
        """Return each layer's attention weights, (batch, num_heads, tokens, tokens), of `forward`.

        On both axes the first `num_prefix_tokens` are class token and registers; the patches that
        follow form a grid of `grid_size` (rows, columns).
        """
        return self._forward(images, return_attention=True)[1]

    def embed(self, images: Tensor) -> Tensor:
        """Make the tokens that `encoder` takes, (batch, num_prefix_tokens + patches, embed_dim)."""
        if images.ndim != 4 or tuple(images.shape[1:]) != self.image_shape:
            C, H, W = self.image_shape
            raise ValueError(
                f"images must have the shape (batch, {C}, {H}, {W}), got {tuple(images.shape)}"
            )
        x: Tensor = self.patch_embedding(self.stem(images))  # (B, C, H, W) -> (B, N, embed_dim)
        if self.positions is not None:
            x = x + self.positions
        prefix = [
            t.expand(len(x), -1, -1) for t in (self.class_token, self.registers) if t is not None
        ]
        x = torch.cat([*prefix, x], dim=1)  # (B, num_prefix_tokens + N, embed_dim)
        x = self.dropout(x)
        return x

    def _forward(
        self, images: Tensor, return_attention: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        x = self.embed(images)  # (B, T, embed_dim)
        if return_attention:
            x, maps = self.encoder(x, return_attention=True)
            return self._classify(x), maps
        if self.training and self.split_batch:
            layers = (self.encoder, self.pool, self.norm, self.head)
            parameters = (p for layer in layers if layer is not None for p in layer.parameters())
            return on_threads(self._read, x, parameters), []
        return self._read(x), []

    def _read(self, x: Tensor) -> Tensor:
        pieces = torch.split(x, self._piece_size(x))  # (B, T, embed_dim) -> (b, T, embed_dim) each
        logits = [self._classify(self.encoder(piece, num_read=self.num_read)) for piece in pieces]
        return torch.cat(logits)  # (B, num_classes)

    def _classify(self, x: Tensor) -> Tensor:
        if self.pooling == "cls":
            x = x[:, 0]  # (b, T, embed_dim) -> (b, embed_dim)
        else:
            patches = x[:, self.num_prefix_tokens :]  # (b, N, embed_dim)
            x = mean_pool(patches) if self.pool is None else self.pool(patches)  # (b, embed_dim)
        logits: Tensor = self.head(self.norm(x))
        return logits

    def _piece_size(self, tokens: Tensor) -> int:
        batch, length, _ = tokens.shape
        if not self.split_batch or tokens.device.type != "cpu":
            return max(1, batch)
        elements = PIECE_ELEMENTS * torch.get_num_threads()
        largest = max(1, elements // (length * self.dim_feedforward))
        num_pieces = max(1, math.ceil(batch / largest))
        return max(1, math.ceil(batch / num_pieces))


def _normal(*shape: int, std: float) -> nn.Parameter:
    # Cut at two standard deviations; torch's default bounds are -2 and 2 whatever the scale.
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(shape), std=std, a=-2 * std, b=2 * std))


def _xavier(net: nn.Module) -> None:
    # As attention draws its own, and as the code of the ViT paper does.
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
