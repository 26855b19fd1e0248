"""Weighted particles: θ̇ = −α ∇_S J, d log weight/dt = −βJ − σ, and new mass σ spread by U."""

from copy import copy, deepcopy
from math import sqrt
from typing import Any

import numpy as np

from ...arguments import Floats, check_choice, check_positive, whole_number
from ...geometry.point_sets import quasi_uniform, random_uniform
from ...measures.point_measure import PointMeasure, with_each_sign
from ...objectives.protocol import feature_of_data
from ...operators.dense import unblocked
from ...problem.problem import Problem
from .. import rules
from ..step import SMALLEST, Step, budget_error
from ..stepping.embedded import PAIRS
from ..stepping.implicit import check_imex
from . import kernels, waveform
from .brownian import geodesic_steps
from .in_span import in_span
from .ode import Evaluation, OdeMethod, default_tolerance
from .points import PointMethod
from .shifted import kinks_of
from .tangent_gram import knows_slopes
from .waveform import NODES, Sliding

NOISE_KINDS = ("deterministic", "random")
SLIDING = "sliding"  # a stepper beside PAIRS
OVER_KINKS = 1e-5  # tolerance of steps over many kinks: smaller ones hardly lessen their errors
ONE = np.ones(1)  # the coefficient of a step of Euler's


