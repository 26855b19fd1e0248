"""The F₁ max-margin over the whole sphere, enclosed: a linear programme on few directions, and a
search for those it lacks."""

import time
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
from .global_upper_bound import NODES, enclose, is_enclosable
from .margin import MaxMargin, OutOfTime, power_above
from .search import is_searchable, local_maxima

# by number of coordinates: directions of the first programme; 500 beyond
FIRST_POINTS = {2: 64, 3: 256}
FEW = 500  # data
SHARE = 0.9  # of the highest: peaks so high are added with it
MOST_NEW = 200
MAX_ROUNDS = 200
# of a positive margin: directions that p puts so far below the highest leave the programme
USELESS = 0.05
USELESS_CLIMBED = 0.5  # the same where directions are found by climbs, which may miss them later
# of the largest feature: a margin, and then a gap, that counts as none; nothing else ends where the
# margin is zero
NOTHING = 1e-11
ROUNDING = 1e-15  # of the largest feature: by which the ends may still move as they are stored
STALLING = 1e-8  # of the largest feature: a gap that rounding may keep from narrowing
STALLED = 10  # rounds in which it has to narrow
CLOSE = 0.9  # of the tolerance: what branch and bound may leave of it; rounding needs the rest


def signed_features(objective: Objective, points: Floats, signs: Floats) -> Floats:
    """y_i ε_j φ(θ_j, x_i), (n_data, n_points), for points (n_points, p) and their signs
    (n_points,)."""
    return objective.targets[:, None] * signs * objective.feature.matrix(points, objective.inputs)


def max_margin(
    objective: Objective,
    signs: tuple[int, ...] = (1,),
    tolerance: float = 1e-6,
    start: PointMeasure | None = None,
    nodes: int = NODES,
) -> MaxMargin:
    """The max-margin γ_ℓ1 = max_{ν ≥ 0, |ν| = 1} min_i y_i h_ν(x_i) over all measures on the
    sphere, or signed sphere.

    Arguments and errors as of enclosed_max_margin; besides HkflowError if the tolerance is not
    reached where the search is exact. Beyond S² the interval is as wide as `nodes` leave it.
    """
    found = enclosed_max_margin(objective, signs, tolerance, start, nodes=nodes)
    if is_searchable(objective.feature, objective.axes) and not found.reached:
        gap = (found.upper - found.lower) / abs(found.lower or 1.0)
        remedy = (
            f"Give a larger one: --tolerance {power_above(gap):g}."
            if found.is_positive
            else "The data are not separable by more than linear programmes can tell."
        )
        raise HkflowError(
            f"The max-margin lies in [{found.lower}, {found.upper}], which is wider than the"
            f" tolerance {tolerance:g} after {found.rounds} rounds. {remedy}"
        )
    return found


