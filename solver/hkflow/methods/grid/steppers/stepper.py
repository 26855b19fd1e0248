"""What every stepper of the grid offers."""

from functools import cached_property

import numpy as np

from ...step import Step, budget_error
from ..capture import Capture
from ..frozen import FrozenFlow
from ..right_hand_side import RightHandSide
from ..state import Evaluation


class Stepper:
    """Makes steps of the flow from one Evaluation into another.

    rhs : the RightHandSide
    order : a step's error grows like dt^order;  stability : largest dt λ at which a step is stable
        for ẏ = −λy
    cfl, largest_cfl : Courant numbers, by default and at most, see methods/rules.py
    fixed_steps : whether steps are those of max_step, without error control
    spares : how many evaluations it needs besides the accepted one
    capture : moves what kinks capture, or None
    """

    order: int
    stability: float = 2.0
    cfl: float = 0.4
    largest_cfl: float
    fixed_steps: bool = False
    spares: int = 1
    capture: Capture | None = None

    def __init__(self, rhs: RightHandSide) -> None:
        self.rhs = rhs

    @cached_property
    def frozen(self) -> FrozenFlow:
        """The flow in a potential that stands still."""
        return FrozenFlow(self.rhs, self.capture)

    @cached_property
    def between(self) -> list[Evaluation]:
        """Where parts of a step begin and end."""
        return [self.rhs.new_evaluation() for _ in range(2)]

    def evaluate(
        self, e: Evaluation, loss_gradient: np.ndarray | None = None, defect: float = 0.0
    ) -> None:
        """All that a step needs to begin at the density of e, driven by its own or given
        loss gradients."""
        self.rhs.potential(e, loss_gradient, defect)
        self.rates(e)

    def rates(self, e: Evaluation) -> None:
        """Transport, integrals and budgets at the density and the potential of e."""
        raise NotImplementedError

    def advance(
        self, now: Evaluation, spares: list[Evaluation], dt: float
    ) -> tuple[Evaluation, Step]:
        """The evaluation after a step of size dt, one of `spares`, and the Step, which may be
        rejected."""
        raise NotImplementedError

    def largest_stable_step(self, e: Evaluation) -> float:
        """The longest step that transport allows from e."""
        return self.cfl / e.outflow if e.outflow > 0.0 else float("inf")

    def initial_step(self, e: Evaluation) -> float:
        """A first guess of the step that accuracy allows: a twentieth of the time in which the
        reaction acts."""
        rate = self.rhs.flow.reaction * e.rms_potential + self.rhs.flow.noise
        return 0.05 / rate if rate > 0.0 else float("inf")

    def error(
        self, before: Evaluation, after: Evaluation, step: Step, tolerance: float
    ) -> float | None:
        """Relative error of a step, None if it is not controlled."""
        return budget_error(before, after, step, tolerance)

    # --- what a stepper remembers of earlier steps: nothing, by default

    def remember(self, now: Evaluation, dt: float) -> None:
        """The step dt from `now` is accepted."""

    def rescale(self, factor: float) -> None:
        """Units have grown by a factor."""

    def state(self) -> dict[str, np.ndarray]:
        """What a resumed run needs of it."""
        return {}

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Continue from a state made by `state`."""
