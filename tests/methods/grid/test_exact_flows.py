"""Noise and normalised flows: closed forms, scipy's integrator on the same cells, and two forms of
one flow."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from conftest import OFF_AXIS, exact_errors, order
from scipy.integrate import solve_ivp
from scipy.special import roots_jacobi

import hkflow

TIME = 2.0
BAND = (1.8, 2.3)
RATES = ((1.0, 4.0), (1.0, 0.0), (0.0, 4.0))
FLOWS = [hkflow.Flow(*rates, 0.3) for rates in RATES]
FLOWS += [
    hkflow.Flow(*rates, noise, drive=drive)
    for rates in RATES
    for noise in (0.0, 0.3)
    for drive in ("measure", "probability")
]
QUIET = "probability"  # the drive under which the mass does not move


sphere, circle = cache(hkflow.geodesic_mesh), cache(hkflow.circle_mesh)


@cache
def solved(mesh, flow, **options):
    """The moment problem of a flow, and its solution at t = 2."""
    exact = hkflow.MomentFlow(np.array(OFF_AXIS[: mesh.dim + 1]), 0.8, flow)
    problem = hkflow.Problem(mesh, exact.objective(), flow, exact=exact)
    s = hkflow.solve(
        problem,
        TIME,
        **{"tolerance": 2e-9 if flow.noise and not flow.transport else 1e-7} | options,
    )
    assert s.finished, s.status
    return problem, s


def end(s):
    """ν at the last save, (n_signs, n_cells)."""
    return np.exp(s.log_scale[-1]) * s.density[-1]


def errors(meshes, flow, **options):
    """Relative L1 errors on the meshes."""
    return np.array(
        [
            exact_errors(problem, end(s), TIME)[0]
            for problem, s in (solved(mesh, flow, **options) for mesh in meshes)
        ]
    )


# --- closed forms


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_circle_is_second_order(flow):
    """Where nothing moves, equal cells integrate a smooth density to rounding: then the error is
    the integrator's."""
    e = errors([circle(n) for n in ((64, 128, 256) if flow.transport else (64, 256))], flow)
    if flow.transport == 0.0:
        assert e.max() < 1e-7
    else:
        assert e[-1] < 4e-5 and np.all((BAND[0] <= order(e)) & (order(e) <= BAND[1])), (e, order(e))


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_sphere_is_second_order(flow):
    e = errors([sphere(3), sphere(4)], flow)
    assert e[-1] < (8e-4 if flow.transport else 1.2e-6)
    assert np.all((BAND[0] <= order(e)) & (order(e) <= BAND[1])), (e, order(e))


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_the_mass_is_that_of_the_closed_form(flow):
    problem, s = solved(circle(256), flow)
    wanted = np.log(problem.exact.mass_and_moment(s.records["time"][::20])[0])
    if flow.drive == QUIET:
        assert np.abs(s.records["mass"] - 1.0).max() <= 1e-13 and not s.log_scale.any()
    else:
        assert s.records["log_mass"][::20] == pytest.approx(
            wanted, rel=0, abs=1e-5 if flow.transport else 1e-7
        )
    if flow.drive == "measure":
        assert np.abs(s.records["mass"] - 1.0).max() <= 1e-13
        assert s.records["log_scale"] == pytest.approx(s.records["log_mass"], rel=0, abs=1e-13)


