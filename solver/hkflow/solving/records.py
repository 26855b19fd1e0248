"""The numbers that are recorded while a run goes on."""

import numpy as np

from ..methods.step import ENERGIES
from .state import LoopState


def take_record(
    method, clock: LoopState, certificate=None, renew: bool = False
) -> dict[str, float]:
    """The numbers recorded after a step, by name; energies and masses are integrals since the
    start, in units of e^log_scale.

    certificate : what encloses the margin of the data, or None;  renew : whether it is to be taken
        now, which costs more than all the rest; else its values are nan
    Neither the method nor the clock is changed.
    """
    e, objective, budget = method.current, method.problem.objective, clock.budget
    record = {
        "time": clock.time,
        "step": clock.step,
        "dt": clock.dt,
        "objective": e.objective,
        "mass": e.mass,
    }
    record |= {"log_mass": e.log_mass, "log_scale": clock.log_scale, **method.record(clock)}
    if method.keeps_budgets:
        energies, masses = budget.energy.tolist(), budget.mass.tolist()
        record |= zip(ENERGIES, energies, strict=True)
        record["energy_residual"] = e.objective - clock.objective_at_start - sum(energies)
        record["mass_residual"] = e.mass - clock.mass_at_start - sum(masses)
    else:
        record |= dict.fromkeys((*ENERGIES, "energy_residual", "mass_residual"), np.nan)
    record["training_error"] = objective.error(e.predictions)
    if objective.risk.classifies:
        record["margin"] = objective.margin(e.predictions) / e.mass if e.mass > 0.0 else 0.0
        record["smooth_margin"] = objective.smooth_margin(e.predictions, clock.log_scale)
    if certificate:
        record |= certificate.record(
            e, record["margin"], (clock.margin_lower, clock.margin_upper), renew
        )
    return {name: float(value) for name, value in record.items()}


def true_smooth_margin(method) -> float:
    """γ̃ of the accepted state in units of one, inf beyond the largest number."""
    return method.problem.objective.smooth_margin(
        method.current.predictions, method.log_scale
    ) * np.exp(method.log_scale)
