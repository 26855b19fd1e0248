"""Where a run is."""

from dataclasses import asdict, dataclass, field

import numpy as np

from ..methods.step import BUDGET


@dataclass
class Clock:
    """Where a run is, and what it has exchanged so far: with the method's state, all that a resumed
    run needs.

    budget : (7,) integrals over time of the terms of BUDGET
    limits : bounds from accuracy of explicit and of implicit steps;  implicit : whether the last
        step was implicit
    next_save, next_record : index of the next save time; time from which the next record is due
    next_certificate : step from which the next certificate is due
    tiny_steps : how many of the last steps in a row were tiny;  last_rejection : why a step was
        last rejected
    lowest_objective : so far;  gross : (2,) what energy and mass exchanged so far, signs
        disregarded
    log_scale : L, objectives, masses and budgets are in units of e^L
    margin_lower, margin_upper : the max-margin of the data as enclosed so far by the records
    evaluations : of the potential, those of rejected steps included
    """

    objective_at_start: float
    mass_at_start: float
    limits: list
    implicit: bool = False
    time: float = 0.0
    step: int = 0
    dt: float = 0.0
    next_save: int = 0
    next_record: float = 0.0
    next_certificate: int = 0
    tiny_steps: int = 0
    last_rejection: str = ""
    lowest_objective: float = np.inf
    budget: list = field(default_factory=lambda: [0.0] * len(BUDGET))
    gross: list = field(default_factory=lambda: [0.0, 0.0])
    log_scale: float = 0.0
    margin_lower: float = -np.inf
    margin_upper: float = np.inf
    evaluations: int = 0

    def rescale(self, log_scale):
        """Go over to units of e^log_scale."""
        factor, self.log_scale = np.exp(self.log_scale - log_scale), log_scale
        if factor != 1.0:
            self.objective_at_start *= factor
            self.mass_at_start *= factor
            self.lowest_objective *= factor
            self.budget = [float(factor * total) for total in self.budget]
            self.gross = [float(factor * total) for total in self.gross]

    def add(self, step, time, evaluations, control, lowest):
        """Go on to a time by an accepted Step.

        evaluations : so far;  control : the StepControl that chose it;  lowest : objective so far
        """
        self.time, self.step, self.dt = time, self.step + step.count, step.dt
        self.budget = [
            total + float(part) for total, part in zip(self.budget, step.budget, strict=True)
        ]
        self.gross = [
            total + float(part) for total, part in zip(self.gross, step.gross, strict=True)
        ]
        self.limits, self.implicit = control.limits, control.implicit
        self.evaluations, self.lowest_objective = evaluations, lowest

    def as_dict(self):
        """Numbers by name, for storing."""
        return asdict(self)

    @classmethod
    def from_dict(cls, numbers):
        """The clock that was stored; run folders of format 4 have the limit of explicit steps
        alone."""
        limit = {"limits": [numbers["limit"], np.inf]} if "limit" in numbers else {}
        return cls(**{name: value for name, value in numbers.items() if name != "limit"}, **limit)


def start_of(method):
    """The Clock of a method with its initial state."""
    e, limits = method.current, [method.first_limit(), np.inf]
    return Clock(
        e.objective, e.mass, limits, lowest_objective=e.objective, log_scale=method.log_scale
    )
