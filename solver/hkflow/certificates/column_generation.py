"""The F₁ max-margin over the whole sphere, enclosed: a linear programme on few directions, and a
search for those it lacks."""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from ..arguments import Floats
from ..errors import HkflowError
from ..geometry.point_sets import quasi_uniform
from ..measures.point_measure import PointMeasure, with_each_sign
from ..objectives.objective import Objective
from .certificate import coefficients, others
from .contradiction import contradiction
from .fixed_points import l1_margin
from .global_upper_bound import (
    WORK_OF_MARGIN,
    WORK_OF_RUN,
    enclose,
    is_enclosable,
    nodes_within,
)
from .in_span import span_of_data
from .margin import MaxMargin, Watch, power_above
from .one_class_units import one_class_units
from .search import Peaks, is_searchable, local_maxima

# by number of coordinates: directions of the first programme; 500 beyond
FIRST_POINTS = {2: 64, 3: 256}
FEW = 500  # data
FEW_FOR_UNITS = 1000  # data for whose classes units of their own are looked for: n³, half a second
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
LOST = 1e-14  # of the largest feature of a datum: what rounding may make of its margin
STALLING = 1e-8  # of the largest feature: a gap that rounding may keep from narrowing
STALLED = 10  # rounds in which it has to narrow
LAST = 1.0  # second after the time is up, for the last branch and bound
CLOSE = 0.9  # of the tolerance: what branch and bound may leave of it; rounding needs the rest


def signed_features(objective: Objective, points: Floats, signs: Floats) -> Floats:
    """y_i ε_j φ(θ_j, x_i), (n_data, n_points), for points (n_points, p) and their signs
    (n_points,).

    Of k classes the leads of the own class y_i over each other one, ε (φ_{y_i} − φ_l), l ≠ y_i:
    (n_data · (k − 1), n_points), datum by datum.
    """
    o, k = objective, objective.feature.outputs
    values = signs * o.feature.matrix(points, o.inputs)
    if k == 1:
        return o.targets[:, None] * values
    values = values.reshape(len(o.targets), k, -1)
    own = np.take_along_axis(values, o.targets.astype(int)[:, None, None], axis=1)
    return (own - values)[others(o)]


def _counted_features(objective, points, signs):
    """The same of data that count, those whose weight is not 0."""
    counts = np.repeat(objective.weights > 0.0, max(objective.feature.outputs - 1, 1))
    return signed_features(objective, points, signs)[counts]


def _counted(objective):
    """Which weights p belong to counted features: (n_data,), or (n_data, k) without the own class
    of a datum."""
    counts = objective.weights > 0.0
    return others(objective) & counts[:, None] if objective.feature.outputs > 1 else counts


def _weights(objective, p):
    """Weights p of counted features, by data (n_data,), or (n_data, k)."""
    counted = _counted(objective)
    dual = np.zeros(counted.shape)
    dual[counted] = p
    return dual


def _coefficients(objective, p):
    """c of Σ p z = Σ c φ over the data that count, for weights p of counted features z."""
    c = coefficients(objective, _weights(objective, p))
    return c[np.repeat(objective.weights > 0.0, objective.feature.outputs)]


