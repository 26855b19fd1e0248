"""The numbers of a run that have error bars."""

import numpy as np

from ..arguments import Floats
from ..solving.result import Result

LARGE = 200.0  # log mass beyond which numbers are those of ν/|ν|


def is_large(run: Result) -> bool:
    """Whether the mass is beyond what numbers in plain units can say."""
    return bool(np.any(run.log_scale) or (np.abs(run.log_mass) > LARGE).any())


def quantities(run: Result, normalised: bool) -> dict[str, Floats]:
    """Predictions, objective, log mass, margin of classifiers and first moment at the saves,
    (n_saves, k) each.

    normalised : predictions, objective and moment in units of the mass
    """
    saves = range(len(run.time))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mass = np.exp(np.minimum(run.log_mass - run.log_scale, LARGE))[:, None]
        unit = 1.0 / mass if normalised else np.exp(run.log_scale)[:, None]
        h = run.scaled_predictions.reshape(len(saves), -1)
        found = {"predictions": h * unit} if len(run.targets) else {}
        found["objective"] = np.array([[run.objective_at(k, normalised)] for k in saves])
        found["log_mass"] = run.log_mass[:, None]
        objective = run.problem.objective
        if objective.risk.has_margins:
            margins = np.array([[objective.margin(row)] for row in h])
            found["margin"] = margins / mass
    found["moment"] = np.array([run.atoms_at(k, normalised).moment() for k in saves])
    return found
