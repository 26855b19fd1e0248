"""The certified bound against the exact search, on random and on degenerate data, and what a wrong
bound would look like."""

from itertools import product

import numpy as np
import pytest

import hkflow
from hkflow.certificates import caps, main_axes
from hkflow.certificates import global_upper_bound as room
from hkflow.certificates.search import local_maxima


def bent(below, above):
    """ψ(s) = above s for s > 0, below s for s < 0."""
    return hkflow.ridge(
        lambda s: (np.where(s > 0.0, above, below) * s, np.where(s > 0.0, above, below)),
        f"bent {below:g} {above:g}",
        degree=1,
    )


def named(feature):
    return getattr(feature, "name", feature)


KNOWN = ["linear", "relu", "squared-relu", "joint-relu"]
FEATURES = KNOWN + ["absolute-value", bent(0.1, 1.0), bent(0.5, -2.0), bent(3.0, 3.0)]
KINDS = ["random", "concentrated", "equal", "positive", "negative"]


def gap(feature, x, c, signs):
    """Bound minus the highest value that the search finds, over Σ |c_i| |x_i|^degree."""
    feature = hkflow.FEATURES.get(feature, feature)
    scale = np.abs(c) @ np.linalg.norm(x, axis=1) ** (1 if feature.joint else feature.degree)
    highest = local_maxima(feature, x, c, signs).values[0]
    return (room.global_upper_bound(feature, x, c, signs) - highest) / max(scale, 1e-300)


def coefficients(kind, n, rng):
    c = {
        "random": rng.normal(size=n),
        "concentrated": rng.choice([-1.0, 1.0], size=n) * 10.0 ** rng.uniform(-12.0, 0.0, size=n),
        "equal": rng.choice([-1.0, 1.0], size=n),
        "positive": rng.random(n),
        "negative": -rng.random(n),
    }[kind]
    return c / n


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("feature", FEATURES, ids=named)
@pytest.mark.parametrize("p", [2, 3])
def test_the_bound_is_the_maximum_from_above(p, feature, kind, rng):
    for trial in range(40):
        n = int(rng.integers(1, 40))
        x = rng.normal(size=(n, p)) if trial % 2 else rng.integers(-2, 3, size=(n, p)).astype(float)
        x[:, -1] = 1.0 if trial % 3 else x[:, -1]
        signs = (1,) if trial % 4 or feature == "joint-relu" else (1, -1)
        assert -1e-15 < gap(feature, x, coefficients(kind, n, rng), signs) < 2e-9


def test_joint_units_on_the_circle_have_two_directions(rng):
    """θ = (a, b): the highest of ±b Σ c_i (a x_i)₊ is half that of a = ±1."""
    angles = np.linspace(0.0, 2.0 * np.pi, 8001)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    for n in (1, 2, 9):
        x, c, feature = (
            np.append(rng.normal(size=(n, 1)), [[0.0]], axis=0),
            rng.normal(size=n + 1),
            hkflow.FEATURES["joint-relu"],
        )
        highest, bound = (
            (c @ feature.matrix(points, x)).max(),
            room.global_upper_bound(feature, x, c),
        )
        assert highest <= bound <= highest + 1e-6 * np.abs(c).sum()


DEGENERATE = {
    "corners": np.array(list(product((-1.0, 1.0), repeat=3))),
    "lattice": np.array([(a, b, 1.0) for a in range(-3, 4) for b in range(-3, 4)]),
    "axes": np.vstack([np.eye(3), -np.eye(3)]),
    "one plane": np.array([(np.cos(t), np.sin(t), 0.0) for t in np.arange(12) * np.pi / 6]),
    "one line": np.array([(t, 2.0 * t, 1.0) for t in np.linspace(-1.0, 1.0, 9)]),
    "zero rows": np.array([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)]),
    "nothing": np.zeros((3, 3)),
}


@pytest.mark.parametrize("feature", FEATURES[1:], ids=named)
@pytest.mark.parametrize("name", DEGENERATE)
def test_plateaus_and_repeated_circles(name, feature, rng):
    x = DEGENERATE[name]
    n = len(x)
    for c in (
        np.where(np.arange(n) % 2, 1.0, -1.0) / n,
        np.sign(x[:, 0] * x[:, 1] + 0.1) / n,
        np.ones(n) / n,
        -np.ones(n) / n,
    ):
        assert -1e-15 < gap(feature, x, c, (1,)) < 2e-9


@pytest.mark.parametrize("feature", ["relu", "squared-relu"])
def test_where_pieces_stay_large_the_bound_is_loose_and_still_one(feature, rng, monkeypatch):
    branch = caps.branch_and_bound.py_func
    monkeypatch.setattr(caps, "branch_and_bound", branch)
    gaps = []
    for finest in (0, 1, 2, 4):
        monkeypatch.setitem(branch.__globals__, "FINEST", finest)
        gaps.append(gap(feature, DEGENERATE["lattice"], np.cos(np.arange(49)) / 49, (1, -1)))
    assert min(gaps) > -1e-15 and np.all(np.diff(gaps) <= 0.0) and gaps[0] > 1e-3