def max_margin(
    objective: Objective,
    signs: tuple[int, ...] = (1,),
    tolerance: float = 1e-6,
    start: PointMeasure | None = None,
    nodes: int | None = None,
) -> MaxMargin:
    """The max-margin γ_ℓ1 = max_{ν ≥ 0, |ν| = 1} min_i y_i h_ν(x_i) over all measures on the
    sphere, or signed sphere; of units with an output for each class

        γ* = max_{ν ≥ 0, |ν| = 1} min_i min_{l ≠ y_i} (h_{i,y_i} − h_il)
           = min_{p ≥ 0, Σ p = 1} ½ max_{|a| = 1} |Σ_i Σ_l p_il (e_{y_i} − e_l) ψ(a·x_i)|

    (Wei et al., below eq. 2.2), which is γ_ℓ1/√2 for two classes.

    Arguments and errors as of enclosed_max_margin; besides HkflowError if the tolerance is not
    reached where the search is exact. Beyond S², and for several outputs, the interval is as wide
    as `nodes` leave it.
    """
    found = enclosed_max_margin(objective, signs, tolerance, start, nodes=nodes)
    if is_searchable(objective.feature, objective.axes) and not found.reached:
        gap = (found.upper - found.lower) / abs(found.lower or 1.0)
        remedy = (
            f"Take a tolerance of {power_above(gap):g}."
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
    nodes: int | None = None,
    watch: Watch | None = None,
) -> MaxMargin:
    """The max-margin γ_ℓ1 over all measures on the sphere, as closely as asked for, as time allows
    and as rounding lets it be known: `reached` says whether the tolerance was. Data of weight 0 do
    not count.

    objective : its data with labels ±1, or numbers of classes, its feature
    tolerance : relative gap between the two values
    start : a PointMeasure whose directions the first linear programme knows, besides evenly spread
        ones if data are few; a run's heaviest atoms, say
    seconds : after which no linear programme is begun, and the one under way is given up, as are
        climbs; a branch and bound ends a second later
    Directions with local maxima of Σ p_i y_i φ(·, x_i), p the programme's multipliers, are added
    until none is higher than the margin; at most n + 1 atoms carry mass at the end. Beyond S² the
    search knows `one_class_units` from the start.
    nodes : for ReLU beyond S², or of several outputs, cones that each branch and bound looks at, by
        default those of some minutes. There the directions are found by climbs until these find no
        more, and then by branch and bound, whose bound is the upper value: wide if the nodes do not
        suffice, and certified all the same
    watch : function (linear programmes, lower, upper value so far) -> whether to end, called after
        each; upper values of climbs alone are not certified yet
    Returns a MaxMargin, certified on the circle and S², where the search is exact, and for ReLU on
    any sphere.
    Raises ValueError for targets that are no labels, no data or a tolerance that is not finite and
    at least 0; OutOfTime if not even the first linear programme ended in time, HkflowError if it
    could not be solved, unless units of one class each are there. What a later one lacks costs the
    later rounds alone.
    """
    check_labels(objective)
    counts, until = objective.weights > 0.0, time.monotonic() + seconds
    if not 0.0 <= tolerance < np.inf:
        raise ValueError(
            f"The tolerance is a relative gap, finite and at least 0, got {tolerance:g}."
        )
    if span := span_of_data(objective):
        start = None if start is None else span.coordinates(start)
        found = enclosed_max_margin(span.objective, signs, tolerance, start, seconds, nodes, watch)
        return _out_of_span(objective, span, found)
    feature, inputs = objective.feature, objective.inputs[counts]
    by_cones = is_enclosable(feature, objective.axes) and not is_searchable(feature, objective.axes)
    nodes = nodes_within(WORK_OF_MARGIN, inputs) if nodes is None else nodes
    points, point_signs = _first_directions(objective, signs, start)
    known = _Known(tolerance, np.inf if contradiction(objective) is None else 0.0)
    proofs: list = []  # certified bounds beyond S², and their p
    begun, branched = _begun(objective, inputs, signs) if by_cones else None, False
    if begun is not None:
        atoms, bound, p = begun
        points = np.concatenate([points, atoms.positions])
        point_signs = np.concatenate([point_signs, atoms.signs])
        known.begin(_counted_features(objective, atoms.positions, atoms.signs), atoms, bound, p)
        proofs.append((bound, p))
    for round_ in range(MAX_ROUNDS):
        z = _counted_features(objective, points, point_signs)
        try:
            margin = l1_margin(z, until - time.monotonic())
        except HkflowError:  # out of time, or the solver cannot tell: what is known stands
            if known.atoms is None:
                raise
            break
        if len(known.bounds) and (feature.outputs > 1 or begun):
            # where many p are optimal those of the programmes jump about: halfway to the best one
            # known, each round lowers its bound or cuts off the programme's p (Wentges 1997)
            best = known.duals[np.argmin(known.bounds)]
            margin = replace(margin, dual=0.5 * (best + margin.dual))
        carrying, c = margin.weights > 0.0, _coefficients(objective, margin.dual)
        some = c.reshape(len(inputs), -1).any(axis=1)
        own = c[np.repeat(some, feature.outputs)]
        peaks = local_maxima(feature, inputs[some], own, signs, SHARE, points[carrying], until)
        risen = known.add(z, margin, peaks, PointMeasure(points, point_signs, margin.weights))
        higher = peaks.values > margin.value + 0.01 * tolerance * abs(margin.value)
        new, new_signs = peaks.points[higher][:MOST_NEW], peaks.signs[higher][:MOST_NEW]
        ended = known.is_closed or known.is_stalled or len(new) == 0
        if ended and by_cones:
            bound, new, new_signs = enclose(
                feature, inputs, c, signs, nodes, known.enough, until + LAST
            )
            proofs.append((bound, margin.dual))
            ended, branched = len(new) == 0, True
        if watch is not None and watch(round_ + 1, known.value, float(known.value + known.gap)):
            ended, nodes = True, min(nodes, nodes_within(WORK_OF_RUN, inputs))
        if ended or time.monotonic() > until:
            break
        # dropping while the value stands still could go round in a circle; without certainty a
        # direction may not be found again
        if risen and (peaks.certified or by_cones) and margin.value > 0.0:
            least = 1.0 - (USELESS_CLIMBED if by_cones else USELESS)
            useful = carrying | (margin.dual @ z > least * margin.value)
            points, point_signs = points[useful], point_signs[useful]
        points = np.concatenate([points, new])
        point_signs = np.concatenate([point_signs, new_signs])
    lowest = int(np.argmin(known.bounds))
    climbed = upper = known.bounds[lowest]
    dual = known.duals[lowest]
    if by_cones:
        if not branched:
            c = _coefficients(objective, dual)
            bound, *_ = enclose(feature, inputs, c, signs, nodes, known.value, until + LAST)
            proofs.append((bound, dual))
        upper, dual = min(proofs, key=lambda proof: proof[0])
    return _enclosed(
        objective, *(known.atoms, dual, upper, climbed, by_cones or peaks.certified, known.rounds),
        tolerance, NOTHING * known.size,
    )  # fmt: skip


