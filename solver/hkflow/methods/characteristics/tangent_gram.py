"""The coupling of atoms through the data, K_ij = Σ_c (β m_c φ_i φ_j + α m_c ∇φ_i·P_c ∇φ_j), with
P_c the projection on the directions in which atom c may move: along the sphere, and along the kinks
that hold it."""

import numpy as np
from numpy.typing import NDArray

from ...arguments import Floats
from ...objectives.objective import Objective
from ...problem.flow import Flow
from ..particles.tangent_gram import CHUNK, add_gram, chunks, coupling_matrix

ON = 1e-12  # |n_k·θ| of an atom that kink k may hold
SPANNED = 1e-9  # eigenvalue of Σ n n^T over normals that span a direction


def held_coupling(
    objective: Objective,
    normals: Floats,
    positions: Floats,
    weights: Floats,
    held: NDArray[np.bool_],
    flow: Flow,
) -> Floats:
    """K, (n_data, n_data), for ReLU or linear features.

    normals : (n_kinks, p) of the kinks;  positions, weights : (n, p), (n,) of the atoms
    held : (n,) whether a kink holds an atom; it is taken to be held by all that it is on
    Cost: n_data² for a free atom, p n_data² for one that is held.
    """
    free = ~held
    matrix = coupling_matrix(objective, positions[free], weights[free], weights[free], flow)
    x, feature = objective.inputs, objective.feature
    size = max(1, CHUNK // positions.shape[1])
    for points, w in chunks(positions[held], weights[held], size=size):
        add_gram(feature.matrix(points, x), flow.reaction * w, matrix)
        slopes, along = feature.slopes(points, x), _movable(normals, points)
        for rows in np.einsum("cab,ib->aic", along, x):
            add_gram(slopes * rows, flow.transport * w, matrix)
    return matrix


def _movable(normals: Floats, points: Floats) -> Floats:
    """P, (n, p, p), for atoms at points (n, p)."""
    on = (np.abs(points @ normals.T) <= ON).astype(float)
    spanned = np.einsum("ck,ka,kb->cab", on, normals, normals, optimize=True)
    values, vectors = np.linalg.eigh(spanned + points[:, :, None] * points[:, None, :])
    vectors *= (values <= SPANNED)[:, None, :]
    return np.einsum("cah,cbh->cab", vectors, vectors)
