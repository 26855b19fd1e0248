"""The coupling of particles through their data, K_ij = Σ_c (β m_c φ_i φ_j + α w_c ∇φ_i·∇φ_j), the
gradients along the sphere."""

import numpy as np

from ...operators.matrix import gram
from ..stepping.implicit import ImplicitSteps
from ..stepping.implicit_residuals import DENSE, Coupling

CHUNK = 4096  # particles whose features are held at a time
RESCALE = 64.0 * np.log(2.0)  # a log mass further than this from log_scale becomes the new one


class CoupledPoints(ImplicitSteps):
    """What methods whose measure is made of points share: K of a state, and the unit of their
    masses."""

    def knows_implicit(self):
        """Whether steps can be implicit; by themselves they are not where products with K cost more
        than explicit steps."""
        if self.problem.objective.feature.kernel is None:
            return False
        return super().knows_implicit() and (
            self.coupling == "implicit" or len(self.current.predictions) <= DENSE
        )

    def speed(self):
        """Of the clock."""
        return self.current.speed

    def coupling_of(self, positions, log_weights):
        """The Coupling of points (n, p) with log weights (n,), stored for up to DENSE data, applied
        for more."""
        objective, flow, weights = (
            self.problem.objective,
            self.flow,
            np.exp(log_weights - self.log_scale),
        )
        state = objective, positions, weights, weights ** (2.0 - 2.0 / flow.depth), flow
        matrix = coupling_matrix(*state) if len(self.current.predictions) <= DENSE else None
        return Coupling(objective, self.log_scale, matrix, lambda v: coupling_product(*state, v))

    def change_unit(self):
        """Take the mass as the unit of extensive numbers where it has left the present one far
        behind, or always for "measure".

        F does not vanish with the mass, so that units are never smaller than one; with "measure"
        than 2^−64.
        """
        e, measure = self.current, self.flow.drive == "measure"
        if not measure and abs(e.log_mass - self.log_scale) <= RESCALE:
            return
        log_scale = 0.0 if e.log_mass < (-RESCALE if measure else 0.0) else e.log_mass
        if log_scale != self.log_scale:
            defect = e.defect * np.exp(self.log_scale - log_scale)
            self.log_scale = log_scale
            self.evaluate(e, e.residuals.copy(), defect)


def _chunks(*arrays):
    for start in range(0, len(arrays[0]), CHUNK):
        yield (array[start : start + CHUNK] for array in arrays)


def _add_gram(rows, weights, out):
    part = np.zeros_like(out)
    gram(np.ascontiguousarray(rows), weights, part)
    out += part


def coupling_matrix(objective, positions, weights, mobility, flow):
    """K, (n_data, n_data), for a built-in feature.

    positions : (n, p) unit vectors;  weights, mobility : (n,) w ≥ 0 and m(w)
    φ is homogeneous of degree k in θ, so that θ·∇φ = kφ: ∇φ_i·∇φ_j = (x_i·x_j) slope_i slope_j +
    [ψ_i ψ_j] − k² φ_i φ_j
    """
    feature, x, n = objective.feature, objective.inputs, len(objective.inputs)
    values, moved, outputs = (np.zeros((n, n)) for _ in range(3))
    for points, w, m in _chunks(positions, weights, mobility):
        phi = feature.matrix(points, x)
        _add_gram(phi, flow.reaction * m - feature.degree**2 * flow.transport * w, values)
        if flow.transport > 0.0:
            _add_gram(feature.slopes(points, x), flow.transport * w, moved)
            if feature.joint:
                _add_gram(np.maximum(x @ points[:, :-1].T, 0.0), flow.transport * w, outputs)
    return values + (x @ x.T) * moved + outputs


def coupling_product(objective, positions, weights, mobility, flow, v):
    """K v, (n_data,), for a built-in feature, without storing K."""
    feature, x, out = objective.feature, objective.inputs, np.zeros(len(v))
    columns = x.shape[1]
    for points, w, m in _chunks(positions, weights, mobility):
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
