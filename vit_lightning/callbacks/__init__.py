"""What watches or protects a run."""

from vit_lightning.callbacks.attention_pictures import (
    ImageAttentionPictures,
    SequenceAttentionPictures,
)

__all__ = ["ImageAttentionPictures", "SequenceAttentionPictures"]
