"""Units with a vector of output weights, φ = b (a·x)₊ ∈ R^k with θ = (a, b), and the softmax loss:
the 2-homogeneous networks of several classes."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import reference
from scipy.special import log_softmax, softmax

import hkflow
from hkflow import FEATURES, RISKS, SOFTMAX, Objective, balanced_atoms, vector_feature
from hkflow.operators.dense import unblocked

OFF = 1e-6  # of central differences


def data(rng, n=12, p=3, k=4):
    """Inputs, labels of all k classes, and weights that are not equal."""
    labels = np.r_[np.arange(k), rng.integers(0, k, n - k)].astype(float)
    weights = rng.random(n)
    return rng.normal(size=(n, p)), labels, weights / weights.sum()


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_softmax_is_the_cross_entropy(size, rng):
    n, k = 9, 4
    _, labels, q = data(rng, n, 3, k)
    h, out = size * rng.normal(size=(n, k)), np.zeros(n * k)
    value = SOFTMAX.evaluate(h.ravel(), labels, q, out)
    true = labels.astype(int)
    wanted = -q @ log_softmax(h, axis=1)[np.arange(n), true]
    np.testing.assert_allclose(value, wanted, rtol=1e-13)
    np.testing.assert_allclose(
        out.reshape(n, k), q[:, None] * (softmax(h, axis=1) - np.eye(k)[true]), atol=1e-14
    )
    np.testing.assert_allclose(out.reshape(n, k).sum(axis=1), 0.0, atol=1e-15)


def test_softmax_of_another_process_is_known(tmp_path):
    """Its compiled function is a copy there: runs had no smooth margin, nor ended at one."""
    path = tmp_path / "risk"
    path.write_bytes(pickle.dumps(SOFTMAX))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).has_smooth_margin)"
    said = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert said.stdout == "True\n", said.stderr
    assert not replace(SOFTMAX, evaluate=lambda *_: 0.0).has_smooth_margin


def test_softmax_keeps_its_digits_at_large_margins():
    """log(1 + 2e^−50) and its gradient, and margins beyond what e^h can hold."""
    out, one = np.zeros(3), np.ones(1)
    value = SOFTMAX.evaluate(np.array([50.0, 0.0, 0.0]), np.zeros(1), one, out)
    np.testing.assert_allclose(value, 2.0 * np.exp(-50.0), rtol=1e-14)
    np.testing.assert_allclose(out, np.exp(-50.0) * np.array([-2.0, 1.0, 1.0]), rtol=1e-14)
    value = SOFTMAX.evaluate(np.array([1e4, -1e4, 0.0]), np.ones(1), one, out)
    assert value == 2e4 and out.tolist() == [1.0, -1.0, 0.0]


@pytest.mark.parametrize("size", [1.0, 50.0])
def test_the_smooth_margin_is_minus_the_log_of_the_cross_entropy(size, rng):
    """It was nan. With a scale it needs no number for e^L: there it is the smallest lead."""
    h, labels, weights = data(rng, p=4)
    objective = Objective(vector_feature("relu", 4), SOFTMAX, np.eye(len(h)), labels, weights)
    loss = -weights @ log_softmax(size * h, axis=1)[np.arange(len(h)), labels.astype(int)]
    assert objective.smooth_margin(size * h.ravel()) == pytest.approx(-np.log(loss), rel=1e-12)
    in_units = objective.smooth_margin(h.ravel(), np.log(size)) * size
    assert in_units == pytest.approx(-np.log(loss), rel=1e-12)
    h[np.arange(len(h)), labels.astype(int)] += 10.0  # so that all margins are positive
    lead = objective.margin(h.ravel())
    assert objective.smooth_margin(h.ravel(), 1e4) == pytest.approx(lead, rel=1e-12)


def test_two_classes_are_the_logistic_loss_of_the_difference(rng):
    h, y, q = 3.0 * rng.normal(size=(20, 2)), rng.integers(0, 2, 20), rng.random(20)
    pair, one = np.zeros(40), np.zeros(20)
    value = SOFTMAX.evaluate(h.ravel(), y.astype(float), q, pair)
    wanted = RISKS["logistic"].evaluate(h[:, 1] - h[:, 0], 2.0 * y - 1.0, q, one)
    np.testing.assert_allclose(value, wanted, rtol=1e-14)
    np.testing.assert_allclose(pair.reshape(20, 2), np.column_stack([-one, one]), rtol=1e-13)


@pytest.mark.parametrize("activation", ["relu", "linear"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_predictions_and_gradients_are_those_of_the_network(activation, k, rng):
    """h by the product rule in NumPy; ∂F/∂θ by central differences."""
    x, labels, q = data(rng, 11, 3, k)
    objective = Objective(vector_feature(activation, k), SOFTMAX, x, labels, q)
    points, weights = rng.normal(size=(20, 3 + k)), rng.random(20)
    moving = objective.at_moving_points(points)
    value = moving.evaluate(weights)
    psi = x @ points[:, :3].T
    psi = np.maximum(psi, 0.0) if activation == "relu" else psi
    h = (psi * weights) @ points[:, 3:]
    np.testing.assert_allclose(moving.predictions.reshape(-1, k), h, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(objective.feature.matrix(points, x) @ weights, h.ravel(), atol=1e-13)
    gradient = weights[:, None] * unblocked(moving.gradient, 20)
    for _ in range(10):
        u = rng.normal(size=points.shape)
        ends = [objective.at_moving_points(points + s * OFF * u).value(weights) for s in (1, -1)]
        np.testing.assert_allclose(
            np.sum(gradient * u), (ends[0] - ends[1]) / (2.0 * OFF), rtol=1e-6, atol=1e-9
        )
        w = rng.normal(size=20)
        ends = [objective.at_moving_points(points).value(weights + s * OFF * w) for s in (1, -1)]
        np.testing.assert_allclose(moving.slopes @ w, (ends[0] - ends[1]) / (2.0 * OFF), rtol=1e-6)
    fixed = objective.at_fixed_points(points)
    np.testing.assert_allclose(fixed.evaluate(weights[None]), value, rtol=1e-14)
    np.testing.assert_allclose(fixed.potential[0], moving.slopes, rtol=1e-12, atol=1e-14)


def problem(x, labels, k, n=40, initial=None, flow=None, activation="relu", **objective):
    """The flow of both layers of a network."""
    made = Objective(vector_feature(activation, k), SOFTMAX, x, labels, **objective)
    initial = initial or balanced_atoms(n, made.axes - 1, outputs=k)
    return hkflow.Problem(None, made, flow or hkflow.Flow(1.0, 4.0), initial=initial)


@pytest.mark.parametrize("kind", ["particles", "network"])
@pytest.mark.parametrize(
    ("activation", "options", "off"), [("relu", {}, 5e-3), ("linear", {"tolerance": 1e-10}, 1e-8)]
)
def test_the_objective_falls_by_what_is_exchanged(kind, activation, options, off, rng):
    """Steps over kinks count more than what units that slide along them exchange, at any
    tolerance."""
    x, labels, q = data(rng)
    made = problem(x, labels, 4, activation=activation, weights=q, weight_decay=0.01)
    run = hkflow.solve(made, 1.0, kind=kind, **options)
    assert run.finished and np.diff(run.records["objective"]).max() < 0.0
    fall = run.records["objective"][0] - run.records["objective"][-1]
    assert np.abs(run.records["energy_residual"]).max() < off * fall
    np.testing.assert_allclose(run.records["objective"][0], np.log(4.0) + 0.01, rtol=1e-12)
    np.testing.assert_allclose(run.predict(x), run.predictions[-1], rtol=1e-12, atol=1e-13)
    assert run.predictions.shape == (2, 12, 4) and len(run.axis_names) == 7
    margins = run.predictions[-1] - run.predictions[-1][np.arange(12), labels.astype(int)][:, None]
    margins[np.arange(12), labels.astype(int)] = -np.inf
    np.testing.assert_allclose(
        run.records["margin"][-1], -margins.max() / run.mass[-1], rtol=1e-12, atol=1e-13
    )
    wrong = np.average(margins.max(axis=1) >= 0.0, weights=q)
    np.testing.assert_allclose(run.records["training_error"][-1], wrong, rtol=1e-14)


def test_sibling_another_reaction_than_the_networks_is_seen(rng):
    """Particles follow raw weights with β = 4, not with 2."""
    x, labels, _ = data(rng)
    network = hkflow.solve(problem(x, labels, 4), 1.0, kind="network")

    def off(beta):
        made = problem(x, labels, 4, flow=hkflow.Flow(1.0, beta))
        particles = hkflow.solve(made, 1.0, kind="particles")
        return np.abs(particles.predictions[-1] - network.predictions[-1]).max()

    assert off(4.0) < 1e-4 < 1e-2 < off(2.0)


def test_a_network_keeps_its_balance(rng):
    """|a_j|² − |b_j|² of 2-homogeneous units stands still."""
    x, labels, _ = data(rng)
    run = hkflow.solve(problem(x, labels, 4), 2.0, kind="network", tolerance=1e-5)
    hidden = run.states[-1]["hidden"]
    a, b = np.sum(hidden[:, :3] ** 2, axis=1), np.sum(hidden[:, 3:] ** 2, axis=1)
    assert a.max() > 2.0 * a.min()
    np.testing.assert_allclose(a, b, rtol=1e-3)


@pytest.mark.parametrize(
    ("activation", "options", "off"),
    [("linear", {"tolerance": 1e-10}, 1e-8), ("relu", {"tolerance": 1e-6}, 1e-4)],
)
def test_two_classes_flow_as_the_logistic_loss(activation, options, off, rng):
    """Units b = (−c, c)/√2 keep that form, and h₁ − h₀ is the prediction of joint units (a, c) at
    the inputs √2 x; those of ReLU slide along kinks, by another stepper."""
    x, labels, _ = data(rng, 10, 3, 2)
    start = balanced_atoms(40, 3).positions
    a, c = start[:, :3], start[:, 3:] / np.sqrt(2.0)
    feature, risk = vector_feature(activation, 2), RISKS["logistic"]
    pair = hkflow.Problem(
        None, Objective(feature, SOFTMAX, x, labels), hkflow.Flow(1.0, 4.0),
        initial=hkflow.PointMeasure(np.hstack([a, -c, c])),
    )  # fmt: skip
    one = FEATURES["joint-relu"] if activation == "relu" else vector_feature("linear", 1)
    joint = hkflow.Problem(
        None, Objective(one, risk, np.sqrt(2.0) * x, 2.0 * labels - 1.0), hkflow.Flow(1.0, 4.0),
        initial=hkflow.PointMeasure(start),
    )  # fmt: skip
    runs = [hkflow.solve(made, 1.0, kind="particles", **options) for made in (pair, joint)]
    h = runs[0].predictions[-1]
    np.testing.assert_allclose(h[:, 1] - h[:, 0], runs[1].predictions[-1], atol=off)
    np.testing.assert_allclose(h.sum(axis=1), 0.0, atol=1e-10)
    assert np.abs(h).max() > 0.1


@pytest.mark.parametrize(("n", "outputs"), [(3, 1), (0, 1), (4, 0), (4, 3)])
def test_balanced_atoms_need_two_signs_and_room_for_both_layers(n, outputs):
    with pytest.raises(ValueError, match="two signs of b|b takes from 1 to 2"):
        balanced_atoms(n, 2, outputs=outputs)


def test_permuted_classes_permute_predictions(rng):
    x, labels, _ = data(rng, 12, 3, 4)
    order = np.array([2, 0, 3, 1])  # class l is called order[l]
    start = balanced_atoms(40, 6, outputs=4).positions
    permuted = start.copy()
    permuted[:, 3 + order] = start[:, 3:]
    first = hkflow.solve(problem(x, labels, 4, initial=hkflow.PointMeasure(start)), 0.5)
    second = problem(
        x, order[labels.astype(int)].astype(float), 4, initial=hkflow.PointMeasure(permuted)
    )
    found = hkflow.solve(second, 0.5).predictions[-1][:, order]
    np.testing.assert_allclose(found, first.predictions[-1], rtol=1e-7, atol=1e-7)


def test_descent_and_fresh_batches_train_them(rng):
    x, labels, _ = data(rng)
    for training in ("gradient-descent", "sgd"):
        made = problem(x, labels, 4)
        run = hkflow.solve(made, 10.0, kind="network", training=training, step=0.05)
        assert run.records["objective"][-1] < 0.9 * run.records["objective"][0]


@pytest.mark.parametrize(
    ("feature", "risk", "targets", "sentence"),
    [
        (FEATURES["relu"], SOFTMAX, [0.0, 1.0], "needs units with an output for each class"),
        (vector_feature("relu", 2), RISKS["square"], [0.0, 1.0], "need a risk of 2 classes"),
        (vector_feature("relu", 2), SOFTMAX, [0.0, 2.0], "needs targets 0 … 1"),
        (vector_feature("relu", 2), SOFTMAX, [0.0, 0.5], "needs targets 0 … 1"),
    ],
)
def test_what_does_not_fit_together_is_refused(feature, risk, targets, sentence):
    with pytest.raises(ValueError, match=sentence):
        Objective(feature, risk, np.ones((2, 1)), np.array(targets))


def test_another_activation_is_refused():
    with pytest.raises(ValueError, match="Unknown activation of vectors 'squared-relu'"):
        vector_feature("squared-relu", 3)
    with pytest.raises(ValueError, match="outputs must be a whole number"):
        vector_feature("relu", 0)


def test_one_output_is_the_joint_feature(rng):
    points, x = rng.normal(size=(7, 4)), rng.normal(size=(5, 3))
    one, joint = vector_feature("relu", 1), FEATURES["joint-relu"]
    np.testing.assert_array_equal(one.matrix(points, x), joint.matrix(points, x))
    a, b = points[:, :-1], points[:, -1]
    np.testing.assert_allclose(
        joint.matrix(points, x), reference.activate(joint.activation, x @ a.T) * b, rtol=1e-15
    )


def test_what_is_stored_of_them(rng, tmp_path):
    """Tables have a row for each class, data sets an axis; run folders give back the same."""
    x, labels, _ = data(rng)
    made = problem(x, labels, 4)
    run = hkflow.run(made, output=tmp_path / "run", end=0.1, tolerance=1e-4, quiet=True)
    assert run.predictions.shape == (2, 12, 4)
    again = hkflow.load(tmp_path / "run")
    packed = hkflow.load(tmp_path / "run" / "results.h5")
    solution = hkflow.solve(made, 0.1, tolerance=1e-4)
    for one in (again, packed):
        np.testing.assert_array_equal(one.predictions, solution.predictions)
        assert one.problem.objective.feature == made.objective.feature
        np.testing.assert_array_equal(one.predict(x), solution.predict(x))
    hkflow.export(run, "csv", output=tmp_path)
    (path,) = tmp_path.glob("*predictions.csv")
    rows = np.genfromtxt(path, delimiter=",", names=True)
    np.testing.assert_array_equal(rows["prediction"], run.predictions.ravel())
    np.testing.assert_array_equal(rows["class"], np.tile(np.arange(4), 24))
    np.testing.assert_array_equal(rows["target"], np.tile(np.repeat(labels, 4), 2))
    table = hkflow.to_xarray(run)
    assert table["predictions"].dims == table["residuals"].dims == ("time", "datum", "class")


@pytest.mark.parametrize("mass", [1e-300, 1.0, 1e150, 1e300])
def test_rounding_of_softmax_is_known_for_any_mass(mass, rng):
    """It overflowed with a warning; softmax's R changes by no more than |h| does, twice."""
    x, y = rng.normal(size=(6, 2)), np.arange(6) % 3
    o = hkflow.Objective(hkflow.vector_feature("relu", 3), hkflow.SOFTMAX, x, y)
    small = o.rounding(1.0, np.zeros(18), mass)
    size = mass * o.largest_feature
    assert 1e-16 < small <= 1e-14 * (1.0 + 2.0 * size)
