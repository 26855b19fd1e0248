"""Users' own features and risks are tried before anything runs."""

from functools import partial

import numba
import numpy as np
import pytest

import hkflow
from hkflow.certificates import f2_max_margin
from hkflow.objectives.own import check_own

X = np.random.default_rng(1).normal(size=(6, 3))
Y = np.sin(3.0 * X[:, 0])


def tanh(s, steep=1.0, factor=1.0):
    value = np.tanh(steep * s)
    return value, factor * steep * (1.0 - value**2)


def single(s):
    return tuple(part.astype(np.float32) for part in tanh(s))


def matrix(theta, x):
    return np.tanh(x @ theta.T)


def pullback(theta, x, residuals):
    return (residuals / np.cosh(theta @ x.T) ** 2) @ x


def on_sphere(theta, x):  # no number for any other θ
    return np.arcsin(np.sqrt(1.0 - np.sum(theta**2, axis=1) + 1e-10) + x @ theta.T / 9.0)


def slopes_on_sphere(theta, x, residuals):
    return (residuals / np.sqrt(1.0 - (theta @ x.T / 9.0) ** 2)) @ x / 9.0


def changes_inputs(theta, x):
    x *= 0.9
    return matrix(theta, x)


def square(h, y, q, out):
    out[:] = q * (h - y)
    return 0.5 * np.sum(q * (h - y) ** 2)


def objective_of(feature=None, risk=None, y=Y):
    feature, risk = feature or hkflow.ridge(tanh), risk or hkflow.RISKS["square"]
    return hkflow.Objective(feature, risk, X, y)


def solved(feature=None, risk=None, y=Y, kind="particles"):
    objective = objective_of(feature, risk, y)
    if kind == "grid":
        problem = hkflow.Problem(hkflow.geodesic_mesh(0), objective, hkflow.Flow(1.0, 1.0))
    else:
        start = hkflow.PointMeasure(hkflow.quasi_uniform(10, 2))
        problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 1.0), initial=start)
    return hkflow.solve(problem, 0.1, kind=kind).records["objective"][-1]


@pytest.mark.parametrize("kind", ["particles", "grid"])
@pytest.mark.parametrize(
    "feature, why",
    [
        (hkflow.ridge(partial(tanh, factor=2.0), "own"), "another gradient than its values"),
        (hkflow.ridge(tanh, degree=1), "'tanh' is not homogeneous of degree 1"),
        (hkflow.Feature("own", matrix, 2), "not homogeneous of degree 2"),
        (hkflow.Feature("own", changes_inputs), "changes an array that it is given"),
        (hkflow.Feature("own", lambda theta, x: theta @ x.T), r"shape \(4, 5\), got .* \(5, 4\)"),
        (
            hkflow.Feature("own", matrix, pullback=lambda *a: pullback(*a).sum(axis=0)),
            r"shape \(5, 3\), got float64 of the shape \(3,\)",
        ),
        (hkflow.Feature("own", lambda *a: matrix(*a) * np.nan), "wanted finite numbers"),
        (
            hkflow.ridge(lambda s: tuple(part / len(s) for part in tanh(s)), "mean"),
            "a value must depend on its own pair alone",
        ),
        (
            hkflow.Feature("own", lambda theta, x: np.maximum(-x @ theta.T, 0.0) / len(x)),
            "a value must depend on its own pair alone",
        ),
        (hkflow.ridge(lambda s: (np.tanh(s) + 0j, 1.0 / np.cosh(s) ** 2), "own"), "got complex"),
    ],
)
def test_a_feature_that_is_not_what_it_says_is_refused(feature, why, kind):
    with pytest.raises(ValueError, match=why):
        solved(feature, kind=kind)


@pytest.mark.parametrize(
    "feature, wanted",
    [
        (hkflow.ridge(single), solved()),
        (hkflow.Feature("own", matrix, pullback=pullback), solved()),
        (hkflow.ridge(numba.njit(lambda s: (np.tanh(s), 1.0 / np.cosh(s) ** 2)), "own"), solved()),
    ],
)
def test_a_feature_that_is_right_is_taken(feature, wanted):
    assert solved(feature) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    "feature",
    [
        hkflow.ridge(partial(tanh, steep=1e4), "steep"),
        hkflow.Feature("own", on_sphere, pullback=slopes_on_sphere),
    ],
)
def test_a_feature_may_be_steep_or_known_on_the_sphere_alone(feature):
    check_own(objective_of(feature))


def test_terms_that_cancel_are_no_gradient():
    """Beside a hat function, where its value is their rounding."""
    corners, x = np.array([-0.5, 0.0, 0.5]), np.array([[1.0, 0.2], [-0.4, 1.0], [0.3, -1.0]])

    def hat(s):
        up, bends = s[..., None] > corners, np.array([1.0, -2.0, 1.0])
        return np.where(up, s[..., None] - corners, 0.0) @ bends, up @ bends

    feature, square = hkflow.ridge(hat, kinks=corners), hkflow.RISKS["square"]
    check_own(hkflow.Objective(feature, square, x, [0.1, -0.2, 0.2]))


def risk(function, **more):
    return hkflow.Risk("own", function, more.pop("classifies", False), **more)


def half(h, y, q, out):
    return square(h, y, q, out) / 2.0


def changes_predictions(h, y, q, out):
    h -= y
    return square(h, 0.0, q, out)


def writes_nothing(h, y, q, out):
    value = square(h, y, q, out.copy())
    out = q * (h - y)
    return value


