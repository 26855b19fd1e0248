"""The population risk against quadrature over Gaussian inputs, a slow NumPy twin, finite
differences and fresh samples."""

import tracemalloc

import numba
import numpy as np
import pytest
from scipy.integrate import quad

import hkflow
from hkflow import FEATURES
from hkflow.geometry.sphere import normalize
from hkflow.objectives import population
from hkflow.objectives.population import PopulationRisk, arc_cosine
from hkflow.operators.dense import blocked, unblocked

NAMES = {1: "relu", 2: "squared-relu"}
DEGREES = tuple(NAMES)


def a_risk(rng, degree, p, units=4, weight_decay=0.3):
    return PopulationRisk(
        FEATURES[NAMES[degree]], rng.normal(size=(units, p)), rng.normal(size=units), weight_decay
    )


# --- the slow twin: the formulas as printed, by arccos, on matrices


def kernel(n, t, three=3.0):
    """k_n(t) and k_n'(t) as Cho & Saul print them; `three` is there to be swapped."""
    t = np.clip(t, -1.0, 1.0)
    w = np.arccos(t)
    s = np.sqrt((1.0 - t) * (1.0 + t))
    relu = (s + (np.pi - w) * t) / (2.0 * np.pi)
    if n == 1:
        return relu, (np.pi - w) / (2.0 * np.pi)
    return (three * s * t + (np.pi - w) * (1.0 + 2.0 * t * t)) / (2.0 * np.pi), 4.0 * relu


def twin(risk, points, weights, kernel=kernel):
    """F without weight decay, slopes and gradients for signed weights at points of any length."""
    n = risk.feature.degree
    sources = np.concatenate([points, risk.teacher])
    masses = np.concatenate([weights, -risk.teacher_weights])
    length, units = np.linalg.norm(sources, axis=1), normalize(sources)
    t = units @ units.T
    k, derivative = kernel(n, t)
    K = length[:, None] ** n * k * length**n
    pull = length[:, None, None] ** (n - 1) * (length**n)[:, None]
    pull = pull * (
        n * k[..., None] * units[:, None]
        + derivative[..., None] * (units[None] - t[..., None] * units[:, None])
    )
    m = len(points)
    return 0.5 * masses @ K @ masses, (K @ masses)[:m], np.einsum("cja,j->ca", pull, masses)[:m]


def sizes(risk, points, weights):
    """How large the sums of the twin could be: what rounding errors are measured by."""
    n, length = risk.feature.degree, np.linalg.norm(points, axis=1)
    mass = np.abs(weights) @ length**n + np.abs(risk.teacher_weights).sum()
    return 1.5 * mass**2, 1.5 * length**n * mass, 3.0 * (length ** (n - 1) * mass)[:, None]


# --- the kernels


def gaussian_expectation(n, angle):
    """E (θ·x)₊ⁿ (θ'·x)₊ⁿ over x ~ N(0, I_2) by Gauss–Legendre in radius and angle, where both units
    are active."""
    node, weight = np.polynomial.legendre.leggauss(80)
    r, dr = 8.0 * (node + 1.0), 8.0 * weight
    half = 0.5 * (np.pi - angle)  # active for directions between angle − π/2 and π/2
    a, da = 0.5 * angle + half * node, half * weight
    radial = dr * r * np.exp(-0.5 * r * r) / (2.0 * np.pi)
    product = (r[:, None] * np.cos(a)) ** n * (r[:, None] * np.cos(a - angle)) ** n
    return float(radial @ product @ da)


def spherical_expectation(n, angle):
    """The same over N(0, I_3): E r²ⁿ = 3 or 15 times integrals over polar angle and longitude of
    the uniform direction."""
    longitude = quad(
        lambda a: (np.cos(a) * np.cos(a - angle)) ** n, angle - np.pi / 2, np.pi / 2, epsabs=1e-13
    )[0]
    polar = quad(lambda b: np.sin(b) ** (2 * n + 1), 0.0, np.pi, epsabs=1e-13)[0]
    return (1.0, 3.0, 15.0)[n] * polar * longitude / (4.0 * np.pi)


