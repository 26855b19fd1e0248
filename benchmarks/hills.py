"""The advection problem: a hill on S² is turned once around an axis and should be back as it was.

Shapes: "smooth" exp(−5 |x − c|²), "narrow" exp(−50 |x − c|²), and "cap", which is one within 0.5 of
c and zero elsewhere.
"""

import numpy as np

SHAPES = ("smooth", "narrow", "cap")
TURN = 2.0 * np.pi
TILTED, POLAR = (0.3, -0.5, 0.8), (0.0, 0.0, 1.0)  # axes of rotation


def rotation(axis):
    """The velocity is Ω × x, one radian per time: Ω (3,), and a point on its equator, c (3,)."""
    omega = np.array(axis) / np.linalg.norm(axis)
    center = np.cross(omega, (0.0, 1.0, 0.0))
    return omega, center / np.linalg.norm(center)


def hill(shape, points, center):
    """Density at points (…, 3)."""
    squared = ((points - center) ** 2).sum(axis=-1)
    if shape == "cap":
        return (squared < 0.25).astype(float)
    return np.exp(-{"smooth": 5.0, "narrow": 50.0}[shape] * squared)


def outcome(density, start, areas, steps):
    """[cells, steps, relative l2 error, smallest density over the largest at the start]."""
    error = np.sqrt((areas * (density - start) ** 2).sum() / (areas * start**2).sum())
    return np.array([density.size, steps, error, density.min() / start.max()])


def triangle_areas(a, b, c):
    """Areas of spherical triangles with corners (…, 3) (van Oosterom & Strackee 1983)."""
    volume = np.einsum("...i,...i->...", a, np.cross(b, c))
    below = 1.0 + sum(np.einsum("...i,...i->...", p, q) for p, q in ((a, b), (b, c), (c, a)))
    return 2.0 * np.abs(np.arctan2(volume, below))


def quad_areas(corners):
    """Areas of the cells between nodes (n + 1, m + 1, 3), (n, m)."""
    a, b, c, d = corners[:-1, :-1], corners[1:, :-1], corners[1:, 1:], corners[:-1, 1:]
    return triangle_areas(a, b, c) + triangle_areas(a, c, d)
