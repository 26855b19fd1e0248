"""Guards: what must hold after every step. A breach rejects the step; if no smaller step helps, it ends the run.

Each guard takes the method, whose `current` and `trial` are the states before and after, the step, and the clock with what
was exchanged before it; it returns None or the sentence that says what is wrong. Budgets are watched over the step and since
the start: a fault that hides in the rounding of tiny steps shows in their sum.
"""

import numpy as np

LARGEST_MASS_ERROR = 0.05  # of what reaction and noise exchanged in the step
MASS_ROUNDING = 1e-13  # of the mass, in one step
MASS_DRIFT = 1e-12  # of the mass, since the start


def finite(method, step, clock):
    """Nothing is nan or infinite."""
    after = method.trial
    if np.isfinite(after.objective) and np.isfinite(after.mass) and np.isfinite(after.smallest):
        return None
    bad = np.flatnonzero(~np.isfinite(after.density.ravel()))
    if len(bad):
        return f"density not finite in {len(bad)} of {after.density.size} cells, first cell {bad[0]}"
    return f"objective {after.objective} and mass {after.mass} are not both finite"


def nonnegative(method, step, clock):
    """The density is nowhere negative."""
    density = method.trial.density
    if not method.trial.smallest < 0.0:
        return None
    return f"density {density.min():.3g} < 0 in {np.sum(density < 0.0)} of {density.size} cells, first cell {density.argmin()}"


def mass_budget(method, step, clock):
    """The mass changes by what reaction and noise exchange, and by nothing else: in this step, and since the start."""
    before, after = method.current.mass, method.trial.mass
    largest = max(before, after)
    expected = before + step.budget[4:].sum()
    if abs(after - expected) > LARGEST_MASS_ERROR * step.gross[1] + MASS_ROUNDING * largest:
        return f"mass {after:.15g} where the budget says {expected:.15g}"
    expected = clock.mass_at_start + sum(clock.budget[4:]) + step.budget[4:].sum()
    if abs(after - expected) > LARGEST_MASS_ERROR * (clock.gross[1] + step.gross[1]) + MASS_DRIFT * largest:
        return f"mass {after:.15g} where the budget since the start says {expected:.15g}"
    return None


def energy_decrease(method, step, clock):
    """Without noise, the objective does not rise above the lowest value so far, beyond rounding."""
    after = method.trial
    if method.flow.noise > 0.0 or after.objective <= clock.lowest_objective + method.current.rounding:
        return None
    return f"objective increased from {clock.lowest_objective:.15g} to {after.objective:.15g}"


GUARDS = (finite, nonnegative, mass_budget, energy_decrease)
