"""The coupling of particles through their data, K_ij = Σ_c (β m_c φ_i φ_j + α w_c ∇φ_i·∇φ_j), the
gradients along the sphere."""

from collections.abc import Iterator

import numpy as np

from ...arguments import Floats
from ...objectives.activations import Feature
from ...objectives.objective import Objective
from ...operators.matrix import add_gram
from ...problem.flow import Flow

PAIRS = 2**18  # of particles and data, whose features are held at a time: they stay in the cache


def chunks(n: int, *arrays: Floats) -> Iterator[tuple[Floats, ...]]:
    """Tuples of some rows of each array, PAIRS at most if each row makes a pair with n others."""
    size = max(1, PAIRS // max(1, n))
    for start in range(0, len(arrays[0]), size):
        yield tuple(array[start : start + size] for array in arrays)


def knows_slopes(feature: Feature) -> bool:
    """Whether the gradient at each datum is known, and not only sums of them: of built-in features
    and ridges."""
    return feature.activation is not None or feature.ridge is not None


def coupling_matrix(
    objective: Objective, positions: Floats, weights: Floats, mobility: Floats, flow: Flow
) -> Floats:
    """K, (n_data, n_data), for a built-in feature or a ridge.

    positions : (n, p) unit vectors;  weights, mobility : (n,) w ≥ 0 and m(w)

        ∇φ_i·∇φ_j = (x_i·x_j) slope_i slope_j + [ψ_i ψ_j] − (θ·∇φ_i)(θ·∇φ_j),   θ·∇φ = slope θ·x,

    which is kφ if φ is homogeneous of degree k in θ.
    """
    feature, x, n = objective.feature, objective.inputs, len(objective.inputs)
    values, moved, outputs = (np.zeros((n, n)) for _ in range(3))
    for points, w, m in chunks(n, positions, weights, mobility):
        phi, degree = feature.matrix(points, x), feature.degree
        along = flow.transport * w
        add_gram(phi, flow.reaction * m - (degree or 0) ** 2 * along, values)
        if flow.transport > 0.0:
            slope = feature.slopes(points, x)
            add_gram(slope, along, moved)
            if degree is None:
                add_gram(slope * (x @ points.T), -along, values)
            if feature.joint:
                add_gram(np.maximum(x @ points[:, :-1].T, 0.0), along, outputs)
    return values + (x @ x.T) * moved + outputs


def coupling_product(
    objective: Objective,
    positions: Floats,
    weights: Floats,
    mobility: Floats,
    flow: Flow,
    v: Floats,
) -> Floats:
    """K v, (n_data,), for a built-in feature or a ridge, without storing K."""
    feature, x, out = objective.feature, objective.inputs, np.zeros(len(v))
    columns = x.shape[1]
    for points, w, m in chunks(len(v), positions, weights, mobility):
        phi = feature.matrix(points, x)
        out += phi @ (flow.reaction * m * (v @ phi))
        if flow.transport > 0.0:
            slope = feature.slopes(points, x)
            gradient = np.zeros_like(points)
            gradient[:, :columns] = slope.T @ (v[:, None] * x)
            if feature.joint:
                psi = np.maximum(x @ points[:, :columns].T, 0.0)
                gradient[:, -1] = v @ psi
            gradient -= np.sum(gradient * points, axis=1, keepdims=True) * points
            gradient *= flow.transport * w[:, None]
            out += np.sum(x * (slope @ gradient[:, :columns]), axis=1)
            if feature.joint:
                out += psi @ gradient[:, -1]
    return out
