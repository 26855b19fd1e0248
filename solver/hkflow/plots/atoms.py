"""Atoms on spheres of any dimension."""

from collections.abc import Collection

import numpy as np
from matplotlib.axes import Axes

from ..arguments import Floats
from ..measures.point_measure import PointMeasure
from .shown import sign_color, sign_name
from .sphere import dot_areas


def draw_atoms(ax: Axes, atoms: PointMeasure, signs: Collection[float]) -> None:
    """Draw positions along the two main axes of ∫θθᵀ dν, dots with areas in proportion to their
    weights."""
    axes, share = main_axes(atoms)
    for sign in signs:
        positions, weights = atoms.sheet(sign)
        label = "atoms" if len(signs) == 1 else sign_name(sign)
        area = dot_areas(weights, atoms.weights)
        x, y = (positions @ axes).T
        ax.scatter(
            x,
            y,
            s=area,
            color=sign_color(sign, signs),
            alpha=0.5,
            linewidths=0,
            label=label,
            rasterized=True,
        )
    circle = np.linspace(0.0, 2.0 * np.pi, 200)
    ax.plot(np.cos(circle), np.sin(circle), color="0.5", linewidth=0.6)
    ax.set_aspect("equal")
    ax.set_xlabel(f"first main axis of θ ({share[0]:.0%} of the second moment)")
    ax.set_ylabel(f"second ({share[1]:.0%})")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def main_axes(atoms: PointMeasure) -> tuple[Floats, Floats]:
    """The two main axes of ∫θθᵀ dν, (p, 2), and their shares of its trace, (2,); an axis is 0 where
    there is none. Of fewer atoms than dimensions their products tell them.

    They point to the side with more mass, or their largest coordinate is positive: measures that
    are close to each other are not drawn as mirror images.
    """
    rows = np.sqrt(atoms.weights)[:, None] * atoms.positions
    few = len(rows) < rows.shape[1]
    if few:
        rows = np.pad(rows, ((0, 1), (0, 0))).T  # of one atom a second axis is 0
    values, axes = np.linalg.eigh(rows.T @ rows)
    if len(values) == 1:  # on S⁰, two points, a second axis is 0
        values, axes = np.append(0.0, values), np.append(0.0, axes)[None]
    values, axes, total = values[:-3:-1], axes[:, :-3:-1], values.sum()
    if few:
        there = values > 1e-14 * total
        axes = np.where(there, rows @ axes / np.sqrt(np.where(there, values, 1.0)), 0.0)
    side = atoms.weights @ atoms.positions @ axes
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)[0]
    side = np.where(np.abs(side) > 1e-9 * atoms.mass, side, largest)
    return np.where(side < 0.0, -axes, axes), values / (total or 1.0)
