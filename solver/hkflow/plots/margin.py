"""Max-margin classifiers side by side, and the measure that has the largest margin under the
function that proves it."""

import numpy as np

from ..analysis.frames import frame
from ..analysis.margin_report import MarginReport
from ..certificates.column_generation import signed_features
from ..objectives.data import axis_names, with_bias
from . import circle, sphere
from .classes import draw_leads, draw_map
from .figures import AnyFigure
from .shown import MANY, label_inputs, labels_of_inputs, plain, sign_color, sign_name

ANGLES = 4000
STYLES = ("-", "--", ":")


def draw_margins(figure: AnyFigure, report: MarginReport) -> None:
    """Decision functions, each divided by its margin, and, on circle and S² of a positive margin,
    the optimal measure."""
    figure.suptitle(f"max-margins of {plain(report.name)}", fontsize=9)
    domain, joint = report.problem.domain, report.problem.objective.feature.joint
    if joint or not domain.in_space or report.contradiction:
        _draw_decisions(figure.subplots(), report)
        return
    left, right = figure.subfigures(1, 2)  # type: ignore[misc]
    _draw_decisions(left.subplots(), report)
    if domain.picture == "circle":
        _draw_proof(right.subplots(), report)
        return
    signs = report.problem.output_signs
    axes = np.atleast_1d(right.subplots(len(signs), 1))
    count = len(report.input_names)
    names = axis_names(count, report.problem.objective.inputs.shape[1] > count)
    sphere.draw_atoms(axes, report.f1.atoms, signs, names)


def _draw_decisions(ax, report):
    objective = report.problem.objective
    if objective.feature.outputs > 1:
        _draw_classes(ax, report)
        return
    names = labels_of_inputs(report.input_names, report.problem.prepare)
    biased = objective.inputs.shape[1] > len(names)
    inputs = objective.inputs[:, :-1] if biased else objective.inputs
    full = with_bias if biased else np.asarray
    functions, positive = report.classifiers(), objective.targets > 0.0
    margins = {
        name: objective.targets * function(objective.inputs) for name, function in functions.items()
    }
    span = _span(np.concatenate([np.ones(1), *margins.values()]))
    for (name, function), style in zip(functions.items(), STYLES, strict=False):
        color = f"C{STYLES.index(style)}"
        if inputs.shape[1] == 1:
            x = np.linspace(*frame(inputs[:, 0]), 800)
            ax.plot(x, function(full(x[:, None])), style, color=color, label=name)
        elif inputs.shape[1] == 2:
            x, y = (np.linspace(*frame(inputs[:, k]), 200) for k in range(2))
            values = function(full(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))).reshape(
                200, 200
            )
            ax.contour(x, y, values, levels=[0.0], colors=color, linestyles=style)
            ax.plot([], [], style, color=color, label=name)
        else:
            ax.hist(
                margins[name],
                40,
                range=span,
                histtype="step",
                color=color,
                linestyle=style,
                label=name,
            )
    if inputs.shape[1] == 1:
        ax.plot(inputs[:, 0], objective.targets, "o", markersize=3, color="0.3", label="data")
        label_inputs(ax, names[0])
        ax.set_ylabel("h(x), least margin 1")
    elif inputs.shape[1] == 2:
        look = {"s": 4, "linewidths": 0.4} if len(inputs) > MANY else {"s": 12}
        for sign, marker, color in (("+1", "o", "0.2"), ("−1", "s", "white")):
            chosen = inputs[positive == (sign == "+1")]
            ax.scatter(
                *chosen.T, marker=marker, facecolors=color, edgecolors="0.2", label=sign, **look
            )
        label_inputs(ax, *names)
        ax.set_title("decision boundaries")
        ax.set_aspect("equal")
    else:
        ax.set_xlabel("margin y h(x), the least is 1")
        ax.set_ylabel("number of data")
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=5)


def _draw_classes(ax, report):
    """Which class is predicted where, or for other than two inputs by how much the data lead."""
    problem = report.problem
    names = labels_of_inputs(report.input_names, problem.prepare)
    objective, labels = problem.objective, problem.objective.targets
    if not report.separable:
        ax.set_axis_off()
        low, high = report.f1.lower, report.f1.upper
        wide = f"the max-margin, in [{low:.3g}, {high:.3g}], is not known well enough to be drawn"
        none = "no margin is known to be positive"
        ax.set_title(wide if low > report.f1.resolution else none)
        return
    function, bias = report.classifiers()["F₁"], objective.inputs.shape[1] > len(names)

    def scores(x):
        return function(with_bias(x) if bias else x).reshape(len(x), -1)

    if len(names) == 2:
        data = objective.inputs[:, :2], labels
        draw_map(ax, scores, problem.class_names, data, names)
    else:
        leads = objective.leads(function(objective.inputs))
        draw_leads(ax, leads, labels, problem.class_names)
        ax.set_xlabel(f"{ax.get_xlabel()}, the least is 1")


def _span(margins):
    """The range of margins, not empty where all are equal."""
    low, high = margins.min(), margins.max()
    wider = 0.02 * max(high - low, abs(high))
    return low - wider, high + wider


def _draw_proof(ax, report):
    """Σ p_i y_i φ(θ, ε, x_i) over γ for each sign: at most 1, and 1 where the optimal measure has
    its atoms."""
    objective, f1 = report.problem.objective, report.f1
    angle = np.linspace(-np.pi, np.pi, ANGLES)
    points = np.column_stack([np.cos(angle), np.sin(angle)])
    signs = report.problem.output_signs
    for sign in signs:
        values = (
            f1.dual @ signed_features(objective, points, np.full(ANGLES, float(sign))) / f1.upper
        )
        ax.plot(
            angle,
            values,
            color=sign_color(sign, signs),
            label=sign_name(sign) if len(signs) > 1 else "",
        )
        positions, weights = f1.atoms.sheet(sign)
        ax.scatter(
            circle.angles(positions),
            np.ones(len(weights)),
            s=200.0 * weights,
            color=sign_color(sign, signs),
            alpha=0.5,
        )
    ax.axhline(1.0, color="0.5", linewidth=0.6)
    circle.label_angles(ax)
    ax.set_ylabel("Σ p y φ(θ, x)/γ; discs: the optimal measure")
    if len(signs) > 1:
        ax.legend()
