"""The default stepper: one transport per step, in the mean potential of the step."""

import numpy as np

from ....operators.parallel_loops import small_kernel
from ...step import SMALLEST, Step
from ...stepping.extrapolation import GAUSS, HISTORY, extrapolate, usable
from ..capture import Capture, captures
from ..right_hand_side import RightHandSide
from ..state import Evaluation
from .stepper import Stepper


@small_kernel()
def turns(after, before, later, now, earlier):
    """(after − before)·(later − now) and (after − before)·(now − earlier), all (n_data,)."""
    ahead, behind = 0.0, 0.0
    for i in range(len(now)):
        turn = after[i] - before[i]
        ahead += turn * (later[i] - now[i])
        behind += turn * (now[i] - earlier[i])
    return ahead, behind


class MusclHancock(Stepper):
    """The flow of the mean potential of the step, held fixed, which is extrapolated from the last
    three states; at a start, half a step leads to its middle.

    Its stability is that of the Adams–Bashforth method of order 3.
    history : (2, …) what `_reading` was at the states before the accepted one;  ages : (2,) times
        since then, 0 if unknown
    """

    order, stability = 3, 6 / 11
    cfl = 0.9

    def __init__(self, rhs: RightHandSide) -> None:
        super().__init__(rhs)
        self.capture = Capture(rhs.problem, rhs.stencil) if captures(rhs.problem) else None
        n_data = len(rhs.objective.predictions) if rhs.by_data else 0
        self.within = np.zeros(n_data if n_data else rhs.shape)
        self.ahead = np.zeros((len(GAUSS), *self.within.shape))
        self.readings = np.zeros((HISTORY, *self.within.shape))
        self.history, self.ages = self.readings[1:], np.zeros(HISTORY - 1)
        self.own = np.zeros(n_data)

    def rates(self, e: Evaluation) -> None:
        e.outflow = self.frozen.follow(e)
        self.rhs.integrate(e)

    def advance(
        self, now: Evaluation, spares: list[Evaluation], dt: float
    ) -> tuple[Evaluation, Step]:
        rhs, step, trial = self.rhs, Step(dt), spares[0]
        self._extrapolate_potential(now, dt, trial)
        self.frozen.advance(now, trial, dt, step)
        if not rhs.by_data:
            trial.loss_gradient[:] = rhs.objective.loss_gradient
            rhs.drive(trial)
            trial.outflow = self.frozen.follow(trial)
        if usable(self.ages, dt):
            self._correct_energy(now, trial, step)
        trial.defect = 0.0
        rhs.integrate(trial)
        return trial, step

    def _reading(self, e):
        """What the potential of an evaluation follows from: the predictions, or where it does not,
        the potential itself."""
        return e.predictions if self.rhs.by_data else e.potential

    # --- the mean potential

    def _extrapolate_potential(self, now, dt, e):
        """Give e the mean potential of the step that follows `now`, and its loss gradients."""
        known = usable(self.ages, dt)
        e.loss_gradient[:], e.potential[:] = 0.0, 0.0
        if known == 0:
            readings = [self._after_half_a_step(now, dt)]
        else:
            self.readings[0] = self._reading(now)
            rows = (a.reshape(len(a), -1) for a in (self.readings, self.ahead))
            extrapolate(next(rows), self.ages[:known], GAUSS * dt, next(rows))
            readings = self.ahead
        for count, reading in enumerate(readings, 1):
            if len(self.own):
                self._residuals(reading, self.own)
                e.loss_gradient += (self.own - e.loss_gradient) / count
            else:
                e.potential += (reading - e.potential) / count
        if len(self.own):
            self.rhs.drive(e)

    def _after_half_a_step(self, now, dt):
        """What `_reading` is in the middle of a step that starts with the potential of `now`."""
        half = self.between[0]
        if not self.rhs.by_data:
            # not what was evaluated last: that may be a step that was rejected
            half.loss_gradient[:], half.potential[:] = now.loss_gradient, now.potential
            self.frozen.advance(now, half, 0.5 * dt, Step(dt))
            self.within[:] = self.rhs.objective.potential
            return self.within
        self._residuals(now.predictions, self.own)
        self.frozen.drive(now, half, self.own, 0.5 * dt, Step(dt))
        self.within[:] = half.predictions
        return self.within

    def _residuals(self, predictions, out):
        """∂R/∂h at predictions in units of e^log_scale, if there are data."""
        if len(out):
            self.rhs.problem.objective.evaluate_risk(predictions, self.rhs.log_scale, out)

    # --- the energy

    def _correct_energy(self, now, trial, step):
        """∫ r·ḣ dt = r̄·Δh + (dt³/12) ṙ·ḧ: the second term, which fixed loss gradients r̄ miss,
        shared among its work."""
        work = np.abs(step.budget.energy)
        turns = self._turns_of_data if len(self.own) else self._turns_of_potential
        later, earlier = turns(now, trial)
        change = (
            step.dt**2 / 6.0 * (later / step.dt - earlier / self.ages[0]) / (step.dt + self.ages[0])
        )
        step.budget.energy += change * work / max(work.sum(), SMALLEST)

    def _turns_of_data(self, now, trial):
        """Δr·Δh of the step, and with the Δh of the step before it."""
        self._residuals(now.predictions, self.own)
        after, own = self.rhs.objective.loss_gradient, self.own
        return turns(after, own, trial.predictions, now.predictions, self.history[0])

    def _turns_of_potential(self, now, trial):
        """The same with potentials for predictions and densities for loss gradients: J is linear
        and symmetric in ν."""
        rhs, turn, J = self.rhs, self.rhs.masses, self.rhs.objective.potential
        np.subtract(trial.density, now.density, out=turn)
        turn *= rhs.stencil.volumes
        return (
            np.einsum("sc,sc->", turn, np.subtract(J, now.potential, out=self.within)),
            np.einsum(
                "sc,sc->", turn, np.subtract(now.potential, self.history[0], out=self.within)
            ),
        )

    # --- the states before

    def remember(self, now: Evaluation, dt: float) -> None:
        self.readings[0] = self._reading(now)
        self.readings[1:] = self.readings[:-1]
        older = self.ages[:-1]
        self.ages[1:], self.ages[0] = np.where(older > 0.0, older + dt, 0.0), dt

    def rescale(self, factor: float) -> None:
        if len(self.own):
            self.history /= factor

    def state(self) -> dict[str, np.ndarray]:
        return {"history": self.history, "ages": self.ages}

    def load(self, state: dict[str, np.ndarray]) -> None:
        # a start has neither
        self.history[:], self.ages[:] = state.get("history", 0.0), state.get("ages", 0.0)
