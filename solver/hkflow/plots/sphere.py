"""Densities and atoms on S², on the plane by Hammer's equal-area projection.

Cells are shown as they are, without interpolation: as polygons, which stay sharp at any size, where
there are few, and pixel by pixel, each with the value of the cell that it lies in, where there are
many.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.patches import Ellipse
from numpy.typing import NDArray

from ..arguments import Floats, Integers
from ..geometry.mesh import Mesh
from ..geometry.sphere import normalize
from ..geometry.transfer import corner_table, nearest_cells, neighbor_table
from ..measures.point_measure import PointMeasure
from .shown import Colors, clipped, colors_of, draw_scale, sheet_names, sign_color

FEW = 3000  # cells that are drawn as polygons
INCH = 300  # pixels of an inch of the figure where there are more cells, as in files of pictures
MOST_PIXELS = 1600  # of the width of a map
BEND = 0.05  # radians of an edge of a cell that are drawn straight
ON_CUT = 1e-12  # coordinates that count as 0
ROOT = np.sqrt(2.0)
PEAK, DENSE, MANY = 0.005, 5.0, 200  # share and density from which a peak is one; most looked at
CIRCLED = ", ○: peaks"  # beside the scale of colours
RADIUS, SPACINGS = 0.06, 1.2  # of a peak, at least: in radians, and in distances between cells
AREA, AREAS = 600.0, (8.0, 120.0)  # points² of the circle of all the mass; least and largest
EXTENT = (-2 * ROOT, 2 * ROOT, -ROOT, ROOT)


def hammer_points(width: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Pixels of the projection, x in [−2√2, 2√2], y in [−√2, √2], as points of S².

    Returns points (width/2, width, 3) and the mask of the pixels inside the ellipse.
    """
    x = np.linspace(*EXTENT[:2], width)[None, :]
    y = np.linspace(*EXTENT[2:], width // 2)[:, None]
    inside = (x / (2 * ROOT)) ** 2 + (y / ROOT) ** 2 < 1.0
    z = np.sqrt(np.maximum(1.0 - (x / 4) ** 2 - (y / 2) ** 2, 0.5))
    longitude = 2.0 * np.arctan2(z * x, 2.0 * (2.0 * z**2 - 1.0))
    latitude = np.arcsin(np.clip(z * y, -1.0, 1.0))
    cosine = np.cos(latitude)
    return (
        np.stack(
            [cosine * np.cos(longitude), cosine * np.sin(longitude), np.sin(latitude)], axis=-1
        ),
        inside,
    )


def hammer(points: Floats) -> tuple[Floats, Floats]:
    """Points (n, 3) of S² in the plane of the projection. Returns x, y."""
    longitude, latitude = (
        np.arctan2(points[:, 1], points[:, 0]),
        np.arcsin(np.clip(points[:, 2], -1.0, 1.0)),
    )
    size = np.sqrt(1.0 + np.cos(latitude) * np.cos(longitude / 2))
    return (
        2 * ROOT * np.cos(latitude) * np.sin(longitude / 2) / size,
        ROOT * np.sin(latitude) / size,
    )


@lru_cache(maxsize=2)
def cell_polygons(mesh: Mesh) -> tuple[list[Floats], Integers]:
    """The cells in the plane of the projection: a list of polygons (k, 2), and the cell of each;
    cut cells have two."""
    polygons, owners = [], []
    table, counts = corner_table(mesh)
    for cell, (row, count) in enumerate(zip(table, counts, strict=True)):
        outline = mesh.vertices[row[:count]]
        parts = [_bent(outline)]
        if outline[:, 0].min() < 0.0:  # perhaps where the map is cut open
            parts = [
                _half(parts[0], side)
                for side in (1.0, -1.0)
                if (side * outline[:, 1]).max() > ON_CUT
            ]
        polygons += [np.column_stack(hammer(part)) for part in parts]
        owners += [cell] * len(parts)
    return polygons, np.array(owners)


@lru_cache(maxsize=2)
def cell_pixels(mesh: Mesh, width: int) -> tuple[NDArray[np.bool_], Integers]:
    """The mask of the pixels of a map of so many along its width, and the cell of each."""
    points, inside = hammer_points(width)
    cells = np.empty(np.count_nonzero(inside), dtype=np.int64)
    nearest_cells(points[inside], neighbor_table(mesh), mesh.centers, cells)
    return inside, cells


def _bent(corners):
    """The corners of a spherical polygon and points between them, so that no piece of an edge is
    longer than BEND."""
    return np.concatenate(
        [_arc(a, b) for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)]
    )


