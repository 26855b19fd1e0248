"""Kinks of ∫φ: the great spheres n·θ = 0 across which the gradient of a potential of features
ψ(θ·x) jumps, ψ linear on either side of 0.

    Σ_i r_i ψ(x_i·θ) = θ·g(θ),   g(θ) = g₀ + Σ_{n_k·θ > 0} κ_k n_k,   ψ(s) = b s + j (s)₊

Data with parallel inputs share a kink, x_i = s_i n_k with s_i of either sign: (x·θ)₊ = |s| (n·θ)₊
for s > 0, and |s| (n·θ)₊ + x·θ for s < 0. So κ_k = j Σ r_i |s_i| and g₀ = b Σ r_i x_i + j Σ_{s_i <
0} r_i x_i. A zero input has no kink, and linear features (j = 0) have none.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...arguments import Floats
from ...geometry.rows import unique_rows
from ...geometry.sphere import normalize

PARALLEL = 1e-14  # distance of unit vectors that are one direction


@dataclass(frozen=True, eq=False)
class Kinks:
    """The kinks of some data, and what a loss gradient makes of them.

    normals : (n_kinks, p) unit vectors n_k;  inputs : (n_data, p) the x_i
    kink, length : (n_data,) k and s of x_i = s n_k; k is 0 where there is none, and s then 0
    below, jump : b and j, slopes of ψ
    """

    normals: np.ndarray
    inputs: np.ndarray
    kink: np.ndarray
    length: np.ndarray
    below: float
    jump: float

    @staticmethod
    def of(feature: Any, inputs: Floats) -> "Kinks":
        """The kinks of a feature with `pieces` for inputs (n_data, p)."""
        inputs, (below, above) = np.ascontiguousarray(inputs, dtype=float), feature.pieces
        slopes = below, above - below
        alive = np.flatnonzero(inputs.any(axis=1) & (above != below))
        kink, length = np.zeros(len(inputs), dtype=np.int64), np.zeros(len(inputs))
        if not len(alive):
            return Kinks(np.zeros((0, inputs.shape[1])), inputs, kink, length, *slopes)
        units = normalize(inputs[alive])
        same, opposite = _directions(units)
        _, first, kink[alive] = np.unique(
            np.minimum(same, opposite), return_index=True, return_inverse=True
        )
        normals = units[first]
        length[alive] = np.where(same == same[first][kink[alive]], 1.0, -1.0) * np.linalg.norm(
            inputs[alive], axis=1
        )
        return Kinks(np.ascontiguousarray(normals), inputs, kink, length, *slopes)

    def gradient(self, loss_gradient: Floats) -> tuple[np.ndarray, np.ndarray]:
        """κ (n_kinks,) and g₀ (p,) for a loss gradient (n_data,)."""
        behind, lengths = self._per_datum
        jumps = np.bincount(self.kink, loss_gradient * lengths, len(self.normals))
        # not BLAS: its threads would fight with the kernels’
        constant = np.einsum("i,ia->a", behind * loss_gradient, self.inputs)
        return self.jump * jumps[: len(self.normals)], constant

    @cached_property
    def _per_datum(self):
        """Slope where n_k·θ < 0 and |s|, (n_data,)."""
        return np.where(self.length < 0.0, self.below + self.jump, self.below), np.abs(self.length)


def _directions(units):
    """Labels of the directions of unit vectors (n, p), and of the opposite ones: equal labels are
    one direction."""
    generic = np.cos(np.arange(1.0, units.shape[1] + 1.0))
    shadows = np.einsum("ia,a->i", units, generic / np.sqrt(np.einsum("a,a->", generic, generic)))
    shadows = np.append(shadows, -shadows)
    # units are farther apart than their shadows, which rounding moves by less than axes · PARALLEL
    apart = (1.0 + units.shape[1]) * PARALLEL
    if (np.diff(np.sort(shadows)) > apart).all():
        return np.split(np.arange(2 * len(units)), 2)
    both = np.concatenate([units, -units])
    first, place = unique_rows(both)  # data are often equal to the bit, and seldom nearly
    distinct = np.sort(first)
    if (np.diff(np.sort(shadows[distinct])) > apart).all():
        return np.split(np.searchsorted(distinct, first)[place], 2)
    from scipy.sparse import coo_array  # slow to load
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    # of n data of one direction there are n² pairs, of what they are rounded to few
    first, place = unique_rows(np.round(both / PARALLEL))
    distinct = np.sort(first)
    pairs = cKDTree(both[distinct]).query_pairs(PARALLEL, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs)), pairs.T), shape=(len(first), len(first)))
    _, labels = connected_components(graph, directed=False)
    return np.split(labels[np.searchsorted(distinct, first)][place], 2)
