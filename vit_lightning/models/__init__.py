"""Networks made of layers, in plain torch."""

from vit_lightning.models.predictor import TransformerPredictor
from vit_lightning.models.vision import VisionTransformer

__all__ = ["TransformerPredictor", "VisionTransformer"]
