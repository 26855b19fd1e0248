"""The flow of a measure while its potential stands still: one transport, between two halves of the
reaction and noise.

    ∂_t ν = α div(ν ∇μ) − β m(ν) μ − σ ν + σ U,   μ = J + τ (log ν + 1),   J fixed,
    over dt:   react(dt/2), transport(dt), react(dt/2)

It is of second order in space and time (with entropy see entropy.py), keeps ν ≥ 0 while no cell
loses more than it has, dissipates ∫J dν + τ∫ν log ν dθ, and what each mechanism exchanges of ∫J dν
and of mass is known to rounding: ∫J Δν, ∫Δν.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...operators.parallel_loops import n_blocks
from ..step import Step
from . import kernels
from . import muscl_hancock as hancock
from .capture import Capture
from .entropy import ScharfetterGummel, relax
from .right_hand_side import RightHandSide
from .state import Evaluation
from .stencil import Stencil


class Transport:
    """Moves densities along face flows; every array is allocated here, once.

    stencil : of the mesh;  limiter : its number;  n_signs : sheets
    flows, velocity, divergence, outflow : the velocity field: volume per time out of each cell
        through each of its faces (n_signs, n_cells, n_slots), at the centres (n_signs, n_cells,
        d+1), Σ flow / volume (n_signs, n_cells) and largest Σ_out flow / volume; to be set before
        `move`
    """

    def __init__(self, stencil: Stencil, limiter: int, n_signs: int = 1) -> None:
        self.stencil, self.limiter = stencil, limiter
        n, slots, axes = stencil.offsets.shape
        self.flows, self.leaving = np.zeros((n_signs, n, slots)), np.zeros((n_signs, n, slots))
        self.velocity, self.gradient = np.zeros((n_signs, n, axes)), np.zeros((n_signs, n, axes))
        self.kept, self.divergence, self.decline = (np.zeros((n_signs, n)) for _ in range(3))
        self.largest, self.outflow = np.zeros(n_blocks(n)), 0.0
        self.volumes = stencil.volumes

    def follow(self, potential: NDArray[np.float64], alpha: float) -> None:
        """Take −α∇J as the velocity field; potential J (n_signs, n_cells)."""
        st = self.stencil
        hancock.face_flows(
            st.neighbors, st.conductances, st.gradient_weights, st.volumes, potential, alpha,
            st.axes, self.flows, self.velocity, self.divergence, self.decline, self.largest,
        )  # fmt: skip
        self.outflow = float(np.maximum.reduce(self.largest))

    def move(self, dt: float, start: NDArray[np.float64], density: NDArray[np.float64]) -> None:
        """The density after dt; start, density (n_signs, n_cells). Mass is kept to rounding, and ν
        ≥ 0 if dt · outflow ≤ 1."""
        st = self.stencil
        if self.limiter >= 0:
            kernels.gradients(st.neighbors, st.gradient_weights, start, st.axes, self.gradient)
        hancock.outgoing(
            dt, st.neighbors, st.conductances, st.offsets, st.centers, self.volumes, start,
            self.gradient, self.flows, self.velocity, self.divergence, self.limiter, st.axes,
            self.leaving, self.kept,
        )  # fmt: skip
        hancock.arrive(st.neighbors, st.back, self.volumes, self.leaving, self.kept, density)


class FrozenFlow:
    """S_J(dt) on a mesh: the same right-hand side with J fixed.

    rhs : the RightHandSide;  capture : moves what kinks capture, or None
    """

    def __init__(self, rhs: RightHandSide, capture: Capture | None) -> None:
        self.rhs, self.capture = rhs, capture
        self.transport: Any = None
        alpha, n_signs = rhs.flow.transport, len(rhs.problem.signs)
        if alpha > 0.0 and rhs.temperature > 0.0:
            self.transport = ScharfetterGummel(rhs.temperature, rhs.stencil, n_signs)
        elif alpha > 0.0 and rhs.quadratic:
            from .quadratic import QuadraticTransport  # loaded where it is wanted

            assert rhs.problem.mesh is not None
            self.transport = QuadraticTransport(rhs.stencil, rhs.problem.mesh, n_signs)
        elif alpha > 0.0:
            self.transport = Transport(rhs.stencil, rhs.limiter, n_signs)
            if capture:
                self.transport.volumes = capture.volumes
        self.before, self.after, self.growth = (np.zeros(rhs.shape) for _ in range(3))
        self.sums = np.zeros((n_blocks(rhs.shape[1]), 5))

    def drive(
        self,
        begin: Evaluation,
        after: Evaluation,
        loss_gradient: NDArray[np.float64],
        tau: float,
        step: Step,
    ) -> NDArray[np.float64]:
        """The flow over a time tau in the potential of given loss gradients, from `begin` into
        `after`; returns the predictions there."""
        after.loss_gradient[:] = loss_gradient
        self.rhs.drive(after)
        self.advance(begin, after, tau, step)
        return after.predictions

    def advance(self, begin: Evaluation, after: Evaluation, tau: float, step: Step) -> None:
        """The same with the potential of `after`; adds to the step's budget, or rejects it."""
        after.outflow = self.follow(after)
        self.move(tau, begin, after, step)
        self.rhs.predict(after)

    def follow(self, e: Evaluation) -> float:
        """Take the potential of e; returns the largest outflow, per time."""
        if self.transport:
            self.transport.follow(e.potential, self.rhs.flow.transport)
            if self.capture:
                self.capture.follow(e.loss_gradient, self.transport)
        return self._outflow()

    def longest_step(self, outflow: float) -> float:
        """The longest step that transport with entropy takes, exact as it is in time."""
        alpha = self.rhs.flow.transport
        return self.transport.longest_step(alpha, outflow) if self.transport and alpha else 0.0

    def _outflow(self):
        return self.transport.outflow if self.transport else 0.0

    def move(self, dt: float, begin: Evaluation, after: Evaluation, step: Step) -> None:
        """Fill density and atoms at dt from those at the beginning, J as given to `follow`; adds to
        the step's budget, or rejects it."""
        flow = self.rhs.flow
        potential, start, density = after.potential, begin.density, after.density
        if self.rhs.temperature == 0.0 and not dt * self._outflow() <= 1.0 + 1e-12:
            step.rejection = f"Courant number {dt * self._outflow():.3g} beyond 1"
            return
        if flow.depth != 2.0:
            self._grow(dt, potential, start, density, step)
            return
        shift = self._mean(begin, after) if flow.keeps_mass else 0.0
        if self.rhs.temperature > 0.0:
            self._with_entropy(dt, potential, start, density, step)
        elif not flow.moves:
            self._react(dt, flow.reaction, 0.0, shift, potential, start, density, step)
        elif flow.reaction == 0.0 and flow.noise == 0.0:
            self._transport(dt, potential, start, density, step)
        else:
            half, beta, lead = 0.5 * dt, flow.reaction, dt / 6.0
            self._react(half, beta, -lead, shift, potential, start, self.before, step)
            self._transport(dt, potential, self.before, self.after, step)
            self._react(half, beta, lead, shift, potential, self.after, density, step)
        if self.capture and begin.atoms is not None:
            after.atoms = self.capture.advance(begin.atoms, after.loss_gradient, dt, shift, step)
        if flow.keeps_mass:
            self._normalise(after, step)

    def _with_entropy(self, dt, potential, start, density, step):
        """relax(dt/2), noise(dt/2), transport(dt), noise(dt/2), relax(dt/2), as far as the flow has
        them."""
        self.before[:] = start
        self._relax(0.5 * dt, potential, self.before, step)
        self._renew(0.5 * dt, potential, self.before, step)
        if self.transport:
            self._transport(dt, potential, self.before, density, step)
        else:
            density[:] = self.before
        self._renew(0.5 * dt, potential, density, step)
        self._relax(0.5 * dt, potential, density, step)

    def _relax(self, dt, potential, density, step):
        """The reaction where there is entropy.

        A mass that is kept is kept here, since noise is a share of it: μ̄, the same in all cells,
        scales the density to the mass that it had.
        """
        rhs, beta, tau = self.rhs, self.rhs.flow.reaction, self.rhs.temperature
        volumes, offset = rhs.stencil.volumes, rhs.log_scale + 1.0
        if beta > 0.0:
            if rhs.flow.keeps_mass:
                tried = self.after
                relax(dt, beta, tau, offset, volumes, potential, density, tried, self.sums)
                before, then = (np.einsum("sc,c->", nu, volumes) for nu in (density, tried))
                offset += np.log(then / before) / -np.expm1(-beta * tau * dt)
            relax(dt, beta, tau, offset, volumes, potential, density, density, self.sums)
            work, _, change, size, _ = self.sums.sum(axis=0)
            step.budget.add(
                energy_reaction=work,
                mass_reaction=change,
                energy_exchanged=abs(work),
                mass_exchanged=size,
            )

    def _renew(self, dt, potential, density, step):
        """The noise alone."""
        if self.rhs.flow.noise > 0.0:
            self._react(dt, 0.0, 0.0, 0.0, potential, density, density, step)

    def _transport(self, dt, potential, start, density, step):
        """Transport, with what kinks capture meanwhile."""
        if self.capture:
            self.capture.transport(self.transport, dt, start, density)
        else:
            self.transport.move(dt, start, density)
        self._add_transport(step, potential, start, density)

    def _grow(self, dt, potential, start, density, step):
        """The reaction with a mobility other than ν, which comes alone."""
        flow = self.rhs.flow
        self.growth[:] = 0.0
        kernels.mobility_stage(
            0.0, dt, flow.reaction, flow.depth, self.rhs.reference, start, potential,
            self.growth, density,
        )  # fmt: skip
        work, change = self._exchange(potential, start, density)
        step.budget.add(energy_reaction=work, mass_reaction=change, energy_exchanged=abs(work))
        size = np.inf if flow.signed else abs(step.budget["mass_reaction"])
        step.budget.add(mass_exchanged=size)

    def _react(self, dt, beta, lead, shift, potential, start, density, step):
        """Half of the reaction before transport, half after: ∫J dt = ½ dt (J₀ + J₁) + (dt²/12)(J̇₀
        − J̇₁) along a path."""
        flow, volumes = self.rhs.flow, self.rhs.stencil.volumes
        source, uniform = self.rhs.source(), self.rhs.problem.uniform
        decline = getattr(self.transport, "decline", potential)
        hancock.react(
            dt, beta, flow.noise, source * uniform, shift, lead, volumes, potential,
            decline, start, density, self.sums,
        )  # fmt: skip
        work, lost_work, mass, size, lost = np.add.reduce(self.sums).tolist()
        gain = dt * source
        gained = gain * uniform * np.einsum("sc,c->", potential, volumes) if gain else 0.0
        step.budget.add(
            energy_reaction=work,
            energy_noise_loss=lost_work,
            energy_noise_gain=gained,
            mass_reaction=mass,
            mass_noise_loss=lost,
            mass_noise_gain=gain,
            energy_exchanged=abs(work) + abs(lost_work) + abs(gained),
            mass_exchanged=size - lost + gain,
        )

    def _add_transport(self, step, potential, start, density):
        """Add what transport changed to the step's budget."""
        work, _ = self._exchange(potential, start, density)
        step.budget.add(energy_transport=work, energy_exchanged=abs(work))

    def _exchange(self, potential, start, density):
        """∫J Δν and ∫Δν between two densities."""
        hancock.exchange(self.rhs.stencil.volumes, potential, start, density, self.sums)
        return np.add.reduce(self.sums[:, :2]).tolist()

    def _integrals(self, e, drive):
        """|ν| and ∫J dν of an evaluation, J and the loss gradients those of another one."""
        volumes, decay = self.rhs.stencil.volumes, self.rhs.problem.objective.weight_decay
        mass = np.einsum("sc,c->", e.density, volumes)
        work = np.einsum("sc,sc,c->", drive.potential, e.density, volumes)
        if e.atoms is not None:
            mass, work = mass + e.atoms.mass, work + e.atoms.integral(drive.loss_gradient, decay)
        return mass, work

    def _mean(self, e, drive):
        """∫J dν / |ν|."""
        mass, work = self._integrals(e, drive)
        return work / mass

    def _normalise(self, e, step):
        """Give the measure its mass back; to a fixed potential that is part of the reaction."""
        mass, work = self._integrals(e, e)
        work = (self.rhs.mass_at_start / mass - 1.0) * work
        e.density *= self.rhs.mass_at_start / mass
        if self.capture and e.atoms is not None:
            e.atoms = self.capture.scaled(e.atoms, self.rhs.mass_at_start / mass)
        change = self.rhs.mass_at_start - mass
        step.budget.add(
            energy_reaction=work,
            mass_reaction=change,
            energy_exchanged=abs(work),
            mass_exchanged=abs(change),
        )
