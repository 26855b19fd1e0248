"""Guards: what must hold after every step. A breach rejects the step; if no smaller step helps, it ends the run.

Each guard takes the method, whose `current` and `trial` are the states before and after, and the step;
it returns None or the sentence that says what is wrong.
"""

import numpy as np

LARGEST_MASS_ERROR = 0.05  # of what reaction and noise exchanged in the step
MASS_ROUNDING = 1e-13  # of the mass, in one step


def finite(method, step):
    """Nothing is nan or infinite."""
    after = method.trial
    if np.isfinite(after.objective) and np.isfinite(after.mass) and np.isfinite(after.smallest):
        return None
    bad = np.flatnonzero(~np.isfinite(after.density.ravel()))
    if len(bad):
        return f"density not finite in {len(bad)} of {after.density.size} cells, first cell {bad[0]}"
    return f"objective {after.objective} and mass {after.mass} are not both finite"


def nonnegative(method, step):
    """The density is nowhere negative."""
    density = method.trial.density
    if not method.trial.smallest < 0.0:
        return None
    return f"density {density.min():.3g} < 0 in {np.sum(density < 0.0)} of {density.size} cells, first cell {density.argmin()}"


def mass_budget(method, step):
    """The mass changes by what reaction and noise exchange, and by nothing else."""
    before, after = method.current.mass, method.trial.mass
    expected = before + step.budget[4:].sum()
    if abs(after - expected) <= LARGEST_MASS_ERROR * step.gross[1] + MASS_ROUNDING * max(before, after):
        return None
    return f"mass {after:.15g} where the budget says {expected:.15g}"


def energy_decrease(method, step):
    """Without noise, the objective does not increase beyond rounding."""
    before, after = method.current, method.trial
    if method.flow.noise > 0.0 or after.objective <= before.objective + before.rounding:
        return None
    return f"objective increased from {before.objective:.15g} to {after.objective:.15g}"


GUARDS = (finite, nonnegative, mass_budget, energy_decrease)
