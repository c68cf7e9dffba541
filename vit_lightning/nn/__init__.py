"""Layers in plain torch: attention, masks, positions, patches, encoder, pooling."""

from vit_lightning.nn.attention import MultiheadAttention, projection_weights, scaled_dot_product
from vit_lightning.nn.conv_stem import ConvStem
from vit_lightning.nn.drop_path import DropPath
from vit_lightning.nn.dropout import Dropout
from vit_lightning.nn.encoder import EncoderBlock, TransformerEncoder
from vit_lightning.nn.masks import causal_mask, padding_mask
from vit_lightning.nn.patches import PatchEmbedding, image_to_patches, patches_to_image
from vit_lightning.nn.pooling import AttentionPool, mean_pool
from vit_lightning.nn.positional import PositionalEncoding, sincos_2d

__all__ = [
    "AttentionPool",
    "ConvStem",
    "DropPath",
    "Dropout",
    "EncoderBlock",
    "MultiheadAttention",
    "PatchEmbedding",
    "PositionalEncoding",
    "TransformerEncoder",
    "causal_mask",
    "image_to_patches",
    "mean_pool",
    "padding_mask",
    "patches_to_image",
    "projection_weights",
    "scaled_dot_product",
    "sincos_2d",
]
