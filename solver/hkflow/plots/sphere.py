"""Densities and atoms on S², on the plane by Hammer's equal-area projection."""

import numpy as np
from matplotlib.colors import LogNorm, SymLogNorm
from matplotlib.patches import Ellipse
from scipy.spatial import cKDTree

DECADES = 4  # shown below the largest density
SIGNED_DECADES = 2  # shown below the largest size of a density of both signs


def hammer_points(width=720):
    """Pixels of the projection, x in [−2√2, 2√2], y in [−√2, √2], as points of S².

    Returns points (width/2, width, 3) and the mask of the pixels inside the ellipse.
    """
    root = np.sqrt(2.0)
    x = np.linspace(-2 * root, 2 * root, width)[None, :]
    y = np.linspace(-root, root, width // 2)[:, None]
    inside = (x / (2 * root)) ** 2 + (y / root) ** 2 < 1.0
    z = np.sqrt(np.maximum(1.0 - (x / 4) ** 2 - (y / 2) ** 2, 0.5))
    longitude = 2.0 * np.arctan2(z * x, 2.0 * (2.0 * z**2 - 1.0))
    latitude = np.arcsin(np.clip(z * y, -1.0, 1.0))
    cosine = np.cos(latitude)
    return np.stack([cosine * np.cos(longitude), cosine * np.sin(longitude), np.sin(latitude)], axis=-1), inside


def draw_density(axes, mesh, densities, labels, names=("θ₁", "θ₂", "θ₃"), nu="ν"):
    """Draw densities (n_cells,) on one projection each, with a common logarithmic colour scale, in both directions if signed.

    Every pixel takes the value of the cell that it lies in: Voronoi cells are the sets nearest to their centres.
    labels: a title each;  names: of the three coordinate axes;  nu: what the densities are of
    """
    points, inside = hammer_points()
    _, cell = cKDTree(mesh.centers).query(points[inside])
    signed = any(density.min() < 0.0 for density in densities)
    largest = max(np.abs(density).max() for density in densities) or 1.0
    if signed:
        norm, lowest, colors = SymLogNorm(largest * 10.0**-SIGNED_DECADES, vmin=-largest, vmax=largest), -largest, "PuOr_r"
    else:
        norm, lowest, colors = LogNorm(largest * 10.0**-DECADES, largest), largest * 10.0**-DECADES, None
    root = np.sqrt(2.0)
    for ax, density, label in zip(axes, densities, labels, strict=True):
        picture = np.full(inside.shape, np.nan)
        picture[inside] = np.maximum(density[cell], lowest)
        extent = (-2 * root, 2 * root, -root, root)
        image = ax.imshow(picture, origin="lower", extent=extent, norm=norm, cmap=colors, interpolation="nearest")
        draw_frame(ax, label, names, "0.3" if signed else "white")
    extend = "neither" if signed else "min"
    bar = axes[0].figure.colorbar(image, ax=list(axes), shrink=0.75, pad=0.02, extend=extend)
    bar.set_label(f"density {nu}")
    return image


def hammer(points):
    """Points (n, 3) of S² in the plane of the projection. Returns x, y."""
    longitude, latitude = np.arctan2(points[:, 1], points[:, 0]), np.arcsin(np.clip(points[:, 2], -1.0, 1.0))
    size = np.sqrt(1.0 + np.cos(latitude) * np.cos(longitude / 2))
    return 2 * np.sqrt(2.0) * np.cos(latitude) * np.sin(longitude / 2) / size, np.sqrt(2.0) * np.sin(latitude) / size


def draw_atoms(axes, atoms, signs, labels, names=("θ₁", "θ₂", "θ₃")):
    """Draw the atoms of each sign as dots with areas in proportion to their weights, on one projection each.

    labels: a title each;  names: of the three coordinate axes
    """
    for s, (ax, sign, label) in enumerate(zip(axes, signs, labels, strict=True)):
        positions, weights = atoms.sheet(sign)
        draw_frame(ax, label, names, "0.3")
        ax.scatter(
            *hammer(positions), s=dot_areas(weights, atoms.weights), color=f"C{s}", alpha=0.5, linewidths=0, rasterized=True
        )


def dot_areas(weights, all_weights):
    """Areas of dots: the dots of all atoms together cover a fixed area, none more than a hundredth of it."""
    return np.minimum(4000.0 * weights / all_weights.sum(), 40.0)


def draw_frame(ax, label, names, color):
    """The outline of the projection and the names of the axes, those inside in a colour that shows on what is drawn there."""
    root = np.sqrt(2.0)
    ax.set_aspect("equal")
    ax.add_patch(Ellipse((0, 0), 4 * root, 2 * root, fill=False, linewidth=0.6, color="0.3"))
    ax.set_title(label, pad=14)
    ax.axis("off")
    marks = [(0, 0, "+" + names[0]), (root * 1.0824, 0, "+" + names[1]), (-root * 1.0824, 0, "−" + names[1])]
    marks += [(0, root, "+" + names[2]), (0, -root, "−" + names[2])]
    for x, y, text in marks:
        below = y < 0
        ax.annotate(
            text, (x, y), textcoords="offset points", xytext=(0, -3 if below else 3), fontsize=6, ha="center",
            va="top" if below else "bottom", color=color if y == 0 else "0.3",
        )  # fmt: skip
        ax.plot(x, y, ".", markersize=2, color=color if y == 0 else "0.3")
