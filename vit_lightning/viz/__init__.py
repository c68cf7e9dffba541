"""Tensors to figures; never sees a model or a Trainer."""
