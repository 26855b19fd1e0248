"""Runge–Kutta steps of the semi-discrete flow, unsplit or as a sequence of substeps."""

import numpy as np

from ...step import Step
from ...stepping.splitting import Splitting, Substep
from .. import kernels
from ..right_hand_side import RightHandSide
from ..state import Evaluation
from .stepper import Stepper


class RungeKutta(Stepper):
    """Strong-stability-preserving stages of ν = e^Λ w: transport as a convex combination of Euler
    steps, the reaction in exponential form, which never bounds dt.

    splitting : which terms of the right-hand side advance together, by which tableau
    """

    def __init__(self, rhs: RightHandSide, splitting: Splitting) -> None:
        super().__init__(rhs)
        self.order, self.stability = splitting.order, splitting.stability
        self.substeps = splitting.substeps
        self.spares = min(2, len(self.substeps))
        self.factor, self.growth = np.zeros(rhs.shape), np.zeros(rhs.shape)

    def rates(self, e: Evaluation) -> None:
        self.rhs.transport(e)
        self.rhs.integrate(e)

    def advance(
        self, now: Evaluation, spares: list[Evaluation], dt: float
    ) -> tuple[Evaluation, Step]:
        step, base = Step(dt), now
        for substep in self.substeps:
            out = next(spare for spare in spares if spare is not base)
            self._take(substep, dt * substep.fraction, base, out, step)
            if step.rejection:
                break
            base = out
        return base, step

    def _take(self, substep: Substep, dt, base, out, step):
        """One substep, from evaluation `base` into evaluation `out`; adds to the step's budget, or
        rejects it."""
        kernels.begin_stages(base.density, self.factor, self.growth)
        active, at = substep.active, base
        for keep, weight in zip(substep.tableau.keep, substep.tableau.weights, strict=True):
            if substep.transport and dt * at.outflow > self.largest_cfl * (1.0 + 1e-12):
                step.rejection = f"Courant number {dt * at.outflow:.3g} beyond {self.largest_cfl:g}"
                return
            step.budget.integrate(dt * weight, at.rates, active)
            self._stage(substep, keep, dt, base, at, out)
            if self.rhs.flow.keeps_mass:
                out.density *= self.rhs.mass_at_start / np.einsum(
                    "sc,c->", out.density, self.rhs.stencil.volumes
                )
            self.evaluate(out)
            at = out

    def _stage(self, substep, keep, dt, base, at, out):
        """The density of `out`, a stage with the right-hand side of `at` of a substep from
        `base`."""
        flow = self.rhs.flow
        if flow.depth == 2.0:
            kernels.stage(
                keep, dt, *self._terms(substep, at), base.density, at.divergence, at.potential,
                self.factor, self.growth, out.density,
            )  # fmt: skip
        else:
            kernels.mobility_stage(
                keep, dt, flow.reaction * substep.reaction, flow.depth, self.rhs.reference,
                base.density, at.potential, self.growth, out.density,
            )  # fmt: skip

    def _terms(self, substep, at):
        """Of the equation, as a substep has them: whether there is transport, β, σ, σU and J̄."""
        rhs, flow, reacts = self.rhs, self.rhs.flow, substep.reaction
        return (
            substep.transport and flow.moves,
            flow.reaction * reacts,
            flow.noise * reacts,
            rhs.source() * reacts * rhs.problem.uniform,
            at.shift,
        )


class Euler(RungeKutta):
    """Plain explicit steps of max_step, without error control (Wei et al., sec. E.3)."""

    fixed_steps = True

    def largest_stable_step(self, e: Evaluation) -> float:
        return float("inf")

    def initial_step(self, e: Evaluation) -> float:
        return float("inf")

    def error(self, before: Evaluation, after: Evaluation, step: Step, tolerance: float) -> None:
        return None

    def _stage(self, substep, keep, dt, base, at, out):
        kernels.euler_stage(
            dt, *self._terms(substep, at), base.density, at.divergence, at.potential, out.density
        )
