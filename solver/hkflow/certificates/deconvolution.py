"""The certificate of sparse deconvolution: the dual polynomial η(θ) = −Σ_i ∂_i R(h) φ(θ, x_i).

ν minimises R(∫φ dν) + λ|ν| over measures ν ≥ 0 exactly if η ≤ λ, with equality on its support (de
Castro & Gamboa 2012; Chizat 2022).
"""

from dataclasses import dataclass

import numpy as np

from ..arguments import Floats
from ..measures.point_measure import PointMeasure
from ..objectives.objective import Objective

SAMPLES = 2**16
ROUNDING = 1e-15  # of the largest coefficient: smaller ones are not told from none
# of the mass: what lies elsewhere than at spikes; less where spikes as heavy are not all there are
LIGHT = 1e-3, 1e-5
SOLVED = 1e-9  # of λ: residuals of the conditions
ENCLOSED = 1e-5  # of λ: how far above it the bound of η may be


@dataclass(frozen=True)
class Spikes:
    """Spikes at which η = λ and η′ = 0.

    angles, masses : (n_spikes,), by angle between 0 and 2π
    lower, upper : max η between a value and a bound, see `dual_polynomial`
    weight_decay : λ
    """

    angles: Floats
    masses: Floats
    lower: float
    upper: float
    weight_decay: float

    @property
    def certified(self) -> bool:
        """Whether η ≤ (1 + ENCLOSED) λ: then no measure is better by more than ENCLOSED λ|ν|."""
        return bool(self.upper <= self.weight_decay * (1.0 + ENCLOSED))

    def __str__(self) -> str:
        angles, masses = (", ".join(f"{x:.9g}" for x in y) for y in (self.angles, self.masses))
        highest = f"max η/λ = {self.upper / self.weight_decay:.9g} at most"
        found = f"θ = {angles}; masses {masses}" if len(self.angles) else "none, ν = 0 is best"
        return f"{found}; {highest}"


def spikes(objective: Objective, start: PointMeasure) -> Spikes:
    """The spikes Σ_k m_k δ_θk next to a measure that satisfy the conditions of optimality,

        η(θ_k) = λ,   η′(θ_k) = 0,   k = 1 … n_spikes,

    whose positions are no centres of cells. One spike begins at the mean of what lies between two
    minima of η; then the equations are solved. There are none where ν = 0 has η ≤ λ.

    objective : with a smooth feature, on the circle, and λ > 0;  start : ν ≥ 0, of a grid or
        particles
    Raises ValueError where `dual_polynomial` does, for a measure with negative signs or off the
    circle, without λ, with entropy, for a feature without gradient, and where no spikes are found
    near the start.
    """
    _check(objective)
    if objective.entropy > 0.0:
        raise ValueError(
            "With entropy the minimum is a density, which has no spikes; got entropy ="
            f" {objective.entropy:g}."
        )
    if objective.feature.pullback is None:
        raise ValueError(
            f"Spikes need the gradient of the feature '{objective.feature.name}': give"
            " hkflow.ridge(…) or Feature(…, pullback=…)."
        )
    if not objective.weight_decay > 0.0 or (start.signs < 0.0).any():
        raise ValueError(
            "Spikes minimise R + λ|ν| over ν ≥ 0, got"
            f" λ = {objective.weight_decay:g} and {np.sum(start.signs < 0.0)} negative signs."
        )
    if start.positions.shape[1] != 2:
        raise ValueError(
            "Spikes start from a measure on the circle, got one with points of"
            f" R^{start.positions.shape[1]}."
        )
    without = dual_polynomial(objective, np.zeros(objective.n_predictions))
    if without[1] <= objective.weight_decay:
        return Spikes(np.zeros(0), np.zeros(0), *without, objective.weight_decay)
    if not start.mass > 0.0:
        raise ValueError(f"Spikes start from a measure with mass, got one of mass {start.mass:g}.")
    angles, masses = _clusters(objective, start)
    found, problems = [], []
    for light in LIGHT:
        heavy = masses > light * masses.sum()
        try:
            found.append(_solved(objective, angles[heavy], masses[heavy]))
        except ValueError as error:
            problems.append(error)
        if found and found[-1].certified:
            return found[-1]
    if not found:
        raise problems[0]
    return found[0]