@pytest.mark.parametrize("feature", ["relu", "squared-relu"])
def test_where_room_ends_the_tolerance_grows(feature, rng, monkeypatch):
    branch = caps.branch_and_bound.py_func
    monkeypatch.setattr(caps, "branch_and_bound", branch)
    monkeypatch.setitem(branch.__globals__, "ROOM", 24)
    for _ in range(5):
        assert (
            -1e-15
            < gap(feature, rng.normal(size=(30, 3)), coefficients("random", 30, rng), (1,))
            < 1.0
        )


@pytest.mark.parametrize("p", [4, 6])
@pytest.mark.parametrize("feature", FEATURES[4:], ids=named)
def test_own_units_beyond_the_sphere_are_bounded_by_cones(feature, p, rng):
    """And one unit of ψ(s) = (s)₊ − ½ (−s)₊ is one of ReLU and half of another."""
    feature, points = hkflow.FEATURES.get(feature, feature), hkflow.quasi_uniform(5000, p - 1)
    for n in (1, 7, 15):
        x, c = rng.normal(size=(n, p)), rng.normal(size=n)
        highest = max(
            np.abs(c @ feature.matrix(points, x)).max(),
            local_maxima(feature, x, c, (1, -1)).values[0],
        )
        bound = room.global_upper_bound(feature, x, c, (1, -1), 20_000)
        assert highest <= bound <= highest + 1e-9 * np.abs(c) @ np.linalg.norm(x, axis=1)
    relu, both = hkflow.FEATURES["relu"], np.concatenate([x, -x])
    wanted = room.global_upper_bound(relu, both, np.concatenate([c, 0.5 * c]), (1,), 20_000)
    found = room.global_upper_bound(bent(-0.5, 1.0), x, c, (1,), 20_000)
    assert found == pytest.approx(wanted, rel=1e-9)


# --- siblings


@pytest.mark.parametrize("feature", ["relu", "squared-relu"])
def test_sibling_a_cap_too_small_is_no_bound(feature, rng, monkeypatch):
    """With caps of a tenth of the radius pieces are discarded that hold higher values."""
    branch, honest = caps.branch_and_bound.py_func, caps._cap

    def small(corners, center):
        cosine, sine = honest(corners, center)
        angle = 0.1 * np.arctan2(sine, cosine)
        return np.cos(angle), np.sin(angle)

    monkeypatch.setattr(caps, "branch_and_bound", branch)
    monkeypatch.setitem(branch.__globals__, "_cap", small)
    monkeypatch.setitem(branch.__globals__, "_climbed", lambda *_: -np.inf)
    monkeypatch.setitem(branch.__globals__, "FINEST", 0)
    gaps = [
        gap(feature, rng.normal(size=(12, 3)), coefficients("negative", 12, rng), (1, -1))
        for _ in range(10)
    ]
    assert min(gaps) < -1e-6


def test_sibling_without_what_is_below_zero_there_is_no_bound(rng, monkeypatch):
    def half(feature, inputs, c):
        return hkflow.FEATURES["relu"], inputs, c

    x, c = rng.normal(size=(9, 3)), -np.ones(9)
    points = hkflow.quasi_uniform(5000, 2)
    highest = (c @ bent(1.0, -1.0).matrix(points, x)).max()
    assert room.global_upper_bound(bent(1.0, -1.0), x, c) >= highest
    monkeypatch.setattr(room, "as_relu", half)
    assert room.global_upper_bound(bent(1.0, -1.0), x, c) < 0.9 * highest


@pytest.mark.parametrize("p", [150, 203, 260, 800])
def test_of_many_inputs_the_bound_holds_without_room_for_cones(p, rng):
    x, c = rng.normal(size=(40, p)), rng.normal(size=40)
    bound = room.global_upper_bound(hkflow.FEATURES["relu"], x, c, (1, -1))
    points = rng.normal(size=(2000, p))
    points = np.concatenate([points, x, c[:, None] * x, [c @ x]])
    points /= np.linalg.norm(points, axis=1)[:, None]
    values = np.maximum(points @ x.T, 0.0) @ c
    most = max(np.maximum(sign * c * np.linalg.norm(x, axis=1), 0.0).sum() for sign in (1, -1))
    assert np.abs(values).max() <= bound <= most * (1.0 + 1e-9)


def test_cones_without_room_for_the_first_ones_are_refused(rng):
    p = 5
    x = rng.normal(size=(9, p))
    x /= np.linalg.norm(x, axis=1)[:, None]
    found = x, rng.normal(size=9), np.zeros(p), room.cones.cover(p)
    with pytest.raises(ValueError, match="6 cones need room for more than 6"):
        room.cones.branch_and_bound(*found, 6, -np.inf, 100, np.zeros((0, p)))
    room.cones.branch_and_bound(*found, 7, -np.inf, 100, np.zeros((0, p)))


NO_CONES = 20  # too few for so many dimensions, but they pay for the main axes of the data


