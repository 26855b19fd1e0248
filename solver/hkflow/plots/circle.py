"""Densities and atoms on the circle: unrolled, around it, and in time."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..arguments import Floats
from ..geometry.mesh import Mesh
from ..measures.point_measure import PointMeasure
from .figures import legend_below
from .shown import DECADES, PEAKED, clipped, sign_color, sign_name

HEIGHT = 0.75  # of the largest density over a circle of radius 1
GAP = 0.08  # between the circle and what stands on it
NOTHING = 1e-280  # densities below, of a mass that has decayed, are too small for an axis
FINE = 720  # points at least of a circle whose cells are arcs


def draw_density(
    ax: Axes,
    mesh: Mesh,
    density: Floats,
    signs: Collection[float],
    initial: Floats | None = None,
    nu: str = "ν",
    start: tuple[str, float] = ("t", 0.0),
    shared: Collection[Floats] = (),
    linear: bool = False,
) -> None:
    """Draw the densities (n_signs, n_cells) against the angle of θ, and the initial ones dotted, by
    their logarithm if peaked.

    nu : what they are;  start : name and value of the initial time;  shared : all the densities
        that the axis has room for
    linear : never by their logarithm
    """
    angle = angles(mesh.centers)
    order = np.argsort(angle)
    everything = np.concatenate(
        [density.ravel(), *map(np.ravel, shared), *([] if initial is None else [initial.ravel()])]
    )
    logarithmic = not linear and _logarithmic_axis(ax, everything)
    for s, sign in enumerate(signs):
        label = f"density {nu}" if len(signs) == 1 else sign_name(sign)
        ax.plot(
            angle[order],
            density[s, order],
            color=sign_color(sign, signs),
            label=label,
        )
        if initial is not None:
            ax.plot(
                angle[order],
                initial[s, order],
                color=sign_color(sign, signs),
                linestyle=":",
                linewidth=0.8,
            )
    if initial is not None:
        ax.plot(
            [], [], color="0.3", linestyle=":", linewidth=0.8, label=f"{start[0]} = {start[1]:.4g}"
        )
    _label(ax, f"density {nu}", everything.min() < 0.0)
    if not logarithmic and everything.min() >= 0.0:
        ax.set_ylim(0.0, 1.06 * everything.max() or 1.0)


def _logarithmic_axis(ax, values):
    """Make the vertical axis logarithmic if the largest of nonnegative values is far above their
    mean; whether it was done."""
    if values.min() < 0.0 or not values.max() > PEAKED * values.mean():
        return False
    ax.set_yscale("log")
    ax.set_ylim(values.max() * 10.0**-DECADES, 2.0 * values.max())
    return True


def draw_atoms(
    ax: Axes, atoms: PointMeasure, signs: Collection[float], nu: str = "ν", top: float | None = None
) -> None:
    """Draw atoms as a histogram over the angle of θ: mass in each bin by its width; nu: what they
    are, top: of the axis."""
    heights, edges = histogram(atoms, signs)
    for s, sign in enumerate(signs):
        label = "mass by angle" if len(signs) == 1 else sign_name(sign)
        count = np.count_nonzero(atoms.signs == sign)
        ax.stairs(
            heights[s],
            edges,
            color=sign_color(sign, signs),
            alpha=0.5,
            fill=True,
            label=f"{label}, {count} atom{'' if count == 1 else 's'}",
        )
    _label(ax, f"density {nu}")
    high = heights.max(initial=0.0) if top is None else top
    ax.set_ylim(0.0, top if high > NOTHING else 1.0)


def histogram(
    atoms: PointMeasure, signs: Collection[float], count: int | None = None
) -> tuple[Floats, Floats]:
    """Mass of atoms by width in bins of their angle, (n_signs, n_bins), and the edges of the bins.

    count : of the atoms that the number of bins is for, by default all these
    """
    bins = int(np.clip(np.sqrt((count or len(atoms)) / len(signs)) * 2, 16, 180))
    rows = []
    for sign in signs:
        positions, weights = atoms.sheet(sign)
        rows.append(np.histogram(angles(positions), bins, (-np.pi, np.pi), weights=weights)[0])
    return np.array(rows) * bins / (2.0 * np.pi), np.linspace(-np.pi, np.pi, bins + 1)


def bin_centers(count: int) -> Floats:
    """The middles of so many bins of the angle."""
    return (np.arange(count) + 0.5) * 2.0 * np.pi / count - np.pi


def draw_polar(
    ax: Axes,
    angle: Floats,
    density: Floats,
    signs: Collection[float],
    norm: Any,
    names: Sequence[str],
    nu: str = "ν",
) -> None:
    """Draw densities (n_signs, n) at angles (n,) as heights over a circle, outwards and, of the
    second sign, inwards.

    Heights are linear up to `norm.vmax`, or logarithmic from `norm.vmin` if that is far below;
    names : of the two axes
    """
    fine = np.linspace(-np.pi, np.pi, max(FINE, 4 * len(angle)) + 1)
    order = np.argsort(angle)
    edges = 0.5 * (angle[order][1:] + angle[order][:-1])
    cell, unit = order[np.searchsorted(edges, fine) % len(order)], np.exp(1j * fine)
    signed, low, high = norm.vmin < 0.0, norm.vmin, norm.vmax
    logarithmic = not signed and high > PEAKED * density.mean() and low < 0.1 * high
    full = np.exp(1j * np.linspace(0.0, 2.0 * np.pi, 400))

    def height(values):
        return (
            np.log(clipped(values, norm) / low) / np.log(high / low)
            if logarithmic
            else values / high
        )

    for s, sign in enumerate(signs):
        side = -1.0 if s else 1.0
        base = 1.0 + side * GAP
        curve = (base + side * HEIGHT * height(density[s, cell])) * unit
        ring = base * unit
        ax.fill(
            *_plane(np.concatenate([curve, ring[::-1]])),
            color=sign_color(sign, signs),
            alpha=0.25,
            linewidth=0,
        )
        ax.plot(
            *_plane(curve),
            color=sign_color(sign, signs),
            label="" if len(signs) == 1 else sign_name(sign),
        )
        ax.plot(
            *_plane((base + side * HEIGHT) * full),
            color="0.75",
            linewidth=0.5,
            linestyle=(0, (3, 3)),
            zorder=0,
        )
    ax.plot(*_plane(full), color="black", linewidth=0.8)
    label_directions(ax, 1.0 + GAP + HEIGHT, names)
    text = f"height: {'log ' if logarithmic else ''}density {nu}, {high:.3g} at the dashed line"
    text += f", {low:.1g} at the circle" if logarithmic else ""
    legend_below(ax.figure, ax, text)


def label_directions(ax: Axes, radius: float, names: Sequence[str]) -> None:
    """A frame for a disc: equal scales, no axes, and the names of the four directions outside a
    radius."""
    for angle, text in (
        (0.0, f"+{names[0]}"),
        (90.0, f"+{names[1]}"),
        (180.0, f"−{names[0]}"),
        (270.0, f"−{names[1]}"),
    ):
        end = 1.04 * radius * np.exp(1j * np.radians(angle))
        ha = {0.0: "left", 180.0: "right"}.get(angle, "center")
        va = {90.0: "bottom", 270.0: "top"}.get(angle, "center")
        ax.text(end.real, end.imag, text, ha=ha, va=va, fontsize=7, color="0.3")
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_xlim(-1.08 * radius, 1.08 * radius)
    ax.set_ylim(-1.08 * radius, 1.08 * radius)


def _plane(points):
    return points.real, points.imag


def angles(positions: Floats) -> Floats:
    """Angle in (−π, π] of points (n, 2)."""
    return np.arctan2(positions[:, 1], positions[:, 0])


def label_angles(ax: Axes, axis: str = "x") -> None:
    """The angle of θ along an axis."""
    ticks, names = [-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], ["−π", "−π/2", "0", "π/2", "π"]
    if axis == "x":
        ax.set(xlim=(-np.pi, np.pi), xlabel="angle of θ")
        ax.set_xticks(ticks, names)
    else:
        ax.set(ylim=(-np.pi, np.pi), ylabel="angle of θ")
        ax.set_yticks(ticks, names)


def _label(ax, text, negative=False):
    label_angles(ax)
    if negative:
        ax.axhline(0.0, color="0.5", linewidth=0.6)
    elif ax.get_yscale() == "linear":
        ax.set_ylim(bottom=0.0)
    ax.set_ylabel(text)
    if len(ax.get_legend_handles_labels()[1]) > 1:
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, columnspacing=1.2)
