"""The objective F(ν) = R(h_ν(x_1), …, h_ν(x_n)) + λ|ν| and its first variation, the potential J_ν."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .features import Feature
from .risks import Risk


@dataclass(frozen=True, eq=False)
class Objective:
    """F(ν) = R(h) + λ|ν|, h_i = ∫ φ(θ, x_i) dν(θ).

    feature : φ;  risk : R
    inputs : (n_data, p) the x_i, a column of ones included if there is a bias
    targets : (n_data,) the y_i;  weights : (n_data,) the q_i, 1/n each if not given
    weight_decay : λ ≥ 0
    """

    feature: Feature
    risk: Risk
    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray | None = None
    weight_decay: float = 0.0

    def __post_init__(self):
        inputs = np.ascontiguousarray(np.atleast_2d(self.inputs), dtype=float)
        targets = np.ascontiguousarray(self.targets, dtype=float)
        n = len(inputs)
        weights = np.full(n, 1.0 / n) if self.weights is None else np.ascontiguousarray(self.weights, dtype=float)
        if targets.shape != (n,) or weights.shape != (n,):
            raise ValueError(f"{n} inputs need {n} targets and weights, got {targets.shape} and {weights.shape}.")
        if not all(np.isfinite(a).all() for a in (inputs, targets, weights)):
            raise ValueError("Inputs, targets and weights must be finite.")
        if self.risk.classifies and not np.isin(targets, (-1.0, 1.0)).all():
            raise ValueError(f"The {self.risk.name} risk needs targets +1 or -1.")
        if not self.weight_decay >= 0.0:
            raise ValueError(f"Weight decay must be at least 0, got {self.weight_decay}.")
        for name, value in (("inputs", inputs), ("targets", targets), ("weights", weights)):
            object.__setattr__(self, name, value)

    def error(self, predictions):
        """Fraction of data on the wrong side of zero for a classification risk, root mean square error otherwise."""
        if self.risk.classifies:
            return float(np.mean(self.targets * predictions <= 0.0))
        return float(np.sqrt(np.mean((predictions - self.targets) ** 2)))

    def margin(self, predictions):
        """Smallest margin min_i y_i h_i; nan for a regression risk."""
        return float(np.min(self.targets * predictions)) if self.risk.classifies else np.nan

    def on(self, points, signs=(1,)):
        """The objective of measures carried by fixed points, one weight per sign and point."""
        return ObjectiveOnPoints(self, points, signs)

    def on_moving(self, points):
        """The objective as a function of points that move and of their signed weights."""
        return ObjectiveOnMovingPoints(self, points)

    @cached_property
    def largest_feature(self):
        """Bound of |φ(θ, x_i)| for the built-in features, 1 at least: it scales rounding errors."""
        return max(1.0, np.linalg.norm(self.inputs, axis=1).max()) ** (self.feature.degree or 1)

    def rounding(self, value, residuals, mass):
        """What rounding may do to the value: ε (|F| + Σ |∂_i R| δ) + δ², δ = |ν| max φ the size of the sums, times 16."""
        eps, size = 16.0 * np.finfo(float).eps, mass * self.largest_feature
        slope = np.abs(residuals).sum() * size + self.weight_decay * mass
        return eps * (abs(value) + slope) + (eps * size) ** 2


class ObjectiveOnPoints:
    """The objective as a function of the weights of fixed points; every array is allocated here, once.

    points : (n_points, p);  signs : the output signs ε, (1,) or (1, −1)
    predictions, residuals : (n_data,) h_i and ∂R/∂h_i;  potential : (n_signs, n_points) J, after `evaluate`
    """

    def __init__(self, objective, points, signs=(1,)):
        n_data, n_points = len(objective.inputs), len(points)
        self.objective = objective
        self.signs = np.array(signs, dtype=float)
        self.transform = objective.feature.transform(points, objective.inputs)
        self.signed = np.zeros(n_points)
        self.predictions, self.residuals = np.zeros(n_data), np.zeros(n_data)
        self.potential = np.zeros((len(signs), n_points))

    def evaluate(self, weights, scale=1.0):
        """F(ν) for ν = scale Σ weights_sc δ_(θ_c, ε_s); fills predictions, residuals and potential.

        J_ν(θ, ε) = Σ_i ∂_i R(h) ε φ(θ, x_i) + λ.   weights : (n_signs, n_points)
        """
        obj = self.objective
        np.einsum("s,sc->c", self.signs, weights, out=self.signed)  # not BLAS: its threads would fight with the kernels’
        self.transform.forward(self.signed, self.predictions)
        self.predictions *= scale
        risk = obj.risk.evaluate(self.predictions, obj.targets, obj.weights, self.residuals)
        self.transform.adjoint(self.residuals, self.signed)
        np.multiply(self.signs[:, None], self.signed, out=self.potential)
        self.potential += obj.weight_decay
        return risk + obj.weight_decay * scale * weights.sum()

    def rounding(self, value, mass):
        """What rounding may do to a value that `evaluate` returned, for a measure of this mass."""
        return self.objective.rounding(value, self.residuals, mass)


class ObjectiveOnMovingPoints:
    """The risk as a function of points that move, of any length, and of their signed weights.

    transform.points : (n_blocks, p, width), to be written before `evaluate`
    predictions, residuals : (n_data,);  slopes : (n_points,) Σ_i ∂_i R φ(θ_c, x_i)
    gradient : (n_blocks, p, width) Σ_i ∂_i R ∇φ(θ_c, x_i);  all filled by `evaluate`
    """

    def __init__(self, objective, points):
        self.objective = objective
        self.transform = objective.feature.moving_transform(points, objective.inputs)
        self.predictions, self.residuals = (np.zeros(len(objective.inputs)) for _ in range(2))
        self.slopes, self.gradient = np.zeros(len(points)), np.zeros_like(self.transform.points)

    def evaluate(self, weights):
        """R(h) for h_i = Σ_c weights_c φ(θ_c, x_i); weights (n_points,), signs included. Weight decay is the caller's."""
        obj = self.objective
        self.transform.forward(weights, self.predictions)
        risk = obj.risk.evaluate(self.predictions, obj.targets, obj.weights, self.residuals)
        self.transform.gradient(self.residuals, self.slopes, self.gradient)
        return risk
