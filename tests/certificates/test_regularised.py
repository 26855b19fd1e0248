from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import nnls

import hkflow
from hkflow.certificates import regularised
from hkflow.certificates.fixed_points import l1_margin
from hkflow.certificates.regularised import Conjugate, minimise, regularisation_path
from hkflow.certificates.search import local_maxima
from hkflow.geometry.sphere import normalize
from hkflow.objectives.activations import FEATURES
from hkflow.objectives.losses import RISKS
from hkflow.objectives.objective import Objective

RISK_NAMES = ["square", "logistic", "exponential"]
BOTH = (1, -1)


def problem(feature="relu", risk="logistic", n=20, d=1, decay=1e-3, seed=0):
    """Gaussian inputs of d coordinates and a bias; classes, or values, by a sine of the first
    coordinate."""
    inputs = np.random.default_rng(seed).normal(size=(n, d))
    wave = np.sin(1.5 * inputs[:, 0])
    targets = wave if risk == "square" else np.sign(wave)
    inputs = np.column_stack([inputs, np.ones(n)])
    weights = np.linspace(1.0, 2.0, n)
    return Objective(
        FEATURES[feature], RISKS[risk], inputs, targets, weights / weights.sum(), decay
    )


def circle(m):
    angles = 2.0 * np.pi * np.arange(m) / m
    return np.column_stack([np.cos(angles), np.sin(angles)])


def circle_with_kinks(objective, m):
    """m points, and those where a datum's feature has its kink: there atoms sit, and a shift costs
    the first order."""
    kinks = normalize(objective.inputs @ [[0.0, 1.0], [-1.0, 0.0]])
    return np.concatenate([circle(m), kinks, -kinks])


def least_squares(A, b, decay):
    """argmin over w ≥ 0 of ½ |A w − b|² + λ Σw, from the point of a polytope next to b (Lawson &
    Hanson 1974, ch. 23)."""
    system = np.vstack([-A, b @ A - decay])
    goal = np.append(np.zeros(len(A)), 1.0)
    u, _ = nnls(system, goal, maxiter=100 * A.shape[1])
    return u / (1.0 - system[-1] @ u)


def lowest_on_grid(objective, points):
    """min F over nonnegative weights of fixed points with both signs, by Newton's method with
    nonnegative least squares."""
    phi = objective.feature.matrix(points, objective.inputs)
    phi, residuals, q = np.column_stack([phi, -phi]), np.empty(len(phi)), objective.weights

    def value(w):
        return objective.evaluate_risk(phi @ w, 0.0, residuals) + objective.weight_decay * w.sum()

    w = np.zeros(phi.shape[1])
    for _ in range(30):
        lowest, h, size = value(w), phi @ w, np.abs(residuals)
        curvature = {"square": q, "logistic": size * (1.0 - size / q), "exponential": size}[
            objective.risk.name
        ]
        root = np.sqrt(curvature)
        step = (
            least_squares(
                root[:, None] * phi, root * (h - residuals / curvature), objective.weight_decay
            )
            - w
        )
        length = next((a for a in 0.5 ** np.arange(30) if value(w + a * step) < lowest), None)
        if length is None:
            break
        w = w + length * step
    return value(w)


def value_of(objective, atoms):
    h = objective.feature.matrix(atoms.positions, objective.inputs) @ (atoms.signs * atoms.weights)
    return objective.evaluate_risk(h, 0.0, np.empty_like(h)) + objective.weight_decay * atoms.mass


@pytest.mark.parametrize("decay", [0.02, 1e-3])
@pytest.mark.parametrize("risk", RISK_NAMES)
def test_the_minimum_is_the_one_on_a_fine_grid(risk, decay):
    objective = problem(risk=risk, n=10, decay=decay)
    found = minimise(objective, BOTH, 1e-8)
    grid = lowest_on_grid(objective, circle_with_kinks(objective, 500))
    assert found.certified
    assert found.lower <= grid + 1e-12
    # spacing² is 1.6e-4, of which an atom misses a part
    assert grid == pytest.approx(found.upper, rel=5e-5, abs=0)


