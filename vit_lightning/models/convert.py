"""Weights of other libraries' Vision Transformers in ours, with the same logits.

Both conversions rename the entries of the other state dict, read all sizes from their shapes, and
demand that every entry finds its place: what our model cannot represent is refused, never dropped.
"""

import re
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torchvision.models import VisionTransformer as TorchvisionViT

from vit_lightning.models.vision import ImagePooling, VisionTransformer
from vit_lightning.nn.encoder import Activation

if TYPE_CHECKING:  # timm is no dependency: only who has it can have a model of it
    from timm.models import VisionTransformer as TimmViT

_TORCHVISION_NAMES = {
    r"^conv_proj\.": "patch_embedding.projection.",
    r"^encoder\.layers\.encoder_layer_(\d+)\.": r"encoder.layers.\1.",
    r"\.ln_([12])\.": r".norm\1.",
    r"\.self_attention\.in_proj_": ".self_attn.qkv_proj.",
    r"\.self_attention\.out_proj\.": ".self_attn.o_proj.",
    r"\.mlp\.([03])\.": r".feedforward.\1.",
    r"^encoder\.ln\.": "encoder.norm.",
    r"^heads\.head\.": "head.",
}
_TIMM_NAMES = {
    r"^patch_embed\.proj\.": "patch_embedding.projection.",
    r"^norm\.": "encoder.norm.",
    r"^fc_norm\.": "norm.",
    r"^blocks\.(\d+)\.": r"encoder.layers.\1.",
    r"\.attn\.qkv\.": ".self_attn.qkv_proj.",
    r"\.attn\.proj\.": ".self_attn.o_proj.",
    r"\.mlp\.fc1\.": ".feedforward.0.",
    r"\.mlp\.fc2\.": ".feedforward.3.",
}


def from_torchvision(model: TorchvisionViT) -> VisionTransformer:
    """Copy a torchvision `VisionTransformer`; logits and dropout are the same.

    One with `conv_stem_configs` or a `representation_size` is refused.
    """
    if not isinstance(model, TorchvisionViT):
        raise ValueError(f"model must be torchvision's VisionTransformer, got {type(model)}")
    if not isinstance(model.conv_proj, nn.Conv2d):
        raise ValueError(
            "a torchvision model with conv_stem_configs cannot be read, as our stem is another one"
        )
    state = model.state_dict()
    class_token, positions = state.pop("class_token"), state.pop("encoder.pos_embedding")
    return _assemble(
        "torchvision",
        model,
        state,
        _TORCHVISION_NAMES,
        prefix=class_token + positions[:, :1],
        positions=positions[:, 1:],
        image_size=model.image_size,
        num_heads=model.encoder.layers[0].num_heads,
        pooling="cls",
        activation="gelu",
    )


def from_timm(model: "TimmViT") -> VisionTransformer:
    """Copy a timm `VisionTransformer`; logits, dropout and drop-path are the same.

    It must have plain pre-norm blocks and pooling "token" or "avg". A class token that "avg" does
    not read becomes what it is, a register.
    """
    theirs: Any = model
    if _kind(model) != "VisionTransformer" or not type(model).__module__.startswith("timm."):
        raise ValueError(f"model must be timm's plain VisionTransformer, got {type(model)}")
    block = theirs.blocks[0]
    act = getattr(block.mlp, "act", None)
    is_exact = getattr(act, "approximate", "none") == "none"
    for what, value, allowed in (
        ("global_pool", theirs.global_pool, ("token", "avg")),
        ("pool_include_prefix", getattr(theirs, "pool_include_prefix", False), (False,)),
        ("dynamic_img_size", theirs.dynamic_img_size, (False,)),
        ("head dropout", theirs.head_drop.p, (0,)),
        ("patch dropout", _kind(theirs.patch_drop), ("Identity",)),
        ("embed_layer", _kind(theirs.patch_embed), ("PatchEmbed",)),
        ("block_fn", _kind(block), ("Block",)),
        ("attn_layer", _kind(block.attn), ("Attention",)),
        ("mlp_layer", _kind(block.mlp), ("Mlp",)),
        ("act_layer", _kind(act) if is_exact else repr(act), ("GELU", "ReLU")),
    ):
        if value not in allowed:
            allowed_values = " or ".join(repr(a) for a in allowed)
            raise ValueError(f"the timm model's {what} must be {allowed_values}, got {value!r}")
    height, width = theirs.patch_embed.img_size
    if height != width:
        raise ValueError(f"the timm model's images must be square, got {height}x{width}")

    state = model.state_dict()
    tokens = [state.pop(name) for name in ("cls_token", "reg_token") if name in state]
    nothing = theirs.patch_embed.proj.weight.new_empty(1, 0, theirs.embed_dim)
    prefix = torch.cat([nothing, *tokens], dim=1)  # (1, P, D)
    positions = state.pop("pos_embed", None)
    if positions is not None and not theirs.no_embed_class:
        P = prefix.shape[1]
        prefix, positions = prefix + positions[:, :P], positions[:, P:]  # (1, P, D), (1, N, D)
    return _assemble(
        "timm",
        model,
        state,
        _TIMM_NAMES,
        prefix=prefix,
        positions=positions,
        image_size=height,
        num_heads=block.attn.num_heads,
        pooling="cls" if theirs.global_pool == "token" else "mean",
        activation="relu" if _kind(act) == "ReLU" else "gelu",
        drop_path=getattr(theirs.blocks[-1].drop_path1, "drop_prob", 0.0),
    )


