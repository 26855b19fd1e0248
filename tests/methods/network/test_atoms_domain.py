"""Diagonal linear networks as flows on atoms with mobility ν^(2 − 2/D), run by the smooth margin
(Moroshko et al. 2020)."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import hkflow
from hkflow.certificates.diagonal_path import l2_margin_direction, path_point

# two support vectors all along the path
X, Y = np.array([[0.6, 0.2, 0.8], [0.5, 0.5, 0.3], [0.5, 0.0, 0.8]]), np.ones(3)


def a_problem(
    alpha, depth, time_variable="margin", loss="smooth-margin", reaction=None, weights=None
):
    objective = hkflow.Objective(hkflow.FEATURES["linear"], hkflow.RISKS[loss], X, Y)
    flow = hkflow.Flow(
        0.0, depth**2 if reaction is None else reaction, depth=depth, time_variable=time_variable
    )
    start = np.full((2, 3), alpha**depth) if weights is None else weights
    return hkflow.Problem(hkflow.atoms_mesh(np.eye(3)), objective, flow, (1, -1), start)


def directions(solution):
    w = np.array([solution.atoms_at(k).moment() for k in range(len(solution.time))])
    return w / np.linalg.norm(w, axis=1, keepdims=True)


def raw_directions(alpha, depth, levels):
    """w = u₊^D − u₋^D for u̇ = −∇_u(−γ̃), by scipy at tight tolerance, with γ̃ as the time."""

    def rate(_, u):
        margins = X @ (u[:3] ** depth - u[3:] ** depth)
        p = np.exp(margins.min() - margins)
        force = depth * (p / p.sum()) @ X
        change = np.concatenate([u[:3] ** (depth - 1) * force, -(u[3:] ** (depth - 1)) * force])
        return change / (change @ change)

    found = solve_ivp(
        rate,
        (0.0, levels[-1]),
        np.full(6, alpha),
        method="DOP853",
        rtol=1e-13,
        atol=1e-13 * alpha,
        t_eval=levels,
    )
    w = found.y[:3] ** depth - found.y[3:] ** depth
    return (w / np.linalg.norm(w, axis=0)).T


LEVELS = [1.0, 10.0, 100.0, 1000.0]


@pytest.mark.parametrize(
    "alpha, depth", [(1.0, 2.0), (100.0, 2.0), (1e-3, 2.0), (1.0, 3.0), (0.5, 10.0)]
)
def test_atoms_are_the_raw_network(alpha, depth):
    """To 1e-8 in direction at γ̃ = 1, 10, 100, 1000, and γ̃ is the time."""
    solution = hkflow.solve(
        a_problem(alpha, depth),
        1000.0,
        LEVELS,
        kind="particles",
        stepper="dop853",
        tolerance=1e-11,
        imex="explicit",
    )
    assert np.abs(directions(solution) - raw_directions(alpha, depth, LEVELS)).max() < 1e-8
    assert solution.records["smooth_margin"][-1] == pytest.approx(1000.0, rel=1e-8)


def test_another_mobility_is_told_apart():
    solution = hkflow.solve(
        a_problem(1.0, 3.0),
        100.0,
        LEVELS[:3],
        kind="particles",
        tolerance=1e-9,
        imex="explicit",
    )
    assert np.abs(directions(solution) - raw_directions(1.0, 2.0, LEVELS[:3])).max() > 1e-3


def test_a_tiny_start_in_great_depth_leaves_its_saddle():
    """α = 10⁻³, D = 10: weights of 10⁻³⁰, γ̃ from 10⁻⁴⁷ on."""
    solution = hkflow.solve(
        a_problem(1e-3, 10.0), 1.0, [1.0], kind="particles", tolerance=1e-7, imex="explicit"
    )
    assert solution.finished and solution.records["smooth_margin"][-1] == pytest.approx(
        1.0, rel=1e-5
    )
    w = directions(solution)[-1]
    assert np.abs(w).max() > 0.95  # one coordinate takes nearly all


def test_implicit_steps_follow_the_path_of_q_to_margins_of_millions():
    """α = 100, D = 2: near the ℓ₂ max-margin about γ̃ = α², then along argmin Q_μ, μ = α²/γ̃, at a
    distance ∝ 1/γ̃."""
    levels = [1e3, 3e3, 1e4, 1e5, 1e6]
    solution = hkflow.solve(
        a_problem(100.0, 2.0), levels[-1], levels, kind="particles", tolerance=1e-5
    )
    assert solution.finished and len(solution.records["time"]) < 600
    w, l2 = directions(solution), l2_margin_direction(X, Y)
    assert (
        np.linalg.norm(w[1] - l2 / np.linalg.norm(l2))
        < 1e-3
        < 0.1
        < np.linalg.norm(w[4] - l2 / np.linalg.norm(l2))
    )
    distances = []
    for direction, level in zip(w, levels, strict=True):
        q = path_point(X, Y, 100.0**2 / level, 2.0).weights
        distances.append(np.linalg.norm(direction - q / np.linalg.norm(q)))
    assert np.all(np.array(distances) * levels < 3.0) and distances[0] > 1e-3
    wrong = path_point(X, Y, 2.0 * 100.0**2 / 1e6, 2.0).weights
    assert np.linalg.norm(w[4] - wrong / np.linalg.norm(wrong)) > 0.01


def test_implicit_steps_reach_a_margin_of_a_hundred_million():
    """The loss is e^(−10⁸) there, and F its logarithm."""
    solution = hkflow.solve(a_problem(1.0, 2.0), 1e8, kind="particles", tolerance=1e-4)
    assert solution.finished and solution.records["smooth_margin"][-1] == pytest.approx(
        1e8, rel=1e-6
    )


@pytest.mark.parametrize("depth", [1.0, 2.0, 3.0, 10.0])
def test_the_grid_on_atoms_follows_the_raw_parameters(depth):
    """Frozen potentials are integrated exactly for every mobility; third order in the step, against
    scipy on u."""
    problem = a_problem(1.0, depth, time_variable="time")

    def rate(_, u):
        margins = X @ (u[:3] ** depth - u[3:] ** depth)
        p = np.exp(margins.min() - margins)
        force = depth * (p / p.sum()) @ X
        return np.concatenate([u[:3] ** (depth - 1) * force, -(u[3:] ** (depth - 1)) * force])

    end = 0.5 / depth**2
    u = solve_ivp(rate, (0.0, end), np.ones(6), method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    errors = []
    for steps in (8, 16, 32):
        solution = hkflow.solve(problem, end, max_step=end / steps, tolerance=1e9, imex="explicit")
        errors.append(np.abs(solution.density[-1].ravel() - u**depth).max())
    assert np.all(np.abs(np.log2(np.divide(errors[:-1], errors[1:])) - 3.0) < 0.4), errors


def test_a_start_far_in_the_kernel_regime_is_not_passed_off_as_accurate():
    """α = 10⁴, D = 10: weights of 10⁴⁰ hide margins of 1000 in their rounding, which is noticed."""
    solution = hkflow.solve(a_problem(1e4, 10.0), 1000.0, kind="particles", tolerance=1e-6)
    assert not solution.finished and "tolerance" in solution.status
    assert hkflow.solve(
        a_problem(1e4, 2.0), 1000.0, kind="particles", tolerance=1e-13, stepper="dop853"
    ).finished


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: hkflow.Flow(1.0, 4.0, depth=3.0), "goes without transport"),
        (lambda: hkflow.Flow(0.0, 9.0, 0.1, depth=3.0), "goes without noise"),
        (lambda: hkflow.Flow(0.0, 1.0, 0.1, depth=1.0), "goes without noise"),
        (lambda: hkflow.Flow(0.0, 4.0, depth=0.5), "depth must be finite and at least 1"),
        (lambda: hkflow.Flow(1.0, 4.0, drive="mass"), "Unknown drive 'mass'"),
        (lambda: a_problem(1.0, 2.0, loss="exponential"), "the risk is 'exponential'"),
        (lambda: a_problem(1.0, 2.0, weights=-np.ones((2, 3))), "nonnegative"),
        (
            lambda: hkflow.solve(a_problem(1.0, 1.0), 1.0, kind="particles"),
            "which a signed density",
        ),
    ],
)
def test_what_a_flow_cannot_do_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_transport_on_atoms_is_refused():
    objective = hkflow.Objective(hkflow.FEATURES["linear"], hkflow.RISKS["square"], X, Y)
    with pytest.raises(ValueError, match="Atoms have no neighbours"):
        hkflow.Problem(hkflow.atoms_mesh(np.eye(3)), objective, hkflow.Flow(1.0, 4.0), (1, -1))


def two_weights(depth, kind):
    """A datum in the direction of one of two atoms of both signs, and its flow from ν = 1."""
    data = [[1.0, 0.0]], [1.0]
    objective = hkflow.Objective(hkflow.FEATURES["linear"], hkflow.RISKS["logistic"], *data)
    flow, atoms = hkflow.Flow(0.0, depth**2, depth=depth), hkflow.atoms_mesh(np.eye(2))
    problem = hkflow.Problem(atoms, objective, flow, (1, -1), np.ones((2, 2)))
    options = {"layers": "diagonal"} if kind == "network" else {}
    return hkflow.solve(problem, 20.0, 5, kind=kind, tolerance=1e-8, **options)


@pytest.mark.parametrize("kind", ["grid", "network"])
@pytest.mark.parametrize("depth", [1.0, 1.2, 1.3, 3.0])
def test_weights_of_little_depth_change_their_sign_or_end_at_zero(depth, kind):
    """ν̇ = −D² ν^(2−2/D) J by scipy. At D = 1 a weight passes through zero, and |ν| has both; below
    2 it reaches zero in finite time and stays there."""
    run = two_weights(depth, kind)

    def rate(t, nu):
        slope = -1.0 / (1.0 + np.exp(nu[0] - nu[1]))
        mobile = np.ones(2) if depth == 1.0 else np.maximum(nu, 0.0) ** (2.0 - 2.0 / depth)
        return -(depth**2) * mobile * slope * np.array([1.0, -1.0])

    exact = solve_ivp(rate, (0.0, 20.0), [1.0, 1.0], rtol=1e-9, atol=1e-12, max_step=0.01)
    ends = exact.y[:, -1] if depth == 1.0 else np.maximum(exact.y[:, -1], 0.0)
    assert run.finished and (depth < 2.0) == (ends[1] < 1e-9)
    assert run.predictions[-1] == pytest.approx(ends[0] - ends[1], rel=2e-4)
    mass = np.abs(ends).sum() + 2.0  # of the atom that no datum sees
    assert run.mass[-1] == pytest.approx(mass, rel=2e-4) == run.atoms_at(-1).mass
    assert run.records["margin"][-1] == pytest.approx((ends[0] - ends[1]) / mass, rel=3e-4)


DATUM, SHARES = np.array([0.6, 0.8]), np.array([[0.5, 0.3], [0.2, 0.4]])


def of_one_datum(depth, mass, time):
    """A grid run of one datum e, whose J = −e·θ for ever, so that ν^(2/D − 1) is linear in t."""
    objective = hkflow.Objective(
        hkflow.FEATURES["linear"], hkflow.RISKS["smooth-margin"], DATUM[None], [1.0]
    )
    mesh, flow = hkflow.atoms_mesh(np.eye(2)), hkflow.Flow(0.0, depth**2, depth=depth)
    problem = hkflow.Problem(mesh, objective, flow, (1, -1), mass * SHARES)
    return hkflow.solve(problem, time, kind="grid", tolerance=1e-6)


@pytest.mark.parametrize("depth", [1.0, 1.5])
def test_a_mass_beyond_its_first_unit_keeps_its_mobility(depth):
    """Beyond 2^64 masses are counted in larger units, in which the mobility is another one."""
    mass, power = 1e21, 2.0 / depth - 1.0
    found = of_one_datum(depth, mass, 0.2 / depth**2 * mass**power)
    assert found.finished and found.log_scale[-1] > 40.0
    growth = 0.2 * np.outer([1.0, -1.0], DATUM)
    shares = SHARES + growth if depth == 1.0 else (SHARES**power + power * growth) ** (1.0 / power)
    wanted = np.array([1.0, -1.0]) @ shares
    np.testing.assert_allclose(found.atoms_at(-1).moment() / mass, wanted, rtol=1e-6)


def test_masses_that_explode_end_the_run_there():
    """By ν̇ = 9 e·θ ν^(4/3) the first mass is infinite at t = 1/(3 e·θ ν^(1/3)) of the start."""
    first = 1.0 / (3.0 * np.max(DATUM * SHARES[0] ** (1.0 / 3.0)))
    assert of_one_datum(3.0, 1.0, 0.9 * first).finished
    found = of_one_datum(3.0, 1.0, 2.0)
    assert not found.finished and "as where a depth above 2 makes it grow without" in found.status
    np.testing.assert_allclose(found.records["time"][-1], first, rtol=1e-6)


def test_rounding_of_unit_vectors_is_mended():
    """Those of single precision are unit vectors to 1e-7; those of double stay as they are."""
    double = hkflow.quasi_uniform(7, 2)
    assert np.array_equal(hkflow.atoms_mesh(double).centers, double)
    single = hkflow.atoms_mesh(double.astype(np.float32)).centers
    assert np.abs(np.linalg.norm(single, axis=1) - 1.0).max() < 1e-15
    np.testing.assert_allclose(single, double, atol=1e-7)
