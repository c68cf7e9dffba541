import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from vit_lightning.cli.bench.gemm import Product, product_seconds, step_products
from vit_lightning.cli.bench.peers import timm_vit
from vit_lightning.cli.bench.sizes import SIZES, Shape
from vit_lightning.models import VisionTransformer

SHAPE = Shape(
    image_size=15,
    patch_size=5,
    embed_dim=14,
    num_layers=3,
    num_heads=2,
    dim_feedforward=17,
    num_classes=11,
    batch_size=7,
)


def ours(skip_unread: bool = False) -> torch.nn.Module:
    return VisionTransformer(
        image_size=SHAPE.image_size,
        patch_size=SHAPE.patch_size,
        num_classes=SHAPE.num_classes,
        embed_dim=SHAPE.embed_dim,
        num_layers=SHAPE.num_layers,
        num_heads=SHAPE.num_heads,
        dim_feedforward=SHAPE.dim_feedforward,
        attention="readable",
        skip_unread=skip_unread,
    )


def timms() -> torch.nn.Module:
    timm = pytest.importorskip("timm", reason="timm comes with the extra bench")
    timm.layers.set_fused_attn(False)
    model = timm_vit(SHAPE)
    timm.layers.set_fused_attn(True)
    return model


def ours_by_default() -> torch.nn.Module:
    return ours(skip_unread=True)


@pytest.mark.parametrize(("model", "num_read"), [(ours, None), (timms, None), (ours_by_default, 1)])
def test_against_the_flops_that_torch_counts(model, num_read):
    images = torch.randn(SHAPE.batch_size, 3, SHAPE.image_size, SHAPE.image_size)
    with FlopCounterMode(display=False) as counter:
        model()(images).sum().backward()
    products = step_products(SHAPE, num_read)
    assert sum(product.flops for product in products) == counter.get_total_flops()


def test_the_step_that_is_reported():
    flops = sum(product.flops for product in step_products(SIZES["full"].step))
    # Six for each weight and token, about: 4.7 million weights, 65 tokens, 192 pictures.
    assert flops == pytest.approx(6 * 4.7e6 * 65 * 192, rel=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [1, 3])
def test_products_take_time(dtype, batch):
    product = Product(2, batch, 5, 7, 11, input_gradient=batch > 1)
    assert product.flops == (3 if batch > 1 else 2) * 2 * 2 * batch * 5 * 7 * 11
    assert product_seconds(product, dtype) > 0