def _begun(objective, inputs, signs):
    """Units of one class each, the bound of their p by the main axes of the data, and p of the data
    that count, whose inputs these are; None for many data, or without such units."""
    units = one_class_units(objective, signs) if len(inputs) <= FEW_FOR_UNITS else None
    if units is None:
        return None
    atoms, p = units[0], units[1][_counted(objective)]
    no_cones = inputs.shape[1]  # too few to cover the space
    bound, *_ = enclose(objective.feature, inputs, _coefficients(objective, p), signs, no_cones)
    return atoms, bound, p


def _out_of_span(objective, span, found):
    """The MaxMargin of the data that one in coordinates of their span is."""
    sizes = np.sqrt(objective.feature_sizes)
    rounding = span.rounding * float(sizes @ found.dual.reshape(len(sizes), -1).sum(axis=1))
    return _enclosed(
        objective, span.measure(found.atoms), found.dual[_counted(objective)],
        found.upper + rounding, found.climbed + rounding, found.certified, found.rounds,
        found.tolerance, found.resolution,
    )  # fmt: skip


def hidden_gap(found: MaxMargin) -> float:
    """Up to what a gap between the two values may be one that rounding keeps from narrowing."""
    return STALLING / NOTHING * found.resolution


class _Known:
    """What the rounds of a search have shown.

    value, atoms : the largest margin, and the measure that has it
    bounds (n_known,), duals (n_known, n_rows) : how high Σ p_i y_i φ goes, and p
    size : of the largest feature;  ceiling : a certified upper value;  rounds : of add
    """

    def __init__(self, tolerance: float, ceiling: float) -> None:
        self.tolerance, self.ceiling = tolerance, ceiling
        self.value, self.size, self.rounds = -np.inf, 0.0, 0
        self.atoms: Any = None
        self.bounds, self.duals = np.zeros(0), np.zeros((0, 0))
        self._narrowest, self._stalled = np.inf, 0

    def begin(self, z: Floats, atoms: PointMeasure, bound: float, p: Floats) -> None:
        """Take what is known before any linear programme: atoms and their features (n_rows,
        n_atoms), a certified bound and its p."""
        self.size, self.ceiling = float(np.abs(z).max()), min(self.ceiling, bound)
        self.value, self.atoms = float((z @ atoms.weights).min()), atoms
        self.bounds, self.duals = np.array([bound]), p[None]

    def add(self, z: Floats, margin: Any, peaks: Peaks, atoms: PointMeasure) -> bool:
        """Add a linear programme on the features z (n_rows, n_points), and what was found for its
        p; whether the largest margin has risen by more than rounding."""
        self.rounds += 1
        self.size = max(self.size, float(np.abs(z).max()))
        self.bounds = np.append(self.bounds, max(peaks.bound, np.max(margin.dual @ z)))
        self.duals = np.vstack([self.duals.reshape(-1, len(z)), margin.dual])
        if not peaks.certified:  # what an earlier search has missed lowers no upper value
            self.bounds = np.maximum(self.bounds, np.max(self.duals @ z, axis=1))
        first = self.atoms is None
        risen = first or margin.value > self.value + 0.01 * self.tolerance * abs(self.value)
        if first or margin.value > self.value:
            self.value, self.atoms = margin.value, atoms
        narrower = self.gap < 0.99 * self._narrowest or self.gap > STALLING * self.size
        self._stalled = 0 if narrower else self._stalled + 1
        self._narrowest = min(self._narrowest, self.gap)
        return risen

    @property
    def gap(self) -> float:
        """How far the lowest bound exceeds the largest margin."""
        return min(self.ceiling, self.bounds.min()) - self.value

    @property
    def is_closed(self) -> bool:
        """Whether the gap is within the tolerance, or the margin none."""
        closed = self.gap + ROUNDING * self.size <= self.tolerance * abs(self.value)
        return closed or max(self.value, self.gap) <= NOTHING * self.size

    @property
    def is_stalled(self) -> bool:
        """Whether rounding seems to keep the gap from narrowing."""
        return self._stalled >= STALLED

    @property
    def enough(self) -> float:
        """A bound so low that the margin counts as known."""
        return max(self.value + CLOSE * self.tolerance * abs(self.value), NOTHING * self.size)


