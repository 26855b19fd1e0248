"""A method: how a measure moves. All that the loop, its controller, guards and writers use of one
stands here."""

from abc import ABC, abstractmethod
from math import exp
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..objectives.losses import LARGEST_LOG
from ..operators.dense import RELU
from ..problem.flow import Flow
from ..problem.problem import Problem
from .step import Step


class Evaluation(Protocol):
    """A state, and what was computed at it. Numbers are in units of e^log_scale of the method.

    objective : F;  mass : |ν|;  log_mass : log |ν|, in plain units
    predictions, loss_gradient : (n_data,) h, and the loss gradient ∂R/∂h that drives the state
    rounding : of F;  defect : by how much implicit predictions may be off
    """

    objective: float
    mass: float
    log_mass: float
    predictions: NDArray[np.float64]
    loss_gradient: NDArray[np.float64]
    rounding: float
    defect: float


class Method(ABC):
    """How a measure moves: its state, its steps, and what may be asked of them.

    problem, flow : what is solved;  current : the accepted Evaluation;  trial : that after the last
        step tried
    tolerance : largest relative error of a step;  max_step : no step is longer;  order : of the
        error of a step
    imex : "explicit", "implicit" or "auto", see stepping/implicit.py;  evaluations : of the
        potential, so far;  implicit_cost : how many explicit steps an implicit one costs
    log_scale : L; numbers of evaluations, steps and budgets are in units of e^L
    energy_slack : share of the energy exchanged by which F may rise;  mass_slack : share of the
        mass exchanged by which steps may miss the mass budget
    fixed_steps : whether steps are prescribed, as those of Euler and gradient descent, and not
        controlled
    keeps_budgets : whether F and the mass change by what steps report;  sees_kinks : whether steps
        see where the gradient of a feature jumps
    trusted : so many rejections of one explicit step shorten it as its error says, others halve it
        at least, which goes too far where errors of equal steps differ by factors
    history : the Recorder of what moved its points, of characteristics
    rates : names of the rates of a flow that it knows, and knows_entropy: it is not made for others
    varying : names of those that may vary
    """

    problem: Problem
    flow: Flow
    current: Any
    trial: Any
    tolerance: float
    max_step: float
    order: int
    imex: str = "explicit"
    implicit_order: int = 1
    evaluations: int = 0
    implicit_cost: float = 1.0
    log_scale: float = 0.0
    energy_slack: float = 0.0
    mass_slack: float = 0.05
    fixed_steps: bool = False
    keeps_budgets: bool = True
    sees_kinks: bool = False
    trusted: int = 0
    history: Any = None
    rates: tuple[str, ...] = ("transport", "reaction", "noise")
    varying: tuple[str, ...] = ()
    knows_entropy: bool = False

    @property
    def unit(self) -> float:
        """e^L, the unit of extensive numbers; capped at e^690, before float64 ends."""
        return exp(min(self.log_scale, LARGEST_LOG))

    @abstractmethod
    def largest_stable_step(self, remaining: float) -> float:
        """The longest step that stability and positivity allow; `remaining` is the time to the next
        save."""

    @abstractmethod
    def initial_step(self) -> float:
        """The longest first step."""

    def prescribed_step(self, dt: float) -> float:
        """How long a step is where steps are prescribed and add up to dt."""
        return dt

    @abstractmethod
    def advance(self, dt: float, implicit: bool = False) -> Step:
        """Try a step from the accepted state; the result is `trial`. Nothing is changed until
        `accept`."""

    @abstractmethod
    def accept(self, step: Step) -> None:
        """Make `trial` the accepted state; log_scale may change with it."""

    @abstractmethod
    def invalid_reason(self) -> str | None:
        """What is wrong with `trial`, beyond what its numbers show, or None."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Arrays and numbers from which `load` makes the accepted state again, to the bit."""

    @abstractmethod
    def load(self, state: dict[str, Any]) -> None:
        """Take a state for the accepted one."""

    @staticmethod
    @abstractmethod
    def measure(state: dict[str, Any]) -> Any:
        """The measure of a state, as Problem.initial wants it."""

    @abstractmethod
    def record(self, clock: Any) -> dict[str, float]:
        """Numbers of this method for a record, by name."""

    @property
    def before_jump(self) -> Any:
        """The trial state, before what comes all at once at its end."""
        return self.trial

    def renew(self) -> None:
        """Compute what the rates of the flow make of the accepted state: they have changed. For
        methods that know some that vary."""
        raise NotImplementedError

    def take_rates(self, begin: float, dt: float, shortest: float, implicit: bool) -> float:
        """Give rates that vary their means over a step; returns the step, halved where they change
        much, if it is not shorter than `shortest`."""
        change = np.inf if self.fixed_steps else 2.0 * np.sqrt(self.tolerance)
        dt = self.flow.over(begin, dt, change, shortest)
        self.renew()
        return dt

    def knows_implicit(self) -> bool:
        """Whether steps from the accepted state can be implicit in the coupling through the
        data."""
        return False

    def homogeneous_norm(self, e: Evaluation) -> float | None:
        """The norm by which the smooth margin is normalised so that it does not fall; None if there
        is none."""
        return e.mass if self.flow.depth == 2.0 else None

    @property
    def moves(self) -> bool:
        """Whether points move on the sphere."""
        return self.flow.moves

    @property
    def slides(self) -> bool:
        """Whether points move where the gradient of the feature jumps, by steps that do not see the
        jumps."""
        feature = self.problem.objective.feature
        return (
            self.moves
            and not self.sees_kinks
            and (feature.activation is None or feature.activation == RELU)
        )
