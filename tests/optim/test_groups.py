import pytest
import torch
from torch import nn

from vit_lightning.models import VisionTransformer
from vit_lightning.optim import decay_groups, muon_groups

SIZES = {"image_size": 12, "patch_size": 4, "num_classes": 5, "embed_dim": 8, "num_heads": 2}


def names(model: nn.Module, group: dict) -> set[str]:
    ids = {id(parameter) for parameter in group["params"]}
    return {name for name, parameter in model.named_parameters() if id(parameter) in ids}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stem": "conv", "head": "mlp", "pooling": "attention", "num_registers": 3},
        {"patch_embedding": "conv", "norm": "post"},
        {"norm": "none", "positions": "none"},
        {"pooling": "mean", "norm_after_pooling": True, "positions": "sincos"},
    ],
)
def test_every_parameter_is_in_one_group_and_only_matrices_decay(options):
    model = VisionTransformer(**SIZES, num_layers=2, **options)
    decayed, kept = decay_groups(model, 0.3)
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.3, 0.0)
    both = [*decayed["params"], *kept["params"]]
    assert len(both) == len({id(parameter) for parameter in both}) == len(list(model.parameters()))
    for name in names(model, kept):
        last = name.rpartition(".")[2]
        assert last in ("bias", "positions", "class_token", "registers") or "norm" in name
    for name in names(model, decayed):
        assert name.endswith("weight")
        assert "norm" not in name
        assert model.get_parameter(name).ndim in (2, 4)


def test_tokens_positions_norms_and_biases_are_named():
    model = VisionTransformer(**SIZES, num_layers=1, num_registers=3)
    decayed, kept = (names(model, group) for group in decay_groups(model, 0.3))
    assert {"class_token", "registers", "positions", "head.bias"} <= kept
    assert {"encoder.norm.weight", "encoder.layers.0.norm1.weight"} <= kept
    assert {"head.weight", "patch_embedding.projection.weight"} <= decayed


def test_frozen_parameters_are_left_out():
    model = VisionTransformer(**SIZES, num_layers=1)
    model.positions.requires_grad_(False)
    model.head.weight.requires_grad_(False)
    both = {name for group in decay_groups(model, 0.3) for name in names(model, group)}
    assert both == {name for name, p in model.named_parameters() if p.requires_grad}
    assert not {"positions", "head.weight"} & both


def test_only_the_decaying_group_is_pulled_towards_zero():
    model = VisionTransformer(**SIZES, num_layers=1)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    groups = decay_groups(model, 0.5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    torch.optim.AdamW(groups, lr=0.1).step()
    decayed = names(model, groups[0])
    for name, parameter in model.named_parameters():
        factor = 1 - 0.1 * 0.5 if name in decayed else 1.0
        torch.testing.assert_close(parameter.detach(), factor * before[name])


@pytest.mark.parametrize("stem", ["conv", "pooled"])
def test_muon_takes_the_matrices_of_stem_and_encoder(stem):
    model = VisionTransformer(**SIZES, num_layers=2, stem=stem, stem_channels=[5, 7], head="mlp")
    parts = [model.stem, model.encoder]
    (hidden,), (rest, kept) = muon_groups(model, parts, 0.3)
    assert [group["weight_decay"] for group in (hidden, rest, kept)] == [0.3, 0.3, 0.0]
    matrices = ("self_attn.qkv_proj", "self_attn.o_proj", "feedforward.0", "feedforward.3")
    expected = {f"encoder.layers.{i}.{matrix}.weight" for i in range(2) for matrix in matrices}
    if stem == "pooled":  # all but the convolution that sees the pixels
        expected |= {f"stem.layers.{i}.weight" for i in (4, 7, 11)}
    assert names(model, hidden) == expected
    assert {"head.0.weight", "stem.layers.0.weight"} <= names(model, rest)
    assert names(model, kept) == names(model, decay_groups(model, 0.3)[1])
    total = sum(len(group["params"]) for group in (hidden, rest, kept))
    assert total == len(list(model.parameters()))
