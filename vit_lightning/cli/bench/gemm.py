"""The matrix products of a training step, and how long this machine takes for them alone.

Nothing that computes the same step by the same products can be faster, so this is its limit. It
counts every token in every block, as all libraries compute it; ours leaves out of the last block
what nobody reads, so that it makes fewer products.
"""

import time
from dataclasses import dataclass

import torch

from vit_lightning.cli.bench.gate import Gate
from vit_lightning.cli.bench.parts import Job
from vit_lightning.cli.bench.sizes import Shape

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
REPEATS = 3  # of each product in a round, of which the fastest counts


@dataclass(frozen=True)
class Product:
    """A product (m, k) x (k, n) that the forward pass makes.

    Attributes:
        count: how many there are in the model.
        batch: how many of them are done at once; 1 for a linear layer.
        m: rows.
        k: what is summed over.
        n: columns.
        input_gradient: whether the backward pass needs the gradient of both factors; of the
            pictures it needs none.
    """

    count: int
    batch: int
    m: int
    k: int
    n: int
    input_gradient: bool = True

    @property
    def passes(self) -> int:
        """Products of this size that a training step makes: forward, and one for each gradient."""
        return 3 if self.input_gradient else 2

    @property
    def flops(self) -> int:
        """Multiplications and additions of all of them in a training step."""
        return self.passes * self.count * 2 * self.batch * self.m * self.k * self.n


def step_products(shape: Shape, num_read: int | None = None) -> list[Product]:
    """List what a Vision Transformer of this shape multiplies in its forward pass.

    Args:
        shape: of model and batch.
        num_read: how many tokens the last block computes; None means all.
    """
    B, D = shape.batch_size, shape.embed_dim
    pixels = 3 * shape.patch_size**2
    T = shape.num_tokens
    return [
        Product(1, 1, B * shape.num_patches, pixels, D, input_gradient=False),  # patch embedding
        *_block_products(shape, shape.num_layers - 1, T),
        *_block_products(shape, 1, T if num_read is None else num_read),
        Product(1, 1, B, D, shape.num_classes),  # head
    ]


def _block_products(shape: Shape, count: int, queries: int) -> list[Product]:
    B, T, D = shape.batch_size, shape.num_tokens, shape.embed_dim
    H, M = shape.num_heads, shape.dim_feedforward
    projections = [Product(count, 1, B * T, D, 3 * D)]  # queries, keys and values
    if queries != T:
        projections = [Product(count, 1, B * queries, D, D), Product(count, 1, B * T, D, 2 * D)]
    return [
        *projections,
        Product(count, B * H, queries, D // H, T),  # queries x keys
        Product(count, B * H, queries, T, D // H),  # attention weights x values
        Product(count, 1, B * queries, D, D),  # output projection
        Product(count, 1, B * queries, D, M),  # feed-forward net, in
        Product(count, 1, B * queries, M, D),  # feed-forward net, out
    ]


def product_seconds(product: Product, dtype: torch.dtype) -> float:
    """Time all products of this size in a training step, in the layouts that a step has."""
    size = () if product.batch == 1 else (product.batch,)
    x = torch.randn(*size, product.m, product.k).to(dtype)
    weight = torch.randn(*size, product.n, product.k).to(dtype)
    gradient = torch.randn(*size, product.m, product.n).to(dtype)
    pairs = [(x, weight.mT), (gradient.mT, x), (gradient, weight)][: product.passes]
    seconds = 0.0
    for left, right in pairs:
        left @ right  # once to warm up
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            left @ right
            times.append(time.perf_counter() - start)
        seconds += product.count * min(times)
    return seconds


def measure_limit(job: Job, gate: Gate) -> None:
    """Answer how many pictures a second the matrix products alone would allow."""
    shape, dtype = job.sizes.step, DTYPES[job.setting]
    products = step_products(shape)
    flops = sum(product.flops for product in products)
    for _ in gate:
        seconds = sum(product_seconds(product, dtype) for product in products)
        gate.answer(images_per_second=shape.batch_size / seconds, gflops=flops / seconds / 1e9)
