"""The coupling of cells through the data, K_ij = ∫ (β m(ν) φ_i φ_j + α ν ∇φ_i·∇φ_j), ∇φ by
differences across faces."""

from functools import cached_property

import numpy as np

from ...objectives.objective import ObjectiveAtFixedPoints
from ...operators.matrix import add_gram
from ...problem.problem import Problem
from ..frozen_relu.kinks import Kinks
from ..frozen_relu.tangent_gram import held_coupling, on_kinks
from ..stepping.implicit_loss_gradients import DENSE, Coupling
from . import kernels
from .capture_kernels import coupling_product
from .state import Evaluation
from .stencil import face_conductances

GROUPS = 8  # of atoms, whose sums are added in order
MANY = 200_000  # pairs of atoms and data from which a second thread brings more than it costs
NEGLIGIBLE = 1e-15  # masses below this share of the largest do not enter the matrix


class CellCoupling:
    """Makes K of a state on a mesh; what does not depend on the state is kept.

    problem : mesh, objective and flow;  objective : the ObjectiveAtFixedPoints of the cell centres,
        whose operator is used
    """

    def __init__(self, problem: Problem, objective: ObjectiveAtFixedPoints) -> None:
        self.problem, self.objective = problem, objective

    @cached_property
    def _kept(self):
        """The features of all data, if there are few."""
        inputs = self.problem.objective.inputs
        return self._made(inputs) if len(inputs) <= DENSE else None

    def _made(self, inputs):
        """φ at the cells (n_data, n_cells) and its differences across the faces (n_data,
        n_faces)."""
        mesh = self.problem.mesh
        phi = self.problem.objective.feature.matrix(mesh.centers, inputs)
        return phi, phi[:, mesh.faces[:, 1]] - phi[:, mesh.faces[:, 0]]

    def _features(self, data):
        """Those of some data."""
        if self._kept is None:
            return self._made(self.problem.objective.inputs[data])
        return tuple(values[data] for values in self._kept)

    @cached_property
    def _ends(self):
        """The cells on both sides of the faces, (2, n_faces)."""
        return np.ascontiguousarray(self.problem.mesh.faces.T)

    @cached_property
    def _conductances(self):
        return face_conductances(self.problem.mesh)

    def at(self, e: Evaluation, log_scale: float, stored: bool) -> Coupling:
        """The Coupling at an Evaluation e in units of e^log_scale, with K or by products alone. K
        takes atoms on kinks to be held by them; products, which cost less, take them to be free.

        Cost: n_data² (n_cells + n_faces) for the cells that carry mass, where K is asked for, and
        n_data n_cells for each product.
        """
        mobility_mass, flowing = self._carriers(e)

        def product(data, v):
            whole = np.zeros(len(self.problem.objective.inputs))
            whole[data] = v
            found = self._product(mobility_mass, flowing, whole) + self._of_free(e.atoms, whole)
            return found[data]

        def form(data):
            phi, jumps = self._features(data)
            matrix = _gram(phi, mobility_mass)
            if self.problem.flow.transport > 0.0:
                matrix += _gram(jumps, flowing)
            return matrix + self._of_held(e.atoms, data)

        known = form if stored else None
        return Coupling(self.problem.objective, log_scale, known, product, DENSE)

    def _of_held(self, atoms, data):
        """What captured atoms add to K among some data, those on kinks along them alone."""
        if atoms is None or not len(atoms.weights):
            return 0.0
        normals, held = self._kinks.normals, on_kinks(self._kinks.normals, atoms.positions)
        state = atoms.positions, atoms.weights, held
        objective = self.problem.objective.among(data)
        return held_coupling(objective, normals, *state, self.problem.flow)

    @cached_property
    def _kinks(self):
        objective = self.problem.objective
        return Kinks.of(objective.feature, objective.inputs)

    def _of_free(self, atoms, v):
        """What captured atoms add to K v if no kink holds them."""
        objective, flow = self.problem.objective, self.problem.flow
        if atoms is None or not len(atoms.weights):
            return 0.0
        slopes, partial = np.empty((2, GROUPS, len(v)))
        rates = float(flow.reaction), float(flow.transport)
        many = len(atoms.weights) * len(v) >= MANY
        (coupling_product.parallel if many else coupling_product.serial)(
            atoms.positions, atoms.weights, self._columns, *map(float, objective.feature.pieces),
            *rates, v * self._columns, slopes, partial,
        )  # fmt: skip
        return partial.sum(axis=0)

    @cached_property
    def _columns(self):
        """The inputs, (p, n_data)."""
        return np.ascontiguousarray(self.problem.objective.inputs.T)

    def _carriers(self, e):
        """β m(ν) volume of each cell (n_cells,) and α ν conductance of each face (n_faces,), ν
        upwind."""
        mesh, flow = self.problem.mesh, self.problem.flow
        mobility_mass, flowing = np.empty(mesh.n_cells), np.empty(len(self._conductances))
        kernels.carriers(
            *self._ends, self._conductances, mesh.volumes, e.potential, e.density, e.mobility,
            float(flow.reaction), float(flow.transport), mobility_mass, flowing,
        )  # fmt: skip
        return mobility_mass, flowing

    def _product(self, mobility_mass, flowing, v):
        """K v, (n_data,), from the potential that loss gradients v make, without K."""
        potential, rate = np.empty((2, len(mobility_mass)))
        out = np.empty(len(v))
        self.objective.operator.adjoint(v, potential)
        kernels.carried(*self._ends, mobility_mass, flowing, potential, rate)
        self.objective.operator.forward(rate, out)
        return out


def _gram(rows, weights):
    """Σ_c weights_c rows_ic rows_jc over the columns that carry weight; rows (n, columns), weights
    (columns,)."""
    heavy = np.flatnonzero(weights > NEGLIGIBLE * weights.max(initial=0.0))
    out = np.zeros((len(rows), len(rows)))
    add_gram(np.take(rows, heavy, axis=1), weights[heavy], out)
    return out
