"""Random numbers that are a function of a key, such as (seed, epoch, step), and of nothing else."""

import torch


def keyed_generator(*key: int) -> torch.Generator:
    """Make a CPU generator for a key, the same whenever and wherever it is asked for."""
    # Neighbouring seeds give a Mersenne Twister related first numbers, and torch uses only the low
    # 32 bits of a seed. So the key goes through SplitMix64's finaliser, part by part: each bit of
    # it changes about half of the bits of the result.
    mixed = 0
    for part in key:
        mixed = (mixed + part + 0x9E3779B97F4A7C15) % 2**64
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
        mixed ^= mixed >> 31
    return torch.Generator().manual_seed(mixed)