def enclosed_max_margin(
    objective: Objective,
    signs: tuple[int, ...] = (1,),
    tolerance: float = 1e-6,
    start: PointMeasure | None = None,
    seconds: float = np.inf,
    nodes: int = NODES,
) -> MaxMargin:
    """The max-margin γ_ℓ1 over all measures on the sphere, as closely as asked for, as time allows
    and as rounding lets it be known: `reached` says whether the tolerance was.

    objective : its data with labels ±1, its feature;  tolerance : relative gap between the two
        values
    start : a PointMeasure whose directions the first linear programme knows, besides evenly spread
        ones if data are few; a run's heaviest atoms, say
    seconds : after which no linear programme is begun, and the one under way is given up
    Directions with local maxima of Σ p_i y_i φ(·, x_i), p the programme's multipliers, are added
    until none is higher than the margin; at most n + 1 atoms carry mass at the end.
    nodes : for ReLU beyond S², cones that each branch and bound looks at. There the directions are
        found by climbs until these find no more, and then by branch and bound, whose bound is the
        upper value: wide if the nodes do not suffice, and certified all the same
    Returns a MaxMargin, certified on the circle and S², where the search is exact, and for ReLU on
    any sphere.
    Raises ValueError for targets other than ±1, no data or a tolerance that is not finite and at
    least 0; OutOfTime if not even the first linear programme ended in time.
    """
    y, until = checked_labels(objective), time.monotonic() + seconds
    if not 0.0 <= tolerance < np.inf:
        raise ValueError(
            f"The tolerance is a relative gap, finite and at least 0, got {tolerance:g}."
        )
    points, point_signs = _first_directions(objective, signs, start)
    bounds, duals = np.zeros(0), np.zeros((0, len(y)))
    best: Any = None  # the largest margin, and atoms that have it
    known = np.inf if contradiction(objective) is None else 0.0
    size, narrowest, stalled = 0.0, np.inf, 0
    feature, inputs = objective.feature, objective.inputs
    climbs = is_enclosable(feature, objective.axes) and not is_searchable(feature, objective.axes)
    proofs: list = []  # where climbs find the directions: bounds by branch and bound, and their p
    for round_ in range(1, MAX_ROUNDS + 1):
        z = signed_features(objective, points, point_signs)
        try:
            margin = l1_margin(z, until - time.monotonic())
        except OutOfTime:
            if best is None:
                raise
            break
        rounds, some, size = round_, margin.dual > 0.0, max(size, float(np.abs(z).max()))
        found = local_maxima(
            feature,
            inputs[some],
            (margin.dual * y)[some],
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
        gap = min(known, bounds.min()) - best[0]
        done = gap + ROUNDING * size <= tolerance * abs(best[0]) or (
            max(best[0], gap) <= NOTHING * size
        )
        stalled = 0 if gap < 0.99 * narrowest or gap > STALLING * size else stalled + 1
        narrowest = min(narrowest, gap)
        fresh = found.values > margin.value + 0.01 * tolerance * abs(margin.value)
        new, new_signs = found.points[fresh][:MOST_NEW], found.signs[fresh][:MOST_NEW]
        ended = done or not fresh.any() or stalled >= STALLED
        if ended and climbs:
            enough = max(best[0] + CLOSE * tolerance * abs(best[0]), NOTHING * size)
            coefficients = margin.dual * y
            bound, new, new_signs = enclose(feature, inputs, coefficients, signs, nodes, enough)
            proofs.append((bound, margin.dual))
            ended = len(new) == 0
        if ended or time.monotonic() > until:
            break
        useless = USELESS_CLIMBED if climbs else USELESS
        useful = (margin.weights > 0.0) | (margin.dual @ z > (1.0 - useless) * margin.value)
        # dropping while the value stands still could go round in a circle; without certainty a
        # direction may not be found again
        useful |= not (risen and (found.certified or climbs)) or margin.value <= 0.0
        points = np.concatenate([points[useful], new])
        point_signs = np.concatenate([point_signs[useful], new_signs])
    lowest = int(np.argmin(bounds))
    upper, dual = bounds[lowest], duals[lowest]
    if climbs:
        if not proofs:
            proofs = [(enclose(feature, inputs, dual * y, signs, nodes, best[0])[0], dual)]
        upper, dual = min(proofs, key=lambda proof: proof[0])
    return _enclosed(
        objective, *(best[1], dual, upper, found.certified or climbs, rounds),
        tolerance, NOTHING * size,
    )  # fmt: skip


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


def _enclosed(objective, atoms, dual, upper, certified, rounds, tolerance, resolution):
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
    if lower > upper + resolution:
        raise HkflowError(
            f"The search is at fault: a margin of {lower} exceeds what it takes for an upper value,"
            f" {upper}."
        )
    upper = max(float(upper), lower)
    slack = slackness(margins, dual, upper)
    return MaxMargin(lower, upper, atoms, dual, certified, rounds, slack, tolerance, resolution)


def _first_directions(objective, signs, start):
    """Evenly spread directions (n, p) with each sign, and those of `start`; these alone for many
    data, whose linear programmes take long."""
    if start is not None and len(objective.targets) > FEW:
        return start.positions, start.signs
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
    objective: Objective,
    points: Floats,
    signs: tuple[int, ...] = (1,),
    tolerance: float = 1e-6,
    seconds: float = np.inf,
) -> MaxMargin:
    """The max-margin over probabilities on fixed points (n_points, p) with each of the signs: one
    linear programme.

    tolerance : relative gap, for `reached`;  seconds : that the programme may take at most
    Returns a MaxMargin, certified.   Raises ValueError for targets other than ±1 or no data,
                                      OutOfTime and HkflowError as l1_margin.
    """
    checked_labels(objective)
    points, point_signs = (
        np.tile(points, (len(signs), 1)),
        np.repeat(np.asarray(signs, dtype=float), len(points)),
    )
    z = signed_features(objective, points, point_signs)
    margin = l1_margin(z, seconds)
    return _enclosed(
        objective,
        PointMeasure(points, point_signs, margin.weights),
        margin.dual,
        np.max(margin.dual @ z),
        True,
        1,
        tolerance,
        NOTHING * float(np.abs(z).max()),
    )
