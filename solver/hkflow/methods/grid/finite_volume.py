"""Finite volumes on the sphere for ∂_t ν = α div(ν ∇J) − β m(ν) J − σ ν + σ U."""

from functools import cached_property

import numpy as np

from ...arguments import check_positive
from ...certificates.gap import bounds_gap, gap_bound
from ...errors import unknown_name
from ...operators.parallel_loops import n_blocks
from ..step import Budget, Step, budget_error, shares
from ..stepping.extrapolation import GAUSS, HISTORY, extrapolation, usable
from ..stepping.implicit import (
    COUPLINGS,
    SUBSTEPS,
    ImplicitSteps,
    implicit_step,
    needs_known_curvature,
)
from ..stepping.splitting import STEPPERS
from . import kernels
from .frozen import FrozenFlow
from .limiters import limiter_code
from .stencil import stencil_of
from .tangent_gram import CellCoupling

TOLERANCE = 1e-4
RESCALE = 2.0**64  # a mass that outgrows this factor moves into log_scale


class Evaluation:
    """A density and all that the scheme derives from it; extensive numbers in units of e^log_scale.

    density, divergence, mobility : (n_signs, n_cells);  potential : the same shape
    predictions, residuals : (n_data,) h and ∂R/∂h;  objective, mass, log_mass, smallest (density),
        lowest (potential), outflow
    (largest, per time), rounding (of F), roughness (root mean square of J under ν), mobile (∫m(ν)),
    first (∫J m(ν)), shift : numbers
    rates : Budget of dF/dt and d|ν|/dt
    """

    def __init__(self, n_signs, n_cells, n_data, hellinger):
        self.density, self.divergence, self.potential = (
            np.zeros((n_signs, n_cells)) for _ in range(3)
        )
        self.mobility = self.density if hellinger else np.zeros((n_signs, n_cells))
        self.predictions, self.residuals = np.zeros(n_data), np.zeros(n_data)
        self.rates = Budget()
        self.objective = self.mass = self.log_mass = self.smallest = self.outflow = (
            self.rounding
        ) = self.roughness = 0.0
        self.lowest = self.shift = self.mobile = self.defect = self.first = 0.0


