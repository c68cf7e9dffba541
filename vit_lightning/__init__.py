"""Transformers from scratch as a PyTorch Lightning experiment suite."""
