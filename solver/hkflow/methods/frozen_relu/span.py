"""What data see of atoms: of inputs in more dimensions than there are data, the span of their kinks
and one direction more.

    θ = Σ_h y_h q_h + y e,   q_h orthonormal in the span, e a unit vector orthogonal to it

Forces lie in the span, so that an atom keeps its e, and (y_h, y) moves on a sphere of its own as θ
does on the large one.
"""

import numpy as np

from ...arguments import Floats
from ...operators.span import orthonormal
from ...remembered import remembered
from .frozen import DEPENDENT


@remembered(most=4)
def spanned(normals: Floats) -> Floats:
    """An orthonormal basis, rows (≤ n_kinks, p), of the span of normals (n_kinks, p)."""
    return orthonormal(normals, DEPENDENT)


def and_zero(rows: Floats) -> Floats:
    """Rows (n, k) with a zero at the end, (n, k + 1)."""
    return np.pad(rows, ((0, 0), (0, 1)))


def seen(basis: Floats, positions: Floats) -> Floats:
    """Coordinates (y_h, y) of atoms, blocked: (n_blocks, k + 1, width) of positions (n_blocks, p,
    width), unit vectors; basis (k, p)."""
    n_blocks, _, width = positions.shape
    out = np.empty((n_blocks, len(basis) + 1, width))
    np.matmul(basis, positions, out=out[:, :-1])
    square = np.einsum("bhc,bhc->bc", out[:, :-1], out[:, :-1])
    np.sqrt(np.maximum(1.0 - square, 0.0), out=out[:, -1])
    return out


def moved(basis: Floats, positions: Floats, before: Floats, after: Floats, out: Floats) -> None:
    """Positions of atoms whose coordinates have changed, into out, (n_blocks, p, width).

    before, after : (n_blocks, k + 1, width), see `seen`
    """
    had = before[:, -1:]
    kept = np.divide(after[:, -1:], had, out=np.zeros_like(had), where=had > 0.0)
    np.multiply(positions, kept, out=out)
    out += basis.T @ (after[:, :-1] - kept * before[:, :-1])
