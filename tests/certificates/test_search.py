"""The exact search for the highest points of Σ c_i φ(·, x_i), against brute force that knows
nothing of circles and walks."""

from dataclasses import replace

import numpy as np
import pytest
from brute_force import exact_highest, explicit_candidates
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy.optimize import minimize, minimize_scalar

import hkflow
from hkflow.certificates import search
from hkflow.certificates.search import local_maxima
from hkflow.geometry.sphere import normalize

RELU, SQUARED, LINEAR, JOINT = (
    hkflow.FEATURES[name] for name in ("relu", "squared-relu", "linear", "joint-relu")
)
KINDS = [RELU, SQUARED]
DENSE = hkflow.quasi_uniform(20_000, 2)
TOLERANCE = 1e-10  # of Σ |c_i| |x_i|^degree


def value(feature, x, c, points):
    """G at points (k, p)."""
    return c @ feature.matrix(np.atleast_2d(points), x)


def size(feature, x, c):
    return np.abs(c) @ np.linalg.norm(x, axis=1) ** feature.degree + 1e-300


def on_circle(angles):
    return np.column_stack([np.cos(angles), np.sin(angles)])


# --- brute force


def circle_maxima(feature, x, c):
    """All strict local maxima of G on the circle, angles and values, and the largest value: between
    kinks G is smooth."""
    rows = x[x.any(axis=1)]
    kinks = np.arctan2(rows[:, 1], rows[:, 0])[:, None] + [0.5 * np.pi, -0.5 * np.pi]
    kinks = np.sort(kinks.ravel() % (2.0 * np.pi))
    kinks = kinks[np.diff(kinks, prepend=kinks[-1] - 2.0 * np.pi) > 1e-9]

    def G(angle):
        return value(feature, x, c, on_circle(np.atleast_1d(angle)))

    found = list(kinks)
    for left, right in zip(kinks, np.append(kinks[1:], kinks[0] + 2.0 * np.pi), strict=True):
        grid = np.linspace(left, right, 41)
        k = np.clip(np.argmax(G(grid)), 1, 39)
        best = minimize_scalar(
            lambda t: -G(t)[0],
            bounds=(grid[k - 1], grid[k + 1]),
            method="bounded",
            options={"xatol": 1e-11},
        )
        found.append(best.x)
    found = np.array(found)
    values, steps = G(found), [1e-3, 1e-4]
    sides = np.array([G(found + sign * h) for h in steps for sign in (1.0, -1.0)])
    strict = (values > sides + 1e-9 * size(feature, x, c)).all(axis=0)
    return (
        found[strict],
        values[strict],
        max(values.max(), G(np.linspace(0.0, 2.0 * np.pi, 4001)).max()),
    )


def candidates(x):
    """Dense points of S², of all circles and their crossings."""
    return np.concatenate([DENSE, explicit_candidates(x, 201)])


def refined(feature, x, c, start):
    """A local maximum of G next to `start`: squared ReLU is smooth, ReLU is linear on the cone of
    its active data."""
    if feature is SQUARED:

        def negative(v):
            length = np.linalg.norm(v)
            t = v / length
            s = np.maximum(x @ t, 0.0)
            gradient = 2.0 * (c * s) @ x
            return -c @ s**2, -(gradient - (gradient @ t) * t) / length

        return normalize(
            minimize(negative, start, jac=True, method="BFGS", options={"gtol": 1e-11}).x
        )
    on = np.where(x @ start > 0.0, 1.0, -1.0)
    A, cone = (c * (on > 0.0)) @ x, on[:, None] * x
    if not A.any():
        return start
    found = minimize(
        lambda v: -(A @ v),
        start,
        jac=lambda v: -A,
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda v: 1.0 - v @ v, "jac": lambda v: -2.0 * v},
            {"type": "ineq", "fun": lambda v: cone @ v, "jac": lambda v: cone},
        ],
        options={"ftol": 1e-15, "maxiter": 100},
    ).x
    return normalize(found) if np.linalg.norm(found) > 0.1 else start


