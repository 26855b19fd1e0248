"""Transport of smooth densities, of third order: a quadratic polynomial in each cell, and what
crosses a face as the integral over the region that the face sweeps.

Each cell has a chart, y = E (x − x_c), the rows of E an orthonormal basis of the tangent plane at
its centre. There points move with the velocity E U, and the density is

    p(y) = ν_c + Σ_j a_j (m_j(y) − M_j),   m = (y₁, y₂, y₁², y₁y₂, y₂²),   M their means over c.

The mean of p over the cell is ν_c, and a follows from the means over the neighbours by least
squares, exactly for quadratic polynomials: a hexagon has six neighbours, a pentagon five.

A face takes both polynomials next to it. In one dimension cubic interpolation of the mass left of a
point, at distance λ of a cell before the face, is (2 + λ)/4 of that by the upstream cell's parabola
and (2 − λ)/4 of that by the other's (Neville): so the leading error, which damps, goes.
"""

from dataclasses import dataclass

import numpy as np

from ...arguments import Floats
from ...geometry.mesh import Mesh, half_faces
from ...geometry.moments import RULES, moments
from ...operators.parallel_loops import divided_loop
from . import muscl_hancock as hancock
from .frozen import Transport
from .stencil import Stencil

SIXTH, TWELFTH, ROOT = 1.0 / 6.0, 1.0 / 12.0, np.sqrt(12.0)
MOST = 0.95  # of its mass a cell gives in a step: what is emptied would never grow again
WORST = 1e-3  # smallest over largest singular value of a fit that determines a quadratic


@dataclass(frozen=True, eq=False)
class Charts:
    """What the quadratic scheme needs to know of a mesh of the circle or S².

    weights : (n_cells, n_slots, 5), a_c = Σ_k weights_ck (ν_k − ν_c)
    means : (n_cells, 5) M
    faces : (n_cells, n_slots, 5): y₁, y₂ of the middle of the face; e₁, e₂ along all of it, over
        √12, with (e₂, −e₁) outward; and 1 / (area of the face · distance of the centres)
    frames : (n_cells, 2, d+1) E; the second row is 0 on the circle
    """

    weights: Floats
    means: Floats
    faces: Floats
    frames: Floats


def charts_of(mesh: Mesh) -> Charts:
    """The Charts of a mesh. Raises ValueError beyond S², and where a cell has too few neighbours to
    determine a quadratic."""
    if mesh.dim not in RULES:
        raise ValueError(
            f"The quadratic reconstruction is for the circle and S², got a mesh of S^{mesh.dim}."
            " Choose reconstruction = 'linear'."
        )
    cell, neighbor, face, slot = half_faces(mesh)
    n, slots = mesh.n_cells, slot.max() + 1
    frames = np.zeros((n, 2, mesh.dim + 1))
    frames[:, : mesh.dim] = np.linalg.svd(mesh.centers[:, None])[2][:, 1:]
    first, second = moments(mesh)
    means = _monomials(frames, first, second)
    there = _monomials(frames[cell], first[neighbor], second[neighbor]) - means[cell]
    near = 1.0 / np.linalg.norm(mesh.centers[neighbor] - mesh.centers[cell], axis=1)
    matrix, scale = np.zeros((n, slots, 5)), np.zeros((n, 5))
    matrix[cell, slot] = there * near[:, None]
    scale[:] = np.linalg.norm(matrix, axis=1)
    scale[scale <= 1e-9 * scale.max()] = np.inf  # the circle has no second axis
    values = np.linalg.svd(matrix / scale[:, None], compute_uv=False)
    rank = mesh.dim * (mesh.dim + 3) // 2
    if (bad := values[:, rank - 1] < WORST * values[:, 0]).any():
        raise ValueError(
            f"The neighbours of cell {bad.argmax()} do not determine a quadratic. Choose"
            " reconstruction = 'linear'."
        )
    inverse = np.linalg.pinv(matrix / scale[:, None]) / scale[:, :, None]
    weights = np.zeros((n, slots, 5))
    weights[cell, slot] = inverse[cell, :, slot] * near[:, None]
    faces = np.zeros((n, slots, 5))
    faces[cell, slot, :2] = np.einsum("fia,fa->fi", frames[cell], mesh.face_midpoints[face])
    ends = mesh.vertices[mesh.face_vertices[face]]  # one point on the circle: no edge
    edge = np.einsum("fia,fa->fi", frames[cell], ends[:, -1] - ends[:, 0])
    outward = np.einsum("fia,fa->fi", frames[cell], mesh.centers[neighbor])
    side = edge[:, 1] * outward[:, 0] - edge[:, 0] * outward[:, 1]
    faces[cell, slot, 2:4] = np.where(side > 0.0, 1.0, -1.0)[:, None] * edge / ROOT
    faces[cell, slot, 4] = near / mesh.face_areas[face]
    return Charts(weights, means, faces, frames)


