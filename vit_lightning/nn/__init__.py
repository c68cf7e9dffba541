"""Layers in plain torch: attention, masks, positions, encoder, pooling."""

from vit_lightning.nn.attention import MultiheadAttention, projection_weights, scaled_dot_product
from vit_lightning.nn.drop_path import DropPath
from vit_lightning.nn.encoder import EncoderBlock, TransformerEncoder
from vit_lightning.nn.masks import causal_mask, padding_mask
from vit_lightning.nn.pooling import AttentionPool, mean_pool
from vit_lightning.nn.positional import PositionalEncoding

__all__ = [
    "AttentionPool",
    "DropPath",
    "EncoderBlock",
    "MultiheadAttention",
    "PositionalEncoding",
    "TransformerEncoder",
    "causal_mask",
    "mean_pool",
    "padding_mask",
    "projection_weights",
    "scaled_dot_product",
]