@pytest.mark.parametrize("decay", [1.0, 1e-2, 1e-6, 1e-14])
@pytest.mark.parametrize("risk", RISK_NAMES)
@pytest.mark.parametrize(
    ("feature", "d", "n"),
    [
        *(("relu", 1, 40), ("relu", 2, 16), ("squared-relu", 1, 20), ("squared-relu", 2, 8)),
        ("absolute-value", 2, 10),
    ],
)
def test_the_gap_is_certified(feature, d, n, risk, decay):
    objective = problem(feature, risk, n, d, decay)
    # of which rounding leaves 1.2e-6 with some BLAS
    smooth_fit = (feature, risk, decay) == ("squared-relu", "square", 1e-14)
    found = minimise(objective, BOTH, 2e-6 if smooth_fit else 1e-6)
    highest = local_maxima(objective.feature, objective.inputs, found.dual, BOTH).values[0]
    assert found.certified and -1e-14 <= found.gap <= (2e-6 if smooth_fit else 1e-6)
    assert highest <= 1.0 + 1e-12
    assert found.upper == pytest.approx(value_of(objective, found.atoms), rel=1e-11, abs=0)
    assert found.weight_decay == decay


@pytest.mark.parametrize("risk", RISK_NAMES)
def test_the_conditions_of_optimality_hold(risk):
    objective = problem(risk=risk, decay=1e-3)
    found = minimise(objective, BOTH, 1e-10)
    residuals = np.empty(len(found.dual))
    objective.evaluate_risk(found.predictions, 0.0, residuals)
    potential = objective.weight_decay + found.atoms.signs * (
        residuals @ objective.feature.matrix(found.atoms.positions, objective.inputs)
    )
    np.testing.assert_allclose(
        -residuals / objective.weight_decay,
        found.dual,
        rtol=0,
        atol=1e-3 * np.abs(found.dual).max(),
    )
    # ∫|J| dν = 0
    assert (
        np.abs(potential) @ found.atoms.weights <= 1e-3 * objective.weight_decay * found.atoms.mass
    )


@pytest.mark.parametrize("risk", RISK_NAMES)
def test_no_measure_is_below_and_no_dual_above(risk):
    objective = problem(risk=risk, decay=1e-2)
    found, rng = minimise(objective, BOTH), np.random.default_rng(1)
    for _ in range(20):
        weights = found.atoms.weights * rng.uniform(0.0, 2.0, len(found.atoms))
        assert value_of(objective, replace(found.atoms, weights=weights)) >= found.lower
    dual = regularised._Dual(objective)
    for _ in range(20):
        u = dual.flip * found.dual * rng.uniform(0.0, 1.0, len(found.dual))
        u /= max(
            1.0, local_maxima(objective.feature, objective.inputs, dual.signed(u), BOTH).values[0]
        )
        assert objective.weight_decay * dual.value(u) <= found.upper


@pytest.mark.parametrize("decay", [0.3, 1e-3])
def test_one_datum_and_the_square_risk(decay):
    objective = Objective(
        FEATURES["relu"], RISKS["square"], [[3.0, 4.0]], [2.0], weight_decay=decay
    )
    found = minimise(objective, BOTH, 1e-12)  # ½(5m − 2)² + λm at the unit x/|x|
    mass = (10.0 - decay) / 25.0
    assert found.atoms.mass == pytest.approx(mass, rel=1e-6, abs=0)
    assert found.upper == pytest.approx(
        0.5 * (5.0 * mass - 2.0) ** 2 + decay * mass, rel=1e-11, abs=0
    )


@pytest.mark.parametrize("decay", [0.2, 1e-2, 1e-14])
def test_one_datum_and_the_logistic_risk(decay):
    objective = Objective(
        FEATURES["relu"], RISKS["logistic"], [[0.6, 0.8]], [-1.0], weight_decay=decay
    )
    found = minimise(objective, BOTH, 1e-9)  # log(1 + e^−m) + λm, with 1/(1 + e^m) = λ
    mass = np.log1p(-decay) - np.log(decay)
    assert found.upper == pytest.approx(-np.log1p(-decay) + decay * mass, rel=1e-9, abs=0)
    assert found.margin == pytest.approx(1.0, rel=1e-9, abs=0)
    assert (found.atoms.signs == -1.0).all()


