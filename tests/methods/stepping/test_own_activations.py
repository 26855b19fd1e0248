"""Implicit steps of activations that are not homogeneous: their coupling, the orders of the steps,
and margin flows that explicit steps would never end."""

import numpy as np
import pytest
from conftest import order

import hkflow
from hkflow.methods.choice import make_method
from hkflow.methods.particles import tangent_gram


def tanh(s):
    return np.tanh(s), 1.0 / np.cosh(s) ** 2


def softplus(s):
    return np.logaddexp(s, 0.0), 1.0 / (1.0 + np.exp(-s))


def hinge(s):
    return np.maximum(s - 0.2, 0.0), 1.0 * (s > 0.2)


def steep_leaky(s):
    return np.where(s > 0.0, 20.0, -3.0) * s, np.where(s > 0.0, 20.0, -3.0)


OWN = {
    "tanh": hkflow.ridge(tanh),
    "softplus": hkflow.ridge(softplus),
    "hinge": hkflow.ridge(hinge, kinks=[0.2]),
}
FEATURES = {**hkflow.FEATURES, **OWN, "steep": hkflow.ridge(steep_leaky, degree=1)}


def objective(feature, axes=2, loss="smooth-margin", n=6):
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.normal(size=(n, axes - 1)), np.ones(n)])
    return hkflow.Objective(feature, hkflow.RISKS[loss], x, np.sign(x[:, 0] + 0.3))


def tangents(theta):
    """An orthonormal basis of what is orthogonal to θ (p,), (p − 1, p)."""
    return np.linalg.svd(theta[None])[2][1:]


def differences(obj, points, weights, mobility, flow, step=1e-6):
    """K from differences of φ along the sphere."""
    K = np.zeros((len(obj.inputs), len(obj.inputs)))
    for theta, w, m in zip(points, weights, mobility, strict=True):
        phi = obj.feature.matrix(theta[None], obj.inputs)[:, 0]
        K += flow.reaction * m * np.outer(phi, phi)
        for e in tangents(theta):
            ends = [theta + side * step * e for side in (1.0, -1.0)]
            slope = obj.feature.matrix(np.array(ends), obj.inputs) @ [1.0, -1.0] / (2.0 * step)
            K += flow.transport * w * np.outer(slope, slope)
    return K


def couplings(name):
    """K as it is made, as it is applied, and by differences, of random atoms."""
    obj = objective(FEATURES[name], 3)
    rng = np.random.default_rng(7)
    points = rng.normal(size=(40, obj.axes))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    weights, mobility = rng.random((2, 40))
    state = obj, points, weights, mobility, hkflow.Flow(0.7, 3.0)
    applied = [tangent_gram.coupling_product(*state, v) for v in np.eye(6)]
    return tangent_gram.coupling_matrix(*state), np.array(applied), differences(*state)


@pytest.mark.parametrize("name", FEATURES)
def test_the_coupling_is_that_of_differences(name):
    stored, applied, wanted = couplings(name)
    assert np.abs(stored - wanted).max() < 1e-7 * np.abs(wanted).max()
    assert np.abs(applied - stored).max() < 1e-13 * np.abs(stored).max()


def test_sibling_radial_parts_count(monkeypatch):
    add = tangent_gram.add_gram
    without = lambda rows, weights, out: add(rows, np.maximum(weights, 0.0), out)
    monkeypatch.setattr(tangent_gram, "add_gram", without)
    stored, _, wanted = couplings("tanh")
    assert np.abs(stored - wanted).max() > 1e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("name", FEATURES)
def test_sizes_bound_values_and_gradients(name):
    obj = objective(FEATURES[name], 3)
    points = hkflow.quasi_uniform(4000, obj.axes - 1)
    values = np.abs(obj.feature.matrix(points, obj.inputs)).max(axis=1)
    slopes = np.abs(obj.feature.slopes(points, obj.inputs)).max(axis=1)
    steep = slopes * np.linalg.norm(obj.inputs, axis=1)
    assert (np.maximum(values, steep) <= 1.001 * np.sqrt(obj.feature_sizes)).all()
    assert (
        name in hkflow.FEATURES
        or (1.1 * np.maximum(values, steep) > np.sqrt(obj.feature_sizes)).all()
    )


