import numba
import numpy as np
import pytest
import reference

import hkflow
from hkflow.operators import caps
from hkflow.operators.caps import LEAF, bisected, directions, partition
from hkflow.operators.dense import LINEAR, RELU, SQUARED_RELU, DenseOperator
from hkflow.operators.tree import TreeOperator

KERNELS = [LINEAR, RELU, SQUARED_RELU]
SHAPES = [
    (1, 1, 3),
    (31, 5, 3),
    (33, 700, 3),
    (2562, 100, 3),
    (3000, 40, 4),
    (1500, 3000, 4),
    (700, 90, 2),
    (500, 60, 6),
]


def worst(activation, points, inputs, operator, rng):
    """Largest error of both sums, relative to the sums of sizes; twice, in both orders, as scratch
    is used again."""
    h, J, errors = np.full(len(inputs), np.nan), np.full(len(points), np.nan), []
    size = reference.activate(activation, np.abs(inputs) @ np.abs(points.T))
    for _ in range(2):
        weights, loss_gradient = rng.normal(size=len(points)), rng.normal(size=len(inputs))
        operator.forward(weights, h)
        operator.adjoint(loss_gradient, J)
        errors.append(
            np.abs(h - reference.dense_forward(points, inputs, weights, activation))
            / (size @ np.abs(weights))
        )
        errors.append(
            np.abs(J - reference.dense_adjoint(points, inputs, loss_gradient, activation))
            / (np.abs(loss_gradient) @ size)
        )
    return max(e.max() for e in errors)


