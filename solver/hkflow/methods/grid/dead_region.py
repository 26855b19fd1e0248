"""Cells that the edge of the dead region cuts, where x_i·θ ≤ 0 for all data.

There the potential is flat, and mass stays; right beside it mass moves. A cell with one density
would hand on what stays with what moves, an error of first order: all the mass of the cells at the
edge. What stays in such a cell is known, the density of a dead cell beside it, which nothing
enters or leaves:

    ν_c = f ν_d + (1 − f) ν_live,   f dead share of the cell c, d the neighbour
"""

import numpy as np

from ...arguments import Floats, Integers
from ...compiled import njit
from ...geometry.mesh import Mesh, half_faces
from ...geometry.regions import negative_shares
from ...geometry.sphere import normalize

SLIVER = 1e-9  # shares of cells that count as none


class DeadRegion:
    """What stays in the cells at the edge.

    mesh : the mesh;  inputs : (n_data, d+1) of features that vanish where x·θ ≤ 0, or none, and
        nothing is dead
    cells, beyond : (n_cut,) c and d;  shares : (n_cut,) f
    live : (n_cells,) volumes of what is not dead; those of cells that are not at the edge, whole
    """

    def __init__(self, mesh: Mesh, inputs: Floats) -> None:
        share = dead_shares(mesh, inputs)
        beyond = dead_cells_beside(mesh, share)
        self.cells = np.flatnonzero((share > 0.0) & (share < 1.0) & (beyond >= 0))
        self.beyond, self.shares = beyond[self.cells], share[self.cells]
        self.live = mesh.volumes.copy()
        self.live[self.cells] *= 1.0 - self.shares
        self.whole = np.zeros((0, 0))

    def leave_out(self, density: Floats) -> None:
        """Make ν_live of ν in a density (n_signs, n_cells) at the edge, in place."""
        if self.whole.shape[0] != len(density):
            self.whole = np.zeros((len(density), len(self.cells)))
        leave_out(self.cells, self.beyond, self.shares, density, self.whole)

    def put_back(self, start: Floats, density: Floats) -> None:
        """Give `start`, of which `leave_out` was made, its ν back, to the bit, and make ν of ν_live
        in the density that follows from it."""
        put_back(self.cells, self.shares, self.whole, start, density)


@njit(cache=True)
def leave_out(cells, beyond, shares, density, whole):
    """ν_live = (ν_c − f ν_d)/(1 − f), or 0; ν_c is kept in `whole` (n_signs, n_cut)."""
    for s in range(len(density)):
        for e in range(len(cells)):
            nu, f = density[s, cells[e]], shares[e]
            whole[s, e] = nu
            density[s, cells[e]] = max(nu - f * density[s, beyond[e]], 0.0) / (1.0 - f)


@njit(cache=True)
def put_back(cells, shares, whole, start, density):
    """ν_c = (ν_c − (1 − f) ν_live) before + (1 − f) ν_live after."""
    for s in range(len(density)):
        for e in range(len(cells)):
            c, f = cells[e], shares[e]
            rest = max(whole[s, e] - (1.0 - f) * start[s, c], 0.0)
            start[s, c] = whole[s, e]
            density[s, c] = rest + (1.0 - f) * density[s, c]


def dead_cells_beside(mesh: Mesh, share: Floats) -> Integers:
    """A dead cell that is a neighbour of each cell, or of a neighbour, (n_cells,); or −1."""
    owner, neighbor, _, _ = half_faces(mesh)
    found = np.where(share == 1.0, np.arange(mesh.n_cells), -1)
    for _ in range(2):
        lacks = (found[owner] < 0) & (found[neighbor] >= 0)
        cells, first = np.unique(owner[lacks], return_index=True)
        found[cells] = found[neighbor[lacks][first]]
    return found


def dead_shares(mesh: Mesh, inputs: Floats) -> Floats:
    """The share of each cell in which x_i·θ ≤ 0 for all data, (n_cells,)."""
    inputs = normalize(inputs[inputs.any(axis=1)])
    if not len(inputs):
        return np.zeros(mesh.n_cells)
    share = negative_shares(mesh, lambda points: _highest(points, inputs))
    share[share < SLIVER] = 0.0
    share[share > 1.0 - SLIVER] = 1.0
    return share


def _highest(points, inputs):
    """max_i x_i·θ at points (n, d+1)."""
    highest = np.full(len(points), -np.inf)
    for x in inputs:
        np.maximum(highest, points @ x, out=highest)
    return highest
