"""The F₁ max-margin over the whole sphere, enclosed: a linear programme on few directions, and a search for those it lacks."""

from dataclasses import dataclass

import numpy as np

from ..errors import HkflowError
from ..measures import Atoms
from ..point_sets import quasi_uniform
from .certificate import slackness
from .fixed_points import l1_margin
from .search import peaks

FIRST_POINTS = {2: 64, 3: 256}  # by number of coordinates: directions of the first programme; 500 beyond
SHARE = 0.9  # of the highest: peaks so high are added with it
MOST_NEW = 200
MAX_ROUNDS = 200
USELESS = 0.05  # of a positive margin: directions that p puts so far below the highest leave the programme
NOTHING = 1e-11  # of the largest feature: a gap that counts as none; nothing else ends where the margin is zero


@dataclass(frozen=True, eq=False)
class MaxMargin:
    """The max-margin γ_ℓ1 = max over probabilities ν of min_i y_i h_ν(x_i), and its proof lower ≤ γ_ℓ1 ≤ upper.

    lower : the margin of `atoms`, a probability;  upper : max over the sphere of Σ p_i y_i φ(·, x_i), p = dual (n,) in the
    simplex;  certified : whether that maximum is one of the whole sphere, or only the highest that was found
    rounds : linear programmes that were solved
    slackness : (2,) ∫(upper − Σ p_i y_i φ) dν and Σ p_i (y_i h_ν(x_i) − lower), whose sum is upper − lower
        (Chizat & Bach 2020, Prop. 12)
    """

    lower: float
    upper: float
    atoms: Atoms
    dual: np.ndarray
    certified: bool
    rounds: int
    slackness: np.ndarray

    @property
    def relative_gap(self):
        """(upper − lower)/|lower|, inf for a margin of zero."""
        return (self.upper - self.lower) / abs(self.lower) if self.lower else np.inf


def signed_features(objective, points, signs):
    """y_i ε_j φ(θ_j, x_i), (n_data, n_points), for points (n_points, p) and their signs (n_points,)."""
    return objective.targets[:, None] * signs * objective.feature.matrix(points, objective.inputs)


def max_margin(objective, signs=(1,), tolerance=1e-6, start=None):
    """The max-margin γ_ℓ1 = max_{ν ≥ 0, |ν| = 1} min_i y_i h_ν(x_i) over all measures on the sphere, or signed sphere.

    objective : its data with labels ±1, its feature;  tolerance : relative gap between the two values
    start : Atoms whose directions the first linear programme knows, besides evenly spread ones; a run's peaks, say
    Directions with local maxima of Σ p_i y_i φ(·, x_i), p the programme's multipliers, are added until none is higher than
    the margin; at most n + 1 atoms carry mass at the end.
    Returns a MaxMargin, certified on the circle and S², where the search is exact.
    Raises ValueError for targets other than ±1, HkflowError if the tolerance is not reached where it can be certified.
    """
    y = objective.targets
    if not np.isin(y, (1.0, -1.0)).all():
        raise ValueError("A max-margin needs labels: targets +1 and -1.")
    points, point_signs = _first_directions(objective, signs, start)
    upper, best_dual, best = np.inf, None, None
    for round_ in range(1, MAX_ROUNDS + 1):
        z = signed_features(objective, points, point_signs)
        margin = l1_margin(z)
        found = peaks(objective.feature, objective.inputs, margin.dual * y, signs, SHARE)
        bound = max(found.bound, float(np.max(margin.dual @ z)))  # a search without certainty may miss what is known
        if bound < upper:
            upper, best_dual = bound, margin.dual
        risen = best is None or margin.value > best[0] + 0.01 * tolerance * abs(best[0])
        if best is None or margin.value > best[0]:
            best = margin.value, Atoms(points, point_signs, margin.weights)
        done = upper - best[0] <= tolerance * abs(best[0]) + NOTHING * np.abs(z).max()
        fresh = found.values > margin.value + 0.01 * tolerance * abs(margin.value)
        if done or not fresh.any():
            break
        useful = (margin.weights > 0.0) | (margin.dual @ z > (1.0 - USELESS) * margin.value)
        useful |= not risen or margin.value <= 0.0  # dropping while the value stands still could go round in a circle
        points = np.concatenate([points[useful], found.points[fresh][:MOST_NEW]])
        point_signs = np.concatenate([point_signs[useful], found.signs[fresh][:MOST_NEW]])
    if found.certified and not done:
        raise HkflowError(
            f"The max-margin lies in [{best[0]}, {upper}], which is wider than the tolerance {tolerance:g} after {round_} rounds."
        )
    lower, atoms = best
    atoms = Atoms(*(values[atoms.weights > 0.0] for values in (atoms.positions, atoms.signs, atoms.weights)))
    margins = signed_features(objective, atoms.positions, atoms.signs) @ atoms.weights
    return MaxMargin(lower, upper, atoms, best_dual, found.certified, round_, slackness(margins, best_dual, upper))


def _first_directions(objective, signs, start):
    """Evenly spread directions (n, p) with each sign, and those of `start`."""
    axes = objective.axes
    even = quasi_uniform(FIRST_POINTS.get(axes, 500), axes - 1)
    points, point_signs = np.tile(even, (len(signs), 1)), np.repeat(np.asarray(signs, dtype=float), len(even))
    if start is None:
        return points, point_signs
    return np.concatenate([points, start.positions]), np.concatenate([point_signs, start.signs])


def max_margin_of_atoms(objective, points, signs=(1,)):
    """The max-margin over probabilities on fixed points (n_points, p) with each of the signs: one linear programme.

    Returns a MaxMargin, certified.   Raises ValueError and HkflowError as l1_margin.
    """
    points, point_signs = np.tile(points, (len(signs), 1)), np.repeat(np.asarray(signs, dtype=float), len(points))
    z = signed_features(objective, points, point_signs)
    margin = l1_margin(z)
    carrying = margin.weights > 0.0
    atoms = Atoms(points[carrying], point_signs[carrying], margin.weights[carrying])
    upper = float(np.max(margin.dual @ z))
    return MaxMargin(margin.value, upper, atoms, margin.dual, True, 1, slackness(z @ margin.weights, margin.dual, upper))
