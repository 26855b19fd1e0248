"""What runs with an output for each class prove of their max-margin, against the linear programmes
of `max_margin` and the largest norms over all cells of the arrangement."""

import json

import h5py
import numpy as np
import pytest
from brute_force import largest_norm
from conftest import ROOT

import hkflow
from hkflow.analysis.summary import summary
from hkflow.certificates import certificate
from hkflow.certificates.certificate import coefficients, dual_value, margin_certificate
from hkflow.certificates.column_generation import max_margin
from hkflow.certificates.contradiction import contradiction
from hkflow.errors import RunFolderError

CASE = ROOT / "cases" / "quickstart" / "three-classes.toml"


def objective(n=15, k=3, seed=3, psi="relu", **options):
    """n data around k points of the plane, and 1."""
    rng, y = np.random.default_rng(seed), np.arange(n) % k
    angles = 2.0 * np.pi * y / k
    x = 0.3 * rng.normal(size=(n, 2)) + np.column_stack([np.cos(angles), np.sin(angles)])
    return hkflow.Objective(
        hkflow.vector_feature(psi, k), hkflow.SOFTMAX, hkflow.with_bias(x), y, **options
    )


def problem_of(o, atoms=200):
    start = hkflow.balanced_atoms(atoms, o.axes - 1, outputs=o.feature.outputs)
    return hkflow.Problem(None, o, hkflow.Flow(1.0, 4.0), initial=start)


def check(records, found):
    """margin ≤ γ ≤ dual value at each certificate, and what follows of them."""
    margin, dual = records["margin"], records["dual_value"]
    known, rounding = np.isfinite(dual), 1e-9 * found.upper
    assert known[-1] and found.certified and found.reached
    assert (margin <= found.upper + rounding).all()
    assert (dual[known] >= found.lower - rounding).all()
    assert np.array_equal(records["margin_lower"], np.fmax.accumulate(margin))
    best = np.fmin.accumulate(dual)
    assert np.array_equal(records["margin_upper"], np.where(np.isnan(best), np.inf, best))
    of_measure, of_data = records["slackness_measure"][known], records["slackness_data"][known]
    assert of_measure + of_data == pytest.approx((dual - margin)[known], rel=1e-12, abs=1e-13)
    assert of_measure.min() >= -1e-12 and of_data.min() >= -1e-12


def leads_forgotten(o, p):
    """A mistake: the weights of a datum's leads do not stand at its own class."""
    return np.where(certificate.others(o), -p, 0.0).reshape(-1)


@pytest.mark.parametrize("psi, k", [("relu", 3), ("relu", 2), ("relu", 4), ("linear", 3)])
def test_a_run_encloses_its_max_margin(psi, k, monkeypatch):
    o = objective(k=k, psi=psi)
    found, problem = max_margin(o), problem_of(o)
    s = hkflow.solve(problem, end=200.0, tolerance=1e-4)
    check(s.records, found)
    assert 0.5 * found.lower < s.records["margin"][-1] and s.records["margin_upper"][-1] < np.inf
    assert s.records["margin_upper"][-1] < 2.0 * found.upper
    of_run = s.max_margin
    assert of_run.certified and of_run.dual.shape == (15, k)
    assert of_run.lower <= found.upper and found.lower <= of_run.upper
    assert s.margin_share[-1] == pytest.approx(
        100.0 * s.records["margin"][-1] / found.upper, rel=1e-5
    )
    monkeypatch.setattr(certificate, "coefficients", leads_forgotten)
    with pytest.raises(AssertionError):
        check(hkflow.solve(problem, end=200.0, tolerance=1e-4).records, found)


def test_the_dual_value_is_the_largest_norm(rng):
    """Of weights p_il ∝ ∂R/∂h_il at l ≠ y_i, for any predictions; those of data that do not count
    are 0."""
    weights = np.where(np.arange(15) == 4, 0.0, 1.0 / 14.0)
    o = objective(weights=weights)
    h, gradient = rng.normal(size=45), np.empty(45)
    o.evaluate_risk(h, 0.0, gradient)
    found = margin_certificate(problem_of(o), h, 2.0, gradient)
    p = np.where(np.arange(3) != o.targets[:, None], gradient.reshape(15, 3), 0.0)
    p /= p.sum()
    c = coefficients(o, p)
    assert not c[12:15].any() and np.abs(c.reshape(15, 3).sum(axis=1)).max() < 1e-16
    assert c == pytest.approx(-gradient / np.maximum(gradient, 0.0).sum(), rel=1e-12)
    highest = 0.5 * largest_norm(o.inputs, c.reshape(15, 3))
    assert highest <= found["dual_value"] <= 1.2 * highest
    leads = h.reshape(15, 3)[np.arange(15), o.targets.astype(int)][:, None] - h.reshape(15, 3)
    assert found["dual_value"] - found["slackness_measure"] == pytest.approx(
        0.5 * np.sum(p * leads), rel=1e-12
    )
    counted = np.where(np.arange(3) != o.targets[:, None], leads, np.inf)[weights > 0.0]
    least = found["dual_value"] - found["slackness_measure"] - found["slackness_data"]
    assert least == pytest.approx(0.5 * counted.min(), rel=1e-12)


