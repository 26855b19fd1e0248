"""Synthetic data distributions of the papers, and what is done to any data set before it is used.

A distribution is a function draw(rng, n) -> inputs (n, dim), targets (n,). Those that have
something to fix first, the classes of their clusters or their teacher, take it from the generator
that they are made with. All can be pickled, as problems for other processes are.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats, whole_number
from ..geometry.sphere import normalize

Draw = Callable[[np.random.Generator, int], tuple[Floats, Floats]]
SAME = 1e-9  # relative difference of entries of an axis that rounding may make
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def cluster_grid(
    rng: np.random.Generator, dim: int = 2, clusters: int = 3, classes: ArrayLike | None = None
) -> Draw:
    """Chizat & Bach 2020, sec. 7: k² discs of radius 1/(3k−1) on a grid of step 3/(3k−1) in [−½,
    ½]², each with a random class.

    Inputs beyond the first two are uniform on [−½, ½]. Both classes occur among the clusters if
    there are at least two.
    classes : k² labels ±1, row by row from the lower left, instead of random ones: one distribution
        for all generators
    Returns a function (Generator, n) -> inputs (n, dim), labels (n,).   Raises ValueError for fewer
    than two inputs, and for other classes.
    """
    whole_number(dim, "The number of inputs", 2)
    if classes is not None:
        classes = np.array(classes, dtype=float)
        if classes.shape != (clusters**2,) or (abs(classes) != 1.0).any():
            raise ValueError(f"classes must be {clusters**2} labels 1 or -1, got {classes}.")
    else:
        classes = rng.choice([-1.0, 1.0], size=clusters**2)
        while clusters > 1 and abs(classes.sum()) == clusters**2:
            classes = rng.choice([-1.0, 1.0], size=clusters**2)
    return partial(_in_clusters, dim, clusters, classes)


def _in_clusters(dim, clusters, classes, rng, n):
    radius = 1.0 / (3 * clusters - 1)
    chosen = rng.integers(clusters**2, size=n)
    r, angle = radius * np.sqrt(rng.random(n)), 2.0 * np.pi * rng.random(n)
    inputs = rng.uniform(-0.5, 0.5, size=(n, dim))
    corner = -0.5 + radius
    inputs[:, 0] = corner + 3 * radius * (chosen % clusters) + r * np.cos(angle)
    inputs[:, 1] = corner + 3 * radius * (chosen // clusters) + r * np.sin(angle)
    return inputs, classes[chosen]


def xor(rng: np.random.Generator, dim: int = 2) -> Draw:
    """Wei et al., sec. 3.4: the first two inputs are ±1, their product is the class, the others are
    standard normal.

    Returns a function (Generator, n) -> inputs (n, dim), labels (n,).   Raises ValueError for fewer
    than two inputs.
    """
    whole_number(dim, "The number of inputs", 2)
    return partial(_of_xor, dim)


def _of_xor(dim, rng, n):
    inputs = rng.standard_normal((n, dim))
    inputs[:, :2] = rng.choice([-1.0, 1.0], size=(n, 2))
    return inputs, inputs[:, 0] * inputs[:, 1]


def parity(rng: np.random.Generator, dim: int = 2, bits: int = 2) -> Draw:
    """2-homogeneity paper, Example 4.1: x in {±1/√dim}^dim uniform, the class is the product of the
    signs of the first `bits`."""
    return partial(_of_parity, dim, bits)


def _of_parity(dim, bits, rng, n):
    signs = rng.choice([-1.0, 1.0], size=(n, dim))
    return signs / np.sqrt(dim), signs[:, :bits].prod(axis=1)


def teacher_units(rng: np.random.Generator, columns: int, units: int) -> tuple[Floats, Floats]:
    """A random network: unit input weights (units, columns) and output weights ±1 (units,), of both
    signs if it can be."""
    directions = normalize(rng.standard_normal((units, columns)))
    outputs = rng.choice([-1.0, 1.0], size=units)
    if units > 1 and abs(outputs.sum()) == units:  # one sign only would make one class only
        outputs[0] *= -1.0
    return directions, outputs


def teacher(
    rng: np.random.Generator,
    feature: Any,
    dim: int = 2,
    units: int = 3,
    bias: bool = False,
    classify: bool = False,
    margin: float = 0.0,
    tries: int = 1000,
    network: tuple[Floats, Floats] | None = None,
) -> Draw:
    """Standard normal inputs, targets from a network of `units` random directions with output
    weights ±1, not all alike.

    With `classify` the target is the sign of the network, and inputs with |network| < margin are
    drawn again (Wei et al., sec. 5). Drawing raises ValueError if that rejects all but one in
    `tries`. A feature of both layers, b(a·x)₊, takes the units (a, b) with these directions a and
    output weights b, so its teacher is that of (a·x)₊.
    network : unit directions (units, dim, bias included) and output weights (units,) instead of
        random ones
    """
    directions, outputs = network or teacher_units(rng, dim + bias, units)

    points, weights = directions, outputs
    if feature.joint:  # b(a·x)₊ of (a, b)/√(1+b²) is that of (a, b) over 1+b²
        weights = 1.0 + outputs**2
        points = np.column_stack([directions, outputs]) / np.sqrt(weights)[:, None]
    value = partial(_value, feature, points, weights, bias)
    return partial(_of_teacher, value, dim, classify, margin, tries)


def _value(feature, points, weights, bias, x):
    return weights @ feature.matrix(points, with_bias(x) if bias else x).T


def _of_teacher(value, dim, classify, margin, tries, rng, n):
    inputs = rng.standard_normal((n, dim))
    values = value(inputs)
    if not classify:
        return inputs, values
    for _ in range(tries):
        close = (np.abs(values) < margin) | (values == 0.0)
        if not close.any():
            return inputs, np.sign(values)
        inputs[close] = rng.standard_normal((close.sum(), dim))
        values[close] = value(inputs[close])
    raise ValueError(
        f"The teacher's margin {margin:g} is too large: almost every input is rejected."
    )


def standardization(inputs: Floats, weights: Floats | None = None) -> tuple[Floats, Floats, Floats]:
    """Size, mean and spread of the columns, each (dim,), by which (inputs / size - mean) / spread
    has mean 0 and standard deviation 1.

    weights : (n,) positive, by which rows count; all alike if None
    Raises ConstantColumns, a ValueError.
    """
    sizes = np.abs(inputs).max(axis=0)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    inputs = inputs / sizes  # so that no square overflows
    mean = np.average(inputs, axis=0, weights=weights)
    spread = np.sqrt(np.average((inputs - mean) ** 2, axis=0, weights=weights))
    if len(constant := np.flatnonzero(spread <= 1e-12).tolist()):
        said = f"column {constant[0]} is constant and cannot be standardized"
        raise ConstantColumns(said, constant)
    return sizes, mean, spread


class ConstantColumns(ValueError):
    """Inputs have columns that are constant but for rounding; args : a message and their places."""


def principal_axes(
    inputs: Floats, count: int, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """The mean (dim,) of inputs and the directions (count, dim) of largest variance; each one's
    largest entry is made positive, the first of those that are as large but for rounding.

    weights : (n,) positive, by which rows count; all alike if None
    """
    center = np.average(inputs, axis=0, weights=weights)
    parts = inputs - center if weights is None else (inputs - center) * np.sqrt(weights)[:, None]
    _, _, directions = np.linalg.svd(parts, full_matrices=False)
    directions = directions[:count]
    sizes = np.abs(directions)
    first = np.argmax(sizes >= (1.0 - SAME) * sizes.max(axis=1, keepdims=True), axis=1)
    largest = np.take_along_axis(directions, first[:, None], axis=1)
    return center, directions * np.sign(largest)


def numbered(letter: str, count: int) -> list[str]:
    """Names x₁, x₂, … of so many things."""
    return [letter + str(k).translate(SUBSCRIPTS) for k in range(1, count + 1)]


def axis_names(count: int, bias: bool, outputs: int = 0) -> list[str]:
    """Names of the coordinates of θ: one for each of `count` inputs, the bias, and the output
    weights of θ = (a, b)."""
    output = numbered("output", outputs) if outputs > 1 else ["output"] * outputs
    return numbered("w", count) + ["bias"] * bool(bias) + output


def with_bias(inputs: Floats) -> Floats:
    """Inputs with a column of ones behind."""
    return np.column_stack([inputs, np.ones(len(inputs))])
