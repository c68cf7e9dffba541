"""What watches or protects a run."""

from vit_lightning.callbacks.attention_pictures import SequenceAttentionPictures

__all__ = ["SequenceAttentionPictures"]
