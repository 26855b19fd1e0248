"""Measures as atoms that move exactly in frozen potentials, coupled in time through the loss
gradient r."""

from itertools import pairwise
from typing import Any

import numpy as np

from ...arguments import Floats, check_positive
from ...operators.dense import unblocked
from ...problem.problem import Problem
from ..frozen_relu.frozen import SUMS
from ..frozen_relu.kinks import Kinks
from ..frozen_relu.movement import Movement
from ..frozen_relu.tangent_gram import held_coupling
from ..particles.in_span import in_span
from ..particles.points import PointMethod
from ..step import SMALLEST, Step, budget_error
from ..stepping.extrapolation import GAUSS, HISTORY, extrapolate, usable
from ..stepping.implicit import check_imex
from ..stepping.implicit_loss_gradients import Coupling
from .history import Recorder

ROUNDINGS = 16.0  # of predictions, as sums over all mass
ORDER = 4  # the error estimate, of the predictor, shrinks like dt^ORDER
# what errors of all steps add up to is about the largest difference of predictor and corrector,
# and up to so many times as much where few atoms make large corners in r(t)
CAUTION = 2.0
# weights of r at the Gauss points for the first half of a step, and for the second
HALVES = 0.5 + np.array([[1.0, -1.0], [-1.0, 1.0]]) / np.sqrt(3.0)
COUNTED = ("crossings", "captures", "releases")
ATOMS = ("positions", "log_weights", "held")  # that the kernel moves


class Cloud:
    """PointMeasure, and what follows from where they are; extensive numbers are in units of
    e^log_scale.

    positions : blocked;  log_weights, held : (n,) log masses, how many kinks hold each
    captured : (n,) bool, whether a kink has ever held it
    came_by : duration, log factor of the mass and loss gradient of the flow that led here, or None
    potentials : ∫J dν where that flow began, and here
    predictions, loss_gradient : (n_data,) h and r
    objective, mass, log_mass, rounding (of F), mobility_mass (∫m(ν)), defect (of implicit
    predictions) : numbers
    speed : of the clock of the smooth margin, 1 if the clock is time
    """

    def __init__(self, shape: tuple[int, ...], n: int, n_data: int) -> None:
        self.positions, self.log_weights, self.held = (
            np.zeros(shape),
            np.zeros(n),
            np.zeros(n, dtype=np.int64),
        )
        self.captured, self.came_by = np.zeros(n, dtype=bool), None
        self.predictions, self.loss_gradient = np.zeros(n_data), np.zeros(n_data)
        self.objective = self.mass = self.log_mass = self.rounding = self.mobility_mass = (
            self.defect
        ) = 0.0
        self.speed, self.potentials = 1.0, (0.0, 0.0)

    def copy(self, other: "Cloud") -> None:
        """Take the state of another one, and its loss gradients."""
        for name in (*ATOMS, "captured", "predictions", "loss_gradient"):
            getattr(self, name)[...] = getattr(other, name)
        self.mass = other.mass

    @property
    def atoms(self) -> tuple[Floats, ...]:
        """The arrays that the kernel moves."""
        return tuple(getattr(self, name) for name in ATOMS)


