"""The Vision Transformer: shapes the course states, every option, and what must hold of it."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vit_lightning.models import VisionTransformer, vision
from vit_lightning.nn import image_to_patches, patches_to_image

B, C, P, GRID, E, H, K, R = 3, 2, 2, 5, 12, 3, 7, 2
SIZE, N = P * GRID, GRID * GRID
TIGHT = {"rtol": 0.0, "atol": 1e-10}
POOLINGS = ["cls", "mean", "attention"]


def vit(**kwargs) -> VisionTransformer:
    sizes = {
        "image_size": SIZE,
        "patch_size": P,
        "in_channels": C,
        "num_classes": K,
        "embed_dim": E,
        "num_layers": 2,
        "num_heads": H,
        "dim_feedforward": 11,
    }
    model = VisionTransformer(**(sizes | kwargs)).double()
    for parameter in model.parameters():  # large enough for every part to matter
        nn.init.normal_(parameter, std=0.3)
    return model


def images(channels: int = C) -> torch.Tensor:
    return torch.randn(B, channels, SIZE, SIZE, dtype=torch.float64)


def test_shapes_the_course_states():
    model = VisionTransformer(
        image_size=32, patch_size=4, num_classes=10, embed_dim=256, num_layers=1, num_heads=8
    )
    with torch.no_grad():
        tokens = model.embed(torch.randn(192, 3, 32, 32))
        assert tokens.shape == (192, 65, 256)
        assert model.encoder(tokens).shape == (192, 65, 256)


def test_size_of_the_coursework_model():
    model = VisionTransformer(
        image_size=32,
        patch_size=4,
        num_classes=10,
        embed_dim=256,
        num_layers=12,
        num_heads=8,
        dim_feedforward=1024,
        head="mlp",
    )
    block = 4 * (256 * 256 + 256) + 2 * 1024 * 256 + 1024 + 256 + 4 * 256
    rest = 48 * 256 + 256 + 256 + 64 * 256 + 2 * 256 + 256 * 256 + 256 + 2560 + 10
    assert sum(p.numel() for p in model.parameters()) == 12 * block + rest


@pytest.mark.parametrize("norm", ["post", "pre", "none"])
@pytest.mark.parametrize("positions", ["none", "learned", "sincos"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_all_options_go_together(pooling, positions, norm):
    for patch_embedding, stem, registers, head, activation, after in product(
        ["linear", "conv"],
        ["none", "conv", "pooled"],
        [0, R],
        ["linear", "mlp"],
        ["relu", "gelu"],
        [0, 1],
    ):
        if after and norm != "pre":
            continue
        model = vit(
            patch_embedding=patch_embedding,
            stem=stem,
            pooling=pooling,
            num_registers=registers,
            positions=positions,
            norm=norm,
            norm_after_pooling=bool(after),
            activation=activation,
            dropout=0.1,
            drop_path=0.1,
            head=head,
        )
        logits = model(images())
        assert logits.shape == (B, K)
        assert logits.isfinite().all()
        logits.square().sum().backward()
        unused = [name for name, p in model.named_parameters() if p.grad is None]
        assert unused == []  # no dead options
        if stem != "pooled":  # whose batch normalisation keeps statistics
            assert model.state_dict().keys() == dict(model.named_parameters()).keys()  # no buffers


@pytest.mark.parametrize("stem", ["none", "conv", "pooled"])
def test_linear_and_conv_embeddings_give_the_same_logits(stem):
    linear, conv = (vit(patch_embedding=kind, stem=stem) for kind in ("linear", "conv"))
    state = linear.state_dict()
    name = "patch_embedding.projection.weight"
    state[name] = state[name].view_as(conv.state_dict()[name])
    conv.load_state_dict(state)
    x = images()
    torch.testing.assert_close(linear(x), conv(x), **TIGHT)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("stem", ["none", "conv", "pooled"])
def test_tokens_are_prefix_then_grid(pooling, stem):
    model = vit(pooling=pooling, num_registers=R, stem=stem).eval()
    assert model.grid_size == (GRID, GRID)
    assert model.num_prefix_tokens == R + (pooling == "cls")
    tokens = model.embed(images())
    assert tokens.shape == (B, model.num_prefix_tokens + N, E)
    if pooling == "cls":
        assert torch.equal(tokens[:, :1], model.class_token.expand(B, -1, -1))
    registers = tokens[:, model.num_prefix_tokens - R : model.num_prefix_tokens]
    assert torch.equal(registers, model.registers.expand(B, -1, -1))


@pytest.mark.parametrize("stem", ["conv", "pooled"])
def test_a_stem_of_several_stages_leaves_the_grid_as_it_is(stem):
    sizes = {"image_size": 24, "patch_size": 8, "stem": stem, "stem_channels": [5, 7]}
    model = vit(**sizes)
    assert model.grid_size == (3, 3)
    assert model.patch_embedding.patch_size == 2
    assert model.patch_embedding.projection.in_features == 7 * 2 * 2
    x = torch.randn(B, C, 24, 24, dtype=torch.float64)
    assert model.embed(x).shape == (B, 1 + 9, E)
    assert model.get_attention_maps(x)[0].shape == (B, H, 10, 10)


def test_positions_are_added_to_the_patches_alone():
    model, x = vit(num_registers=R), images()
    with_positions = model.embed(x)
    positions = model.positions.clone()
    nn.init.zeros_(model.positions)
    difference = with_positions - model.embed(x)
    assert not difference[:, : 1 + R].any()
    torch.testing.assert_close(difference[:, 1 + R :], positions.expand(B, -1, -1), **TIGHT)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("norm", ["post", "pre", "none"])
def test_maps_are_those_of_the_forward_pass(pooling, norm):
    model, x = vit(pooling=pooling, norm=norm, num_registers=R), images()
    maps = model.get_attention_maps(x)
    T = model.num_prefix_tokens + N
    assert [tuple(m.shape) for m in maps] == 2 * [(B, H, T, T)]
    seen = []
    for layer in model.encoder.layers:
        layer.self_attn.register_forward_hook(
            lambda module, args, _: seen.append(type(module).forward(module, *args[:2], True)[1])
        )
    model(x)
    torch.testing.assert_close(seen, maps, **TIGHT)


@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_registers_are_not_read(pooling):
    # Blocks that add nothing: only what is pooled can reach the logits.
    model, x = vit(pooling=pooling, num_registers=R, norm="none"), images()
    for layer in model.encoder.layers:
        for linear in (layer.self_attn.o_proj, layer.feedforward[3]):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)
    before = model(x)
    nn.init.normal_(model.registers)
    assert torch.equal(model(x), before)


def test_registers_take_part_in_attention():
    model, x = vit(pooling="mean", num_registers=R), images()
    before = model(x)
    nn.init.normal_(model.registers)
    assert not torch.allclose(model(x), before, atol=1e-3)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("positions", ["none", "learned", "sincos"])
def test_only_positions_tell_the_order_of_patches(pooling, positions):
    model, x = vit(pooling=pooling, positions=positions, num_registers=R), images()
    patches = image_to_patches(x, P)
    shuffled = patches_to_image(patches[:, torch.randperm(N)], P, SIZE, SIZE)
    if positions == "none":
        torch.testing.assert_close(model(shuffled), model(x), **TIGHT)
    else:
        assert not torch.allclose(model(shuffled), model(x), atol=1e-3)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_normalising_after_pooling_differs_unless_there_is_a_class_token(pooling):
    before, after = (vit(pooling=pooling, norm_after_pooling=late) for late in (False, True))
    state = before.state_dict()
    for name in ("weight", "bias"):
        state[f"norm.{name}"] = state.pop(f"encoder.norm.{name}")
    after.load_state_dict(state)
    x = images()
    assert torch.allclose(before(x), after(x), atol=1e-10) == (pooling == "cls")


def test_starts_from_equal_chances_and_moderate_tokens():
    model = VisionTransformer(
        image_size=32, patch_size=4, num_classes=10, embed_dim=48, num_layers=6, num_heads=3
    )
    x = torch.randn(5, 3, 32, 32)
    chances = model(x).softmax(-1)
    assert chances.min() > 0.05
    assert chances.max() < 0.2
    patches = model.patch_embedding(x)
    assert 0.3 < model.positions.std() / patches.std() < 1  # neither drowns the other
    assert model.class_token.std() < 0.05
    assert 0.5 < model.encoder(model.embed(x)).std() < 2


def test_dropout_and_drop_path_are_on_in_training_only():
    for rates in ({"dropout": 0.5}, {"drop_path": 0.5}):
        model, x = vit(**rates), images()
        assert not torch.equal(model(x), model(x))
        assert torch.equal(model.embed(x), model.embed(x)) == ("dropout" not in rates)
        model.eval()
        assert torch.equal(model(x), model(x))


@pytest.mark.parametrize("attention", ["readable", "fused"])
def test_both_kernels_agree(attention):
    model, x = vit(), images()
    expected = model(x)
    other = vit(attention=attention)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(x), expected, **TIGHT)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("stem", ["none", "pooled"])
def test_the_fast_way_trains_like_the_plain_one(pooling, stem, two_threads, monkeypatch):
    monkeypatch.setattr(vision, "PIECE_ELEMENTS", 22 * (N + R + 1))  # two pictures at a time
    plain = vit(pooling=pooling, stem=stem, num_registers=R, skip_unread=False, split_batch=False)
    fast = vit(pooling=pooling, stem=stem, num_registers=R)
    fast.load_state_dict(plain.state_dict())
    x, labels = torch.cat([images(), images()])[:5], torch.arange(5)
    sizes = []
    fast.encoder.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    losses = {}
    for model in (plain, fast):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        losses[model] = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            losses[model].append(loss.detach())
    assert sorted(sizes) == [1] * 3 + [2] * 6  # three pictures on one thread, two on the other
    torch.testing.assert_close(losses[fast], losses[plain], **TIGHT)
    torch.testing.assert_close(fast.state_dict(), plain.state_dict(), **TIGHT)


def test_dropout_on_threads_can_be_repeated(two_threads):
    runs = []
    for _ in range(10):
        torch.manual_seed(3)
        model = vit(dropout=0.3, drop_path=0.3, num_registers=R).float()
        x = images().float()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), torch.arange(len(x)))
        loss.backward()
        runs.append([loss.detach(), *(p.grad for p in model.parameters())])
    for run in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(run, runs[0], strict=True))


def test_an_empty_batch_has_no_logits():
    assert vit()(images()[:0]).shape == (0, K)


@pytest.mark.parametrize("positions", ["none", "sincos"])
def test_bfloat16_autocast(positions):
    model = vit(stem="conv", num_registers=R, positions=positions, drop_path=0.2).float()
    with torch.autocast("cpu", torch.bfloat16):
        assert model(images().float()).isfinite().all()


@pytest.mark.parametrize(
    "shape", [(B, 3, SIZE, SIZE), (B, C, SIZE, SIZE + P), (B, C, SIZE // 2, SIZE), (C, SIZE, SIZE)]
)
def test_wrong_images(shape):
    with pytest.raises(ValueError, match=r"images must have the shape \(batch, 2, 10, 10\), got"):
        vit()(torch.zeros(shape))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"patch_size": 3}, "patch_size=3 and image_size=10"),
        ({"patch_size": 0}, "patch_size=0"),
        ({"patch_size": 5, "stem": "conv"}, "even"),
        ({"stem": "pooled", "stem_channels": [5, 7]}, "2 is not divisible by 4"),
        ({"stem": "pooled", "stem_channels": []}, "stem_channels"),
        ({"image_size": 0}, "image_size"),
        ({"num_classes": 0}, "num_classes"),
        ({"num_heads": 5}, "num_heads=5"),
        ({"num_layers": 0}, "num_layers"),
        ({"num_registers": -1}, "num_registers"),
        ({"embed_dim": 6, "positions": "sincos"}, "divisible by 4"),
        ({"embed_dim": 0}, "embed_dim"),
        ({"pooling": "max"}, "pooling must be one of cls, mean, attention, got 'max'"),
        ({"positions": "rope"}, "positions"),
        ({"stem": "big"}, "stem"),
        ({"head": "cosine"}, "head"),
        ({"patch_embedding": "mlp"}, "patch_embedding"),
        ({"activation": "tanh", "stem": "conv"}, "activation"),
        ({"norm": "post", "norm_after_pooling": True}, "norm='post'"),
        ({"dropout": 1.5}, "dropout"),
        ({"drop_path": 1.0}, "drop_path"),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        vit(**wrong)