class FiniteVolume(ImplicitSteps):
    """The Eulerian method: upwind fluxes with limited linear reconstruction, reaction and noise in
    exponential form.

    problem : the flow to compute
    limiter : mc, van-leer, minmod, koren, or first-order for no reconstruction
    stepper : hancock, one transport and one potential per step, that of its middle, extrapolated;
        ssprk1, ssprk2, ssprk3 or strang; or euler, plain explicit steps of max_step (Wei et al.,
        sec. E.3); if none is named, hancock, but ssprk3 where mass moves and the tolerance is below
        1e-4: there errors in time stay proportional to it
    coupling : explicit; implicit in the coupling through the data, at order 1 for ssprk1 and 2 for
        the others; or auto, which takes implicit steps where an explicit one would be unstable
    cfl : step in units of the time in which a cell would be emptied, if given; positivity needs at
        most 1 with hancock or at first order, else ½
    tolerance : largest error of one step in the energy and mass budgets, relative to what the step
        exchanged
    max_step : no step is longer
    Raises ValueError for an unknown name or a Courant number beyond the bound.
    """

    evaluations = 0  # of the potential, so far
    energy_slack = 0.0  # the scheme dissipates the discrete energy: it may not rise at all
    mass_slack = 0.05
    keeps_budgets = sees_kinks = True

    def __init__(
        self,
        problem,
        limiter="mc",
        stepper=None,
        coupling="auto",
        cfl=None,
        tolerance=TOLERANCE,
        max_step=float("inf"),
    ):
        check_positive(tolerance=tolerance)
        check_positive(max_step=max_step, finite=False)
        if stepper is None:
            stepper = (
                "ssprk3" if tolerance < TOLERANCE and problem.flow.transport > 0.0 else "hancock"
            )
        for what, name, choices in (
            ("stepper", stepper, STEPPERS),
            ("coupling", coupling, COUPLINGS),
        ):
            if name not in choices:
                raise ValueError(unknown_name(what, name, choices))
        if problem.mesh is None:
            raise ValueError("The grid needs a problem on a mesh; this one starts from atoms.")
        if problem.flow.clock != "time":
            raise ValueError(
                "The grid runs by time; the clock 'margin' is for particles and networks."
            )
        self.problem, self.flow = problem, problem.flow
        self.limiter, self.stepper = limiter_code(limiter), STEPPERS[stepper]
        self.prescribed = not self.stepper.exponential
        if self.prescribed and not np.isfinite(max_step):
            raise ValueError("The stepper 'euler' takes steps of max_step: give it.")
        if self.prescribed and self.flow.depth != 2.0:
            raise ValueError("The stepper 'euler' is for the mobility ν, depth 2.")
        self.largest_cfl = 1.0 if self.limiter < 0 else self.stepper.largest_cfl
        cfl = self.stepper.cfl if cfl is None else cfl
        if not 0.0 < cfl <= self.largest_cfl:
            raise ValueError(
                f"cfl must lie in (0, {self.largest_cfl}] with stepper '{stepper}' and limiter"
                f" '{limiter}', got {cfl}."
            )
        self.cfl, self.tolerance, self.max_step, self.order = (
            cfl,
            tolerance,
            max_step,
            self.stepper.order,
        )
        self.implicit_order, self.stability = min(self.order, 2), self.stepper.stability
        self.coupling = "explicit" if self.prescribed else coupling
        needs_known_curvature(coupling, problem.objective)
        mesh, signs = problem.mesh, problem.signs
        shape = (len(signs), mesh.n_cells)
        self.stencil = stencil_of(mesh)
        self.objective = problem.objective.on(mesh.centers, signs)
        self.gradient = np.zeros((*shape, mesh.dim + 1))
        self.masses, self.factor, self.growth = (np.zeros(shape) for _ in range(3))
        self.outflow = np.zeros(n_blocks(mesh.n_cells))
        self.sums = np.zeros((n_blocks(mesh.n_cells), 7))
        self.cells, self.bounds_gap = CellCoupling(problem, self.objective), bounds_gap(problem)
        self.slots = [
            self._new_evaluation() for _ in range(min(3, 1 + max(1, len(self.stepper.parts))))
        ]
        self.log_scale = 0.0
        self.mass_at_start = float((np.abs(problem.initial) @ mesh.volumes).sum())
        self.frozen = FrozenFlow(problem, self.stencil, self.limiter, self.mass_at_start)
        reading = _reading(self.current)
        self.history, self.ages, self.within = (
            np.zeros((HISTORY - 1, *reading.shape)),
            np.zeros(HISTORY - 1),
            reading.copy(),
        )
        self.own = np.zeros_like(self.current.residuals)
        self.load({"density": problem.initial, "log_scale": 0.0})

    def _new_evaluation(self):
        return Evaluation(
            *self.masses.shape, len(self.objective.predictions), self.flow.depth == 2.0
        )

    # --- state

    @property
    def current(self):
        """The evaluation of the accepted state."""
        return self.slots[0]

    def state(self):
        """All that the method needs to go on from here, bit for bit: the density, ν = e^log_scale ·
        density.

        residuals : that drove the last step;  history, ages : earlier values of `_reading` and the
            times since then, 0 if unknown
        """
        now = self.current
        state = {
            "density": now.density,
            "log_scale": self.log_scale,
            "residuals": now.residuals,
            "defect": now.defect,
        }
        return state if self.stepper.parts else state | {"history": self.history, "ages": self.ages}

    def load(self, state):
        """Continue from a state made by `state`; without residuals they are those of the
        density."""
        self.log_scale = float(state["log_scale"])
        self.history[:], self.ages[:] = state.get("history", 0.0), state.get("ages", 0.0)
        self.current.density[:] = state["density"]
        self._evaluate(self.current, state.get("residuals"), state.get("defect", 0.0))
        self.state_changed()

    @staticmethod
    def measure(state):
        """The density of a state, as Problem.initial wants it."""
        return np.exp(state["log_scale"]) * state["density"]

    def record(self, clock):
        """What is recorded of this method alone: smallest density and potential and, where it is
        known, the bound of the gap."""
        now = self.current
        record = {"minimum_density": now.smallest, "minimum_potential": now.lowest}
        if self.bounds_gap:
            record["gap_bound"] = gap_bound(
                self.problem, now, self.log_scale, clock.lowest_objective
            )
        return record

    def fault(self):
        """What is wrong with the values of the trial state, or None."""
        density, smallest = self.trial.density, self.trial.smallest
        if np.isfinite(smallest) and (smallest >= 0.0 or self.flow.signed):
            return None
        bad = np.flatnonzero(~np.isfinite(density.ravel()))
        if len(bad):
            return f"density not finite in {len(bad)} of {density.size} cells, first cell {bad[0]}"
        return (
            f"density {density.min():.3g} < 0 in {np.sum(density < 0.0)} of {density.size} cells,"
            f" first cell {density.argmin()}"
        )

    def bound(self, remaining):
        """The step that transport allows from the accepted state."""
        return (
            self.cfl / self.current.outflow
            if self.current.outflow > 0.0 and not self.prescribed
            else float("inf")
        )

    def first_limit(self):
        """A first guess of the step that accuracy allows: a twentieth of the time in which the
        reaction acts."""
        rate = self.flow.reaction * self.current.roughness + self.flow.noise
        return 0.05 / rate if rate > 0.0 and not self.prescribed else float("inf")

    # --- the right-hand side

    def _evaluate(self, e, residuals=None, defect=0.0):
        """Objective, potential, transport, integrals and budgets at the density of e, driven by its
        own or given residuals."""
        e.defect = defect
        self._predict(e)
        e.residuals[:] = self.objective.residuals if residuals is None else residuals
        self._drive(e)
        self._rates(e)

    def _predict(self, e):
        """Objective and predictions at the density of e."""
        np.multiply(e.density, self.stencil.volumes, out=self.masses)
        e.objective = self.objective.value(self.masses, self.log_scale)
        e.predictions[:] = self.objective.predictions

    def _drive(self, e):
        """The potential that the residuals of e make."""
        self.evaluations += 1
        self.objective.drive(e.residuals)
        e.potential[:] = self.objective.potential

    def _rates(self, e):
        """Transport, integrals and budgets at the density and the potential of e."""
        st, flow = self.stencil, self.flow
        e.outflow = 0.0 if self.stepper.parts else self.frozen.follow(e.potential)
        if flow.transport > 0.0 and self.stepper.parts:
            if self.limiter >= 0:
                kernels.gradients(
                    st.neighbors, st.gradient_weights, e.density, st.axes, self.gradient
                )
            kernels.transport(
                st.neighbors, st.conductances, st.offsets, st.centers, st.volumes, e.density,
                e.potential, self.gradient, flow.transport, self.limiter, st.axes, e.divergence,
                self.outflow,
            )  # fmt: skip
            e.outflow = float(self.outflow.max())
        self._integrate(e)

    def _integrate(self, e):
        """Integrals and budgets at the density, the potential and the divergence of e."""
        st, flow = self.stencil, self.flow
        if flow.depth != 2.0:
            kernels.mobilities(e.density, flow.depth, self.problem.reference, e.mobility)
        kernels.integrals(e.density, e.mobility, e.potential, e.divergence, st.volumes, self.sums)
        mass, first, second, plain, work = (float(total) for total in self.sums[:, :5].sum(axis=0))
        e.mass, e.smallest, e.lowest = (
            mass,
            float(self.sums[:, 5].min()),
            float(self.sums[:, 6].min()),
        )
        e.first = first
        e.log_mass = float(self.log_scale + np.log(mass)) if mass > 0.0 else -np.inf
        e.rounding = self.problem.objective.rounding(e.objective, e.residuals, mass, self.log_scale)
        e.roughness = np.sqrt(max(second, 0.0) / mass) if mass > 0.0 else 0.0
        e.shift = first / mass if flow.keeps_mass else 0.0
        e.mobile = mass if flow.depth == 2.0 else float((e.mobility @ st.volumes).sum())
        self._budget(e, first, second, plain * self.problem.uniform, work)

    def _source(self):
        """Mass that noise brings per time, in units of e^log_scale."""
        if self.flow.noise == 0.0:
            return 0.0
        return self.flow.noise * (
            self.mass_at_start if self.flow.keeps_mass else np.exp(-self.log_scale)
        )

    def _budget(self, e, first, second, average, work):
        """dF/dt = ∫J transport − β ∫J² m(ν) − σ ∫J dν + σ ∫J dU and d|ν|/dt = −β ∫J m(ν) − σ |ν| +
        σ, term by term."""
        beta, sigma, gain = self.flow.reaction, self.flow.noise, self._source()
        reaction, growth = -beta * (second - e.shift * first), -beta * (first - e.shift * e.mass)
        e.rates.set(
            energy_transport=work,
            energy_reaction=reaction,
            energy_noise_loss=-sigma * first,
            energy_noise_gain=gain * average,
            mass_reaction=growth,
            mass_noise_loss=-sigma * e.mass,
            mass_noise_gain=gain,
            mass_exchanged=beta * np.sqrt(max(second, 0.0)) * np.sqrt(e.mass)
            + sigma * e.mass
            + gain,
        )
        e.rates["energy_exchanged"] = np.abs(e.rates.energy).sum()
        if self.flow.signed:
            # where a density changes its sign, |ν| has a kink, and its budget no order
            e.rates["mass_exchanged"] = np.inf

    # --- one step

    def advance(self, dt, implicit=False):
        """Try a step of size dt from the accepted state; the result is `trial`. Nothing is changed
        until `accept`."""
        if implicit:
            step = self._implicit(dt, self.accepted_coupling())
        else:
            step = self._explicit(dt) if self.stepper.parts else self._standing(dt)
        if not self.prescribed:
            step.error = budget_error(self.current, self.trial, step, self.tolerance)
        return step

    def _explicit(self, dt):
        """All parts of the stepper, each with the residuals of its own stages."""
        step, base = Step(dt), self.current
        for part in self.stepper.parts:
            out = next(slot for slot in self.slots[1:] if slot is not base)
            self._substep(part, dt * part.fraction, base, out, step)
            if step.rejection:
                break
            base = out
        self.trial = base
        return step

    def _substep(self, part, dt, base, out, step):
        """One part of a step, from evaluation `base` into evaluation `out`."""
        flow = self.flow
        beta, sigma = flow.reaction * part.reaction, flow.noise * part.reaction
        moves = part.transport and flow.transport > 0.0
        source = self._source() * part.reaction * self.problem.uniform
        active = shares(part.transport, part.reaction)
        kernels.begin_stages(base.density, self.factor, self.growth)
        at = base
        for keep, weight in zip(part.tableau.keep, part.tableau.weights, strict=True):
            if moves and dt * at.outflow > self.largest_cfl * (1.0 + 1e-12):
                step.rejection = f"Courant number {dt * at.outflow:.3g} beyond {self.largest_cfl:g}"
                return
            step.budget.integrate(dt * weight, at.rates, active)
            if flow.depth != 2.0:
                kernels.mobility_stage(
                    keep,
                    dt,
                    beta,
                    flow.depth,
                    self.problem.reference,
                    base.density,
                    at.potential,
                    self.growth,
                    out.density,
                )
            elif self.stepper.exponential:
                kernels.stage(
                    keep, dt, moves, beta, sigma, source, at.shift, base.density, at.divergence,
                    at.potential, self.factor, self.growth, out.density,
                )  # fmt: skip
            else:
                kernels.euler_stage(
                    dt,
                    moves,
                    beta,
                    sigma,
                    source,
                    at.shift,
                    base.density,
                    at.divergence,
                    at.potential,
                    out.density,
                )
            if flow.keeps_mass:
                out.density *= self.mass_at_start / np.einsum(
                    "sc,c->", out.density, self.stencil.volumes
                )
            self._evaluate(out)
            at = out

    def accept(self, step):
        """Make the trial state the accepted one; a very large mass, or a normalised flow's, moves
        into log_scale."""
        at = next(i for i, slot in enumerate(self.slots) if slot is self.trial)
        self._remember(step.dt)
        self.slots[0], self.slots[at] = self.slots[at], self.slots[0]
        mass, normalised = self.current.mass, self.flow.drive == "measure"
        if 0.0 < mass < np.inf and (normalised or not 1.0 / RESCALE <= mass <= RESCALE):
            factor = mass if normalised else 2.0 ** np.round(np.log2(mass))
            log_scale = self.log_scale + np.log(factor)
            # F does not vanish with the mass: it needs units of one
            if log_scale < (-np.log(RESCALE) if normalised else 0.0):
                factor, log_scale = np.exp(-self.log_scale), 0.0
            if log_scale != self.log_scale:
                self._rescale(factor, log_scale)
        self.state_changed()

    def _remember(self, dt):
        """The accepted state becomes the last one of the history."""
        self.history[1:], self.ages[1:] = (
            self.history[:-1],
            np.where(self.ages[:-1] > 0.0, self.ages[:-1] + dt, 0.0),
        )
        self.history[0], self.ages[0] = _reading(self.current), dt

    def _rescale(self, factor, log_scale):
        """Go over to units that are larger by a factor, those of e^log_scale."""
        now, self.log_scale = self.current, log_scale
        now.density /= factor
        now.defect /= factor
        self._predict(now)
        if len(now.predictions):
            self.history /= factor
        else:
            self._drive(now)
        self._rates(now)

    # --- one step with a potential that stands still

    def _standing(self, dt):
        """The flow of the mean potential of the step, which is extrapolated; at a start, half a
        step leads to its middle."""
        step, self.trial = Step(dt), self.slots[1]
        now, trial = self.current, self.trial
        self._foresee(dt, trial)
        self._flow(now, trial, dt, step)
        # without data, the potential of a measure comes with its objective
        if not len(now.predictions):
            self._drive(trial)
            trial.outflow = self.frozen.follow(trial.potential)
        if self.ages[0] > 0.0:
            self._bend(step)
        trial.defect = 0.0
        self._integrate(trial)
        return step

    def _bend(self, step):
        """∫ r·ḣ dt = r̄·Δh + (dt³/12) ṙ·ḧ: the second term, which fixed residuals r̄ miss, shared
        among its work."""
        now, trial, work = self.current, self.trial, np.abs(step.budget.energy)
        if len(self.own):
            self._residuals(now.predictions, self.own)
            turn = self.objective.residuals - self.own
            changes = trial.predictions - now.predictions, now.predictions - self.history[0]
            # not BLAS: its threads would spin on
            later, earlier = (np.einsum("i,i->", turn, change) for change in changes)
        else:
            # the same with potentials for predictions and densities for residuals: J is linear and
            # symmetric in ν
            np.subtract(trial.density, now.density, out=self.masses)
            self.masses *= self.stencil.volumes
            later, earlier = (
                np.einsum("sc,sc->", self.masses, np.subtract(one, other, out=self.within))
                for one, other in (
                    (self.objective.potential, now.potential),
                    (now.potential, self.history[0]),
                )
            )
        change = (
            step.dt**2 / 6.0 * (later / step.dt - earlier / self.ages[0]) / (step.dt + self.ages[0])
        )
        step.budget.energy += change * work / max(work.sum(), np.finfo(float).tiny)

    def _foresee(self, dt, e):
        """Give e the mean potential of the step that follows, and its residuals."""
        now, known = self.current, usable(self.ages, dt)
        e.residuals[:], e.potential[:] = 0.0, 0.0
        if known == 0:
            half = self._between[0]
            self._residuals(now.predictions, self.own)
            self._frozen(now, half, self.own, 0.5 * dt, Step(dt))
            self.within[:] = half.predictions if len(self.own) else self.objective.potential
            readings = [self.within]
        else:
            readings = (self._extrapolated(known, time) for time in GAUSS * dt)
        for count, reading in enumerate(readings, 1):
            if len(self.own):
                self._residuals(reading, self.own)
                e.residuals += (self.own - e.residuals) / count
            else:
                e.potential += (reading - e.potential) / count
        if len(self.own):
            self._drive(e)

    def _extrapolated(self, known, time):
        """What `_reading` will be after a time, from its last values."""
        weights = extrapolation(self.ages[:known], time)
        np.multiply(_reading(self.current), weights[0], out=self.within)
        self.within += np.tensordot(weights[1:], self.history[:known], 1)
        return self.within

    def _residuals(self, predictions, out):
        """∂R/∂h at predictions in units of e^log_scale, if there are data."""
        if len(out):
            self.problem.objective.evaluate_risk(predictions, self.log_scale, out)

    def _frozen(self, begin, after, residuals, tau, step):
        """The flow over a time tau with given residuals, from `begin` into `after`; returns the
        predictions there."""
        after.residuals[:] = residuals
        self._drive(after)
        self._flow(begin, after, tau, step)
        return after.predictions

    def _flow(self, begin, after, tau, step):
        """The same with the potential of `after`; adds to the step's budget, or rejects it."""
        after.outflow = self.frozen.follow(after.potential)
        self.frozen.advance(
            tau, self._source(), after.potential, begin.density, after.density, step
        )
        self._predict(after)

    # --- implicit in the coupling

    def coupling_at_current(self):
        """The Coupling of the accepted state."""
        return self.cells.at(self.current, self.log_scale)

    @cached_property
    def _between(self):
        """Where the substeps of a step begin."""
        return [self._new_evaluation() for _ in range(2)]

    def _implicit(self, dt, coupling):
        """A step with residuals implicit in their effect (see methods/stepping/implicit.py)."""
        self.trial, substeps = self.slots[1], SUBSTEPS[self.implicit_order]
        states = [*self._between[: len(substeps)], self.trial]
        states[0].density[:], states[0].residuals[:] = self.current.density, self.current.residuals
        step = implicit_step(coupling, dt, substeps, states, self._frozen, self.tolerance)
        self.trial.defect = step.defect
        self._rates(self.trial)
        return step


def _reading(e):
    """What the potential of an evaluation follows from: the predictions, or without data the
    potential itself."""
    return e.predictions if len(e.predictions) else e.potential