def _monomials(frames, first, second):
    """The means of m in charts (n, 2, d+1), for means of x and x xᵀ: (n, 5)."""
    y = np.einsum("fia,fa->fi", frames, first)
    yy = np.einsum("fia,fab,fjb->fij", frames, second, frames)
    return np.column_stack([y, yy[:, 0, 0], yy[:, 0, 1], yy[:, 1, 1]])


class QuadraticTransport(Transport):
    """Moves densities along face flows by quadratic polynomials; as Transport, without a limiter of
    slopes: ν ≥ 0 is kept by limiting what crosses the faces.

    motion : (n_signs, n_cells, 6) the velocity in the chart at its origin, and its derivatives
        ∂₁u₁, ∂₂u₁, ∂₁u₂, ∂₂u₂; to be set before `move`
    """

    def __init__(self, stencil: Stencil, mesh: Mesh, n_signs: int = 1) -> None:
        super().__init__(stencil, -1, n_signs)
        self.charts = charts_of(mesh)
        n = mesh.n_cells
        self.swept = np.zeros_like(self.flows)
        self.polynomials, self.motion = np.zeros((n_signs, n, 5)), np.zeros((n_signs, n, 6))

    def follow(self, potential: Floats, alpha: float) -> None:
        """Take −α∇J as the velocity field; potential J (n_signs, n_cells)."""
        super().follow(potential, alpha)
        self._fit(potential)
        g1, g2, h11, h12, h22 = np.moveaxis(self.polynomials, -1, 0)
        for j, value in enumerate((g1, g2, 2.0 * h11, h12, h12, 2.0 * h22)):
            np.multiply(value, -alpha, out=self.motion[..., j])

    def prescribe(self, velocity: Floats) -> None:
        """Take the velocity field U (n_cells, d+1), beside flows that are set already."""
        for i in range(2):
            parts = np.einsum(
                "ca,cka->ck", self.charts.frames[:, i], velocity[self.stencil.neighbors]
            )
            own = np.einsum("ca,ca->c", self.charts.frames[:, i], velocity)
            a = np.einsum("ckj,ck->cj", self.charts.weights, parts - own[:, None])
            self.motion[:, :, i] = own
            self.motion[:, :, 2 + 2 * i : 4 + 2 * i] = a[:, :2]

    def _fit(self, values):
        """The polynomials of values (n_signs, n_cells)."""
        st = self.stencil
        fit(
            len(st.volumes), self.polynomials.size, st.neighbors, self.charts.weights, values,
            self.polynomials,
        )  # fmt: skip

    def move(self, dt: float, start: Floats, density: Floats) -> None:
        """The density after dt; start, density (n_signs, n_cells). Mass is kept to rounding, and ν
        ≥ 0."""
        st, charts = self.stencil, self.charts
        self._fit(start)
        size = self.flows.size
        sweep(
            len(st.volumes), size, dt, charts.means, charts.faces, start, self.polynomials,
            self.flows, self.motion, self.divergence, self.swept,
        )  # fmt: skip
        outgoing(
            len(st.volumes), size, dt, st.neighbors, st.back, st.volumes, charts.faces, start,
            self.flows, self.divergence, self.swept, self.leaving, self.kept,
        )  # fmt: skip
        hancock.arrive(st.neighbors, st.back, st.volumes, self.leaving, self.kept, density)


@divided_loop()
def fit(begin, end, neighbors, weights, density, out):
    """a_c = Σ_k weights_ck (ν_k − ν_c).

    neighbors (n_cells, n_slots); weights (n_cells, n_slots, 5); density (n_signs, n_cells); out
    (n_signs, n_cells, 5)
    """
    for s in range(len(density)):
        for c in range(begin, end):
            g1, g2, h11, h12, h22 = 0.0, 0.0, 0.0, 0.0, 0.0
            for k in range(neighbors.shape[1]):
                difference = density[s, neighbors[c, k]] - density[s, c]
                g1 += weights[c, k, 0] * difference
                g2 += weights[c, k, 1] * difference
                h11 += weights[c, k, 2] * difference
                h12 += weights[c, k, 3] * difference
                h22 += weights[c, k, 4] * difference
            out[s, c, 0], out[s, c, 1] = g1, g2
            out[s, c, 2], out[s, c, 3], out[s, c, 4] = h11, h12, h22


