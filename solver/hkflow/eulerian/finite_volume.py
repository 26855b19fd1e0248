"""Finite volumes on the sphere for ∂_t ν = α div(ν ∇J) − β ν J − σ ν + σ U."""

import numpy as np

from ..blocks import n_blocks
from ..errors import unknown_name
from ..stepping.splitting import STEPPERS
from ..stepping.step import BUDGET, Step, budget_error
from . import kernels
from .limiters import limiter_code
from .stencil import stencil_of

RESCALE = 2.0**64  # a mass beyond this factor moves into log_scale


class Evaluation:
    """A density and all that the scheme derives from it.

    density, divergence : (n_signs, n_cells);  potential : the same shape
    predictions : (n_data,) h;  objective, mass, log_mass, smallest (density), outflow (largest, per time), rounding (of F)
    and roughness (root mean square of J under ν) : numbers
    rates : (7,) the terms of BUDGET in dF/dt and d|ν|/dt;  gross : (2,) the sizes that their errors are measured by
    """

    def __init__(self, n_signs, n_cells, n_data):
        self.density, self.divergence, self.potential = (np.zeros((n_signs, n_cells)) for _ in range(3))
        self.predictions, self.rates, self.gross = np.zeros(n_data), np.zeros(len(BUDGET)), np.zeros(2)
        self.objective = self.mass = self.log_mass = self.smallest = self.outflow = self.rounding = self.roughness = 0.0


