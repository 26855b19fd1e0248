"""Sums over smooth functions of θ·x by harmonics, against those over all pairs."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import hkflow
from hkflow.objectives.smooth import polynomial_degree
from hkflow.operators.choice import harmonics_pay
from hkflow.operators.dense import blocked, unblocked
from hkflow.operators.harmonic_operator import HarmonicOperator, MovingHarmonicOperator
from hkflow.operators.harmonics import Harmonics
from hkflow.operators.matrix import FunctionOperator, MatrixOperator
from hkflow.operators.operator import MovingOperator, Operator


def tanh(s):
    return np.tanh(s), 1.0 / np.cosh(s) ** 2


def softplus(s):
    return np.logaddexp(0.0, s), 0.5 + 0.5 * np.tanh(0.5 * s)


def wave(s):
    return np.cos(3.0 * s) + s, 1.0 - 3.0 * np.sin(3.0 * s)


def square(s):
    return s * s, 2.0 * s


def elu(s):
    below = np.expm1(np.minimum(s, 0.0))
    return np.where(s > 0.0, s, below), np.where(s > 0.0, 1.0, below + 1.0)


def narrow(s):
    """Zero at the first nodes of every series, and a spike between them."""
    bump = np.exp(-(((s - 0.5) / 1e-3) ** 2))
    return bump, -2.0 * (s - 0.5) / 1e-6 * bump


def exponential(s):
    return np.exp(s), np.exp(s)


SMOOTH = [tanh, softplus, wave, square]


def given(axes, n_points, n_data, rng):
    """Unit vectors, inputs of several lengths, one of them 0."""
    inputs = rng.uniform(-1.5, 1.5, (n_data, axes))
    inputs[0] = 0.0
    return hkflow.quasi_uniform(n_points, axes - 1), inputs


def along(gradient, points):
    """The part of a blocked gradient along the sphere, (n, p)."""
    full = unblocked(gradient, len(points))
    return full - np.sum(full * points, axis=1)[:, None] * points


def sums(operator, points, n_data, seed=5):
    """h, J and, where points move, G along the sphere, each relative to the sum of what it adds."""
    rng = np.random.default_rng(seed)
    w, r = rng.normal(size=len(points)), rng.normal(size=n_data)
    h, J = np.zeros(n_data), np.zeros(len(points))
    operator.forward(w, h)
    if not hasattr(operator, "points"):
        operator.adjoint(r, J)
        return [h / np.abs(w).sum(), J / np.abs(r).sum()]
    G = np.zeros_like(operator.points)
    operator.gradient(r, J, G)
    return [h / np.abs(w).sum(), J / np.abs(r).sum(), along(G, points) / np.abs(r).sum()]


def worst(one, other, points, n_data):
    """Largest difference, of gradients for each degree: a derivative multiplies by it."""
    pairs = zip(sums(one, points, n_data), sums(other, points, n_data), strict=True)
    h, J, *G = (np.abs(a - b).max() for a, b in pairs)
    return max(h, J, *(g / (len(one.harmonics.tops) - 1) for g in G))


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("function", SMOOTH)
def test_sums_over_fixed_points_are_those_of_the_matrix(function, axes, rng):
    points, inputs = given(axes, 700, 60, rng)
    feature = hkflow.ridge(function)
    fast = feature.operator(points, inputs, "harmonics")
    assert isinstance(fast, HarmonicOperator) and isinstance(fast, Operator)
    dense = feature.operator(points, inputs, "dense")
    assert isinstance(dense, MatrixOperator)
    assert worst(fast, dense, points, 60) < 5e-13


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("function", SMOOTH)
def test_sums_over_moving_points_are_those_of_the_function(function, axes, rng):
    points, inputs = given(axes, 300, 60, rng)
    feature = hkflow.ridge(function)
    fast = feature.moving_operator(points, inputs, "harmonics", on_sphere=True)
    assert isinstance(fast, MovingHarmonicOperator) and isinstance(fast, MovingOperator)
    dense = feature.moving_operator(points, inputs, "dense", on_sphere=True)
    assert isinstance(dense, FunctionOperator)
    assert worst(fast, dense, points, 60) < 5e-13
    moved = points[::-1] @ np.linalg.qr(rng.normal(size=(axes, axes)))[0]
    others = inputs[::-1].copy()
    for operator in (fast, dense):
        operator.points[:] = blocked(moved, operator.points.shape[2])
        operator.set_inputs(others)
    assert worst(fast, dense, moved, 60) < 5e-13


@pytest.mark.parametrize("axes", [2, 3])
def test_both_sums_are_those_of_the_same_kernel(axes, rng):
    """Σ r h = Σ w J to rounding, even where the series is cut short: F falls by the flow of what
    the sums are of."""
    points, inputs = given(axes, 700, 60, rng)
    w, r = rng.normal(size=700), rng.normal(size=60)
    h, J = np.zeros(60), np.zeros(700)
    for degree in (5, 60):
        operator = HarmonicOperator(points, inputs, tanh, degree)
        operator.forward(w, h)
        operator.adjoint(r, J)
        assert abs(r @ h - w @ J) < 1e-16 * np.abs(w).sum() * np.abs(r).sum()


@pytest.mark.parametrize("axes", [2, 3])
def test_sibling_a_degree_too_low_is_seen(axes, rng):
    points, inputs = given(axes, 700, 60, rng)
    dense = hkflow.ridge(tanh).operator(points, inputs, "dense")
    assert worst(HarmonicOperator(points, inputs, tanh, 15), dense, points, 60) > 1e-9


def test_harmonics_are_orthonormal_and_their_values_those_of_the_sums(rng):
    """By Gauss' rule in z and equal steps of the longitude, exact for products up to degree 20."""
    z, w = np.polynomial.legendre.leggauss(11)
    angle = 2.0 * np.pi * np.arange(21) / 21
    radius = np.sqrt(1.0 - z**2)
    points = np.stack(
        [np.outer(radius, np.cos(angle)), np.outer(radius, np.sin(angle)), np.outer(z, angle**0)],
        axis=-1,
    ).reshape(-1, 3)
    weights = np.repeat(w / 2.0, 21) / 21
    harmonics = Harmonics(points, 10)
    Y = harmonics.values(points).T
    assert np.abs((Y * weights[:, None]).T @ Y - np.eye(121)).max() < 1e-13
    other = hkflow.quasi_uniform(300, 2)
    harmonics, masses, h = Harmonics(other, 10), rng.normal(size=300), np.zeros(121)
    harmonics.forward(masses, h)
    assert np.abs(h - harmonics.values(other) @ masses).max() < 1e-12


