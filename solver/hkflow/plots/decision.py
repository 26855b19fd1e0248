"""What the measure predicts: against one or two inputs, or against the targets."""

import numpy as np
from matplotlib.colors import TwoSlopeNorm

from ..comparison import POPULATION_FRAME
from ..store.shown import is_normalised

FRESH = 400  # inputs drawn from a population to be shown


def draw_predictions(ax, run, pixels=160):
    """Draw the prediction h at the last save: a curve for one input, a map for two; h/|ν| where the mass is beyond numbers.

    With more inputs a histogram for each class, or the predictions against the targets of a regression. A population has no
    data: then the map shows the directions of the teacher's units, and the targets are those of fresh inputs.
    """
    normalised = is_normalised((run, len(run.time) - 1))
    draw = {1: _curve, 2: _map}.get(run.inputs.shape[1], _scatter)
    draw(ax, run, pixels, normalised, "h/|ν|" if normalised else "h")


def frame(values, share=0.08):
    """The interval of values, and a little more on both sides."""
    low, high = values.min(), values.max()
    edge = share * (high - low) or 1.0
    return low - edge, high + edge


def _curve(ax, run, pixels, normalised, h):
    x = np.linspace(*frame(run.inputs[:, 0]), 4 * pixels)
    ax.plot(x, run.predict(x[:, None], -1, normalised), color="C0", label=f"prediction {h}")
    if normalised:
        ax.axhline(0.0, color="0.5", linewidth=0.6)
        for x, y in zip(run.inputs[:, 0], run.targets, strict=True):
            ax.axvline(x, color="C1" if y > 0.0 else "C5", linewidth=0.6, alpha=0.5)
    else:
        ax.plot(run.inputs[:, 0], run.targets, "o", markersize=3, color="C1", label="data")
    ax.set_xlabel(run.input_names[0])
    ax.set_ylabel(f"{h}(x)" if h == "h" else "h(x)/|ν|")
    ax.legend()


def _map(ax, run, pixels, normalised, h):
    frames = [frame(run.inputs[:, k]) if len(run.inputs) else (-POPULATION_FRAME, POPULATION_FRAME) for k in range(2)]
    x, y = (np.linspace(*frame, pixels) for frame in frames)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    values = run.predict(grid, -1, normalised).reshape(pixels, pixels)
    largest = np.abs(values).max() or 1.0
    image = ax.pcolormesh(
        x, y, values, cmap="PuOr_r", norm=TwoSlopeNorm(0.0, -largest, largest), shading="nearest", rasterized=True
    )
    if values.min() < 0.0 < values.max():
        ax.contour(x, y, values, levels=[0.0], colors="black", linewidths=1.0)
    colors = {"edgecolors": "black", "linewidths": 0.4, "s": 12}
    positive = run.targets > 0
    if len(run.inputs) == 0:
        _teacher_units(ax, run.problem.objective)
    elif run.classifies:
        ax.scatter(*run.inputs[positive].T, marker="o", color="C1", label="+1", **colors)
        ax.scatter(*run.inputs[~positive].T, marker="s", color="C5", label="−1", **colors)
        ax.legend(loc="upper left", handletextpad=0.1, frameon=True, framealpha=0.8, borderpad=0.2)
    else:
        values = {"color": "0.6"} if normalised else {"c": run.targets, "cmap": "PuOr_r", "norm": image.norm}
        ax.scatter(*run.inputs.T, **values, **colors)
    ax.set_xlabel(run.input_names[0])
    ax.set_ylabel(run.input_names[1])
    ax.set_title(f"prediction {h}; black line: h = 0")
    ax.figure.colorbar(image, ax=ax, shrink=0.75, pad=0.02)


def _teacher_units(ax, objective):
    """The directions of a teacher's units as rays: solid with output weight > 0, dashed with < 0."""
    for unit, weight in zip(objective.teacher, objective.teacher_weights, strict=True):
        end = POPULATION_FRAME * unit
        ax.plot([0.0, end[0]], [0.0, end[1]], "-" if weight > 0.0 else "--", color="C2", linewidth=1.5)
    ax.plot([], [], "-", color="C2", label="teacher, weight > 0")
    ax.plot([], [], "--", color="C2", label="< 0")
    ax.legend(loc="best", frameon=True, framealpha=0.8, borderpad=0.2)


def _scatter(ax, run, pixels, normalised, h):
    scale = run.log_scale[-1] - (run.log_mass_at(-1) if normalised else 0.0)
    predictions, targets, whose = np.exp(scale) * run.scaled_predictions[-1], run.targets, ""
    if len(targets) == 0:
        inputs, targets = run.problem.objective.draw(np.random.default_rng(0), FRESH)
        predictions, whose = run.predict(inputs, -1, normalised), f" of {FRESH} fresh inputs"
    if run.classifies:
        for sign, color, label in ((1.0, "C1", "+1"), (-1.0, "C5", "−1")):
            edges = np.linspace(*frame(predictions), 40)
            ax.hist(predictions[run.targets == sign], edges, color=color, alpha=0.6, label=f"class {label}")
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_xlabel(f"prediction {h}")
        ax.set_ylabel("number of data")
        ax.legend()
        return
    ax.plot(targets, predictions, "o", markersize=3, color="C0")
    if not normalised:
        ends = frame(targets)
        ax.plot(ends, ends, color="0.5", linewidth=0.8)
    ax.set_xlabel(f"target y{whose}")
    ax.set_ylabel(f"prediction {h}")