class FiniteVolume:
    """The Eulerian method: upwind fluxes with limited linear reconstruction, reaction and noise in exponential form.

    problem : the flow to compute
    limiter : mc, van-leer, minmod, koren, or first-order for no reconstruction
    stepper : ssprk1, ssprk2, ssprk3 or strang
    cfl : step in units of the time in which a cell would be emptied; positivity needs at most ½ (1 at first order)
    tolerance : largest error of one step in the energy and mass budgets, relative to what the step exchanged
    max_step : no step is longer
    Raises ValueError for an unknown name or a Courant number beyond the bound.
    """

    energy_slack = 0.0  # the scheme dissipates the discrete energy: it may not rise at all
    mass_slack = 0.05
    prescribed = False
    keeps_budgets = True

    def __init__(self, problem, limiter="mc", stepper="ssprk3", cfl=0.4, tolerance=1e-4, max_step=float("inf")):
        if stepper not in STEPPERS:
            raise ValueError(unknown_name("stepper", stepper, STEPPERS))
        if problem.mesh is None:
            raise ValueError("The grid needs a problem on a mesh; this one starts from atoms.")
        self.problem, self.flow = problem, problem.flow
        self.limiter, self.stepper = limiter_code(limiter), STEPPERS[stepper]
        self.largest_cfl = 1.0 if self.limiter < 0 else 0.5
        if not 0.0 < cfl <= self.largest_cfl:
            raise ValueError(f"cfl must lie in (0, {self.largest_cfl}] with limiter '{limiter}', got {cfl}.")
        self.cfl, self.tolerance, self.max_step, self.order = cfl, tolerance, max_step, self.stepper.order
        mesh, signs = problem.mesh, problem.signs
        shape = (len(signs), mesh.n_cells)
        self.stencil = stencil_of(mesh)
        self.objective = problem.objective.on(mesh.centers, signs)
        self.gradient = np.zeros((*shape, mesh.dim + 1))
        self.masses, self.factor, self.growth = (np.zeros(shape) for _ in range(3))
        self.outflow = np.zeros(n_blocks(mesh.n_cells))
        self.sums = np.zeros((n_blocks(mesh.n_cells), 6))
        self.slots = [Evaluation(*shape, len(self.objective.predictions)) for _ in range(min(3, 1 + len(self.stepper.parts)))]
        self.log_scale = 0.0
        self.load({"density": problem.initial, "log_scale": 0.0})

    # --- state

    @property
    def current(self):
        """The evaluation of the accepted state."""
        return self.slots[0]

    def state(self):
        """All that the method needs to go on from here, bit for bit: the density, ν = e^log_scale · density."""
        return {"density": self.current.density, "log_scale": self.log_scale}

    def load(self, state):
        """Continue from a state made by `state`."""
        self.log_scale = float(state["log_scale"])
        self.current.density[:] = state["density"]
        self.evaluate(self.current)

    @staticmethod
    def measure(state):
        """The density of a state, as Problem.initial wants it."""
        return np.exp(state["log_scale"]) * state["density"]

    def record(self):
        """What is recorded of this method alone."""
        return {"minimum_density": self.current.smallest}

    def fault(self):
        """What is wrong with the values of the trial state, or None."""
        density, smallest = self.trial.density, self.trial.smallest
        if np.isfinite(smallest) and smallest >= 0.0:
            return None
        bad = np.flatnonzero(~np.isfinite(density.ravel()))
        if len(bad):
            return f"density not finite in {len(bad)} of {density.size} cells, first cell {bad[0]}"
        return (
            f"density {density.min():.3g} < 0 in {np.sum(density < 0.0)} of {density.size} cells, first cell {density.argmin()}"
        )

    def bound(self, remaining):
        """The step that transport allows from the accepted state."""
        return self.cfl / self.current.outflow if self.current.outflow > 0.0 else float("inf")

    def first_limit(self):
        """A first guess of the step that accuracy allows: a twentieth of the time in which the reaction acts."""
        rate = self.flow.reaction * self.current.roughness + self.flow.noise
        return 0.05 / rate if rate > 0.0 else float("inf")

    # --- the right-hand side

    def evaluate(self, e):
        """Potential, transport, integrals and budgets at the density of evaluation e."""
        st, flow, scale = self.stencil, self.flow, np.exp(self.log_scale)
        np.multiply(e.density, st.volumes, out=self.masses)
        e.objective = self.objective.evaluate(self.masses, scale)
        e.predictions[:], e.potential[:] = self.objective.predictions, self.objective.potential
        e.outflow = 0.0
        if flow.transport > 0.0:
            if self.limiter >= 0:
                kernels.gradients(st.neighbors, st.gradient_weights, e.density, st.axes, self.gradient)
            kernels.transport(
                st.neighbors, st.conductances, st.offsets, st.centers, st.volumes, e.density, e.potential, self.gradient,
                flow.transport, self.limiter, st.axes, e.divergence, self.outflow,
            )  # fmt: skip
            e.outflow = float(self.outflow.max())
        kernels.integrals(e.density, e.potential, e.divergence, st.volumes, self.sums)
        mass, first, second, plain, work = scale * self.sums[:, :5].sum(axis=0)
        e.mass, e.smallest = mass, float(self.sums[:, 5].min())
        e.log_mass = float(self.log_scale + np.log(mass / scale)) if mass > 0.0 else -np.inf
        e.rounding = self.objective.rounding(e.objective, mass)
        e.roughness = np.sqrt(max(second, 0.0) / mass) if mass > 0.0 else 0.0
        self._budget(e, first, second, plain / scale * self.problem.uniform, work)

    def _budget(self, e, first, second, average, work):
        """dF/dt = ∫J transport − β ∫J² dν − σ ∫J dν + σ ∫J dU and d|ν|/dt = −β ∫J dν − σ |ν| + σ, term by term."""
        beta, sigma = self.flow.reaction, self.flow.noise
        e.rates[:] = (work, -beta * second, -sigma * first, sigma * average, -beta * first, -sigma * e.mass, sigma)
        e.gross[:] = np.abs(e.rates[:4]).sum(), beta * np.sqrt(max(second, 0.0) * e.mass) + sigma * (e.mass + 1.0)

    # --- one step

    def advance(self, dt):
        """Try a step of size dt from the accepted state; the result is `trial`. Nothing is changed until `accept`."""
        step = Step(dt)
        base = self.current
        for part in self.stepper.parts:
            out = next(slot for slot in self.slots[1:] if slot is not base)
            self._substep(part, dt * part.fraction, base, out, step)
            if step.rejection:
                break
            base = out
        self.trial = base
        step.error = budget_error(self.current, self.trial, step)
        return step

    def _substep(self, part, dt, base, out, step):
        """One part of a step, from evaluation `base` into evaluation `out`."""
        beta = self.flow.reaction * part.reaction
        sigma = self.flow.noise * part.reaction
        moves = part.transport and self.flow.transport > 0.0
        source = sigma * self.problem.uniform * np.exp(-self.log_scale)
        active = np.array([part.transport] + 6 * [part.reaction], dtype=float)
        kernels.begin_stages(base.density, self.factor, self.growth)
        at = base
        for keep, weight in zip(part.tableau.keep, part.tableau.weights, strict=True):
            if moves and dt * at.outflow > self.largest_cfl * (1.0 + 1e-12):
                step.rejection = f"Courant number {dt * at.outflow:.3g} beyond {self.largest_cfl:g}"
                return
            step.budget += dt * weight * active * at.rates
            step.gross += dt * weight * at.gross
            kernels.stage(
                keep,
                dt,
                moves,
                beta,
                sigma,
                source,
                base.density,
                at.divergence,
                at.potential,
                self.factor,
                self.growth,
                out.density,
            )
            self.evaluate(out)
            at = out

    def accept(self, step):
        """Make the trial state the accepted one; a very large or small mass moves into log_scale."""
        at = next(i for i, slot in enumerate(self.slots) if slot is self.trial)
        self.slots[0], self.slots[at] = self.slots[at], self.slots[0]
        mass = self.current.mass * np.exp(-self.log_scale)
        if 0.0 < mass < 1.0 / RESCALE or RESCALE < mass < np.inf:
            factor = 2.0 ** np.round(np.log2(mass))
            self.load({"density": self.current.density / factor, "log_scale": self.log_scale + np.log(factor)})
