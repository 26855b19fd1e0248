"""Sums shared out between ranks, all of them in this process, against the sums of one."""

import numpy as np
import pytest

import hkflow
from hkflow.operators.dense import DenseOperator, blocked
from hkflow.operators.distributed import DistributedOperator, shared
from hkflow.operators.moving_tree import MovingTreeOperator
from hkflow.operators.ranks import Alone
from hkflow.operators.sorted import SortedOperator


class Rank(Alone):
    """One of several ranks that are called in turn: what the others have sent it finds when it is
    called again."""

    def __init__(self, rank, size, boards):
        self.rank, self.size, self.boards, self.made = rank, size, boards, 0

    def completion(self, buffer, counts, starts):
        board = self.boards.setdefault(self.made, np.full(buffer.size, np.nan))
        own = slice(starts[self.rank], starts[self.rank] + counts[self.rank])
        self.made += 1
        assert sum(counts) == buffer.size and counts == np.diff([*starts, buffer.size]).tolist()

        def complete():
            board[own] = buffer.reshape(-1)[own]
            buffer.reshape(-1)[:] = board

        return complete


class Shifted(Rank):
    """A rank that sends its part from one number too far on."""

    def completion(self, buffer, counts, starts):
        complete = super().completion(buffer, counts, starts)

        def wrong():
            buffer.reshape(-1)[:] = np.roll(buffer, -1)
            complete()

        return wrong


def together(size, kind=Rank):
    boards = {}
    return [kind(rank, size, boards) for rank in range(size)]


def same(ranks, make, points, n_data, rng, exact=True, moving=False):
    """Whether all ranks have the sums of an operator alone, to the bit or to rounding; with moved
    points and other data too."""
    alone, parts = make(hkflow.operators.ranks.ALONE), [make(rank) for rank in ranks]
    names = ("forward", "gradient") if moving else ("forward", "adjoint")
    for _ in range(2):
        weights, loss_gradient = rng.normal(size=len(points)), rng.normal(size=n_data)
        for name in names:
            results = []
            for operator in [alone, *parts, *parts]:  # the second time the parts of all are there
                outs = [np.zeros(n_data if name == "forward" else len(points))]
                outs += [np.zeros_like(operator.points)] if name == "gradient" else []
                getattr(operator, name)(weights if name == "forward" else loss_gradient, *outs)
                results.append(outs)
            for outs in results[-len(ranks) :]:
                for got, wanted in zip(outs, results[0], strict=True):
                    if exact and not np.array_equal(got, wanted):
                        return False
                    if not np.abs(got - wanted).max() <= 1e-13 * np.abs(wanted).max():
                        return False
        if moving:
            points, inputs = rng.normal(size=points.shape), rng.normal(size=alone_inputs(alone))
            for operator in [alone, *parts]:
                operator.points[:] = blocked(points, operator.points.shape[2])
                operator.set_inputs(inputs)
    return True


def alone_inputs(operator):
    """Shape of the inputs of an operator."""
    return (
        operator.hidden.shape
        if hasattr(operator, "hidden")
        else getattr(operator, "shape", None) or operator.inputs.shape
    )


TANH = hkflow.Feature(
    "tanh",
    lambda theta, x: np.tanh(x @ theta.T),
    pullback=lambda theta, x, loss_gradient: (loss_gradient / np.cosh(theta @ x.T) ** 2) @ x,
)
MANY = [
    ("dense", 900, 150, 3),
    ("dense", 40_000, 3, 3),
    ("dense", 40, 3000, 4),
    ("dense", 333, 21, 60),
]
FIXED = [
    *MANY,
    ("dense-single", 900, 150, 3),
    ("tree", 3000, 70, 3),
    ("tree", 90, 1500, 3),
    ("tree", 40_000, 2, 3),
]
FIXED += [("tree", 500, 500, 4), ("sorted", 2000, 150, 2), ("auto", 2562, 700, 3)]


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("feature", ["linear", "relu", "squared-relu"])
@pytest.mark.parametrize("shape", FIXED, ids=str)
def test_sums_over_fixed_points_have_the_same_bits(size, feature, shape, rng):
    name, n, n_data, p = shape
    if (name, feature) == ("sorted", "linear"):
        return
    points, inputs = rng.normal(size=(n, p)), rng.normal(size=(n_data, p))
    feature = hkflow.FEATURES[feature]
    assert same(
        together(size),
        lambda rank: feature.operator(points, inputs, name, ranks=rank),
        points,
        n_data,
        rng,
    )


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("feature", ["linear", "relu", "squared-relu", "joint-relu"])
@pytest.mark.parametrize("shape", [*MANY, ("tree", 3000, 70, 3), ("tree", 300, 900, 4)], ids=str)
def test_sums_over_moving_points_have_the_same_bits(size, feature, shape, rng):
    name, n, n_data, p = shape
    if name == "tree" and feature not in ("relu", "squared-relu"):
        return
    feature = hkflow.FEATURES[feature]
    points, inputs = rng.normal(size=(n, p + feature.joint)), rng.normal(size=(n_data, p))

    def make(rank):
        return feature.moving_operator(points, inputs, name, rank)

    kind = MovingTreeOperator if name == "tree" else DistributedOperator
    assert isinstance(make(together(size)[0]), kind)
    assert same(together(size), make, points, n_data, rng, moving=True)