def sphere_highest(feature, x, c, tries=8):
    """The largest value on S² that dense points and scipy from the best of them, each of another
    region, find."""
    points = candidates(x)
    values = value(feature, x, c, points)
    best, seen = values.max(), set()
    for k in np.argsort(-values):
        region = (x @ points[k] > 0.0).tobytes()
        if region not in seen:
            seen.add(region)
            best = max(best, value(feature, x, c, refined(feature, x, c, points[k]))[0])
        if len(seen) == tries:
            break
    return best


def highest(feature, x, c):
    return circle_maxima(feature, x, c)[2] if x.shape[1] == 2 else sphere_highest(feature, x, c)


def is_strict_maximum(feature, x, c, point, rng, strict=True):
    """Whether G is smaller at 200 random points at each of three small distances."""
    around = normalize(
        point
        + np.concatenate(
            [r * normalize(rng.normal(size=(200, len(point)))) for r in (1e-2, 1e-3, 1e-4)]
        )
    )
    away = np.linalg.norm(around - point, axis=1)
    top, near = value(feature, x, c, point)[0], value(feature, x, c, around)
    if strict:
        return (near < top - 1e-9 * size(feature, x, c) * (away > 5e-4)).all()
    return near[away < 2e-4].max() <= top + 1e-12 * size(feature, x, c)


def check(feature, x, c, signs=(1,)):
    """peaks against brute force, values against G."""
    found = local_maxima(feature, x, c, signs)
    wanted = max(highest(feature, x, sign * c) for sign in signs)
    scale = size(feature, x, c)
    assert found.certified and np.linalg.norm(found.points, axis=1) == pytest.approx(1.0, rel=1e-12)
    at = [
        sign * value(feature, x, c, point)[0]
        for point, sign in zip(found.points, found.signs, strict=True)
    ]
    assert found.values == pytest.approx(at, rel=1e-12, abs=1e-14 * scale)
    assert found.bound >= wanted - 1e-14 * scale, (found.bound, wanted)
    assert found.values[0] >= wanted - 1e-11 * scale, (found.values[0], wanted)
    assert found.values[0] <= wanted + TOLERANCE * scale, (found.values[0], wanted)
    assert found.values[0] <= found.bound <= found.values[0] + TOLERANCE * scale
    return found


COEFFICIENTS = {
    "both": lambda rng, n: rng.normal(size=n),
    "negative": lambda rng, n: -rng.uniform(0.1, 1.0, n),
}
COEFFICIENTS |= {"positive": lambda rng, n: rng.uniform(0.1, 1.0, n)}


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("feature", KINDS, ids=lambda f: f.name)
@pytest.mark.parametrize("kind", COEFFICIENTS)
def test_the_highest_point_is_that_of_brute_force(feature, axes, kind, rng):
    for n in (2, 3, 5, 9, 17):
        check(
            feature,
            rng.normal(size=(n, axes)),
            COEFFICIENTS[kind](rng, n),
            (1, -1) if n % 2 else (1,),
        )


def ring(n):
    angles = 2.0 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angles), np.sin(angles), 0.0 * angles])


def special(name, rng):
    """Degenerate data in R³."""
    x, e = rng.normal(size=(5, 3)), np.array([0.3, -0.5, 0.8])
    plane = np.linalg.qr(rng.normal(size=(3, 2)))[0]
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return {
        "duplicates": np.concatenate([x, x[:3], 2.0 * x[:1]]),
        "antipodal": np.concatenate([x, -x, -0.5 * x[:2]]),
        "zero rows": np.concatenate([x, np.zeros((2, 3))]),
        "parallel": np.outer([1.0, 2.0, -1.0, 0.3], e),
        "parallel to an axis": np.outer([1.0, 2.0, -1.0, 0.3], [0.0, 0.0, 1.0]),
        "one": x[:1],
        "opposite": np.array([e, -e]),
        "in a plane": rng.normal(size=(6, 2)) @ plane.T,
        "axes": np.concatenate([np.eye(3), -np.eye(3)]),
        "three through one point": np.concatenate(
            [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]], x[:2]]
        ),
        "nearly parallel": np.concatenate([x, x + 1e-9 * rng.normal(size=x.shape)]),
        "of all sizes": x * 10.0 ** rng.uniform(-6.0, 3.0, size=(5, 1)),
        "with a bias": np.column_stack([x[:, :2], np.ones(5)]),
        "an even ring": ring(8) @ rotation.T,
        "an odd ring": ring(7) @ rotation.T,
    }[name]


