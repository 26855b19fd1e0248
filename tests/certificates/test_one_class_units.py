"""Units that are positive on one class each, and that they and the main axes of the data enclose
the margins of few data in many inputs."""

import numpy as np
import pytest
from scipy.optimize import minimize

import hkflow
from hkflow.certificates import global_upper_bound as room
from hkflow.certificates import main_axes
from hkflow.certificates.certificate import coefficients, others
from hkflow.certificates.column_generation import enclosed_max_margin, signed_features
from hkflow.certificates.one_class_units import one_class_units
from hkflow.certificates.search import local_maxima
from hkflow.objectives.losses import SOFTMAX

KINDS = ["signs", "joint", "classes"]


def data(kind, inputs):
    """Inputs with labels in turns, and the signs of their units."""
    if kind == "classes":
        feature, labels = hkflow.vector_feature("relu", 3), np.arange(len(inputs)) % 3.0
        return hkflow.Objective(feature, SOFTMAX, inputs, labels), (1,)
    feature = hkflow.FEATURES["relu" if kind == "signs" else "joint-relu"]
    labels = np.where(np.arange(len(inputs)) % 3 > 0, 1.0, -1.0)
    objective = hkflow.Objective(feature, hkflow.RISKS["logistic"], inputs, labels)
    return objective, (1, -1) if kind == "signs" else (1,)


@pytest.mark.parametrize("kind", KINDS)
def test_units_have_least_length_and_p_the_same_value_at_each(kind, rng):
    x = rng.normal(size=(9, 12))
    objective, signs = data(kind, x)
    atoms, p = one_class_units(objective, signs)
    lengths = []
    for label in np.unique(objective.targets):
        own = objective.targets == label
        conditions = {"type": "ineq", "fun": lambda w, own=own: np.where(own, x @ w - 1, -x @ w)}
        least = minimize(
            lambda w: w @ w, np.zeros(12), jac=lambda w: 2 * w, constraints=conditions, tol=1e-14
        )
        lengths.append(np.sqrt(least.fun))
    assert atoms.weights == pytest.approx(np.array(lengths) / np.sum(lengths), rel=1e-6)
    margin = {"signs": 1.0, "joint": 0.5, "classes": 0.5 * np.sqrt(1.5)}[kind] / np.sum(lengths)
    z = signed_features(objective, atoms.positions, atoms.signs)
    assert (z @ atoms.weights).min() == pytest.approx(margin, rel=1e-6)
    assert p.sum() == pytest.approx(1.0, rel=1e-14)
    p = p[others(objective)] if p.ndim > 1 else p
    assert p @ z == pytest.approx(margin, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_margins_of_orthogonal_data_are_known_without_a_search(kind, rng):
    x = np.linalg.qr(rng.normal(size=(40, 40)))[0][:, :20].T * rng.uniform(1.0, 5.0, (20, 1))
    objective, signs = data(kind, x)
    found = enclosed_max_margin(objective, signs, seconds=0.0)
    assert (found.certified, found.rounds) == (True, 0)
    assert found.relative_gap < 1e-3


@pytest.mark.parametrize(("kind", "gap"), [("signs", 0.02), ("joint", 0.02), ("classes", 0.15)])
def test_margins_of_few_data_in_many_inputs_are_known_without_a_search(kind, gap, rng):
    """The search left them 40 % and more apart, after seconds or minutes."""
    x = rng.normal(size=(45, 2000))
    objective, signs = data(kind, x)
    found = enclosed_max_margin(objective, signs, seconds=0.0)
    assert (found.certified, found.rounds) == (True, 0)
    assert found.relative_gap < gap
    z = signed_features(objective, found.atoms.positions, found.atoms.signs)
    assert (z @ found.atoms.weights).min() == pytest.approx(found.lower, rel=1e-12)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_without_cones_the_bound_of_classes_holds(k, rng):
    """For p as of classes, whose vectors are summed in groups, and for any."""
    feature, x, labels = hkflow.vector_feature("relu", k), rng.normal(size=(20, 12)), np.arange(20)
    objective = hkflow.Objective(feature, SOFTMAX, x, labels % float(k))
    for trial in range(10):
        p = rng.random(20)[:, None] * (rng.random((20, k)) if trial % 2 else np.ones(k))
        c = coefficients(objective, np.where(labels[:, None] % k == np.arange(k), 0.0, p))
        highest = local_maxima(feature, x, c).values[0]
        bound = room.global_upper_bound(feature, x, c, nodes=12)
        sizes = np.linalg.norm(c.reshape(20, k), axis=1) @ np.linalg.norm(x, axis=1)
        assert highest <= bound < 0.5 * sizes


def test_units_are_not_there_where_a_class_is_not_apart(rng):
    x = rng.normal(size=(9, 12))
    both = np.concatenate([x, 2.0 * x[1:2]])  # with another label
    zero = np.concatenate([x, np.zeros((1, 12))])
    for inputs in (both, zero, rng.normal(size=(60, 12)), np.zeros((3, 12))):
        for kind in KINDS:
            assert one_class_units(*data(kind, inputs)) is None
    objective, _ = data("signs", x)
    assert one_class_units(objective, (1,)) is None
    with pytest.raises(hkflow.HkflowError, match="takes more time"):
        enclosed_max_margin(data("signs", rng.normal(size=(60, 12)))[0], (1, -1), seconds=0.0)


# --- siblings


def test_sibling_groups_at_acute_angles_do_not_add_up_by_squares(monkeypatch):
    c = np.array([[0.6, 0.59], [0.59, 0.6]])
    honest = main_axes.by_main_axes(np.eye(2), c, np.zeros((2, 2)))
    together = np.linalg.norm(c.T @ np.full(2, np.sqrt(0.5)))
    monkeypatch.setattr(main_axes, "_groups", lambda c: np.argmax(c, axis=1))
    assert main_axes.by_main_axes(np.eye(2), c, np.zeros((2, 2))) < together <= honest
