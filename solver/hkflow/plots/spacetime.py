"""The circle in time: densities as columns of colour, particles as the lines that they draw."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..solving.result import Result
from ..store.shown import are_beyond, density_of, name_of
from . import circle
from .figures import AnyFigure, Saves
from .records import scale_time
from .shown import clipped, colors_of, draw_scale, sign_color, sign_name
from .tracks import Tracks

# longest over shortest time between saves from which time is shown on a logarithmic scale
UNEVEN = 20.0
TURN = 2.0 * np.pi


def draw_spacetime(figure: AnyFigure, run: Result, save: int = -1, shared: Saves = None) -> None:
    """Draw the measure at all saves over time and the angle of θ, a panel for each sign; particles
    by their mass in bins."""
    draw_columns(figure, run, panels(figure, run))


def draw_tracks(
    figure: AnyFigure,
    run: Result,
    save: int = -1,
    shared: Saves = None,
    under: Result | None = None,
) -> None:
    """Draw the angles of particles up to a save, over the density of a grid run `under` if there is
    one; dots at the save."""
    axes = panels(figure, run)
    if under is not None:
        draw_columns(figure, under, axes)
    save = range(len(run.time))[save]
    tracks = Tracks(run, save)
    angle = np.arctan2(tracks.positions[..., 1], tracks.positions[..., 0])
    for ax, sign in zip(axes, run.signs, strict=True):
        color = sign_color(sign, run.signs) if under is None else "white"
        chosen = tracks.chosen(sign)
        lines = [line for j in chosen for line in _pieces(run.time[: save + 1], angle[:, j])]
        tracks.draw_lines(ax, lines, color)
        now = np.full(len(chosen), run.time[save])
        look = {"linewidths": 0.3, "clip_on": False, "zorder": 3}
        tracks.draw_dots(ax, now, angle[-1, chosen], chosen, color, **look)


def _pieces(time, angle):
    """The line of one particle, (n, 2) arrays: cut where it leaves at one side of the frame and
    comes back at the other."""
    smooth = np.unwrap(angle)
    turns = np.floor((smooth + np.pi) / TURN)
    return [
        np.column_stack([time, smooth - TURN * turn])
        for turn in np.unique(turns[np.isfinite(turns)])
    ]


def panels(figure: AnyFigure, run: Result) -> Any:
    """Axes of time and angle, one for each sign, over one another."""
    axes = np.atleast_1d(figure.subplots(len(run.signs), 1, sharex=True))
    for ax, sign in zip(axes, run.signs, strict=True):
        circle.label_angles(ax, "y")
        if len(run.signs) > 1:
            ax.set_title(sign_name(sign), loc="left", pad=2, fontsize=7)
    time, gaps = run.time, np.diff(run.time)
    if len(time) > 2 and gaps.max() > UNEVEN * gaps.min() or run.flow.time_variable == "margin":
        scale_time(axes[-1], time)
    axes[-1].set_xlim(time[0], time[-1] if len(time) > 1 else time[0] + 1.0)
    axes[-1].set_xlabel("time t" if run.flow.clock == "t" else "smooth margin γ̃")
    return axes


def draw_columns(figure: AnyFigure, run: Result, axes: Iterable[Axes]) -> None:
    """The measure at each save as a column of colour, which reaches half way to its neighbours."""
    normalised = are_beyond(run.log_mass)
    if run.method == "grid":
        angle = circle.angles(run.mesh.centers)
        order = np.argsort(angle)
        columns = np.array([density_of(run, k, normalised)[:, order] for k in range(len(run.time))])
        half = np.pi / run.mesh.n_cells
        edges = np.append(angle[order] - half, angle[order[-1]] + half)
    else:
        found = [
            circle.histogram(run.atoms_at(k, normalised), run.signs, len(run.atoms_at(-1, True)))
            for k in range(len(run.time))
        ]
        columns, edges = np.array([heights for heights, _ in found]), found[0][1]
    norm, color_map, extend = colors_of(columns)
    middle = 0.5 * (run.time[1:] + run.time[:-1])
    time = np.concatenate(
        [run.time[:1], middle, run.time[-1:] if len(run.time) > 1 else run.time[:1] + 1.0]
    )
    for s, ax in enumerate(axes):
        values = clipped(columns[:, s].T, norm)
        image = ax.pcolormesh(
            time, edges, values, norm=norm, cmap=color_map, rasterized=True, zorder=0
        )
    draw_scale(figure, image, axes, f"density {name_of(normalised)}", extend)
