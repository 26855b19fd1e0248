"""Data that no measure classifies, whatever its units: they prove by themselves that no margin is
positive."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..arguments import Floats, Integers
from ..geometry.rows import unique_rows
from ..objectives.objective import Objective
from ..operators.dense import SQUARED_RELU
from ..remembered import remembered


@dataclass(frozen=True, eq=False)
class Contradiction:
    """One or two data, and weights p in the simplex, (n_data,), with Σ p_i y_i φ(θ, x_i) = 0 for
    every θ: so γ_ℓ1 ≤ 0. Of k classes p is (n_data, k), and Σ_i Σ_l p_il (φ_{y_i} − φ_l) = 0.

    data : their numbers, from 0, two with opposite labels;  parallel : whether the inputs are not
        equal, but x_i = c x_j, c > 0
    """

    data: tuple
    dual: Floats
    parallel: bool

    def sentence(self, lines: Sequence[int] | Integers | None = None) -> str:
        """What is wrong with which data; lines : (n_data,) of the file that they stand in, else
        they are counted from 1."""
        numbers = " and ".join(str(lines[k] if lines is not None else k + 1) for k in self.data)
        many = "s" if len(self.data) > 1 else ""
        which = (
            f"line{many} {numbers} of the data file"
            if lines is not None
            else f"row{many} {numbers} of the data"
        )
        if not many:
            return f"{which} holds the input 0, where every unit is 0"
        inputs = "parallel inputs" if self.parallel else "one input"
        return f"{which} hold {inputs} with {'both' if self.dual.ndim == 1 else 'two'} labels"


@remembered(most=8)
def contradiction(objective: Objective) -> Contradiction | None:
    """The first Contradiction in an objective's data that count, or None.

    The built-in features, and those with `pieces`, are homogeneous of degree k in x: with x_i = c
    x_j and opposite labels p_i ∝ 1 and p_j ∝ c^k balance each other, and an input 0 needs no other.
    Inputs count as parallel if they are so exactly, as rational numbers.
    """
    labels = objective.targets
    if not (len(labels) and (objective.risk.coupled or (np.abs(labels) == 1.0).all())):
        return None
    numbers = np.flatnonzero(objective.weights > 0.0)
    inputs, y, built_in = (
        objective.inputs[numbers],
        objective.targets[numbers],
        objective.feature.activation is not None or objective.feature.pieces is not None,
    )
    sizes = np.abs(inputs).max(axis=1) if built_in else np.ones(len(inputs))
    if not sizes.all():
        return _between(objective, numbers[[sizes.argmin()]], np.ones(1))
    # of parallel inputs the same to the last bit
    first_of, group = unique_rows(inputs / sizes[:, None])
    mixed = np.bincount(group, y != y[first_of][group])
    suspects = np.flatnonzero(mixed[group])
    seen: dict = {}
    for k in suspects.tolist():
        largest = Fraction(float(sizes[k]))
        exactly = tuple(Fraction(float(value)) / largest for value in inputs[k])
        first = seen.setdefault(exactly, k)
        if y[first] != y[k]:
            size = sizes[[k, first]] / max(sizes[first], sizes[k])
            parts = size**2 if objective.feature.activation == SQUARED_RELU else size
            parallel = bool((inputs[first] != inputs[k]).any())
            return _between(objective, numbers[[first, k]], parts / parts.sum(), parallel)
    return None


def _between(objective, data, p, parallel=False):
    """Of several classes p stands at the class of the other datum, or at any other."""
    n, k, y = len(objective.targets), objective.feature.outputs, objective.targets[data]
    dual = np.zeros(n if k == 1 else (n, k))
    other = y[::-1] if len(data) > 1 else (y + 1) % k
    dual[data if k == 1 else (data, other.astype(int))] = p
    return Contradiction(tuple(data.tolist()), dual, parallel)
