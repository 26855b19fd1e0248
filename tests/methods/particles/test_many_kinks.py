"""Kinks of many data are stepped over, in few steps and close to characteristics."""

import numpy as np
import pytest

import hkflow
from hkflow.methods import rules
from hkflow.methods.choice import kind_of, make_method

RELU = hkflow.FEATURES["relu"]
MANY = rules.MANY_NUMBERS // rules.FEW_INPUTS  # data, if they have few inputs


def problem(n, distinct=None, flow=None, feature=RELU):
    """Two classes of n data in the plane, of which so many inputs are distinct."""
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(distinct or n, 2))
    inputs = np.resize(inputs, (n, 2))
    targets = np.where(inputs[:, 0] * inputs[:, 1] > 0.1, 1.0, -1.0)
    objective = hkflow.Objective(
        feature, hkflow.RISKS["logistic"], hkflow.with_bias(inputs), targets
    )
    points = np.tile(hkflow.quasi_uniform(50, 2), (2, 1))
    atoms = hkflow.PointMeasure(points, np.repeat([1.0, -1.0], 50))
    return hkflow.Problem(None, objective, flow or hkflow.Flow(1.0, 2.0), (1, -1), atoms)


def error(first, second):
    """Of predictions at the end, root mean square, relative."""
    a, b = first.predictions[-1], second.predictions[-1]
    return np.sqrt(np.mean((a - b) ** 2) / np.mean(b**2))


def test_so_many_data_are_left_to_particles_that_agree_with_characteristics():
    many = problem(MANY)
    assert kind_of(many) == "particles"
    found = hkflow.solve(many, 4.0)
    exact = hkflow.solve(many, 4.0, kind="characteristics", tolerance=1e-6)
    assert found.method == "particles"
    assert error(found, exact) < 1e-4
    assert found.end["steps"] < 30
    rough = hkflow.solve(many, 4.0, tolerance=1e-2)
    assert error(rough, exact) > 1e-4  # what the tolerance is for


@pytest.mark.parametrize(
    "n, inputs, many", [(999, 400, False), (1000, 299, False), (1000, 300, True), (4000, 80, True)]
)
def test_wide_data_have_many_sooner(n, inputs, many):
    x = np.random.default_rng(0).normal(size=(n, inputs))
    assert rules.has_many_kinks(x) == rules.has_many_kinks(hkflow.with_bias(x)) == many


def test_linear_units_have_none():
    many = problem(MANY, feature=hkflow.FEATURES["linear"])
    assert kind_of(many) == "characteristics"


def test_a_table_of_many_rows_is_left_to_particles(tmp_path):
    table = np.random.default_rng(1).normal(size=(MANY, 2))
    np.savetxt(tmp_path / "x.csv", table, "%.6f", ",", header="x,y", comments="")
    case = {
        "data": {"source": "csv", "file": str(tmp_path / "x.csv"), "label": "y"},
        "objective": {"activation": "relu", "loss": "square", "bias": True},
        "domain": {"kind": "signed-sphere"},
        "flow": {"kind": "hellinger-kantorovich"},
        "method": {"kind": "auto", "particles": 40},
        "time": {"end": 0.1},
    }
    resolved, made = hkflow.check(case)
    assert resolved.method.kind == kind_of(made) == "particles"


def test_equal_inputs_have_one_kink():
    few = problem(2 * MANY, distinct=40)
    assert kind_of(few) == "characteristics"
    assert make_method(few, "particles").sees_kinks


def test_sliding_is_for_few_kinks_unless_it_is_asked_for():
    limit = rules.MANY_KINKS
    few, many = problem(limit - 1), problem(limit)
    assert kind_of(many) == "characteristics"
    slides, steps_over = (make_method(one, "particles") for one in (few, many))
    assert (slides.sees_kinks, slides.tolerance) == (True, 1e-6)
    assert (steps_over.sees_kinks, steps_over.tolerance) == (False, 1e-5)
    assert steps_over.pair.name == "dopri5"
    implicit = make_method(many, "particles", imex="implicit")
    assert [one.knows_implicit() for one in (slides, steps_over, implicit)] == [True, False, True]
    asked = make_method(many, "particles", stepper="sliding")
    assert (asked.sees_kinks, asked.tolerance) == (True, 1e-6)
    over, along = (
        hkflow.solve(many, 0.5, kind="particles", stepper=stepper)
        for stepper in ("auto", "sliding")
    )
    assert error(over, along) < 5e-4


@pytest.mark.parametrize(
    "changes",
    [
        {"feature": hkflow.FEATURES["squared-relu"]},
        {"flow": hkflow.Flow(0.0, 2.0)},
    ],
)
def test_nothing_slides_without_kinks_or_motion(changes):
    one = problem(10, **changes)
    assert not make_method(one, "particles").sees_kinks
    with pytest.raises(ValueError, match="'sliding' needs units that move, of a feature whose"):
        make_method(one, "particles", stepper="sliding")


@pytest.mark.parametrize(
    ("equal", "others", "many"), [(5000, 1500, True), (0, 6000, True), (5000, 900, False)]
)
def test_kinks_are_many_wherever_in_the_data_they_are(equal, others, many):
    """The first few thousand data tell, and if they do not, all of them."""
    found = problem(equal + others, others)
    found.objective.inputs[:equal] = 1.0
    assert make_method(found, "particles").over_kinks == many