def test_of_a_matrix_alone_no_size_is_known():
    feature = hkflow.Feature("mine", OWN["tanh"].matrix, pullback=OWN["tanh"].pullback)
    obj = objective(feature)
    assert (obj.feature_sizes > 1e100).all()
    atoms = hkflow.PointMeasure(hkflow.quasi_uniform(20, 1), np.ones(20))
    problem = hkflow.Problem(None, obj, hkflow.Flow(1.0, 4.0), initial=atoms)
    assert hkflow.solve(problem, 0.1, kind="particles").finished
    with pytest.raises(ValueError, match="of hkflow.ridge: 'mine' does not tell its gradients"):
        hkflow.solve(problem, 0.1, kind="particles", imex="implicit")
    grid = hkflow.Problem(hkflow.circle_mesh(64), obj, hkflow.Flow(1.0, 4.0), (1, -1))
    method = make_method(grid, "grid")
    method.current.density[:] *= 1e4
    method.rhs.evaluate(method.current)
    assert method.knows_implicit() and method.exceeds_stiffness(1.0, 1.0)


def problem(name, kind, mass=50.0):
    obj = objective(OWN[name])
    cells, flow = 64, hkflow.Flow(1.0, 4.0)
    if kind == "grid":
        start = np.full((2, cells), mass / (4.0 * np.pi))
        return hkflow.Problem(hkflow.circle_mesh(cells), obj, flow, (1, -1), start)
    points = np.tile(hkflow.quasi_uniform(100, 1), (2, 1))
    atoms = hkflow.PointMeasure(points, np.repeat([1.0, -1.0], 100), np.full(200, mass / 200))
    return hkflow.Problem(None, obj, flow, (1, -1), atoms)


@pytest.mark.parametrize("name", ["tanh", "softplus"])
@pytest.mark.parametrize("kind", ["grid", "particles"])
def test_implicit_steps_are_of_second_order(name, kind):
    """Through a coupling that is stiff at most of these steps."""
    short = {"max_step": 0.05 / 2000, "tolerance": 1e9}
    tight = {"stepper": "dop853", "tolerance": 1e-11}
    own = problem(name, kind)
    reference = short if kind == "grid" else tight
    wanted = hkflow.solve(own, 0.05, kind=kind, imex="explicit", **reference).predictions[-1]
    errors = []
    for count in (16, 32, 64):
        options = {"imex": "implicit", "max_step": 0.05 / count, "tolerance": 0.9}
        if kind == "grid":
            options |= {"stepper": "ssprk3", "tolerance": 1.0}
        got = hkflow.solve(own, 0.05, kind=kind, **options)
        assert len(got.records["time"]) == count + 1, got.status
        errors.append(np.abs(got.predictions[-1] - wanted).max() / np.abs(wanted).max())
    assert np.all(np.abs(order(errors) - 2.0) < 0.25), errors


@pytest.mark.parametrize("name", OWN)
def test_a_margin_flow_ends(name):
    """Grid and particles agree, in hundreds of steps; explicit ones grow with the mass."""
    runs = [
        hkflow.solve(problem(name, kind, 1.0), 24.0, kind=kind, tolerance=1e-3)
        for kind in ("grid", "particles")
    ]
    margins = []
    for run in runs:
        assert run.finished and len(run.records["time"]) < 700, run.status
        assert run.log_mass[-1] > 7.0
        margins.append((run.targets * run.predictions[-1]).min() / run.mass[-1])
    assert margins[0] > 0.0 and margins[0] == pytest.approx(margins[1], rel=0.05)


def test_explicit_steps_of_a_margin_flow_are_many():
    """The same numbers, where explicit steps still end."""
    implicit, explicit = (
        hkflow.solve(problem("tanh", "particles", 1.0), 16.0, kind="particles", imex=imex)
        for imex in ("auto", "explicit")
    )
    assert len(explicit.records["time"]) > 3 * len(implicit.records["time"])
    assert implicit.log_mass[-1] == pytest.approx(explicit.log_mass[-1], abs=1e-3)


def test_particles_that_know_no_slopes_stay_explicit(monkeypatch):
    """Sibling of the flow that ends: without the coupling it does not."""
    monkeypatch.setattr("hkflow.methods.particles.points.knows_slopes", lambda feature: False)
    run = hkflow.solve(
        problem("tanh", "particles", 1.0),
        24.0,
        kind="particles",
        tolerance=1e-3,
        observers=[lambda state: state.step >= 700],
    )
    assert not run.finished