def test_two_atoms_of_linear_features_make_a_norm():
    """F = ½ Σ q (a·x − y)² + λ|a|: the stationary a solves (XᵀqX + λ/|a|) a = Xᵀqy."""
    objective = problem("linear", "square", d=2, decay=0.05)
    found = minimise(objective, BOTH, 1e-10)
    X, y, q = objective.inputs, objective.targets, objective.weights
    a = np.ones(3)
    for _ in range(500):
        a = np.linalg.solve(
            X.T @ (q[:, None] * X) + 0.05 / np.linalg.norm(a) * np.eye(3), X.T @ (q * y)
        )
    value = 0.5 * q @ (X @ a - y) ** 2 + 0.05 * np.linalg.norm(a)
    assert found.lower <= value * (1.0 + 1e-12) and found.upper == pytest.approx(
        value, rel=1e-9, abs=0
    )
    np.testing.assert_allclose(found.atoms.moment(), a, rtol=0, atol=1e-4)


@pytest.mark.parametrize("risk", ["logistic", "exponential"])
def test_the_margin_rises_to_the_largest(risk):
    """Wei et al. 2019, Theorem 2.1; the excess falls like 1/log(1/λ)."""
    objective, decays = problem(risk=risk), 10.0 ** -np.arange(2.0, 15.0, 2.0)
    path = regularisation_path(objective, BOTH, decays)
    phi = objective.feature.matrix(circle(20_000), objective.inputs)
    margin = l1_margin(objective.targets[:, None] * np.column_stack([phi, -phi])[:, ::5])
    missing = margin.value * (1.0 + 1e-4) - np.array([m.margin for m in path])
    assert all(m.certified for m in path)
    assert (np.diff(missing) < 0.0).all() and (missing > 0.0).all()
    scaled = missing[2:] * np.log(1.0 / decays[2:]) / margin.value
    assert scaled.max() < 1.5 * scaled.min() and scaled.min() > 0.1
    assert missing[-1] < 0.15 * margin.value


def test_one_sign_of_unit_is_enough_or_not():
    objective = problem(risk="square", decay=1e-2)
    assert minimise(objective, (1,)).lower > minimise(objective, BOTH).upper


@pytest.mark.parametrize("decay", [10.0, 1e-2, 1e-6])
@pytest.mark.parametrize("risk", RISK_NAMES)
def test_units_on_the_joint_sphere_have_twice_the_mass(risk, decay):
    """b (a·x)₊ is ½ at best where |a·x| = 1; every such minimum ended with `cannot reshape`."""
    joint = minimise(problem("joint-relu", risk, decay=decay))
    signed = minimise(problem(risk=risk, decay=2.0 * decay), BOTH)
    assert joint.certified and joint.upper == pytest.approx(signed.upper, rel=2e-6, abs=0)
    assert joint.upper == pytest.approx(
        value_of(problem("joint-relu", risk, decay=decay), joint.atoms), rel=1e-9, abs=0
    )


def test_a_start_changes_only_the_rounds():
    objective = problem(n=40, decay=1e-8)
    cold = minimise(objective, BOTH)
    warm = minimise(objective, BOTH, start=cold)
    assert warm.certified and warm.rounds < cold.rounds
    assert warm.upper == pytest.approx(cold.upper, rel=2e-6, abs=0)


def test_a_start_with_another_sign_keeps_only_the_signs_there_are():
    """Atoms of the other sign stayed, and the minimum over both signs was certified for one."""
    objective = problem(risk="square", decay=1e-2)
    alone = minimise(objective, (1,))
    found = minimise(objective, (1,), start=minimise(objective, BOTH))
    assert (found.atoms.signs == 1.0).all()
    assert found.certified and found.upper == pytest.approx(alone.upper, rel=2e-6, abs=0)


def test_nothing_to_learn_is_learnt_by_nothing():
    objective = Objective(
        FEATURES["relu"], RISKS["square"], [[1.0, 1.0], [2.0, 1.0]], [0.0, 0.0], weight_decay=0.1
    )
    found = minimise(objective, BOTH)
    assert found.certified and len(found.atoms) == 0 and found.upper == found.gap == 0.0


