"""Which parameters decay, and which ones Muon takes: matrices that mix features, nothing else."""

from collections.abc import Iterable
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


def muon_groups(
    module: nn.Module, hidden: Iterable[nn.Module], weight_decay: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split parameters into hidden matrices for Muon and the rest for AdamW.

    Args:
        module: whose parameters are split.
        hidden: the parts of it between pixels and head; their linear layers' weights go to Muon.
        weight_decay: of whatever `decay_groups` lets decay, on both sides.

    Returns:
        Muon's parameter groups, one, and AdamW's, two.
    """
    layers = [layer for part in hidden for layer in part.modules()]
    matrices = {id(layer.weight) for layer in layers if isinstance(layer, nn.Linear)}
    decayed, kept = decay_groups(module, weight_decay)
    muon = [p for p in decayed["params"] if id(p) in matrices]
    rest = [p for p in decayed["params"] if id(p) not in matrices]
    return [decayed | {"params": muon, "name": "muon"}], [decayed | {"params": rest}, kept]
