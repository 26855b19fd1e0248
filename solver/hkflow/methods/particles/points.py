"""Methods whose measure is made of points that carry mass: their state, and their implicit
steps."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arguments import Floats
from ...measures.point_measure import PointMeasure
from ...objectives.protocol import prediction_shape
from ...operators.dense import blocked, unblocked
from ..step import NO_GROWTH, Step
from ..stepping.implicit import PER_STEP, SUBSTEPS, ImplicitSteps, implicit_step
from ..stepping.implicit_loss_gradients import STORED, Coupling
from . import kernels
from .in_span import InSpan
from .tangent_gram import coupling_matrix, coupling_product, knows_slopes

# times fewer points than data: a few products with K cost less than K
FEWER = 8
# data² over points for each explicit step that the factors of K cost; explicit steps of fewer
# points than the least take as long as theirs
PER_FACTORS, LEAST_POINTS = 60.0, 20
RESCALE = 64.0 * np.log(2.0)  # a log mass further than this from log_scale becomes the new one
CLOCK_ERROR = 1e-10  # of a step of the clock of the smooth margin that ends at a given time
NEAR = 0.5, 1.1  # shares of a step that others may gain instead
MOST_CLOCK_CORRECTIONS = 12
MIN_POWER = 0.1  # of the time, like which the clock grows; beyond it and its inverse 1 is taken


class PointMethod(ImplicitSteps):
    """What particles and characteristics share.

    n : points;  signs, weights : (n,) ε, and signed masses in units of e^log_scale
    objective : the ObjectiveAtMovingPoints of them
    between : evaluations where parts of a step begin and end
    span : the coordinates of the points where these are not θ, see in_span.py
    A subclass has `points`, `frozen`, `_complete` and `_place`, which makes `current`, `trial` and
    `between`; its evaluations have `copy`.
    """

    between: list[Any]
    span: InSpan | None = None
    substeps = 2  # order of implicit steps
    most_stored = STORED
    # of the last trial of the step under way, whose length the clock corrects
    guesses: list[Floats] | None = None
    remaining = 0.0  # clock until a step has to end, as at a save; one that is as long is exact

    def points(self, e: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Positions, blocked, and log masses (n,) of an evaluation, to be read and written."""
        raise NotImplementedError

    def frozen(
        self, begin: Any, after: Any, loss_gradient: Floats, tau: float, step: Step
    ) -> NDArray[np.float64]:
        """Points driven for a time tau by given loss gradients, from `begin` into `after`; adds to
        the step's budget and returns the predictions (n_data,) there."""
        raise NotImplementedError

    def _complete(self, e):
        """Give e its mass and what follows from its loss gradients, at points and weights just
        set."""
        raise NotImplementedError

    def evaluate(self, e: Any, loss_gradient: Floats | None = None, defect: float = 0.0) -> None:
        """All that follows from the points of e, driven by their own or by given loss gradients."""
        objective = self.problem.objective
        self._set(e)
        risk = self.objective.value(self.weights, self.log_scale)
        e.predictions[:] = self.objective.predictions
        e.loss_gradient[:] = (
            self.objective.loss_gradient if loss_gradient is None else loss_gradient
        )
        self._complete(e)
        e.objective = risk + objective.weight_decay * e.mass
        e.rounding = objective.rounding(e.objective, e.loss_gradient, e.mass, self.log_scale)
        e.defect = float(defect)

    # --- state

    @property
    def seen(self) -> Any:
        """The objective in the coordinates of the points."""
        return (self.span or self.problem).objective

    def _start(self):
        """Begin with the atoms of the initial measure that have mass."""
        atoms = self.problem.atoms()
        alive = atoms.weights > 0.0
        if not alive.any():
            raise ValueError(f"{type(self).__name__} need an initial measure with some mass.")
        positions = atoms.positions[alive]
        if self.span is not None:
            positions = self.span.coordinates
        self._place(positions, atoms.signs[alive], np.log(atoms.weights[alive]))
        self.evaluate(self.current)
        self.mass_at_start = self.current.mass

    def _place(self, positions, signs, log_weights):
        """Begin with these points: (n, p) unit vectors, in their coordinates, (n,) ε and log
        masses."""
        raise NotImplementedError

    def _make_room(self, positions, signs):
        """For a number of points; returns their positions, blocked."""
        self.n, self.signs = len(positions), np.array(signs, dtype=float)
        self.weights = np.zeros(self.n)
        self.objective = self.seen.at_moving_points(positions, on_sphere=True)
        return blocked(positions, self.objective.operator.points.shape[2])

    def _set(self, e):
        """Give the objective the points and weights of e."""
        positions, log_weights = self.points(e)
        self.objective.operator.points[:] = positions
        kernels.signed_weights(log_weights, self.signs, self.log_scale, self.weights)

    def state(self) -> dict[str, Any]:
        """All that the method needs to go on from here, bit for bit."""
        blocks, log_weights = self.points(self.current)
        own = unblocked(blocks, self.n)
        positions = {"positions": own}
        if self.span is not None:
            positions = {"positions": self.span.positions(own), "coordinates": own}
        return {
            **positions,
            "signs": self.signs,
            "log_weights": log_weights,
            "log_scale": self.log_scale,
            "residuals": self.current.loss_gradient.reshape(
                prediction_shape(self.problem.objective)
            ),
            "defect": self.current.defect,
            "mass_at_start": self.mass_at_start,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a state made by `state`."""
        positions = state["positions" if self.span is None else "coordinates"]
        self._place(positions, state["signs"], state["log_weights"])
        self.log_scale = float(state["log_scale"])
        self.mass_at_start = float(state["mass_at_start"])
        self.evaluate(self.current, state["residuals"].ravel(), state["defect"])
        self.state_changed()

    @staticmethod
    def measure(state: dict[str, Any]) -> PointMeasure:
        """The measure of a state, as Problem.initial wants it."""
        return PointMeasure(state["positions"], state["signs"], np.exp(state["log_weights"]))

    def change_unit(self) -> None:
        """Take the mass as the unit of extensive numbers where it has left the present one far
        behind, or always for "measure", unless it is kept.

        F does not vanish with the mass, so that units are never smaller than one; with "measure"
        than 2^−64.
        """
        e, measure = self.current, self.flow.drive == "measure"
        if self.flow.keeps_mass or not measure and abs(e.log_mass - self.log_scale) <= RESCALE:
            return
        log_scale = 0.0 if e.log_mass < (-RESCALE if measure else 0.0) else e.log_mass
        if log_scale != self.log_scale:
            defect = e.defect * np.exp(self.log_scale - log_scale)
            self.log_scale = log_scale
            self.evaluate(e, e.loss_gradient.copy(), defect)

    # --- steps

    def renew(self) -> None:
        """Compute what the rates of the flow make of the accepted state: they have changed."""
        e = self.current
        self.evaluate(e, e.loss_gradient.copy(), e.defect)
        self.state_changed()

    def speed(self) -> float:
        """Of the clock."""
        return self.current.speed

    def by_clock(self, dt: float, advance: Callable[[float], Step]) -> tuple[Step, float]:
        """The step in which the clock goes on by dt, and its time; advance : function (time) ->
        Step, into `trial`.

        The clock of the smooth margin grows like a power of the time: first taken for 1, then from
        the last two trials. Only a step that has to end at a given time is tried until it does;
        another one may be somewhat shorter or longer than dt, as its Step says.
        """
        if not self.current.speed > 0.0:
            return Step(dt, rejection=NO_GROWTH), 0.0
        time, last, power = dt / self.current.speed, None, 1.0
        exact = dt >= self.remaining or self.fixed_steps or self.flow.varies
        least, most = (1.0 - CLOCK_ERROR, 1.0 + CLOCK_ERROR) if exact else NEAR
        # beyond `remaining` it would pass what waits there: a save, or noise
        end = min(self.max_step, max(dt, self.remaining))
        longest = min(most * dt, (1.0 + CLOCK_ERROR) * end)
        self.guesses = None
        for _ in range(MOST_CLOCK_CORRECTIONS):
            step, spent = advance(time), time
            gained = (self.current.objective - self.trial.objective) * self.unit
            if step.rejection or self.flow.time_variable == "time":
                break
            if least * dt <= gained <= longest:
                dt = dt if exact else float(gained)
                break
            if not gained > 0.0:
                step.rejection = NO_GROWTH
                break
            if last is not None and time != last[0] and gained != last[1]:
                power = np.log(gained / last[1]) / np.log(time / last[0])
                power = power if MIN_POWER < power < 1.0 / MIN_POWER else 1.0
            last = time, gained
            time *= min((dt / gained) ** (1.0 / power), 10.0)
        else:  # rounding may hide the clock's last digits, not all of them
            if not NEAR[0] * dt <= gained <= NEAR[1] * dt:
                step.rejection = "the clock of the smooth margin did not come to the step's end"
        step.dt = dt
        return step, spent

    def implicit(self, time: float) -> Step:
        """A step with loss gradients implicit in their effect (see methods/stepping/implicit.py),
        into `trial`."""
        substeps = SUBSTEPS[self.substeps]
        states = [*self.between[: len(substeps)], self.trial]
        states[0].copy(self.current)
        coupling = self.accepted_coupling()
        step = implicit_step(
            coupling, time, substeps, states, self.frozen, self.tolerance, self.current.mass,
            self.coupling_at, self.guesses,
        )  # fmt: skip
        if not step.rejection:
            self.guesses = [state.loss_gradient.copy() for state in states[1:]]
            self.evaluate(self.trial, self.trial.loss_gradient.copy(), step.defect)
        return step

    def knows_implicit(self) -> bool:
        """Whether steps can be implicit; by themselves they are not where products with K cost more
        than explicit steps."""
        known = knows_slopes(self.problem.objective.feature) and super().knows_implicit()
        return known and (self.imex == "implicit" or self.stores_coupling())

    @property
    def implicit_cost(self) -> float:  # type: ignore[override]
        """As of every method, and what the factors of K cost beside explicit steps of few points:
        n³ for each beside n · points."""
        cost = super().implicit_cost
        n = PER_STEP * cost
        return cost if cost == 1.0 else cost + n**2 / (PER_FACTORS * max(self.n, LEAST_POINTS))

    # K where it jumps with the loss gradients; None where it does not
    coupling_at: Callable[[Any], Coupling] | None = None

    def coupling_at_current(self) -> Coupling:
        """The Coupling of the accepted state."""
        objective, flow = self.seen, self.flow
        positions, log_weights = self.points(self.current)
        weights = np.exp(log_weights - self.log_scale)
        mobility = weights ** (2.0 - 2.0 / flow.depth)
        state = unblocked(positions, self.n), weights, mobility, flow

        def form(data):
            return coupling_matrix(objective.among(data), *state)

        def product(data, v):
            return coupling_product(objective.among(data), *state, v)

        stores, few = self.stores_coupling(), FEWER * self.n <= self.n_leading()
        return Coupling(
            objective,
            self.log_scale,
            form if stores else None,
            None if stores and not few else product,
        )
