"""The flow of a measure while its potential stands still: one transport, between two halves of the
reaction and noise.

    ∂_t ν = α div(ν ∇J) − β m(ν) J − σ ν + σ U,   J fixed,   over dt:   react(dt/2), transport(dt),
    react(dt/2)

It is of second order in space and time, keeps ν ≥ 0 while no cell loses more than it has,
dissipates ∫J dν, and what each mechanism exchanges of ∫J dν and of mass is known to rounding: ∫J
Δν, ∫Δν.
"""

import numpy as np

from ...operators.parallel_loops import n_blocks
from . import kernels
from . import muscl_hancock as hancock


class Transport:
    """Moves densities along face flows; every array is allocated here, once.

    stencil : of the mesh;  limiter : its number;  n_signs : sheets
    flows, velocity, divergence, outflow : the velocity field: volume per time out of each cell
        through each of its faces (n_signs, n_cells, n_slots), at the centres (n_signs, n_cells,
        d+1), Σ flow / volume (n_signs, n_cells) and largest Σ_out flow / volume; to be set before
        `move`
    """

    def __init__(self, stencil, limiter, n_signs=1):
        self.stencil, self.limiter = stencil, limiter
        n, slots, axes = stencil.offsets.shape
        self.flows, self.leaving = np.zeros((n_signs, n, slots)), np.zeros((n_signs, n, slots))
        self.velocity, self.gradient = np.zeros((n_signs, n, axes)), np.zeros((n_signs, n, axes))
        self.kept, self.divergence, self.decline = (np.zeros((n_signs, n)) for _ in range(3))
        self.largest, self.outflow = np.zeros(n_blocks(n)), 0.0

    def follow(self, potential, alpha):
        """Take −α∇J as the velocity field; potential J (n_signs, n_cells)."""
        st = self.stencil
        hancock.face_flows(
            st.neighbors,
            st.conductances,
            st.gradient_weights,
            st.volumes,
            potential,
            alpha,
            st.axes,
            self.flows,
            self.velocity,
            self.divergence,
            self.decline,
            self.largest,
        )
        self.outflow = float(self.largest.max())

    def move(self, dt, start, density):
        """The density after dt; start, density (n_signs, n_cells). Mass is kept to rounding, and ν
        ≥ 0 if dt · outflow ≤ 1."""
        st = self.stencil
        if self.limiter >= 0:
            kernels.gradients(st.neighbors, st.gradient_weights, start, st.axes, self.gradient)
        hancock.outgoing(
            dt,
            st.neighbors,
            st.conductances,
            st.offsets,
            st.centers,
            st.volumes,
            start,
            self.gradient,
            self.flows,
            self.velocity,
            self.divergence,
            self.limiter,
            st.axes,
            self.leaving,
            self.kept,
        )
        hancock.arrive(st.neighbors, st.back, st.volumes, self.leaving, self.kept, density)


class FrozenFlow:
    """S_J(dt) on a mesh.

    problem : mesh and flow;  limiter : its number;  mass : that a flow with drive "probability"
        keeps
    """

    def __init__(self, problem, stencil, limiter, mass):
        self.flow, self.reference, self.uniform = problem.flow, problem.reference, problem.uniform
        self.stencil, self.mass = stencil, mass
        self.transport = (
            Transport(stencil, limiter, len(problem.signs))
            if problem.flow.transport > 0.0
            else None
        )
        shape = (len(problem.signs), problem.mesh.n_cells)
        self.before, self.after, self.growth = (np.zeros(shape) for _ in range(3))
        self.sums = np.zeros((n_blocks(problem.mesh.n_cells), 5))

    def follow(self, potential):
        """Take J (n_signs, n_cells) as the potential; returns the largest outflow, per time."""
        if self.transport is None:
            return 0.0
        self.transport.follow(potential, self.flow.transport)
        return self.transport.outflow

    def advance(self, dt, source, potential, start, density, step):
        """Fill the density at dt from the one at the start, J as given to `follow`; adds to the
        step's budget, or rejects it.

        source : mass that noise brings per time;  potential, start, density : (n_signs, n_cells)
        """
        flow = self.flow
        if self.transport and not dt * self.transport.outflow <= 1.0 + 1e-12:
            step.rejection = f"Courant number {dt * self.transport.outflow:.3g} beyond 1"
            return
        if flow.depth != 2.0:
            self.growth[:] = 0.0
            kernels.mobility_stage(
                0.0,
                dt,
                flow.reaction,
                flow.depth,
                self.reference,
                start,
                potential,
                self.growth,
                density,
            )
            work, change = self._exchange(potential, start, density)
            step.budget.add(energy_reaction=work, mass_reaction=change, energy_exchanged=abs(work))
            step.budget.add(
                mass_exchanged=np.inf if flow.signed else abs(step.budget["mass_reaction"])
            )
            return
        reacts = flow.reaction > 0.0 or flow.noise > 0.0
        shift = self._mean(potential, start) if flow.keeps_mass else 0.0
        if self.transport is None:
            self._react(dt, 0.0, source, shift, potential, start, density, step)
        elif not reacts:
            self.transport.move(dt, start, density)
            self._add_transport(step, potential, start, density)
        else:
            self._react(0.5 * dt, -dt / 6.0, source, shift, potential, start, self.before, step)
            self.transport.move(dt, self.before, self.after)
            self._add_transport(step, potential, self.before, self.after)
            self._react(0.5 * dt, dt / 6.0, source, shift, potential, self.after, density, step)
        if flow.keeps_mass:
            self._normalise(potential, density, step)

    def _react(self, dt, lead, source, shift, potential, start, density, step):
        """Half of the reaction before transport, half after: ∫J dt = ½ dt (J₀ + J₁) + (dt²/12)(J̇₀
        − J̇₁) along a path."""
        flow, volumes = self.flow, self.stencil.volumes
        decline = potential if self.transport is None else self.transport.decline
        hancock.react(
            dt,
            flow.reaction,
            flow.noise,
            source * self.uniform,
            shift,
            lead,
            volumes,
            potential,
            decline,
            start,
            density,
            self.sums,
        )
        work, lost_work, mass, size, lost = self.sums.sum(axis=0)
        gain = dt * source
        gained = gain * self.uniform * np.einsum("sc,c->", potential, volumes) if gain else 0.0
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
        hancock.exchange(self.stencil.volumes, potential, start, density, self.sums)
        return self.sums[:, :2].sum(axis=0)

    def _mean(self, potential, density):
        """∫J dν / |ν|."""
        volumes = self.stencil.volumes
        return np.einsum("sc,sc,c->", potential, density, volumes) / np.einsum(
            "sc,c->", density, volumes
        )

    def _normalise(self, potential, density, step):
        """Give the density its mass back; to a fixed potential that is part of the reaction."""
        volumes = self.stencil.volumes
        mass = np.einsum("sc,c->", density, volumes)
        work = (self.mass / mass - 1.0) * np.einsum("sc,sc,c->", potential, density, volumes)
        density *= self.mass / mass
        step.budget.add(
            energy_reaction=work,
            mass_reaction=self.mass - mass,
            energy_exchanged=abs(work),
            mass_exchanged=abs(self.mass - mass),
        )
