"""Draw the density of a run by characteristics on S² at a million points of a window, and what its
kinks hold: python postprocess/zoom.py RUN PICTURE.png [SIGN [DEGREES]]

The window lies around the heaviest of the atoms that kinks hold and those near it. Its map is
gnomonic, so that kinks, great circles, are straight lines.
"""

import sys

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from hkflow import load
from hkflow.plots import COLUMN, style

SIDE = 1024  # points of the window on each side

if len(sys.argv) < 3:
    sys.exit(__doc__)
run, picture, *rest = load(sys.argv[1]), *sys.argv[2:]
sign, degrees = (float(value) for value in [*rest, *("1", "40")[len(rest) :]])
positions, weights = run.captured_at(-1).sheet(sign)
heavy, by = (positions, weights) if len(weights) else run.atoms_at(-1).sheet(sign)
near = heavy @ heavy[np.argmax(by)] > np.cos(np.radians(0.5 * degrees))
center = by[near] @ heavy[near]
center /= np.linalg.norm(center)
right = np.cross([0.0, 0.0, 1.0], center)
right /= np.linalg.norm(right)
up, half = np.cross(center, right), np.tan(np.radians(0.5 * degrees))

x, y = np.meshgrid(*2 * [np.linspace(-half, half, SIDE)])
points = center + x[..., None] * right + y[..., None] * up
density = run.density_at(points.reshape(-1, 3), sign=sign).reshape(SIDE, SIDE)
seen = positions @ center > 0.0
held = positions[seen] / (positions[seen] @ center)[:, None]

with style():
    figure = Figure(figsize=(COLUMN, 0.85 * COLUMN), layout="constrained")
    ax = figure.subplots()
    # spikes where kinks were just met are higher still; kinks may hold all mass here
    largest = np.quantile(density, 0.9999) or 1.0
    norm = LogNorm(1e-4 * largest, largest)
    seen_density = np.clip(density, norm.vmin, norm.vmax)
    image = ax.imshow(seen_density, norm=norm, origin="lower", extent=(-half, half) * 2)
    area = 300.0 * weights[seen] / by.sum()
    ax.scatter(held @ right, held @ up, s=area, color="C3", linewidths=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set(xlim=(-half, half), ylim=(-half, half), xticks=[], yticks=[])
    ax.set_title(f"t = {run.time[-1]:g}, {degrees:g}° wide", loc="left")
    figure.colorbar(image, label="density ν", extend="both")
    figure.savefig(picture)
