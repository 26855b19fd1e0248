"""One picture of a run: what it predicts, where the mass is, and what was recorded."""

from importlib.resources import as_file, files
from pathlib import Path

import matplotlib
import numpy as np

from ..errors import RunFolderError
from . import circle, records, sphere
from .decision import draw_predictions

FORMATS = (".pdf", ".png", ".svg")


def save_overview(run, path=None):
    """Write the overview of a run and return its path: .png, .pdf or .svg, by default RUN/overview.png.

    Raises RunFolderError if the run holds no save yet or the format is unknown.
    """
    folder = run.path if run.path.is_dir() else run.path.parent
    path = Path(path or folder / "overview.png")
    if path.suffix not in FORMATS:
        raise RunFolderError(f"{path}: unknown picture format '{path.suffix}'. Choose from: {', '.join(FORMATS)}.")
    if len(run.time) == 0:
        raise RunFolderError(f"{run.path}: holds no save yet, so there is nothing to draw.")
    from matplotlib.figure import Figure

    with as_file(files(__package__) / "hkflow.mplstyle") as style, matplotlib.rc_context(fname=style):
        figure = draw_overview(Figure(figsize=(7.1, 5.0), layout="constrained"), run)
        figure.savefig(path)
    return path


def draw_overview(figure, run):
    """Four panels and a title on an empty figure."""
    title = run.header["title"] or "hkflow"
    figure.suptitle(f"{title}\nt = {run.time[-1]:g}", fontsize=9)
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.25, 1.0))
    left, right = top.subfigures(1, 2)
    if run.problem.exact is None:
        draw_predictions(left.subplots(), run)
    else:
        _draw_exact(left.subplots(), run)
    density = run.density_at(-1)
    if run.mesh.dim == 1:
        circle.draw_density(right.subplots(), run.mesh, density, run.signs, run.density_at(0))
    else:
        axes = np.atleast_1d(right.subplots(len(run.signs), 1))
        labels = ["density ν"] if len(run.signs) == 1 else [f"hidden units with output sign {'+' if s > 0 else '−'}1" for s in run.signs]
        sphere.draw_density(axes, run.mesh, density, labels, run.axis_names)
    energy, residuals = bottom.subplots(1, 2)
    records.draw_energy(energy, run.records)
    records.draw_residuals(residuals, run.records)
    return figure


def _draw_exact(ax, run):
    """Computed cell values over the closed-form solution, along its axis."""
    exact = run.problem.exact
    u = run.mesh.centers @ exact.direction
    order = np.argsort(u)
    ax.plot(u, run.density_at(-1)[0], ".", markersize=2, color="C1", label="cells", rasterized=True)
    ax.plot(u[order], exact.density(run.mesh.centers[order], run.time[-1]), color="C0", label="exact")
    l1, largest = run.exact_errors()
    ax.set_title(f"relative L¹ error {l1[-1]:.2e}, maximum {largest[-1]:.2e}")
    ax.set_xlabel("u = e·θ")
    ax.set_ylabel("density ν")
    ax.legend()
