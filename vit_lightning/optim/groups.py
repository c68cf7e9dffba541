"""Which parameters decay: the matrices that mix features, and nothing else."""

from typing import Any

from torch import nn


def decay_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Split parameters into those that decay and those that do not.

    Weights of linear layers and convolutions decay. Biases, normalisation, tokens and positions do
    not: pulling them towards zero regularises nothing.

    Returns:
        Two parameter groups for an optimizer.
    """
    mixing = {
        id(layer.weight) for layer in module.modules() if isinstance(layer, nn.Linear | nn.Conv2d)
    }
    parameters = [p for p in module.parameters() if p.requires_grad]
    return [
        {"params": [p for p in parameters if id(p) in mixing], "weight_decay": weight_decay},
        {"params": [p for p in parameters if id(p) not in mixing], "weight_decay": 0.0},
    ]