def _assemble(
    library: str,
    model: nn.Module,
    state: dict[str, Tensor],
    names: dict[str, str],
    *,
    prefix: Tensor,
    positions: Tensor | None,
    image_size: int,
    num_heads: int,
    pooling: ImagePooling,
    activation: Activation,
    drop_path: float = 0.0,
) -> VisionTransformer:
    """Build our model from a state dict and what cannot be read from its shapes.

    `prefix` (1, tokens, dim) goes in front of the patches, `positions` (1, patches, dim) is added
    to them.
    """
    origin = {_rename(name, names): name for name in state}
    found = {ours: state[theirs] for ours, theirs in origin.items()}
    for needed in ("patch_embedding.projection", "encoder.layers.0.feedforward.0", "head"):
        if f"{needed}.weight" not in found:
            raise ValueError(f"this {library} model has nothing for our {needed}")
    norms = [m for m in model.modules() if isinstance(m, nn.LayerNorm)]
    embed_dim, in_channels, patch_size, patch_width = found[
        "patch_embedding.projection.weight"
    ].shape
    if patch_size != patch_width:
        raise ValueError(
            f"the {library} model's patches must be square, got {patch_size}x{patch_width}"
        )
    num_registers = prefix.shape[1] - (pooling == "cls")
    ours = VisionTransformer(
        image_size=image_size,
        patch_size=patch_size,
        num_classes=found["head.weight"].shape[0],
        embed_dim=embed_dim,
        num_layers=sum(name.endswith("feedforward.0.weight") for name in found),
        num_heads=num_heads,
        in_channels=in_channels,
        dim_feedforward=found["encoder.layers.0.feedforward.0.weight"].shape[0],
        patch_embedding="conv",
        pooling=pooling,
        num_registers=num_registers,
        positions="none" if positions is None else "learned",
        norm_after_pooling="norm.weight" in found,
        activation=activation,
        dropout=_only("dropout", library, _dropout_rates(model)),
        drop_path=drop_path,
        layer_norm_eps=_only("layer_norm_eps", library, {norm.eps for norm in norms}),
    ).to(found["head.weight"])
    if positions is not None:
        found["positions"] = positions
    if pooling == "cls":
        found["class_token"] = prefix[:, :1]
    if num_registers:
        found["registers"] = prefix[:, -num_registers:]

    wanted = {name: tensor.shape for name, tensor in ours.state_dict().items()}
    for name in sorted(found.keys() ^ wanted.keys()):
        verb = "lacks" if name in wanted else "has"
        raise ValueError(
            f"this {library} model {verb} {origin.get(name, name)}, unlike our VisionTransformer"
        )
    for name in wanted:
        if found[name].shape != wanted[name]:
            raise ValueError(
                f"{origin.get(name, name)} of this {library} model must have the shape "
                f"{tuple(wanted[name])} for our VisionTransformer, got {tuple(found[name].shape)}"
            )
    ours.load_state_dict(found)
    return ours.train(model.training)


def _rename(name: str, names: dict[str, str]) -> str:
    for pattern, replacement in names.items():
        name = re.sub(pattern, replacement, name)
    return name


def _dropout_rates(model: nn.Module) -> set[float]:
    head = getattr(model, "head_drop", None)  # timm's, known to be off
    rates = {m.p for m in model.modules() if isinstance(m, nn.Dropout) and m is not head}
    return rates | {m.dropout for m in model.modules() if isinstance(m, nn.MultiheadAttention)}


def _only(what: str, library: str, values: set[float]) -> float:
    if len(values) != 1:
        listed = " and ".join(str(value) for value in sorted(values)) or "none"
        raise ValueError(f"{what} must be the same all through the {library} model, got {listed}")
    return values.pop()


def _kind(thing: object) -> str:
    return type(thing).__name__
