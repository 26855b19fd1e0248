"""Particles against the closed-form solutions on S^d, d = 1, 2, 3, 10."""

import numpy as np
import pytest
from scipy.special import roots_jacobi

import hkflow

FLOWS = [(1.0, 0.0), (1.0, 2.0), (1.0, 4.0), (0.0, 4.0)]
TIME = 2.0


def moment_flow(dim, rates, target=0.8):
    axis = np.cos(1.0 + np.arange(dim + 1.0))
    return hkflow.MomentFlow(axis, target, hkflow.Flow(*rates))


def end(exact, atoms, **options):
    """Mass and first moment at the end, for particles that start from the atoms."""
    problem = hkflow.Problem(None, exact.objective(), exact.flow, (1,), atoms, exact)
    s = hkflow.solve(problem, TIME, kind="particles", **options)
    assert s.finished, s.status
    last = s.atoms_at(-1)
    assert np.abs(np.linalg.norm(s.states[-1]["positions"], axis=1) - 1.0).max() < 1e-14
    return np.concatenate([[last.mass], last.moment()])


def wanted(exact):
    mass, moment = exact.mass_and_moment(TIME)
    return np.concatenate([[mass], moment * exact.direction])


def axisymmetric(exact, n):
    """Gauss–Jacobi nodes u in the direction e, a pair of opposite points on each circle of
    latitude."""
    dim, e = exact.dim, exact.direction
    u, w = roots_jacobi(n, 0.5 * (dim - 2), 0.5 * (dim - 2))
    aside = np.eye(dim + 1)[0] - e[0] * e
    aside /= np.linalg.norm(aside)
    points = np.concatenate(
        [u[:, None] * e + s * np.sqrt(1 - u**2)[:, None] * aside for s in (1.0, -1.0)]
    )
    return hkflow.PointMeasure(points, None, np.tile(0.5 * w / w.sum(), 2))


@pytest.mark.parametrize("rates", FLOWS)
@pytest.mark.parametrize("dim", [1, 2, 3, 10])
def test_quadrature_in_the_axis_is_exact_to_the_integrator(dim, rates):
    exact = moment_flow(dim, rates)
    for stepper, tolerance, error in (("dopri5", 1e-6, 1e-5), ("dop853", 1e-10, 1e-9)):
        got = end(exact, axisymmetric(exact, 60), stepper=stepper, tolerance=tolerance)
        assert np.abs(got - wanted(exact)).max() < error


def test_sibling_the_wrong_exponent_is_seen():
    exact, wrong = moment_flow(3, (1.0, 4.0)), moment_flow(3, (1.0, 2.0))
    assert np.abs(end(exact, axisymmetric(exact, 60)) - wanted(wrong)).max() > 1e-2


