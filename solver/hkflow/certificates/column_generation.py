"""The F₁ max-margin over the whole sphere, enclosed: a linear programme on few directions, and a
search for those it lacks."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arguments import Floats
from ..errors import HkflowError
from ..geometry.point_sets import quasi_uniform
from ..measures.point_measure import PointMeasure
from ..objectives.objective import Objective
from .certificate import slackness
from .contradiction import contradiction
from .fixed_points import l1_margin
from .search import local_maxima

# by number of coordinates: directions of the first programme; 500 beyond
FIRST_POINTS = {2: 64, 3: 256}
SHARE = 0.9  # of the highest: peaks so high are added with it
MOST_NEW = 200
MAX_ROUNDS = 200
# of a positive margin: directions that p puts so far below the highest leave the programme
USELESS = 0.05
# of the largest feature: a gap that counts as none; nothing else ends where the margin is zero
NOTHING = 1e-11


@dataclass(frozen=True, eq=False)
class MaxMargin:
    """The max-margin γ_ℓ1 = max over probabilities ν of min_i y_i h_ν(x_i), and its proof lower ≤
    γ_ℓ1 ≤ upper.

    lower : the margin of `atoms`, a probability;  upper : max over the sphere of Σ p_i y_i φ(·,
        x_i), p = dual (n,) in the
    simplex, rounding included;  certified : whether that maximum is one of the whole sphere, or
    only the highest that was found, by climbs for p and among all directions that were ever added;
    nothing proves γ_ℓ1 ≤ upper then
    rounds : linear programmes that were solved
    slackness : (2,) ∫(upper − Σ p_i y_i φ) dν and Σ p_i (y_i h_ν(x_i) − lower), whose sum is upper
        − lower (Chizat & Bach 2020, Prop. 12)
    """

    lower: float
    upper: float
    atoms: PointMeasure
    dual: Floats
    certified: bool
    rounds: int
    slackness: Floats

    @property
    def relative_gap(self) -> float:
        """(upper − lower)/|lower|, inf for a margin of zero."""
        return (self.upper - self.lower) / abs(self.lower) if self.lower else np.inf


def signed_features(objective: Objective, points: Floats, signs: Floats) -> Floats:
    """y_i ε_j φ(θ_j, x_i), (n_data, n_points), for points (n_points, p) and their signs
    (n_points,)."""
    return objective.targets[:, None] * signs * objective.feature.matrix(points, objective.inputs)


def max_margin(
    objective: Objective,
    signs: tuple[int, ...] = (1,),
    tolerance: float = 1e-6,
    start: PointMeasure | None = None,
) -> MaxMargin:
    """The max-margin γ_ℓ1 = max_{ν ≥ 0, |ν| = 1} min_i y_i h_ν(x_i) over all measures on the
    sphere, or signed sphere.

    objective : its data with labels ±1, its feature;  tolerance : relative gap between the two
        values
    start : a PointMeasure whose directions the first linear programme knows, besides evenly spread
        ones; a run's peaks, say
    Directions with local maxima of Σ p_i y_i φ(·, x_i), p the programme's multipliers, are added
    until none is higher than the margin; at most n + 1 atoms carry mass at the end.
    Returns a MaxMargin, certified on the circle and S², where the search is exact.
    Raises ValueError for targets other than ±1, no data or a tolerance that is not finite and at
    least 0; HkflowError if the tolerance is not reached where it can be certified.
    """
    y = checked_labels(objective)
    if not 0.0 <= tolerance < np.inf:
        raise ValueError(
            f"The tolerance is a relative gap, finite and at least 0, got {tolerance:g}."
        )
    points, point_signs = _first_directions(objective, signs, start)
    bounds, duals = np.zeros(0), np.zeros((0, len(y)))
    best: Any = None  # the largest margin, and atoms that have it
    known = np.inf if contradiction(objective) is None else 0.0
    for round_ in range(1, MAX_ROUNDS + 1):  # noqa: B007
        z = signed_features(objective, points, point_signs)
        margin = l1_margin(z)
        found = local_maxima(
            objective.feature,
            objective.inputs,
            margin.dual * y,
            signs,
            SHARE,
            points[margin.weights > 0.0],
        )
        bounds, duals = (
            np.append(bounds, max(found.bound, np.max(margin.dual @ z))),
            np.vstack([duals, margin.dual]),
        )
        if not found.certified:  # what an earlier search has missed lowers no upper value
            bounds = np.maximum(bounds, np.max(duals @ z, axis=1))
        risen = best is None or margin.value > best[0] + 0.01 * tolerance * abs(best[0])
        if best is None or margin.value > best[0]:
            best = margin.value, PointMeasure(points, point_signs, margin.weights)
        done = (
            min(known, bounds.min()) - best[0]
            <= tolerance * abs(best[0]) + NOTHING * np.abs(z).max()
        )
        fresh = found.values > margin.value + 0.01 * tolerance * abs(margin.value)
        if done or not fresh.any():
            break
        useful = (margin.weights > 0.0) | (margin.dual @ z > (1.0 - USELESS) * margin.value)
        # dropping while the value stands still could go round in a circle; without certainty a
        # direction may not be found again
        useful |= not (risen and found.certified) or margin.value <= 0.0
        points = np.concatenate([points[useful], found.points[fresh][:MOST_NEW]])
        point_signs = np.concatenate([point_signs[useful], found.signs[fresh][:MOST_NEW]])
    lowest = int(np.argmin(bounds))
    if found.certified and not done:
        gap = (bounds[lowest] - best[0]) / abs(best[0] or 1.0)
        remedy = (
            f"Give a larger one: --tolerance {10.0 ** np.ceil(np.log10(gap)):g}."
            if best[0] > 0.0 and gap < 1.0
            else ""
        )
        raise HkflowError(
            f"The max-margin lies in [{best[0]}, {bounds[lowest]}], which is wider than the"
            f" tolerance {tolerance:g} after {round_} rounds."
            f" {remedy or 'The data are not separable by more than linear programmes can tell.'}"
        )
    return _enclosed(objective, best[1], duals[lowest], bounds[lowest], found.certified, round_)


def checked_labels(objective: Objective) -> Floats:
    """The targets, if they are labels. Raises ValueError with the remedy if not, or if there are no
    data."""
    y = objective.targets
    if len(y) == 0:
        raise ValueError("A max-margin needs data; a population has none.")
    wrong = np.unique(y[~np.isin(y, (1.0, -1.0))])
    if len(wrong):
        few = ", ".join(f"{value:g}" for value in wrong[:3]) + (", …" if len(wrong) > 3 else "")
        raise ValueError(
            f"A max-margin needs labels: targets +1 and -1, got {few}. List the classes in"
            " data.positive and data.negative, give such targets, or set data.classify for a"
            " teacher."
        )
    return y


def _enclosed(objective, atoms, dual, upper, certified, rounds):
    """The MaxMargin whose lower end is the margin of the atoms that carry mass, as they are
    stored."""
    against = contradiction(objective)
    if against is not None and upper > 0.0:
        dual, upper, certified = against.dual, 0.0, True
    atoms = PointMeasure(
        *(values[atoms.weights > 0.0] for values in (atoms.positions, atoms.signs, atoms.weights))
    )
    z = signed_features(objective, atoms.positions, atoms.signs)
    margins = z @ atoms.weights
    lower = float(margins.min())
    if lower > upper + NOTHING * np.abs(z).max():
        raise HkflowError(
            f"The search is at fault: a margin of {lower} exceeds what it takes for an upper value,"
            f" {upper}."
        )
    upper = max(float(upper), lower)
    return MaxMargin(lower, upper, atoms, dual, certified, rounds, slackness(margins, dual, upper))


def _first_directions(objective, signs, start):
    """Evenly spread directions (n, p) with each sign, and those of `start`."""
    axes = objective.axes
    even = quasi_uniform(FIRST_POINTS.get(axes, 500), axes - 1)
    points, point_signs = (
        np.tile(even, (len(signs), 1)),
        np.repeat(np.asarray(signs, dtype=float), len(even)),
    )
    if start is None:
        return points, point_signs
    return np.concatenate([points, start.positions]), np.concatenate([point_signs, start.signs])


def max_margin_of_atoms(
    objective: Objective, points: Floats, signs: tuple[int, ...] = (1,)
) -> MaxMargin:
    """The max-margin over probabilities on fixed points (n_points, p) with each of the signs: one
    linear programme.

    Returns a MaxMargin, certified.   Raises ValueError for targets other than ±1 or no data,
                                      HkflowError as l1_margin.
    """
    checked_labels(objective)
    points, point_signs = (
        np.tile(points, (len(signs), 1)),
        np.repeat(np.asarray(signs, dtype=float), len(points)),
    )
    z = signed_features(objective, points, point_signs)
    margin = l1_margin(z)
    return _enclosed(
        objective,
        PointMeasure(points, point_signs, margin.weights),
        margin.dual,
        np.max(margin.dual @ z),
        True,
        1,
    )
