"""What the measure predicts: over one or two inputs, beside the max-margin classifier of its
kernel, or against the targets."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.ticker import MaxNLocator

from ..analysis.frames import POPULATION_FRAME, frame, frames
from ..certificates.kernel_machine import KernelClassifier, f2_max_margin, kernel_of
from ..errors import HkflowError
from ..objectives.data import with_bias
from ..solving.result import Result, in_plain_units
from ..store.shown import is_normalised
from .classes import draw_leads, draw_run
from .figures import AnyFigure, Saves, legend_below
from .shown import COLORS, MANY, PIXELS, input_names, label_inputs, thinned, time_of

COMPARED = 1000  # data at most that the F₂ max-margin is found for, in half a second
FRESH = 400  # inputs drawn from a population to be shown
FAR = 10.0  # times predictions and targets on the data, beyond which a map has their colours
COARSE = 40  # pixels along each input of a map that only finds its range
ROUNDING = 1e-12  # of the mass: smaller predictions are drawn as 0


def draw_predictions(ax: Axes, run: Result, save: int = -1, shared: Sequence[int] = ()) -> None:
    """Draw the prediction h at a save: a curve for one input, a map for two; h/|ν| where the mass
    is beyond numbers.

    With more inputs a histogram for each class, or the predictions against the targets of a
    regression; so if the feature is lost. A population has no data: then the map shows the
    directions of the teacher's units, and the targets are those of fresh inputs. Of several outputs
    the map shows the classes.
    shared : saves that have axes and colours in common with this one
    """
    if run.lost_feature:
        draw_against_targets(ax, run, save, shared)
        return
    if _has_classes(run) and run.inputs.shape[1] == 2:
        draw_run(ax, run, save)
        return
    if run.inputs.shape[1] > 2 or _has_classes(run):
        draw_against_targets(ax, run, save, shared)
        return
    saves = tuple(thinned(shared, save)) if len(shared) else ()
    normalised = is_normalised((run, save), *((run, k) for k in saves))
    h = _name(normalised)
    values, grid = _on_grid(run, _prediction(run, save, normalised))
    low, high = _range(run, saves, normalised) if saves else (values.min(), values.max())
    if run.inputs.shape[1] == 1:
        _draw_curve(ax, run, grid, values, h, normalised, (low, high))
        return
    targets: Any = [] if normalised or run.classifies else run.targets
    largest = np.max(np.abs([low, high, *targets]))
    if len(targets):  # far from the data a prediction may be of another size than on them
        near = np.max(np.abs([*targets, *run.predictions[save]]))
        largest = near if largest > FAR * near > 0.0 else largest
    image = _draw_map(ax, run, grid, values, largest)
    _draw_data(ax, run, None if normalised else image.norm)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=3 if run.test is None else 4,
            handletextpad=0.3,
            columnspacing=1.0,
        )
    beyond = "both" if np.max(np.abs([low, high])) > image.norm.vmax else "neither"
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.9, pad=0.02, aspect=25, extend=beyond)
    bar.set_label(f"prediction {h}")


def draw_decision(figure: AnyFigure, run: Result, save: int = -1, shared: Saves = None) -> None:
    """Draw the prediction over one or two inputs, its zero level and the data, beside the F₂
    max-margin classifier.

    The latter, of the kernel of random units, is there for classes that it separates (Chizat & Bach
    2020, eq. 5). Beside it predictions are shown relative to the largest on the map.
    """
    machine = kernel_classifier(run)
    if machine is None:
        figure.suptitle(time_of(run, save))
        draw_predictions(figure.subplots(), run, save, shared or ())
        return
    normalised = is_normalised((run, save))
    panels = {
        f"this run, {time_of(run, save)}": _prediction(run, save, normalised),
        "F₂ max-margin": lambda x: machine(with_bias(x) if run.bias else x),
    }
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, (title, function) in zip(axes, panels.items(), strict=True):
        values, grid = _on_grid(run, function)
        values = values / (np.abs(values).max() or 1.0)
        if run.inputs.shape[1] == 1:
            _draw_curve(ax, run, grid, values, "h", scaled=True, ends=(-1.0, 1.0), narrow=True)
        else:
            image = _draw_map(ax, run, grid, values, narrow=True)
            _draw_data(ax, run, None)
        ax.set_title(title)
        ax.label_outer()
        if ax.get_legend():
            ax.get_legend().remove()
    if run.inputs.shape[1] == 1:
        axes[0].set_ylabel("h(x) / max |h|")
    else:
        bar = figure.colorbar(
            image, ax=list(axes), shrink=0.9, pad=0.02, aspect=25, ticks=(-1.0, 0.0, 1.0)
        )
        bar.set_label("h / max |h|")
    legend_below(figure, axes[0])


@lru_cache(maxsize=2)
def kernel_classifier(run: Result) -> KernelClassifier | None:
    """The F₂ max-margin classifier of a run's data; None for other targets, units without a kernel,
    data that it fails on, and so many that it takes long."""
    objective = run.problem.objective
    if (
        not run.classifies
        or run.domain.fixed
        or not 0 < len(run.targets) <= COMPARED
        or kernel_of(objective.feature) is None
    ):
        return None
    try:
        machine = f2_max_margin(objective)
    except HkflowError:
        return None
    return machine if machine.machine.value > 0.0 else None


def _has_classes(run):
    return run.problem.objective.risk.coupled


def _name(normalised):
    return "h/|ν|" if normalised else "h"


def _prediction(run, save, normalised):
    """h as a function of inputs, or h/|ν|, without the rounding errors where its parts cancel."""
    mass = 1.0 if normalised else np.exp(run.log_mass_at(save))

    def predict(inputs):
        values = run.predict(inputs, save, normalised, prepared=True)
        return np.where(np.abs(values) > ROUNDING * mass * np.abs(inputs).max(), values, 0.0)

    return predict


@lru_cache(maxsize=2)
def _range(run, saves, normalised):
    """Least and largest prediction at some saves, on a coarse grid."""
    found = [_on_grid(run, _prediction(run, k, normalised), COARSE)[0] for k in saves]
    return np.min(found), np.max(found)


def _on_grid(run, function, pixels=PIXELS):
    """Values of a function of inputs on an even grid around the data, (n,) or (n, n), and the ticks
    of the grid."""
    columns = run.inputs.shape[1]
    count = pixels if columns == 2 else 4 * pixels
    ticks = [np.linspace(*ends, count) for ends in frames(run.inputs)]
    inputs = np.stack(np.meshgrid(*ticks), axis=-1).reshape(-1, columns)
    return function(inputs).reshape([len(tick) for tick in ticks[::-1]]), ticks


def _draw_curve(ax, run, grid, values, h, scaled, ends, narrow=False):
    """The curve and the data: as dots, or if the curve is in other units than the targets, as marks
    of their classes.

    ends : (low, high) of the curves that the axis has room for
    """
    ax.plot(grid[0], values, color="C0", label=f"prediction {h}")
    low, high = frame(np.array(ends))
    if scaled:
        ax.axhline(0.0, color="0.5", linewidth=0.6)
        for sign, marker, level in ((1.0, "o", high), (-1.0, "s", low)):
            x = run.inputs[run.targets * sign > 0.0, 0]
            look = {
                "markersize": 3,
                "color": COLORS[sign],
                "markeredgecolor": "black",
                "markeredgewidth": 0.4,
            }
            ax.plot(x, np.full(len(x), level), marker, label=_class(sign), clip_on=False, **look)
        ax.set_ylim(low, high)
    else:
        ax.plot(run.inputs[:, 0], run.targets, "o", markersize=3, color="C1", label="data")
        ax.set_ylim(frame(np.array([low, high, *run.targets]), 0.03))
    ax.set_xlim(grid[0][0], grid[0][-1])
    label_inputs(ax, input_names(run)[0], narrow=narrow)
    ax.set_ylabel(f"{h}(x)" if h == "h" else "h(x)/|ν|")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, columnspacing=1.0)


def _class(sign):
    return "+1" if sign > 0.0 else "−1"


def _draw_map(ax, run, grid, values, largest=None, narrow=False):
    """Colours of a function of two inputs, up to its largest size, and its zero level; returns the
    image."""
    largest = largest or np.abs(values).max() or 1.0
    norm = TwoSlopeNorm(0.0, -largest, largest)
    image = ax.pcolormesh(
        *grid, values, cmap="PuOr_r", norm=norm, shading="nearest", rasterized=True
    )
    if values.min() < 0.0 < values.max():
        ax.contour(*grid, values, levels=[0.0], colors="black", linewidths=1.0)
        ax.plot([], [], color="black", linewidth=1.0, label="h = 0")
    label_inputs(ax, *input_names(run), narrow=narrow)
    return image


def _draw_data(ax, run, norm):
    """The data of two inputs: by class, by the colour of their target if the map has that scale, or
    the teacher's units."""
    many = len(run.inputs) > MANY
    look = {"edgecolors": "black", "s": 6 if many else 12, "linewidths": 0.2 if many else 0.4}
    if len(run.inputs) == 0:
        _teacher_units(ax, run.problem.objective)
    else:
        _draw_points(ax, run, run.inputs, run.targets, norm, look)
    if run.test is not None:
        look["edgecolors"] = "white"
        _draw_points(ax, run, run.test.inputs[:, :2], run.test.targets, norm, look, named=False)
        ax.scatter([], [], marker="o", color="0.6", label="test", **look)
    if len(run.inputs):
        ax.set(xlim=frame(run.inputs[:, 0]), ylim=frame(run.inputs[:, 1]))


