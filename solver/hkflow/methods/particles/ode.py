"""What the Lagrangian methods share: a state vector y that follows ẏ = f(y), by an embedded
Runge–Kutta pair."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from ...arguments import Floats, check_choice, check_positive
from ...objectives.objective import Objective
from ...operators.dense import RELU
from ...operators.parallel_loops import n_blocks
from ...problem.problem import Problem
from ..method import Method
from ..rules import needs_max_step
from ..step import NO_GROWTH, Budget, Step
from ..stepping.embedded import PAIRS
from . import kernels


class Evaluation:
    """A state vector and all that follows from it.

    y, rate : (n,) the state and its derivative;  predictions, loss_gradient : (n_data,) h and ∂R/∂h
    objective, mass, log_mass, rounding (of F), rms_potential (root mean square of J under ν),
    mobility_mass (∫m(ν)), speed (of the clock of the smooth margin, 1 if the clock is time), defect
    (of implicit predictions) : numbers
    Extensive numbers are in units of e^log_scale.
    rates : Budget of dF/dt and d|ν|/dt
    """

    def __init__(self, n: int, n_data: int) -> None:
        self.y, self.rate = np.zeros(n), np.zeros(n)
        self.predictions, self.loss_gradient = np.zeros(n_data), np.zeros(n_data)
        self.rates = Budget()
        # a subclass's views of y and of rate
        self.points = self.log_weights = self.velocities = self.growth = self.y
        self.objective = self.mass = self.log_mass = self.rounding = self.rms_potential = (
            self.mobility_mass
        ) = 0.0
        self.speed, self.defect = 1.0, 0.0

    def copy(self, other: "Evaluation") -> None:
        """Take the state of another one, and its loss gradients."""
        self.y[:], self.loss_gradient[:] = other.y, other.loss_gradient


def default_tolerance(objective: Objective) -> float:
    """1e-6; for smooth margins of ReLU units 1e-4, which leaves margins an error of some 1e-4.

    Where a unit crosses a kink the error of a step is of first order in it, so steps shrink like
    the tolerance.
    """
    kinked = objective.feature.activation == RELU
    return 1e-4 if kinked and objective.risk.scaled is not None else 1e-6


def size_of_error(squares: Floats) -> float | None:
    """√s of one mean square s of an estimated error, s/√(s + s′/100) of two (those of dop853); None
    if it is 0."""
    if len(squares) == 1:
        return sqrt(squares[0]) or None
    first, second = squares
    return float(first / np.sqrt(first + 0.01 * second)) if first > 0.0 else None


class OdeMethod(Method):
    """Advances y by a pair of methods/stepping/embedded.py with error control.

    A subclass sets `relative` (1 if errors count relative to |y|, 0 if absolute), calls `allocate`,
    and has evaluate(e), which fills an Evaluation from e.y. Numbers below `floors` (n,), 1 if not
    changed, count as these.
    """

    relative = 0.0
    evaluate: Callable[..., None]
    # rates that vary at the stages of the step under way, (s+1, n_varies), and by how much their
    # quadrature misses their means; None where the step takes means
    stage_rates: Floats | None = None
    missed = 0.0

    def __init__(
        self, problem: Problem, stepper: str, tolerance: float | None, max_step: float
    ) -> None:
        check_choice("stepper", stepper, PAIRS)
        tolerance = default_tolerance(problem.objective) if tolerance is None else tolerance
        check_positive(tolerance=tolerance)
        check_positive(max_step=max_step, finite=False)
        self.pair = PAIRS[stepper]()
        needs_max_step(stepper, max_step)
        self.problem, self.flow = problem, problem.flow
        self.tolerance, self.max_step, self.order = tolerance, max_step, self.pair.error_order
        self.stability = self.pair.stability
        self.energy_slack, self.fixed_steps = 100.0 * tolerance, not self.pair.estimates

    def allocate(self, n: int, n_data: int, numbers: int) -> None:
        """Room for state vectors of length n, of which so many numbers are not padding."""
        self.numbers = numbers
        self.current, self.trial, self.work = (Evaluation(n, n_data) for _ in range(3))
        self.floors = np.ones(n)
        self.stages = np.zeros((len(self.pair.b) + 1, n))
        self.estimates = np.array(self.pair.estimates).reshape(
            len(self.pair.estimates), len(self.stages)
        )
        self.errors = np.zeros((n_blocks(n), len(self.estimates)))

    def combine(
        self, begin: Evaluation, rates: Floats, coefficients: Floats, dt: float, after: Evaluation
    ) -> None:
        """after.y = begin.y + dt Σ_k coefficients_k rates_k, carried back to the manifold of states
        if that is no vector space."""
        kernels.combine(begin.y, rates, coefficients, dt, after.y)

    def stage(self, e: Evaluation) -> None:
        """What a stage needs of e.y: e.rate, and its budget e.rates."""
        self.evaluate(e)

    def record(self, clock: Any) -> dict[str, float]:
        """What is recorded of this method alone."""
        return {}

    def invalid_reason(self) -> str | None:
        """What is wrong with the values of the trial state, or None."""
        y = self.trial.y
        finite = np.count_nonzero(np.isfinite(y))
        return (
            None
            if finite == y.size
            else f"state not finite in {y.size - finite} of its {y.size} numbers"
        )

    def largest_stable_step(self, remaining: float) -> float:
        """Nothing but accuracy bounds the step."""
        return float("inf")

    def initial_step(self) -> float:
        """A first guess of the step that accuracy allows: a twentieth of the time in which J acts;
        none for fixed steps."""
        if not self.pair.estimates:
            return float("inf")
        return 0.05 * self.own_time()

    def own_time(self) -> float:
        """The time in which J acts, by the clock."""
        rate = (
            max(self.flow.reaction, self.flow.transport) * self.current.rms_potential
            + self.flow.noise
        )
        return self.current.speed / rate if rate > 0.0 else float("inf")

    def set_clock(self, e: Evaluation) -> None:
        """If the clock is the smooth margin γ̃ = −F, make all rates of e those per unit of γ̃:
        divide by dγ̃/dt."""
        if self.flow.time_variable == "margin":
            e.speed = -float(e.rates.energy.sum()) * self.unit
            if e.speed != 0.0:  # else nothing moves
                e.rate /= e.speed
                e.rates.values /= e.speed

    def take_rates(self, begin: float, dt: float, shortest: float, implicit: bool) -> float:
        """Rates that vary apart are taken at each stage of an explicit step with error control."""
        flow, pair, self.stage_rates = self.flow, self.pair, None
        staged = pair.estimates and not (implicit or self.sees_kinks)
        if not (staged and flow.varies_apart(begin, dt)):
            return super().take_rates(begin, dt, shortest, implicit)
        flow.over(begin, dt)
        means = [getattr(flow, name) for name in flow.varies]
        self.stage_rates = flow.values(begin + dt * pair.nodes).T
        self.missed = np.abs(pair.b @ self.stage_rates[:-1] - means).max()
        flow.take(self.stage_rates[0])
        self.renew()
        return dt

    def advance(self, dt: float, implicit: bool = False) -> Step:
        """Try a step of size dt from the accepted state; the result is `trial`. Nothing is changed
        until `accept`."""
        step, at, pair, rates = Step(dt), self.current, self.pair, self.stage_rates
        if not at.speed > 0.0:
            step.rejection = NO_GROWTH
            return step
        for k, weight in enumerate(pair.b):
            if k > 0:
                at = self.work
                self.combine(self.current, self.stages, pair.A[k, :k], dt, at)
                if rates is not None:
                    self.flow.take(rates[k])
                self.stage(at)
            self.stages[k] = at.rate
            if weight != 0.0:
                step.budget.integrate(dt * weight, at.rates)
        self.combine(self.current, self.stages, pair.b, dt, self.trial)
        if rates is not None:
            self.flow.take(rates[-1])
        self.evaluate(self.trial)
        self.stages[-1] = self.trial.rate
        step.error = self._local_error(dt)
        by_margin = self.flow.time_variable == "margin" and not self.fixed_steps
        if by_margin and self._misses_clock(dt):
            step.rejection = NO_GROWTH
        if rates is not None:  # what is between the stages
            missed = dt * self.missed * self.current.rms_potential / self.current.speed
            step.error = max(step.error or 0.0, missed) or None
        return step

    def _misses_clock(self, dt):
        """Whether γ̃ has grown by less than half of dt or more than one and a half of it, beyond
        rounding: at its limit F goes up and down by the error of the step."""
        before, after = self.current, self.trial
        gained = (before.objective - after.objective) * self.unit
        rounding = (before.rounding + after.rounding) * self.unit
        return not abs(gained - dt) <= 0.5 * dt + rounding

    def _local_error(self, dt):
        """Root mean square of the estimated local error."""
        if not len(self.estimates):
            return None
        kernels.local_errors(
            self.current.y, self.floors, self.stages, self.estimates, dt, self.relative,
            self.errors,
        )  # fmt: skip
        return size_of_error(np.add.reduce(self.errors) / self.numbers)

    def accept(self, step: Step) -> None:
        """Make the trial state the accepted one."""
        self.current, self.trial = self.trial, self.current
