"""Steps that are implicit in the coupling through the data and explicit in everything else.

A step is made of flows with frozen loss gradients, each linear in the measure and without
stiffness: S_r(τ) ν. Loss gradients are implicit in the predictions at the end of a time that they
drive:

    order 1   ν ← S_r(dt) ν,   r = ∇R(h(S_r(dt) ν))
    order 2   ν′ = S_r((1−γ) dt) ν, r = ∇R(h(S_r(γ dt) ν));   ν ← S_s(γ dt) ν′, s = ∇R(h(S_s(γ dt)
              ν′)),   γ = 1 − 1/√2

The second is the stiffly accurate, L-stable SDIRK method of order 2 (Alexander 1977) as a
composition of flows: measures stay nonnegative, and F falls because it is convex and S_s dissipates
the linear functional ∫J_s dν.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...arguments import Floats, check_choice
from ...objectives.objective import Objective
from ..method import Method
from ..step import SMALLEST, Step
from .implicit_loss_gradients import FEW, Coupling, curvatures, implicit_is_known, leading

IMEX = ("auto", "explicit", "implicit")
ENTER, LEAVE = 0.4, 0.1  # shares of the stability limit
GAMMA = 1.0 - np.sqrt(0.5)
# (time that r is implicit in, time it is used for)
SUBSTEPS = {1: ((1.0, 1.0),), 2: ((GAMMA, 1.0 - GAMMA), (GAMMA, GAMMA))}
MOST_CORRECTIONS = 30
PER_STEP = 8.0  # leading data for each explicit step that K costs
TOO_FAR = 0.5  # slopes that have turned by less are let be
# share of a defect that is left after a correction, beyond which K is renewed where it jumps
SHRINKS = 0.1
CONSISTENT = 0.1  # of the tolerance, at most 1e-3: how well implicit loss gradients are solved for


def check_imex(imex: str, objective: Objective) -> None:
    """Raise ValueError for an unknown name, and if it is to be implicit through a risk whose
    curvature is not known."""
    check_choice("imex", imex, IMEX)
    if imex == "implicit" and (objective.risk.tail is None or len(objective.targets) == 0):
        if hasattr(objective, "interactions"):
            risk = "a sum of energies"
        elif len(objective.targets):
            risk = f"the risk '{objective.risk.name}'"
        else:
            risk = "a population risk"
        raise ValueError(
            f"imex = 'implicit' needs a built-in risk of data; the curvature of {risk} is not"
            " known to it."
        )


class ImplicitSteps(Method):
    """What a method that can step implicitly in its coupling offers to the choice between both
    kinds of step.

    A subclass has `current`, `problem`, `flow`, `log_scale`, `coupling_at_current()` -> Coupling,
    which is asked for once per accepted state, and calls `state_changed()` where that changes.

    implicit_order : the error of an implicit step, as it is measured, grows like dt^order
    stability : largest dt λ of a stable explicit step;  enters, leaves : dt λ at which steps become
        implicit, and explicit
    least_gain : how many times as long as an explicit step an implicit one has to be
    most_stored : leading data up to which K is stored
    """

    coupling_at_current: Callable[[], Coupling]
    implicit_order, stability, least_gain = 2, 2.0, 1.0
    most_stored: int
    _coupling = _stiffness = None

    @property
    def enters(self) -> float:
        """An explicit step that error control shortens because it is unstable hovers around the
        stability limit."""
        return ENTER * self.stability

    @property
    def leaves(self) -> float:
        """Well below, so that steps do not go to and fro."""
        return LEAVE * self.stability

    def speed(self) -> float:
        """Of the clock, per unit of time."""
        return 1.0

    def state_changed(self) -> None:
        """Forget the coupling of the state before."""
        self._coupling = self._stiffness = None

    def knows_implicit(self) -> bool:
        """Whether R* is known at the current state, so that steps can be implicit."""
        e, objective = self.current, self.problem.objective
        return implicit_is_known(objective, e.predictions, self.log_scale)

    def n_leading(self) -> int:
        """How many data lead at the accepted state."""
        return len(leading(self.problem.objective, self.current.loss_gradient))

    def stores_coupling(self) -> bool:
        """Whether K among the leading data is stored at the accepted state."""
        return self.n_leading() <= self.most_stored

    @property
    def implicit_cost(self) -> float:  # type: ignore[override]
        """Explicit steps that an implicit one costs: n leading data times as many sums make K, and
        steps by products cost as much as with the largest K."""
        n = self.n_leading()
        return min(n, self.most_stored) / PER_STEP if n > FEW else 1.0

    def accepted_coupling(self) -> Coupling:
        """The Coupling of the accepted state."""
        if self._coupling is None:
            self._coupling = self.coupling_at_current()
        return self._coupling

    def exceeds_stiffness(self, dt: float, limit: float) -> bool:
        """Whether λ(K ∂²R) dt exceeds a limit; an upper bound of λ that costs nothing is asked
        first."""
        e, flow, objective = self.current, self.flow, self.problem.objective
        curved = curvatures(objective, e.loss_gradient, self.log_scale)
        answer = curved @ objective.feature_sizes
        if (
            not dt * answer * (flow.transport * e.mass + flow.reaction * e.mobility_mass)
            > limit * self.speed()
        ):
            return False
        return bool(dt * self.stiffness() > limit * self.speed())

    def stiffness(self) -> float:
        """λ(K ∂²R) of the accepted state, asked for once."""
        if self._stiffness is None:
            self._stiffness = self.accepted_coupling().stiffness(self.current.loss_gradient)
        return self._stiffness

    def stable_step(self) -> float:
        """The longest stable explicit step, by the clock."""
        return self.stability * self.speed() / self.stiffness()


def implicit_step(
    coupling: Coupling,
    dt: float,
    substeps: Sequence[tuple[float, float]],
    states: Sequence[Any],
    frozen: Callable[..., Floats],
    tolerance: float,
    mass: float,
    coupling_at: Callable[[Any], Coupling] | None,
    guesses: Sequence[Floats] | None = None,
) -> Step:
    """One step, composed of flows with frozen loss gradients; returns the Step, with a rejection if
    loss gradients are not found.

    coupling : K at the first state;  substeps : of SUBSTEPS;  states : evaluations, the first with
        the accepted state and its loss gradients; the others are filled, each with the loss
        gradients that led to it
    frozen : function (begin, after, loss_gradient, tau, step) -> predictions (n_data,): S_r(tau)
        from one evaluation into another, adding to the step's budget
    tolerance : of the method; loss gradients are solved for to a share of it
    mass : of the first state, in units of e^log_scale: rounding of predictions goes by it
    coupling_at : function of an evaluation -> Coupling where K jumps with the loss gradients, as
        that of atoms does which kinks hold or let go; None where corrections of K are enough
    guesses : loss gradients of each substep, as of a step of nearly the same length; None for those
        that each begins with
    """
    step, rounding = Step(dt), coupling.objective.rounding_of_predictions(mass)
    if guesses is None:
        guesses = [begin.loss_gradient for begin in states[:-1]]
    for (implicit, taken), begin, after, guess in zip(
        substeps, states[:-1], states[1:], guesses, strict=True
    ):
        flow_with = partial(frozen, begin, after)
        renewed = partial(coupling_at, after) if coupling_at else None
        loss_gradient, spent = coupled_loss_gradients(
            coupling, flow_with, dt * implicit, guess, tolerance, rounding, renewed
        )
        if taken != implicit and not spent.rejection:
            spent = Step(dt * taken, defect=spent.defect)
            flow_with(loss_gradient, dt * taken, spent)
        step.budget.values += spent.budget.values
        step.counts = spent.counts
        step.defect, step.rejection = max(step.defect, spent.defect), spent.rejection
        if step.rejection:
            break
        after.loss_gradient[:] = loss_gradient
    return step


def coupled_loss_gradients(
    coupling: Coupling,
    flow_with: Callable[..., Floats],
    tau: float,
    guess: Floats,
    tolerance: float,
    rounding: float = 0.0,
    renewed: Callable[[], Coupling] | None = None,
) -> tuple[Floats, Step]:
    """Drive the flow over tau by loss gradients r with r = ∇R(h(S_r(tau) ν)); returns r (n_data,)
    and the Step, maybe rejected.

    flow_with : function (loss_gradient, tau, step) -> predictions after tau; leaves the state there
        and adds to the step's budget
    guess : (n_data,);  renewed : function () -> Coupling at the state that flow_with left, or None;
        asked where corrections of K do not do, if K is stored
    Only leading data drive the flow and are solved for. Those that turn out to weigh as much are
    made to lead, too, the heaviest first.
    """
    leads = coupling.leading(guess)
    if coupling.form is None:
        renewed = None
    if len(leads) == len(guess):
        return _coupled_among(coupling, flow_with, tau, guess, guess, tolerance, rounding, renewed)
    loss_gradient, driving, predictions = guess.copy(), np.zeros(len(guess)), np.empty(len(guess))
    driving[leads] = guess[leads]

    def flow_among(values, tau, step):
        driving[leads] = values
        predictions[:] = flow_with(driving, tau, step)
        return predictions[leads]

    def renewed_among():
        return renewed().among(leads)

    for _ in range(MOST_CORRECTIONS):
        loss_gradient[leads], step = _coupled_among(
            coupling.among(leads), flow_among, tau, driving[leads], loss_gradient[leads],
            tolerance, rounding, renewed_among if renewed else None,
        )  # fmt: skip
        if step.rejection:
            break
        heavier = coupling.followers(tau, leads, predictions, loss_gradient)
        if not len(heavier):
            break
        leads = np.union1d(leads, heavier[-max(FEW, len(leads)) :])
        if len(leads) > coupling.most:
            step.rejection = f"more than {coupling.most} data are to lead"
            break
        coupling = renewed() if renewed else coupling
    else:
        step.rejection = "the data that lead were not found"
    return loss_gradient, step


def _coupled_among(coupling, flow_with, tau, driving, guess, tolerance, rounding, renewed):
    """`coupled_loss_gradients` of data that all lead.

    driving : (n_data,) loss gradients of the first flow;  guess : (n_data,) of the answer
    The linear model h − τ K r, and K, are corrected by what the flow really does until both agree
    to a share of the tolerance, or to rounding where that is larger, as where data are fitted and
    nothing moves. They are the gradient of a convex function: where its slope along a
    correction d has changed sign, d·τ K (r′ − r) < 0 with r′ the next model's answer, the
    correction is shortened to where a line between both slopes has its zero.
    Where K jumps, loss gradients that nothing answers to are left as they are, by a proximal term
    that weighs no more than the share: the model alone would send them anywhere, and kinks would
    let go what they hold.
    """
    loss_gradient, before, line = driving.copy(), None, None
    defect, shrinks = np.inf, True
    for _ in range(MOST_CORRECTIONS):
        step = Step(tau)
        predictions = flow_with(loss_gradient, tau, step)
        if step.rejection or not np.isfinite(predictions).all():
            step.rejection = step.rejection or "predictions are not finite"
            return loss_gradient, step
        if before is not None:
            coupling = (renewed() if renewed and not shrinks else coupling).corrected(
                loss_gradient - before[0], (before[1] - predictions) / tau
            )
        moved = tau * coupling.times(loss_gradient)
        allowed = min(tolerance, 1e-3) * np.abs(moved).max()
        model = coupling
        if renewed:
            drag = CONSISTENT * allowed / max(np.abs(loss_gradient).max(), SMALLEST)
            model = coupling.stiffer(drag / tau)
        try:
            at_start = predictions + tau * model.times(loss_gradient)
            wanted = model.solve(tau, at_start, guess)
        except np.linalg.LinAlgError:  # singular to rounding
            wanted = None
        if wanted is None or not np.isfinite(wanted).all():
            step.rejection = "the coupling through the data could not be solved"
            return loss_gradient, step
        gap = tau * coupling.times(wanted - loss_gradient)
        step.defect = float(np.abs(gap).max())
        defect, shrinks = step.defect, step.defect <= SHRINKS * defect
        if step.defect <= CONSISTENT * allowed or step.defect <= rounding and not shrinks:
            return loss_gradient, step
        before = loss_gradient, predictions.copy()
        if line is None or not line.shorten(gap):
            line = _Line(loss_gradient, wanted - loss_gradient, gap)
        loss_gradient = guess = line.end()
    if step.defect > max(allowed, rounding):
        step.rejection = "the coupling through the data did not settle"
    return before[0], step


class _Line:
    """A correction of loss gradients: where it begins, its direction, and the share of it that is
    taken.

    slope : at its beginning, of the convex function that is minimised, its sign changed
    """

    def __init__(self, begin, direction, gap):
        self.begin, self.direction, self.share = begin, direction, 1.0
        self.slope = float(direction @ gap)

    def end(self):
        """The loss gradients at its end."""
        return self.begin + self.share * self.direction

    def shorten(self, gap):
        """Take a smaller share if the slope at the end says that it went too far; returns whether
        it does."""
        slope = float(self.direction @ gap)
        if not slope < min(-TOO_FAR * self.slope, self.slope):  # both may be 0
            return False
        self.share *= min(max(self.slope / (self.slope - slope), 0.1), 0.9)
        return True
