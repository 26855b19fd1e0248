"""Values within the next step from those at the last states: the polynomial through them."""

import numpy as np

from ...arguments import Floats
from ...operators.parallel_loops import small_kernel

HISTORY = 3  # states that are known at most, the current one included
# two points of a step whose mean is the mean of a cubic polynomial
GAUSS = 0.5 + np.sqrt([1 / 12, 1 / 12]) * (-1.0, 1.0)
# a step that is so much longer than what is known of the past is extrapolated from less of it
STRETCH = 4.0
NEAREST = 1e-6  # of a step: states that are nearer to each other differ by little but rounding


@small_kernel()
def extrapolate(values, ages, times, out):
    """out_i = p(times_i) for the polynomial p with p(0) = values_0 and p(−ages_j) = values_(j+1).

    values (≥ 1 + n_ages, n), the newest first;  ages (n_ages,) increase;  times (n_times,);  out
    (n_times, n)
    """
    for i in range(len(times)):
        for k in range(out.shape[1]):
            out[i, k] = 0.0
        for place in range(len(ages) + 1):
            node = -ages[place - 1] if place > 0 else 0.0
            weight = 1.0
            for j in range(len(ages) + 1):
                other = -ages[j - 1] if j > 0 else 0.0
                if other != node:
                    weight *= (times[i] - other) / (node - other)
            for k in range(out.shape[1]):
                out[i, k] += weight * values[place, k]


def usable(ages: Floats, dt: float) -> int:
    """How many earlier values to extrapolate a step dt from; ages (n,) increase, 0 for values that
    are not known. None before a step that was cut to nearly nothing, as by a save."""
    known, last = 0, 0.0
    for age in ages.tolist():
        if age <= 0.0 or age - last < NEAREST * dt:
            break
        known, last = known + 1, age
    while known > 1 and dt > STRETCH * ages[known - 1]:
        known -= 1
    return known
