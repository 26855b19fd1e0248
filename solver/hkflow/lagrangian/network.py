"""Two-layer networks in raw parameters, trained as people train them, or by the gradient flow that this approximates."""

from dataclasses import replace

import numpy as np

from ..errors import unknown_name
from ..flows import Flow
from ..measures import Atoms, Units
from ..objectives.objective import Objective
from ..stepping.step import Step
from ..transforms.dense import blocked, unblocked
from . import kernels
from .ode import OdeMethod

LAYERS = ("both", "output", "normalized")
TRAININGS = ("gradient-flow", "gradient-descent", "sgd")
SCHEDULES = {"constant": lambda k: 1.0, "inverse-sqrt": lambda k: 1.0 / np.sqrt(k + 1.0)}
BUNCH = 50  # steps of descent between two looks of the time loop


def network_flow(layers, degree):
    """The flow of measures that a balanced network of many units follows: transport α and reaction β.

    Trained output weights alone move masses at rate J/|b|, which is no flow of the family: their rates are given as (0, 0).
    """
    if layers == "both":
        return Flow(1.0, 2.0 if degree == 1 else 4.0)
    return Flow(0.0, 2.0 if layers == "normalized" else 0.0)


def check_network_flow(layers, degree, flow):
    """Raise ValueError if a flow is not the one that a network follows."""
    own = network_flow(layers, degree)
    if replace(flow, clock="time") != own:
        raise ValueError(
            f"a network with layers '{layers}' follows transport {own.transport:g}, reaction {own.reaction:g} and no noise"
        )


