"""LightningModules: loss, metrics, optimizer."""
