"""Schedule and optimizers."""
