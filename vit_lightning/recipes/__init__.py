"""YAML recipes, one file an experiment."""
