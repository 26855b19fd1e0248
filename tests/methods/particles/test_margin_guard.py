"""The guard of the normalised smooth margin: honest flows pass, broken ones do not."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

import hkflow
from hkflow.methods.choice import make_method
from hkflow.methods.particles import kernels, particles
from hkflow.solving import guards
from hkflow.solving.solution import Memory
from hkflow.solving.solve import integrate

LOSSES = {"exponential": lambda v: -np.log(v), "logistic": lambda v: -np.log(np.expm1(v))}
TAILS = {"exponential": lambda u: np.exp(-u), "logistic": lambda u: np.log1p(np.exp(-u))}


def margin_problem(
    risk="smooth-margin", activation="squared-relu", flow=None, grid=False, n=20, weights=None
):
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.normal(size=(n, 1)), np.ones(n)])
    y = np.where(x[:, 0] > 0.2, 1.0, -1.0)
    objective = hkflow.Objective(hkflow.FEATURES[activation], hkflow.RISKS[risk], x, y, weights)
    flow = flow or hkflow.Flow(1.0, 2.0 if activation == "relu" else 4.0)
    if grid:
        return hkflow.Problem(hkflow.circle_mesh(64), objective, flow, (1, -1))
    points = hkflow.quasi_uniform(40, 1)
    atoms = hkflow.PointMeasure(np.tile(points, (2, 1)), np.repeat([1.0, -1.0], 40))
    return hkflow.Problem(None, objective, flow, (1, -1), atoms)


def watched(problem, end, alone=False, **method):
    """A run with all guards, or with this one alone; its status, and how often the guard had
    something to look at."""
    made, seen = make_method(problem, **method), []

    def watch(method, step, clock):
        seen.append(
            guards.attained_margin(problem.objective, method.current.predictions, method.log_scale)
            > 0.0
        )
        return guards.margin_increase(method, step, clock)

    _, status, finished = integrate(
        made, [end], (Memory(),), guards=(watch,) if alone else (*guards.GUARDS[:3], watch)
    )
    return status, finished, sum(seen)


@pytest.mark.parametrize("risk", ["exponential", "logistic"])
@pytest.mark.parametrize("log_scale", [0.0, 1.3, 800.0])
def test_the_smooth_margin_is_the_inverse_loss_of_the_sum(risk, log_scale):
    rng = np.random.default_rng(0)
    weights = rng.random(5) + 0.1
    u, y = rng.normal(size=5) + 4.0, np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    o = hkflow.Objective(hkflow.FEATURES["linear"], hkflow.RISKS[risk], np.ones((5, 2)), y, weights)
    got = guards.attained_margin(o, y * u / np.exp(min(log_scale, 100.0)), log_scale)
    if log_scale < 100.0:
        wanted = LOSSES[risk](np.sum(weights * TAILS[risk](u)) / weights.min())
        assert got * np.exp(log_scale) == pytest.approx(wanted, rel=1e-12)
    else:
        assert got == pytest.approx(u.min() / np.exp(100.0), rel=1e-12)


@pytest.mark.parametrize("smallest", [1e-4, 1e-30, 1e-300])
@pytest.mark.parametrize("u", [-1e4, -300.0, -1.0, 0.0, 1.0, 30.0, 300.0])
def test_it_is_so_for_weights_of_all_sizes(smallest, u):
    weights = np.array([1.0 - smallest, smallest])
    o = hkflow.Objective(
        hkflow.FEATURES["linear"], hkflow.RISKS["logistic"], np.ones((2, 2)), np.ones(2), weights
    )
    with localcontext(prec=500):
        v = (1 + Decimal(-u).exp()).ln() * Decimal(weights.sum()) / Decimal(weights.min())
        wanted = -v if v > 1000 else -(v.exp() - 1).ln()
    got = guards.attained_margin(o, np.full(2, u), 0.0)
    largest = np.exp(guards.LARGEST_LOG)  # all beyond is as wrong a margin
    assert got == pytest.approx(max(float(wanted), -largest), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    "risk, end",
    [
        ("smooth-margin", 1.5),
        ("smooth-logistic-margin", 1.5),
        ("exponential", 20.0),
        ("logistic", 20.0),
    ],
)
@pytest.mark.parametrize(
    "method",
    [
        {"kind": "grid"},
        {"kind": "grid", "stepper": "ssprk1", "tolerance": 1e-2},
        {"kind": "particles"},
        {"kind": "network"},
        {"kind": "network", "layers": "normalized", "flow": hkflow.Flow(0.0, 2.0)},
        {"kind": "network", "layers": "radii", "flow": hkflow.Flow(0.0, 4.0)},
        {"kind": "network", "layers": "output", "flow": hkflow.Flow(0.0, 0.0)},
    ],
    ids=lambda m: "-".join(str(v) for v in m.values() if isinstance(v, str)),
)
def test_honest_flows_pass(method, risk, end):
    method = dict(method)
    problem = margin_problem(
        risk, flow=method.pop("flow", None), grid=method["kind"] == "grid", n=6
    )
    slower = {"normalized": 2.0, "output": 40.0}.get(method.get("layers"), 1.0)
    status, finished, seen = watched(problem, slower * end, **method)
    assert finished and seen > 3, (status, seen)


def test_weights_and_normalised_flows_pass():
    weights = np.random.default_rng(2).random(6) + 0.2
    driven = hkflow.Flow(1.0, 4.0, drive="measure")
    for problem, method in (
        (margin_problem(n=6, weights=weights, grid=True), {}),
        (margin_problem(n=6, flow=driven, grid=True), {}),
        (
            margin_problem(n=6, flow=hkflow.Flow(0.0, 2.0)),
            {"kind": "network", "layers": "normalized", "balance": 3.0},
        ),
    ):
        status, finished, seen = watched(problem, 3.0 if method else 2.0, **method)
        assert finished and seen > 3, status


def test_deep_diagonal_networks_pass_by_their_norm():
    x = np.random.default_rng(4).normal(size=(3, 3))
    o = hkflow.Objective(
        hkflow.FEATURES["linear"], hkflow.RISKS["smooth-margin"], x, np.sign(x @ [1.0, 0.5, -0.2])
    )
    for depth in (2.0, 3.0):
        flow = hkflow.Flow(0.0, depth**2, depth=depth, time_variable="margin")
        problem = hkflow.Problem(
            hkflow.atoms_mesh(np.eye(3)), o, flow, (1, -1), np.full((2, 3), 0.1)
        )
        status, finished, seen = watched(problem, 100.0, kind="network", layers="diagonal")
        assert finished and seen > 10, status


# --- siblings: broken flows


@pytest.mark.parametrize(
    "fault", ["reaction backwards", "transport backwards", "mass lost", "one sign forgotten"]
)
def test_broken_flows_are_stopped(fault, monkeypatch):
    """The guard alone, without those of the budgets, from a state with a positive smooth margin."""
    honest = kernels.particle_rates

    def broken(
        positions,
        weights,
        signs,
        slopes,
        gradient,
        alpha,
        beta,
        sigma,
        decay,
        depth,
        velocities,
        growth,
        *rest,
    ):
        totals = honest(
            positions,
            weights,
            signs,
            slopes,
            gradient,
            alpha,
            beta,
            sigma,
            decay,
            depth,
            velocities,
            growth,
            *rest,
        )
        if fault == "reaction backwards":
            growth *= -1.0
        elif fault == "transport backwards":
            velocities *= -10.0
        elif fault == "mass lost":
            growth -= 20.0
        else:
            growth[signs < 0.0] *= -1.0
        return totals

    made = make_method(margin_problem(n=6), kind="particles")
    _, status, finished = integrate(made, [1.5], (Memory(),))
    assert finished, status
    state = made.state()
    for breaks in (False, True):
        if breaks:
            monkeypatch.setattr(particles.kernels, "particle_rates", broken)
        made = make_method(margin_problem(n=6), kind="particles", imex="explicit")
        made.load(state)
        _, status, finished = integrate(made, [0.5], (Memory(),), guards=(guards.margin_increase,))
        assert finished != breaks, status
        assert breaks == ("the normalised smooth margin fell from" in status)


def test_what_the_theorem_does_not_cover_is_let_pass():
    """Noise, the drive 'probability', descent, the square loss and sliding along kinks may lower
    it; so may a start that errs."""
    step, clock = None, None
    for problem, method in (
        (margin_problem(flow=hkflow.Flow(1.0, 4.0, 0.1)), "particles"),
        (margin_problem(flow=hkflow.Flow(1.0, 4.0, drive="probability")), "particles"),
        (margin_problem("square"), "particles"),
        (margin_problem(activation="relu"), "particles"),
    ):
        assert guards.margin_increase(make_method(problem, kind=method), step, clock) is None
    # no transport in the limit, yet units move
    normalized = margin_problem(activation="relu", flow=hkflow.Flow(0.0, 2.0))
    assert (
        guards.margin_increase(
            make_method(normalized, kind="network", layers="normalized"), step, clock
        )
        is None
    )
    made = make_method(margin_problem(), kind="network", training="gradient-descent")
    assert guards.margin_increase(made, step, clock) is None
    made = make_method(margin_problem(), kind="particles")
    made.trial = made.current
    assert guards.margin_increase(made, step, clock) is None
