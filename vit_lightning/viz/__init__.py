"""Tensors to figures."""