@pytest.mark.parametrize("rates", FLOWS)
def test_evenly_spread_points_converge_at_the_order_of_their_quadrature(rates):
    """On the circle equal arcs are exact to rounding. On S² mesh points with their volumes are of
    second order in the width, and exact where the integrands are polynomials of low degree."""
    exact = moment_flow(1, rates)
    assert (
        np.abs(
            end(
                exact,
                hkflow.PointMeasure(hkflow.quasi_uniform(40, 1)),
                stepper="dop853",
                tolerance=1e-10,
            )
            - wanted(exact)
        ).max()
        < 1e-9
    )
    exact, errors = moment_flow(2, rates), []
    for level in (2, 3, 4):
        mesh = hkflow.geodesic_mesh(level)
        atoms = hkflow.PointMeasure(mesh.centers, None, mesh.volumes / mesh.volumes.sum())
        errors.append(np.abs(end(exact, atoms, tolerance=1e-9) - wanted(exact)).max())
    assert np.all(np.log2(np.divide(errors[:-1], errors[1:])) > 1.8) or max(errors) < 1e-9, errors
    spiral = [
        np.abs(
            end(exact, hkflow.PointMeasure(hkflow.quasi_uniform(n, 2)), tolerance=1e-9)
            - wanted(exact)
        ).max()
        for n in (500, 2000, 8000)
    ]
    assert -np.polyfit(np.log([500, 2000, 8000]), np.log(spiral), 1)[0] > 0.9, spiral


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_random_points_converge_at_the_monte_carlo_rate(dim):
    """Root mean square error over 24 starts: slope −1/2 ± 0.1 in the number of particles, over two
    decades in dimension 2, one and a half beyond. Each of the two to twelve components alone would
    give the slope to 0.04, one standard deviation."""
    exact, rng = moment_flow(dim, (1.0, 4.0)), np.random.default_rng(dim)
    counts = [100, 316, 1000, 3162, 10000] if dim == 2 else [200, 632, 2000, 6325]
    truth = wanted(exact)
    errors = []
    for n in counts:
        found = [
            end(exact, hkflow.PointMeasure(hkflow.random_uniform(rng, n, dim)), tolerance=1e-5)
            - truth
            for _ in range(24)
        ]
        errors.append(np.sqrt(np.mean(np.square(found))))
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert abs(slope + 0.5) < 0.1, (slope, errors)
    regular = [
        np.abs(end(exact, axisymmetric(exact, min(n // 4, 200)), tolerance=1e-5) - truth).max()
        for n in counts
    ]
    assert max(regular) < 0.1 * errors[-1]  # it can fail: a quadrature does not follow that rate


def test_fixed_steps_of_euler_have_their_order():
    exact, errors = moment_flow(3, (1.0, 4.0)), []
    for step in (0.02, 0.01, 0.005):
        errors.append(
            np.abs(
                end(exact, axisymmetric(exact, 40), stepper="euler", max_step=step) - wanted(exact)
            ).max()
        )
    assert np.all(np.abs(np.log2(np.divide(errors[:-1], errors[1:])) - 1.0) < 0.1), errors


def test_euler_takes_its_own_steps_and_weightless_particles_are_left_out():
    exact = moment_flow(3, (1.0, 4.0))
    atoms = axisymmetric(exact, 20)
    more = hkflow.PointMeasure(
        np.tile(atoms.positions, (2, 1)), None, np.concatenate([atoms.weights, 0.0 * atoms.weights])
    )
    problem = hkflow.Problem(None, exact.objective(), exact.flow, (1,), more)
    s = hkflow.solve(problem, 1.0, kind="particles", stepper="euler", max_step=0.25)
    assert s.records["step"][-1] == 4 and len(s.atoms_at(-1)) == 40
    dark = hkflow.PointMeasure(
        np.concatenate([atoms.positions, atoms.positions]),
        None,
        np.concatenate([atoms.weights, atoms.weights]),
    )
    assert np.allclose(end(exact, dark.scaled_to(1.0)), end(exact, atoms), atol=1e-6)


@pytest.mark.parametrize("stepper, order, steps", [("dopri5", 5, (16, 32)), ("dop853", 8, (8, 16))])
def test_pairs_have_their_order_at_fixed_steps(stepper, order, steps):
    exact, errors = moment_flow(3, (1.0, 4.0)), []
    problem = hkflow.Problem(None, exact.objective(), exact.flow, (1,), axisymmetric(exact, 40))
    for count in steps:
        method = hkflow.Particles(problem, stepper=stepper, imex="explicit")
        for _ in range(count):
            method.accept(method.advance(TIME / count))
        errors.append(abs(method.current.mass - wanted(exact)[0]))
    # dopri5 does better than its order here
    assert order - 0.5 < np.log2(errors[0] / errors[1]) < order + 1.6, errors


@pytest.mark.parametrize("sigma", [0.0, 0.3])
@pytest.mark.parametrize("rates", [(1.0, 2.0), (0.0, 3.0)])
@pytest.mark.parametrize(
    "options",
    [
        {"stepper": "dopri5", "tolerance": 1e-3},
        {"stepper": "dop853", "tolerance": 1e-3},
        {"stepper": "euler", "max_step": 0.05, "imex": "explicit"},
        {"stepper": "euler", "max_step": 0.05, "imex": "implicit", "tolerance": 1e-2},
        {"imex": "implicit", "tolerance": 1e-2},
    ],
)
def test_steps_of_every_kind_keep_a_mass_that_the_flow_keeps(options, rates, sigma):
    """It went by the error of the steps: by 2 % with those of Euler."""
    x, y = np.random.default_rng(3).normal(size=(6, 3)), np.array([2.0, -1.0, 1.0, 0.5, -2.0, 1.0])
    objective = hkflow.Objective(hkflow.FEATURES["squared-relu"], hkflow.RISKS["square"], x, y)
    flow = hkflow.Flow(*rates, sigma, drive="probability")
    start = hkflow.PointMeasure(hkflow.quasi_uniform(30, 2), np.ones(30), np.full(30, 0.1))
    problem = hkflow.Problem(None, objective, flow, (1, -1), start)
    s = hkflow.solve(problem, 1.0, 4, kind="particles", noise_points=10, **options)
    assert s.finished, s.status
    np.testing.assert_allclose(s.mass, 3.0, rtol=1e-12, atol=0.0)
    fine = hkflow.solve(problem, 1.0, 4, kind="particles", noise_points=10, tolerance=1e-8)
    off = np.abs(s.predictions[-1] - fine.predictions[-1]).max()
    assert off < 0.06 * np.abs(fine.predictions[-1]).max()