@pytest.mark.parametrize("activation", KERNELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_both_sums_are_exact_to_rounding(activation, shape, rng):
    n, n_data, p = shape
    points, inputs = rng.normal(size=(n, p)), rng.normal(size=(n_data, p))
    assert worst(activation, points, inputs, TreeOperator(points, inputs, activation), rng) < 1e-14


@pytest.mark.parametrize("activation", [RELU, SQUARED_RELU])
def test_degenerate_geometry_is_exact_too(activation, rng):
    """Data that coincide, are opposite, zero or tiny; circles through cell centres; points that
    coincide, or are zero."""
    mesh = hkflow.geodesic_mesh(3)
    across = np.cross(mesh.centers[:50], mesh.centers[50:100])
    inputs = np.concatenate(
        [
            across,
            across,
            -across[:20],
            np.eye(3),
            np.zeros((2, 3)),
            1e-150 * across[:5],
            1e100 * across[:5],
        ]
    )
    same = np.concatenate(
        [mesh.centers, np.repeat(mesh.centers[:1], 200, axis=0), np.zeros((3, 3))]
    )
    for points in (mesh.centers, same):
        operator = TreeOperator(points, inputs[:-5], activation)
        h, J = np.zeros(len(inputs) - 5), np.zeros(len(points))
        weights, loss_gradient = rng.normal(size=len(points)), rng.normal(size=len(h))
        operator.forward(weights, h), operator.adjoint(loss_gradient, J)
        assert (
            np.abs(h - reference.dense_forward(points, inputs[:-5], weights, activation)).max()
            < 1e-13 * np.abs(weights).sum()
        )
        assert (
            np.abs(
                J - reference.dense_adjoint(points, inputs[:-5], loss_gradient, activation)
            ).max()
            < 1e-13 * np.abs(loss_gradient).sum()
        )


@pytest.mark.parametrize("n_leaves", [1, 2, 7, 64, 1000, 1321])
def test_the_way_up_meets_children_first_and_leaves_in_order(n_leaves):
    first, last, level, roots = caps.tree_of(n_leaves)
    order = caps.upward(level, roots)
    leaves = order[last[order] - first[order] == 1]
    assert (np.sort(order) == np.arange(len(level))).all()
    assert (first[leaves] == np.arange(n_leaves)).all()
    for r in range(len(roots) - 1):
        below = order[roots[r] : roots[r + 1]]
        assert (np.sort(below) == np.arange(roots[r], roots[r + 1])).all()
        for at, k in enumerate(below):  # what lies within node k was met just before it
            within = (first[below] >= first[k]) & (last[below] <= last[k])
            assert within[at + 1 - within.sum() : at + 1].all()


def test_near_pairs_are_those_whose_circle_cuts_the_leaf(rng):
    """Every pair is counted once: far and positive, near, or on the other side; and near lists hold
    no datum without need."""
    points, inputs = hkflow.geodesic_mesh(4).centers, rng.normal(size=(200, 3))
    operator = TreeOperator(points, inputs, RELU)
    far_start, far, near_start, near = operator.lists
    first, last, _, _ = operator.tree
    s = inputs[operator.few_order] @ points[operator.order].T
    meets = np.zeros(s.shape, dtype=int)
    for k in range(len(first)):
        meets[far[far_start[k] : far_start[k + 1]], first[k] * LEAF : last[k] * LEAF] += 1
    assert meets.max() == 1 and (s[meets == 1] >= 0.0).all()
    for leaf in range(len(near_start) - 1):
        data, cells = (
            near[near_start[leaf] : near_start[leaf + 1]],
            slice(leaf * LEAF, (leaf + 1) * LEAF),
        )
        data = data[data < len(inputs)]
        meets[data, cells] += 1
        assert (s[data, cells].min(axis=1) < 0.0).all() and (s[data, cells].max(axis=1) > 0.0).all()
    assert meets.max() == 1 and (s[meets == 0] <= 0.0).all()


def test_a_cap_that_is_too_small_breaks_the_sums(rng, monkeypatch):
    points, inputs = hkflow.geodesic_mesh(4).centers, rng.normal(size=(200, 3))
    true = caps.caps_of

    def small(*args):
        true(*args)
        args[-1][:] *= 0.5  # the radii

    assert worst(RELU, points, inputs, TreeOperator(points, inputs, RELU), rng) < 1e-14
    monkeypatch.setattr(caps, "caps_of", small)
    assert worst(RELU, points, inputs, TreeOperator(points, inputs, RELU), rng) > 1e-9


def test_lists_grow_with_the_root_of_the_number_of_cells(rng):
    """Memory: near lists of n data hold n √N numbers, far lists little more."""
    inputs, lengths = rng.normal(size=(2048, 3)), []
    for level in (4, 5, 6):
        far, near = TreeOperator(hkflow.geodesic_mesh(level).centers, inputs, RELU).lists[1::2]
        lengths.append((len(near), len(far)))
    growth = np.diff(np.log2(lengths), axis=0)
    print(f"lengths of near and far lists at 2562, 10242, 40962 cells: {lengths}")
    assert (
        (growth[:, 0] > 0.75).all() and (growth[:, 0] < 1.15).all() and (growth[:, 1] < 1.15).all()
    )


def test_results_do_not_depend_on_the_number_of_threads(rng):
    points, inputs = hkflow.geodesic_mesh(5).centers, rng.normal(size=(500, 3))
    weights, loss_gradient, results = rng.normal(size=len(points)), rng.normal(size=500), []
    previous = numba.get_num_threads()
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        numba.set_num_threads(threads)
        operator = TreeOperator(points, inputs, RELU)
        h, J = np.empty(500), np.empty(len(points))
        operator.forward(weights, h), operator.adjoint(loss_gradient, J)
        results.append((h, J))
    numba.set_num_threads(previous)
    assert all(np.array_equal(one, two) for one, two in zip(*results, strict=True))


@pytest.mark.parametrize("values", [np.arange(99.0), np.ones(99), np.sin(np.arange(99) ** 2) > 0.3])
def test_a_partition_puts_the_smaller_values_first(values, rng):
    for k in rng.integers(0, 99, 20):
        order = rng.permutation(99)
        parted = values[order].astype(float)
        partition(parted, order, k)
        assert np.array_equal(parted, values[order])
        assert parted[:k].max(initial=-1.0) <= parted[k] <= parted[k:].min()


def test_the_order_keeps_leaves_compact(rng):
    units = directions(rng.normal(size=(5000, 3)))
    order = bisected(units, LEAF)
    assert np.array_equal(np.sort(order), np.arange(5000))
    leaves = units[order][: 5000 // LEAF * LEAF].reshape(-1, LEAF, 3)
    radii = np.linalg.norm(leaves - leaves.mean(axis=1, keepdims=True), axis=2).max(axis=1)
    # a disc of the leaf's area has radius √(4 LEAF / N)
    assert np.median(radii) < 2.0 * np.sqrt(4.0 * LEAF / 5000)


def test_tree_and_dense_make_the_same_run(rng):
    """The potential that drives a flow does not depend on the operator beyond rounding."""
    inputs = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    targets = np.sign(inputs[:, 0] * inputs[:, 1])
    found = []
    for name in ("dense", "tree"):
        objective = hkflow.Objective(
            hkflow.FEATURES["relu"], hkflow.RISKS["logistic"], inputs, targets, operator=name
        )
        problem = hkflow.Problem(
            hkflow.geodesic_mesh(3), objective, hkflow.Flow(1.0, 2.0), signs=(1, -1)
        )
        found.append(hkflow.solve(problem, 0.5).density[-1])
    assert (
        np.abs(found[0] - found[1]).max() < 1e-11 * found[0].max()
        and np.abs(found[0] - found[1]).max() > 0.0
    )


def test_dense_agrees_on_the_mesh(rng):
    points, inputs = hkflow.geodesic_mesh(5).centers, rng.normal(size=(300, 3))
    loss_gradient, one, two = rng.normal(size=300), np.zeros(10242), np.zeros(10242)
    DenseOperator(points, inputs, RELU).adjoint(loss_gradient, one)
    TreeOperator(points, inputs, RELU).adjoint(loss_gradient, two)
    assert np.abs(one - two).max() < 1e-12 * np.abs(one).max()