ANGLES = np.concatenate(
    [np.linspace(0.0, np.pi, 25), [1e-9, 1e-6, 1e-3, np.pi - 1e-3, np.pi - 1e-6]]
)


def worst_error(n, k):
    angles = np.arccos(np.cos(ANGLES))  # those of the rounded cosines
    return max(
        abs(k(n, np.cos(w)) - expectation(n, w)) for w in angles for expectation in EXPECTATIONS
    )


EXPECTATIONS = (gaussian_expectation, spherical_expectation)


@pytest.mark.parametrize("n", (0, 1, 2))
def test_kernel_is_the_expectation_over_gaussian_inputs(n, monkeypatch):
    assert worst_error(n, arc_cosine) <= 1e-13
    monkeypatch.setattr(population, f"P{n}", tuple(1.001 * c for c in getattr(population, f"P{n}")))
    assert worst_error(n, arc_cosine.py_func) >= 1e-5  # it can fail


@pytest.mark.parametrize("three", (2.0, 4.0, np.pi))
def test_a_swapped_constant_is_seen(three):
    assert worst_error(2, lambda n, t: kernel(n, t)[0]) <= 1e-13
    assert worst_error(2, lambda n, t: kernel(n, t, three)[0]) >= 1e-3


@pytest.mark.parametrize("n", (0, 1, 2))
def test_kernel_is_exact_at_every_scale_of_the_angle(n):
    small = np.logspace(-12, np.log10(0.5 * np.pi), 400)
    near = np.array([arc_cosine(n, t) for t in np.cos(small)])
    far = np.array([arc_cosine(n, t) for t in -np.cos(small)])
    w = np.arccos(np.cos(small))  # the angle of the rounded cosine
    s, c = np.sin(w), np.cos(w)
    wanted = [w, s - w * c, w * (1.0 + 2.0 * c * c) - 3.0 * s * c][n] / (2.0 * np.pi)
    assert np.abs(near - (0.5, 0.5 * c, 0.5 + c * c)[n] + (-1) ** n * wanted).max() <= 1e-15
    assert np.abs(far - wanted).max() <= 1e-15
    # relative too, where the printed form cancels
    series = [w, w**3 / 3.0, 4.0 * w**5 / 15.0][n] / (2.0 * np.pi)
    tiny = (w > 1e-7) & (w < 1e-4)
    assert far[tiny] == pytest.approx(series[tiny], rel=1e-7, abs=0.0)


def test_kernel_takes_cosines_beyond_one_and_hands_nan_on():
    assert [arc_cosine(n, 1.0 + 4e-16) for n in range(3)] == pytest.approx(
        [0.5, 0.5, 1.5], rel=2e-15, abs=0.0
    )
    assert [arc_cosine(n, -1.0 - 4e-16) for n in range(3)] == [0.0, 0.0, 0.0]
    assert np.isnan([arc_cosine(n, np.nan) for n in range(3)]).all()


# --- the sums