def _arc(a, b):
    """Points from a to b on a great circle, without b: BEND apart at most, and closer at a pole,
    where the map turns lines."""
    from_pole = 0.5 * np.hypot(*(a + b)[:2]) + ON_CUT
    pieces = np.clip(np.ceil(np.linalg.norm(b - a) / min(BEND, 0.2 * from_pole)), 1.0, 40.0)
    share = np.arange(pieces)[:, None] / pieces
    return normalize((1.0 - share) * a + share * b)


def _half(outline, side):
    """The part of a polygon with side·y ≥ 0, its points on the cut on that side of the map, by way
    of a pole inside it."""
    outline = np.where(np.abs(outline) < ON_CUT, 0.0, outline)
    points = []
    for a, b in zip(outline, np.roll(outline, -1, axis=0), strict=True):
        if side * a[1] >= 0.0:
            points.append(a)
        if a[1] * b[1] < 0.0:
            points.append((a[1] * b - b[1] * a) / (a[1] - b[1]) * (1.0, 0.0, 1.0))
    closed, whole = normalize(np.array([*points, points[0]])), []
    for a, b in zip(closed[:-1], closed[1:], strict=True):
        through_pole = a[1] == b[1] == 0.0 and a[0] * b[0] < 0.0
        stops = [a, np.array([0.0, 0.0, np.sign(a[2] + b[2])]), b] if through_pole else [a, b]
        whole += [_arc(*pair) for pair in zip(stops[:-1], stops[1:], strict=True)]
    whole = np.concatenate(whole)
    whole[:, 1] = np.copysign(whole[:, 1], side)
    return whole


def draw_density(
    axes: NDArray[np.object_],
    mesh: Mesh,
    densities: Collection[Floats],
    labels: Sequence[str],
    names: Sequence[str],
    nu: str = "ν",
    colors: Colors | None = None,
    peaked: bool = False,
) -> ScalarMappable:
    """Draw densities (n_cells,) on one projection each, with a common logarithmic colour scale, in
    both directions if signed.

    labels : a title each;  names : of the three coordinate axes;  nu : what the densities are of
    colors : the Colors, by default those that suit these densities;  peaked : whether circles on
        the maps are to be explained
    """
    norm, map_name, extend = colors or colors_of(densities)
    signed = norm.vmin < 0.0
    if mesh.n_cells <= FEW:
        polygons, cell = cell_polygons(mesh)
    else:
        inches = axes[0].figure.bbox.width / axes[0].figure.dpi
        inside, cell = cell_pixels(mesh, min(round(INCH * inches), MOST_PIXELS))
    for ax, density, label in zip(axes, densities, labels, strict=True):
        values = clipped(density, norm)[cell]
        if mesh.n_cells <= FEW:
            image: Any = PolyCollection(
                polygons, array=values, norm=norm, cmap=map_name, edgecolors="face", linewidths=0.25
            )
            ax.add_collection(image)
        else:
            image = draw_pixels(ax, inside, values, norm, map_name)
        draw_frame(ax, label, names, "0.3" if signed else "white")
    draw_scale(axes[0].figure, image, axes, f"density {nu}{CIRCLED if peaked else ''}", extend)
    return image


def draw_pixels(
    ax: Axes, inside: NDArray[np.bool_], values: Floats, norm: Any, map_name: str | None
) -> ScalarMappable:
    """Draw values at the pixels of the projection that are inside, see hammer_points."""
    picture = np.full(inside.shape, np.nan)
    picture[inside] = clipped(values, norm)
    return ax.imshow(
        picture,
        origin="lower",
        extent=EXTENT,
        norm=norm,
        cmap=map_name,
        interpolation="nearest",
    )


def draw_atoms(
    axes: NDArray[np.object_],
    atoms: PointMeasure,
    signs: Collection[float],
    names: Sequence[str],
) -> None:
    """Draw the atoms of each sign as dots with areas in proportion to their weights, on one
    projection each.

    names : of the three coordinate axes
    """
    for ax, sign, label in zip(axes, signs, sheet_names(signs), strict=True):
        positions, weights = atoms.sheet(sign)
        draw_frame(ax, label, names, "0.3")
        area = dot_areas(weights, atoms.weights)
        ax.scatter(
            *hammer(positions),
            s=area,
            color=sign_color(sign, signs),
            alpha=0.5,
            linewidths=0,
            rasterized=len(weights) > FEW,
        )