def test_weights_that_are_no_probability_prove_nothing():
    o = objective()
    for gradient, mass in ((np.full(45, np.nan), 1.0), (np.zeros(45), 0.0)):
        found = margin_certificate(problem_of(o), np.ones(45), mass, gradient)
        assert np.isnan(list(found.values())).all()


def saturated():
    """A run so heavy that no number holds a loss gradient, and its max-margin."""
    o = objective(n=3)
    trained = hkflow.solve(problem_of(o, 50), end=40.0, tolerance=1e-4).atoms_at(-1)
    heavy = hkflow.PointMeasure(trained.positions, trained.signs, 1e4 * trained.weights)
    problem = hkflow.Problem(None, o, hkflow.Flow(1.0, 4.0), initial=heavy)
    return hkflow.solve(problem, end=1.0), max_margin(o)


def test_a_run_whose_gradients_are_all_rounded_to_zero_proves_an_upper_end(monkeypatch):
    s, found = saturated()
    assert not s.records["effective_data"].any()
    check(s.records, found)
    low, high = (s.records[f"margin_{end}"][-1] for end in ("lower", "upper"))
    assert low > 0.1 and high < np.inf
    told = f"in [{low:.6g}, {high:.6g}] (certified by the run alone)"
    assert dict(summary(s))["max-margin γ"] == told
    unknown = hkflow.Objective.soft_argmin
    monkeypatch.setattr(hkflow.Objective, "soft_argmin", lambda *of: np.nan * unknown(*of))
    s, _ = saturated()
    assert np.isinf(s.records["margin_upper"]).all()
    assert dict(summary(s))["max-margin γ"] == f"at least {low:.6g} (certified by the run alone)"


@pytest.mark.parametrize("log_scale", [0.0, 1.5])
def test_the_soft_argmin_is_that_of_the_gradients_where_these_are_numbers(log_scale, rng):
    weights = np.where(np.arange(15) == 4, 0.0, 1.0 / 14.0)
    o, h, gradient = objective(weights=weights), rng.normal(size=45), np.empty(45)
    o.evaluate_risk(h, log_scale, gradient)
    p = np.where(certificate.others(o), gradient.reshape(15, 3), 0.0)
    found = o.soft_argmin(h, log_scale)
    assert found / found.sum() == pytest.approx(p / p.sum(), rel=1e-12)
    h = h.reshape(15, 3) + 10.0 * ~certificate.others(o)  # every lead is positive
    far = o.soft_argmin(1e5 * h.ravel())  # all on the smallest lead
    leads = np.where(certificate.others(o), h[~certificate.others(o)][:, None] - h, np.inf)
    leads[weights == 0.0] = np.inf
    assert (far / far.sum()).ravel()[leads.argmin()] == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("n_inputs", [1, 3])
def test_the_weights_of_a_contradiction_balance_every_unit(n_inputs, rng):
    x, y = rng.normal(size=(9, n_inputs)), np.arange(9) % 3
    x[7] = 4.0 * x[2] if n_inputs > 1 else 0.0
    o = hkflow.Objective(hkflow.vector_feature("relu", 3), hkflow.SOFTMAX, x, y)
    found, theta = contradiction(o), rng.normal(size=(40, n_inputs + 3))
    assert found.data == ((2, 7) if n_inputs > 1 else (7,))
    assert found.dual.shape == (9, 3) and found.dual.sum() == pytest.approx(1.0, rel=1e-15)
    assert not found.dual[np.arange(9), y].any()
    assert np.abs(coefficients(o, found.dual) @ o.feature.matrix(theta, x)).max() < 1e-14
    assert dual_value(problem_of(o), found.dual) < 1e-9
    kinds = "parallel inputs with two labels", "holds the input 0, where every unit is 0"
    assert found.sentence().endswith(kinds[n_inputs == 1])
    s = hkflow.solve(problem_of(o, 20), end=0.1)
    assert not s.records["margin_upper"].any() and s.max_margin is None


@pytest.mark.parametrize("same", [(0, 3), (1, 4)])
def test_one_class_does_not_contradict_itself(same, rng):
    x, y = rng.normal(size=(9, 3)), np.arange(9) % 3
    x[same[1]] = 2.0 * x[same[0]]
    o = hkflow.Objective(hkflow.vector_feature("relu", 3), hkflow.SOFTMAX, x, y)
    assert contradiction(o) is None


def test_run_folders_keep_weights_by_class(tmp_path):
    run = hkflow.run(
        CASE, output=tmp_path / "run", quiet=True,
        **{"method.particles": 50, "time.end": 2.0, "time.saves": 2},
    )  # fmt: skip
    found, packed = run.max_margin, hkflow.load(tmp_path / "run" / "results.h5").max_margin
    assert found.dual.shape == packed.dual.shape == run.predictions.shape[1:] == (112, 3)
    assert np.array_equal(found.dual, packed.dual) and found.reached
    assert found.lower > 0.01 and run.records["margin_upper"][-1] >= found.lower
    with h5py.File(tmp_path / "run" / "results.h5") as file:
        dual = file["max_margin/gamma_dual"]
        assert dual.shape == (112, 3) and dual.dims[0][0].name == "/datum"
    file = tmp_path / "run" / "max_margin.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"gamma_dual": [1.0] * 112}))
    with pytest.raises(RunFolderError, match="gamma_dual"):
        hkflow.load(tmp_path / "run").max_margin  # noqa: B018
