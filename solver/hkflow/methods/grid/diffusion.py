"""Diffusion on a mesh, κ Δν, by two-point fluxes through the faces.

    (Δν)_c = Σ_k conductance_ck (ν_k − ν_c) / volume_c,   conductance = area of a face / distance of
                                                          the centres on its sides

Explicit steps keep ν ≥ 0 while no cell loses more than it has. They are of first order in time; but
they are no longer than about h²/κ, so that the error is of second order in the mesh width h.
"""

import numpy as np
from numba import prange
from numpy.typing import NDArray

from ...operators.parallel_loops import BLOCK, parallel_loop
from .stencil import Stencil


class Diffusion:
    """κ Δν and its work.

    rate : κ;  stencil : of the mesh;  n_signs : of the domain
    outflow : largest share of a cell's mass that leaves it per time
    """

    def __init__(self, rate: float, stencil: Stencil, n_signs: int) -> None:
        self.rate, self.stencil = rate, stencil
        self.outflow = float(rate * (stencil.conductances.sum(axis=1) / stencil.volumes).max())
        self.change = np.zeros((n_signs, len(stencil.volumes)))

    def of(self, density: NDArray[np.float64]) -> NDArray[np.float64]:
        """κ Δν, kept as `change`; density (n_signs, n_cells)."""
        st = self.stencil
        diffuse(self.rate, st.neighbors, st.conductances, st.volumes, density, self.change)
        return self.change

    def work(self, potential: NDArray[np.float64]) -> float:
        """∫J κ Δν of the last density; potential J (n_signs, n_cells)."""
        # not BLAS: its threads would fight with the kernels’
        return float(np.einsum("sc,sc,c->", potential, self.change, self.stencil.volumes))


@parallel_loop
def diffuse(rate, neighbors, conductances, volumes, density, out):
    """out = κ Δν;  rate κ; neighbors, conductances (n_cells, n_slots); volumes (n_cells,); density,
    out (n_signs, n_cells)."""
    n_signs, n = density.shape
    for b in prange((n + BLOCK - 1) // BLOCK):
        for s in range(n_signs):
            for c in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                net = 0.0
                for k in range(neighbors.shape[1]):
                    net += conductances[c, k] * (density[s, neighbors[c, k]] - density[s, c])
                out[s, c] = rate * net / volumes[c]
