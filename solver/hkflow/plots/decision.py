"""What the measure predicts: against one or two inputs, or against the targets."""

import numpy as np
from matplotlib.colors import TwoSlopeNorm


def draw_predictions(ax, run, pixels=160):
    """Draw the prediction at the last save: a curve for one input, a map for two.

    With more inputs a histogram for each class, or the predictions against the targets of a regression.
    """
    draw = {1: _curve, 2: _map}.get(run.inputs.shape[1])
    if draw is None:
        _scatter(ax, run)
    else:
        draw(ax, run, pixels)


def _frame(values, share=0.08):
    low, high = values.min(), values.max()
    edge = share * (high - low) or 1.0
    return low - edge, high + edge


def _curve(ax, run, pixels):
    x = np.linspace(*_frame(run.inputs[:, 0]), 4 * pixels)
    ax.plot(x, run.predict(x[:, None]), color="C0", label="prediction h")
    ax.plot(run.inputs[:, 0], run.targets, "o", markersize=3, color="C1", label="data")
    ax.set_xlabel(run.input_names[0])
    ax.set_ylabel("h(x)")
    ax.legend()


def _map(ax, run, pixels):
    x, y = (np.linspace(*_frame(run.inputs[:, k]), pixels) for k in range(2))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    h = run.predict(grid).reshape(pixels, pixels)
    largest = np.abs(h).max() or 1.0
    image = ax.pcolormesh(x, y, h, cmap="PuOr_r", norm=TwoSlopeNorm(0.0, -largest, largest), shading="nearest", rasterized=True)
    if h.min() < 0.0 < h.max():
        ax.contour(x, y, h, levels=[0.0], colors="black", linewidths=1.0)
    colors = {"edgecolors": "black", "linewidths": 0.4, "s": 12}
    positive = run.targets > 0
    if run.classifies:
        ax.scatter(*run.inputs[positive].T, marker="o", color="C1", label="+1", **colors)
        ax.scatter(*run.inputs[~positive].T, marker="s", color="C5", label="−1", **colors)
        ax.legend(loc="upper left", handletextpad=0.1, frameon=True, framealpha=0.8, borderpad=0.2)
    else:
        norm = image.norm
        ax.scatter(*run.inputs.T, c=run.targets, cmap="PuOr_r", norm=norm, **colors)
    ax.set_xlabel(run.input_names[0])
    ax.set_ylabel(run.input_names[1])
    ax.set_title("prediction h(x); black line: h = 0")
    ax.figure.colorbar(image, ax=ax, shrink=0.75, pad=0.02)


def _scatter(ax, run):
    if run.classifies:
        predictions = run.predictions[-1]
        for sign, color, label in ((1.0, "C1", "+1"), (-1.0, "C5", "−1")):
            edges = np.linspace(*_frame(predictions), 40)
            ax.hist(predictions[run.targets == sign], edges, color=color, alpha=0.6, label=f"class {label}")
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_xlabel("prediction h")
        ax.set_ylabel("number of data")
        ax.legend()
        return
    ax.plot(run.targets, run.predictions[-1], "o", markersize=3, color="C0")
    ends = _frame(run.targets)
    ax.plot(ends, ends, color="0.5", linewidth=0.8)
    ax.set_xlabel("target y")
    ax.set_ylabel("prediction h")