class Network(OdeMethod):
    """A network of m units; its infinite-width limit is a flow of measures.

        both         h = (1/m) Σ b_j φ(a_j, x), ẇ_j = −m ∂F/∂w_j for w_j = (a_j, b_j); with a feature of degree 2 the output
                     weights are the fixed signs b_j = ±1 (Chizat & Bach 2020, eq. 7 and sec. 2.1; Bach & Chizat 2022, eq. 3.4)
        output       the same h with the a_j fixed (Chizat & Bach 2020, sec. 5)
        normalized   h = Σ a_j b_j φ(v_j/|v_j|, x), ẇ_j = −∂F/∂w_j for w_j = (a_j, b_j, v_j) (2-homogeneity paper, eq. 1)

    Weight decay adds λ/2m Σ|w_j|² (degree 2: λ/m Σ|a_j|², normalized: λ/2 Σ(a_j² + b_j²)), which is λ|ν| if balanced.

    problem : its initial measure gives the units, one per atom, balanced up to `balance` = |b|/|a|; or it is Units
    training : "gradient-flow" (with stepper, tolerance, max_step as for particles), "gradient-descent" on all data, or "sgd"
        with a fresh batch from problem.draw, or from the data if there is none, at each step
    problem.flow : must be what `network_flow` says of these layers
    step : size η of a step of descent, time t advances by it;  schedule : "constant", or "inverse-sqrt": η/√(k+1) at step k
    batch : size of a fresh batch;  seed : of the batches
    Cost of one evaluation: units × data (or batch) × (d+1). Raises ValueError for an unknown name or a start that does not fit.
    """

    def __init__(
        self, problem, layers="both", training="gradient-flow", step=0.01, schedule="constant", batch=100, balance=1.0,
        stepper="dopri5", tolerance=1e-6, max_step=float("inf"), seed=0,
    ):  # fmt: skip
        super().__init__(problem, stepper, tolerance, max_step)
        if training != "gradient-flow" and np.isfinite(max_step):
            raise ValueError("max_step is for the gradient flow; descent takes the steps that 'step' and 'schedule' prescribe.")
        named = (("layers", layers, LAYERS), ("training", training, TRAININGS), ("schedule", schedule, SCHEDULES))
        for what, name, choices in named:
            if name not in choices:
                raise ValueError(unknown_name(what, name, choices))
        degree = problem.objective.feature.degree
        if layers != "output" and degree not in (1, 2):
            raise ValueError(
                f"layers='{layers}' needs a feature of degree 1 or 2; '{problem.objective.feature.name}' has {degree}."
            )
        if not (layers == "both" and degree == 2) and len(problem.signs) == 1:
            raise ValueError("A network with trained output weights of either sign needs signs=(1, -1), the signed sphere.")
        check_network_flow(layers, degree, problem.flow)
        self.layers, self.training, self.degree, self.relative = layers, training, degree or 0, 1.0
        self.step, self.schedule, self.batch, self.steps = step, SCHEDULES[schedule], batch, 0
        self.descends, self.keeps_budgets = training != "gradient-flow", training != "sgd"
        self.prescribed = self.prescribed or self.descends
        self.random = np.random.default_rng(seed)
        self._place(*self._first_units(balance))
        self.evaluate(self.current)

    # --- state

    def _first_units(self, balance):
        """Hidden weights, output weights and, for normalized units, inner weights."""
        initial = self.problem.initial
        if self.layers == "both":
            units = initial if isinstance(initial, Units) else Units.of(self.problem.atoms(), self.degree, balance)
            if self.degree == 2 and not np.isin(units.output, (1.0, -1.0)).all():
                raise ValueError("With a feature of degree 2 the output weights are signs: +1 or -1.")
            return units.hidden, units.output, None
        if self.layers == "output":
            if isinstance(initial, Units):
                if self.degree == 0 and not np.allclose(np.linalg.norm(initial.hidden, axis=1), 1.0, rtol=1e-12):
                    raise ValueError("With a feature that is not homogeneous the hidden weights must be unit vectors.")
                return initial.hidden, initial.output, None
            atoms = self.problem.atoms()
            return atoms.positions, atoms.signs * atoms.weights * len(atoms), None
        atoms = self.problem.atoms()
        radius = np.sqrt(atoms.weights)
        return atoms.positions, atoms.signs * radius * np.sqrt(balance), radius / np.sqrt(balance)

    def _place(self, hidden, output, inner):
        """Start from these weights."""
        self.m = len(output)
        self.objective = self.problem.objective.on_moving(hidden)
        blocks = blocked(hidden, self.objective.transform.points.shape[2])
        self.shape, self.weights = blocks.shape, np.zeros(self.m)
        self.sums, self.scratch = np.zeros((len(blocks), 5)), np.zeros((len(blocks), 3, blocks.shape[2]))
        parts = [blocks.ravel(), output] + ([] if inner is None else [inner])
        self.allocate(sum(map(len, parts)), len(self.problem.objective.inputs), hidden.size + sum(map(len, parts[1:])))
        self.current.y[:] = np.concatenate(parts)
        if self.training == "sgd":
            whole = self.problem.objective
            weights = np.full(self.batch, (whole.weights.sum() or 1.0) / self.batch)  # a population has no weights of its own
            data = np.zeros((self.batch, hidden.shape[1])), np.ones(self.batch), weights
            self.sample = Objective(whole.feature, whole.risk, *data, whole.weight_decay).on_moving(hidden)

    def _parts(self, y):
        """Views of hidden (blocked), output and, for normalized units, inner weights in a state vector."""
        blocks, m = self.sums.shape[0] * self.shape[1] * self.shape[2], self.m
        return y[:blocks].reshape(self.shape), y[blocks : blocks + m], y[blocks + m :]

    def state(self):
        """All that the method needs to go on from here, bit for bit."""
        hidden, output, inner = self._parts(self.current.y)
        state = {"hidden": unblocked(hidden, self.m), "output": output} | ({"inner": inner} if len(inner) else {})
        return state | {"steps": self.steps, "random": self.random.bit_generator.state}

    def load(self, state):
        """Continue from a state made by `state`."""
        self._place(state["hidden"], state["output"], state.get("inner"))
        self.steps, self.random.bit_generator.state = int(state["steps"]), state["random"]
        self.evaluate(self.current)

    @staticmethod
    def measure(state):
        """The network of a state, as Problem.initial wants it; normalized units as the atoms that they are."""
        if "inner" not in state:
            return Units(state["hidden"], state["output"])
        weights = state["inner"] * state["output"]
        return Atoms(state["hidden"], np.where(weights < 0.0, -1.0, 1.0), np.abs(weights))

    # --- the right-hand side

    def evaluate(self, e):
        """Gradient, integrals and budgets at the state e.y, on all data."""
        risk = self._gradient(e, self.objective)
        e.predictions[:], e.residuals[:] = self.objective.predictions, self.objective.residuals
        share = 1.0 if self.layers == "normalized" else 1.0 / self.m
        e.mass, growth, penalty, aside, along = (float(total) * share for total in self.sums.sum(axis=0))
        e.objective = risk + penalty
        e.log_mass = float(np.log(e.mass)) if e.mass > 0.0 else -np.inf
        e.rounding = self.problem.objective.rounding(e.objective, self.objective.residuals, e.mass)
        e.roughness = np.sqrt((aside + along) / e.mass) if e.mass > 0.0 else 0.0
        e.rates[:] = (-aside, -along, 0.0, 0.0, growth, 0.0, 0.0)
        e.gross[:] = aside + along, abs(growth) + np.sqrt((aside + along) * e.mass)
        self.set_clock(e)

    def _gradient(self, e, objective):
        """Fill e.rate for one objective, all data or a batch; returns the risk."""
        (hidden, output, inner), (velocities, drift, inner_drift) = self._parts(e.y), self._parts(e.rate)
        decay = self.problem.objective.weight_decay
        if self.layers == "normalized":
            kernels.to_sphere(hidden, self.m, objective.transform.points)
            np.multiply(inner, output, out=self.weights)
            risk = objective.evaluate(self.weights)
            kernels.normalized_unit_rates(
                hidden, inner, output, objective.slopes, objective.gradient, decay, velocities, inner_drift, drift,
                self.scratch, self.sums,
            )  # fmt: skip
            return risk
        objective.transform.points[:] = hidden
        np.divide(output, self.m, out=self.weights)
        risk = objective.evaluate(self.weights)
        trains_hidden, trains_output = self.layers == "both", self.layers == "output" or self.degree == 1
        kernels.unit_rates(
            hidden, output, objective.slopes, objective.gradient, float(trains_hidden), float(trains_output),
            decay * self.degree * trains_hidden, decay * trains_output, self.degree, velocities, drift, self.scratch, self.sums,
        )  # fmt: skip
        return risk

    # --- descent

    def bound(self, remaining):
        """Descent takes a bunch of its steps at a time; a flow is bound by accuracy alone."""
        self.remaining = remaining
        return BUNCH * self.step * self.schedule(self.steps) if self.descends else float("inf")

    def first_limit(self):
        """A first guess of the step that accuracy allows; descent has its own steps."""
        return float("inf") if self.descends else super().first_limit()

    def advance(self, dt):
        """Try steps of descent that add up to dt or a little less, or one step of the flow; the result is `trial`.

        Steps are exactly those of the schedule, except for a shorter one that ends at a save time between two of them.
        """
        if not self.descends:
            return super().advance(dt)
        step = Step(0.0, count=0)
        self.trial.y[:], self.trial.rate[:] = self.current.y, self.current.rate
        self.trial.rates[:], self.trial.gross[:] = self.current.rates, self.current.gross
        while step.dt < dt and step.count < BUNCH:
            size, left = self.step * self.schedule(self.steps + step.count), dt - step.dt
            if size > left * (1.0 + 1e-6) and step.count and dt < self.remaining:
                break
            if self.training == "sgd":
                self._draw()
                self._gradient(self.trial, self.sample)
            else:
                step.budget += min(size, left) * self.trial.rates
                step.gross += min(size, left) * self.trial.gross
            self.trial.y += min(size, left) * self.trial.rate
            step.dt = dt if size >= left * (1.0 - 1e-6) else step.dt + size
            step.count += 1
            if self.training == "gradient-descent":
                self.evaluate(self.trial)
        if self.training == "sgd":
            self.evaluate(self.trial)
        return step

    def _draw(self):
        """A fresh batch."""
        objective, whole = self.sample.objective, self.problem.objective
        if self.problem.draw is not None:
            inputs, objective.targets[:] = self.problem.draw(self.random, self.batch)
        else:
            rows = self.random.choice(len(whole.targets), size=self.batch, p=whole.weights / whole.weights.sum())
            inputs, objective.targets[:] = whole.inputs[rows], whole.targets[rows]
        self.sample.transform.set_inputs(inputs)

    def accept(self, step):
        """Make the trial state the accepted one."""
        super().accept(step)
        self.steps += step.count