def _draw_points(ax, run, inputs, targets, norm, look, named=True):
    """Data of two inputs as dots; named : whether a legend says what they are."""
    if run.classifies:
        for sign, marker in ((1.0, "o"), (-1.0, "s")):
            label, chosen = _class(sign) if named else None, inputs[targets * sign > 0.0]
            ax.scatter(*chosen.T, marker=marker, color=COLORS[sign], label=label, **look)
        return
    values = {"color": "0.6"} if norm is None else {"c": targets, "cmap": "PuOr_r", "norm": norm}
    label = "data, by y" if norm else "data"
    ax.scatter(*inputs.T, label=label if named else None, **values, **look)


def _teacher_units(ax, objective):
    """The directions of a teacher's units as rays: solid with output weight > 0, dashed with <
    0."""
    for unit, weight in zip(objective.teacher, objective.teacher_weights, strict=True):
        end = POPULATION_FRAME * unit
        ax.plot(
            [0.0, end[0]], [0.0, end[1]], "-" if weight > 0.0 else "--", color="C2", linewidth=1.5
        )
    ax.plot([], [], "-", color="C2", label="teacher, weight > 0")
    ax.plot([], [], "--", color="C2", label="< 0")


def draw_targets(figure: AnyFigure, run: Result, save: int = -1, shared: Saves = None) -> None:
    """Draw the predictions of the data against their targets, or their histogram for each class."""
    figure.suptitle(time_of(run, save))
    draw_against_targets(figure.subplots(), run, save, shared or ())


