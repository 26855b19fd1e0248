"""Geometry of the unit sphere S^d in R^(d+1)."""

from math import lgamma

import numpy as np

from ..arguments import Floats

SHORT = 8  # numbers from which NumPy adds those of a row in another order


def surface_area(d: int) -> float:
    """Area |S^d| = 2 π^((d+1)/2) / Γ((d+1)/2)."""
    return 2.0 * np.exp(0.5 * (d + 1) * np.log(np.pi) - lgamma(0.5 * (d + 1)))


def normalize(x: Floats) -> Floats:
    """Points on the sphere: x / |x| along the last axis, without overflow or underflow of the
    squares."""
    x = x / by_rows(np.maximum, np.abs(x))[..., None]
    return x / np.sqrt(by_rows(np.add, x * x))[..., None]


def directions(x: Floats) -> Floats:
    """x / |x| of rows x (n, p); those of length 1 to rounding stay as they are, so that directions
    that are read from a file again have the same bits."""
    unit = normalize(x)
    apart = by_rows(np.maximum, np.abs(unit - x))
    return np.where(apart[:, None] <= np.finfo(float).eps, x, unit)


def by_rows(combine: np.ufunc, x: Floats) -> Floats:
    """combine.reduce along the last axis of x (…, p), one coordinate of all points after the other
    where p is small: row by row, NumPy takes up to ten times as long, for the same bits."""
    p = x.shape[-1]
    if not 0 < p < SHORT:
        return combine.reduce(x, axis=-1)
    coordinates = np.ascontiguousarray(x.reshape(-1, p).T)
    return combine.reduce(coordinates, axis=0).reshape(x.shape[:-1])


def distance(x: Floats, y: Floats) -> Floats:
    """Great-circle distance, 2 atan2(|x − y|, |x + y|): accurate for near and for antipodal
    points."""
    return 2.0 * np.arctan2(np.linalg.norm(x - y, axis=-1), np.linalg.norm(x + y, axis=-1))


def triangle_area(a: Floats, b: Floats, c: Floats) -> Floats:
    """Signed area of spherical triangles, positive if a, b, c turn left seen from outside.

    tan(area / 2) = a·(b × c) / (1 + a·b + b·c + c·a)   (Van Oosterom & Strackee 1983, eq. 8)
    """
    volume = np.einsum("...i,...i->...", a, np.cross(b, c))
    cosines = sum(np.einsum("...i,...i->...", p, q) for p, q in ((a, b), (b, c), (c, a)))
    return 2.0 * np.arctan2(volume, 1.0 + cosines)