SPECIAL = [
    "duplicates", "antipodal", "zero rows", "parallel", "parallel to an axis", "one", "opposite",
    "in a plane", "axes", "three through one point", "nearly parallel", "of all sizes",
    "with a bias", "an even ring", "an odd ring",
]  # fmt: skip


@pytest.mark.parametrize("feature", KINDS, ids=lambda f: f.name)
@pytest.mark.parametrize("name", SPECIAL)
def test_degenerate_data_on_the_sphere(feature, name, rng):
    x = special(name, rng)
    for draw in (*COEFFICIENTS.values(), lambda rng, n: np.ones(n), lambda rng, n: -np.ones(n)):
        check(feature, x, draw(rng, len(x)))


@pytest.mark.parametrize("feature", KINDS, ids=lambda f: f.name)
@pytest.mark.parametrize("name", SPECIAL)
def test_degenerate_data_on_the_circle(feature, name, rng):
    x = np.ascontiguousarray(
        special(name, rng)[:, 1:] if "ring" not in name else ring(8 if "even" in name else 7)[:, :2]
    )
    for draw in (*COEFFICIENTS.values(), lambda rng, n: np.ones(n), lambda rng, n: -np.ones(n)):
        check(feature, x, draw(rng, len(x)))


def test_a_whole_circle_of_highest_points_is_not_missed(rng):
    """Antipodal pairs spread evenly in a plane: G = N/4 all around it, so that no region has a
    highest point of its own."""
    for _ in range(100):
        n = 2 * int(rng.integers(3, 9))
        x = ring(n) @ np.linalg.qr(rng.normal(size=(3, 3)))[0].T
        found = local_maxima(SQUARED, x, np.ones(n))
        assert found.values[0] == pytest.approx(n / 4.0, rel=1e-12) and found.bound >= n / 4.0 * (
            1.0 - 1e-15
        )


