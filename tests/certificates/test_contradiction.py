"""Data that contradict each other: found exactly, told by their lines, and proved by weights of
their own."""

import numpy as np
import pytest
from conftest import ROOT
from typer.testing import CliRunner

import hkflow
from hkflow.app.cli import app
from hkflow.certificates.column_generation import max_margin, max_margin_of_atoms
from hkflow.certificates.contradiction import contradiction
from hkflow.plots.records import has_margins

IRIS = ROOT / "cases" / "quickstart" / "iris.toml"
TANH = hkflow.Feature("tanh", lambda theta, x: np.tanh(x @ theta.T))


def objective(inputs, targets, feature="relu"):
    feature = hkflow.FEATURES.get(feature, TANH)
    return hkflow.Objective(
        feature, hkflow.RISKS["logistic"], np.array(inputs), np.array(targets, dtype=float)
    )


@pytest.mark.parametrize("feature", [*hkflow.FEATURES, "tanh"])
def test_the_weights_balance_every_unit(feature, rng):
    """Σ p_i y_i φ(θ, x_i) = 0 for all θ: a proof of γ ≤ 0 that needs no search."""
    x, y = rng.normal(size=(8, 3)), rng.choice([-1.0, 1.0], size=8)
    x[6], y[6] = 4.0 * x[2] if feature != "tanh" else x[2], -y[2]
    o = objective(x, y, feature)
    found = contradiction(o)
    assert found.data == (2, 6) and found.parallel == (feature != "tanh")
    assert found.dual.min() >= 0.0 and found.dual.sum() == pytest.approx(1.0, rel=1e-15)
    theta = rng.normal(size=(50, o.axes))
    assert np.abs((found.dual * y) @ o.feature.matrix(theta, x)).max() < 1e-14
    # it can fail
    assert (
        np.abs((found.dual**2 * y) @ o.feature.matrix(theta, x)).max() > 1e-3 or feature == "tanh"
    )


def test_inputs_0_with_both_labels_balance_each_other():
    """Where a unit is not 0 at 0, or need not be: two data, for one proves nothing."""
    found = contradiction(objective([[0.0, 0.0], [1.0, 2.0], [-0.0, 0.0]], [1, 1, -1], "tanh"))
    assert found.data == (0, 2) and found.dual.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize(
    "inputs, targets, wanted",
    [
        (
            [[1.0, 1.0], [2.0, 1.0], [1.0, 1.0]],
            [1, 1, -1],
            "rows 1 and 3 of the data hold one input with both labels",
        ),
        (
            [[0.1, 0.3], [0.2, 0.6]],
            [-1, 1],
            "rows 1 and 2 of the data hold parallel inputs with both labels",
        ),
        (
            [[0.0, -3.0], [-0.0, -1.0], [5.0, 1.0]],
            [1, -1, 1],
            "rows 1 and 2 of the data hold parallel inputs with both labels",
        ),
        (
            [[1e-200, 0.0], [1e99, 0.0]],
            [1, -1],
            "rows 1 and 2 of the data hold parallel inputs with both labels",
        ),
        (
            [[1.0, 2.0], [0.0, 0.0]],
            [1, 1],
            "row 2 of the data holds the input 0, where every unit is 0",
        ),
    ],
)
def test_which_rows_they_are_is_said(inputs, targets, wanted):
    found = contradiction(objective(inputs, targets))
    assert found.sentence() == wanted and found.dual.sum() == 1.0


@pytest.mark.parametrize(
    "inputs, targets",
    [
        ([[1.0, 1.0], [2.0, 2.0]], [1, 1]),  # one label
        ([[1.0, 1.0], [-1.0, -1.0]], [1, -1]),  # opposite directions
        ([[1.0, 3.0], [np.nextafter(2.0, 3.0), 6.0]], [1, -1]),  # parallel but for a rounding
        # parallel as decimals, not as the numbers that are stored
        ([[0.1, 0.7], [0.3, 2.1]], [1, -1]),
        ([[1.0, 1.0], [1.0, 1.0]], [1, -0.5]),  # a regression
    ],
)
def test_what_does_not_contradict(inputs, targets):
    y = np.array(targets, dtype=float)
    o = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.array(inputs), y)
    assert contradiction(o) is None


@pytest.mark.parametrize("axes", [2, 3, 5])
def test_the_linear_programme_ends_at_zero(axes, rng):
    x, y = rng.normal(size=(10, axes)), rng.choice([-1.0, 1.0], size=10)
    x[7], y[7] = 2.0 * x[4], -y[4]
    o = objective(x, y)
    anywhere, fixed = rng.normal(size=(50, axes)), np.eye(axes)
    for found, points in (
        (max_margin(o, (1, -1)), anywhere),
        (max_margin_of_atoms(o, fixed, (1, -1)), fixed),
    ):
        assert found.upper == 0.0 and found.certified and -1e-15 < found.lower <= 0.0
        assert np.abs(found.dual * y @ o.feature.matrix(points, x)).max() < 1e-14


def test_a_run_of_irises_names_the_lines_and_draws_no_margin(tmp_path):
    run = hkflow.run(
        IRIS, output=tmp_path / "run", **{"domain.cells": 162, "time.end": 0.5, "time.saves": 2}
    )
    lines = (IRIS.parent / "iris.csv").read_text().splitlines()
    first, second = (lines[k - 1].split(",") for k in (72, 128))
    assert first[2:4] == second[2:4] and {first[4], second[4]} == {"versicolor", "virginica"}
    assert run.contradiction == "lines 72 and 128 of the data file hold one input with both labels"
    assert not run.records["margin_upper"].any() and not has_margins(run)
    out = CliRunner().invoke(app, ["info", str(tmp_path / "run")]).stdout
    assert (
        "F₁ max-margin:    0: lines 72 and 128 of the data file hold one input with both labels\n"
        in out
    )
    assert hkflow.load(tmp_path / "run" / "results.h5").contradiction == run.contradiction


def test_a_run_of_separable_data_keeps_its_interval():
    o = objective([[1.0, 1.0], [-1.0, 1.0], [2.0, 1.0]], [1, -1, 1])
    s = hkflow.solve(hkflow.Problem(hkflow.circle_mesh(64), o, hkflow.Flow(1.0, 2.0), (1, -1)), 0.5)
    assert s.records["margin_upper"][-1] > 0.1
