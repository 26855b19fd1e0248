"""Measures on the atoms ±e_k: the weights of a diagonal linear network, coordinate by
coordinate."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from ..arguments import Floats
from ..measures.point_measure import PointMeasure
from .figures import COLUMN, LETTER
from .shown import COLORS, NARROW, one_line

NAMED = 12  # coordinates, at most, whose names are written


def parts_of(atoms: PointMeasure) -> Floats:
    """ν(e_k) and −ν(−e_k) for every coordinate, (2, d+1)."""
    return np.array(
        [weights @ positions for positions, weights in map(atoms.sheet, (1.0, -1.0))]
    ) * [[1.0], [-1.0]]


def draw_weights(
    ax: Axes,
    atoms: PointMeasure,
    names: Sequence[str],
    nu: str = "ν",
    shared: ArrayLike = (),
) -> None:
    """Draw w_k = ν(e_k) − ν(−e_k) as dots, and over and under the axis the two parts as bars.

    names : of the inputs;  nu : how ν is called;  shared : (…, d+1) all the parts that the axis has
        room for
    """
    parts = parts_of(atoms)
    k = np.arange(1, len(names) + 1)
    for s, part in enumerate(parts):
        ax.bar(
            k,
            part,
            width=0.8,
            color=COLORS[-1.0 if s else 1.0],
            alpha=0.5,
            label=f"{nu}({'−' if s else '+'}eₖ)",
        )
    ax.plot(
        k,
        parts.sum(axis=0),
        "o",
        markersize=3 if len(k) <= 4 * NAMED else 1.5,
        color="black",
        label="difference w",
    )
    ax.axhline(0.0, color="0.5", linewidth=0.6)
    if len(k) <= NAMED:
        shown = [one_line(name, NARROW) for name in names]
        crowded = LETTER * max(map(len, shown)) * len(k) > COLUMN
        ax.set_xticks(k, shown, rotation=90 if crowded else 0)
    if np.size(shared) and np.max(np.abs(shared)) > 0.0:
        room = 0.06 * (np.max(shared) - np.min(shared))
        ax.set_ylim(min(np.min(shared) - room, 0.0), max(np.max(shared) + room, 0.0))
    ax.set_xlabel("coordinate k")
    ax.set_ylabel("weight" if nu == "ν" else f"weight, {nu}")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