@pytest.mark.parametrize("feature", KINDS, ids=lambda f: f.name)
def test_data_without_weight_hide_nothing(feature, rng):
    """The highest point may lie in a region that no circle with a weight touches: circles without
    one must not count."""
    for n in (2, 4, 10):
        x, c = rng.normal(size=(n, 3)), np.zeros(n)
        c[-1] = 1.0
        assert check(feature, x, c).points[0] == pytest.approx(normalize(x[-1]), abs=1e-7)
        c[: n // 2] = rng.normal(size=n // 2)
        check(feature, x, c, (1, -1))
        one, two = (
            local_maxima(feature, *data, (1, -1), 0.3)
            for data in ((x, c), (np.ascontiguousarray(x[c != 0.0]), c[c != 0.0]))
        )
        assert one.values == pytest.approx(two.values, rel=1e-12)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    axes=st.integers(2, 3),
    squared=st.booleans(),
    grid=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_no_point_is_higher_than_the_bound(seed, n, axes, squared, grid):
    """Data on a coarse lattice are full of duplicates, coplanar triples and zeros."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, size=(n, axes)).astype(float) if grid else rng.normal(size=(n, axes))
    c = rng.integers(-2, 3, size=n).astype(float) if grid else rng.normal(size=n)
    feature = KINDS[squared]
    points = (
        (candidates(x) if x.any() else DENSE)
        if axes == 3
        else on_circle(np.linspace(0.0, 2.0 * np.pi, 2001))
    )
    assert local_maxima(feature, x, c).bound >= value(feature, x, c, points).max() - 1e-14 * size(
        feature, x, c
    )


# --- nearly coinciding circles, in exact arithmetic


def nearly_coinciding(rng):
    """Two to five data around one or two lines, up to scale and sign, 1e-16 … 1e-2 apart, and
    coefficients that cancel."""
    distance, n = 10.0 ** rng.uniform(-16.0, -2.0), int(rng.integers(2, 5))
    lines = rng.normal(size=(int(rng.integers(1, 3)), 3))
    x = lines[rng.integers(0, len(lines), size=n)] * rng.choice(
        [1.0, 1.0, -1.0, 3.0, -1.0 / 3.0], size=(n, 1)
    )
    x = np.concatenate(
        [x + distance * rng.normal(size=(n, 3)), rng.normal(size=(int(rng.integers(0, 2)), 3))]
    )
    c = rng.choice([1.0, -1.0], size=len(x)) + (rng.random() < 0.5) * distance * rng.normal(
        size=len(x)
    )
    return x, c / (np.linalg.norm(x, axis=1) if rng.random() < 0.5 else 1.0)


def check_exactly(x, c):
    """The bound holds, and the value is the maximum, to 1e-14 of Σ |c_i x_i|: 30 times what
    rounding was seen to hide."""
    found, highest, scale = local_maxima(RELU, x, c), exact_highest(x, c), size(RELU, x, c)
    assert found.bound >= highest, (x, c)
    assert max(found.values[0], 0.0) == pytest.approx(highest, rel=0, abs=1e-14 * scale), (x, c)
    assert np.linalg.norm(found.points, axis=1) == pytest.approx(1.0, rel=0, abs=1e-15)
    return found


def test_nearly_coinciding_circles_hide_nothing(rng):
    for _ in range(200):
        check_exactly(*nearly_coinciding(rng))


def test_two_inputs_that_nearly_coincide():
    """The highest point of c (x₁ − x₂) between their circles, which was once missed by a tenth, and
    a unit vector only nearly."""
    x = [
        [-0.3822307459674883, 1.4300765340274333, 1.285720440933214],
        [-0.38223075295189707, 1.4300765401849924, 1.285720454722719],
    ]
    c = np.array([0.7619742028952091, -0.7619742028952092])
    assert check_exactly(np.array(x), c).values[0] == pytest.approx(5.64993535e-9, rel=1e-6)


def test_exact_arithmetic_sees_data_that_are_slightly_moved(rng, monkeypatch):
    """By 1e-10 only; the walk then meets the maxima of other data."""
    honest = search._arrangement

    def moved(same):
        arrangement = honest(same)
        return replace(arrangement, x=arrangement.x + 1e-10 * np.sin(1e3 * arrangement.x))

    monkeypatch.setattr(search, "_arrangement", moved)
    with pytest.raises(AssertionError):
        for _ in range(100):
            check_exactly(*nearly_coinciding(rng))


def test_relu_compiles_no_eigenvectors():
    top = njit(search._top.py_func)
    for squared in (None, True):
        assert top(np.eye(3), squared, 3, 0.5, np.zeros(3))
    relu, other = (top.inspect_llvm(signature) for signature in top.signatures)
    assert ("evd" in other) and ("evd" not in relu)


@pytest.mark.parametrize("feature", [*KINDS, JOINT])
@pytest.mark.parametrize("c", [[1.0, 0.0], [-1.0, 0.0], [-1.0, -3.0], [2.0, 1.0], [-2.0, 0.5]])
def test_one_axis_has_two_directions(feature, c):
    x, c = np.array([[1.0], [-2.0]]), np.array(c)
    signs = (1,) if feature.joint else (1, -1)
    found = local_maxima(feature, x, c, signs)
    thetas = np.array([[1.0], [-1.0]])
    if feature.joint:
        thetas = np.sqrt(0.5) * np.array([[a, b] for a in (1.0, -1.0) for b in (1.0, -1.0)])
    highest = max((sign * value(feature, x, c, thetas)).max() for sign in signs)
    assert found.certified and found.values[0] == pytest.approx(highest, abs=1e-15)
    reached = found.signs * value(feature, x, c, found.points)
    assert (
        reached == pytest.approx(found.values, abs=1e-15)
        and highest <= found.bound <= 1.01 * highest + 1e-9
    )


def test_squares_below_numbers_leave_a_direction():
    """φ of inputs of 1e-200 is 0, whatever θ."""
    found = local_maxima(SQUARED, 1e-200 * np.eye(3), np.ones(3), (1, -1), share=0.5)
    assert np.isfinite(found.points).all() and not found.values.any()
    assert np.allclose(np.linalg.norm(found.points, axis=1), 1.0)


def test_linear_and_zero_sums(rng):
    x, c = rng.normal(size=(7, 5)), rng.normal(size=7)
    found = local_maxima(LINEAR, x, c, (1, -1))
    assert found.certified and found.values[0] == pytest.approx(np.linalg.norm(c @ x), rel=1e-14)
    assert found.signs[0] * found.points[0] == pytest.approx(normalize(c @ x), abs=1e-14)
    for feature in (RELU, SQUARED, LINEAR):
        for p in (2, 3):
            found = local_maxima(feature, rng.normal(size=(4, p)), np.zeros(4), (1, -1), 0.5)
            assert found.certified and (found.values == 0.0).all() and found.bound == 0.0


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("kind", COEFFICIENTS)
def test_joint_relu_is_half_of_the_signed_sphere(axes, kind, rng):
    for n in (1, 4, 9):
        x, c = rng.normal(size=(n, axes)), COEFFICIENTS[kind](rng, n)
        found, dense = local_maxima(JOINT, x, c), hkflow.quasi_uniform(20_000, axes)
        wanted = 0.5 * max(highest(RELU, x, c), highest(RELU, x, -c), 0.0)
        assert found.certified and found.values[0] == pytest.approx(wanted, rel=TOLERANCE)
        assert (
            np.linalg.norm(found.points, axis=1) == pytest.approx(1.0, rel=1e-14)
            and (found.signs == 1.0).all()
        )
        assert value(JOINT, x, c, found.points) == pytest.approx(found.values, rel=1e-12, abs=1e-14)
        assert value(JOINT, x, c, dense).max() <= found.bound


# --- all local maxima


@pytest.mark.parametrize("feature", KINDS, ids=lambda f: f.name)
def test_all_strict_local_maxima_of_the_circle_are_returned(feature, rng):
    counts = []
    for n in (3, 6, 12, 20) * 4:
        x, c, share = rng.normal(size=(n, 2)), rng.normal(size=n), 1e-3
        angles, values, top = circle_maxima(feature, x, c)
        wanted = on_circle(angles[values >= share * top * 1.0001])
        found = local_maxima(feature, x, c, (1,), share)
        distance = np.linalg.norm(wanted[:, None] - found.points[None], axis=2).min(axis=1)
        assert (distance < 2e-5).all(), n
        counts.append(len(wanted))
    assert max(counts) >= 2 and sum(counts) >= 16


@pytest.mark.parametrize("feature", KINDS, ids=lambda f: f.name)
def test_all_strict_local_maxima_of_the_sphere_are_returned(feature, rng):
    counts = []
    for n in (4, 5, 6, 7):
        x, c = rng.normal(size=(n, 3)), np.resize([1.0, -1.0, 1.5], n)
        regions = np.unique(DENSE @ x.T > 0.0, axis=0, return_index=True)[1]
        starts = (
            DENSE[regions] if feature is RELU else np.concatenate([DENSE[regions], DENSE[::400]])
        )
        climbed = np.array([refined(feature, x, c, start) for start in starts])
        top = value(feature, x, c, climbed).max()
        wanted = [
            p
            for p in climbed
            if value(feature, x, c, p)[0] > 1e-2 * top and is_strict_maximum(feature, x, c, p, rng)
        ]
        found = local_maxima(feature, x, c, (1,), 5e-3)
        distance = np.linalg.norm(np.array(wanted)[:, None] - found.points[None], axis=2).min(
            axis=1
        )
        assert (distance < 1e-5).all(), (n, distance)
        counts.append(len(np.unique(np.round(wanted, 4), axis=0)))
    assert max(counts) >= 2


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("feature", KINDS, ids=lambda f: f.name)
def test_what_is_returned_are_local_maxima_in_order(feature, axes, rng):
    for n in (3, 8, 30):
        x, c = rng.normal(size=(n, axes)), rng.normal(size=n)
        for signs in ((1,), (1, -1)):
            found = local_maxima(feature, x, c, signs, 0.05)
            if found.values[0] <= 0.0:
                assert len(found.values) == 1
                continue
            assert (np.diff(found.values) <= 0.0).all() and found.values[-1] >= 0.05 * found.values[
                0
            ]
            for point, sign in zip(found.points, found.signs, strict=True):
                assert is_strict_maximum(feature, x, sign * c, point, rng, strict=False)
            assert local_maxima(feature, x, c, signs).values[0] == pytest.approx(
                found.values[0], rel=1e-13
            )


# --- invariance, certainty, refusals


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("feature", KINDS, ids=lambda f: f.name)
def test_rotation_and_scale(feature, axes, rng):
    for name in ("random", "in a plane", "three through one point"):
        x = rng.normal(size=(9, 3)) if name == "random" else special(name, rng)
        x = np.ascontiguousarray(x[:, :axes])
        c, rotation = rng.normal(size=len(x)), np.linalg.qr(rng.normal(size=(axes, axes)))[0]
        one, two = (
            local_maxima(feature, x, c, (1, -1), 0.5),
            local_maxima(feature, x @ rotation.T, c, (1, -1), 0.5),
        )
        assert two.values == pytest.approx(one.values, rel=1e-10)
        assert two.points[0] == pytest.approx(rotation @ one.points[0], abs=1e-6)
        big = local_maxima(feature, 1e3 * x, 1e-5 * c, (1, -1), 0.5)
        assert big.values == pytest.approx(1e-5 * 1e3**feature.degree * one.values, rel=1e-10)


@pytest.mark.parametrize("feature", [RELU, SQUARED, JOINT], ids=lambda f: f.name)
def test_beyond_the_sphere_nothing_is_certified(feature, rng):
    x, c = rng.normal(size=(15, 4)), rng.normal(size=15)
    found = local_maxima(feature, x, c)
    assert not found.certified
    best, hidden = -np.inf, SQUARED if feature is SQUARED else RELU
    for sign in (1.0, -1.0) if feature.joint else (1.0,):
        starts = hkflow.quasi_uniform(4000, 3)
        starts = starts[np.argsort(-value(hidden, x, sign * c, starts))[:20]]
        best = max(
            best, *(value(hidden, x, sign * c, refined(hidden, x, sign * c, s))[0] for s in starts)
        )
    best *= 0.5 if feature.joint else 1.0
    assert found.values[0] >= (1.0 - (1e-8 if feature is SQUARED else 1e-3)) * best
    assert found.values[0] == pytest.approx(value(feature, x, c, found.points[0])[0], rel=1e-14)


def test_what_is_not_finite_is_refused():
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="must be finite"):
            local_maxima(RELU, np.eye(2), [1.0, wrong])


# --- siblings: faults that brute force sees


def without_a_circle(arrangement):
    """The circle of the heaviest datum is not walked."""
    normals = arrangement.normals.copy()
    normals[0] = 0.0
    return replace(arrangement, normals=normals)


def in_wrong_order(arrangement):
    """The crossings of each circle are met in another order."""
    crossings = arrangement.crossings.copy()
    for row, count in zip(crossings, arrangement.counts, strict=True):
        row[:count] = np.random.default_rng(0).permutation(row[:count])
    return replace(arrangement, crossings=crossings)


@pytest.mark.parametrize("feature", KINDS, ids=lambda f: f.name)
@pytest.mark.parametrize(
    "axes, fault", [(3, without_a_circle), (2, in_wrong_order), (3, in_wrong_order)]
)
def test_brute_force_sees_a_faulty_arrangement(axes, feature, fault, rng, monkeypatch):
    honest = search._arrangement
    monkeypatch.setattr(search, "_arrangement", lambda same: fault(honest(same)))
    seen = 0
    for _ in range(25):
        n = 1 if fault is without_a_circle else 8
        x, c = rng.normal(size=(n, axes)), rng.normal(size=n)
        try:
            check(feature, x, c)
        except (AssertionError, RuntimeWarning):  # the latter where no point was met at all
            seen += 1
            break
    assert seen > 0
