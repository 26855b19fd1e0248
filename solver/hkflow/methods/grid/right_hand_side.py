"""The right-hand side of the flow on a mesh, term by term:

    ∂_t ν = transport(velocity(J), ν) − β m(ν) (J − J̄) + σ (U − ν),   J = δF/δν

transport(V, ν) = −div(ν V), V = −α∇J;  J̄ = ∫J dν / |ν| where the flow keeps its mass, else 0.
The rates are those without entropy, of which steps in a fixed potential take care: see entropy.py.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...operators.parallel_loops import n_blocks
from ...problem.problem import Problem
from ..step import SMALLEST
from . import entropy, kernels
from .state import Atoms, Evaluation
from .stencil import stencil_of


class RightHandSide:
    """Computes the terms of the equation at an Evaluation, and what each term exchanges.

    problem : mesh, objective and flow;  limiter : its number
    quadratic : whether transport is by quadratic polynomials, see quadratic.py
    log_scale : L; extensive numbers are in units of e^L
    mass_at_start : kept by flows with drive "probability", in plain units
    evaluations : of the potential, so far
    """

    def __init__(self, problem: Problem, limiter: int, quadratic: bool) -> None:
        self.problem, self.flow, self.limiter = problem, problem.flow, limiter
        self.quadratic = quadratic
        mesh, signs = problem.mesh, problem.signs
        assert mesh is not None
        self.shape = (len(signs), mesh.n_cells)
        self.stencil = stencil_of(mesh)
        self.objective = problem.objective.at_fixed_points(mesh.centers, signs)
        # whether J follows from loss gradients; else it comes with the objective of a measure
        self.by_data = getattr(self.objective, "by_data", len(self.objective.predictions) > 0)
        density, atoms = problem.initial_parts
        self.mass_at_start = float((np.abs(density) @ mesh.volumes).sum())
        self.mass_at_start += 0.0 if atoms is None else atoms.mass
        self.log_scale, self.evaluations = 0.0, 0
        self.masses = np.zeros(self.shape)
        self.largest = np.zeros(n_blocks(mesh.n_cells))
        self.sums = np.zeros((n_blocks(mesh.n_cells), 7))
        self.entropies = np.zeros((n_blocks(mesh.n_cells), 3))

    @cached_property
    def gradient(self) -> NDArray[np.float64]:
        """Room for the gradient of the density, which only `transport` needs."""
        return np.zeros((*self.shape, len(self.stencil.axes)))

    def new_evaluation(self) -> Evaluation:
        """Room for a density and all that follows from it."""
        return Evaluation(*self.shape, len(self.objective.predictions), self.flow.depth == 2.0)

    # --- the equation

    def rate(self, e: Evaluation) -> NDArray[np.float64]:
        """∂_t ν = transport(velocity(J), ν) − β m(ν) (J − J̄) + σ (U − ν), (n_signs, n_cells)."""
        self.evaluate(e)
        return (
            e.divergence
            - self.flow.reaction * e.mobility * (e.potential - e.shift)
            + (self.source() * self.problem.uniform - self.flow.noise * e.density)
        )

    def evaluate(
        self,
        e: Evaluation,
        loss_gradient: NDArray[np.float64] | None = None,
        defect: float = 0.0,
    ) -> None:
        """The terms at the density of e, whose potential its own or given loss gradients make."""
        self.potential(e, loss_gradient, defect)
        self.transport(e)
        self.integrate(e)

    def potential(
        self,
        e: Evaluation,
        loss_gradient: NDArray[np.float64] | None = None,
        defect: float = 0.0,
    ) -> None:
        """J at the density of e, from its own or given loss_gradient (n_data,)."""
        e.defect = defect
        self.predict(e)
        e.loss_gradient[:] = (
            self.objective.loss_gradient if loss_gradient is None else loss_gradient
        )
        self.drive(e)

    def predict(self, e: Evaluation) -> None:
        """Objective without entropy and predictions at the density of e."""
        np.multiply(e.density, self.stencil.volumes, out=self.masses)
        e.objective = self.objective.value(self.masses, self.log_scale)
        e.predictions[:] = self.objective.predictions
        if e.atoms is not None:
            self._add_atoms(e, e.atoms)
        e.entropy = 0.0  # what of it is in the objective, until `integrate`

    @property
    def temperature(self) -> float:
        """τ."""
        return self.problem.objective.entropy

    def _add_atoms(self, e: Evaluation, atoms: Atoms) -> None:
        """Objective and predictions with the atoms beside the density."""
        full, own = self.problem.objective, self.objective
        e.predictions += atoms.predictions
        risk = full.evaluate_risk(e.predictions, self.log_scale, own.loss_gradient)
        e.objective = risk + full.weight_decay * (self.masses.sum() + atoms.mass)
        if (beside := getattr(own, "external", None)) is not None:
            e.objective += np.einsum("sc,c->", self.masses, beside - full.weight_decay)
            e.objective += atoms.external_energy

    def drive(self, e: Evaluation) -> None:
        """The potential that the loss gradients of e make."""
        self.evaluations += 1
        self.objective.drive(e.loss_gradient)
        e.potential[:] = self.objective.potential

    def transport(self, e: Evaluation) -> None:
        """α div(ν∇J) by upwind fluxes with limited linear reconstruction, and the largest outflow
        of a cell."""
        e.outflow = 0.0
        if self.flow.transport > 0.0:
            self._transport(e)

    def _transport(self, e):
        st, alpha = self.stencil, self.flow.transport
        if self.limiter >= 0:
            kernels.gradients(st.neighbors, st.gradient_weights, e.density, st.axes, self.gradient)
        kernels.transport(
            st.neighbors, st.conductances, st.offsets, st.centers, st.volumes, e.density,
            e.potential, self.gradient, alpha, self.limiter, st.axes, e.divergence, self.largest,
        )  # fmt: skip
        e.outflow = float(self.largest.max())

    @property
    def reference(self) -> float:
        """Density of τ, by which a mobility other than ν is meant, in units of e^log_scale."""
        return float(self.problem.reference * np.exp(-self.log_scale))

    def source(self) -> float:
        """Mass that noise brings per time, in units of e^log_scale."""
        if self.flow.noise == 0.0:
            return 0.0
        return self.flow.noise * (
            self.mass_at_start if self.flow.keeps_mass else np.exp(-self.log_scale)
        )

    # --- what the terms exchange

    def integrate(self, e: Evaluation) -> None:
        """Mobility, integrals and budgets at the density, the potential and the divergence of e."""
        st, flow = self.stencil, self.flow
        if flow.depth != 2.0:
            kernels.mobilities(e.density, flow.depth, self.reference, e.mobility)
        kernels.integrals(e.density, e.mobility, e.potential, e.divergence, st.volumes, self.sums)
        mass, first, second, plain, work = np.add.reduce(self.sums[:, :5]).tolist()
        e.smallest, e.lowest = np.minimum.reduce(self.sums[:, 5:]).tolist()
        if e.atoms is not None:
            mass += e.atoms.mass
            first += e.atoms.integral(e.loss_gradient, self.problem.objective.weight_decay)
        e.mass, e.potential_integral = mass, first
        e.log_mass = float(self.log_scale + np.log(mass)) if mass > 0.0 else -np.inf
        e.rounding = self.problem.objective.rounding(
            e.objective, e.loss_gradient, mass, self.log_scale
        )
        e.rms_potential = np.sqrt(max(second, 0.0) / mass) if mass > 0.0 else 0.0
        # a step that is too long may leave nothing
        e.shift = first / mass if flow.keeps_mass and mass > 0.0 else 0.0
        e.mobility_mass = mass if flow.depth == 2.0 else float((e.mobility @ st.volumes).sum())
        if self.temperature > 0.0 and mass > 0.0:
            self._add_entropy(e)
        self._budget(e, first, second, plain * self.problem.uniform, work)

    def _add_entropy(self, e):
        """F with its entropy, and the first variation μ = J + τ (log ν + 1) in the place of J."""
        tau, L = self.temperature, self.log_scale
        entropy.integrals(
            tau, L + 1.0, e.potential, e.density, self.stencil.volumes, self.entropies
        )
        plain, mean, square = (float(total) for total in self.entropies.sum(axis=0))
        whole = tau * (plain + L * e.mass)
        e.objective += whole - e.entropy
        e.entropy = whole
        # a constant changes the mass alone, which commutes with all but noise of given mass
        mean *= self.flow.keeps_mass or self.flow.noise == 0.0
        e.rms_potential = np.sqrt(max(square / e.mass - (mean / e.mass) ** 2, 0.0))
        e.rounding += 16.0 * np.finfo(float).eps * (abs(e.entropy) + tau * e.mass) + SMALLEST

    def _budget(self, e, first, second, average, work):
        """dF/dt = ∫J transport − β ∫J² m(ν) − σ ∫J dν + σ ∫J dU and d|ν|/dt = −β ∫J m(ν)
        − σ |ν| + σ, term by term."""
        beta, sigma, gain = self.flow.reaction, self.flow.noise, self.source()
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
        e.rates["energy_exchanged"] = np.add.reduce(np.abs(e.rates.energy))
        if self.flow.signed:
            # where a density changes its sign, |ν| has a kink, and its budget no order
            e.rates["mass_exchanged"] = np.inf