@pytest.mark.parametrize(
    "flow, broken",
    [
        (hkflow.Flow(1.0, 4.0, 0.3), hkflow.Flow(1.0, 2.0, 0.3)),
        (hkflow.Flow(1.0, 4.0, 0.3), hkflow.Flow(1.0, 4.0, 0.0)),
        (hkflow.Flow(1.0, 0.0, 0.3), hkflow.Flow(1.0, 0.0, 0.29)),
        (hkflow.Flow(1.0, 4.0, 0.3, drive="measure"), hkflow.Flow(1.0, 4.0, 0.3, drive=QUIET)),
        (hkflow.Flow(0.0, 4.0, drive=QUIET), hkflow.Flow(0.0, 2.0, drive=QUIET)),
        (hkflow.Flow(1.0, 4.0, drive=QUIET), hkflow.Flow(1.0, 4.0)),
    ],
    ids=str,
)
def test_sibling_another_flow_s_closed_form_is_missed(flow, broken):
    problem, s = solved(circle(256), flow)
    other = replace(problem, exact=hkflow.MomentFlow(problem.exact.direction, 0.8, broken))
    right, wrong = (exact_errors(p, end(s), TIME)[0] for p in (problem, other))
    assert wrong > 20 * right and wrong > 1e-3


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("drive", ["measure", QUIET])
def test_particles_of_normalised_flows_follow_the_closed_form(dim, rates, drive):
    """Gauss–Jacobi nodes in the direction e, a pair of opposite points on each circle of
    latitude."""
    exact = hkflow.MomentFlow(
        np.cos(1.0 + np.arange(dim + 1.0)), 0.8, hkflow.Flow(*rates, drive=drive)
    )
    e, (u, w) = exact.direction, roots_jacobi(60, 0.5 * dim - 1, 0.5 * dim - 1)
    aside = np.eye(dim + 1)[0] - e[0] * e
    aside /= np.linalg.norm(aside)
    points = np.concatenate(
        [u[:, None] * e + s * np.sqrt(1 - u**2)[:, None] * aside for s in (1.0, -1.0)]
    )
    atoms = hkflow.PointMeasure(points, None, np.tile(0.5 * w / w.sum(), 2))
    problem = hkflow.Problem(None, exact.objective(), exact.flow, (1,), atoms, exact)
    s = hkflow.solve(problem, TIME, kind="particles", stepper="dop853", tolerance=1e-10)
    last, (mass, moment) = s.atoms_at(-1), exact.mass_and_moment(TIME)
    assert last.mass == pytest.approx(mass, rel=1e-9) and last.moment() == pytest.approx(
        moment * e, rel=0, abs=1e-9
    )
    if drive == QUIET:
        # kept by the equation, hence to the integrator's accuracy
        assert np.abs(s.records["mass"] - 1.0).max() <= 1e-10
        assert (
            rates[1] == 0.0
            or abs(hkflow.MomentFlow(e, 0.8, hkflow.Flow(*rates)).mass_and_moment(TIME)[0] - 1.0)
            > 0.1
        )


# --- scipy on the same cells, the log of the mass a variable of its own


def margin_problem(flow, mesh):
    """ReLU and the smooth margin of eight data near the diagonals, of classes that take turns: the
    mass grows."""
    rng = np.random.default_rng(8)
    turn = np.pi / 4 + np.pi / 2 * np.arange(8) + 0.2 * rng.normal(size=8)
    inputs = rng.uniform(1.0, 2.0, size=(8, 1)) * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    targets = (-1.0) ** np.arange(8)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], inputs, targets
    )
    return hkflow.Problem(mesh, objective, flow, (1, -1), 0.1 + rng.random((2, mesh.n_cells)))


def by_scipy(problem, time):
    """ν̄ (n_signs, n_cells) and log |ν| of a Hellinger flow:

    ∂_t ν̄ = −β ν̄ (J − ∫J dν̄) + σ g (U − ν̄),   J at ν = e^L ν̄, L̇ = −β ∫J dν̄ − σ + σ g, g =
    e^−L   ("measure")
    the same with g = 1 and J at |ν₀| ν̄, L̇ = 0
    ("probability")
    """
    mesh, flow, o = problem.mesh, problem.flow, problem.objective
    phi = np.concatenate(
        [s * np.maximum(o.inputs @ mesh.centers.T, 0.0) for s in problem.signs], axis=1
    )
    volumes = np.tile(mesh.volumes, 2)
    masses = problem.initial.ravel() * volumes
    uniform = volumes / volumes.sum()

    def rate(_, state):
        nu, L = state[:-1], state[-1]
        u = o.targets * (phi @ nu) * np.exp(L)
        p = np.exp(-(u - u.min()))
        J = -(o.targets * p / p.sum()) @ phi
        mean, birth = J @ nu, flow.noise * (1.0 if flow.keeps_mass else np.exp(-L))
        growth = 0.0 if flow.keeps_mass else -flow.reaction * mean - flow.noise + birth
        return np.append(-flow.reaction * nu * (J - mean) + birth * (uniform - nu), growth)

    start = np.append(masses / masses.sum(), np.log(masses.sum()))
    found = solve_ivp(rate, (0.0, time), start, rtol=1e-12, atol=1e-15, method="DOP853").y[:, -1]
    return (found[:-1] / volumes).reshape(2, -1), found[-1]


DRIVES = [
    hkflow.Flow(0.0, 2.0, noise, drive=drive)
    for noise in (0.0, 0.3)
    for drive in ("measure", QUIET)
]


