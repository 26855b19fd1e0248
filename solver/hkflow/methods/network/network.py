"""Networks in raw parameters, trained as people train them, or by the gradient flow that this
approximates."""

from copy import deepcopy
from dataclasses import astuple, fields, replace
from typing import Any

import numpy as np

from ...arguments import check_choice, check_positive, whole_number
from ...measures.point_measure import PointMeasure, Units
from ...objectives.objective import Objective
from ...problem.flow import Flow
from ...problem.problem import Problem
from ..particles.ode import Evaluation, OdeMethod, size_of_error
from ..particles.propositions import Progress, Proposition
from ..rules import check_descent
from ..step import Step, budget_error
from .diagonal import Diagonal
from .fixed_units import Radii
from .moving_units import MovingUnits

LAYERS = {
    "both": MovingUnits,
    "output": MovingUnits,
    "normalized": MovingUnits,
    "radii": Radii,
    "diagonal": Diagonal,
}
TRAININGS = ("gradient-flow", "gradient-descent", "sgd")
PROPOSITION = "proposition"
SCHEDULES = {  # the step at step k, a number or an array of them, in units of the first
    "constant": lambda k: 1.0 + 0.0 * k,
    "inverse-sqrt": lambda k: 1.0 / np.sqrt(k + 1.0),
    PROPOSITION: lambda k: 1.0 + 0.0 * k,
}
STEP, BATCH, STEPPER = 0.01, 100, "dopri5"  # if not given
BUNCH = 50  # steps of descent between two looks of the time loop


def network_flow(layers: str, degree: int | None, depth: float = 2.0) -> Flow:
    """The flow of measures that a balanced network of many units follows: transport α, reaction β
    and, if diagonal, depth D.

    Trained output weights alone move masses at rate J/|b|, which is no flow of the family: their
    rates are given as (0, 0).
    """
    if layers == "both":
        return Flow(1.0, 2.0 if degree == 1 else 4.0)
    if layers == "diagonal":
        return Flow(0.0, depth**2, depth=depth)
    return Flow(0.0, {"normalized": 2.0, "radii": 4.0, "output": 0.0}[layers])


def check_network_flow(layers: str, degree: int | None, flow: Flow) -> None:
    """Raise ValueError if a flow is not the one that a network follows."""
    own = network_flow(layers, degree, flow.depth)
    wanted, got = ({one.name: getattr(of, one.name) for one in fields(of)} for of in (own, flow))
    wrong = [f"{k} {v!r}" for k, v in got.items() if k != "time_variable" and v != wanted[k]]
    if wrong:
        depth = f", depth {own.depth:g}" if layers == "diagonal" else ""
        raise ValueError(
            f"a network with layers '{layers}' follows transport {own.transport:g}, reaction"
            f" {own.reaction:g}{depth} and no noise or drive; got {', '.join(wrong)}. Make the flow"
            " that, or take another method."
        )


