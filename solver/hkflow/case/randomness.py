"""Random numbers of a case: a generator for each use, from its seed."""

import numpy as np

# what random numbers are used for: each has a generator of its own, from the case's seed
DATA, START, DYNAMICS, SPLIT = range(4)


def random_numbers(seed: int, use: int) -> np.random.Generator:
    """The generator for one use."""
    return np.random.default_rng(np.random.SeedSequence(seed).spawn(use + 1)[use])
