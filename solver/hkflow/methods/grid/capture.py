"""Mass that kinks capture: atoms beside the density, ν = density + Σ weight_i δ_(θ_i, ε_i).

A kink towards which the potential falls from both sides traps what flows to it (Filippov), and a
density cannot hold that. The chords of such kinks take it out of their cells,

    dν/dt = −R ν + transport,   R = α Σ_k ε κ_k ℓ_k / V,   ℓ_k length of the chord, V volume,

with transport spread evenly over a step. (Capture before or after transport, or half of it each,
would make transport see a strip along the kink that is too empty or too full, which turns its
fluxes aside: an error of first order.) What leaves a kink slowly gathers behind it, in a layer as
thin as a cell; a part of that is captured as well, see capture_kernels.capture_rates. Captured mass
moves on as atoms by exact characteristics (see methods/frozen_relu); of those with one sign, cell
and region between kinks two are kept.
External potentials V beside the data move them as well: over a step, each atom in the linear
potential that touches V in the middle of its way.
A cell that density only enters is a sink, and its density becomes atoms as well: beside cells with
one density each, these find the point to which all flows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...objectives.energies import Sum
from ...objectives.protocol import feature_of_data
from ...operators.dense import blocked, unblocked
from ...operators.repeated import over_distinct
from ...problem.problem import Problem
from ..frozen_relu.frozen import SUMS
from ..frozen_relu.kinks import Kinks
from ..frozen_relu.movement import Movement
from ..step import Step
from . import capture_kernels as kernels
from .chords import SIDE, cut_mesh
from .dead_region import DeadRegion
from .state import Atoms
from .stencil import Stencil

# kinks on an arc as long as a cell is wide, beyond which the potential is smooth on the mesh
MOST_KINKS = 24.0
# in cells: what goes so far beyond a kink while the flow contracts there is not captured
NEAR = 4.0
ROUNDING = 1e-12  # of slopes, relative to the sum of all jumps


def captures(problem: Problem) -> bool:
    """Whether kinks capture mass of a problem: of moving features of data with a kink, as ReLU, and
    not more data than the mesh can tell apart. Data at 0 have no kink, those without weight none
    that drives anything."""
    objective: Any = problem.objective
    feature, mesh = feature_of_data(objective), problem.mesh
    gathers = problem.flow.moves and objective.entropy == 0.0
    if not feature.kink or feature.joint or not gathers or mesh is None:
        return False
    if isinstance(objective, Sum) and not objective.moves_atoms:
        return False
    known = problem.domain.in_space or problem.domain.in_slices
    with_kink = np.count_nonzero(_driving_inputs(objective).any(axis=1))
    return bool(known and 0 < with_kink * mesh.width <= MOST_KINKS)


def _driving_inputs(objective):
    """The inputs, (n_data, d+1), with 0 in the place of data without weight."""
    return np.where(objective.weights[:, None] > 0.0, objective.inputs, 0.0)


class Capture:
    """Takes mass out of a density, and moves it.

    problem : one that `captures`;  stencil : of its mesh
    rates, caught : (n_signs, n_chords), (n_signs, n_cells) shares of cells that are captured per
        time, after `follow`
    """

    def __init__(self, problem: Problem, stencil: Stencil) -> None:
        self.problem, self.flow, self.stencil = problem, problem.flow, stencil
        objective: Any = problem.objective
        mesh = problem.mesh
        self.feature = feature_of_data(objective)
        self.energies = objective if isinstance(objective, Sum) else None
        pieces = self.feature.pieces
        assert mesh is not None and pieces is not None
        inputs = _driving_inputs(objective)
        self.kinks = Kinks.of(self.feature, inputs)
        self.signs = np.array(problem.signs, dtype=float)
        self.chords, self.cuts = cut_mesh(mesh, self.kinks.normals)
        # where x·θ < 0 for all data that drive nothing moves
        vanishes = pieces[0] == 0.0 and self.energies is None
        self.dead = DeadRegion(mesh, inputs[: len(inputs) * vanishes])
        self.volumes = self.dead.live
        apart = SIDE * self.kinks.normals[self.chords.kink]
        middles = self.chords.middles
        both = np.concatenate([middles + apart, middles - apart])
        self.sides = over_distinct(
            lambda inputs: self.feature.operator(both, inputs, ranks=objective.ranks),
            objective.inputs,
        )
        count = len(middles)
        self.external_slopes = np.zeros(count)
        if self.energies is not None:
            ahead, behind = self.energies.external_values(both).reshape(2, -1)
            self.external_slopes = (ahead - behind) / (2.0 * SIDE)
        self.potential = np.zeros(2 * count)
        self.rates, self.amounts = (np.zeros((len(self.signs), count)) for _ in range(2))
        self.caught, self.sunk = (np.zeros((len(self.signs), mesh.n_cells)) for _ in range(2))
        self.width = NEAR * mesh.width
        self.smallest = ROUNDING / mesh.width**2
        self.movement = Movement(self.kinks, 1)
        self.codes = np.random.default_rng(0).integers(
            1, 2**63, (2, len(self.kinks.normals) + 1), dtype=np.uint64
        )
        self.codes |= np.uint64(1)

    def atoms(self, state: dict[str, Any]) -> Atoms:
        """The atoms of a state made by `Atoms.as_dict`, without those of weight 0; or none."""
        if "atom_weights" not in state:
            none = np.zeros(0)
            return self._atoms(np.zeros((0, self.stencil.centers.shape[1])), none, none, none)
        alive = state["atom_weights"] > 0.0
        return self._atoms(
            *(state[f"atom_{name}"][alive] for name in ("positions", "signs", "weights", "cells"))
        )

    def follow(self, loss_gradient: NDArray[np.float64], transport: Any) -> None:
        """Take −α∇J of given loss gradients as the velocity: which chords capture, and the flows of
        cut faces in a Transport."""
        chords, cuts, alpha = self.chords, self.cuts, self.flow.transport
        jumps, _ = self.kinks.gradient(loss_gradient)
        self.sides.adjoint(loss_gradient, self.potential)
        ahead, behind = self.potential.reshape(2, -1)
        slopes = (ahead - behind) / (2.0 * SIDE)
        kernels.capture_rates(
            chords.starts, chords.kink, chords.per_volume, self.width,
            self.signs[:, None] * slopes + self.external_slopes, self.signs, jumps, alpha,
            self.rates, self.caught,
        )  # fmt: skip
        kernels.cut_flows(
            cuts.starts, cuts.slot, cuts.kink, cuts.excess, self.signs, jumps, alpha,
            self.stencil.volumes, self.smallest * alpha * np.abs(jumps).sum(), self.caught,
            transport.flows, transport.divergence, transport.largest,
        )  # fmt: skip
        transport.outflow = float(np.maximum.reduce(transport.largest))
        self.amounts[:], self.sunk[:] = 0.0, 0.0

    def advance(
        self,
        atoms: Atoms,
        loss_gradient: NDArray[np.float64],
        dt: float,
        shift: float,
        step: Step,
    ) -> Atoms:
        """Atoms after a step, with those captured in it, in the middle of the step; adds to its
        budget."""
        taken = step.budget["energy_transport"]  # by transport, what was captured included
        old, _ = self.move(atoms, loss_gradient, dt, shift, step)
        new, gained = self.move(self.caught_atoms(), loss_gradient, 0.5 * dt, shift, step)
        given_back = abs(taken + gained) - abs(taken)
        step.budget.add(energy_transport=gained, energy_exchanged=given_back)
        after = self.merged(old, new)
        if self.energies is not None:
            apart = sum(self._energy(cloud.positions, cloud.weights) for cloud in (old, new))
            step.budget.add(energy_transport=after.external_energy - apart)
        return after

    def transport(
        self,
        transport: Any,
        dt: float,
        start: NDArray[np.float64],
        density: NDArray[np.float64],
    ) -> None:
        """The density (n_signs, n_cells) after a time of a Transport, with capture, from `start`,
        which is the same afterwards."""
        self.dead.leave_out(start)
        transport.move(dt, start, density)
        self.take(dt, start, density)
        self.dead.put_back(start, density)

    def take(self, dt: float, start: NDArray[np.float64], density: NDArray[np.float64]) -> None:
        """Capture for a time out of a density (n_signs, n_cells), in place, which transport
        made of `start`."""
        kernels.capture(
            dt, self.chords.starts, self.rates, self.caught, self.stencil.volumes, self.volumes,
            start, density, self.amounts, self.sunk,
        )  # fmt: skip

    def caught_atoms(self) -> Atoms:
        """What `take` took, in the middles of the chords, and in the centres of sinks."""
        sign, chord = np.nonzero(self.amounts > 0.0)
        sheet, sink = np.nonzero(self.sunk > 0.0)
        return Atoms(
            np.concatenate([self.chords.middles[chord], self.stencil.centers[sink]]),
            self.signs[np.concatenate([sign, sheet])],
            np.concatenate([self.amounts[sign, chord], self.sunk[sheet, sink]]),
            np.concatenate([self.chords.cell[chord], sink]),
        )

    def move(
        self,
        atoms: Atoms,
        loss_gradient: NDArray[np.float64],
        dt: float,
        shift: float,
        step: Step,
    ) -> tuple[Atoms, float]:
        """Atoms after a time in the potential J − shift, and ∫J over those before; adds to the
        step's budget, or rejects it."""
        decay, n = self.problem.objective.weight_decay - shift, len(atoms.weights)
        if n == 0:
            return atoms, 0.0
        blocks = blocked(atoms.positions)
        if len(blocks) > self.movement.n_blocks:
            self.movement = Movement(self.kinks, 2 * len(blocks))
        none = np.zeros(n, np.int64)
        out = np.empty_like(blocks), np.empty(n), np.empty(n, np.int64)
        kept = np.exp(-0.5 * self.flow.noise * dt)
        begin = kept * atoms.weights
        start, beside = (blocks, np.log(begin), none), None
        if self.energies is not None:  # the first way is to the middle
            beside = self._touching(atoms.positions)
            self.movement(
                start, atoms.signs, loss_gradient, self.flow, decay, 0.5 * dt, 0.0, out,
                beside=beside,
            )  # fmt: skip
            beside = self._touching(unblocked(out[0], n))
        found = self.movement(
            start, atoms.signs, loss_gradient, self.flow, decay, dt, 0.0, out, beside=beside
        )  # fmt: skip
        sums = dict(zip(SUMS, found.tolist(), strict=True))
        if beside is not None:  # ∫J is that of V, not of what touches it
            before = self._missed(atoms.positions, begin, *beside)
            missed = before - self._missed(unblocked(out[0], n), np.exp(out[1]), *beside)
            sums["potential"] += before
            sums["transport"] += missed
            sums["energy"] += missed
        if sums["failures"]:
            step.rejection = f"{sums['failures']:.0f} atoms met too many kinks in one step"
        mass, gained = float(begin.sum()), sums["gained"]
        potential = sums["potential"] + shift * mass
        energy = sums["energy"] - shift * gained
        after = potential - energy
        lost = (1.0 / kept - 1.0) * mass + (1.0 - kept) * sums["mass"]
        lost_work = (1.0 / kept - 1.0) * potential + (1.0 - kept) * after
        step.budget.add(
            energy_transport=-sums["transport"],
            energy_reaction=sums["transport"] - energy,
            energy_noise_loss=-lost_work,
            mass_reaction=gained,
            mass_noise_loss=-lost,
            energy_exchanged=abs(energy) + abs(lost_work),
            mass_exchanged=sums["exchange"] + lost,
        )
        moved = Atoms(unblocked(out[0], n), atoms.signs, kept * np.exp(out[1]), atoms.cells.copy())
        kernels.locate(moved.positions, self.stencil.neighbors, self.stencil.centers, moved.cells)
        return moved, potential / kept

    def _touching(self, positions):
        """f (n, p) and v (n,) of f·θ + v, which touches V at positions (n, p)."""
        assert self.energies is not None
        slopes = self.energies.external_slopes(positions)
        slopes -= np.einsum("na,na->n", slopes, positions)[:, None] * positions
        return slopes, self.energies.external_values(positions)

    def _missed(self, positions, weights, forces, levels):
        """∫(V − f·θ − v) over atoms."""
        linear = np.einsum("na,na->n", forces, positions) + levels
        return self._energy(positions, weights) - float(np.einsum("n,n->", weights, linear))

    def _energy(self, positions, weights):
        """∫V over atoms."""
        assert self.energies is not None
        if not len(weights):
            return 0.0
        return float(np.einsum("n,n->", weights, self.energies.external_values(positions)))

    def merged(self, *clouds: Atoms) -> Atoms:
        """All atoms of some clouds; more than two of one sign, cell and region become two.

        Mass and Σ weight θ of a group stay, and with them h: the two are the atom that is farthest
        from the centre m, and where the line from it through m meets the sphere again.
        """
        positions, signs, weights, cells = (
            np.concatenate([getattr(cloud, name) for cloud in clouds])
            for name in ("positions", "signs", "weights", "cells")
        )
        there = weights > 0.0  # weights beyond the smallest number have become 0
        if not there.all():
            positions, signs, weights, cells = (
                part[there] for part in (positions, signs, weights, cells)
            )
        keys = np.zeros(len(weights), np.uint64)
        normals = self.movement.normals
        kernels.label(positions, signs, cells, normals, self.codes, keys)
        order = np.argsort(keys, kind="stable")
        kept = np.ones(len(keys), dtype=bool)
        kernels.merge(keys, order, positions, weights, normals, self.codes, kept)
        kept &= weights > 0.0
        return self._atoms(positions[kept], signs[kept], weights[kept], cells[kept])

    def scaled(self, atoms: Atoms, factor: float) -> Atoms:
        """The same atoms with weights multiplied."""
        return self._atoms(atoms.positions, atoms.signs, factor * atoms.weights, atoms.cells)

    def _atoms(self, positions, signs, weights, cells) -> Atoms:
        """Atoms with what they predict, and their energy."""
        objective = self.problem.objective
        predictions, energy = np.zeros(len(objective.inputs)), 0.0
        if len(weights):
            operator = self.feature.operator(positions, objective.inputs, "dense")
            operator.forward(signs * weights, predictions)
            energy = 0.0 if self.energies is None else self._energy(positions, weights)
        return Atoms(positions, signs, weights, cells.astype(np.int64), predictions, energy)
