"""What was recorded along a run."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatterSciNotation, LogLocator
from numpy.typing import NDArray

from ..analysis.summary import gamma_text
from ..arguments import Floats
from ..certificates.margin import MaxMargin
from ..solving.registry import RECORDS, are_per_mass, in_units_of_one, record_of
from ..solving.result import Result
from .figures import AnyFigure, Saves
from .shown import FEW_DECADES, plain

Records = Mapping[str, NDArray[np.float64]]

LABELLED = 4  # decades of a time axis, at most
LOG_FROM = 20.0  # ratio of largest to smallest from which an axis is logarithmic


def objective_of(records: Records, per_mass: bool) -> tuple[NDArray[np.float64], str]:
    """The objective F and its label, or F/|ν|, which needs no scale."""
    if not per_mass:
        return in_units_of_one(records, "objective"), RECORDS["objective"].axis
    with np.errstate(divide="ignore", invalid="ignore"):
        return records["objective"] / records["mass"], "objective per mass F/|ν|"


def mass_of(records: Records, logarithmic: bool) -> tuple[NDArray[np.float64], str]:
    """The mass |ν| and its label, or log |ν|."""
    name = "log_mass" if logarithmic else "mass"
    return in_units_of_one(records, name), RECORDS[name].axis


def scale_of_objective(values: NDArray[np.float64]) -> str:
    """The scale of an axis of objectives: those of smooth margins fall below 0, exponentially."""
    known = values[np.isfinite(values)]
    falls = known.size and known.min() < -LOG_FROM and known.max() < LOG_FROM
    return "asinh" if falls else RECORDS["objective"].scale


def scale_mass(ax: Axes, values: NDArray[np.float64], is_log: bool) -> None:
    """Scale an axis of masses: logarithmic where they grow by much; one that stays is seen to."""
    low, high = ax.get_ylim()
    if not is_log and values[0] > 0.0 and high - low < 1e-6 * abs(high):
        ax.set_ylim(0.0, 1.2 * values[0])
    elif not is_log:
        scale_values(ax, values, "log")


def draw_time(ax: Axes, records: Records, time_variable: str) -> None:
    """The axis of time, or of the smooth margin on a logarithmic scale if that is the clock."""
    ax.set_xlabel(RECORDS["time" if time_variable == "time" else "smooth_margin"].axis)
    if time_variable == "margin":
        scale_time(ax, records["time"])


def scale_time(ax: Axes, time: NDArray[np.float64]) -> None:
    """Make the time axis logarithmic beyond the first positive time, with at most LABELLED decades
    labelled, and 0."""
    positive = time[time > 0.0]
    if len(positive) == 0:
        return
    first = max(positive[0], 1e-6 * positive[-1])
    ax.set_xscale("symlog", linthresh=first)
    low, high = np.floor(np.log10([first, positive[-1]]))
    step = -(-(high - low) // LABELLED) or 1.0
    decades = np.arange(high, low + (step - 1.0 if high - low > LABELLED else 0.0), -step)
    ax.set_xticks([0.0, *10.0 ** decades[::-1]] if time[0] == 0.0 else 10.0 ** decades[::-1])
    ax.minorticks_off()


def draw_energy(ax: Axes, records: Records, time_variable: str) -> None:
    """Objective and total mass against time, on two scales; objective per mass and log mass where
    the mass needs a scale."""
    draw_time(ax, records, time_variable)
    by_scale = are_per_mass(records)
    objective, label = objective_of(records, by_scale)
    ax.plot(records["time"], objective, color="C0")
    scale_values(ax, objective, scale_of_objective(objective))
    ax.set_ylabel(label, color="C0")
    mass = ax.twinx()
    mass.spines["right"].set_visible(True)
    values, label = mass_of(records, by_scale)
    mass.plot(records["time"], values, color="C1")
    mass.set_ylabel(label, color="C1")
    scale_mass(mass, values, by_scale)


def draw_records(figure: AnyFigure, run: Result, save: int = -1, shared: Saves = None) -> None:
    """Everything that is recorded of a run in time: objective, mass, margin with its certified
    band, residuals of the budgets, and a user's records."""
    records, time_variable = run.records, run.flow.time_variable
    draws = panels(run)
    wide = figure.bbox.width > figure.bbox.height
    shape = (-(-len(draws) // 2), 2) if wide else (len(draws), 1)
    axes = np.ravel(figure.subplots(*shape, sharex=True))
    for ax, draw in zip(axes, draws, strict=False):
        draw(ax, records, time_variable)
        if name := BARRED.get(getattr(draw, "func", draw)):
            shade_errors(ax, run, name)
    for ax in axes[len(draws) :]:
        ax.remove()
    for ax in axes[: len(draws) - shape[1]]:
        ax.set_xlabel("")
    for ax in axes[len(draws) - shape[1] : len(draws)]:
        ax.tick_params(labelbottom=True)
    figure.align_ylabels()


def panels(run: Result) -> list[Callable]:
    """The panels of the picture, functions (ax, records, clock): those that records name, then a
    user's."""
    shown = {record_of(name).panel for name in run.records}
    shown -= set() if has_margins(run) else {"margins"}
    alone = [name for name in run.records if record_of(name).panel == name not in PANELS]
    draws = PANELS | {"margins": partial(draw_margins, found=run.max_margin)}
    return [draw for name, draw in draws.items() if name in shown] + [
        partial(draw_record, name=name) for name in alone
    ]


def has_margins(run: Result) -> bool:
    """Whether a run proved an interval of the max-margin, and not only that it is above something
    or not positive."""
    none = run.contradiction or (run.max_margin is not None and run.max_margin.is_none)
    return bool(np.isfinite(run.records.get("margin_upper", np.inf)).any()) and not none


def draw_objective(ax: Axes, records: Records, time_variable: str = "time") -> None:
    """The objective against time, or the objective per mass; logarithmic if it is positive and
    falls by much."""
    values, label = objective_of(records, are_per_mass(records))
    draw_time(ax, records, time_variable)
    ax.plot(records["time"], values, color="C0")
    scale_values(ax, values, scale_of_objective(values))
    ax.set_ylabel(label.replace("objective per", "objective\nper"))


def draw_mass(ax: Axes, records: Records, time_variable: str = "time") -> None:
    """The total mass against time, or its logarithm."""
    logarithmic = are_per_mass(records)
    values, label = mass_of(records, logarithmic)
    draw_time(ax, records, time_variable)
    ax.plot(records["time"], values, color="C0")
    scale_mass(ax, values, logarithmic)
    ax.set_ylabel(label.replace(" log |", "\nlog |"))


def draw_residuals(ax: Axes, records: Records, time_variable: str) -> None:
    """Residuals of the energy identity and of the mass budget, relative to the largest objective
    and mass so far."""
    time = records["time"]
    draw_time(ax, records, time_variable)
    if np.isnan(records["energy_residual"]).all():
        ax.text(0.5, 0.5, "no budgets: steps are random", transform=ax.transAxes, ha="center")
        ax.set_axis_off()
        return
    for name, scale, color in (
        ("energy_residual", "objective", "C0"),
        ("mass_residual", "mass", "C1"),
    ):
        relative = relative_to_largest(
            records[name], records[scale], records.get("log_scale", np.zeros(len(time)))
        )
        label = RECORDS[name].label.removesuffix(" residual")
        ax.semilogy(time[1:], np.maximum(relative, 1e-17)[1:], color=color, label=label)
    ax.set_ylabel("relative residual")
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, columnspacing=1.0, handlelength=1.2
    )


def draw_margins(
    ax: Axes, records: Records, time_variable: str = "time", found: MaxMargin | None = None
) -> None:
    """Margin and dual value, between their running best, shaded, what the run proves of the
    max-margin, and that itself as a line, with a scale in per cent of it, if it was found."""
    draw_time(ax, records, time_variable)
    time, low, high = (records[name] for name in ("time", "margin_lower", "margin_upper"))
    known = np.isfinite(records["dual_value"])
    for name, seen, color in (("dual_value", known, "C1"), ("margin", slice(None), "C0")):
        label = RECORDS[name].label
        one = "." if np.count_nonzero(time[seen]) == 1 else ""  # a line of one point is not seen
        ax.plot(time[seen], records[name][seen], one, color=color, linewidth=0.8, label=label)
    ax.fill_between(
        time,
        low,
        high,
        where=np.isfinite(high),
        color="C2",
        alpha=0.3,
        linewidth=0.0,
        label="" if found else r"$\gamma$",
    )
    best = high[-1]
    proved = low[-1] if abs(low[-1]) > 1e-12 * best else 0.0
    ends = (proved, best) if found is None else (max(proved, found.lower), min(best, found.upper))
    text = r"$\gamma$ in [{:.4g}, {:.4g}]".format(*ends)
    most, seen = 3.0 * best, max(np.nanmax(records["margin"]), low[-1])
    if seen > 0.0:  # a loose bound leaves room for the margin
        most = min(most, 6.0 * seen)
    if found is not None and found.is_positive:
        best = found.upper
        most = 2.0 * best
        for end, label in ((found.lower, ""), (best, r"$\gamma$")):
            ax.axhline(end, color="C2", linewidth=0.8, linestyle="--", label=label)
        text = gamma_text(found).replace("γ", r"$\gamma$")
        share = (lambda value: 100.0 * value / best, lambda value: 0.01 * value * best)
        ax.secondary_yaxis("right", functions=share).set_ylabel(r"% of $\gamma$")
    if not (records["dual_value"][known] < most).any():  # nothing of it is seen
        ax.lines[0].set_label("")
    bottom = min(0.0, 2.0 * low[-1], 1.5 * records["margin"][-1])  # of data that are not separated
    ax.set_ylim(bottom - 0.2 * min(best, most), most)
    ax.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=4,
        title=text,
        columnspacing=1.0,
        handlelength=1.2,
    )
    ax.set_ylabel("margin/|ν|")