def check_labels(objective: Objective) -> None:
    """Raise ValueError with the remedy if the targets are no labels, or there are no data."""
    if not hasattr(objective, "targets"):
        raise ValueError(
            f"A max-margin is of a hkflow.Objective, got {type(objective).__name__}. That of data"
            " is hkflow.Objective(feature, risk, inputs, targets), that of a problem its objective."
        )
    y = objective.targets
    if len(y) == 0:
        raise ValueError("A max-margin needs data; a population has none, nor have energies alone.")
    if objective.risk.coupled:
        return  # whose targets an objective has checked
    wrong = np.unique(y[~np.isin(y, (1.0, -1.0))])
    if len(wrong):
        few = ", ".join(f"{value:g}" for value in wrong[:3]) + (", …" if len(wrong) > 3 else "")
        raise ValueError(
            f"A max-margin needs labels: targets +1 and -1, got {few}. List the classes in"
            " data.positive and data.negative, give such targets, or set data.classify for a"
            " teacher."
        )


def _enclosed(objective, atoms, dual, upper, climbed, certified, rounds, tolerance, resolution):
    """The MaxMargin whose lower end is the margin of the atoms that carry mass, as they are
    stored. dual : of the data that count"""
    against = contradiction(objective)
    if against is not None and upper > 0.0:
        dual, upper, certified = against.dual[_counted(objective)], 0.0, True
    atoms = PointMeasure(
        *(values[atoms.weights > 0.0] for values in (atoms.positions, atoms.signs, atoms.weights))
    )
    z = _counted_features(objective, atoms.positions, atoms.signs)
    margins = z @ atoms.weights
    lower = float(margins.min())
    if lower > upper + resolution:
        raise HkflowError(
            f"The search is at fault: a margin of {lower} exceeds what it takes for an upper value,"
            f" {upper}."
        )
    upper = max(float(upper), lower)
    climbed = max(min(float(climbed), upper), lower)
    mean, p = dual @ margins, _weights(objective, dual)
    slack = np.array([upper - mean, mean - lower])
    found = MaxMargin(
        lower, upper, climbed, atoms, p, certified, rounds, slack, tolerance, resolution
    )
    if not found.is_positive and (least := _beyond_rounding(objective, margins)) > 0.0:
        # rounding of the features of another datum hides nothing
        return replace(found, resolution=min(resolution, 0.5 * least))
    return found


def _beyond_rounding(objective, margins):
    """The smallest of some margins of data that count, less what rounding may make of it; -inf
    where the size of features is not known."""
    feature = objective.feature
    if feature.degree is None or (feature.activation is None and feature.ridge is None):
        return -np.inf
    lengths = np.linalg.norm(objective.inputs[objective.weights > 0.0], axis=1)
    sizes = feature.steepness * np.maximum(lengths, lengths**feature.degree)
    return float((margins - LOST * np.repeat(sizes, max(feature.outputs - 1, 1))).min())


def _first_directions(objective, signs, start):
    """Evenly spread directions (n, p) with each sign, and those of `start`; these alone for many
    data, whose linear programmes take long."""
    if start is not None and len(objective.targets) > FEW:
        return start.positions, start.signs
    axes = objective.axes
    even = quasi_uniform(FIRST_POINTS.get(axes, 500), axes - 1)
    points, point_signs = with_each_sign(even, signs)
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
    check_labels(objective)
    points, point_signs = with_each_sign(points, signs)
    z = _counted_features(objective, points, point_signs)
    margin = l1_margin(z, seconds)
    upper = np.max(margin.dual @ z)
    return _enclosed(
        objective,
        PointMeasure(points, point_signs, margin.weights),
        margin.dual,
        upper,
        upper,
        True,
        1,
        tolerance,
        NOTHING * float(np.abs(z).max()),
    )
