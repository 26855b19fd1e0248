"""Which operator makes the sums over pairs: the one that a model of their costs finds cheapest.

Costs of one sum in units of a pair of the dense operator, about 0.12 ns, for n data and N points
of R^p, measured on one core:

    dense     n N
    sorted    50 N + 100 n + 10⁴; 150 N where points move                       p = 2
    tree      2.5 f n N + 30 N + 10⁵,  f = 2 (LEAF / N)^(1/(p − 1)) the share of pairs that lie in
              cut leaves, N ≥ n
              (4.1 f + 0.07) n N + 240 N + 4·10⁵ where points move

and for ψ(θ·x) of a function of one's own, with H harmonics, L² on S² and 2L on the circle:

    matrix      4 n N, a third of it within the cache; 60 n N where points move
    harmonics   H (f N + 2 n),  f = 1, on the circle 5; H (5 f N + 4 n) where points move

"dense-single" makes the dense sums in float32, at half their cost and to 1e-6: never unasked. The
tree is taken where it is half as dear, since it must be built and kept: it holds f n N / LEAF
indices and more. Where points move it keeps no lists, and is taken where it saves a tenth: what f
is depends on where they are, at first even. Harmonics are taken where they are half as dear.
"""

from functools import partial
from typing import Any

from ..arguments import Floats, check_choice
from .caps import LEAF
from .dense import LINEAR, DenseOperator
from .distributed import shared, shared_tree
from .moving_tree import MovingTreeOperator
from .ranks import ALONE, Alone
from .sorted import SortedOperator

SINGLE, HARMONICS = "dense-single", "harmonics"
OPERATORS = ("auto", "dense", "sorted", "tree", HARMONICS, SINGLE)
CACHED = 2**20  # numbers of a matrix that stay in the cache
MOST = 2**26  # numbers of data and harmonics that are stored beside points that move


def make_operator(
    name: str,
    points: Floats,
    inputs: Floats,
    activation: int,
    moving: bool = False,
    ranks: Alone = ALONE,
) -> Any:
    """The operator of a name for points (n_points, p) and inputs (n_data, p), or the cheapest one
    for "auto".

    moving : whether the points will be overwritten in place
    ranks : between which sums are shared out (see operators.distributed), but for sorted ones: they
        cost no more than what every rank does anyway
    Raises ValueError for an unknown name, or an operator that cannot make these sums.
    """
    check_choice("operator", name, OPERATORS)
    if name == HARMONICS:
        raise ValueError(
            "Harmonics make the sums of a smooth function ψ(θ·x) of your own; 'relu', 'linear' and"
            " their powers have faster ones that are exact. Leave 'operator' out."
        )
    if name == "auto":
        name = cheapest(len(points), len(inputs), inputs.shape[1], activation, moving)
    if name == SINGLE and moving:
        others = "'dense'" if activation == LINEAR else "'dense' or 'tree'"
        raise ValueError(
            f"'{name}' is for points that stay where they are: a grid's, or fixed units. Take"
            f" {others}."
        )
    if name == "sorted":
        return SortedOperator(points, inputs, activation, moving)
    if name == "tree" and moving:
        return MovingTreeOperator(points, inputs, activation, ranks)
    if name == "tree":
        return shared_tree(ranks, points, inputs, activation)
    return shared(
        ranks, partial(DenseOperator, activation=activation, single=name == SINGLE), points, inputs
    )


def cheapest(n_points: int, n_data: int, axes: int, activation: int, moving: bool) -> str:
    """The name of the operator that costs least."""
    dense = n_points * n_data
    if axes == 2 and activation != LINEAR:
        return (
            "sorted"
            if (150 if moving else 50) * n_points + 100 * n_data + 10_000 < dense
            else "dense"
        )
    if axes < 2 or moving and activation == LINEAR:
        return "dense"
    many = n_points if moving else max(n_points, n_data)
    cut = 0.0 if activation == LINEAR else min(1.0, 2.0 * (LEAF / many) ** (1.0 / (axes - 1)))
    if moving:
        tree = (4.1 * cut + 0.07) * dense + 240 * n_points + 400_000
        return "tree" if 1.1 * tree < dense else "dense"
    return "tree" if 2.0 * (2.5 * cut * dense + 30 * many + 100_000) < dense else "dense"


def n_harmonics(degree: int, axes: int) -> int:
    """How many there are up to a degree on the circle or S²."""
    return 2 * degree + 1 if axes == 2 else (degree + 1) ** 2


def harmonics_pay(n_points: int, n_data: int, axes: int, degree: int, moving: bool = False) -> bool:
    """Whether harmonics up to a degree are half as dear as all pairs, and these are many."""
    count, each, pairs = n_harmonics(degree, axes), 5 if axes == 2 else 1, n_points * n_data
    if moving:
        dear = count * (5 * each * n_points + 4 * n_data) >= 30 * pairs
        return 4 * pairs > CACHED and not dear and count * n_data <= MOST
    return pairs > CACHED and count * (each * n_points + 2 * n_data) < 2 * pairs
