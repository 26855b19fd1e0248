"""Where a run is."""

from dataclasses import dataclass, field

import numpy as np

from ..methods.method import Method
from ..methods.step import Budget, Step
from ..shown import counted
from .stepsize import StepControl


@dataclass
class LoopState:
    """Where a run is, and what it has exchanged so far: with the method's state, all that a resumed
    run needs.

    budget : what the run has exchanged
    limits : bounds from accuracy of explicit and of implicit steps;  implicit : whether the last
        step was implicit
    next_save, next_record : index of the next save time; time from which the next record is due
    next_certificate : step from which the next certificate is due;  certified : evaluations when
        the last one was made
    tiny_steps : how many of the last steps in a row were tiny;  last_rejection : why a step was
        last rejected
    lowest_objective : so far
    log_scale : L, objectives, masses and budgets are in units of e^L
    margin_lower, margin_upper : the max-margin of the data as enclosed so far by the records
    evaluations : of the potential, those of rejected steps included
    """

    objective_at_start: float
    mass_at_start: float
    limits: list[float]
    implicit: bool = False
    time: float = 0.0
    step: int = 0
    dt: float = 0.0
    next_save: int = 0
    next_record: float = 0.0
    next_certificate: int = 0
    certified: int = 0
    tiny_steps: int = 0
    last_rejection: str = ""
    lowest_objective: float = np.inf
    budget: Budget = field(default_factory=Budget)
    log_scale: float = 0.0
    margin_lower: float = -np.inf
    margin_upper: float = np.inf
    evaluations: int = 0

    @property
    def after(self) -> str:
        """How far it is, in words: "after 12 steps"."""
        return f"after {counted(self.step, 'step')}"

    def rescale(self, log_scale: float) -> None:
        """Go over to units of e^log_scale."""
        factor, self.log_scale = np.exp(self.log_scale - log_scale), log_scale
        if factor != 1.0:
            self.objective_at_start *= factor
            self.mass_at_start *= factor
            self.lowest_objective *= factor
            self.budget.values *= factor

    def add(
        self, step: Step, time: float, evaluations: int, control: StepControl, lowest: float
    ) -> None:
        """Go on to a time by an accepted Step.

        evaluations : so far;  control : the StepControl that chose it;  lowest : objective so far
        """
        self.time, self.step, self.dt = time, self.step + step.count, step.dt
        self.budget.values += step.budget.values
        self.limits, self.implicit = control.limits, control.implicit
        self.evaluations, self.lowest_objective = evaluations, lowest

    def as_dict(self) -> dict:
        """Numbers by name, for storing: the budget as the lists `budget` and `gross`."""
        terms, exchanged = self.budget.as_lists()
        return vars(self) | {"limits": [*self.limits], "budget": terms, "gross": exchanged}

    @classmethod
    def from_dict(cls, numbers: dict) -> "LoopState":
        """The clock that was stored; run folders of format 4 have the limit of explicit steps
        alone. Raises ValueError if the budget is none."""
        numbers = dict(numbers)
        if "limit" in numbers:
            numbers["limits"] = [numbers.pop("limit"), np.inf]
        terms, exchanged = Budget().as_lists()
        budget = Budget.from_lists(numbers.pop("budget", terms), numbers.pop("gross", exchanged))
        return cls(**numbers, budget=budget)


def start_of(method: Method) -> LoopState:
    """The LoopState of a method with its initial state."""
    e, limits = method.current, [method.initial_step(), np.inf]
    return LoopState(
        e.objective, e.mass, limits, lowest_objective=e.objective, log_scale=method.log_scale
    )