@pytest.mark.parametrize("flow", DRIVES, ids=str)
def test_a_normalised_hellinger_flow_solves_its_equation(flow):
    problem = margin_problem(flow, hkflow.circle_mesh(64))
    wanted, log_mass = by_scipy(problem, TIME)

    def error(law=wanted, **options):
        s = hkflow.solve(problem, TIME, imex="explicit", **options)
        assert s.finished, s.status
        return (
            np.abs(s.density[-1] * np.exp(s.log_scale[-1] - s.records["log_mass"][-1]) - law).max()
            / law.max(),
            s,
        )

    e, s = error(tolerance=1e-8, max_step=1 / 512)
    assert e < 1e-7 and s.records["log_mass"][-1] == pytest.approx(log_mass, rel=0, abs=1e-7)
    assert flow.drive == QUIET or abs(log_mass - s.records["log_mass"][0]) > 0.1
    for stepper, rate in (("ssprk1", 1), ("ssprk3", 3)):
        found = [
            error(stepper=stepper, tolerance=1e9, max_step=TIME / n)[0] for n in (64, 128, 256)
        ]
        assert np.all(np.abs(order(found) - rate) < 0.2), (stepper, found, order(found))
    other = hkflow.Flow(
        0.0, 2.0, flow.noise, drive={"measure": QUIET, QUIET: "measure"}[flow.drive]
    )
    # it can fail
    assert error(by_scipy(margin_problem(other, problem.mesh), TIME)[0], tolerance=1e-6)[0] > 1e-3


# --- one flow, two forms


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("rates", [(1.0, 2.0), (0.0, 2.0)])
def test_the_grid_s_normalised_form_is_the_same_flow(rates, noise):
    """At equal steps to rounding; at steps of their own to the tolerance. Without noise the mass
    grows tenfold."""
    mesh, time = hkflow.circle_mesh(64), 8.0

    def shape(drive, **options):
        s = hkflow.solve(
            margin_problem(hkflow.Flow(*rates, noise, drive=drive), mesh),
            time,
            imex="explicit",
            **options,
        )
        assert s.finished, s.status
        return np.append(
            s.density[-1] * np.exp(s.log_scale[-1] - s.records["log_mass"][-1]),
            s.records["log_mass"][-1],
        )

    grown = np.log(10.0 * (margin_problem(hkflow.Flow(), mesh).initial @ mesh.volumes).sum())
    # whose error in space does not depend on the step
    own = {"tolerance": 1e-6, "stepper": "ssprk3"}
    for bound, options in ((1e-11, {"max_step": 1 / 256, "tolerance": 1e9}), (1e-6, own)):
        plain, apart = (shape(drive, **options) for drive in (None, "measure"))
        assert np.abs(plain - apart).max() < bound * plain[:-1].max()
        assert noise or plain[-1] > grown
    # J at ν̄ is another flow
    assert np.abs(plain[:-1] - shape(QUIET, **own)[:-1]).max() > 1e-2 * plain[:-1].max()


@pytest.mark.parametrize("rates", [(1.0, 2.0), (0.0, 2.0)])
def test_the_particles_normalised_form_is_the_same_flow(rates):
    rng = np.random.default_rng(4)
    atoms = hkflow.PointMeasure(hkflow.random_uniform(rng, 60, 2), rng.choice([-1.0, 1.0], size=60))

    def last(drive, tolerance):
        inputs = np.random.default_rng(8).normal(size=(8, 3))
        objective = hkflow.Objective(
            hkflow.FEATURES["squared-relu"],
            hkflow.RISKS["smooth-margin"],
            inputs,
            np.sign(inputs[:, 0] * inputs[:, 1]),
        )
        problem = hkflow.Problem(None, objective, hkflow.Flow(*rates, drive=drive), (1, -1), atoms)
        s = hkflow.solve(problem, 4.0, kind="particles", stepper="dop853", tolerance=tolerance)
        found = s.atoms_at(-1)
        return found.positions, found.weights / found.mass, s.records["log_mass"][-1]

    for tolerance, bound in ((1e-6, 1e-4), (1e-12, 1e-7)):
        plain, apart = (last(drive, tolerance) for drive in (None, "measure"))
        for one, other in zip(plain, apart, strict=True):
            assert np.abs(one - other).max() < bound
    kept = last(QUIET, 1e-6)
    assert np.abs(plain[1] - kept[1]).max() > 1e-3 and plain[2] > 0.5
