"""Networks made of layers, in plain torch."""

from vit_lightning.models.predictor import TransformerPredictor

__all__ = ["TransformerPredictor"]
