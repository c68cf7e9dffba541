"""Datasets, DataModules and where they come from."""
