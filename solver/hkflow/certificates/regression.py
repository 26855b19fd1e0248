"""The measure of least mass that takes given values at the data, over the whole sphere, between its
mass and a proof:

    min |ν| subject to h_ν(x_i) = y_i  =  max Σ_i s_i y_i subject to G_s(θ, ε) = ε Σ_i s_i φ(θ, x_i)
    ≤ 1 everywhere

It is where the regularised square risk tends as λ → 0. What a small λ leaves of the data is added
to the targets, and again (Bregman's iteration, the augmented Lagrangian of the equations), so that
λ need not be zero and no programme is degenerate.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..arguments import Floats
from ..errors import HkflowError
from ..measures.point_measure import PointMeasure
from ..objectives.losses import RISKS
from ..objectives.objective import Objective
from .in_span import span_of_data
from .regularised import check_is_of_data, minimise
from .search import is_searchable

SMALL = 1e-12  # λ in units of max |y| max φ: to this order the first measure misses the data
EXACT = 1e-9  # of max |y|: data that are met as well are interpolated
MOST = 10


@dataclass(frozen=True, eq=False)
class LeastMass:
    """A measure ν that interpolates, and a proof that no lighter one does: lower ≤ least mass,
    upper = |ν| + max(Σ s_i (y_i − h_i), 0), to first order the mass that meets what ν misses of the
    data; lower ≤ upper.

    atoms : ν;  residual : max |h_i − y_i| / max |y|, at most EXACT
    dual : (n_data,) s with G_s ≤ 1, lower = Σ s_i y_i
    certified : whether G_s ≤ 1 was proved on the whole sphere and upper − lower ≤ tolerance · upper
    """

    atoms: PointMeasure
    dual: Floats
    lower: float
    upper: float
    residual: float
    certified: bool

    @property
    def gap(self) -> float:
        """(upper − lower)/upper."""
        return (self.upper - self.lower) / self.upper if self.upper > 0.0 else 0.0


def l1_interpolation(
    objective: Objective, signs: tuple[int, ...] = (1,), tolerance: float = 1e-6
) -> LeastMass:
    """The least |ν| with ∫ε φ(θ, x_i) dν = y_i for all data, over nonnegative measures on the
    (signed) sphere.

    objective : its feature, inputs and targets, of any risk;  signs : the output signs ε;
        tolerance : relative gap
    Returns a LeastMass.   Raises HkflowError if no measure that meets the data is found,
    ValueError for a Sum, signs other than 1 and −1 and a tolerance that is not positive.
    Source: Wei et al. 2019, sec. D.3 (regression); Osher et al. 2005 for the iteration.
    """
    check_is_of_data(objective)
    y, size = objective.targets, np.abs(objective.targets).max()
    decay = SMALL * (size or 1.0) * (objective.largest_feature or 1.0)
    square = Objective(objective.feature, RISKS["square"], objective.inputs, y, weight_decay=decay)
    target, found = y, minimise(square, signs, 0.1 * tolerance)
    for _ in range(MOST):
        missing = y - found.predictions
        atoms, residual = _corrected(square, found.atoms, missing)
        residual = residual / size if size else 0.0
        if residual <= EXACT:
            break
        target = target + missing
        found = minimise(replace(square, targets=target), signs, 0.1 * tolerance, found)
    else:
        atoms, residual = _completed(square, signs, atoms, 0.1 * tolerance)
    if residual > EXACT:
        raise HkflowError(
            f"No measure was found that meets all {len(y)} data: the nearest misses by"
            f" {residual:.1e} max|y|. Two data with one input and different targets, or features"
            " with too few signs, have none."
        )
    owed = float(found.dual @ (y - _met(objective, atoms)))  # Σ s_i h_i ≤ |ν|
    lower, upper = float(found.dual @ y), atoms.mass + max(owed, 0.0)
    span = span_of_data(objective)  # where `minimise` searches
    proved = is_searchable(objective.feature, (span.objective if span else objective).axes)
    close = upper - lower <= tolerance * upper
    return LeastMass(atoms, found.dual, lower, upper, residual, proved and close)


def _completed(objective, signs, atoms, tolerance):
    """The atoms and the lightest measure that makes up for what they miss of the targets, and max
    |what both miss| / max |y|: where changed weights alone would not do."""
    size, missing = np.abs(objective.targets).max(), objective.targets - _met(objective, atoms)
    share = np.abs(missing).max() / size
    rest = replace(objective, targets=missing, weight_decay=share * objective.weight_decay)
    more = minimise(rest, signs, tolerance)
    parts = (
        np.concatenate([getattr(part, name) for part in (atoms, more.atoms)])
        for name in ("positions", "signs", "weights")
    )
    both = PointMeasure(*parts)
    return both, np.abs(objective.targets - _met(objective, both)).max() / size


def _met(objective, atoms):
    """(n_data,) h_i."""
    matrix = objective.feature.matrix(atoms.positions, objective.inputs)
    return matrix @ (atoms.signs * atoms.weights)


def _corrected(objective, atoms, missing):
    """The same atoms with weights that change by as little as possible and make up for what is
    missing, and max |what still is|.

    Changes δ with Σ_j ε_j φ(θ_j, x_i) δ_j = missing_i of least Σ δ_j²/weight_j; atoms as they are
    if a weight would be negative.
    """
    A, root = (
        objective.feature.matrix(atoms.positions, objective.inputs) * atoms.signs,
        np.sqrt(atoms.weights),
    )
    weights = atoms.weights + root * np.linalg.lstsq(A * root, missing, rcond=None)[0]
    rest = np.abs(missing - A @ (weights - atoms.weights)).max()
    if weights.min(initial=0.0) < 0.0 or rest > np.abs(missing).max():
        return atoms, np.abs(missing).max()
    return PointMeasure(atoms.positions, atoms.signs, weights), rest
