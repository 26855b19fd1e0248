"""The measure of characteristics on the circle and S²: its density at every pixel, and what kinks
have caught as stems and dots."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..geometry.circle import circle_mesh
from ..geometry.point_sets import quasi_uniform
from ..geometry.sphere import normalize
from ..methods.frozen_relu.movement import room_of
from ..solving.result import Result
from ..store.shown import density_at, name_of
from . import circle, sphere
from .figures import AnyFigure
from .shown import SEEN, colors_of, draw_scale, sheet_names, sheets, sign_color

# kinks that are looked at for one picture, about a second; points are fewer where there is more
# history
WORK = 3e8
ANGLES = (360, 5760)  # points of the circle, at least and at most
PIXELS = (80, 1600)  # of the width of a map
INSIDE = np.pi / 8.0  # share of a map's width² that are pixels of the sphere
# points that the colours of other saves are found from, and atoms that crossings are counted of
SAMPLE = 1000
SAME = 1e-9  # radians between atoms that make one stem


def is_traced(run: Result) -> bool:
    """Whether the measure of a run is drawn so."""
    return run.method == "characteristics" and run.domain.in_space and run.has_density


def draw_traced(
    figure: AnyFigure,
    run: Result,
    save: int,
    shared: Sequence[int],
    normalised: bool,
    width: int | None = None,
) -> None:
    """Draw the measure at a save, from 0, on an empty figure, or ν/|ν|.

    shared : saves that have colours and axes in common with this one
    width : pixels of a map, points of the circle; by default as many as a second allows
    """
    draw = _draw_circle if run.domain.picture == "circle" else _draw_maps
    draw(figure, run, save, shared, normalised, width)


def map_width(run: Result, save: int, pixels: tuple[int, int], maps: int = 1) -> int:
    """Pixels of the width of each of so many maps for a sign, within bounds."""
    return int(np.clip(np.sqrt(_affordable(run, save) / (maps * INSIDE)), *pixels))


def _affordable(run: Result, save: int) -> float:
    """How many points of each sign a picture of a run by characteristics can have."""
    inputs, state = run.problem.objective.inputs, run.state_at(save)
    some = [of["positions"][:SAMPLE] for of in (run.state_at(0), state)]
    sides = [positions @ inputs.T > 0.0 for positions in some]
    crossed = np.count_nonzero(sides[0] != sides[1]) / max(len(some[0]), 1)
    # all kinks are looked at in each flow; after each that is crossed those near, or all
    count = len(inputs)
    near = room_of(count) or count
    looks = max(len(run.flows_at(save, gathered=True)), 1) * (count + 8.0) + crossed * (near + 8.0)
    return WORK / (len(run.signs) * looks)


@lru_cache(maxsize=SEEN)
def _at_few(run, save, normalised):
    """ν or ν/|ν| at few points, (n_signs, n), from which colours and axes are found: all pictures
    of a film ask for the same."""
    on_circle = run.domain.picture == "circle"
    points = circle_mesh(ANGLES[0]).centers if on_circle else quasi_uniform(SAMPLE, 2)
    return density_at(run, save, points, normalised)


def _draw_circle(figure, run, save, shared, normalised, count):
    ax, nu = figure.subplots(), name_of(normalised)
    count = count or int(np.clip(_affordable(run, save), *ANGLES))
    mesh = circle_mesh(count)
    others = [_at_few(run, k, normalised) for k in shared if k != save]
    initial = density_at(run, 0, mesh.centers, normalised) if save else None
    now = density_at(run, save, mesh.centers, normalised)
    start = run.flow.clock, run.time[0]
    circle.draw_density(ax, mesh, now, run.signs, initial, nu, start, others)
    caught = run.captured_at(save, normalised)
    if not len(caught):
        return
    twin = ax.twinx()
    for sign in run.signs:
        positions, weights = caught.sheet(sign)
        places, masses = _heaps(circle.angles(positions), weights)
        color = sign_color(sign, run.signs)
        twin.vlines(places, 0.0, masses, color=color, linewidth=1.0)
        twin.plot(places, masses, "o", color=color, markersize=2.5)
    twin.set_ylim(0.0, 1.1 * sum(caught.weights) or 1.0)
    twin.set_ylabel(f"mass of {nu} that kinks hold")


def _heaps(angles, weights):
    """Angles where atoms lie, and the mass at each."""
    if not len(angles):
        return angles, weights
    order = np.argsort(angles)
    starts = np.append(0, np.flatnonzero(np.diff(angles[order]) > SAME) + 1)
    return angles[order][starts], np.add.reduceat(weights[order], starts)


def _draw_maps(figure, run, save, shared, normalised, width):
    axes, nu = sheets(figure, run.signs), name_of(normalised)
    labels = sheet_names(run.signs)
    width = width or map_width(run, save, PIXELS)
    points, inside = sphere.hammer_points(width)
    densities = density_at(run, save, normalize(points[inside]), normalised)
    others = [_at_few(run, k, normalised) for k in shared if k != save]
    norm, map_name, extend = colors_of([densities, *others])
    caught = run.captured_at(save, normalised)
    everything = run.atoms_at(save, normalised)
    for ax, sign, density, label in zip(axes, run.signs, densities, labels, strict=True):
        image = sphere.draw_pixels(ax, inside, density, norm, map_name)
        sphere.draw_frame(ax, label, run.axis_names, "white")
        positions, weights = caught.sheet(sign)
        area = sphere.dot_areas(weights, everything.weights)
        ax.scatter(
            *sphere.hammer(positions), s=area, color="C3", linewidths=0, zorder=3, rasterized=True
        )
    circled = sphere.CIRCLED if sphere.draw_peaks(axes, everything, run.signs) else ""
    draw_scale(figure, image, axes, f"density {nu}{circled}", extend)
