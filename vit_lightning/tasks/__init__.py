"""LightningModules: loss, metrics, optimizer."""

from vit_lightning.tasks.predictor import LitPredictor
from vit_lightning.tasks.vision import LitViT

__all__ = ["LitPredictor", "LitViT"]
