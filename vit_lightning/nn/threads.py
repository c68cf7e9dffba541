"""A batch on the threads of a CPU: each takes a part of it through a net, and back."""

import functools
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vit_lightning.nn.dropout import random_numbers

TensorFunction = Callable[[Tensor], Tensor]

MAX_PARTS = 8  # Each has gradients of all parameters, to be kept and added up.


def on_threads(function: TensorFunction, x: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """Compute `function(x)`, and later its gradient, with a part of the batch on each CPU thread.

    By itself torch shares out every single operation, and its threads wait for each other after
    each one; here they do so once. Gradients are summed in the order of the parts, and each part
    has random numbers of its own, from a seed that is drawn here: a run can be repeated exactly.
    With more threads than `MAX_PARTS` each part has several.

    The gradient can be asked for once. What watches only the thread that calls, as torch's
    FlopCounterMode does, sees nothing of the computation.

    Args:
        function: of (batch, ...), treating each sample by itself. Of random numbers it may use
            those of `vit_lightning.nn.dropout` only.
        x: the batch.
        parameters: whatever else may need a gradient.
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return function(x)
    num_parts = min(torch.get_num_threads(), len(x), MAX_PARTS)
    if num_parts < 2:
        return function(x)
    seeds = torch.randint(2**63 - 1, (num_parts,)).tolist()
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    output: Tensor = _OnThreads.apply(function, seeds, x, *trained)
    return output


class _OnThreads(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, function: TensorFunction, seeds: Sequence[int], x: Tensor, *parameters: Tensor
    ) -> Tensor:
        dtype, enabled = torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")

        def compute(part: Tensor, seed: int) -> Tensor:
            random_numbers.generator = torch.Generator().manual_seed(seed)
            # No cache: all threads share it, and who comes first would decide whether a weight is
            # converted once or twice, and so how its gradient is rounded.
            with torch.autocast("cpu", dtype, enabled, cache_enabled=False):
                return function(part)

        ctx.parts = [
            part.detach().requires_grad_(x.requires_grad) for part in x.tensor_split(len(seeds))
        ]
        ctx.parameters = parameters
        ctx.pool = _pool(len(seeds), torch.get_num_threads() // len(seeds))
        ctx.outputs = list(ctx.pool.map(compute, ctx.parts, seeds))
        return torch.cat([output.detach() for output in ctx.outputs])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.outputs is None:
            raise RuntimeError(
                "the gradient of a batch on threads can be computed once only; "
                "a VisionTransformer with split_batch=False has no such limit"
            )
        needs_x = ctx.parts[0].requires_grad

        def compute(part: Tensor, output: Tensor, gradient: Tensor) -> tuple[Tensor | None, ...]:
            inputs = [part, *ctx.parameters] if needs_x else ctx.parameters
            return torch.autograd.grad(output, inputs, gradient, allow_unused=True)

        gradients = gradient.tensor_split(len(ctx.parts))
        results = ctx.pool.map(compute, ctx.parts, ctx.outputs, gradients)
        columns = list(zip(*results, strict=True))  # for each input, its gradient from each part
        ctx.parts = ctx.outputs = None  # and with them the activations
        of_x = torch.cat(columns.pop(0)) if needs_x else None
        return None, None, of_x, *(_add_up(column) for column in columns)


def _add_up(gradients: Sequence[Tensor | None]) -> Tensor | None:
    present = [gradient for gradient in gradients if gradient is not None]
    return functools.reduce(torch.add, present) if present else None


@functools.cache
def _pool(num_workers: int, threads_each: int) -> ThreadPoolExecutor:
    ours = torch.get_num_threads()
    pool = ThreadPoolExecutor(num_workers, "part of the batch")
    all_are_here = threading.Barrier(num_workers)

    def set_up() -> None:
        # Asked first, as torch gives a new thread its number when it is used for the first time.
        torch.get_num_threads()
        torch.set_num_threads(threads_each)
        all_are_here.wait()

    for done in [pool.submit(set_up) for _ in range(num_workers)]:
        done.result()
    torch.set_num_threads(ours)  # Theirs was also taken for every thread to come.
    return pool


os.register_at_fork(after_in_child=_pool.cache_clear)  # A forked process has none of the threads.
