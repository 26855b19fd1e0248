"""Maps of classifiers of any number of classes."""

from types import SimpleNamespace

import numpy as np
import pytest
from legible import legible
from matplotlib.figure import Figure
from sklearn.datasets import load_iris, make_blobs

import hkflow
from hkflow import plots
from hkflow.plots.classes import _colors, draw_leads


def drawn(classifier, inputs, labels, names=("x₁", "x₂")):
    """The axes of a map, and its texts."""
    with plots.style():
        figure = Figure(figsize=(plots.COLUMN, 2.9), layout="constrained")
        ax = figure.subplots()
        plots.draw_classes(ax, classifier, inputs, labels, names)
        return ax, legible(figure)


def shown_class(ax, point):
    """The class that the map has at a point, by the values of its pixels."""
    mesh = ax.collections[0]
    x, y = (np.asarray(corners) for corners in (mesh.get_coordinates()[0, :, 0],
                                                mesh.get_coordinates()[:, 0, 1]))  # fmt: skip
    values = np.asarray(mesh.get_array()).reshape(len(y) - 1, len(x) - 1)
    return int(values[np.searchsorted(y, point[1]) - 1, np.searchsorted(x, point[0]) - 1])


def test_the_map_is_what_the_classifier_predicts():
    data = load_iris()
    inputs, labels = data.data[:, 2:], data.target_names[data.target]
    model = hkflow.WideNetworkClassifier(particles=60).fit(inputs, labels)
    ax, texts = drawn(model, inputs, labels, ("petal length", "petal width"))
    assert {"setosa", "versicolor", "virginica", "petal length", "petal width"} <= set(texts)
    found = [shown_class(ax, point) for point in inputs]
    assert np.mean(model.classes_[found] == model.predict(inputs)) > 0.98  # some lie on a line
    assert len(set(found)) == 3


def test_a_frame_gives_its_names_and_no_warning():
    data = load_iris(as_frame=True)
    inputs, labels = data.data.iloc[:, 2:], data.target_names[data.target]
    model = hkflow.WideNetworkClassifier(particles=20, time=1.0).fit(inputs, labels)
    _, texts = drawn(model, inputs, labels, None)
    assert set(inputs.columns) <= set(texts)


def one_against_the_rest(inputs, labels, **problem):
    """Solutions of a flow, one for each label."""
    points, runs = np.tile(hkflow.quasi_uniform(50, 2), (2, 1)), []
    for label in np.unique(labels):
        objective = hkflow.Objective(
            hkflow.FEATURES["relu"], hkflow.RISKS["logistic"], hkflow.with_bias(inputs),
            np.where(labels == label, 1.0, -1.0),
        )  # fmt: skip
        initial = hkflow.PointMeasure(points, np.repeat([1.0, -1.0], 50))
        problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), (1, -1), initial)
        runs.append(hkflow.solve(problem, 20.0))
    return runs


def test_runs_of_one_class_against_the_rest():
    inputs, labels = make_blobs(60, centers=4, cluster_std=0.6, random_state=1)
    inputs = inputs / 5.0
    runs = one_against_the_rest(inputs, labels)
    ax, texts = drawn(runs, inputs, labels)
    assert {"0", "1", "2", "3"} <= set(texts)
    wanted = np.argmax([run.predict(inputs) for run in runs], axis=0)
    found = np.array([shown_class(ax, point) for point in inputs])
    assert np.mean(found == wanted) > 0.98 and np.mean(found == labels) > 0.9
    # runs in another order are other classes: the test sees it
    ax, _ = drawn(runs[::-1], inputs, labels)
    assert np.mean([shown_class(ax, point) for point in inputs] == labels) < 0.2


def test_a_run_with_an_output_for_each_class():
    inputs, labels = make_blobs(60, centers=3, cluster_std=0.6, random_state=1)
    model = hkflow.WideNetworkClassifier(loss="softmax", particles=60, time=10.0)
    model.fit(inputs, labels)
    (run,), (fitted, _) = model.solutions_, drawn(model, inputs, labels)
    ax, _ = drawn(run, run.inputs, labels)
    found = [shown_class(ax, point) for point in run.inputs]
    assert found == [shown_class(fitted, point) for point in inputs] == labels.tolist()
    with pytest.raises(hkflow.HkflowError, match="2 classes need as many outputs"):
        plots.draw_classes(ax, run, run.inputs, labels % 2)


@pytest.mark.parametrize("columns", [[2, 3], [3], [0, 1, 2, 3]])
def test_all_pictures_of_a_run_with_several_outputs(columns):
    data = load_iris()
    model = hkflow.WideNetworkClassifier(loss="softmax", particles=40, time=5.0)
    (run,) = model.fit(data.data[:, columns], data.target).solutions_
    with plots.style():
        for name in plots.available(run):
            legible(plots.draw(name, run))
    figure = plots.draw("predictions", run)
    shown = "lead of the own class, h_y − max h"
    assert shown in legible(figure)
    counted = sum(patch.get_height() for patch in figure.axes[0].patches)
    assert counted == len(data.target)
    wrong = sum(p.get_height() for p in figure.axes[0].patches if p.get_x() + p.get_width() <= 0.0)
    assert 0 < wrong <= round(run.records["training_error"][-1] * len(data.target))


def test_many_classes_have_colours_of_their_own():
    assert all(len({str(color) for color in _colors(count)}) == count for count in range(2, 30))


LONG = "the concentration of a solvent, kept at 25 °C, in m$l$"


@pytest.mark.parametrize("count", [2, 4, 7, 13, 30])
@pytest.mark.parametrize("name", ["{}", "class number {}", LONG + "\n{}"])
def test_legends_of_many_classes_fit(count, name):
    """They were as wide as their words: cut off at both sides, and the map a line."""
    labels = np.array([name.format(k) for k in range(count)])
    scores = np.random.default_rng(0).normal(size=(count, 2))
    if count == 2:
        scores = scores[1] - scores[0]
    classifier = SimpleNamespace(classes_=labels, decision_function=lambda x: x @ scores.T)
    ax, texts = drawn(
        classifier, np.random.default_rng(1).normal(size=(count, 2)), labels, [LONG] * 2
    )
    box = ax.get_position()
    assert box.width > 0.5 and box.height > 0.25
    entries = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(set(entries)) == len(entries) and set(entries) <= set(texts)
    left_out = [int(text.split()[0]) for text in entries if text.endswith(" more")]
    assert len(entries) - len(left_out) + sum(left_out) == count
    with plots.style():
        figure = Figure(figsize=(plots.COLUMN, 2.9), layout="constrained")
        draw_leads(figure.subplots(), np.arange(count) - 1.0, np.arange(count), labels)
        legible(figure)


def test_what_cannot_be_drawn_is_a_sentence():
    ax = Figure().subplots()
    with pytest.raises(hkflow.HkflowError, match="needs two inputs"):
        plots.draw_classes(ax, [], np.zeros((4, 3)), [0, 1, 2, 3])
    with pytest.raises(hkflow.HkflowError, match="3 classes need as many outputs"):
        plots.draw_classes(ax, [], np.zeros((3, 2)), [0, 1, 2])
