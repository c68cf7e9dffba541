"""Schedule and optimizers."""

from vit_lightning.optim.schedule import CosineWarmupScheduler, cosine_warmup_factor

__all__ = ["CosineWarmupScheduler", "cosine_warmup_factor"]