@pytest.mark.parametrize(("n", "p"), [(20, 300), (100, 150), (150, 150)])
def test_without_cones_the_bound_of_orthogonal_data_is_the_maximum(n, p, rng):
    """√n of n unit vectors, where the sum of terms is n; also with data that are subtracted, which
    are orthogonal to them, and of several outputs."""
    x = np.linalg.qr(rng.normal(size=(p, p)))[0][:n]
    bound = room.global_upper_bound(hkflow.FEATURES["relu"], x, np.ones(n), nodes=NO_CONES)
    assert np.sqrt(n) <= bound <= np.sqrt(n) * (1.0 + 1e-6)
    c = np.where(np.arange(n) < n // 2, 1.0, -1.0)
    bound = room.global_upper_bound(hkflow.FEATURES["relu"], x, c, nodes=NO_CONES)
    assert np.sqrt(n // 2) <= bound <= np.sqrt(n // 2) * (1.0 + 1e-6)
    c = np.outer(np.ones(n), [0.6, -0.8])
    bound = room.global_upper_bound(hkflow.vector_feature("relu", 2), x, c.ravel(), nodes=NO_CONES)
    assert 0.5 * np.sqrt(n) <= bound <= 0.5 * np.sqrt(n) * (1.0 + 1e-6)


def test_the_largest_eigenvalue_is_met_from_above(rng):
    for n, p in ((1, 5), (5, 1), (2, 2), (7, 30), (30, 7), (40, 40)):
        rows = rng.normal(size=(n, p))
        wanted, found = np.linalg.norm(rows, 2) ** 2, main_axes._largest_eigenvalue(rows @ rows.T)
        assert wanted * (1.0 - 1e-13) <= found <= wanted * (1.0 + 1e-5)
    for rows in (np.zeros((3, 4)), np.array([[1.0, 0.0], [-1.0, 0.0]]), np.diag([1.0, 2.0, 2.0])):
        wanted = np.linalg.norm(rows, 2) ** 2
        assert (
            wanted * (1.0 - 1e-13) <= main_axes._largest_eigenvalue(rows.T @ rows) <= wanted + 1e-5
        )


def test_both_parts_of_a_bound_are_weighed_as_is_best(rng):
    """Against all eigenvalues on a fine grid of weights; with fewer rows than columns, and more."""
    for n, p in ((12, 30), (30, 12)):
        rows = rng.normal(size=(n, p)) / np.arange(1, n + 1)[:, None]
        weights = [
            np.repeat([1.0 + ratio, 1.0 + 1.0 / ratio], [2, n - 2])
            for ratio in np.geomspace(0.1, 1e3, 2000)
        ]
        best = min(np.linalg.norm(np.sqrt(w)[:, None] * rows, 2) for w in weights)
        assert best * (1.0 - 1e-5) <= main_axes._of_both(rows, 2, 1e-15) <= best * (1.0 + 1e-3)


@pytest.mark.parametrize("n", [12, 40])
def test_without_cones_the_bound_holds_beside_opposite_data(n, rng):
    """Data on few lines, whose sums have linear parts."""
    x = (
        rng.choice([-1.0, 1.0], size=(n, 1))
        * rng.normal(size=(n // 3, 200))[np.arange(n) % (n // 3)]
    )
    for _ in range(20):
        c, relu = rng.normal(size=n), hkflow.FEATURES["relu"]
        highest = max(0.0, *(local_maxima(relu, x, c, (1, -1)).values))
        loose = room.global_upper_bound(relu, x, c, (1, -1), nodes=NO_CONES)
        sizes = c * np.linalg.norm(x, axis=1)
        most = max(np.maximum(sign * sizes, 0.0).sum() for sign in (1, -1))
        assert highest <= loose < 0.8 * most


@pytest.mark.parametrize(("n", "p"), [(30, 5), (60, 8), (60, 20), (400, 12)])
def test_the_bound_is_never_above_the_sum_of_positive_terms(n, p, rng):
    for _ in range(5):
        x, c = rng.normal(size=(n, p)), rng.normal(size=n)
        bound = room.global_upper_bound(hkflow.FEATURES["relu"], x, c)
        most = np.maximum(c * np.linalg.norm(x, axis=1), 0.0).sum()
        assert bound <= most * (1.0 + 1e-9)


@pytest.mark.parametrize("feature, n", [("absolute-value", 1000), ("relu", 2000)])
def test_of_many_data_with_labels_at_random_the_bound_is_the_maximum(feature, n):
    """There was no room for the undecided data of 1000 pieces: it was up to six times as large."""
    rng = np.random.default_rng(n)
    x, c = rng.standard_normal((n, 3)), rng.choice([-1.0, 1.0], n) / n
    assert 0.0 <= gap(feature, x, c, (1, -1)) <= 1e-10


def test_of_absolute_values_of_many_inputs_the_bound_is_the_sum_of_their_lengths(rng):
    """ReLU of x and of -x are not both at their largest: it was twice as much."""
    x, c = rng.standard_normal((300, 20)), rng.uniform(size=300)
    bound = room.global_upper_bound(hkflow.FEATURES["absolute-value"], x, c)
    assert bound <= (1.0 + 1e-9) * float(c @ np.linalg.norm(x, axis=1))
