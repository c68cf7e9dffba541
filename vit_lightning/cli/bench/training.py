"""A bare training step, ours or a peer's: forward, loss, backward, clip, optimizer."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_lightning.cli.bench.peers import make_peer
from vit_lightning.cli.bench.sizes import Shape
from vit_lightning.cli.precision import pick_precision

SETTINGS = ("float32", "bf16", "bf16+compile")
CLIP = 1.0

Step = Callable[[], None]


def arithmetic(setting: str) -> str:
    """Return "float32" or "bf16" for a setting; "default" is what the suite picks here."""
    if setting == "default":
        return "bf16" if pick_precision("cpu") == "bf16-mixed" else "float32"
    return setting.partition("+")[0]


def our_step(shape: Shape, setting: str, **network: Any) -> Step:
    """Make a step of ours: `LitViT` with its optimizer and schedule, set up as the Trainer does.

    Args:
        shape: of model and batch.
        setting: one of `SETTINGS`, or "default".
        network: further arguments of the model.
    """
    from lightning.pytorch import Trainer

    from vit_lightning.tasks import LitViT

    kind = arithmetic(setting)
    lit = LitViT(
        shape.image_size,
        3,
        shape.num_classes,
        patch_size=shape.patch_size,
        embed_dim=shape.embed_dim,
        num_layers=shape.num_layers,
        num_heads=shape.num_heads,
        dim_feedforward=shape.dim_feedforward,
        dropout=shape.dropout,
        **network,
    )
    lit.trainer = Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=1_000_000,
        precision="bf16-mixed" if kind == "bf16" else "32-true",
        logger=False,
        enable_checkpointing=False,
    )
    # In the Trainer's order, so that whatever the suite does before it trains is done here too.
    lit.setup("fit")
    lit.configure_model()
    if setting.endswith("compile"):
        lit.network.compile()
    configured: Any = lit.configure_optimizers()
    lit.on_fit_start()
    scheduler = configured["lr_scheduler"]["scheduler"]
    images, labels = _batch(shape)
    step = _step(
        lambda: F.cross_entropy(lit(images).float(), labels), lit, configured["optimizer"], kind
    )

    def step_and_schedule() -> None:
        step()
        scheduler.step()

    return step_and_schedule


def peer_step(peer: str, shape: Shape, setting: str) -> Step:
    """Make a step of a peer, with AdamW as torch has it by default."""
    model = make_peer(peer, shape).train()
    if setting.endswith("compile"):
        model.compile()
    optimizer = torch.optim.AdamW(model.parameters())
    images, labels = _batch(shape)
    return _step(
        lambda: F.cross_entropy(model(images), labels), model, optimizer, arithmetic(setting)
    )


def steps_per_second(step: Step, seconds: float) -> float:
    """Repeat a step for so many seconds, at least once, and return its rate."""
    start = time.perf_counter()
    count, elapsed = 0, 0.0
    while not count or elapsed < seconds:
        step()
        count += 1
        elapsed = time.perf_counter() - start
    return count / elapsed


def _batch(shape: Shape) -> tuple[Tensor, Tensor]:
    images = torch.randn(shape.batch_size, 3, shape.image_size, shape.image_size)
    return images, torch.randint(shape.num_classes, (shape.batch_size,))


def _step(
    loss: Callable[[], Tensor], module: nn.Module, optimizer: torch.optim.Optimizer, kind: str
) -> Step:
    parameters = list(module.parameters())

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16) if kind == "bf16" else nullcontext():
            value = loss()
        value.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()

    return step
