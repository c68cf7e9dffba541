"""Schedule and optimizers."""

from vit_lightning.optim.groups import decay_groups, muon_groups
from vit_lightning.optim.muon import MuonAdamW
from vit_lightning.optim.schedule import CosineWarmupScheduler, cosine_warmup_factor

__all__ = [
    "CosineWarmupScheduler",
    "MuonAdamW",
    "cosine_warmup_factor",
    "decay_groups",
    "muon_groups",
]
