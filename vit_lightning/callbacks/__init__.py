"""What watches or protects a run."""

from vit_lightning.callbacks.attention_pictures import (
    ImageAttentionPictures,
    SequenceAttentionPictures,
)
from vit_lightning.callbacks.checkpoint_file import DamagedCheckpointError, SealedCheckpointIO
from vit_lightning.callbacks.divergence import StopOnDivergence
from vit_lightning.callbacks.learning_rates import LearningRates
from vit_lightning.callbacks.run_checkpoint import RunCheckpoint, RunStopped

__all__ = [
    "DamagedCheckpointError",
    "ImageAttentionPictures",
    "LearningRates",
    "RunCheckpoint",
    "RunStopped",
    "SealedCheckpointIO",
    "SequenceAttentionPictures",
    "StopOnDivergence",
]