class Network(OdeMethod):
    """A network of m units; its infinite-width limit is a flow of measures.

        both         h = (1/m) Σ b_j φ(a_j, x), ẇ_j = −m ∂F/∂w_j for w_j = (a_j, b_j); with a
                     feature of degree 2 the output weights are the fixed signs b_j = ±1 (Chizat &
                     Bach 2020, eq. 7 and sec. 2.1; Bach & Chizat 2022, eq. 3.4)
        output       the same h with the a_j fixed (Chizat & Bach 2020, sec. 5)
        normalized   h = Σ a_j b_j φ(v_j/|v_j|, x), ẇ_j = −∂F/∂w_j for w_j = (a_j, b_j, v_j)
                     (2-homogeneity paper, eq. 1)
        radii        h = (1/m) Σ ε_j r_j² φ(θ_j, x) with the θ_j fixed, ṙ_j = −m ∂F/∂r_j (Chizat &
                     Bach 2020, sec. 4)
        diagonal     h = Σ_c (u₊^D − u₋^D)_c φ(θ_c, x) on atoms θ_c, u̇ = −∂F/∂u (Moroshko et al.
                     2020, sec. 3)

    Weight decay adds λ/2m Σ|w_j|² (degree 2: λ/m Σ|a_j|², normalized: λ/2 Σ(a_j² + b_j²)), which is
    λ|ν| if balanced; radii and diagonal networks have λ|ν| itself.

    problem : its initial measure gives the units, one per atom, balanced up to `balance` = |b|/|a|;
        or it is Units
    training : "gradient-flow" (with stepper, tolerance of units relative to their size, max_step),
        "gradient-descent" on all data, or "sgd" with a fresh batch from problem.draw, or from the
        data if there is none, at each step
    problem.flow : must be what `network_flow` says of these layers
    step : size η of a step of descent, time t advances by it;  schedule : "constant", or
        "inverse-sqrt": η/√(k+1) at step k, or "proposition": the steps of Chizat & Bach 2020, Prop.
        6 (radii) and Prop. 7 (output), of which the best margin and its lower bound are recorded;
        each advances t by 1, so saves are at whole numbers, and `step` is not read
    batch : size of a fresh batch;  seed : of the batches
    Cost of one evaluation: units × data (or batch) × (d+1). Raises ValueError for an unknown name
    or a start that does not fit.
    """

    rates = ("transport", "reaction")

    def __init__(
        self, problem: Problem, layers: str = "both", training: str = "gradient-flow",
        step: float = STEP, schedule: str = "constant", batch: int = BATCH, balance: float = 1.0,
        stepper: str = STEPPER, tolerance: float | None = None, max_step: float = float("inf"),
        seed: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(problem, stepper, tolerance, max_step)
        named = (
            ("layers", layers, LAYERS),
            ("training", training, TRAININGS),
            ("schedule", schedule, SCHEDULES),
        )
        for what, name, choices in named:
            check_choice(what, name, choices)
        check_positive(step=step, balance=balance)
        batch = whole_number(batch, "batch", 1)
        others = {
            "step": step != STEP,
            "schedule": schedule != "constant",
            "batch": batch != BATCH,
            "stepper": stepper != STEPPER,
            "tolerance": tolerance is not None,
            "max_step": np.isfinite(max_step),
        }
        check_descent(training, schedule, layers, [name for name in others if others[name]])
        self.descends, self.keeps_budgets = training != "gradient-flow", training != "sgd"
        if self.descends and problem.flow.time_variable != "time":
            raise ValueError(
                f"The time variable '{problem.flow.time_variable}' is for the gradient flow; the"
                " time of descent is the sum of its steps."
            )
        self.parameters = LAYERS[layers](problem, layers)
        check_network_flow(layers, problem.objective.feature.degree, problem.flow)
        self.layers, self.training, self.relative = layers, training, 1.0
        self.step, self.schedule, self.batch, self.steps = step, SCHEDULES[schedule], batch, 0
        self.fixed_steps = self.fixed_steps or self.descends
        self.random = np.random.default_rng(seed)
        start = self.parameters.start(balance)
        self.proposition, self.progress = (
            self._proposition(start) if schedule == PROPOSITION else None,
            Progress(),
        )
        self._place(start)
        self.evaluate(self.current)

    # --- state

    def _place(self, arrays):
        """Start from these arrays."""
        y, numbers = self.parameters.place(arrays)
        self.allocate(len(y), len(self.parameters.objective.predictions), numbers)
        self.current.y[:] = y
        if self.training == "sgd":
            whole = self.problem.objective
            # a population has no weights of its own
            weights = np.full(self.batch, (whole.weights.sum() or 1.0) / self.batch)
            data = np.zeros((self.batch, whole.inputs.shape[1])), np.ones(self.batch), weights
            batch = Objective(
                whole.feature,
                whole.risk,
                *data,
                whole.weight_decay,
                operator="dense",
                ranks=whole.ranks,
            )
            self.sample, self.has_drawn = self.parameters.on(batch), False

    def _proposition(self, start):
        """The schedule that goes with a theorem."""
        points, signs, trained = (start.get(name) for name in ("positions", "signs", "inner"))
        if self.layers != "radii":
            points, signs, trained = start.get("hidden"), 1.0, start["output"]
        return Proposition(self.layers, self.problem.objective, points, signs, trained)

    def state(self) -> dict[str, Any]:
        """All that the method needs to go on from here, bit for bit."""
        state = self.parameters.arrays(self.current.y)
        state |= {"steps": self.steps, "random": self.random.bit_generator.state}
        return state | ({"progress": np.array(astuple(self.progress))} if self.proposition else {})

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a state made by `state`."""
        self._place(state)
        self.steps, self.random.bit_generator.state = int(state["steps"]), state["random"]
        if self.proposition:
            self.progress = Progress(*(float(number) for number in state["progress"]))
        self.evaluate(self.current)

    @staticmethod
    def measure(state: dict[str, Any]) -> Units | PointMeasure:
        """The network of a state, as Units or as PointMeasure, whatever its layers."""
        moving = "hidden" in state
        return (MovingUnits if moving else Diagonal if "output" in state else Radii).measure(state)

    def record(self, clock: Any) -> dict[str, float]:
        """What is recorded of this method alone: the best margin so far, and what is proved of
        it."""
        return self.proposition.record(self.progress, self.steps) if self.proposition else {}

    # --- the right-hand side

    def evaluate(self, e: Evaluation) -> None:
        """Gradient, integrals and budgets at the state e.y, on all data."""
        objective = self.parameters.objective
        self.evaluations += 1
        self.parameters.fill(e, objective)
        e.predictions[:], e.loss_gradient[:] = objective.predictions, objective.loss_gradient
        e.log_mass = float(np.log(e.mass)) if e.mass > 0.0 else -np.inf
        e.rounding = self.problem.objective.rounding(
            e.objective, objective.loss_gradient, abs(e.mass)
        )
        self.set_clock(e)

    @property
    def moves(self) -> bool:
        """Whether hidden weights move, or normalized ones turn on their sphere."""
        return super().moves or self.layers == "normalized"

    def homogeneous_norm(self, e: Any) -> float:
        """Of the weights in which h is homogeneous, to the power that makes h of degree one in it;
        |ν| if balanced."""
        return self.parameters.homogeneous_norm(e.y)

    def _local_error(self, dt):
        """Root mean square of the estimated local error, relative to the units; of a diagonal
        network to its parameters."""
        if not len(self.estimates):
            return None
        if self.layers != "diagonal":
            self.parameters.set_floors(self.current.y, self.floors)
            return super()._local_error(dt)
        sizes = np.maximum(
            self.parameters.sizes(self.current.y), self.parameters.sizes(self.trial.y)
        )
        errors = dt * (self.estimates @ self.stages) / np.maximum(sizes, np.finfo(float).tiny)
        return size_of_error(np.mean(errors**2, axis=1))

    def _flow_step(self, dt):
        """A step of the flow; a diagonal network's w = u₊^D − u₋^D may be far smaller than u^D, so
        its budgets count as well."""
        step = super().advance(dt)
        if self.layers == "diagonal":
            budgets = budget_error(self.current, self.trial, step, self.tolerance)
            step.error = max(filter(None, (step.error, budgets)), default=None)
        return step

    # --- descent

    def largest_stable_step(self, remaining: float) -> float:
        """Descent takes a bunch of its steps at a time; a flow is bound by accuracy alone."""
        self.remaining = remaining
        if not self.descends:
            return float("inf")
        return float(BUNCH) if self.proposition else BUNCH * self.step * self.schedule(self.steps)

    def prescribed_step(self, dt: float) -> float:
        """How long a step is: of descent, many of which make dt, that of the schedule."""
        if not self.descends or self.proposition:
            return dt
        return min(dt, self.step * self.schedule(self.steps))

    def initial_step(self) -> float:
        """A first guess of the step that accuracy allows; descent has its own steps."""
        return float("inf") if self.descends else super().initial_step()

    def advance(self, dt: float, implicit: bool = False) -> Step:
        """Try steps of descent that add up to dt or a little less, or one step of the flow; the
        result is `trial`.

        Steps are exactly those of the schedule, except for a shorter one that ends at a save time
        between two of them.
        """
        if not self.descends:
            return self._flow_step(dt)
        step, self.trial_progress = Step(0.0, count=0), self.progress
        if self.proposition and dt == self.remaining and dt != round(dt):
            step.rejection = (
                f"with schedule='proposition' time counts steps, and the next save is {dt:g} steps"
                " away"
            )
            return step
        self._begin_trial()
        while step.dt < dt and step.count < BUNCH:
            size, tick = self._next_step(self.steps + step.count)
            left = dt - step.dt
            if tick > left * (1.0 + 1e-6) and step.count and dt < self.remaining:
                break
            size = size if self.proposition else min(size, left)
            if self.training == "sgd":
                self._draw()
                self.evaluations += 1
                self.parameters.fill(self.trial, self.sample)
            else:
                step.budget.integrate(size, self.trial.rates)
            self.trial.y += size * self.trial.rate
            step.dt = dt if tick >= left * (1.0 - 1e-6) else step.dt + tick
            step.count += 1
            if self.training == "gradient-descent":
                self.evaluate(self.trial)
        if self.training == "sgd":
            self.evaluate(self.trial)
        return step

    def _begin_trial(self):
        """The trial state begins as the accepted one, and its random numbers where those of that
        ended."""
        self.trial_random = deepcopy(self.random)
        for name in ("y", "rate", "predictions"):
            getattr(self.trial, name)[:] = getattr(self.current, name)
        self.trial.rates.values[:] = self.current.rates.values

    def _next_step(self, k):
        """Size of step k from the trial state, and the time that it takes."""
        if not self.proposition:
            return (self.step * self.schedule(k),) * 2
        norm = self.parameters.homogeneous_norm(self.trial.y)
        size, self.trial_progress = self.proposition.step(
            self.trial_progress, k, self.trial.predictions, norm
        )
        return size, 1.0

    def _draw(self):
        """A fresh batch."""
        objective, whole = self.sample.objective, self.problem.objective
        if self.problem.draw is not None:
            inputs, objective.targets[:] = self._drawn(objective)
        else:
            rows = self.trial_random.choice(
                len(whole.targets), size=self.batch, p=whole.weights / whole.weights.sum()
            )
            inputs, objective.targets[:] = whole.inputs[rows], whole.targets[rows]
        self.sample.operator.set_inputs(inputs)

    def _drawn(self, objective):
        """A batch of the user's, of which the first is looked at. Raises ValueError for data that
        an objective refuses."""
        assert self.problem.draw is not None
        drawn, wanted = self.problem.draw(self.trial_random, self.batch), objective.inputs.shape
        if not self.has_drawn:
            try:
                inputs, targets = drawn
                if np.shape(inputs) != wanted:
                    raise ValueError(f"got inputs of the shape {np.shape(inputs)}.")
                replace(objective, inputs=inputs, targets=targets)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"draw(rng, {self.batch}) must give inputs {wanted} and targets"
                    f" ({self.batch},): {error}"
                ) from error
            self.has_drawn = True
        return np.asarray(drawn[0]), drawn[1]

    def accept(self, step: Step) -> None:
        """Make the trial state the accepted one."""
        super().accept(step)
        self.steps += step.count
        if self.descends:
            self.progress, self.random = self.trial_progress, self.trial_random
