import pytest
import torch

from vit_lightning.cli.bench import peers
from vit_lightning.cli.bench.notebook import NotebookViT
from vit_lightning.cli.bench.peers import PEERS, is_installed, make_peer
from vit_lightning.cli.bench.sizes import Shape
from vit_lightning.models import VisionTransformer

SHAPE = Shape(
    image_size=15,
    patch_size=5,
    embed_dim=14,
    num_layers=3,
    num_heads=2,
    dim_feedforward=28,
    num_classes=11,
    batch_size=7,
)
D, L, M = SHAPE.embed_dim, SHAPE.num_layers, SHAPE.dim_feedforward
# What each has more than ours, which has no position of its own for the class token.
MORE = {
    "torchvision": D,
    "timm": D,
    "transformers-vit": D,
    # One word and two kinds of sentences, none of which are of use here.
    "transformers-bert": D + D + 2 * D,
    # Two norms around the patch embedding, but queries, keys and values without bias.
    "vit-pytorch": D + 2 * 75 + 2 * D - L * 3 * D,
    "torch-encoder": D,
    "notebook": D,
}


def size(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def ours() -> torch.nn.Module:
    return VisionTransformer(
        image_size=SHAPE.image_size,
        patch_size=SHAPE.patch_size,
        num_classes=SHAPE.num_classes,
        embed_dim=D,
        num_layers=L,
        num_heads=SHAPE.num_heads,
        dim_feedforward=M,
    )


@pytest.mark.parametrize("name", [*PEERS, "notebook"])
def test_the_same_architecture(name):
    if name in PEERS and not is_installed(name):
        pytest.skip(f"{name} is not installed")
    model = NotebookViT(SHAPE) if name == "notebook" else make_peer(name, SHAPE)
    logits = model(torch.randn(7, 3, 15, 15))
    assert logits.shape == (7, 11)
    logits.sum().backward()
    assert size(model) == size(ours()) + MORE[name]


def test_absence_is_noticed(monkeypatch):
    monkeypatch.setitem(peers.PEERS, "timm", ("no_such_module", peers.timm_vit))
    assert not is_installed("timm")
    assert is_installed("torch-encoder")
