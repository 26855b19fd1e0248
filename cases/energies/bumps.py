"""Point spread functions on the circle, for sparse deconvolution: ψ of t = θ·x, the cosine of the
angle between a spike and a sample."""

import numpy as np

CONCENTRATION = 20.0


def bump(t):
    """e^(20 (t − 1)), about a Gaussian of width 0.22, and its derivative."""
    value = np.exp(CONCENTRATION * (t - 1.0))
    return value, CONCENTRATION * value