def peaks(atoms: PointMeasure) -> PointMeasure:
    """What has gathered in few directions, as one atom for each: PEAK of the mass or more, DENSE
    times as much as there would be if it were spread, and alone.

    It is alone if twice as far around it there is less than twice as much; on a smooth hill there
    is four times as much.
    atoms : any measure, a density as an atom for each cell
    """
    total, found = np.abs(atoms.weights).sum() or 1.0, []
    signs = np.unique(atoms.signs)
    for sign in signs:
        positions, weights = atoms.sheet(sign)
        radius = max(RADIUS, SPACINGS * np.sqrt(4.0 * np.pi / len(weights)))
        least = max(PEAK, DENSE * radius**2 / (4.0 * len(signs)))
        shares = np.abs(weights) / total
        left = shares.copy()
        for _ in range(MANY):
            if left.sum() < least or left.max() == 0.0:
                break
            # half the squared chord
            depth = 1.0 - positions @ positions[np.argmax(left)]
            near = depth <= 0.5 * radius**2
            share, around = left[near].sum(), shares[depth <= 2.0 * radius**2].sum()
            if share >= least and around < 2.0 * share:
                found.append((*(left[near] @ positions[near] / share), sign, share * total))
            left[near] = 0.0
    table = np.array(found).reshape(-1, atoms.positions.shape[1] + 2)
    return PointMeasure(normalize(table[:, :-2]), table[:, -2], table[:, -1])


def draw_peaks(axes: Iterable[Axes], atoms: PointMeasure, signs: Collection[float]) -> bool:
    """Circle the peaks of a measure on maps of its density, with areas in proportion to their
    masses; whether there are any."""
    found = peaks(atoms)
    areas = np.abs(found.weights) / (np.abs(atoms.weights).sum() or 1.0) * AREA
    for ax, sign in zip(axes, signs, strict=True):
        mine = found.signs == sign
        ax.scatter(
            *hammer(found.positions[mine]),
            s=np.clip(areas[mine], *AREAS),
            facecolors="none",
            edgecolors="white",
            linewidths=0.8,
            zorder=3.5,
            path_effects=[patheffects.withStroke(linewidth=1.4, foreground="0.2")],
        )
    return len(found) > 0


def dot_areas(weights: Floats, all_weights: Floats) -> Floats:
    """Areas of dots: the dots of all atoms together cover a fixed area, none more than a hundredth
    of it."""
    return np.minimum(4000.0 * weights / (all_weights.sum() or 1.0), 40.0)


def draw_frame(ax: Axes, label: str, names: Sequence[str], color: str) -> None:
    """The outline of the projection, a title in the corner that it leaves free, and the names of
    the axes.

    color : of what is written inside, so that it shows on what is drawn there
    """
    ax.set_aspect("equal")
    ax.set_xlim(-1.01 * 2 * ROOT, 1.01 * 2 * ROOT)
    ax.set_ylim(-1.01 * ROOT, 1.01 * ROOT)
    ax.add_patch(
        Ellipse((0, 0), 4 * ROOT, 2 * ROOT, fill=False, linewidth=0.8, color="0.3", zorder=3)
    )
    ax.set_title(label, loc="left", fontsize=7, pad=2)
    ax.axis("off")
    marks = [
        (0, 0, "+" + names[0]),
        (ROOT * 1.0824, 0, "+" + names[1]),
        (-ROOT * 1.0824, 0, "−" + names[1]),
    ]
    marks += [(0, ROOT, "+" + names[2]), (0, -ROOT, "−" + names[2])]
    halo = [patheffects.withStroke(linewidth=1.5, foreground="white")] if color != "white" else None
    for x, y, text in marks:
        below = y < 0
        ax.annotate(
            text, (x, y), textcoords="offset points", xytext=(0, -3 if below else 3), fontsize=6,
            ha="center", va="top" if below else "bottom", color=color if y == 0 else "0.3",
            zorder=4, path_effects=halo,
        )  # fmt: skip
        ax.plot(x, y, ".", markersize=2, color=color if y == 0 else "0.3", zorder=4)