def _solved(objective, angles, masses):
    """The Spikes that satisfy the conditions, from where these angles and masses are. Raises
    ValueError if there are none."""
    from scipy.optimize import root  # slow to load

    feature, inputs, decay = objective.feature, objective.inputs, objective.weight_decay

    def predictions(unknown):
        angles, masses = np.split(unknown, 2)
        return feature.matrix(_unit(angles), inputs) @ masses

    def conditions(unknown):
        angles = unknown[: len(unknown) // 2]
        at, across = _unit(angles), _unit(angles + 0.5 * np.pi)
        r = _loss_gradient(objective, predictions(unknown)) / decay
        slopes = np.einsum("ka,ka->k", feature.pullback(at, inputs, r), across)
        return np.concatenate([r @ feature.matrix(at, inputs) + 1.0, slopes])

    found = root(conditions, np.concatenate([angles, masses]), tol=1e-13).x
    angles, masses = np.split(found, 2)
    left = np.abs(conditions(found)).max()
    if not (left <= SOLVED and (masses > 0.0).all()):
        why = f"leave {left:.1e} of λ" if not left <= SOLVED else "have masses below 0"
        raise ValueError(
            f"No spikes satisfy η = λ, η′ = 0 next to the measure: {len(angles)} of them {why}. Let"
            " the flow run for longer, or on more cells."
        )
    order = np.argsort(angles % (2.0 * np.pi))
    highest = dual_polynomial(objective, predictions(found))
    return Spikes(angles[order] % (2.0 * np.pi), masses[order], *highest, decay)


def _check(objective):
    """Raise ValueError for other objectives than those of data, on the circle."""
    if not isinstance(objective, Objective):
        raise ValueError(
            "A dual polynomial is known of an hkflow.Objective alone, got a"
            f" {type(objective).__name__}."
        )
    if objective.axes != 2:
        raise ValueError(
            f"A dual polynomial is one on the circle, got points of R^{objective.axes}."
        )


def _clusters(objective, start):
    """Mean angles and masses of what lies between two minima of η, each (n_spikes,)."""
    predictions = objective.feature.matrix(start.positions, objective.inputs) @ start.weights
    eta = _eta(objective, predictions)
    lowest = np.flatnonzero((eta < np.roll(eta, 1)) & (eta <= np.roll(eta, -1)))
    angles = np.arctan2(start.positions[:, 1], start.positions[:, 0]) % (2.0 * np.pi)
    cluster = np.searchsorted(2.0 * np.pi / SAMPLES * lowest, angles) % max(len(lowest), 1)
    masses = np.bincount(cluster, start.weights)
    some = np.flatnonzero(masses)
    sums = [start.weights[cluster == k] @ start.positions[cluster == k] for k in some]
    return np.array([np.arctan2(y, x) for x, y in sums]), masses[some]


def _unit(angles):
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _loss_gradient(objective, predictions):
    """∂R/∂h, (n_data,)."""
    loss_gradient = np.zeros_like(predictions)
    objective.evaluate_risk(np.asarray(predictions, dtype=float), 0.0, loss_gradient)
    return loss_gradient


def _eta(objective, predictions):
    """η at points of the circle at equal distances, (SAMPLES,)."""
    points = _unit(2.0 * np.pi / SAMPLES * np.arange(SAMPLES))
    r = _loss_gradient(objective, predictions)
    return -r @ objective.feature.matrix(points, objective.inputs)


def dual_polynomial(objective: Objective, predictions: Floats) -> tuple[float, float]:
    """The largest value of η on the circle, between a value that it takes and a bound.

        max η ≤ max_k [η(θ_k) + ½ δ² (|η″(θ_k)| + δ n³ max_k |η(θ_k)| / cos nδ)] + 2 tail,   δ = π/N

    of N samples, by Bernstein's inequality |η‴| ≤ n³ max|η| for a trigonometric polynomial of
    degree n. φ need not be one: n is where its Fourier coefficients become rounding, and `tail` is
    the rest of them. How far η is below 0 hardly matters: with noise, −100 λ at a small λ.

    objective : with a smooth feature, on the circle;  predictions : (n_data,) h
    Raises ValueError for another sphere, for a Sum, whose energies have a part in η, for
    predictions of another shape, and for features that are no such polynomial to rounding.
    """
    _check(objective)
    if np.shape(predictions) != (objective.n_predictions,):
        raise ValueError(
            f"A dual polynomial needs predictions of the shape ({objective.n_predictions},), one of"
            f" each datum, got {np.shape(predictions)}."
        )
    from scipy.fft import irfft, rfft  # slow to load

    eta = _eta(objective, predictions)
    coefficients = rfft(eta)
    size = np.abs(coefficients) / SAMPLES
    degree = int(np.flatnonzero(size > ROUNDING * size.max()).max(initial=0))
    step = np.pi / SAMPLES
    if step * degree > 0.1:
        raise ValueError(
            f"The feature '{objective.feature.name}' has Fourier coefficients beyond degree"
            f" {degree}: the dual polynomial of a feature with kinks is not enclosed."
        )
    tail = 2.0 * float(size[degree + 1 :].sum())
    k = np.arange(degree + 1.0)
    bent = np.abs(irfft(k**2 * coefficients[: degree + 1], SAMPLES))
    bent += step * degree**3 * np.abs(eta).max() / np.cos(step * degree)
    return float(eta.max()), float((eta + 0.5 * step**2 * bent).max()) + 2.0 * tail