@divided_loop()
def sweep(begin, end, dt, means, faces, density, polynomials, flows, motion, divergence, out):
    """What each cell's polynomial says of the mass per time that crosses each of its faces, before
    volumes shrink on their way:

        flow · mean(p) + (e₂ ∂_e u₁ − e₁ ∂_e u₂) ∂_e p / 12,   ∂_e = e·∇

    mean(p): over a parallelogram with the sides e and w = dt u − ½ dt² (u·∇)u, whose middle lies ½
    dt u (1 − D dt/6) − ⅙ dt² (u·∇)u before that of the face, D the divergence. The second term is
    what a velocity that grows along the face adds.

    means (n_cells, 5) and faces (n_cells, n_slots, 5) of Charts; density, divergence (n_signs,
    n_cells); polynomials (n_signs, n_cells, 5); motion (n_signs, n_cells, 6); flows, out (n_signs,
    n_cells, n_slots)
    """
    spread = dt * TWELFTH * ROOT
    for s in range(len(density)):
        for c in range(begin, end):
            nu, D = density[s, c], divergence[s, c]
            g1, g2 = polynomials[s, c, 0], polynomials[s, c, 1]
            h11, h12, h22 = polynomials[s, c, 2], polynomials[s, c, 3], polynomials[s, c, 4]
            level = nu - g1 * means[c, 0] - g2 * means[c, 1]
            level -= h11 * means[c, 2] + h12 * means[c, 3] + h22 * means[c, 4]
            U1, U2 = motion[s, c, 0], motion[s, c, 1]
            G11, G12, G21, G22 = motion[s, c, 2], motion[s, c, 3], motion[s, c, 4], motion[s, c, 5]
            for k in range(faces.shape[1]):
                f1, f2, e1, e2 = faces[c, k, 0], faces[c, k, 1], faces[c, k, 2], faces[c, k, 3]
                u1, u2 = U1 + G11 * f1 + G12 * f2, U2 + G21 * f1 + G22 * f2
                b1, b2 = dt * (G11 * u1 + G12 * u2), dt * (G21 * u1 + G22 * u2)
                lag = dt * (0.5 - TWELFTH * dt * D)
                y1, y2 = f1 - lag * u1 + SIXTH * dt * b1, f2 - lag * u2 + SIXTH * dt * b2
                w1, w2 = spread * (u1 - 0.5 * b1), spread * (u2 - 0.5 * b2)
                mean = level + g1 * y1 + g2 * y2
                mean += h11 * (y1 * y1 + e1 * e1 + w1 * w1)
                mean += h12 * (y1 * y2 + e1 * e2 + w1 * w2)
                mean += h22 * (y2 * y2 + e2 * e2 + w2 * w2)
                along = (g1 + 2.0 * h11 * y1 + h12 * y2) * e1
                along += (g2 + 2.0 * h22 * y2 + h12 * y1) * e2
                growth = e2 * (G11 * e1 + G12 * e2) - e1 * (G21 * e1 + G22 * e2)
                out[s, c, k] = flows[s, c, k] * mean + ROOT * growth * along


@divided_loop()
def outgoing(
    begin, end, dt, neighbors, back, volumes, faces, density, flows, divergence, swept, leaving,
    kept,
):  # fmt: skip
    """Mass that leaves each cell through each of its faces in a step, and mass that it keeps.

        leaving = dt φ (½ + ¼λ) swept_here + dt φ (½ − ¼λ) swept_there,   λ = dt φ flow / (face ·
        |x_k − x_c|),   φ = 1 − ½ D dt + ⅙ (D dt)²,  D taken a third of the way before the face

    What crosses lies between nothing and twice the upstream mean; where more would leave than MOST
    of what there is, all faces give the same share of that. So ν ≥ 0, and mass goes down J.

    neighbors, back (n_cells, n_slots): slot of c among the neighbours of its neighbour; volumes
    (n_cells,); faces (n_cells, n_slots, 5) of Charts; density, divergence, kept (n_signs, n_cells);
    flows, swept, leaving (n_signs, n_cells, n_slots)
    """
    for s in range(len(density)):
        for c in range(begin, end):
            nu, D, total = density[s, c], divergence[s, c], 0.0
            for k in range(neighbors.shape[1]):
                leaving[s, c, k] = 0.0
                volume = dt * flows[s, c, k]
                if volume > 0.0:
                    other = neighbors[c, k]
                    courant = volume * faces[c, k, 4]
                    z = dt * (D + (0.5 - 2.0 * SIXTH * courant) * (divergence[s, other] - D))
                    phi = 1.0 + z * (SIXTH * z - 0.5)
                    share = 0.5 + 0.25 * phi * courant
                    mean = share * swept[s, c, k] - (1.0 - share) * swept[s, other, back[c, k]]
                    leaving[s, c, k] = phi * min(max(dt * mean, 0.0), 2.0 * volume * nu)
                    total += leaving[s, c, k]
            mass = nu * volumes[c]
            if total > MOST * mass:
                for k in range(neighbors.shape[1]):
                    leaving[s, c, k] *= MOST * mass / total
                total = MOST * mass
            kept[s, c] = mass - total