@pytest.mark.parametrize("size", [2, 5])
def test_features_given_as_functions_are_the_same_to_rounding(size, rng):
    """BLAS makes their products, and rounds those of a part as it likes."""
    points, inputs = rng.normal(size=(400, 4)), rng.normal(size=(150, 4))
    assert same(
        together(size),
        lambda rank: TANH.operator(points, inputs, ranks=rank),
        points,
        150,
        rng,
        exact=False,
    )
    moving = together(size)
    assert same(
        moving,
        lambda rank: TANH.moving_operator(points, inputs, ranks=rank),
        points,
        150,
        rng,
        exact=False,
        moving=True,
    )
    ridge = hkflow.ridge(lambda s: (np.tanh(s), 1.0 / np.cosh(s) ** 2))
    sphere, inputs = hkflow.quasi_uniform(400, 2), rng.uniform(-1.0, 1.0, (150, 3))
    assert same(
        together(size),
        lambda rank: ridge.operator(sphere, inputs, "harmonics", ranks=rank),
        sphere,
        150,
        rng,
        exact=False,
    )
    joint = hkflow.FEATURES["joint-relu"]
    assert same(
        together(size),
        lambda rank: joint.operator(points, inputs, ranks=rank),
        points,
        150,
        rng,
    )


def test_small_and_sorted_sums_are_made_by_every_rank(rng):
    """They cost no more than a message, or than the rest of a step."""
    relu, rank = hkflow.FEATURES["relu"], together(2)[0]
    assert isinstance(
        relu.operator(rng.normal(size=(50, 3)), rng.normal(size=(20, 3)), ranks=rank),
        DenseOperator,
    )
    circle = rng.normal(size=(5000, 2)), rng.normal(size=(500, 2))
    assert isinstance(relu.operator(*circle, "auto", ranks=rank), SortedOperator)
    assert isinstance(relu.moving_operator(*circle, "auto", ranks=rank), SortedOperator)


@pytest.mark.parametrize(
    "name, feature", [("dense", "relu"), ("tree", "relu"), ("dense", "joint-relu")]
)
def test_a_part_that_is_sent_from_the_wrong_place_is_seen(name, feature, rng):
    feature = hkflow.FEATURES[feature]
    points, inputs = rng.normal(size=(2000, 3 + feature.joint)), rng.normal(size=(100, 3))
    for kind, right in ((Rank, True), (Shifted, False)):
        make = lambda rank: feature.operator(points, inputs, name, ranks=rank)
        assert same(together(3, kind), make, points, 100, rng) == right
        make = lambda rank: feature.moving_operator(points, inputs, name, rank)
        assert same(together(3, kind), make, points, 100, rng, moving=True) == right


def test_a_tree_of_part_of_the_leaves_holds_part_of_the_lists(rng):
    """What outgrows a machine, the lists, is shared out as well."""
    points, inputs = hkflow.geodesic_mesh(5).centers, rng.normal(size=(1000, 3))
    relu, lengths = hkflow.FEATURES["relu"], []
    whole = relu.operator(points, inputs, "tree")
    for rank in together(4):
        part = relu.operator(points, inputs, "tree", ranks=rank)
        lengths.append(
            [sum(len(one.lists[k]) for k in (1, 3)) for one in (part.to_data, part.to_points)]
        )
    shares = np.array(lengths) / sum(len(whole.lists[k]) for k in (1, 3))
    assert shares.max() < 0.4 and np.all(shares.sum(axis=0) < 1.1)


def test_nothing_is_allocated_once_all_have_been_called(rng):
    """A sum takes no array of the size of points or data from memory again."""
    import tracemalloc

    points, inputs = rng.normal(size=(20_000, 3)), rng.normal(size=(500, 3))
    weights, loss_gradient, h, J = np.ones(20_000), np.ones(500), np.zeros(500), np.zeros(20_000)
    for name in ("dense", "tree"):
        rank = together(2)[0]
        operator = shared(rank, lambda *given: DenseOperator(*given, 1), points, inputs)
        operator = (
            operator
            if name == "dense"
            else hkflow.FEATURES["relu"].operator(points, inputs, name, ranks=rank)
        )
        G = np.zeros_like(operator.points) if name == "dense" else None
        for turn in range(2):  # noqa: B007
            tracemalloc.start()
            operator.forward(weights, h)
            operator.adjoint(loss_gradient, J)
            if name == "dense":
                operator.gradient(loss_gradient, J, G)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert turn and peak < 20_000, f"{name}: {peak} bytes"
