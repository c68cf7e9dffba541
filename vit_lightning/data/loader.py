"""Batches from tensors in memory: no worker processes, no work per sample.

The order of the samples is a function of (seed, epoch) alone, so it can be had again at any time,
and a loader can go on in the middle of an epoch.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from vit_lightning.data.keyed import keyed_generator


class EpochSampler:
    """The order in which an epoch visits the samples.

    Lightning calls `set_epoch` on a loader's `sampler` when an epoch begins.

    Args:
        size: number of samples.
        shuffle: whether each epoch has its own order; otherwise it is 0, 1, 2, ...
        seed: of the shuffling.
    """

    def __init__(self, size: int, *, shuffle: bool, seed: int) -> None:
        self.size = size
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self.epoch = epoch

    def order(self) -> Tensor:
        """Return the sample numbers in the order of the current epoch."""
        if not self.shuffle:
            return torch.arange(self.size)
        return torch.randperm(self.size, generator=keyed_generator(self.seed, self.epoch))


class TensorLoader:
    """Iterate over batches of tensors that share their first axis.

    Args:
        tensors: such as inputs and labels.
        batch_size: samples a batch; the last one may be smaller.
        shuffle: whether each epoch has its own order.
        seed: of the shuffling.
        keyed: whether (epoch, number of the batch) follows the tensors in each batch, for draws
            that are to be a function of them.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        keyed: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.tensors = tuple(tensors)
        self.batch_size = batch_size
        self.keyed = keyed
        self.batch_sampler = None  # Lightning looks here before it looks for a sampler
        self.sampler = EpochSampler(len(self.tensors[0]), shuffle=shuffle, seed=seed)
        self.position = 0  # batches of this epoch that were handed out
        self._start = 0  # the batch that the next iteration begins with

    def __len__(self) -> int:
        return -(-self.sampler.size // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        start, self._start = self._start, 0  # an epoch after the one that is resumed is whole
        batches = torch.split(self.sampler.order(), self.batch_size)
        for step in range(start, len(batches)):
            tensors = tuple(tensor[batches[step]] for tensor in self.tensors)
            self.position = step + 1
            yield (*tensors, (self.sampler.epoch, step)) if self.keyed else tensors

    def state_dict(self) -> dict[str, int]:
        """Say where in the epoch this is."""
        return {"position": self.position}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Begin the next iteration there."""
        self.position = self._start = state_dict["position"]
