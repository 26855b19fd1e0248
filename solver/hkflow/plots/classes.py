"""Which class is predicted where: the map of a classifier of two inputs and any number of
classes."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol
from warnings import catch_warnings, filterwarnings

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from ..analysis.frames import frame
from ..arguments import Floats, real_array
from ..errors import HkflowError
from ..solving.result import Result
from ..store.shown import is_normalised
from .figures import LETTER, MARKER, legend_columns
from .shown import COLORS, MANY, PIXELS, input_names, label_inputs, one_line, plain

FEW = 6  # classes that have a colour of the style
MARKERS = "so^Dv<>pP*X"
ROWS = 3  # of a legend of classes: with more it gets another column
MAX_ROWS, MAX_COLUMNS = 6, 4
WHOLE = 200  # letters of a name, before it is cut to what a legend has room for
LIGHT = 0.65  # share of white in the colour of a region


class Classifier(Protocol):
    """A fitted classifier of scikit-learn, WideNetworkClassifier for one."""

    classes_: NDArray[Any]

    def decision_function(self, X: Floats) -> Floats:
        """(n,) for two classes, positive for the second; else (n, n_classes), largest counts."""


def draw_classes(
    ax: Axes,
    classifier: Classifier | Result | Sequence[Result],
    inputs: ArrayLike,
    labels: ArrayLike,
    names: Sequence[str] | None = None,
    save: int = -1,
) -> None:
    """Draw which class is predicted where, the lines between the classes, and the data.

    classifier : fitted; or a run with an output for each class, or runs of one class against the
        rest, in the order of the sorted labels: the largest prediction counts
    inputs : (n, 2), raw of runs that prepare them;  labels : (n,)
    names : of the inputs, by default those of a frame's columns, else x₁ and x₂;  save : of runs
    Raises HkflowError for other than two inputs, and where there are not as many runs or outputs as
    labels.
    """
    names = getattr(inputs, "columns", ("x₁", "x₂")) if names is None else names
    names = [one_line(name) for name in names]
    inputs, labels = real_array(inputs, "Inputs"), np.asarray(labels)
    if inputs.ndim != 2 or inputs.shape[1] != 2 or labels.shape != inputs.shape[:1]:
        raise HkflowError(
            "A map of classes needs two inputs and a label for each datum, got inputs of shape"
            f" {inputs.shape} and labels of shape {labels.shape}."
        )
    classes, scores = _scores(classifier, labels, save)
    same = labels[:, None] == np.asarray(classes)
    numbers = np.where(same.any(axis=1), same.argmax(axis=1), -1)
    draw_map(ax, scores, classes, (inputs, numbers), names)


def draw_run(ax: Axes, run: Result, save: int) -> None:
    """The same of a run with an output for each class, its two inputs as they are prepared, its
    data, and its test data with white edges."""
    normalised = is_normalised((run, save))
    test = None if run.test is None else (run.test.inputs[:, :2], run.test.targets)
    draw_map(
        ax,
        lambda x: run.predict(x, save, normalised, prepared=True),
        run.class_names,
        (run.inputs, run.targets),
        input_names(run),
        test,
    )


def draw_map(
    ax: Axes,
    scores: Callable[[Floats], Floats],
    classes: Sequence[Any],
    data: tuple[Floats, NDArray[Any]],
    names: Sequence[str],
    test: tuple[Floats, NDArray[Any]] | None = None,
) -> None:
    """Draw where which of the scores is largest.

    scores : function of inputs (n, 2) -> (n, n_classes);  classes : their names
    data, test : inputs (n, 2) and numbers of their classes (n,);  names : of the inputs
    """
    inputs = data[0]
    ticks = [np.linspace(*frame(column), PIXELS) for column in inputs.T]
    points = np.stack(np.meshgrid(*ticks), axis=-1).reshape(-1, 2)
    values = scores(points)
    colors = _colors(len(classes))
    regions = ListedColormap([_lighter(color) for color in colors])
    ax.pcolormesh(
        *ticks, values.argmax(axis=1).reshape(PIXELS, PIXELS), cmap=regions, vmin=-0.5,
        vmax=len(classes) - 0.5, shading="nearest", rasterized=True,
    )  # fmt: skip
    for k in range(1 if len(classes) == 2 else len(classes)):
        lead = values[:, k] - np.delete(values, k, axis=1).max(axis=1)
        if lead.min() < 0.0 < lead.max():
            lead = lead.reshape(PIXELS, PIXELS)
            ax.contour(*ticks, lead, levels=[0.0], colors="black", linewidths=0.8)
    many = len(inputs) > MANY
    look = {"s": 6 if many else 12, "linewidths": 0.2 if many else 0.4}
    for (rows, labels), edge in ((data, "black"), (test, "white")) if test else ((data, "black"),):
        for k, name in enumerate(classes):
            chosen, marker = rows[labels == k], MARKERS[k % len(MARKERS)]
            label = one_line(name, WHOLE) if edge == "black" else None
            ax.scatter(
                *chosen.T, color=colors[k], marker=marker, label=label, edgecolors=edge, **look
            )
    if test:
        ax.scatter([], [], marker="o", color="0.6", edgecolors="white", label="test", **look)
    ax.set(xlim=ticks[0][[0, -1]], ylim=ticks[1][[0, -1]])
    label_inputs(ax, *names[:2])
    _name_classes(ax, handletextpad=0.3)


def draw_leads(ax: Axes, leads: Floats, labels: NDArray[Any], classes: Sequence[str]) -> None:
    """The histogram, for each class, of by how much its data's own prediction exceeds those of all
    other classes, leads (n,) of data with the labels (n,), numbers of the classes."""
    edges = np.linspace(*frame(leads), 40)
    for k, (name, color) in enumerate(zip(classes, _colors(len(classes)), strict=True)):
        ax.hist(leads[labels == k], edges, color=color, label=one_line(name, WHOLE), alpha=0.7)
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_xlabel("lead of the own class, h_y − max h")
    ax.set_ylabel("number of data")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    _name_classes(ax)


def _name_classes(ax, **look):
    """A legend over a panel that is no wider than its part of the figure: of many classes the first
    and the last, and how many there are between them."""
    handles, words = ax.get_legend_handles_labels()
    spec = ax.get_subplotspec()
    share = len(spec.colspan) / spec.get_gridspec().ncols if spec else 1.0
    width = share * ax.figure.bbox.width / ax.figure.dpi
    columns = min(legend_columns(words, width), len(words), MAX_COLUMNS)
    while len(words) > ROWS * columns and columns < MAX_COLUMNS - 1:
        columns += 1
    if (many := len(words) - MAX_ROWS * columns) > 0:
        between = slice(MAX_ROWS * columns - 2, -1)
        handles[between] = [ax.plot([], [], linestyle="none")[0]]
        words[between] = [f"{many + 1} more"]
    room = int((width / columns - MARKER) / LETTER)
    ax.legend(
        handles, [_middle_cut(word, room) for word in words], loc="lower center",
        bbox_to_anchor=(0.5, 1.0), ncols=columns, columnspacing=1.0, **look,
    )  # fmt: skip


def _middle_cut(label, length):
    """A label, cut in its middle where it is long: names of classes often begin alike."""
    text, end = label.replace(r"\$", "$"), (length - 1) // 2
    return label if len(text) <= length else plain(f"{text[: length - 1 - end]}…{text[-end:]}")


def _scores(classifier, labels, save) -> tuple[NDArray[Any], Callable]:
    """The classes, and a function of inputs (n, 2) -> (n, n_classes) whose largest entry counts."""
    if not isinstance(classifier, Sequence | Result):

        def decided(x):
            with catch_warnings():  # it may have been fitted to a frame, whose columns these are
                filterwarnings("ignore", "X does not have valid feature names")
                h = classifier.decision_function(x)
            return np.column_stack([-h, h]) if h.ndim == 1 else h

        return classifier.classes_, decided
    runs, classes = classifier, np.unique(labels)
    if isinstance(runs, Result):
        runs = [runs]
    count = sum(run.problem.objective.feature.outputs for run in runs)
    if count != len(classes):
        raise HkflowError(
            f"{len(classes)} classes need as many outputs of a run, or runs of one class against"
            f" the rest, got {count}."
        )
    normalised = is_normalised(*((run, save) for run in runs))
    return classes, lambda x: np.column_stack([r.predict(x, save, normalised) for r in runs])


def _colors(count):
    """One for each class; of two classes those of all other pictures."""
    if count == 2:
        return [COLORS[-1.0], COLORS[1.0]]
    if count <= FEW:
        return [f"C{k}" for k in range(count)]
    return [matplotlib.colormaps["turbo"](k / (count - 1)) for k in range(count)]


def _lighter(color):
    return tuple(LIGHT + (1.0 - LIGHT) * part for part in to_rgb(color))
