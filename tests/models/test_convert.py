"""Our Vision Transformer with the weights of torchvision's and timm's: the same logits."""

import subprocess
import sys
from functools import partial

import pytest
import timm
import torch
from timm.layers import GluMlp
from timm.models import VisionTransformer as TimmViT
from timm.models.vision_transformer import ResPostBlock
from torch import nn
from torchvision.models import VisionTransformer as TorchvisionViT
from torchvision.models.vision_transformer import ConvStemConfig

from vit_lightning.models.convert import from_timm, from_torchvision

B, P, GRID, E, H, K, FF = 2, 3, 5, 14, 2, 7, 28
SIZE = P * GRID
TIGHT = {"rtol": 0.0, "atol": 1e-8}


def randomised(model: nn.Module) -> nn.Module:
    """Give every weight, bias, norm, token and position a value that matters."""
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.double().eval()


def torchvision_vit(**kwargs) -> TorchvisionViT:
    sizes = {"num_layers": 2, "num_heads": H, "hidden_dim": E, "mlp_dim": FF, "num_classes": K}
    return randomised(TorchvisionViT(image_size=SIZE, patch_size=P, **(sizes | kwargs)))


def timm_vit(**kwargs) -> TimmViT:
    sizes = {"img_size": SIZE, "patch_size": P, "in_chans": 5, "num_classes": K}
    widths = {"embed_dim": E, "depth": 2, "num_heads": H, "mlp_ratio": 2}
    return randomised(TimmViT(**(sizes | widths | kwargs)))


def assert_same(ours: nn.Module, theirs: nn.Module, channels: int) -> None:
    x = torch.randn(B, channels, SIZE, SIZE, dtype=torch.float64, requires_grad=True)
    logits, expected = ours(x), theirs(x)
    assert expected.std() > 0.1
    torch.testing.assert_close(logits, expected, **TIGHT)
    (grad,) = torch.autograd.grad(logits.square().sum(), x)
    (expected_grad,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(grad, expected_grad, rtol=1e-8, atol=1e-8)


def test_against_torchvision():
    theirs = torchvision_vit()
    ours = from_torchvision(theirs)
    assert_same(ours, theirs, 3)
    assert (
        sum(p.numel() for p in ours.parameters())
        == sum(p.numel() for p in theirs.parameters()) - theirs.encoder.pos_embedding.shape[-1]
    )  # the class token took its position in


def test_against_torchvision_with_another_norm_eps():
    theirs = torchvision_vit(norm_layer=partial(nn.LayerNorm, eps=0.1))
    assert_same(from_torchvision(theirs), theirs, 3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"global_pool": "avg"},
        {"global_pool": "avg", "class_token": False},
        {"global_pool": "avg", "fc_norm": False},
        {"global_pool": "token", "fc_norm": True},
        {"no_embed_class": True},
        {"reg_tokens": 3},
        {"reg_tokens": 3, "no_embed_class": True},
        {"reg_tokens": 3, "global_pool": "avg"},
        {"reg_tokens": 3, "global_pool": "avg", "class_token": False, "no_embed_class": True},
        {"pos_embed": "none"},
        {"act_layer": "relu"},
        {"norm_layer": partial(nn.LayerNorm, eps=0.1)},
    ],
    ids=lambda options: " ".join(f"{k}={v}" for k, v in options.items() if k != "norm_layer"),
)
def test_against_timm(options):
    theirs = timm_vit(**options)
    assert_same(from_timm(theirs), theirs, 5)


def test_what_avg_does_not_read_is_a_register():
    ours = from_timm(timm_vit(global_pool="avg", reg_tokens=3))
    assert (ours.pooling, ours.num_prefix_tokens, ours.class_token) == ("mean", 4, None)


def test_rates_dtype_and_mode_come_along():
    rates = {"pos_drop_rate": 0.2, "proj_drop_rate": 0.2, "attn_drop_rate": 0.2}
    ours = from_timm(timm_vit(**rates, drop_path_rate=0.1).float().train())
    assert ours.training
    assert ours.positions.dtype == torch.float32
    assert (ours.dropout.p, ours.encoder.layers[1].self_attn.dropout) == (0.2, 0.2)
    assert [layer.drop_path.rate for layer in ours.encoder.layers] == pytest.approx([0.0, 0.1])
    ours = from_torchvision(torchvision_vit(dropout=0.3, attention_dropout=0.3))
    assert (ours.training, ours.dropout.p) == (False, 0.3)


def test_weights_are_copied():
    theirs = torchvision_vit()
    ours = from_torchvision(theirs)
    before = ours.head.weight.clone()
    nn.init.zeros_(theirs.heads.head.weight)
    assert torch.equal(ours.head.weight, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"representation_size": 11}, "has heads.pre_logits"),
        ({"dropout": 0.1}, r"dropout must be the same .* got 0.0 and 0.1"),
        ({"conv_stem_configs": [ConvStemConfig(8, 3, 3)]}, "conv_stem_configs"),
    ],
)
def test_what_torchvision_has_and_we_have_not(options, message):
    with pytest.raises(ValueError, match=message):
        from_torchvision(torchvision_vit(**options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"qk_norm": True}, r"has blocks.0.attn.k_norm"),
        ({"init_values": 0.1}, r"has blocks.0.ls1.gamma"),
        ({"qkv_bias": False}, "lacks encoder.layers.0.self_attn.qkv_proj.bias"),
        ({"proj_bias": False}, "lacks encoder.layers.0.feedforward.0.bias"),
        ({"pre_norm": True}, "norm_pre|patch_embedding"),
        ({"final_norm": False}, "lacks encoder.norm"),
        ({"num_classes": 0}, "nothing for our head"),
        ({"global_pool": "map"}, "global_pool must be 'token' or 'avg', got 'map'"),
        ({"global_pool": "max"}, "global_pool"),
        ({"global_pool": "avg", "pool_include_prefix": True}, "pool_include_prefix"),
        ({"dynamic_img_size": True}, "dynamic_img_size"),
        ({"drop_rate": 0.1}, "head dropout"),
        ({"attn_drop_rate": 0.1}, "dropout must be the same"),
        ({"patch_drop_rate": 0.1}, "patch dropout"),
        ({"mlp_layer": GluMlp}, "mlp_layer"),
        ({"block_fn": ResPostBlock}, "block_fn"),
        ({"act_layer": "gelu_tanh"}, "act_layer"),
        ({"act_layer": partial(nn.GELU, approximate="tanh")}, "act_layer"),
        ({"norm_layer": "rmsnorm"}, "layer_norm_eps"),
        ({"embed_norm_layer": nn.LayerNorm}, "layer_norm_eps|patch_embed.norm"),
        ({"img_size": (SIZE, 2 * SIZE)}, "square"),
        ({"img_size": SIZE + 1}, "patch_size"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_what_timm_has_and_we_have_not(options, message):
    with pytest.raises(ValueError, match=message):
        from_timm(timm_vit(**options))


def test_other_models_are_refused():
    distilled = timm.create_model("deit_tiny_distilled_patch16_224", depth=1)
    for convert, model in (
        (from_timm, distilled),
        (from_timm, torchvision_vit()),
        (from_torchvision, timm_vit()),
        (from_torchvision, nn.Linear(3, 2)),
    ):
        with pytest.raises(ValueError, match="model must be"):
            convert(model)


def test_timm_is_not_imported_by_the_package():
    code = "import sys, vit_lightning.models.convert; sys.exit('timm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