def huber(h, y, q, out):
    out[:] = q * np.clip(h - y, -1.0, 1.0)
    return np.sum(q * np.where(abs(h - y) < 1, 0.5 * (h - y) ** 2, abs(h - y) - 0.5))


def scaled(h, log_scale, y, q, out):
    return square(np.exp(log_scale) * h, y, q, out) / np.exp(log_scale)


def log_logistic(h, y, q, out, offset=0.0):
    loss = hkflow.RISKS["logistic"].evaluate(h, y, q, out)
    out /= loss + offset
    return np.log(loss + offset)


@pytest.mark.parametrize("kind", ["particles", "grid"])
@pytest.mark.parametrize(
    "own, why",
    [
        (risk(half), "another gradient than its values: .* where differences .* give"),
        (risk(changes_predictions), "changes an array that it is given"),
        (risk(writes_nothing), r"writes no finite gradient to out\[0\]"),
        (risk(lambda h, y, q, out: out.fill(0.0)), "wanted real numbers of the shape"),
        (risk(lambda h, y, q, out: square(h, y, q, out) + 0j), "got complex128"),
        (risk(lambda h, y, q, out: q * square(h, y, q, out)), r"of the shape \(6,\)"),
        (risk(lambda h, y, out: 0.0), "own' does not fit: TypeError: .* takes 3 positional"),
        (risk(huber, tail="square"), "its tail 'square' wants the gradient of that risk"),
        (risk(square, scaled=lambda h, L, *a: square(h, *a)), "'scaled' wants e\\^−log_scale R"),
        (
            risk(square, scaled=lambda h, L, y, q, out: scaled(h, L, y, q, out.copy())),
            "writes no finite gradient",
        ),
    ],
)
def test_a_risk_that_is_not_what_it_says_is_refused(own, why, kind):
    with pytest.raises(ValueError, match=why):
        solved(risk=own, kind=kind)


@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_a_tail_is_that_of_the_margin(offset):
    """Of a risk that is scaled, by which steps are implicit."""
    evaluate = partial(log_logistic, offset=offset)

    def scaled(h, log_scale, y, q, out):
        return evaluate(np.exp(log_scale) * h, y, q, out) / np.exp(log_scale)

    own = risk(evaluate, tail="logistic", scaled=scaled, classifies=True)
    if offset == 0.0:
        known = solved(risk=hkflow.RISKS["smooth-logistic-margin"], y=np.sign(Y))
        assert solved(risk=own, y=np.sign(Y)) == pytest.approx(known, rel=1e-9)
    else:
        with pytest.raises(ValueError, match="tail 'logistic' wants the gradient of its margin"):
            solved(risk=own, y=np.sign(Y))


def test_a_risk_that_is_right_is_taken():
    known = solved()
    assert solved(risk=risk(square)) == pytest.approx(known, rel=1e-12)
    assert solved(risk=risk(square, scaled=scaled)) == pytest.approx(known, rel=1e-9)
    assert solved(risk=risk(numba.njit(square))) == pytest.approx(known, rel=1e-12)
    single = risk(lambda *a: np.float32(square(*a)))
    assert solved(risk=single) == pytest.approx(known, rel=1e-6)
    for own in (risk(square), risk(lambda h, y, q, out: huber(h, y, q, out) + 1e3)):
        check_own(objective_of(risk=own, y=1e9 * Y))  # of targets far from predictions


def test_names_belong_to_those_that_certificates_know():
    """By which they took another feature for ReLU."""
    for feature, loss in (
        (hkflow.Feature("relu", matrix), None),
        (hkflow.ridge(tanh, "absolute-value", degree=1), None),
        (None, hkflow.Risk("smooth-margin", square, True)),
    ):
        feature, loss = feature or hkflow.FEATURES["relu"], loss or hkflow.RISKS["square"]
        with pytest.raises(ValueError, match="is not hkflow's own; give it another name"):
            f2_max_margin(hkflow.Objective(feature, loss, X, np.sign(Y)))


def test_what_is_no_feature_and_no_risk_is_told():
    with pytest.raises(ValueError, match="feature must be a hkflow.Feature, got <function tanh"):
        hkflow.Objective(tanh, hkflow.RISKS["square"], X, Y)
    with pytest.raises(ValueError, match=r"got 'relu'. Take hkflow.FEATURES\[name\]"):
        hkflow.Objective("relu", hkflow.RISKS["square"], X, Y)
    with pytest.raises(ValueError, match=r"got 0. 2 \* y - 1 makes them"):
        hkflow.Objective(
            hkflow.FEATURES["relu"], hkflow.RISKS["logistic"], X, np.arange(len(Y)) % 2
        )
    with pytest.raises(ValueError, match="of a hkflow.Objective, got ndarray"):
        hkflow.certificates.max_margin(X, Y)
    with pytest.raises(ValueError, match="risk must be a hkflow.Risk, got 'square'. Take hkflow.R"):
        hkflow.Objective(hkflow.FEATURES["relu"], "square", X, Y)
    with pytest.raises(ValueError, match="Unknown tail 'sqare'. Did you mean 'square'"):
        risk(square, tail="sqare")


def test_a_potential_that_changes_its_points_is_refused():
    """A grid's centres would be others."""

    def potential(points):
        points[:, 0] = 1.0
        return points[:, 1]

    with pytest.raises(ValueError, match="potential changes the points"):
        hkflow.Sum(hkflow.External(potential), axes=3)
