"""Values within the next step from those at the last states: the polynomial through them."""

import numpy as np

from ...arguments import Floats

HISTORY = 3  # states that are known at most, the current one included
# two points of a step whose mean is the mean of a cubic polynomial
GAUSS = 0.5 + np.sqrt([1 / 12, 1 / 12]) * (-1.0, 1.0)
# a step that is so much longer than what is known of the past is extrapolated from less of it
STRETCH = 4.0


def extrapolation(ages: Floats, time: float) -> list[float]:
    """Weights, 1 + len(ages), of the current value and of earlier ones for the value at a later
    time.

    Σ_j weights_j p(−age_j) = p(time)   for every polynomial of degree len(ages), age_0 = 0
    """
    time, nodes = float(time), [0.0, *(-age for age in ages.tolist())]  # few are slow as arrays
    weights = [1.0] * len(nodes)
    for place, node in enumerate(nodes):
        for other in nodes:
            if other != node:
                weights[place] *= (time - other) / (node - other)
    return weights


def usable(ages: Floats, dt: float) -> int:
    """How many earlier values to extrapolate a step dt from; ages (n,) increase, 0 for values that
    are not known."""
    known = int(np.count_nonzero(ages))
    while known > 1 and dt > STRETCH * ages[known - 1]:
        known -= 1
    return known