FIRST_OR_LATER = """
import hashlib, numpy as np
from hkflow.operators.harmonics import Harmonics
points = np.random.default_rng(0).normal(size=(300, 3))
harmonics, out = Harmonics(points / np.linalg.norm(points, axis=1)[:, None], 20), np.zeros(300)
harmonics.adjoint(1.0 / (1.0 + np.arange(441)), out)
print(hashlib.sha256(out).hexdigest())
"""


def test_a_process_that_compiles_has_the_bits_of_later_ones(tmp_path):
    """Numba linked it to the sum over a block as that was compiled alone, later ones to a copy
    within the loop over blocks, whose products were fused with other sums."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    words = [sys.executable, "-c", FIRST_OR_LATER]
    said = [subprocess.check_output(words, env=environment) for _ in range(2)]
    assert said[0] == said[1] and any(tmp_path.rglob("*.nbc"))


def test_harmonics_are_taken_where_they_pay(rng):
    assert not harmonics_pay(2562, 256, 3, 10)  # the matrix stays in the cache
    assert harmonics_pay(2048, 2000, 2, 40) and harmonics_pay(10_242, 4000, 3, 40)
    assert not harmonics_pay(10_242, 400, 3, 40)
    # points that move: 0.43 instead of 4.3 ms on the circle, on S² 2.5 instead of 4.5 and 17 ms
    assert harmonics_pay(2562, 256, 2, 39, True)
    assert not harmonics_pay(2562, 256, 3, 39, True) and harmonics_pay(2562, 1000, 3, 39, True)
    points, inputs = given(2, 2048, 700, rng)
    feature = hkflow.ridge(tanh)
    assert isinstance(feature.operator(points, inputs), HarmonicOperator)
    assert isinstance(feature.operator(points[:99], inputs), MatrixOperator)
    moving = feature.moving_operator(points, inputs, on_sphere=True)
    assert isinstance(moving, MovingHarmonicOperator)
    # units of a network have any length
    assert isinstance(feature.moving_operator(points, inputs), FunctionOperator)


def hidden(s):
    """tanh with a spike of which 2001 values see nothing."""
    value, slope = tanh(s)
    bump = np.exp(-(((s - 0.3) / 3e-5) ** 2))
    return value + bump, slope - 2.0 * (s - 0.3) / 9e-10 * bump


def with_a_hole(s):
    """tanh without a value where no series looks."""
    value, slope = tanh(s)
    return np.where(np.abs(s - 0.3) < 5e-5, np.nan, value), slope


def only_pairs(s):
    """A function of arrays with two axes alone."""
    return np.tanh(s) * np.ones(s.shape[1]), 1.0 / np.cosh(s) ** 2


def raises(s):
    if np.abs(s).max() > 1.5:
        raise OverflowError("beyond my table")
    return tanh(s)


def test_a_hole_is_seen():
    assert polynomial_degree(tanh, np.array([1.4])) == 33
    assert polynomial_degree(with_a_hole, np.array([1.4])) is None


@pytest.mark.parametrize("function", [elu, narrow, hidden, only_pairs])
def test_what_is_not_smooth_has_none(function, rng):
    points, inputs = given(2, 2048, 700, rng)
    feature = hkflow.ridge(function)
    assert isinstance(feature.operator(points, inputs), MatrixOperator)
    assert isinstance(feature.moving_operator(points, inputs, on_sphere=True), FunctionOperator)
    with pytest.raises(ValueError, match=f"500; '{function.__name__}' on 2 axes is not"):
        feature.operator(points, inputs, "harmonics")


def test_what_a_function_raises_where_no_pair_lies_is_no_error(rng):
    """It is asked for all numbers between ± the longest input."""
    angles = np.linspace(1.0, 2.0, 2048)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    inputs = np.column_stack([np.full(700, 1.6), rng.uniform(0.0, 0.1, 700)])
    assert isinstance(hkflow.ridge(raises).operator(points, inputs), MatrixOperator)


def test_declared_kinks_have_none(rng):
    corners = np.array([0.3, 0.3005, 0.301])

    def hat(s):
        bends = np.array([2000.0, -4000.0, 2000.0])
        up = s[..., None] > corners
        return np.where(up, s[..., None] - corners, 0.0) @ bends, up @ bends

    points, inputs = given(2, 2048, 700, rng)
    feature = hkflow.ridge(hat, kinks=corners)
    assert isinstance(feature.operator(points, inputs), MatrixOperator)
    assert isinstance(feature.moving_operator(points, inputs, on_sphere=True), FunctionOperator)


GROWING = {
    "kink": lambda s: s**8 + np.maximum(s, 0.0),
    "rational": lambda s: s**6 / (1.0 + s * s),
    "step": lambda s: np.exp(s) + np.tanh(3.0 * s),
}


@pytest.mark.parametrize("longest", [1.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("name", GROWING)
def test_one_long_input_does_not_hide_what_others_see(name, longest, rng):
    """s⁸ between ±100 swallows a kink at 0, which is all that short inputs know of ψ."""
    function = GROWING[name]
    points, inputs = given(2, 2048, 700, rng)
    inputs *= longest / np.linalg.norm(inputs, axis=1).max() * (np.arange(700) == 5)[:, None] + (
        0.5 * (np.arange(700) != 5)[:, None]
    )
    w, h = rng.uniform(size=2048), np.zeros(700)
    with np.errstate(over="ignore"):
        operator = hkflow.ridge(lambda s: (function(s), 0.0 * s)).operator(points, inputs)
        values = function(inputs @ points.T)
    operator.forward(w, h)
    known = np.abs(values).max(axis=1) * w.sum()
    fine = np.isfinite(known)
    assert np.all(np.abs(h - values @ w)[fine] <= 1e-11 * known[fine])


def test_slopes_that_are_no_derivative_are_kept(rng):
    """Of a surrogate gradient, which some give on purpose, no polynomial knows."""
    surrogate = hkflow.ridge(lambda s: (np.tanh(s), np.ones_like(s)))
    points, inputs = given(2, 2048, 700, rng)
    assert isinstance(surrogate.operator(points, inputs), HarmonicOperator)
    moving = surrogate.moving_operator(points, inputs, on_sphere=True)
    assert isinstance(moving, FunctionOperator)


def test_a_gradient_is_that_of_the_points_of_now(rng):
    """Without `forward` before."""
    points, inputs = given(3, 300, 60, rng)
    r, G, J = rng.normal(size=60), [], np.zeros(300)
    for start in (points, points[::-1].copy()):
        operator = hkflow.ridge(tanh).moving_operator(start, inputs, "harmonics", on_sphere=True)
        operator.points[:] = blocked(points, operator.points.shape[2])
        G.append(np.zeros_like(operator.points))
        operator.gradient(r, J, G[-1])
    assert np.array_equal(*G)


def test_no_more_is_stored_beside_particles_than_has_room():
    assert harmonics_pay(10**6, 20_000, 3, 56, True)
    assert not harmonics_pay(10**6, 21_000, 3, 57, True)


def test_tiny_inputs_are_no_zeros(rng):
    points = hkflow.quasi_uniform(100, 1)
    inputs = 1e-200 * rng.uniform(0.5, 1.0, (9, 2))
    h, w = np.zeros(9), rng.uniform(size=100)
    hkflow.ridge(tanh).operator(points, inputs, "harmonics").forward(w, h)
    assert np.abs(h / (inputs @ points.T @ w) - 1.0).max() < 1e-9


@pytest.mark.filterwarnings("error")
def test_values_beyond_numbers_leave_it_to_the_matrix(rng):
    """exp(θ·x) is infinite where θ is along an input, which no point of this arc is."""
    angles = np.linspace(1.6, 4.6, 2048)
    arc = np.column_stack([np.cos(angles), np.sin(angles)])
    inputs = np.column_stack([rng.uniform(700.0, 800.0, 600), rng.uniform(0.0, 1.0, 600)])
    operator = hkflow.ridge(exponential).operator(arc, inputs)
    assert isinstance(operator, MatrixOperator) and np.isfinite(operator.matrix).all()


def test_points_of_other_lengths_are_left_to_the_matrix(rng):
    points, inputs = given(2, 2048, 700, rng)
    feature = hkflow.ridge(square, degree=2)
    assert isinstance(feature.operator(points, inputs), HarmonicOperator)
    assert isinstance(feature.operator(1.1 * points, inputs), MatrixOperator)


def test_who_asks_for_harmonics_in_vain_is_told_why(rng):
    points, inputs = given(4, 50, 20, rng)
    with pytest.raises(ValueError, match="500; 'tanh' on 4 axes is not"):
        hkflow.ridge(tanh).operator(points, inputs, "harmonics")
    with pytest.raises(ValueError, match="have faster ones that are exact"):
        hkflow.FEATURES["relu"].operator(points, inputs, "harmonics")
    with pytest.raises(ValueError, match="has no operator 'harmonics'"):
        hkflow.FEATURES["joint-relu"].operator(np.eye(4), np.eye(3), "harmonics")
    with pytest.raises(ValueError, match="has no operator 'tree'"):
        hkflow.ridge(tanh).moving_operator(points, inputs, "tree")


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("kind", ["grid", "particles"])
def test_flows_are_those_of_all_pairs(kind, axes, rng):
    inputs = np.column_stack([rng.uniform(-1.0, 1.0, (90, axes - 1)), np.ones(90)])
    mesh = hkflow.circle_mesh(128) if axes == 2 else hkflow.geodesic_mesh(2)
    ends = []
    for operator in ("dense", "harmonics"):
        objective = hkflow.Objective(
            hkflow.ridge(tanh), hkflow.RISKS["square"], inputs, np.sin(2.0 * inputs[:, 0]),
            operator=operator,
        )  # fmt: skip
        flow = hkflow.Flow(transport=1.0, reaction=2.0)
        problem = hkflow.Problem(mesh, objective, flow, signs=(1, -1))
        solution = hkflow.solve(problem, end=3.0, kind=kind, tolerance=1e-6)
        assert np.all(np.diff(solution.records["objective"]) <= 0.0)
        ends.append(solution)
    assert len(ends[0].records["time"]) == len(ends[1].records["time"])
    assert np.abs(ends[0].predictions - ends[1].predictions).max() < 1e-12


def test_particles_of_a_sum_and_values_at_any_save(rng):
    """A data risk in a sum goes by harmonics, too, and saves without a record have their values."""
    inputs = np.column_stack([rng.uniform(-1.0, 1.0, 90), np.ones(90)])
    objective = hkflow.Objective(
        hkflow.ridge(tanh), hkflow.RISKS["square"], inputs, inputs[:, 0], operator="harmonics"
    )
    total = hkflow.Sum(objective, hkflow.External("0.1 * x"))
    moving = total.at_moving_points(hkflow.quasi_uniform(50, 1))
    assert isinstance(moving.operator, MovingHarmonicOperator)
    problem = hkflow.Problem(
        None,
        objective,
        hkflow.Flow(transport=1.0),
        initial=hkflow.PointMeasure(hkflow.quasi_uniform(50, 1)),
    )
    solution = hkflow.solve(problem, end=1.0, kind="particles")
    unrecorded = replace(solution, records={})
    by_hand = 0.5 * np.mean((solution.predictions[-1] - inputs[:, 0]) ** 2)
    assert unrecorded.objective_at(-1) == pytest.approx(by_hand, rel=1e-12)
