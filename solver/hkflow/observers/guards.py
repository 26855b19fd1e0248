"""Guards: what must hold after every step. A breach rejects the step; if no smaller step helps, it ends the run.

Each guard takes the method, whose `current` and `trial` are the states before and after, the step, and the clock with what
was exchanged before it; it returns None or the sentence that says what is wrong. Budgets are watched over the step and since
the start: a fault that hides in the rounding of tiny steps shows in their sum.
"""

import numpy as np

from ..stepping.step import MASS_ROUNDING

MASS_DRIFT = 1e-12  # of the mass, since the start


def sound(method, step, clock):
    """Nothing is nan or infinite, and no density negative."""
    after, fault = method.trial, method.fault()
    if fault or (np.isfinite(after.objective) and np.isfinite(after.mass)):
        return fault
    return f"objective {after.objective} and mass {after.mass} are not both finite"


def mass_budget(method, step, clock):
    """The mass changes by what reaction and noise exchange, and by nothing else: in this step, and since the start.

    A method's mass_slack is the share of the exchange by which its steps may miss the budget; descent by prescribed steps
    keeps no budget, nor does it promise to decrease the objective.
    """
    if method.prescribed:
        return None
    before, after = method.current.mass, method.trial.mass
    largest = max(before, after)
    expected = before + step.budget[4:].sum()
    if abs(after - expected) > method.mass_slack * step.gross[1] + MASS_ROUNDING * largest:
        return f"mass {after:.15g} where the budget says {expected:.15g}"
    expected = clock.mass_at_start + sum(clock.budget[4:]) + step.budget[4:].sum()
    if abs(after - expected) > method.mass_slack * (clock.gross[1] + step.gross[1]) + MASS_DRIFT * largest:
        return f"mass {after:.15g} where the budget since the start says {expected:.15g}"
    return None


def energy_decrease(method, step, clock):
    """Without noise, the objective does not rise above the lowest value so far, beyond rounding and what the method may.

    A method's energy_slack is the share that it may give back of all the energy exchanged so far: 0 for the grid.
    """
    after, slack = method.trial, method.energy_slack * (clock.gross[0] + step.gross[0])
    if (
        method.prescribed
        or method.flow.noise > 0.0
        or after.objective <= clock.lowest_objective + method.current.rounding + slack
    ):
        return None
    return f"objective increased from {clock.lowest_objective:.15g} to {after.objective:.15g}"


GUARDS = (sound, mass_budget, energy_decrease)
