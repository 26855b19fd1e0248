"""What every method reports of a step: what it exchanged, term by term, and how it went."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .method import Evaluation

# The terms of dF/dt and of d|ν|/dt, a row for each. Run folders list budgets in this order, so that
# a new term goes last.
TERMS = {
    "energy_transport": "Energy that transport exchanged since the start",
    "energy_reaction": "Energy that the reaction exchanged since the start",
    "energy_noise_loss": "Energy that went with the mass that noise took since the start",
    "energy_noise_gain": "Energy that came with the mass that noise brought since the start",
    "mass_reaction": "Mass that the reaction made since the start",
    "mass_noise_loss": "Mass that noise took since the start",
    "mass_noise_gain": "Mass that noise brought since the start",
    "energy_entropy": "Change of τ∫ν log ν since the start, by all mechanisms",
}
ENERGIES = tuple(name for name in TERMS if name.startswith("energy_"))
MASSES = tuple(name for name in TERMS if name.startswith("mass_"))
EXCHANGED = ("energy_exchanged", "mass_exchanged")
FEWEST = 7  # terms in a run folder: those since format 4

_PLACES = {name: place for place, name in enumerate((*ENERGIES, *MASSES, *EXCHANGED))}
_OF_TRANSPORT = np.array([name.endswith("_transport") for name in (*ENERGIES, *MASSES)])


class Budget:
    """What moves energy and mass, by name: over a step, since the start of a run, or per time.

    energy (n_energies,), mass (n_masses,) : the terms, named by ENERGIES and MASSES
    exchanged : (2,) sizes of what energy and mass exchange, signs disregarded, which errors are
        measured by
    values : all of them in one array
    A single one is budget["mass_reaction"].
    """

    __slots__ = ("values", "terms", "energy", "mass", "exchanged")

    def __init__(self) -> None:
        self.__setstate__(np.zeros(len(_PLACES)))

    def __getstate__(self) -> NDArray[np.float64]:
        return self.values

    def __setstate__(self, values: NDArray[np.float64]) -> None:
        """Take the array in which all others are views, also of a copy that came from elsewhere."""
        self.values = values
        self.terms, self.exchanged = values[: len(TERMS)], values[len(TERMS) :]
        self.energy, self.mass = self.terms[: len(ENERGIES)], self.terms[len(ENERGIES) :]

    def __getitem__(self, name: str) -> float:
        return self.values[_PLACES[name]]

    def __setitem__(self, name: str, value: float) -> None:
        self.values[_PLACES[name]] = value

    def set(self, **amounts: float) -> None:
        """Give terms and sizes their values by name; what is not named becomes 0."""
        values = self.values
        values.fill(0.0)
        for name, amount in amounts.items():
            values[_PLACES[name]] = amount

    def add(self, **amounts: float) -> None:
        """Add to terms and sizes by name."""
        values = self.values
        for name, amount in amounts.items():
            values[_PLACES[name]] += amount

    def integrate(
        self, time: float, rates: "Budget", share: float | NDArray[np.float64] | None = None
    ) -> None:
        """Add what rates make in a time, which is negative for some Runge–Kutta weights.

        share : of each term that counts, see `shares`; None for all of it
        """
        if share is None and time >= 0.0:
            self.values += time * rates.values
            return
        self.terms += time * (1.0 if share is None else share) * rates.terms
        self.exchanged += abs(time) * rates.exchanged

    def as_lists(self) -> tuple[list[float], list[float]]:
        """Terms in the order of TERMS, and sizes, for storing."""
        return [float(self[name]) for name in TERMS], self.exchanged.tolist()

    @classmethod
    def from_lists(cls, terms: Any, exchanged: Any) -> "Budget":
        """The Budget of `as_lists`, maybe of a version with fewer terms. Raises ValueError for
        anything else."""
        for what, numbers, fewest, most in (
            ("terms", terms, FEWEST, len(TERMS)),
            ("sizes", exchanged, len(EXCHANGED), len(EXCHANGED)),
        ):
            numeric = isinstance(numbers, list) and all(isinstance(n, int | float) for n in numbers)
            if not (numeric and fewest <= len(numbers) <= most):
                raise ValueError(f"the {what} of a budget are {numbers!r}")
        budget = cls()
        budget.set(**dict(zip(TERMS, terms, strict=False)))
        budget.exchanged[:] = exchanged
        return budget


def shares(transport: float, others: float) -> NDArray[np.float64]:
    """(n_terms,) shares of `Budget.integrate`: of the terms of transport, and of all others."""
    return np.where(_OF_TRANSPORT, float(transport), float(others))


@dataclass
class Step:
    """A step that was tried.

    dt : its length;  counts : events in it, as a method may count them
    budget : what it exchanged
    count : how many steps of the method's own it stands for (gradient descent takes many at once)
    defect : by how much implicit predictions may be off
    error : relative to the method's tolerance measure, None if rounding hides it;  rejection : a
        sentence, if it failed
    """

    dt: float
    budget: Budget = field(default_factory=Budget)
    count: int = 1
    defect: float = 0.0
    error: float | None = None
    rejection: str | None = None
    counts: NDArray[np.float64] | None = None


MASS_ROUNDING = 1e-13  # of the mass, in one step
NO_GROWTH = "the smooth margin does not grow"  # why a step by its clock cannot be taken
SMALLEST = np.finfo(float).tiny  # numbers below have lost digits


def budget_error(
    before: "Evaluation", after: "Evaluation", step: Step, tolerance: float
) -> float | None:
    """Largest relative error of the energy and mass budgets of a step; None if rounding hides it.

    |F₁ − F₀ − ∫Ḟ dt| / ∫(sum of the sizes of the terms of Ḟ) dt, and the same for the mass. Where
    rounding hides an error that is within half the tolerance all the same, it stands for the error.
    Nearer to the tolerance it would shorten the steps, and count for more in each shorter one.
    """
    residuals = (
        after.objective - before.objective - float(np.add.reduce(step.budget.energy)),
        after.mass - before.mass - float(np.add.reduce(step.budget.mass)),
    )
    roundings = (
        before.rounding + after.rounding,
        MASS_ROUNDING * max(before.mass, after.mass) + SMALLEST,
    )
    errors = [
        (abs(residual) - rounding if abs(residual) > rounding else rounding) / size
        for residual, rounding, size in zip(
            residuals, roundings, step.budget.exchanged.tolist(), strict=True
        )
        if size > 0.0 and (abs(residual) > rounding or rounding <= 0.5 * tolerance * size)
    ]
    return max(errors, default=None)
