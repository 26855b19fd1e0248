"""Atoms on spheres of any dimension."""

from collections.abc import Collection

import numpy as np
from matplotlib.axes import Axes

from ..measures.point_measure import PointMeasure
from .shown import sign_color, sign_name
from .sphere import dot_areas


def draw_atoms(ax: Axes, atoms: PointMeasure, signs: Collection[float]) -> None:
    """Draw positions along the two main axes of ∫θθᵀ dν, dots with areas in proportion to their
    weights."""
    values, axes = np.linalg.eigh((atoms.positions.T * atoms.weights) @ atoms.positions)
    share = values[::-1] / (values.sum() or 1.0)
    for sign in signs:
        positions, weights = atoms.sheet(sign)
        label = "atoms" if len(signs) == 1 else sign_name(sign)
        area = dot_areas(weights, atoms.weights)
        x, y = (positions @ axes[:, :-3:-1]).T
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
