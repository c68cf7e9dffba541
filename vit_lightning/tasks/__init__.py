"""LightningModules: loss, metrics, optimizer."""

from vit_lightning.tasks.predictor import LitPredictor

__all__ = ["LitPredictor"]