def draw_test(ax: Axes, records: Records, time_variable: str) -> None:
    """Error of the test data, where it was taken, beside that of the training data; root mean
    squares on a logarithmic scale if they fall by much."""
    draw_time(ax, records, time_variable)
    for name, color in (("training_error", "C0"), ("test_error", "C1")):
        known = np.isfinite(records[name])
        label = RECORDS[name].label.removesuffix(" error")
        ax.plot(records["time"][known], records[name][known], color=color, label=label)
    ax.set_ylim(bottom=0.0)
    if "margin" not in records:
        scale_values(ax, records["test_error"], "log")
    ax.set_ylabel("share of errors" if "margin" in records else "RMS error")
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, columnspacing=1.0, handlelength=1.2
    )


def draw_record(ax: Axes, records: Records, time_variable: str, name: str) -> None:
    """One record against time."""
    draw_time(ax, records, time_variable)
    ax.plot(records["time"], records[name], color="C0")
    scale_values(ax, records[name], record_of(name).scale)
    ax.set_ylabel(plain(record_of(name).axis, 24))


def shade_errors(ax: Axes, run: Result, name: str) -> None:
    """Shade the error bars of a quantity around its curve, interpolated between saves; nothing
    without bars, or where they are in other units than the records."""
    bars, records, per_mass = run.errors, run.records, are_per_mass(run.records)
    if bars is None or name not in bars.bars or bars.normalised != per_mass:
        return
    bar = np.interp(records["time"], run.time, bars[name])
    values = objective_of(records, per_mass)[0] if name == "objective" else records[name]
    low, high = values - bar, values + bar
    if name == "log_mass" and not per_mass:
        low, high = np.exp(low), np.exp(high)
    limits = ax.get_ylim()
    if ax.get_yscale() == "log":
        low = np.maximum(low, limits[0])
    look = {"color": "C0", "alpha": 0.25, "linewidth": 0.0, "label": "error bar"}
    ax.fill_between(records["time"], low, high, **look)
    ax.set_ylim(limits)


