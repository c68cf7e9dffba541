"""`vit-lightning bench`: how fast this machine trains, ours beside everyone else's."""

from vit_lightning.cli.bench.command import main

__all__ = ["main"]