def test_data_that_nothing_separates_have_no_margin_and_honest_bounds():
    objective = Objective(
        FEATURES["relu"],
        RISKS["logistic"],
        [[1.0, 1.0], [1.0, 1.0]],
        [1.0, -1.0],
        weight_decay=1e-14,
    )
    found = minimise(objective, BOTH)
    assert found.lower <= np.log(2.0) <= found.upper * (1.0 + 1e-12)


@pytest.mark.parametrize("distance, seed", [(1e-4, 51), (1e-5, 59), (1e-6, 56), (1e-7, 67)])
def test_nearly_coinciding_data_end_in_an_honest_interval(distance, seed):
    """Rounding drives the programme's dual to zero; that once raised, and the state before it is as
    good as any."""
    rng = np.random.default_rng(seed)
    more, first = int(rng.integers(0, 4)), rng.normal(size=3)
    x = np.concatenate([[first, first + distance * rng.normal(size=3)], rng.normal(size=(more, 3))])
    y = np.concatenate([[1.0, -1.0], rng.choice([1.0, -1.0], size=more)])
    objective = Objective(FEATURES["relu"], RISKS["logistic"], x, y, weight_decay=1e-9)
    found = minimise(objective, BOTH)
    assert 0.0 < found.lower <= found.upper < np.log(2.0) and found.certified == (found.gap <= 1e-6)
    assert found.upper == pytest.approx(value_of(objective, found.atoms), rel=1e-9, abs=0)


def _drawn(n, seed):
    """One Gaussian input and a bias, labels by chance."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=(n, 1)), np.ones(n)])
    return Objective(FEATURES["relu"], RISKS["exponential"], x, rng.choice([-1.0, 1.0], n))


def test_a_path_of_the_exponential_risk_is_certified_to_its_end():
    """Values beyond numbers passed for an agreement of both bounds: F was between 1.5e-4 and 1 at
    the last λ but two, and above that of a larger λ."""
    objective = _drawn(20, 142)
    r = np.empty(20)
    objective.evaluate_risk(np.zeros(20), 0.0, r)
    most = local_maxima(objective.feature, objective.inputs, -r, BOTH).values[0]
    path = regularisation_path(objective, BOTH, most * 10.0 ** np.arange(0.2, -8.1, -0.5))
    assert all(m.certified for m in path)
    assert (np.diff([m.upper for m in path]) <= 0.0).all()


def test_data_of_very_different_sizes_and_weights_are_certified():
    """Steps went astray: F was between 2.3e-4 and 0.154 at the smaller λ, with no atom left."""
    x = np.array([[60.0], [-1.3e-4], [1.5e-2], [-0.27], [2.9e-5], [-1.8e-2]])
    y, q = [1.0, -1.0, -1.0, -1.0, 1.0, 1.0], [7.3e-5, 4.8e-5, 1.4e-6, 0.22, 1.2e-5, 6.4e-5]
    objective = Objective(FEATURES["relu"], RISKS["logistic"], x, y, q)
    for found in regularisation_path(objective, BOTH, 0.03 * np.array([0.1, 1e-2, 1e-4])):
        assert found.certified
        assert found.upper == pytest.approx(
            value_of(replace(objective, weight_decay=found.weight_decay), found.atoms), rel=1e-9
        )


@pytest.mark.parametrize("wrong", ["value", "slope"])
def test_a_wrong_conjugate_is_noticed(monkeypatch, wrong):
    right = regularised.CONJUGATES["logistic"]
    broken = replace(right, **{wrong: lambda b, y: 1.02 * getattr(right, wrong)(b, y)})
    assert isinstance(broken, Conjugate)
    monkeypatch.setitem(regularised.CONJUGATES, "logistic", broken)
    monkeypatch.setattr(regularised, "LOST", 1e9)  # damped steps need no slope, and mend it
    objective = problem(n=10, decay=1e-3)
    found = minimise(objective, BOTH)
    grid = lowest_on_grid(objective, circle_with_kinks(objective, 500))
    assert not found.certified or found.lower > grid + 1e-12


def test_a_column_that_is_missing_is_noticed(monkeypatch):
    """With the search broken so that the highest peak is left out of the programme, the gap stays
    open."""

    def blunt(*arguments):
        found = local_maxima(*arguments)
        return replace(
            found,
            points=found.points[-1:],
            signs=found.signs[-1:],
            values=np.minimum(found.values[-1:], 1.0),
        )

    monkeypatch.setattr(regularised, "local_maxima", blunt)
    assert not minimise(problem(decay=1e-3), BOTH).certified


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"risk": RISKS["smooth-margin"]}, "known for the risks square"),
        ({"weight_decay": 0.0}, "positive weight decay"),
        ({"weights": np.append(0.0, np.ones(19))}, "positive weight;"),
    ],
)
def test_what_has_no_certified_minimum_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        minimise(replace(problem(), **change), BOTH)


def test_the_minimum_of_a_sum_of_energies_is_refused():
    """The search asked for the gradient of a feature that has one."""
    pulled = hkflow.Sum(problem(), hkflow.External("x"))
    with pytest.raises(ValueError, match="of an hkflow.Objective alone, got a Sum"):
        minimise(pulled, BOTH)


@pytest.mark.parametrize("signs", [(), (0,), (2, -2), 1])
def test_signs_that_are_none_are_refused(signs):
    """Of signs (0,) the objective of ν = 0 was certified; others ended with numpy's words."""
    with pytest.raises(ValueError, match=r"signs must be \(1,\), \(-1,\) or \(1, -1\), got"):
        minimise(problem(), signs)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, np.nan])
