"""Transport so slow that masses are a large power of what it changes: as without transport, to a
share of its rate."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

import hkflow
from hkflow.methods.frozen_relu.tiles import log_of_f

FEATURES = {
    "relu": hkflow.FEATURES["relu"],
    "joint-relu": hkflow.FEATURES["joint-relu"],
    "shifted": hkflow.ridge(lambda s: (np.maximum(s - 0.2, 0.0), 1.0 * (s > 0.2)), kinks=[0.2]),
    "squared-relu": hkflow.FEATURES["squared-relu"],
}


def plain(tau, shrink, minus, half):
    """log f with a rounding of 1."""
    return tau + np.log(half)


def off(log_f, tau, z):
    """Error of log (cosh τ + z sinh τ) over τ."""
    shrink = np.exp(-tau)
    half = 0.5 * ((1.0 + z) + (1.0 - z) * shrink**2)
    with localcontext() as context:
        context.prec = 400
        up, down = Decimal(tau).exp(), (-Decimal(tau)).exp()
        exact = (((1 + Decimal(z)) * up + (1 - Decimal(z)) * down) / 2).ln()
        return float((Decimal(float(log_f(tau, shrink, 1.0 - z, half))) - exact) / Decimal(tau))


@pytest.mark.parametrize("tau", [1e-100, 1e-20, 1e-9, 1e-3, 0.3, 1.0, 5.0, 300.0])
def test_log_f_is_known_to_a_rounding_of_tau(tau):
    for z in (-1.0, -0.9375, -0.5, 0.0, 0.25, 0.875, 1.0):
        assert abs(off(log_of_f, tau, z)) < 1e-15, z


def test_with_a_rounding_of_1_nothing_would_be_known():
    """The sibling."""
    assert abs(off(plain, 1e-9, 0.25)) > 1e-9 and abs(off(plain, 1e-20, 0.25)) > 0.1


def solved(feature, kind, transport, imex="auto", tolerance=1e-8):
    """Predictions at t = 1 of a flow on S², with 42 cells, or as many atoms, for each sign."""
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((6, 3 - (feature == "joint-relu")))
    targets = np.where(rng.random(6) < 0.5, -1.0, 1.0)
    objective = hkflow.Objective(
        FEATURES[feature], hkflow.RISKS["logistic"], inputs, targets, weight_decay=0.1
    )
    mesh, signs = hkflow.geodesic_mesh(1), (1,) if feature == "joint-relu" else (1, -1)
    density = np.full((len(signs), mesh.n_cells), 1.0 / mesh.volumes.sum())
    problem = hkflow.Problem(mesh, objective, hkflow.Flow(transport, 1.0), signs, density)
    found = hkflow.solve(problem, 1.0, kind=kind, tolerance=tolerance, imex=imex)
    assert found.finished, found.status
    return found.predictions[-1]


@pytest.mark.parametrize("imex", ["explicit", "implicit"])
@pytest.mark.parametrize(
    "feature, kind",
    [
        *((feature, kind) for feature in FEATURES for kind in ("particles", "grid")),
        ("relu", "characteristics"),
    ],
)
def test_slow_transport_is_none(feature, kind, imex):
    """Errors of steps are below 1e-8; transport of 1e-9 changes h by as much at most."""
    none = solved(feature, kind, 0.0, imex)
    for rate in (1e-9, 1e-20, 1e-100):
        assert np.abs(solved(feature, kind, rate, imex) - none).max() < 1e-7, rate


@pytest.mark.parametrize("feature", ["relu", "joint-relu", "shifted"])
@pytest.mark.parametrize("kind", ["particles", "grid"])
def test_transport_may_begin_late_and_fade(feature, kind):
    """A rate that is 0 for a while, and one that falls to 1e-130."""
    none = solved(feature, kind, 0.0)
    late = solved(feature, kind, "where(t < 2, 0, 1)", tolerance=1e-5)
    fades = solved(feature, kind, "exp(-300*t)", tolerance=1e-5)
    assert np.abs(late - none).max() < 1e-5
    assert 1e-5 < np.abs(fades - none).max() < 1e-3  # of a hundredth of the time