class Particles(PointMethod, OdeMethod):
    """The Lagrangian method, on the sphere or signed sphere of any dimension.

    problem : the flow to compute; its initial measure as atoms gives the first particles
    stepper : dopri5 or dop853, or euler with steps of max_step; or sliding, for features with kinks
        (ReLU, joint ReLU, a ridge linear between its kinks) that move: it locates events, crosses
        kinks and slides along them (waveform.py). auto is sliding where there are kinks, fewer than
        1000 (of several outputs at most 1e-4/tolerance), else dopri5. With entropy τ it is euler,
        by Brownian steps (see brownian.py), which no tolerance governs; F is then recorded without
        τ∫ν log ν, which particles do not know
    tolerance : largest local error of a step, root mean square over positions and log weights, of
        sliding over predictions, relative to them or the targets, and where energies act beside the
        data the larger of both; 1e-10 makes a reference. If not given, that of `default_tolerance`,
        and 1e-5 where auto steps over kinks of one output
    max_step : no step is longer
    imex : through the data; implicit steps of order 1 (euler) or 2 have their errors controlled
        by the energy and mass budgets, relative to what J exchanges in the time in which it acts.
        auto takes them where stability keeps explicit steps short, at most 2048 data lead, and it
        does not step over kinks
    noise : how U is injected when σ > 0: all weights decay at rate σ, and noise acts in the middle
        of every interval. "deterministic": mass is put on a fixed quasi-uniform set,
        2 sinh(σ·interval/2), which noise alone would give, times the mass if the flow keeps it;
        these particles then move with the others: their number grows. "random": every particle
        dies with probability 1 − e^{−σ·interval} and is born again uniform with weight 1/n, or an
        even share of what died if the flow keeps its mass; the weights of all are those that they
        had without decay, so that the mean is what deterministic noise gives
    noise_points : size of that quasi-uniform set;  noise_interval : the longest interval, 0.05 if
        not given, or 1/(2σ) where that is shorter; saves end intervals
    seed : of the random noise and of Brownian steps
    Cost of one evaluation: particles × data × (d+1).
    Raises ValueError for an unknown name, an initial measure without mass, a set that the signs
    cannot share, noise on fixed features, noise by the clock of the margin, a depth other
    than 2 off fixed features, or what does not go with entropy.
    """

    varying = ("transport", "reaction")
    knows_entropy = True

    def __init__(
        self, problem: Problem, stepper: str = "auto", tolerance: float | None = None,
        max_step: float = float("inf"), imex: str = "auto", noise: str = "deterministic",
        noise_points: int = 1000, noise_interval: float | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        check_choice("stepper", stepper, ("auto", SLIDING, *PAIRS))
        if problem.domain.fixed and problem.flow.noise > 0.0:
            raise ValueError(
                "Noise of particles is born anywhere on the sphere, not on fixed features: choose"
                " the method 'grid'."
            )
        self.temperature = problem.objective.entropy
        if self.temperature > 0.0:
            _check_brownian(problem, stepper, tolerance, max_step, imex)
            stepper, imex, self.keeps_budgets = "euler", "explicit", False
        objective = problem.objective
        usual, outputs = default_tolerance(objective), objective.feature.outputs
        many = rules.many_kinks(outputs, tolerance or usual)
        self.over_kinks = stepper == "auto" and _has_many(problem, many)
        slides = stepper == SLIDING or stepper == "auto" and not self.over_kinks
        self.span = in_span(problem)
        kinks = _kinks(problem, (self.span or problem).objective.inputs) if slides else None
        if tolerance is None and self.over_kinks and outputs == 1:
            tolerance = max(OVER_KINKS, usual)
        if stepper == SLIDING and kinks is None:
            raise ValueError(
                f"The stepper '{SLIDING}' needs units that move, of a feature whose kinks are"
                f" known, got '{problem.objective.feature.name}'. Choose from: {', '.join(PAIRS)}."
            )
        pair = "dopri5" if stepper in ("auto", SLIDING) else stepper
        super().__init__(problem, pair, tolerance, max_step)
        check_choice("noise", noise, NOISE_KINDS)
        check_imex(imex, problem.objective)
        if imex == "implicit" and not knows_slopes(problem.objective.feature):
            raise ValueError(
                "imex = 'implicit' of particles needs a built-in feature or one of hkflow.ridge:"
                f" '{problem.objective.feature.name}' does not tell its gradients datum by datum."
            )
        if self.flow.signed:
            raise ValueError(
                "Particles have log weights, which a signed density (depth 1) has not: take the"
                " grid or a network."
            )
        if self.flow.depth != 2.0 and not problem.domain.fixed:
            raise ValueError(
                "Particles of a sphere have masses, and a mobility of depth"
                f" {self.flow.depth:g} is that of a density: take the grid. Fixed features have"
                " both."
            )
        by_margin = self.flow.time_variable == "margin"
        if by_margin and self.flow.noise > 0.0:
            raise ValueError(
                "Noise of particles comes all at once, at times that the clock of the smooth margin"
                " does not know, and changes that margin: take the clock 'time'."
            )
        interval = rules.noise_interval(noise_interval, self.flow.noise)
        check_positive(noise_interval=interval)
        self.substeps = min(self.pair.order, 2)
        self.implicit_order = self.substeps + 1  # of the local error
        self.noise, self.noise_interval, self.imex = noise, interval, imex
        self.random = np.random.default_rng(seed)
        self.interval = self.wait = 0.0
        self.renewed = True
        self.renewal: Any = None
        if self.flow.noise > 0.0 and noise == "deterministic":
            self.sites = self._sites(noise_points)
        if kinks is not None:
            self._slide(kinks)
        self._start()

    def _slide(self, kinks):
        """Take steps that locate where particles meet kinks."""
        objective, self.kinks = self.problem.objective, kinks
        feature = feature_of_data(objective)
        self.driven_beside_data = feature is not objective.feature
        self.sees_kinks, self.trusted, self.order = True, waveform.TRUSTED, waveform.ORDER
        self.stability, self.energy_slack = waveform.STABILITY, 0.0
        self.implicit_order, self.least_gain = 2, waveform.LEAST_GAIN
        # the loss gradient at the nodes of the last step tried, and of the last one accepted
        self.path, self.past = np.zeros((2, len(NODES), len(objective.inputs) * feature.outputs))
        self.passed = self.past_time = 0.0

    def knows_implicit(self) -> bool:
        """Whether steps can be implicit; by themselves they are not over many kinks, which spoil
        the errors of longer steps."""
        return (self.imex == "implicit" or not self.over_kinks) and super().knows_implicit()

    @property
    def enters(self) -> float:
        """An implicit step costs as much as some explicit ones that see kinks."""
        return waveform.ENTERS if self.sees_kinks else super().enters

    @property
    def leaves(self) -> float:
        return waveform.LEAVES if self.sees_kinks else super().leaves

    @property
    def implicit_cost(self) -> float:  # type: ignore[override]
        """Explicit steps that see kinks cost as much as implicit ones, whatever the data."""
        return 1.0 if self.sees_kinks else super().implicit_cost

    # --- state

    def _place(self, positions, signs, log_weights):
        """Start from these particles."""
        blocks, n = self._make_room(positions, signs), len(positions)
        self.shape = blocks.shape
        self.sums, self.end_sums, self.scratch = (
            np.zeros((len(blocks), 5)),
            np.zeros((len(blocks), 6)),
            np.zeros((len(blocks), 3, blocks.shape[2])),
        )
        # in any coordinates as many numbers as in all, so that errors are the same
        numbers = n * (self.problem.objective.axes + 1)
        self.allocate(blocks.size + n, len(self.objective.predictions), numbers)
        self.between = [
            Evaluation(blocks.size + n, len(self.current.predictions)) for _ in range(2)
        ]
        for e in (self.current, self.trial, self.work, *self.between):
            e.points, e.log_weights = self._parts(e.y)
            e.velocities, e.growth = self._parts(e.rate)
        self.current.points[:], self.current.log_weights[:] = blocks, log_weights
        if self.sees_kinks:
            feature = self.problem.objective.feature
            self.sliding = Sliding(self.kinks, feature.joint, len(blocks), feature.outputs)
            count = len(NODES) - 1
            self.at_nodes = np.zeros((count, *blocks.shape)), np.zeros((count, n))

    def _parts(self, y):
        """Views of positions, blocked, and log weights in a state vector."""
        return y[: len(y) - self.n].reshape(self.shape), y[len(y) - self.n :]

    def points(self, e: Evaluation) -> tuple[Floats, Floats]:
        return e.points, e.log_weights

    def state(self) -> dict[str, Any]:
        own = {"interval": self.interval, "wait": self.wait, "renewed": self.renewed}
        if self.sees_kinks:
            own |= {"past": self.past, "past_time": self.past_time}
        return super().state() | own | {"random": self.random.bit_generator.state}

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.interval, self.wait, self.renewed = state["interval"], state["wait"], state["renewed"]
        self.random.bit_generator.state = state["random"]
        if self.sees_kinks:
            self.past[:], self.past_time = state["past"], float(state["past_time"])

    def record(self, clock: Any) -> dict[str, float]:
        """What is recorded of this method alone."""
        return {"particles": self.n}

    # --- the right-hand side

    def combine(
        self, begin: Evaluation, rates: Floats, coefficients: Floats, dt: float, after: Evaluation
    ) -> None:
        """after.y = begin.y + dt Σ_k coefficients_k rates_k, positions carried back to the sphere,
        and masses to their sum where the flow keeps it."""
        kernels.combine_on_sphere(begin.y, rates, coefficients, dt, after.points, after.y)
        if self.flow.keeps_mass:
            self._keep_mass(begin, after, dt * float(np.add.reduce(coefficients)))

    def _keep_mass(self, begin, after, time):
        """Scale all masses of `after` so that their sum is that of `begin`, less what noise takes
        in a time; returns both sums, in units of e^log_scale."""
        mass, later = (self._mass(e.log_weights) for e in (begin, after))
        kept = mass * np.exp(-self.flow.noise * time)
        if 0.0 < later < np.inf:  # else the step is refused
            after.log_weights += np.log(kept / later)
        return mass, kept

    def stage(self, e: Evaluation) -> None:
        """The rates at e, and their budget, alone."""
        self._set(e)
        self.objective.value(self.weights, self.log_scale)
        e.loss_gradient[:] = self.objective.loss_gradient
        self._drive(e)
        self.set_clock(e)

    def _complete(self, e):
        self._drive(e)
        readable = e.mass >= SMALLEST
        e.log_mass = float(
            self.log_scale + np.log(e.mass) if readable else np.logaddexp.reduce(e.log_weights)
        )
        self.set_clock(e)

    def _drive(self, e):
        """Velocities, growth rates, integrals and budgets that the loss gradients of e make, at
        points and weights just set."""
        flow, growth = self.flow, e.growth
        self.evaluations += 1
        self.objective.drive(e.loss_gradient)
        e.mass, first, second, steep, e.mobility_mass = kernels.particle_rates(
            e.points, self.weights, self.signs, self.objective.slopes,
            self.objective.gradient, flow.transport, flow.reaction, flow.noise,
            self.problem.objective.weight_decay, flow.depth, e.velocities, growth,
            self.scratch, self.sums,
        )  # fmt: skip
        e.rms_potential = sqrt((second + steep) / e.mass) if e.mass > 0.0 else 0.0
        if flow.depth != 2.0:
            square = np.add.reduce(growth**2) / self.n
            e.rms_potential = sqrt(square) / flow.reaction if flow.reaction > 0.0 else 0.0
        shift = self._exchange(e.rates, e.mass, first, second, flow.transport * steep)
        if shift != 0.0:
            growth += flow.reaction * shift

    def _exchange(self, rates, mass, first, second, transport=0.0):
        """Set rates to what these integrals exchange, of J and J² over m(ν), and α∫|∇J|² dν;
        returns what reaction takes J relative to."""
        beta, sigma = self.flow.reaction, self.flow.noise
        shift = first / mass if self.flow.keeps_mass and mass > 0.0 else 0.0
        reaction, lost = -beta * (second - shift * first), -sigma * first
        rates.set(
            energy_transport=-transport,
            energy_reaction=reaction,
            energy_noise_loss=lost,
            mass_reaction=-beta * (first - shift * mass),
            mass_noise_loss=-sigma * mass,
            energy_exchanged=abs(transport) + abs(reaction) + abs(lost),
            mass_exchanged=beta * sqrt(second) * sqrt(mass) + sigma * mass,
        )
        return shift

    # --- steps

    def advance(self, dt: float, implicit: bool = False) -> Step:
        """Try a step of size dt from the accepted state, with the noise at its end; the result is
        `trial`, until `accept`."""
        if self.renewal is not None:  # of a step that was not accepted
            self.trial, self.renewal = self.before_noise, None
        step = self._flow_step(dt, implicit)
        if not (self.flow.noise == 0.0 or self.renewed or step.rejection) and self._ends_wait(dt):
            self._add_noise(step)
        return step

    def _flow_step(self, dt, implicit):
        """A step of the flow, without the noise that comes all at once; into `trial`."""
        if self.temperature > 0.0:
            return self._brownian_step(dt)
        if not implicit:
            if not self.sees_kinks:
                return super().advance(dt)
            step, self.passed = self.by_clock(dt, self._waveform)
            return step
        step, _ = self.by_clock(dt, self.implicit)
        self.passed = 0.0  # nothing to extrapolate from
        if not step.rejection and self.sees_kinks:
            step.error = budget_error(self.current, self.trial, step, self.tolerance)
        elif not step.rejection:
            # relative to what J exchanges in its own time: a kink that one particle crosses spoils
            # a share of any step
            share = step.dt / self.own_time()
            if share > 0.0:  # else J is 0 to rounding
                error = budget_error(self.current, self.trial, step, self.tolerance / share)
                step.error = None if error is None else share * error
        return step

    def _brownian_step(self, dt):
        """Particles move at random and keep their masses."""
        now, after = self.current, self.trial
        after.y[:] = now.y
        self.random_after = deepcopy(self.random)
        geodesic_steps(
            now.points, now.velocities, self.random_after.standard_normal(self.shape), dt,
            np.sqrt(2.0 * self.flow.transport * self.temperature * dt), self.n, after.points,
        )  # fmt: skip
        self.evaluate(after)
        return Step(dt)

    def _waveform(self, time):
        """A step by waveform relaxation, into `trial`."""
        step, e = Step(time), self.current
        objective, size = self.problem.objective, len(NODES)
        rms = objective.rms
        wanted = 1.0 if objective.risk.coupled else rms(objective.targets)  # classes are no sizes
        values = (
            waveform.extrapolated(self.past, time / self.past_time)
            if 0.0 < time <= waveform.STRETCH * self.past_time
            else np.tile(e.loss_gradient, (size, 1))
        )
        values += e.loss_gradient - values[0]
        forces = self._forces_of(e, size)
        shifts = np.full(size, self._shift(e.loss_gradient, e.predictions, e.mass))
        before, moved = np.zeros((size - 1, len(e.predictions))), 0.0
        for sweep in range(waveform.SWEEPS):
            through = (
                waveform.THROUGH_OUTER if sweep == waveform.SWEEPS - 2 else waveform.THROUGH_ALL
            )
            drive = np.einsum("ij,jd->id", through, values), through @ shifts
            if forces is None:
                sums = self._sweep(e, *drive, time)
            else:
                last = [part.copy() for part in self.at_nodes]
                sums = self._sweep(e, *drive, time, np.einsum("ij,jna->ina", through, forces))
                moved = self._moved(last)
            if sums["failures"]:
                step.rejection = self._too_many(sums)
                return step
            error, largest = 0.0, np.exp(-self.log_scale) * wanted
            for j in range(size - 1):
                self.objective.operator.points[:] = self.at_nodes[0][j]
                kernels.signed_weights(
                    self.at_nodes[1][j], self.signs, self.log_scale, self.weights
                )
                self.objective.value(self.weights, self.log_scale)
                h = self.objective.predictions
                error = max(error, rms(h - before[j]))
                before[j], values[j + 1] = h, self.objective.loss_gradient
                if forces is not None:
                    forces[j + 1] = self.objective.forces()
                shifts[j + 1] = self._shift(values[j + 1], h, np.abs(self.weights).sum())
                largest = max(largest, rms(h))
            small = waveform.SMALL * self.tolerance
            if sweep > 0 and error <= small * largest and moved <= small:
                break
        self._finish(e, self.trial, sums, time, step)
        self.evaluate(self.trial)
        self.path[:] = values
        error = max(error / largest if largest > 0.0 else 0.0, moved)
        step.error = max(error, np.finfo(float).eps) if largest > 0.0 or moved > 0.0 else None
        return step

    def _forces_of(self, e, size):
        """What drives particles beside the loss gradient, at e and so for `size` nodes; or None."""
        if not self.driven_beside_data:
            return None
        self._set(e)
        self.objective.value(self.weights, self.log_scale)
        return np.tile(self.objective.forces(), (size, 1, 1))

    def _moved(self, last):
        """By how much positions and log weights at the nodes differ from those of the last sweep,
        root mean square, at the node where they do most."""
        changes = zip(self.at_nodes, last, strict=True)
        squares = [np.square(new - old).reshape(len(new), -1).sum(axis=1) for new, old in changes]
        return sqrt(np.sum(squares, axis=0).max() / self.numbers)

    def _shift(self, loss_gradient, predictions, mass):
        """What reaction takes J relative to: ∫J dν̄ if it keeps the mass."""
        if not (self.flow.keeps_mass and mass > 0.0):
            return 0.0
        work = float(loss_gradient @ predictions)
        if self.driven_beside_data:
            work += float(np.abs(self.weights) @ self.objective.own_slopes)
        return work / mass + self.problem.objective.weight_decay

    def _sweep(self, begin, loss_gradient, shift, time, beside=None):
        """Move all particles from an evaluation, to the nodes; returns the sums of `Sliding`."""
        self.evaluations += 1
        flow = self.flow
        rates = flow.transport, flow.reaction, flow.noise, self.problem.objective.weight_decay
        start, drive = self.points(begin), (loss_gradient, np.atleast_1d(shift))
        return self.sliding(
            start, self.signs, drive, rates, time, self.log_scale, NODES[1:], self.at_nodes, beside
        )

    def _too_many(self, sums):
        return (
            f"{sums['failures']:.0f} particles met more than {self.sliding.most} kinks in one step"
        )

    def _mass(self, log_weights):
        """In units of e^log_scale."""
        kernels.signed_weights(log_weights, self.signs, self.log_scale, self.weights)
        return float(np.abs(self.weights).sum())

    def _lost(self, begin, time):
        """∫J dν̄ in the last sweep, (5,) coefficients, by what the mass lost on the way to the
        nodes."""
        masses = [self._mass(logs) for logs in (begin.log_weights, *self.at_nodes[1])]
        logs = waveform.THROUGH_ALL @ np.log(masses)
        lost = -logs[1:] * np.arange(1, len(NODES)) / time
        lost[0] -= self.flow.noise
        return lost / self.flow.reaction if self.flow.reaction > 0.0 else np.zeros(1)

    def _finish(self, begin, after, sums, time, step):
        """Put particles where the last sweep ended, and what was exchanged into the step."""
        flow, sigma = self.flow, self.flow.noise
        positions, log_weights = self.points(after)
        positions[:], log_weights[:] = self.at_nodes[0][-1], self.at_nodes[1][-1]
        if flow.keeps_mass:
            mass, later = self._keep_mass(begin, after, time)
        else:
            mass, later = (self._mass(logs) for logs in (begin.log_weights, log_weights))
        reaction, transport = flow.reaction * sums["reaction"], flow.transport * sums["steep"]
        step.budget.add(
            energy_transport=-transport,
            energy_reaction=-reaction,
            energy_noise_loss=-sigma * sums["first"],
            mass_reaction=later - mass + sigma * sums["mass"],
            mass_noise_loss=-sigma * sums["mass"],
            energy_exchanged=transport + abs(reaction) + sigma * abs(sums["first"]),
            mass_exchanged=flow.reaction * sums["exchange"] + sigma * sums["mass"],
        )

    def frozen(
        self, begin: Evaluation, after: Evaluation, loss_gradient: Floats, tau: float, step: Step
    ) -> Floats:
        """Exact if the particles stay in place or see kinks, by the midpoint rule if not."""
        if self.sees_kinks:
            sums = self._sweep(begin, loss_gradient[None], 0.0, tau)
            if self.flow.keeps_mass:
                sums = self._sweep(begin, loss_gradient[None], self._lost(begin, tau), tau)
            if sums["failures"]:
                step.rejection = self._too_many(sums)
            self._finish(begin, after, sums, tau, step)
            self._set(after)
        elif self.flow.transport == 0.0:
            self._grow(begin, after, loss_gradient, tau, step)
        else:
            begin.loss_gradient[:] = after.loss_gradient[:] = loss_gradient
            self._set(begin)
            self._drive(begin)
            self.combine(begin, begin.rate[None], ONE, 0.5 * tau, after)
            self._set(after)
            self._drive(after)
            step.budget.integrate(tau, after.rates)
            self.combine(begin, after.rate[None], ONE, tau, after)
            self._set(after)
        self.objective.value(self.weights, self.log_scale)
        after.predictions[:] = self.objective.predictions
        return after.predictions

    def _grow(self, begin, after, loss_gradient, tau, step):
        """Weights of particles that stay, after a time tau with J frozen."""
        flow, objective = self.flow, self.objective
        self.evaluations += 1
        objective.operator.points[:] = begin.points
        objective.drive(loss_gradient)
        after.y[:] = begin.y
        ends = kernels.frozen_weights(
            begin.log_weights, self.signs, objective.slopes, self.log_scale, tau, flow.reaction,
            flow.noise, self.problem.objective.weight_decay, flow.depth, flow.keeps_mass,
            begin.points.shape[2], after.growth, after.log_weights, self.weights, self.end_sums,
        )  # fmt: skip
        share = 1.0
        if flow.keeps_mass:
            self._keep_mass(begin, after, tau)
            share = self._mass(after.log_weights) / ends[1][0]  # which sets self.weights
        self._exchange(begin.rates, *ends[0])
        self._exchange(after.rates, *(share * total for total in ends[1]))
        step.budget.values += 0.5 * tau * (begin.rates.values + after.rates.values)

    # --- noise

    @property
    def before_jump(self) -> Evaluation:
        """The trial state, before the noise at its end."""
        return self.trial if self.renewal is None else self.before_noise

    def largest_stable_step(self, remaining: float) -> float:
        """Steps end in the middle and at the end of the intervals in which noise acts; a save ends
        an interval."""
        self.remaining = remaining
        if self.flow.noise == 0.0:
            return float("inf")
        if self.wait == 0.0:
            self.interval = remaining / max(1.0, np.ceil(remaining / self.noise_interval - 1e-9))
            self.wait, self.renewed = 0.5 * self.interval, False
        self.remaining = min(self.wait, remaining)  # which may be less by rounding
        return self.wait

    def _ends_wait(self, dt):
        """Whether the middle or the end of an interval is a step of size dt away."""
        return self.wait - dt <= 1e-9 * self.interval

    def accept(self, step: Step) -> None:
        """Make the trial state the accepted one."""
        if self.temperature > 0.0:
            self.random = self.random_after
        if self.renewal is None:
            super().accept(step)
        else:
            vars(self).update(vars(self.renewal))
        if self.sees_kinks:
            # of an implicit step nothing is kept
            self.past[:] = self.path if self.passed > 0.0 else 0.0
            self.past_time = self.passed
        self.state_changed()
        if self.flow.depth == 2.0:
            self.change_unit()
        if self.flow.noise == 0.0:
            return
        ends, self.wait = self._ends_wait(step.dt), self.wait - step.dt
        if ends:
            self.wait, self.renewed = 0.0 if self.renewed else 0.5 * self.interval, True

    def _add_noise(self, step):
        """Let noise act on the trial state and count in the step's budget, which guards then see;
        until `accept` in a copy."""
        before, renewal = self.trial, copy(self)
        renewal.random = deepcopy(self.random)
        act = renewal._inject if self.noise == "deterministic" else renewal._renew
        born = act(before)
        renewal.evaluate(renewal.current)
        gained = renewal.current.objective - before.objective
        step.budget.add(
            energy_noise_gain=gained,
            mass_noise_gain=born,
            energy_exchanged=abs(gained),
            mass_exchanged=abs(born),
        )
        self.evaluations = renewal.evaluations
        self.before_noise, self.trial, self.renewal = before, renewal.current, renewal

    def _inject(self, e):
        """Start from the particles of e and a quasi-uniform set of the mass that is given; returns
        that, in units of e^log_scale."""
        new, mass = self.sites, self._given()
        self._place(
            np.concatenate([unblocked(e.points, self.n), new.positions]),
            np.concatenate([self.signs, new.signs]),
            np.concatenate([e.log_weights, np.log(mass * new.weights)]),
        )
        return mass * np.exp(-self.log_scale)

    def _given(self):
        """The mass that noise gives in the middle of an interval: as much as decays to 1 −
        e^(−σ·interval) in the second half."""
        mass = self.mass_at_start if self.flow.keeps_mass else 1.0
        return mass * 2.0 * np.sinh(0.5 * self.flow.noise * self.interval)

    def _sites(self, count):
        """Where mass is injected: an even set of total mass 1, shared by the signs."""
        signs = self.problem.signs
        count = whole_number(count, "noise_points")
        if count < len(signs) or count % len(signs):
            raise ValueError(
                f"noise_points must be a multiple of the {len(signs)} signs, got {count}."
            )
        if self.problem.domain.of_two and count // len(signs) % 2:
            raise ValueError(
                f"noise_points must be a multiple of {2 * len(signs)}: S⁰, of one input without a"
                f" bias, has two directions; got {count}."
            )
        points = quasi_uniform(count // len(signs), self.problem.dim)
        return PointMeasure(*with_each_sign(points, signs))

    def _renew(self, e):
        """Start from the particles of e, of which some die and are born again uniform with weight
        1/n, or with what they had together, shared evenly, where the mass stays. Survivors stand
        for the dead: the weights of all grow by what decays in an interval, of the born by what
        decays in its second half. Returns the mass gained."""
        decay, log_weights = self.flow.noise * self.interval, e.log_weights
        before = np.exp(log_weights - self.log_scale).sum()
        positions, log_weights = unblocked(e.points, self.n).copy(), log_weights + decay
        dead = np.flatnonzero(self.random.random(self.n) < -np.expm1(-decay))
        positions[dead] = random_uniform(self.random, len(dead), self.problem.dim)
        each, signs = 0.5 * decay - np.log(self.n), self.signs.copy()
        if self.flow.keeps_mass and len(dead):
            each = np.logaddexp.reduce(log_weights[dead]) - np.log(len(dead))
        log_weights[dead] = each
        signs[dead] = self.random.choice(np.array(self.problem.signs, dtype=float), size=len(dead))
        self._place(positions, signs, log_weights)
        return np.exp(log_weights - self.log_scale).sum() - before


def _kinks(problem, inputs):
    """Kinks of the feature for inputs where particles move over data; None if there are none."""
    objective, feature = problem.objective, feature_of_data(problem.objective)
    moves = problem.flow.moves and len(inputs)
    if feature.joint and feature is not objective.feature:
        return None  # energies are not linear in the length of (a, b)
    return kinks_of(feature, inputs) if moves else None


def _has_many(problem, many):
    """Whether there are so many kinks: in the most cases the first few thousand data tell."""
    for some in (4 * rules.MANY_KINKS, None):
        kinks = _kinks(problem, problem.objective.inputs[:some])
        if kinks is None or len(kinks.normals) >= many:
            return kinks is not None
    return False


def _check_brownian(problem, stepper, tolerance, max_step, imex):
    """Raise ValueError for what does not go with Brownian steps."""
    if np.isinf(max_step):
        raise ValueError(
            "Entropy makes particles move by Brownian steps: give their length, 'max_step'."
        )
    if stepper not in ("auto", "euler"):
        raise ValueError(
            "Entropy makes particles move by Brownian steps of the stepper 'euler', got"
            f" '{stepper}'."
        )
    if tolerance is not None:
        raise ValueError(
            "No 'tolerance' governs Brownian steps of particles, only 'max_step': leave it out."
        )
    if imex == "implicit":
        raise ValueError("Brownian steps of particles are explicit: leave out imex = 'implicit'.")
    for name in ("reaction", "noise"):
        if getattr(problem.flow, name) > 0.0:
            raise ValueError(
                f"Particles with entropy have no {name}, got {getattr(problem.flow, name):g}:"
                " choose the method 'grid', which knows the density."
            )
