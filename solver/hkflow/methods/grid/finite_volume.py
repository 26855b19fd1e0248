"""Finite volumes on the sphere for the flows of problem/flow.py."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arguments import check_choice, check_positive
from ...certificates.gap import bounds_gap, gap_bound
from ...geometry.mesh import Mesh
from ...measures.initial import atoms_on_mesh, cells_of
from ...measures.point_measure import DensityAndAtoms, PointMeasure
from ...objectives.protocol import feature_of_data, prediction_shape
from ...problem.flow import RATES
from ...problem.problem import Problem
from ..rules import (
    check_courant_number,
    check_reconstruction,
    largest_courant_number,
    needs_max_step,
)
from ..step import Step
from ..stepping.implicit import ImplicitSteps, check_imex
from ..stepping.implicit_loss_gradients import DENSE, Coupling
from .capture import captures
from .limiters import limiter_code
from .right_hand_side import RightHandSide
from .state import Evaluation, next_unit, room_for
from .steppers.choice import STEPPERS
from .steppers.imex import Imex
from .steppers.muscl_hancock import MusclHancock
from .tangent_gram import CellCoupling

TOLERANCE = 1e-4
SPLITTING = 10.0  # times √tolerance: by how much reaction and noise may act in a step, where split


def best_stepper(
    problem: Problem, tolerance: float = TOLERANCE, reconstruction: str = "linear"
) -> str:
    """The stepper that is taken if none is named."""
    tight = tolerance < TOLERANCE and reconstruction == "linear"
    moves = problem.flow.moves and not problem.objective.entropy
    return "ssprk3" if tight and moves and not captures(problem) else "muscl-hancock"


class FiniteVolume(ImplicitSteps):
    """The Eulerian method: upwind fluxes with limited linear reconstruction, reaction and noise in
    exponential form.

    With the stepper muscl-hancock and moving ReLU features of data, velocities are exact means over
    the faces, and kinks that trap mass turn it into atoms beside the density (see capture.py).
    With entropy, transport and diffusion go by the fluxes of Scharfetter and Gummel, which have no
    limiter and no other stepper (see entropy.py).

    problem : the flow to compute
    limiter : mc, van-leer, minmod, koren, ultimate, or first-order for no reconstruction. ultimate
        spares what the Courant number lets it, and is koren but with muscl-hancock
    reconstruction : of the density in a cell: linear; or quadratic, for smooth features, with
        muscl-hancock, without limiter and entropy, on the circle and S² (see quadratic.py)
    stepper : muscl-hancock, one transport and one potential per step, that of its middle,
        extrapolated; ssprk1, ssprk2, ssprk3 or strang; or euler, plain explicit steps of max_step
        (Wei et al., sec. E.3); if none is named, muscl-hancock, but ssprk3 where mass moves, no
        kink captures it, and the tolerance is below 1e-4: there errors in time stay proportional
        to it
    imex : explicit; implicit in the coupling through the data, at order 1 for ssprk1 and 2 for
        the others; or auto, which takes implicit steps where an explicit one would be unstable
    cfl : step in units of the time in which a cell would be emptied, if given; positivity needs at
        most 1 with muscl-hancock or at first order, else ½, and with entropy none
    tolerance : largest error of one step in the energy and mass budgets, relative to what the step
        exchanged
    max_step : no step is longer
    Raises ValueError for an unknown name or a Courant number beyond the bound.
    """

    energy_slack = 0.0  # the scheme dissipates the discrete energy: it may not rise at all
    sees_kinks = True
    rates = varying = RATES
    knows_entropy = True
    most_stored = DENSE

    def __init__(
        self,
        problem: Problem,
        limiter: str = "mc",
        reconstruction: str = "linear",
        stepper: str | None = None,
        imex: str = "auto",
        cfl: float | None = None,
        tolerance: float = TOLERANCE,
        max_step: float = float("inf"),
    ) -> None:
        check_positive(tolerance=tolerance)
        check_positive(max_step=max_step, finite=False)
        self.problem, self.flow = problem, problem.flow
        self.tolerance, self.max_step = tolerance, max_step
        stepper = stepper or best_stepper(problem, tolerance, reconstruction)
        check_choice("stepper", stepper, STEPPERS)
        if problem.objective.entropy > 0.0 and stepper != "muscl-hancock":
            raise ValueError(
                f"The stepper '{stepper}' has no entropy, got entropy ="
                f" {problem.objective.entropy:g}. Choose muscl-hancock."
            )
        check_imex(imex, problem.objective)
        check_reconstruction(reconstruction, stepper, limiter)
        if problem.mesh is None:
            raise ValueError("The grid needs a problem on a mesh; this one starts from atoms.")
        if self.flow.time_variable != "time":
            raise ValueError(
                "The grid runs by time; the time variable 'margin' is for particles,"
                " characteristics and networks."
            )
        if reconstruction == "quadratic":
            _check_smooth(problem)
        self.rhs = RightHandSide(problem, limiter_code(limiter), reconstruction == "quadratic")
        self.stepper = STEPPERS[stepper](self.rhs)
        self.order, self.stability = self.stepper.order, self.stepper.stability
        self.fixed_steps = self.stepper.fixed_steps
        needs_max_step(stepper, max_step)
        if self.fixed_steps and self.flow.depth != 2.0:
            raise ValueError(f"The stepper '{stepper}' is for the mobility ν, depth 2.")
        check_courant_number(cfl, stepper, limiter)
        self.cfl, self.drifts_exactly = self.stepper.cfl if cfl is None else cfl, False
        if cfl is None and problem.objective.entropy > 0.0:
            alone = self.flow.reaction == 0.0 and self.flow.noise == 0.0
            self.drifts_exactly = alone and getattr(problem.objective, "is_linear", False)
        self.stepper.cfl = self.cfl
        self.stepper.largest_cfl = largest_courant_number(stepper, limiter)
        self.imex = "explicit" if self.fixed_steps else imex
        renewed = self.coupling_at if self.stepper.capture else None
        self.implicit_stepper = Imex(self.stepper, tolerance, self.accepted_coupling, renewed)
        self.implicit_order = self.implicit_stepper.order
        self.cells = CellCoupling(problem, self.rhs.objective)
        self.bounds_gap = bounds_gap(problem)
        self.current, *self.spares = (
            self.rhs.new_evaluation() for _ in range(1 + self.stepper.spares)
        )
        self.load({"log_scale": 0.0} | self._start())

    # --- state

    def _start(self):
        """Density and atoms of the initial measure; where nothing is captured, all as density."""
        density, atoms = self.problem.initial_parts
        mesh = self.problem.mesh
        if atoms is None:
            return {"density": density}
        if not self.stepper.capture:
            return {"density": density + atoms_on_mesh(mesh, self.problem.signs, atoms)}
        return {
            "density": density,
            "atom_positions": atoms.positions,
            "atom_signs": atoms.signs,
            "atom_weights": atoms.weights,
            "atom_cells": cells_of(mesh, atoms.positions),
        }

    @property
    def log_scale(self) -> float:  # type: ignore[override]
        """L; numbers of evaluations, steps and budgets are in units of e^L."""
        return self.rhs.log_scale

    @property
    def evaluations(self) -> int:  # type: ignore[override]
        """Of the potential, so far."""
        return self.rhs.evaluations

    def state(self) -> dict[str, Any]:
        """All that the method needs to go on from here, bit for bit: the density, ν = e^log_scale ·
        density.

        residuals : loss gradients that drove the last step;  history, ages : what MusclHancock
            remembers;  mass_at_start : where it is kept. The problem of a run that is resumed
            starts with its first save
        """
        now = self.current
        filler = self.rhs.stencil.centers[0]
        atoms = {} if now.atoms is None else now.atoms.as_dict(self.room, filler)
        kept = {"mass_at_start": self.rhs.mass_at_start} if self.flow.keeps_mass else {}
        return (
            atoms
            | kept
            | {
                "density": now.density,
                "log_scale": self.log_scale,
                "residuals": now.loss_gradient.reshape(prediction_shape(self.problem.objective)),
                "defect": now.defect,
            }
            | self.stepper.state()
        )

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a state made by `state`; without loss gradients they are those of the
        density."""
        self.rhs.log_scale = float(state["log_scale"])
        self.rhs.mass_at_start = float(state.get("mass_at_start", self.rhs.mass_at_start))
        self.stepper.load(state)
        self.current.density[:] = state["density"]
        if self.stepper.capture:
            self.current.atoms = self.stepper.capture.atoms(state)
            self.room = room_for(len(state.get("atom_weights", ())))
        loss_gradient = state["residuals"].ravel() if "residuals" in state else None
        self.stepper.evaluate(self.current, loss_gradient, state.get("defect", 0.0))
        self.state_changed()

    @staticmethod
    def measure(state: dict[str, Any]) -> NDArray[np.float64] | DensityAndAtoms:
        """The measure of a state, as Problem.initial wants it: a density, and the atoms if there
        are any."""
        scale = np.exp(state["log_scale"])
        weights = state.get("atom_weights", np.zeros(0))
        alive = weights > 0.0
        if not alive.any():
            return scale * state["density"]
        positions, signs = state["atom_positions"][alive], state["atom_signs"][alive]
        atoms = PointMeasure(positions, signs, scale * weights[alive])
        return DensityAndAtoms(scale * state["density"], atoms)

    @staticmethod
    def density(state: dict[str, Any], mesh: Mesh) -> NDArray[np.float64]:
        """The measure of a state as a density (n_signs, n_cells) in units of e^log_scale: atoms are
        spread over their cells."""
        weights = state.get("atom_weights", ())
        if len(weights) == 0:
            return state["density"]
        density, cells = state["density"].copy(), state["atom_cells"].astype(np.int64)
        np.add.at(
            density,
            (np.where(state["atom_signs"] > 0.0, 0, -1), cells),
            weights / mesh.volumes[cells],
        )
        return density

    def record(self, clock: Any) -> dict[str, float]:
        """What is recorded of this method alone: smallest density and potential and, where it is
        known, the bound of the gap."""
        now = self.current
        record = {"minimum_density": now.smallest, "minimum_potential": now.lowest}
        if now.atoms is not None:
            record["captured"] = now.atoms.mass / now.mass if now.mass > 0.0 else 0.0
        if self.bounds_gap:
            record["gap_bound"] = gap_bound(
                self.problem, now, self.log_scale, clock.lowest_objective
            )
        return record

    def invalid_reason(self) -> str | None:
        """What is wrong with the values of the trial state, or None."""
        density, smallest = self.trial.density, self.trial.smallest
        if self.trial.atoms is not None and not np.isfinite(self.trial.atoms.positions).all():
            return "captured atoms not finite"
        if np.isfinite(smallest) and (smallest >= 0.0 or self.flow.signed):
            return None
        bad = np.flatnonzero(~np.isfinite(density.ravel()))
        if len(bad):
            return f"density not finite in {len(bad)} of {density.size} cells, first cell {bad[0]}"
        return (
            f"density {density.min():.3g} < 0 in {np.sum(density < 0.0)} of {density.size} cells,"
            f" first cell {density.argmin()}"
        )

    # --- steps

    def renew(self) -> None:
        """Compute what the rates of the flow make of the accepted state: they have changed."""
        self.stepper.rates(self.current)
        self.state_changed()

    def largest_stable_step(self, remaining: float) -> float:
        """The step that transport and an interaction allow from the accepted state, and, with
        entropy or a mass that is kept beside noise, the splitting into transport, reaction and
        noise, whose error no budget shows.

        Nor does it show what steps as long as an interaction allows leave at rest: with a tighter
        tolerance they are shorter, which error bars see. Where J stands still and entropy makes
        drift exact, cells bound no step.
        """
        longest = self.stepper.largest_stable_step(self.current)
        if self.drifts_exactly:
            longest = max(longest, self.stepper.frozen.longest_step(self.current.outflow))
        if (answer := self._interaction_rate()) > 0.0:
            shorter = min(1.0, self.tolerance / TOLERANCE) ** (1.0 / self.order)
            longest = min(longest, shorter * self.stability / answer)
        return min(longest, self._splitting_step())

    def _splitting_step(self):
        """The step in which splitting errs by about the tolerance; inf where budgets show its
        error, or where nothing is split."""
        flow, e, tau = self.flow, self.current, self.problem.objective.entropy
        acting = [name for name in RATES if getattr(flow, name) > 0.0]
        potential, apart = e.rms_potential + tau, tau > 0.0 and len(acting) > 1
        if tau == 0.0 and flow.keeps_mass and {"reaction", "noise"} <= set(acting):
            # the mean of J that keeps the mass is one number for all of a step with frozen J
            may_be_implicit = self.imex != "explicit" and self.knows_implicit()
            apart = isinstance(self.stepper, MusclHancock) or may_be_implicit
            potential = np.sqrt(max(e.rms_potential**2 - e.shift**2, 0.0))
        if not apart:
            return float("inf")
        return SPLITTING * np.sqrt(self.tolerance) / (flow.reaction * potential + flow.noise)

    def _interaction_rate(self):
        """A bound of the rate at which the potential of a sum of energies answers to itself."""
        objective, e, flow = self.problem.objective, self.current, self.flow
        if not hasattr(objective, "stiffness"):
            return 0.0
        peak = float(e.density.sum(axis=0).max()) / (len(e.density) * self.problem.uniform)
        return objective.stiffness(flow.transport, flow.reaction, e.mass, peak) * np.exp(
            self.log_scale
        )

    def initial_step(self) -> float:
        """A first guess of the step that accuracy allows."""
        return self.stepper.initial_step(self.current)

    def advance(self, dt: float, implicit: bool = False) -> Step:
        """Try a step of size dt from the accepted state; the result is `trial`. Nothing is changed
        until `accept`."""
        stepper = self.implicit_stepper if implicit else self.stepper
        self.trial, step = stepper.advance(self.current, self.spares, dt)
        dissipated = self.trial.entropy - self.current.entropy
        step.budget.add(energy_entropy=dissipated, energy_exchanged=abs(dissipated))
        step.error = stepper.error(self.current, self.trial, step, self.tolerance)
        return step

    def accept(self, step: Step) -> None:
        """Make the trial state the accepted one; a very large mass that is not kept, or one that
        is set apart, moves into log_scale."""
        self.stepper.remember(self.current, step.dt)
        self.spares[self.spares.index(self.trial)] = self.current
        self.current = self.trial
        if self.current.atoms is not None:
            self.room = room_for(len(self.current.atoms.weights), self.room)
        if not self.flow.keeps_mass:
            normalised = self.flow.drive == "measure"
            factor, log_scale = next_unit(self.current.mass, self.log_scale, normalised)
            if log_scale != self.log_scale:
                self._rescale(factor, log_scale)
        self.state_changed()

    def _rescale(self, factor, log_scale):
        """Go over to units that are larger by a factor, those of e^log_scale."""
        now, self.rhs.log_scale = self.current, log_scale
        now.density /= factor
        if now.atoms is not None:
            now.atoms = self.stepper.capture.scaled(now.atoms, 1.0 / factor)
        now.defect /= factor
        self.rhs.predict(now)
        if not self.rhs.by_data:
            self.rhs.drive(now)
        self.stepper.rescale(factor)
        self.stepper.rates(now)

    def coupling_at(self, e: Evaluation) -> Coupling:
        """The Coupling of an evaluation."""
        return self.cells.at(e, self.log_scale, self.stores_coupling())

    def coupling_at_current(self) -> Coupling:
        """The Coupling of the accepted state."""
        return self.coupling_at(self.current)


def _check_smooth(problem):
    """Raise ValueError if the quadratic reconstruction does not serve a problem."""
    feature = feature_of_data(problem.objective)
    if (feature.kink or feature.kinks) and len(problem.objective.inputs):
        raise ValueError(
            "The reconstruction 'quadratic' is for smooth features, and the slope of"
            f" '{feature.name}' jumps at every datum. Choose reconstruction = 'linear'."
        )
    if problem.objective.entropy > 0.0:
        raise ValueError(
            "With entropy, transport has no reconstruction, got 'quadratic'. Leave it out."
        )
