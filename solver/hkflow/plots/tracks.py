"""Particles and units along a run: their trails on S², and their paths in the plane of weights."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from ..arguments import Floats, Integers
from ..solving.result import Result
from ..store.shown import are_beyond, density_of, is_normalised, name_of
from . import circle, sphere
from .figures import AnyFigure, Saves, legend_below
from .shown import colors_of, sheet_names, sheets, sign_color, sign_name, time_of

LINES = 400  # drawn at most for each sign
POINTS = 20_000  # of all lines from which they are drawn as pixels in vector files
# log mass from which weights are shown as shares, since tanh no longer tells them apart
HEAVY = np.log(30.0)
BEND = 200  # points of a line at least
EDGE = "0.2"  # of dots


class Tracks:
    """Where the particles were at the saves up to one, those that came later nan before.

    positions : (n_saves, n, d+1);  weights : (n_saves, n), normalised or not;  signs : (n,) at the
        last of these saves
    """

    def __init__(self, run: Result, save: int, normalised: bool = True) -> None:
        positions, weights, signs = _whole(run, normalised)
        count = int(np.isfinite(weights[save]).sum())
        self.positions, self.weights = (
            array[: save + 1, :count].copy() for array in (positions, weights)
        )
        self.signs = signs[save, :count]
        # no particle lives long
        if run.options.get("noise") == "random" and run.flow.noise > 0.0:
            self.positions[:-1], self.weights[:-1] = np.nan, np.nan
        self.many = self.positions.shape[0] * min(count, 2 * LINES) > POINTS
        self.width, self.alpha = (
            (0.9, 0.8) if count <= 50 else (0.5, 0.5) if count <= 200 else (0.3, 0.35)
        )

    def chosen(self, sign: float) -> Integers:
        """Numbers of at most LINES particles of a sign."""
        mine = np.flatnonzero(self.signs == sign)
        return mine[:: 1 + max(0, len(mine) - 1) // LINES]

    def draw_lines(self, ax: Axes, lines: Sequence[Floats], color: str, **look: Any) -> None:
        """Draw lines (n, 2) of particles, the thinner and lighter the more these are."""
        look |= {"linewidths": self.width, "alpha": self.alpha, "rasterized": self.many}
        ax.add_collection(LineCollection(lines, colors=color, **look))

    def draw_dots(
        self, ax: Axes, x: Floats, y: Floats, chosen: Integers, color: str, **look: Any
    ) -> None:
        """Draw the chosen particles at the save as dots, with areas in proportion to their weights
        as far as they can be seen."""
        areas = np.clip(1500.0 * self.weights[-1, chosen], 1.0, 24.0)
        ax.scatter(x, y, s=areas, color=color, edgecolors=EDGE, **look)


@lru_cache(maxsize=2)
def _whole(run, normalised):
    """Positions, weights and signs at all saves, filled up with nan where there were fewer
    particles."""
    found = [run.atoms_at(k, normalised) for k in range(len(run.time))]
    count = max(map(len, found))

    def filled(name):
        arrays = [getattr(atoms, name) for atoms in found]
        room = [(0, 0)] * (arrays[0].ndim - 1)
        return np.array(
            [
                np.pad(array, [(0, count - len(array)), *room], constant_values=np.nan)
                for array in arrays
            ]
        )

    return filled("positions"), filled("weights"), filled("signs")


def draw_trails(
    figure: AnyFigure,
    run: Result,
    save: int = -1,
    shared: Saves = None,
    under: Result | None = None,
) -> None:
    """Draw particles on maps of S², their trails up to a save, over the density of a grid run
    `under` if there is one."""
    save = range(len(run.time))[save]
    figure.suptitle(time_of(run, save))
    axes = sheets(figure, run.signs)
    labels = sheet_names(run.signs)
    if under is None:
        for ax, label in zip(axes, labels, strict=True):
            sphere.draw_frame(ax, label, run.axis_names, "0.3")
    else:
        at = int(np.abs(under.time - run.time[save]).argmin())
        normalised = is_normalised((under, at))
        density = density_of(under, at, normalised)
        sphere.draw_density(
            axes,
            under.mesh,
            density,
            labels,
            run.axis_names,
            name_of(normalised),
            colors_of([density]),
        )
    tracks = Tracks(run, save)
    for ax, sign in zip(axes, run.signs, strict=True):
        color = sign_color(sign, run.signs) if under is None else "white"
        chosen = tracks.chosen(sign)
        lines = [line for j in chosen for line in _on_map(tracks.positions[:, j])]
        tracks.draw_lines(ax, lines, color, zorder=2)
        ends = sphere.hammer(tracks.positions[-1, chosen])
        tracks.draw_dots(ax, *ends, chosen, color, linewidths=0.2, zorder=2.5)


def _on_map(points):
    """The trail (n, 3) of one particle in the plane of the map: cut where it crosses the edge,
    along great circles."""
    points = points[np.isfinite(points[:, 0])]
    pieces = max(1, BEND // len(points))
    share = np.arange(pieces)[:, None, None] / pieces
    between = ((1.0 - share) * points[:-1] + share * points[1:]).swapaxes(0, 1).reshape(-1, 3)
    line = np.concatenate([between, points[-1:]])
    line /= np.linalg.norm(line, axis=1, keepdims=True)
    plane = np.column_stack(sphere.hammer(line))
    cuts = np.flatnonzero((line[1:, 1] * line[:-1, 1] < 0.0) & (line[1:, 0] < 0.0)) + 1
    return [part for part in np.split(plane, cuts) if len(part) > 1]


def draw_paths(figure: AnyFigure, run: Result, save: int = -1, shared: Saves = None) -> None:
    """Draw the paths of particles or units in the plane of their weights, as Bach & Chizat 2022,
    Fig. 2.

    A unit of weight w in direction θ lies at tanh(m w) θ, m units in all, up to a save: m w =
    |b||a|, from where balanced units of mass 1 start, is the black circle, and the rim is infinity.
    On S² two planes are shown. Dashed: the teacher's directions.
    """
    save = range(len(run.time))[save]
    normalised = (
        are_beyond(run.log_mass[[0, save, *shared]], HEAVY)
        if shared
        else is_normalised((run, 0), (run, save), largest=HEAVY)  # two saves of perhaps very many
    )
    figure.suptitle(time_of(run, save))
    tracks = Tracks(run, save, normalised)
    radius = np.tanh(tracks.weights * tracks.weights.shape[1])
    points = radius[..., None] * tracks.positions
    planes = [(0, k) for k in range(1, run.dim + 1)]
    wide = figure.bbox.width > figure.bbox.height
    axes = np.atleast_1d(
        figure.subplots(1, len(planes)) if wide else figure.subplots(len(planes), 1)
    )
    for ax, plane in zip(axes, planes, strict=True):
        _draw_disc(ax, [run.axis_names[k] for k in plane])
        _draw_teacher(ax, run, plane)
        for sign in run.signs:
            chosen = tracks.chosen(sign)
            lines = list(points[:, chosen][..., plane].swapaxes(0, 1))
            tracks.draw_lines(ax, lines, sign_color(sign, run.signs))
            ends = points[-1][chosen][:, plane]
            ax.scatter(
                *ends.T,
                s=6,
                color=sign_color(sign, run.signs),
                edgecolors="white",
                linewidths=0.2,
                zorder=3,
            )
    for sign in run.signs:
        axes[0].plot(
            [],
            [],
            color=sign_color(sign, run.signs),
            label=sign_name(sign) if len(run.signs) > 1 else "units",
        )
    if run.teacher_network is not None:
        axes[0].plot([], [], color="0.3", linestyle=(0, (4, 2)), linewidth=0.8, label="teacher")
    text = f"radius: tanh(m · weight{' in ν/|ν|' if normalised else ''})"
    legend_below(figure, axes[0], text)


def _draw_disc(ax, names):
    """The rim, the circle of weight 1, and marks of weights along a diagonal."""
    full = np.linspace(0.0, 2.0 * np.pi, 300)
    for weight, look in (
        (np.inf, {"color": "0.7", "linewidth": 0.6}),
        (1.0, {"color": "black", "linewidth": 0.8}),
    ):
        radius = np.tanh(weight)
        ax.plot(radius * np.cos(full), radius * np.sin(full), zorder=1, **look)
    for weight, text in ((0.5, "½"), (1.0, "1"), (np.inf, "∞")):
        end = np.tanh(weight) * np.exp(-0.25j * np.pi)
        ax.annotate(
            text,
            (end.real, end.imag),
            (2, -2),
            "data",
            "offset points",
            fontsize=6,
            color="0.4",
            va="top",
        )
        ax.plot(end.real, end.imag, ".", markersize=2, color="0.4")
    circle.label_directions(ax, 1.0, names)


def _draw_teacher(ax, run, plane):
    """The directions of a teacher's units as dashed rays, in the colours of their output signs; of
    θ = (a, b) those of balanced units."""
    joint = run.problem.objective.feature.joint
    for unit, output in zip(*(run.teacher_network or ((), ())), strict=True):
        sign, color = np.sign(output), "0.3"
        if joint:
            unit = np.append(unit / np.linalg.norm(unit), sign) / np.sqrt(2.0)
        elif sign in run.signs:
            color = sign_color(sign, run.signs)
        ax.plot(
            *np.outer(unit[list(plane)], (0.0, 1.0)),
            color=color,
            linestyle=(0, (4, 2)),
            linewidth=0.8,
            zorder=1.5,
        )
