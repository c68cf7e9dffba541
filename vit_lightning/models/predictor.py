"""The sequence predictor: an encoder that says something of each element, or of the whole."""

from typing import Literal

import torch
from torch import Tensor, nn

from vit_lightning.nn import (
    AttentionPool,
    Dropout,
    PositionalEncoding,
    TransformerEncoder,
    mean_pool,
)
from vit_lightning.nn.attention import Kernel
from vit_lightning.nn.encoder import Norm
from vit_lightning.nn.masks import add_class_token_to_mask, attended_positions

Pooling = Literal["mean", "cls", "attention"]


class TransformerPredictor(nn.Module):
    """Input network, positional encoding, encoder and output network.

    Args:
        input_dim: width of an input element (the number of symbols, for one-hot input).
        model_dim: width of the tokens inside.
        num_classes: outputs per prediction.
        num_heads: attention heads per layer.
        num_layers: encoder blocks.
        dropout: dropout inside the model.
        input_dropout: dropout on the input features.
        dim_feedforward: hidden width of the feed-forward nets; None means `2 * model_dim`.
        norm: where the blocks normalise, "post", "pre" or "none".
        pooling: None predicts for each element; "mean", "cls" (a class token) and "attention" (a
            learned weighted average) predict once for the whole sequence.
        max_len: longest sequence.
        attention: kernel, "auto", "readable" or "fused".
    """

    def __init__(
        self,
        input_dim: int,
        model_dim: int,
        num_classes: int,
        num_heads: int,
        num_layers: int,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        *,
        dim_feedforward: int | None = None,
        norm: Norm = "post",
        pooling: Pooling | None = None,
        max_len: int = 5000,
        attention: Kernel = "auto",
    ) -> None:
        super().__init__()
        if min(input_dim, model_dim, num_classes) < 1:
            raise ValueError(
                "input_dim, model_dim and num_classes must be at least 1, "
                f"got {input_dim}, {model_dim} and {num_classes}"
            )
        if pooling not in (None, "mean", "cls", "attention"):
            raise ValueError(f"pooling must be None, 'mean', 'cls' or 'attention', got {pooling!r}")
        self.pooling = pooling
        self.num_heads = num_heads
        self.input_net = nn.Sequential(Dropout(input_dropout), nn.Linear(input_dim, model_dim))
        self.class_token = (
            nn.Parameter(torch.randn(1, 1, model_dim) * 0.02) if pooling == "cls" else None
        )
        self.positional_encoding = PositionalEncoding(model_dim, max_len + (pooling == "cls"))
        self.encoder = TransformerEncoder(
            num_layers,
            model_dim,
            num_heads,
            2 * model_dim if dim_feedforward is None else dim_feedforward,
            dropout,
            norm,
            attention=attention,
        )
        self.pool = AttentionPool(model_dim) if pooling == "attention" else None
        self.output_net = nn.Sequential(
            nn.Linear(model_dim, model_dim),
            nn.LayerNorm(model_dim),
            nn.ReLU(),
            Dropout(dropout),
            nn.Linear(model_dim, num_classes),
        )

    def forward(
        self, x: Tensor, mask: Tensor | None = None, add_positional_encoding: bool = True
    ) -> Tensor:
        """Predict.

        Args:
            x: input features, (batch, length, input_dim).
            mask: what may attend to what, in every layer; pooling skips what nothing attends to.
            add_positional_encoding: without it the model cannot see the order.

        Returns:
            Logits, (batch, length, num_classes), or with a pooling (batch, num_classes).
        """
        return self._forward(x, mask, add_positional_encoding)[0]

    def get_attention_maps(
        self, x: Tensor, mask: Tensor | None = None, add_positional_encoding: bool = True
    ) -> list[Tensor]:
        """Return each layer's attention weights, (batch, num_heads, length, length), of `forward`.

        With `pooling="cls"` the class token comes first on both axes.
        """
        return self._forward(x, mask, add_positional_encoding, return_attention=True)[1]

    def _forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        add_positional_encoding: bool,
        return_attention: bool = False,
    ) -> tuple[Tensor, list[Tensor]]:
        B, L, _ = x.shape
        x = self.input_net(x)  # (B, L, input_dim) -> (B, L, model_dim)
        present = None
        if mask is not None and self.pooling is not None:
            shape = torch.Size((B, self.num_heads, L, L))
            present = attended_positions(mask, shape)
            if self.class_token is not None:
                mask = add_class_token_to_mask(mask, shape)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(B, -1, -1), x], dim=1)  # (B, 1 + L, model_dim)
        if add_positional_encoding:
            x = self.positional_encoding(x)
        num_read = 1 if self.pooling == "cls" and not return_attention else None
        x = self.encoder(x, mask, return_attention, num_read)
        x, maps = x if return_attention else (x, [])
        if self.pooling == "cls":
            x = x[:, 0]  # (B, 1 + L, model_dim) -> (B, model_dim)
        elif self.pooling == "mean":
            x = mean_pool(x, present)  # (B, model_dim)
        elif self.pool is not None:
            x = self.pool(x, present)  # (B, model_dim)
        return self.output_net(x), maps
