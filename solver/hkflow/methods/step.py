"""What every method reports of a step."""

from dataclasses import dataclass, field

import numpy as np

# What moves the energy (four terms) and the mass (three), in the order of every array of rates.
BUDGET = (
    "transport",
    "reaction",
    "noise_loss",
    "noise_gain",
    "mass_reaction",
    "mass_noise_loss",
    "mass_noise_gain",
)


@dataclass
class Step:
    """A step that was tried.

    dt : its length;  counts : events in it, as a method may count them
    count : how many steps of the method's own it stands for (gradient descent takes many at once)
    budget : (7,) integrals over it of the terms of BUDGET;  gross : (2,) of their sizes, for energy
        and mass
    defect : by how much implicit predictions may be off
    error : relative to the method's tolerance measure, None if rounding hides it;  rejection : a
        sentence, if it failed
    """

    dt: float
    budget: np.ndarray = field(default_factory=lambda: np.zeros(len(BUDGET)))
    gross: np.ndarray = field(default_factory=lambda: np.zeros(2))
    count: int = 1
    defect: float = 0.0
    error: float | None = None
    rejection: str | None = None
    counts: np.ndarray | None = None


MASS_ROUNDING = 1e-13  # of the mass, in one step
SMALLEST = np.finfo(float).tiny  # numbers below have lost digits


def budget_error(before, after, step, tolerance):
    """Largest relative error of the energy and mass budgets of a step; None if rounding hides it.

    |F₁ − F₀ − ∫Ḟ dt| / ∫(sum of the sizes of the terms of Ḟ) dt, and the same for the mass. Where
    rounding hides an error that is within the tolerance all the same, it stands for the error.
    """
    residuals = (
        after.objective - before.objective - step.budget[:4].sum(),
        after.mass - before.mass - step.budget[4:].sum(),
    )
    roundings = (
        before.rounding + after.rounding,
        MASS_ROUNDING * max(before.mass, after.mass) + SMALLEST,
    )
    errors = [
        (abs(residual) - rounding if abs(residual) > rounding else rounding) / gross
        for residual, rounding, gross in zip(residuals, roundings, step.gross, strict=True)
        if gross > 0.0 and (abs(residual) > rounding or rounding <= tolerance * gross)
    ]
    return max(errors, default=None)
