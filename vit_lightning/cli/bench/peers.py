"""The same Vision Transformer in other people's libraries, each as that library would make it.

All have a class token and learned positions, and take pictures (batch, 3, size, size) to logits.
They differ in what their authors chose: BERT normalises after each sub-layer, vit-pytorch has no
biases on queries, keys and values but normalises the patches, and so on.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from vit_lightning.cli.bench.sizes import Shape


def torchvision_vit(shape: Shape) -> nn.Module:
    """Make torchvision's `VisionTransformer`."""
    from torchvision.models import VisionTransformer

    model: nn.Module = VisionTransformer(
        image_size=shape.image_size,
        patch_size=shape.patch_size,
        num_layers=shape.num_layers,
        num_heads=shape.num_heads,
        hidden_dim=shape.embed_dim,
        mlp_dim=shape.dim_feedforward,
        num_classes=shape.num_classes,
    )
    return model


def timm_vit(shape: Shape) -> nn.Module:
    """Make timm's `VisionTransformer`."""
    from timm.models import VisionTransformer

    return VisionTransformer(
        img_size=shape.image_size,
        patch_size=shape.patch_size,
        num_classes=shape.num_classes,
        embed_dim=shape.embed_dim,
        depth=shape.num_layers,
        num_heads=shape.num_heads,
        mlp_ratio=shape.dim_feedforward / shape.embed_dim,
    )


def transformers_vit(shape: Shape) -> nn.Module:
    """Make transformers' `ViTForImageClassification`."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=shape.image_size,
        patch_size=shape.patch_size,
        num_labels=shape.num_classes,
        **_transformers_sizes(shape),
    )
    return _Logits(ViTForImageClassification(config))


def transformers_bert(shape: Shape) -> nn.Module:
    """Make transformers' `BertModel` with patches where the words would be."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=1, max_position_embeddings=shape.num_tokens, **_transformers_sizes(shape)
    )
    encoder = BertModel(config, add_pooling_layer=False)
    return _OnPatches(shape, lambda x: encoder(inputs_embeds=x).last_hidden_state, encoder)


def vit_pytorch_vit(shape: Shape) -> nn.Module:
    """Make vit-pytorch's `ViT`."""
    from vit_pytorch import ViT

    model: nn.Module = ViT(
        image_size=shape.image_size,
        patch_size=shape.patch_size,
        num_classes=shape.num_classes,
        dim=shape.embed_dim,
        depth=shape.num_layers,
        heads=shape.num_heads,
        dim_head=shape.embed_dim // shape.num_heads,
        mlp_dim=shape.dim_feedforward,
    )
    return model


def torch_encoder(shape: Shape) -> nn.Module:
    """Make torch's `nn.TransformerEncoder`, normalising first, on patches with positions."""
    layer = nn.TransformerEncoderLayer(
        shape.embed_dim,
        shape.num_heads,
        shape.dim_feedforward,
        dropout=0.0,
        activation="gelu",
        batch_first=True,
        norm_first=True,
    )
    encoder = nn.TransformerEncoder(
        layer, shape.num_layers, nn.LayerNorm(shape.embed_dim), enable_nested_tensor=False
    )
    positions = nn.Parameter(0.02 * torch.randn(1, shape.num_tokens, shape.embed_dim))
    model = _OnPatches(shape, lambda x: encoder(x + positions), encoder)
    model.positions = positions
    return model


# Name, the module that must be there, and the maker.
PEERS: dict[str, tuple[str, Callable[[Shape], nn.Module]]] = {
    "torchvision": ("torchvision", torchvision_vit),
    "timm": ("timm", timm_vit),
    "transformers-vit": ("transformers", transformers_vit),
    "transformers-bert": ("transformers", transformers_bert),
    "vit-pytorch": ("vit_pytorch", vit_pytorch_vit),
    "torch-encoder": ("torch", torch_encoder),
}


def is_installed(peer: str) -> bool:
    """Say whether the library of a peer is there."""
    return find_spec(PEERS[peer][0]) is not None


def make_peer(peer: str, shape: Shape) -> nn.Module:
    """Make the model of a peer."""
    return PEERS[peer][1](shape)


def _transformers_sizes(shape: Shape) -> dict[str, Any]:
    return {
        "hidden_size": shape.embed_dim,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "intermediate_size": shape.dim_feedforward,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }


class _Logits(nn.Module):
    """Takes the logits out of what a transformers model returns."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images).logits
        return logits


class _OnPatches(nn.Module):
    """Patches, a class token, an encoder that others wrote, and a head."""

    def __init__(
        self, shape: Shape, encode: Callable[[Tensor], Tensor], encoder: nn.Module
    ) -> None:
        super().__init__()
        size = shape.patch_size
        self.patches = nn.Conv2d(3, shape.embed_dim, size, stride=size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, shape.embed_dim))
        self.encoder = encoder
        self.encode = encode
        self.head = nn.Linear(shape.embed_dim, shape.num_classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).mT  # (B, C, H, W) -> (B, N, D)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)  # (B, 1 + N, D)
        logits: Tensor = self.head(self.encode(x)[:, 0])
        return logits