def scale_values(ax: Axes, values: NDArray[np.float64], scale: str) -> None:
    """Give an axis the scale of a record: logarithmic only if values are positive and differ by
    much."""
    known = values[np.isfinite(values)]
    differs = len(known) and known.min() > 0.0 and known.max() > LOG_FROM * known.min()
    if scale == "symlog" or scale == "log" and differs:
        ax.set_yscale(scale)
    if scale == "log" and differs and known.min() < 10.0**-FEW_DECADES * known.max():
        ax.minorticks_off()
    elif scale == "log" and differs:  # numbers at 3 and 4 would overlap
        ax.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        ax.yaxis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(1.0, np.inf)))
    if scale == "asinh":  # ends linearly at 0
        ax.set_yscale(scale, linear_width=1.0)
        last = int(np.log10(-known.min()))
        decades = np.arange(last, 0, -max(1, -(-last // LABELLED)))
        words = [f"$-10^{{{k}}}$" for k in decades]
        ax.set_yticks([*-(10.0**decades), 0.0], [*words, "0"])
        ax.minorticks_off()


PANELS = {
    "objective": draw_objective,
    "mass": draw_mass,
    "margins": draw_margins,
    "residuals": draw_residuals,
    "test": draw_test,
}


BARRED = {draw_objective: "objective", draw_mass: "log_mass", draw_margins: "margin"}


def relative_to_largest(values: Floats, sizes: Floats, log_scale: Floats) -> Floats:
    """|values| over the largest |sizes| so far, all in units of e^log_scale, which change along the
    run; nan before the first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.maximum.accumulate(np.log(np.abs(sizes)) + log_scale)
        return np.exp(np.log(np.abs(values)) + log_scale - largest)