def draw_against_targets(ax: Axes, run: Result, save: int, shared: Sequence[int]) -> None:
    """The predictions of the data at a save against their targets, or their histogram for each
    class; h/|ν| of large masses. Of several outputs by how much the own class leads."""
    if _has_classes(run):
        leads = run.problem.objective.leads(run.predictions[save])
        draw_leads(ax, leads, run.targets, run.class_names)
        return
    saves = thinned(shared, save) if len(shared) else [save]
    normalised = is_normalised(*((run, k) for k in saves))
    h = _name(normalised)

    def predicted(k, of="scaled_predictions"):
        unit = run.log_scale[k] - (run.log_mass_at(k) if normalised else 0.0)
        return in_plain_units(getattr(run, of)[k], unit)

    tests = predicted(save, "scaled_test_predictions")
    predictions, targets, whose = predicted(save), run.targets, ""
    if len(targets) == 0:
        inputs, targets = run.problem.objective.draw(np.random.default_rng(0), FRESH)  # type: ignore[attr-defined]
        predictions, whose = (
            run.predict(inputs, save, normalised, prepared=True),
            f" of {FRESH} fresh inputs",
        )
    if run.classifies:
        edges = np.linspace(*frame(np.concatenate([predicted(k) for k in saves])), 40)
        for sign in (1.0, -1.0):
            values, label = predictions[run.targets == sign], f"class {_class(sign)}"
            ax.hist(values, edges, color=COLORS[sign], label=label, alpha=0.7)
            if len(tests):
                values = np.clip(tests[run.test.targets == sign], edges[0], edges[-1])
                ax.hist(values, edges, histtype="step", color=COLORS[sign], label="test")
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_xlabel(f"prediction {h}")
        ax.set_ylabel("number of data")
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        return
    if not normalised:
        ends = frame(targets)
        ax.plot(ends, ends, color="0.5", linewidth=0.8, label="h = y")
    if len(tests):
        ax.plot(run.test.targets, tests, "o", markersize=3, color="C1", label="test", alpha=0.7)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="upper left")
    ax.plot(
        targets,
        predictions,
        "o",
        markersize=3 if len(targets) <= MANY else 2,
        color="C0",
        markeredgewidth=0,
        alpha=0.7,
    )
    if len(shared) and len(run.targets):
        ax.set_ylim(frame(np.concatenate([targets, *(predicted(k) for k in saves)])))
    ax.set_xlabel(f"target y{whose}")
    ax.set_ylabel(f"prediction {h}")