SHAPES = [(1, 2), (2, 3), (17, 2), (40, 3), (333, 5), (1500, 3), (520, 41)]


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("shape", SHAPES)
def test_fixed_points_agree_with_numpy(degree, shape, rng):
    risk = a_risk(rng, degree, shape[1])
    for points in (rng.normal(size=shape), normalize(rng.normal(size=shape))):
        on = risk.at_fixed_points(points, (1, -1))
        for _ in range(2):  # the second time with other weights
            weights = rng.random((2, len(points)))
            value, signed = on.evaluate(weights), weights[0] - weights[1]
            F, slopes, _ = twin(risk, points, signed)
            F_size, slope_size, _ = sizes(risk, points, signed)
            assert abs(value - F - 0.3 * weights.sum()) <= 1e-13 * (F_size + weights.sum())
            assert np.all(
                np.abs(on.potential - 0.3 - np.array([slopes, -slopes]))
                <= 1e-13 * (1.0 + slope_size)
            )


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("shape", SHAPES)
def test_moving_points_of_any_length_agree_with_numpy(degree, shape, rng):
    risk = a_risk(rng, degree, shape[1])
    moving = risk.at_moving_points(rng.normal(size=shape))
    assert np.array_equal(moving.operator.points.shape, blocked(np.zeros(shape)).shape)
    for scale in (1.0, 1e3):
        points, weights = scale * rng.normal(size=shape), rng.normal(size=shape[0])
        points[-1] = -0.5 * points[0]  # antipodal, and the same point twice
        points[len(points) // 2] = 2.0 * points[0]
        moving.operator.points[:] = blocked(points, moving.operator.points.shape[2])
        value = moving.evaluate(weights)
        wanted, size = twin(risk, points, weights), sizes(risk, points, weights)
        found = value, moving.slopes, unblocked(moving.gradient, len(points))
        assert all(
            np.all(np.abs(a - b) <= 1e-13 * c) for a, b, c in zip(found, wanted, size, strict=True)
        )
        # zero on the padding
        assert np.array_equal(moving.gradient, blocked(found[2], moving.gradient.shape[2]))


@pytest.mark.parametrize("degree", DEGREES)
def test_agreement_with_numpy_can_fail(degree, rng):
    risk, points, weights = a_risk(rng, degree, 3), rng.normal(size=(40, 3)), rng.normal(size=40)
    moving = risk.at_moving_points(points)
    found = moving.evaluate(weights), moving.slopes, unblocked(moving.gradient, 40)
    off = twin(risk, points, weights, lambda n, t: [(1.0 + 1e-11) * k for k in kernel(n, t)])
    size = sizes(risk, points, weights)
    assert all(np.any(np.abs(a - b) > 1e-13 * c) for a, b, c in zip(found, off, size, strict=True))


@pytest.mark.parametrize("degree", DEGREES)
def test_a_point_without_length_feels_nothing(degree, rng):
    risk, points, weights = a_risk(rng, degree, 3), rng.normal(size=(5, 3)), rng.normal(size=5)
    without = risk.at_moving_points(points[1:])
    value = without.evaluate(weights[1:])
    points[0] = 0.0
    moving = risk.at_moving_points(points)
    assert moving.evaluate(weights) == pytest.approx(value, rel=1e-14, abs=0.0)
    assert moving.slopes[0] == 0.0 and not unblocked(moving.gradient, 5)[0].any()
    assert moving.slopes[1:] == pytest.approx(without.slopes, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("cells", (3, 4, 101, 256, 1000))
@pytest.mark.parametrize("turn", (1.0, -1.0))
def test_fft_on_the_circle_equals_the_sum_over_all_pairs(degree, cells, turn, rng):
    risk, angle = a_risk(rng, degree, 2), turn * (2.0 * np.pi * np.arange(cells) / cells + 0.3)
    points, weights = np.column_stack([np.cos(angle), np.sin(angle)]), rng.random((1, cells))
    fast, slow = risk.at_fixed_points(points), risk.at_fixed_points(points)
    assert fast.spectrum is not None
    slow.spectrum = None
    F = slow.evaluate(weights)
    largest = np.abs(slow.potential).max()
    assert fast.evaluate(weights) == pytest.approx(F, rel=1e-13, abs=1e-13)
    assert np.abs(fast.potential - slow.potential).max() <= 1e-13 * largest
    fast.spectrum = (1.0 + 1e-10) * fast.spectrum
    assert fast.evaluate(weights) != pytest.approx(F, rel=1e-13, abs=1e-13)  # it can fail
    assert np.abs(fast.potential - slow.potential).max() > 1e-13 * largest


def test_fft_is_for_equally_spaced_points_only(rng):
    risk, mesh = a_risk(rng, 1, 2), hkflow.circle_mesh(100_000)
    assert risk.at_fixed_points(mesh.centers).spectrum is not None
    points = hkflow.circle_mesh(50).centers.copy()
    assert (
        risk.at_fixed_points(points[::-1]).spectrum is not None
        and risk.at_fixed_points(2.0 * points).spectrum is not None
    )
    assert (
        risk.at_fixed_points(points[:49]).spectrum is None
        and risk.at_fixed_points(points[:2]).spectrum is None
    )
    assert (
        risk.at_fixed_points(points[rng.permutation(50)]).spectrum is None
        and risk.at_fixed_points(points[::3]).spectrum is None
    )
    points[7] = normalize(points[7] + 1e-12)
    assert risk.at_fixed_points(points).spectrum is None
    assert a_risk(rng, 1, 3).at_fixed_points(hkflow.geodesic_mesh(0).centers).spectrum is None


def test_results_do_not_depend_on_the_number_of_threads(rng):
    risk, points, weights, results = (
        a_risk(rng, 1, 3),
        rng.normal(size=(3000, 3)),
        rng.normal(size=3000),
        [],
    )
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        previous = numba.get_num_threads()
        numba.set_num_threads(threads)
        moving, on = risk.at_moving_points(points), risk.at_fixed_points(points)
        values = moving.evaluate(weights), on.evaluate(np.abs(weights)[None])
        results.append((values, moving.slopes, moving.gradient, on.potential))
        numba.set_num_threads(previous)
    assert all(np.array_equal(one, two) for one, two in zip(*results, strict=True))


def test_evaluation_allocates_no_array(rng):
    risk, n = a_risk(rng, 2, 3), 5_000
    on, moving, weights = (
        risk.at_fixed_points(rng.normal(size=(n, 3))),
        risk.at_moving_points(rng.normal(size=(n, 3))),
        rng.random(n),
    )
    for evaluate in (lambda: on.evaluate(weights[None]), lambda: moving.evaluate(weights)):
        evaluate()
        tracemalloc.start()
        evaluate()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * n


# --- identities


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("signs", [(1,), (1, -1)])
@pytest.mark.parametrize("mesh", ["circle", "sphere"])
def test_potential_is_the_derivative_of_the_value(degree, signs, mesh, rng):
    mesh = hkflow.circle_mesh(60) if mesh == "circle" else hkflow.geodesic_mesh(1)
    on = a_risk(rng, degree, mesh.dim + 1).at_fixed_points(mesh.centers, signs)
    weights, direction = (rng.random((len(signs), mesh.n_cells)) for _ in range(2))
    on.evaluate(weights)
    slope = (on.potential * direction).sum()
    # F is quadratic
    difference = 0.5 * (on.evaluate(weights + direction) - on.evaluate(weights - direction))
    assert difference == pytest.approx(slope, rel=1e-12, abs=1e-12)
    on.evaluate(1.0001 * weights)
    assert (on.potential * direction).sum() != pytest.approx(difference, rel=1e-12, abs=1e-12)


def richardson(f, h):
    one, two = ((f(k * h) - f(-k * h)) / (2.0 * k * h) for k in (1, 2))
    return (4.0 * one - two) / 3.0


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("length", (0.1, 1.0, 7.0))
def test_gradient_is_the_derivative_of_slopes_and_of_the_value(degree, length, rng):
    risk, points = a_risk(rng, degree, 3), length * rng.normal(size=(9, 3))
    weights, direction = rng.normal(size=9), length * rng.normal(size=(9, 3))
    # probes without weight leave ν as it is
    for still, found in ((True, "slopes"), (False, "value")):
        weights[5:] *= 0.0 if still else 1.0
        moving = risk.at_moving_points(points)

        def at(h, moving=moving, still=still):
            moved = points + h * direction * ((np.arange(9) >= 5) | (not still))[:, None]
            moving.operator.points[:] = blocked(moved, moving.operator.points.shape[2])
            value = moving.evaluate(weights)
            return moving.slopes[5:].copy() if still else value

        at(0.0)
        slope = (unblocked(moving.gradient, 9) * direction).sum(axis=1)
        wanted = slope[5:] if still else weights @ slope
        difference = richardson(at, 1e-3)
        scale = np.abs(slope).max()
        assert difference == pytest.approx(wanted, rel=1e-8, abs=1e-8 * scale), found
        assert difference != pytest.approx(1.00001 * wanted, rel=1e-8, abs=1e-8 * scale)


@pytest.mark.parametrize("degree", DEGREES)
def test_log_scale_is_the_logarithm_of_a_factor_of_the_measure(degree, rng):
    risk, points, weights = (
        a_risk(rng, degree, 3),
        normalize(rng.normal(size=(50, 3))),
        rng.random((2, 50)),
    )
    one, two, factor = (
        risk.at_fixed_points(points, (1, -1)),
        risk.at_fixed_points(points, (1, -1)),
        np.exp(5.0),
    )
    assert one.evaluate(factor * weights) == pytest.approx(
        factor * two.evaluate(weights, 5.0), rel=1e-13, abs=0.0
    )
    assert one.potential == pytest.approx(two.potential, rel=1e-12, abs=1e-12)
    one, two = risk.at_moving_points(points), risk.at_moving_points(points)
    assert one.evaluate(factor * weights[0]) == pytest.approx(
        factor * two.evaluate(weights[0], 5.0), rel=1e-13, abs=0.0
    )
    assert one.slopes == pytest.approx(two.slopes, rel=1e-12, abs=1e-12)
    assert one.gradient == pytest.approx(two.gradient, rel=1e-12, abs=1e-12)
    on = risk.at_fixed_points(points, (1, -1))
    assert (
        np.isfinite([on.evaluate(weights, L) for L in (-300.0, 300.0)]).all()
        and np.isfinite(on.potential).all()
    )


@pytest.mark.parametrize("degree", DEGREES)
def test_fixed_and_moving_points_agree(degree, rng):
    risk, points, weights = a_risk(rng, degree, 4), rng.normal(size=(70, 4)), rng.random((1, 70))
    on, moving = risk.at_fixed_points(points), risk.at_moving_points(points)
    wanted = on.evaluate(weights, 0.7) - 0.3 * weights.sum()
    assert moving.evaluate(weights[0], 0.7) == pytest.approx(wanted, rel=1e-12, abs=0.0)
    assert moving.slopes == pytest.approx(on.potential[0] - 0.3, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("degree", DEGREES)
def test_the_teacher_itself_has_no_risk(degree, rng):
    units, weights = rng.normal(size=(30, 3)), rng.normal(size=30)
    risk = PopulationRisk(FEATURES[NAMES[degree]], units, weights, 0.3)
    assert np.linalg.norm(risk.teacher, axis=1) == pytest.approx(np.ones(30), rel=1e-15, abs=0.0)
    both = np.maximum([weights, -weights], 0.0)
    on, moving = risk.at_fixed_points(units, (1, -1)), risk.at_moving_points(units)
    value, mass = on.evaluate(both) - 0.3 * both.sum(), np.abs(risk.teacher_weights).sum()
    bound = risk.rounding(0.0, on.loss_gradient, mass)
    assert (
        0.0 < bound < 1e-11 * mass**2
        and abs(value) <= bound
        and abs(moving.evaluate(weights)) <= bound
    )
    tolerance = 1e-14 * mass * np.linalg.norm(units, axis=1) ** degree
    assert np.all(np.abs(on.potential - 0.3) <= tolerance) and np.all(
        np.abs(moving.slopes) <= tolerance
    )
    both[0, 0] += 1e-5
    assert on.evaluate(both) - 0.3 * both.sum() > bound  # it can fail


# --- fresh samples


@pytest.mark.parametrize("degree", DEGREES)
def test_fresh_samples_have_the_risk_as_their_expectation(degree, rng):
    risk, hidden, output = a_risk(rng, degree, 3), rng.normal(size=(5, 3)), rng.normal(size=5)
    losses = []
    for _ in range(10):
        inputs, targets = risk.draw(rng, 100_000)
        losses.append(0.5 * (risk.feature.matrix(hidden, inputs) @ output - targets) ** 2)
    losses, F = np.concatenate(losses), risk.at_moving_points(hidden).evaluate(output)
    error = losses.std() / np.sqrt(len(losses))
    assert inputs.shape == (100_000, 3) and targets.shape == (100_000,)
    assert abs(losses.mean() - F) <= 4.0 * error
    swapped = [
        twin(risk, hidden, output, lambda n, t, f=f: [f * k for k in kernel(n, t)])[0]
        for f in (0.97, 1.03, 2.0)
    ]
    assert np.all(np.abs(losses.mean() - swapped) > 4.0 * error)  # it can fail


def test_the_same_seed_draws_the_same_bits(rng):
    risk = a_risk(rng, 1, 3)
    one, two, other = (risk.draw(np.random.default_rng(seed), 10)[0] for seed in (3, 3, 4))
    assert np.array_equal(one, two) and not np.array_equal(one, other)


# --- what methods ask of an objective


def test_it_looks_like_an_objective_without_data(rng):
    risk, weights = a_risk(rng, 2, 5), rng.random((1, 6))
    assert (
        risk.inputs.shape == (0, 5)
        and risk.targets.shape == risk.weights.shape == (0,)
        and not risk.risk.classifies
    )
    on, moving = (
        risk.at_fixed_points(rng.normal(size=(6, 5))),
        risk.at_moving_points(rng.normal(size=(6, 5))),
    )
    assert all(
        len(a) == 0
        for a in (on.predictions, on.loss_gradient, moving.predictions, moving.loss_gradient)
    )
    assert np.isnan(
        [
            risk.error(on.predictions),
            risk.margin(on.predictions),
            risk.smooth_margin(on.predictions),
        ]
    ).all()
    assert risk.largest_feature == pytest.approx(np.sqrt(1.5), rel=1e-15)
    F, J = on.evaluate(weights, 0.5), on.potential.copy()
    assert on.value(weights, 0.5) == F and moving.value(weights[0], 0.5) == moving.evaluate(
        weights[0], 0.5
    )
    on.drive(on.loss_gradient)
    assert np.array_equal(on.potential, J)


def test_rounding_is_in_units_of_the_scale(rng):
    risk, factor = a_risk(rng, 1, 2), np.exp(3.0)
    true = risk.rounding(7.0, np.zeros(0), 2.0)
    assert risk.rounding(7.0 / factor, np.zeros(0), 2.0 / factor, 3.0) == pytest.approx(
        true / factor, rel=1e-14, abs=0.0
    )


def test_nan_is_never_hidden(rng):
    risk, points, weights = a_risk(rng, 1, 3), rng.normal(size=(20, 3)), rng.random(20)
    on, moving = risk.at_fixed_points(points), risk.at_moving_points(points)
    weights[3] = np.nan
    assert (
        np.isnan(on.evaluate(weights[None]))
        and np.isnan(on.potential).all()
        and np.isnan(moving.evaluate(weights))
    )
    weights[3], moving.operator.points[0, 0, 3] = 1.0, np.nan
    assert np.isnan(moving.evaluate(weights)) and np.isnan(moving.slopes).all()


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"feature": FEATURES["linear"]},
            "Unknown feature of a population risk 'linear'.*relu, squared-relu",
        ),
        ({"teacher_weights": [1.0]}, r"must be \(m\*, p\)"),
        ({"teacher": [1.0, 0.0]}, r"must be \(m\*, p\)"),
        ({"teacher": np.zeros((0, 2)), "teacher_weights": []}, r"must be \(m\*, p\)"),
        ({"teacher": [[0.0, 0.0], [1.0, 0.0]]}, "not zero"),
        ({"teacher": [[np.nan, 0.0], [1.0, 0.0]]}, "finite"),
        ({"teacher_weights": [np.inf, 0.0]}, "finite"),
        ({"weight_decay": -1.0}, "at least 0"),
        ({"weight_decay": np.nan}, "at least 0"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    good = {"feature": FEATURES["relu"], "teacher": np.eye(2), "teacher_weights": [1.0, 2.0]}
    PopulationRisk(**good)
    with pytest.raises(ValueError, match=message):
        PopulationRisk(**(good | change))


def test_points_of_another_space_are_refused(rng):
    risk = a_risk(rng, 1, 3)
    for make in (risk.at_fixed_points, risk.at_moving_points):
        with pytest.raises(ValueError, match=r"R\^3, the points in R\^4"):
            make(np.ones((2, 4)))
