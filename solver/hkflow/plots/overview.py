"""One picture of a run: what it predicts, where the mass is, and what was recorded."""

from importlib.resources import as_file, files
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from ..errors import RunFolderError
from ..store.shown import density_of, is_normalised, name_of
from . import atoms, circle, coordinates, records, sphere
from .decision import draw_predictions

FORMATS = (".pdf", ".png", ".svg")


def save_overview(run, path=None):
    """Write the overview of a run and return its path: .png, .pdf or .svg, by default RUN/overview.png."""
    folder = run.path if run.path.is_dir() else run.path.parent
    return save_figure(draw_overview, run, path or folder / "overview.png", (7.1, 5.0))


def save_figure(draw, run, path, size):
    """Write what draw(figure, run) draws, see `write_figure`. Raises RunFolderError if the run holds no save yet."""
    if len(run.time) == 0:
        raise RunFolderError(f"{run.path}: holds no save yet, so there is nothing to draw.")
    return write_figure(lambda figure: draw(figure, run), path, size)


def write_figure(draw, path, size):
    """Write what draw(figure) draws, in the project's style, on a figure of `size` inches; returns the path.

    Raises RunFolderError if the format is unknown or the file cannot be written.
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise RunFolderError(f"{path}: unknown picture format '{path.suffix}'. Choose from: {', '.join(FORMATS)}.")
    with as_file(files(__package__) / "hkflow.mplstyle") as style, matplotlib.rc_context(fname=style):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        try:
            figure.savefig(path)
        except OSError as error:
            raise RunFolderError(f"{path}: the picture cannot be written ({error.strerror}).") from error
    return path


def draw_overview(figure, run):
    """Four panels and a title on an empty figure."""
    title = run.header["title"] or "hkflow"
    figure.suptitle(f"{title}\n{'t' if run.case.flow.clock == 'time' else 'γ̃'} = {run.time[-1]:g}", fontsize=9)
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.25, 1.0))
    left, right = top.subfigures(1, 2)
    if run.problem.exact is None or run.method != "grid":
        draw_predictions(left.subplots(), run)
    else:
        _draw_exact(left.subplots(), run)
    draw_final_density(right, run)
    clock, proves = run.case.flow.clock, np.isfinite(run.records.get("margin_upper", np.inf)).any()
    energy, residuals, *proof = bottom.subplots(1, 3 if proves else 2)
    records.draw_energy(energy, run.records, clock)
    records.draw_residuals(residuals, run.records, clock)
    if proves:
        records.draw_margins(proof[0], run.records, clock)


def draw_final_density(figure, run):
    """The measure at the last save on an empty figure, or ν/|ν| where its mass is beyond numbers.

    Unrolled on the circle, one projection for each sign on S², bars for atoms.
    """
    last = len(run.time) - 1
    normalised = is_normalised((run, 0), (run, last))
    nu = name_of(normalised)
    if run.is_discrete:
        coordinates.draw_weights(figure.subplots(), run.atoms_at(last, normalised), run.input_names, nu)
    elif run.dim == 1 and run.method == "grid":
        final, initial = (density_of(run, save, normalised) for save in (last, 0))
        circle.draw_density(figure.subplots(), run.mesh, final, run.signs, initial, nu)
    elif run.dim == 1:
        circle.draw_atoms(figure.subplots(), run.atoms_at(last, normalised), run.signs, nu)
    elif run.dim == 2:
        axes = np.atleast_1d(figure.subplots(len(run.signs), 1))
        labels = [f"measure {nu}"] if len(run.signs) == 1 else [f"output sign {'+' if s > 0 else '−'}1" for s in run.signs]
        if run.method == "grid":
            sphere.draw_density(axes, run.mesh, density_of(run, last, normalised), labels, run.axis_names, nu)
        else:
            sphere.draw_atoms(axes, run.atoms_at(last, normalised), run.signs, labels, run.axis_names)
    else:
        atoms.draw_atoms(figure.subplots(), run.atoms_at(last, normalised), run.signs)


def _draw_exact(ax, run):
    """Computed cell values over the closed-form solution, along its axis."""
    exact = run.problem.exact
    u = run.mesh.centers @ exact.direction
    order = np.argsort(u)
    ax.plot(u[order], exact.density(run.mesh.centers[order], run.time[-1]), color="C0", linewidth=3.0, label="exact")
    ax.plot(u, density_of(run, -1)[0], ".", markersize=1, color="C1", label="cells", rasterized=True)
    l1, largest = run.exact_errors()
    ax.set_title(f"relative L¹ error {l1[-1]:.2e}, maximum {largest[-1]:.2e}")
    ax.set_xlabel("u = e·θ")
    ax.set_ylabel("density ν")
    ax.legend()