class Characteristics(PointMethod):
    """Flows without noise of ReLU or linear features, on the sphere or signed sphere of any
    dimension.

    A predictor drives all atoms over half of the step by the mean there of the polynomial through
    the last three values of r, and, with the value in the middle as well, over the other half.
    Atoms that cross kinks make corners in r(t), so that the corrector takes no values from before
    the step: it drives both halves by the parabola through those at the begin, in the middle and at
    the end,

        r_a = w₁ r(t₁) + w₂ r(t₂),  r_b = w₂ r(t₁) + w₁ r(t₂),   t₁, t₂ Gauss points, w = ½ ± 1/√3

    (a commutator-free Magnus method of order 4; Blanes & Moan 2006). Together they are of order 3.

    problem : the flow to compute; its initial measure as atoms gives the first ones
    tolerance : largest difference in a step between h after predictor and corrector, twice its root
        mean square, relative to the larger of h and targets. Errors of all steps add up to less or
        about as much
    max_step : no step is longer
    imex : through the data; implicit steps, of order 2, have their errors controlled by the
        energy budget. auto takes them where explicit ones would be unstable and much shorter, if
        at most 2048 data lead
    Raises ValueError for what has no closed form, naming the method that computes it.
    """

    energy_slack = 0.0  # every step falls, or is taken again shorter
    sees_kinks = True
    rates = ("transport", "reaction")
    order, stability = ORDER, 2.0
    # an implicit step costs as much as some explicit ones
    enters, leaves, least_gain = 2.0, 3.0, 2.0

    def __init__(
        self,
        problem: Problem,
        tolerance: float = 1e-4,
        max_step: float = float("inf"),
        imex: str = "auto",
    ) -> None:
        _has_closed_form(problem)
        check_positive(tolerance=tolerance)
        check_positive(max_step=max_step, finite=False)
        check_imex(imex, problem.objective)
        self.problem, self.flow, self.imex = problem, problem.flow, imex
        self.tolerance, self.max_step = tolerance, max_step
        self.span = in_span(problem)
        self.kinks = Kinks.of(problem.objective.feature, self.seen.inputs)
        n_data = len(problem.objective.inputs)
        # loss gradients: at the end and in the middle of the step that is tried, now, and before
        self.values = np.zeros((HISTORY + 2, n_data))
        self.past, self.ages = self.values[3:], np.zeros(HISTORY - 1)
        self.within = np.zeros((len(GAUSS), n_data))
        self.events, self.history = np.zeros(len(COUNTED)), Recorder(n_data)
        self.reach = 0.0
        self._start()

    # --- state

    def _start(self):
        """Atoms of an initial measure that lie beside a density are captured."""
        super()._start()
        _, atoms = self.problem.initial_parts
        if atoms is not None:
            captured = np.count_nonzero(atoms.weights)
            self.current.captured[self.n - captured :] = True

    def _place(self, positions, signs, log_weights):
        blocks = self._make_room(positions, signs)
        self.move = Movement(self.kinks, len(blocks))
        self.current, self.trial, *self.between = (
            Cloud(blocks.shape, self.n, self.past.shape[1]) for _ in range(4)
        )
        self.current.positions[:], self.current.log_weights[:] = blocks, log_weights

    def points(self, e: Cloud) -> tuple[Floats, Floats]:
        return e.positions, e.log_weights

    def state(self) -> dict[str, Any]:
        e = self.current
        own = {"held": e.held.astype(float), "past": self.past, "ages": self.ages}
        own |= {"speed": e.speed, "reach": self.reach, "events": self.events}
        own |= {"captured": e.captured.astype(float), "flows": float(len(self.history))}
        return super().state() | own

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.current.held[:], self.current.speed = state["held"], float(state["speed"])
        self.past[:], self.ages[:], self.events[:] = state["past"], state["ages"], state["events"]
        self.reach = float(state["reach"])
        self.current.captured[:] = state["captured"]
        self.history = Recorder(self.past.shape[1], int(state["flows"]))

    def record(self, clock: Any) -> dict[str, float]:
        """What is recorded of this method alone: events so far, and the share of the mass that
        kinks hold."""
        e = self.current
        share = (
            np.exp(e.log_weights[e.held > 0] - self.log_scale).sum() / e.mass
            if e.mass > 0.0
            else 0.0
        )
        return {"particles": self.n, **dict(zip(COUNTED, self.events, strict=True)), "held": share}

    def invalid_reason(self) -> str | None:
        """What is wrong with the values of the trial state, or None."""
        e = self.trial
        bad = np.count_nonzero(~np.isfinite(e.positions)) + np.count_nonzero(
            ~np.isfinite(e.log_weights)
        )
        return (
            f"state not finite in {bad} of its {e.positions.size + self.n} numbers" if bad else None
        )

    def _complete(self, e):
        e.mass = e.mobility_mass = float(np.abs(self.weights).sum())
        e.log_mass = float(self.log_scale + np.log(e.mass)) if e.mass > 0.0 else -np.inf

    # --- steps

    def largest_stable_step(self, remaining: float) -> float:
        """Nothing but accuracy bounds the step."""
        self.remaining = remaining
        return float("inf")

    def initial_step(self) -> float:
        """A first guess of the step that accuracy allows: a twentieth of the time in which J
        acts."""
        e, o = self.current, self.objective
        self.evaluate(e, e.loss_gradient.copy(), e.defect)
        o.drive(e.loss_gradient)
        along = unblocked(o.gradient, self.n)
        J = self.signs * o.slopes + self.problem.objective.weight_decay
        steep = np.maximum(np.sum(along**2, axis=1) - o.slopes**2, 0.0)
        weights = np.abs(self.weights)
        if self.flow.time_variable == "margin":
            gained = weights @ (self.flow.transport * steep + self.flow.reaction * J**2)
            e.speed = float(gained) * self.unit
        rough = np.sqrt(weights @ (J**2 + steep) / e.mass)
        rate = max(self.flow.reaction, self.flow.transport) * rough
        return 0.05 * e.speed / rate if rate > 0.0 else float("inf")

    def advance(self, dt: float, implicit: bool = False) -> Step:
        """Try a step of size dt from the accepted state, into `trial`. Nothing is changed until
        `accept`."""
        step, self.passed = self.by_clock(dt, self.implicit if implicit else self._explicit)
        if self.flow.time_variable == "margin" and not step.rejection:
            self.trial.speed = step.dt / self.passed
        # an implicit step begins from a copy of the accepted state
        self.path = self.between[int(implicit)], self.trial
        if implicit and not step.rejection:
            step.error = self._budget_error(step)
        return step

    def _budget_error(self, step):
        """Of the energy and mass budgets, relative to what is exchanged in the `reach`: the length
        of the longest step of late, until as much time has gone by.

        Where kinks let go what they hold, the loss gradients of a stiff flow jump: no step across
        is accurate by itself, and steps would come near the jump for ever.
        """
        error = budget_error(self.current, self.trial, step, self.tolerance)
        return error if error is None else error * min(1.0, self.passed / max(self.reach, SMALLEST))

    def _explicit(self, time):
        """Predictor and corrector over a time, both by halves of it."""
        clouds, half, values = (self.current, self.between[0], self.trial), 0.5 * time, self.values
        ages = self.ages[: usable(self.ages, half)]
        values[2] = self.current.loss_gradient
        for begin, after, place in zip(clouds[:2], clouds[1:], (1, 0), strict=True):
            extrapolate(values[place + 1 :], ages, GAUSS * half, self.within)
            step = self._drive((begin, after), (0.5 * (self.within[0] + self.within[1]),), half)
            if step.rejection:
                return step
            values[place] = after.loss_gradient
            ages = np.concatenate([[half], half + ages])
        guess, middle = self.trial.predictions.copy(), self.between[0].predictions
        extrapolate(values, ages[:2], (GAUSS - 1.0) * time, self.within)
        # not by BLAS, whose threads would fight with the kernels’
        halves = np.einsum("ij,jd->id", HALVES, self.within)
        step = self._drive(clouds, halves, half)
        if not step.rejection:
            step.error = self._difference(guess)
            self._correct_energy(step, float(np.einsum("i,i->", halves[1] - halves[0], middle)))
        return step

    def _correct_energy(self, step, jump):
        """Make what the atoms lose in the corrector's halves what they lose in the flow.

        jump : (r_b − r_a)·h in the middle of the step, h the predictor's

        r_a and r_b are not the means over the halves, so that the corrector's h in the middle is
        off by dt² K r′/24, K the coupling, and r_a·Δh_a + r_b·Δh_b by −dt³ r′·K r′/36. The
        predictor's h is off by dt⁴.
        """
        first, second = self.between[0].potentials, self.trial.potentials
        energy = step.budget.energy
        total = float(np.add.reduce(energy))
        if total < 0.0:
            energy *= 1.0 + (second[0] - first[1] - jump) / total

    def _drive(self, clouds, loss_gradients, tau):
        """Drive the atoms from cloud to cloud, by a loss gradient (n_data,) for a time tau each;
        returns the Step."""
        step = Step(tau * len(loss_gradients), counts=np.zeros(len(COUNTED)))
        for (begin, after), r in zip(pairwise(clouds), loss_gradients, strict=True):
            if not step.rejection:
                self._flow(begin, after, r, tau, step)
        if not step.rejection:
            self.evaluate(clouds[-1])
        return step

    def _flow(self, begin, after, loss_gradient, tau, step):
        """S_r(τ): from one cloud into another, adding to the step's budget."""
        decay, flow, scale = self.problem.objective.weight_decay, self.flow, self.log_scale
        self.evaluations += 1
        found = self.move(
            begin.atoms, self.signs, loss_gradient, flow, decay, tau, scale, after.atoms,
            (begin.captured, after.captured),
        )  # fmt: skip
        sums = dict(zip(SUMS, found.tolist(), strict=True))
        if sums["failures"]:
            step.rejection = (
                f"{sums['failures']:.0f} atoms met more than {self.move.most} kinks in one step"
            )
        transport, energy, exchange = sums["transport"], sums["energy"], sums["exchange"]
        gained, log_factor = sums["gained"], 0.0
        if flow.keeps_mass and not sums["mass"] > 0.0:
            step.rejection = "no mass is left"
        elif flow.keeps_mass:
            shrink = self.mass_at_start / sums["mass"]
            log_factor = float(np.log(shrink))
            after.log_weights += log_factor
            energy = sums["potential"] - shrink * (sums["potential"] - energy)
            transport *= 0.5 * (1.0 + shrink)
            gained, exchange = 0.0, exchange + abs(gained)
            sums["mass"] = self.mass_at_start
        after.mass, after.came_by = sums["mass"], (tau, log_factor, loss_gradient)
        after.potentials = sums["potential"], sums["potential"] - energy
        step.budget.add(
            energy_transport=-transport,
            energy_reaction=transport - energy,
            mass_reaction=gained,
            energy_exchanged=abs(energy),
            mass_exchanged=exchange,
        )
        step.counts += [sums[name] for name in COUNTED]

    def _difference(self, guess):
        """How far corrected predictions lie from a guess (n_data,), relative to them or the
        targets; nothing within the rounding of sums over all mass, as where nothing moves."""
        e, objective = self.trial, self.problem.objective
        rms = objective.rms
        size = max(rms(e.predictions), np.exp(-self.log_scale) * rms(objective.targets))
        if not size > 0.0:
            return None
        off, least = rms(e.predictions - guess), np.finfo(float).eps
        if off <= ROUNDINGS * least * objective.largest_feature * e.mass:
            return least
        return max(CAUTION * off / size, least)

    def accept(self, step: Step) -> None:
        """Make the trial state the accepted one."""
        for cloud in self.path:
            self.history.add(*cloud.came_by)
        self.past[1:], self.past[0] = self.past[:-1].copy(), self.current.loss_gradient
        self.ages[1:], self.ages[0] = (
            np.where(self.ages[:-1] > 0.0, self.ages[:-1] + self.passed, 0.0),
            self.passed,
        )
        self.reach = max(self.passed, self.reach - self.passed)
        self.events += step.counts  # type: ignore[arg-type]
        self.current, self.trial = self.trial, self.current
        self.state_changed()
        self.change_unit()

    def coupling_at(self, e: Cloud) -> Coupling:
        """K at an evaluation; what kinks hold answers along them alone."""
        objective, weights = self.seen, np.exp(e.log_weights - self.log_scale)
        atoms = unblocked(e.positions, self.n), weights, e.held > 0
        normals, flow = self.kinks.normals, self.flow
        return Coupling(
            objective,
            self.log_scale,
            lambda data: held_coupling(objective.among(data), normals, *atoms, flow),
        )

    def coupling_at_current(self) -> Coupling:
        """The Coupling of the accepted state."""
        stores = self.stores_coupling()
        return self.coupling_at(self.current) if stores else super().coupling_at_current()

    def frozen(
        self, begin: Cloud, after: Cloud, loss_gradient: Floats, tau: float, step: Step
    ) -> Floats:
        step.counts = np.zeros(len(COUNTED))
        self._flow(begin, after, loss_gradient, tau, step)
        if not step.rejection:
            self.evaluate(after, loss_gradient)
        return after.predictions


def _has_closed_form(problem):
    """Raise ValueError where the characteristics of a problem are not known."""
    flow, objective = problem.flow, problem.objective
    feature = objective.feature
    if not feature.pieces or feature.joint or not len(objective.inputs):
        what = (
            f"the feature '{feature.name}'" if len(objective.inputs) else "a population of inputs"
        )
        raise ValueError(
            "Characteristics are known for features of data that are linear on either side of a"
            f" kink, as 'relu', not for {what}: take particles or the grid."
        )
    if flow.beyond(Characteristics.rates) or flow.varies or objective.entropy > 0.0:
        raise ValueError(
            "Characteristics have neither noise nor entropy, nor rates that vary: take particles or"
            " the grid."
        )
    if flow.depth != 2.0 or problem.domain.fixed:
        raise ValueError(
            "Characteristics need the mobility of depth 2 and a sphere as domain: take the grid or"
            " a network."
        )
