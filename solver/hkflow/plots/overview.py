"""One picture of a run: what it predicts, where the mass is, and what was recorded."""

from pathlib import Path

import numpy as np

from ..solving.result import Result, ResultLike
from ..store.shown import density_of
from . import records
from .decision import draw_predictions
from .density import draw_measure
from .figures import AnyFigure, Saves
from .shown import plain, time_of


def save_overview(run: ResultLike, path: str | Path | None = None) -> Path:
    """Write the overview of a run and return its path: .png, .pdf, .svg or .pgf, by default
    RUN/overview.png."""
    from .kinds import write

    return write("overview", run, path)


def draw_overview(figure: AnyFigure, run: Result, save: int = -1, shared: Saves = None) -> None:
    """Four or five panels and a title on an empty figure."""
    title = plain(run.title or run.stem)
    figure.suptitle(f"{title}\n{time_of(run, -1)}{_error(run)}", fontsize=9, wrap=True)
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.25, 1.0))  # type: ignore[misc]
    left, right = top.subfigures(1, 2)
    if not run.predicts:
        draw_measure(left, run, 0, title=False)
        left.suptitle("at the start", fontsize=9)
        right.suptitle("at the end", fontsize=9)
    elif run.problem.exact is None or run.method != "grid":
        draw_predictions(left.subplots(), run)
    else:
        _draw_exact(left.subplots(), run)
    draw_measure(right, run, title=False)
    time_variable, proves = run.flow.time_variable, records.has_margins(run)
    tested = "test_error" in run.records
    energy, residuals, *more = bottom.subplots(1, 2 + proves + tested)
    records.draw_energy(energy, run.records, time_variable)
    records.shade_errors(energy, run, "objective")
    records.draw_residuals(residuals, run.records, time_variable)
    if proves:
        records.draw_margins(more[0], run.records, time_variable, run.max_margin)
        records.shade_errors(more[0], run, "margin")
    if tested:
        records.draw_test(more[-1], run.records, time_variable)


def _error(run):
    """The error bar of the predictions in words, or "" without one."""
    bars = run.errors
    if bars is None or "predictions" not in bars.bars:
        return ""
    bar = bars["predictions"][-1]
    extent = 0.0 if bars.normalised else np.ptp(run.predictions[-1])
    share = f" ({100.0 * bar / extent:.2g} % of their range)" if extent > 0.0 else ""
    return f",  {bars.label('predictions')} ± {bar:.2g}{share}"


def _draw_exact(ax, run):
    """Computed cell values over the closed-form solution, along its axis."""
    exact = run.problem.exact
    u = run.mesh.centers @ exact.direction
    order = np.argsort(u)
    ax.plot(
        u[order],
        exact.density(run.mesh.centers[order], run.time[-1]),
        color="C0",
        linewidth=3.0,
        label="exact",
    )
    ax.plot(
        u, density_of(run, -1)[0], ".", markersize=1, color="C1", label="cells", rasterized=True
    )
    l1, largest = run.exact_errors()
    ax.set_title(f"relative L¹ error {l1[-1]:.2e}, maximum {largest[-1]:.2e}")
    ax.set_xlabel("u = e·θ")
    ax.set_ylabel("density ν")
    ax.legend()