def test_a_tolerance_that_is_none_is_refused(tolerance):
    with pytest.raises(ValueError, match="tolerance must be a finite number greater than 0"):
        minimise(problem(), BOTH, tolerance)


@pytest.mark.parametrize("other", [{"n": 8}, {"d": 2}])
def test_a_start_of_other_data_is_refused(other):
    with pytest.raises(ValueError, match="as many data and coordinates, 20 and 2, got one of"):
        minimise(problem(), BOTH, start=minimise(problem(**other), BOTH))


@pytest.mark.parametrize("risk", ["logistic", "square"])
def test_few_data_of_many_inputs_are_searched_in_their_span(risk, monkeypatch):
    """40 data of 3000 inputs took three minutes: all climbs were in 3000 coordinates."""
    rng = np.random.default_rng(0)
    few, targets = rng.normal(size=(5, 3)), np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    turn = np.linalg.qr(rng.normal(size=(60, 3)))[0]
    objective = Objective(FEATURES["relu"], RISKS[risk], few @ turn.T, targets, None, 1e-3)

    def searched(feature, inputs, *arguments):
        assert inputs.shape[1] <= 4
        return local_maxima(feature, inputs, *arguments)

    monkeypatch.setattr(regularised, "local_maxima", searched)
    found = minimise(objective, BOTH)
    alone = minimise(replace(objective, inputs=few), BOTH)
    assert found.gap <= 1e-6 and found.lower <= alone.upper and alone.lower <= found.upper
    assert found.atoms.positions.shape[1] == 60
    assert found.upper == pytest.approx(value_of(objective, found.atoms), rel=1e-11, abs=0)
    again = minimise(objective, BOTH, 1e-6, found)
    assert again.gap <= 1e-6 and again.upper == pytest.approx(found.upper, rel=2e-6, abs=0)


@pytest.mark.parametrize("feature, n, d", [("linear", 6, 8), ("linear", 6, 40), ("relu", 15, 30)])
def test_rounds_that_are_slow_at_first_are_not_taken_for_rounding(feature, n, d):
    """They ended where ten of them had not halved the gap, at 1e-3: planes that cut off the sphere
    need many until the gap falls."""
    rng = np.random.default_rng(1)
    inputs, targets = rng.normal(size=(n, d)), rng.normal(size=n)
    data = hkflow.with_bias(inputs), targets
    objective = Objective(FEATURES[feature], RISKS["square"], *data, weight_decay=1e-8)
    found = minimise(objective, BOTH)
    assert found.gap <= 1e-6 and found.certified == (feature == "linear")
