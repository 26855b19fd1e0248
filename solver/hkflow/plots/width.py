"""Networks of other random starts beside infinite width."""

import numpy as np

from ..solving.registry import RECORDS
from ..solving.result import Result
from .figures import AnyFigure, Saves, legend_below
from .records import draw_time, scale_values


def unfit(run: Result) -> str:
    """Why it cannot be drawn of a run, as the end of "…, but this run …", or ""."""
    if run.repeats is None:
        return "has none: method.repeats = 10 of a network makes them"
    return "" if len(run.repeats) > 1 else f"has none: {run.repeats.remark}"


def draw_width(figure: AnyFigure, run: Result, save: int = -1, shared: Saves = None) -> None:
    """Objective over time, two standard deviations of single networks, the confidence band of their
    mean and infinite width; and how far predictions are from those of infinite width."""
    found = run.repeats
    away = "distance" in found.values
    wide = figure.bbox.width > figure.bbox.height
    shape = (1, 2) if wide else (2, 1)
    panels = np.ravel(figure.subplots(*(shape if away else (1, 1)), sharex=True))
    _draw_objective(panels[0], run)
    if away:
        _draw_distance(panels[1], run)
        panels[0].set_xlabel(panels[0].get_xlabel() if wide else "")
    figure.align_ylabels()
    legend_below(figure, panels[0], f"{len(found)} networks of {found.units} units")


def _draw_objective(ax, run):
    found, axis = run.repeats, RECORDS["objective"].axis
    mean, std, band = (part("objective") for part in (found.mean, found.std, found.band))
    draw_time(ax, run.records, run.flow.time_variable)
    ax.plot(run.time, mean, color="C0", label="mean")
    scale_values(ax, found.values["objective"].min(axis=0), RECORDS["objective"].scale)
    least = 0.5 * found.values["objective"].min() if ax.get_yscale() == "log" else -np.inf
    for half, alpha, label in ((2.0 * std, 0.15, "single ± 2σ"), (band, 0.4, "95 % of mean")):
        low = np.maximum(mean - half, least)
        ax.fill_between(run.time, low, mean + half, color="C0", alpha=alpha, lw=0.0, label=label)
    if found.infinite:
        ax.plot(run.time, found.infinite["objective"], "k", linewidth=0.9, label="infinite width")
    ax.set_ylabel("objective per mass F/|ν|" if found.normalised else axis)


def _draw_distance(ax, run):
    found = run.repeats
    draw_time(ax, run.records, run.flow.time_variable)
    ax.plot(run.time, found.values["distance"].T, color="C0", linewidth=0.4, alpha=0.5)
    ax.plot(run.time, found.mean("distance"), color="C0")
    scale_values(ax, found.values["distance"].min(axis=0), "log")
    if ax.get_yscale() == "linear":
        ax.set_ylim(bottom=0.0)
    ax.set_ylabel("RMS distance of\npredictions to infinite width")
