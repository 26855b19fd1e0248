"""The path of classifiers that diagonal linear networks of depth D follow between the ℓ₂ and the ℓ₁
max-margin.

A network w = u₊^D − u₋^D that starts at u₊ = u₋ = α keeps each pair (u₊, u₋) on a curve. One number
says where on it:

    ξ = ½ log(u₊^D / u₋^D)          w/α^D = z = 2 sinh ξ cosh(κξ)^(1/κ)          κ = 1 − 2/D

Written with it, the paper's maps subtract no two alike numbers, neither near 0 nor near 1, and D =
2 is the limit κ → 0:

    h_D⁻¹(z) = x = tanh κξ          h_D(x) = (1−x)^(−1/κ) − (1+x)^(−1/κ) = z          (D = 2: x = ξ,
                                    z = 2 sinh x)
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arguments import Floats, real_array
from ..errors import HkflowError
from .fixed_points import l1_margin, l2_margin, least_distance

EPS = np.finfo(float).eps
RESIDUAL = 1e-9  # of the optimality conditions, relative: what a point of the path may leave
MAX_ROUNDS, MAX_STEPS, MAX_HALVINGS = 50, 200, 60
DECREASE = 1e-4  # share of the decrease promised by the slope that a step has to keep
TO_THE_WALL = 0.99  # share of the way to |x| = 1 that a step may take


@dataclass(frozen=True, eq=False)
class PathPoint:
    """A minimiser w of Q_μ^D with smallest margin one, and what it leaves of its optimality
    conditions.

    ∇Q_μ^D(w) = Σ_n ν_n y_n x_n,   y_n x_n·w ≥ 1,   ν_n (y_n x_n·w − 1) = 0   (Moroshko et al. 2020,
                                   below Theorem 6)
    weights : (d,) w;  multipliers : (n,) ν ≥ 0
    stationarity : max |∇Q − Σ ν y x| / max |∇Q|;  feasibility : max (1 − y x·w)₊;  complementarity
        : max ν |y x·w − 1| / max ν
    """

    weights: Floats
    multipliers: Floats
    stationarity: float
    feasibility: float
    complementarity: float

    @property
    def residual(self) -> float:
        """The largest of the three."""
        return max(self.stationarity, self.feasibility, self.complementarity)


def coordinate(xi: Floats, depth: float) -> Floats:
    """A coordinate of the predictor at scale one, z = h_D(tanh κξ) = 2 sinh ξ cosh(κξ)^(1/κ).

    xi : ξ, any shape;  depth : D ≥ 2.   Returns z, like xi.   Source: Moroshko et al. 2020, eq. 7,
        13 and 25.
    """
    return 2.0 * np.sinh(xi) * np.exp(_growth(xi, depth))


def log_ratio(z: Floats, depth: float) -> Floats:
    """The inverse of `coordinate`: the ξ with 2 sinh ξ cosh(κξ)^(1/κ) = z, to full precision for
    any size of z.

    Newton on log(2 sinh ξ/z) + κ⁻¹ log cosh κξ = 0, kept in ½ log(1 + z) ≤ ξ ≤ asinh(z/2) since 1 ≤
    cosh(κξ)^(1/κ) ≤ e^ξ.
    z : any shape;  depth : D ≥ 2.   Returns ξ, like z.   Raises HkflowError if Newton does not
                                     settle, as for nan.
    """
    kappa, size = kappa_of(depth), np.abs(np.asarray(z, dtype=float))
    s = np.where(size == 0.0, 1.0, size)
    low, high = 0.5 * np.log1p(s), np.arcsinh(0.5 * s)
    xi = high
    for _ in range(MAX_ROUNDS):
        error, slope = np.log(np.sinh(xi) / s * 2.0) + _growth(xi, depth), np.tanh(xi)
        old, xi = xi, np.clip(xi - error * slope / (1.0 + slope * np.tanh(kappa * xi)), low, high)
        if (np.abs(xi - old) <= 4.0 * EPS * xi).all():
            return np.copysign(np.where(size == 0.0, 0.0, xi), z)
    raise HkflowError(f"The inverse of h_D for depth {depth} did not settle in {MAX_ROUNDS} steps.")


def penalty(w: Floats, mu: float, depth: float) -> Floats:
    """The penalty between the ℓ₁ norm (μ → 0) and the ℓ₂ norm (μ → ∞), by Legendre's equality q(z)
    + ∫_0^x h_D = z x:

        Q_μ^D(w) = Σ_i q(w_i/μ),   q(z) = ∫_0^z h_D⁻¹   (D = 2: 2 − √(4+z²) + z asinh(z/2))

    w : (..., d);  mu : μ > 0;  depth : D ≥ 2.   Returns (...).   Source: Moroshko et al. 2020, eq.
        6.
    """
    z = np.asarray(w, dtype=float) / _positive(mu)
    xi = log_ratio(z, depth)
    return np.sum(z * _slope(xi, depth) - _conjugate(xi, depth), axis=-1)


def penalty_gradient(w: Floats, mu: float, depth: float) -> Floats:
    """∇Q_μ^D(w) = h_D⁻¹(w/μ)/μ   (D = 2: asinh(w/2μ)/μ).   w : any shape;  mu : μ > 0;  depth : D ≥
    2.   Returns (like w)."""
    return _slope(log_ratio(np.asarray(w, dtype=float) / _positive(mu), depth), depth) / mu


def path_point(x: Floats, y: Floats, mu: float, depth: float) -> PathPoint:
    """The point at μ of the path: where a network of depth D from a large scale α arrives at the
    loss exp(−α^D/μ).

        argmin Q_μ^D(w)  s.t.  y_n x_n·w ≥ 1 :   w = μ h_D(Σ λ_n y_n x_n),   λ = μν ≥ 0 maximises Σ
        λ_n − μ Σ_i ∫_0^{x_i} h_D

    Newton's method on this dual. Each step is the least-distance problem of its quadratic model,
    which finds the support vectors, shortened until the dual has improved. A network integrates
    weights into λ, which grows: it leaves the path where a λ_n falls.
    x : (n, d) inputs;  y : (n,) targets ±1;  mu : μ > 0;  depth : D ≥ 2.   Returns a PathPoint.
    Raises ValueError for data that no w separates; HkflowError if the conditions are not met to
    RESIDUAL, as where rounding hides 1 − |x_i|: from |w|/μ ≈ 10^8 on for D = 10, 10^15 for D = 3,
    never for D = 2.
    Source: Moroshko et al. 2020, Theorem 6, with μ = α^D/γ̃.
    """
    A, _ = separable(x, y)
    _positive(mu)
    multipliers = np.zeros(len(A))
    best: Any = None
    for _ in range(MAX_STEPS):
        model = _Dual(A, mu, depth, multipliers)
        point = model.point()
        if best is not None and best.residual <= min(RESIDUAL, point.residual):
            return best
        best = point if best is None or point.residual < best.residual else best
        multipliers = _improved(model, model.newton() - multipliers)
    left = f"leaves {best.residual:.1e} of its optimality conditions, more than {RESIDUAL:.0e}"
    raise HkflowError(f"The path point at μ = {mu}, depth {depth}, {left}: take a larger μ.")


def l1_margin_direction(x: Floats, y: Floats) -> Floats:
    """argmin |w|₁ s.t. y_n x_n·w ≥ 1, the path's end for μ → 0; a vertex of the set of solutions if
    there are several.

    x : (n, d);  y : (n,) ±1.   Returns w (d,), smallest margin one.   Raises ValueError for data
                                that no w separates.
    """
    A, _ = separable(x, y)
    up, down = np.split(l1_margin(np.hstack([A, -A])).weights, 2)
    return (up - down) / np.min(A @ (up - down))


def l2_margin_direction(x: Floats, y: Floats) -> Floats:
    """argmin |w|₂ s.t. y_n x_n·w ≥ 1, the path's end for μ → ∞.

    x : (n, d);  y : (n,) ±1.   Returns w (d,), smallest margin one.   Raises ValueError for data
                                that no w separates.
    """
    _, w = separable(x, y)
    return w


class _Dual:
    """The dual, sign changed: μ Σ_i ∫_0^{x_i} h_D − Σ_n λ_n at x = Aᵀλ; gradient A w − 1, curvature
    A diag(μ h_D′(x)) Aᵀ."""

    def __init__(self, A, mu, depth, multipliers):
        self.A, self.mu, self.depth, self.multipliers = A, mu, depth, multipliers
        self.kappa, self.x = kappa_of(depth), multipliers @ A
        with np.errstate(divide="ignore", invalid="ignore"):
            self.xi = np.arctanh(self.x) / self.kappa if self.kappa else self.x

    def value(self):
        """The dual itself, inf or nan for steps too long to be represented."""
        with np.errstate(over="ignore"):
            return self.mu * _conjugate(self.xi, self.depth).sum() - self.multipliers.sum()

    @cached_property
    def w(self):
        """μ h_D(x)."""
        return self.mu * coordinate(self.xi, self.depth)

    @cached_property
    def curvature(self):
        """c = μ h_D′(x) = μ (dz/dξ)/(dx/dξ)."""
        xi, kappa = self.xi, self.kappa
        rise = (
            2.0
            * np.exp(_growth(xi, self.depth))
            * (np.cosh(xi) + np.sinh(xi) * np.tanh(kappa * xi))
        )
        return self.mu * rise / (kappa * (1.0 - self.x**2) if kappa else 1.0)

    def newton(self):
        """The λ ≥ 0 that minimises the quadratic model, whose primal is min |v|² s.t. A w′ ≥ 1 for
        v = (w′ − w)/√c + √c x."""
        G, h = self.A * np.sqrt(self.curvature), 1.0 - self.A @ (self.w - self.curvature * self.x)
        p = least_distance(G, h)
        return p * (h @ p) / max(np.sum((p @ G) ** 2), np.finfo(float).tiny)

    def point(self):
        """The primal point w and what it leaves of the optimality conditions."""
        slopes, nu, slack = (
            penalty_gradient(self.w, self.mu, self.depth),
            self.multipliers / self.mu,
            self.A @ self.w - 1.0,
        )
        tiny = np.finfo(float).tiny
        return PathPoint(
            self.w,
            nu,
            stationarity=float(
                np.abs(slopes - nu @ self.A).max() / max(np.abs(slopes).max(), tiny)
            ),
            feasibility=float(max(-slack.min(), 0.0)),
            complementarity=float((nu * np.abs(slack)).max() / max(nu.max(), tiny)),
        )


def _improved(model, step):
    """The multipliers after the longest of the steps step·share, share = 1, ½, ¼, …, that improves
    the dual enough."""
    drift, slope = step @ model.A, step @ (model.A @ model.w - 1.0)
    value, share = model.value(), 1.0
    if model.kappa:
        room = (1.0 - np.sign(drift) * model.x) / np.maximum(np.abs(drift), np.finfo(float).tiny)
        share = min(1.0, TO_THE_WALL * room.min())
    for _ in range(MAX_HALVINGS):
        tried = model.multipliers + share * step
        wanted = value + DECREASE * share * slope + 8.0 * EPS * abs(value)
        if _Dual(model.A, model.mu, model.depth, tried).value() <= wanted:
            break
        share *= 0.5
    return tried


def kappa_of(depth: float) -> float:
    """κ = 1 − 2/D."""
    if not depth >= 2:
        raise ValueError(f"A diagonal network has depth at least 2, got {depth}.")
    return 1.0 - 2.0 / depth


def _positive(mu):
    """The scale μ, if it is one."""
    if not mu > 0.0:
        raise ValueError(f"The scale μ must be positive, got {mu}.")
    return mu


def _log_cosh(v):
    """log cosh v, accurate near 0 too."""
    return np.log1p(2.0 * np.sinh(0.5 * v) ** 2)


def _growth(xi, depth):
    """κ⁻¹ log cosh κξ."""
    kappa = kappa_of(depth)
    return _log_cosh(kappa * xi) / kappa if kappa else np.zeros_like(xi)


def _slope(xi, depth):
    """x = q′(z) = h_D⁻¹(z): tanh κξ, and ξ for D = 2."""
    kappa = kappa_of(depth)
    return np.tanh(kappa * xi) if kappa else xi


def _conjugate(xi, depth):
    """∫_0^x h_D = ((1−x)^(1−1/κ) + (1+x)^(1−1/κ) − 2)/(1/κ − 1) = 2 (cosh(κξ)^(1/κ − 1)
    cosh((1−κ)ξ) − 1)/(1/κ − 1).

    For D = 2 it is 2 (cosh ξ − 1).
    """
    kappa = kappa_of(depth)
    rest = 1.0 - kappa
    return 2.0 * (kappa or 1.0) / rest * np.expm1(rest * _growth(xi, depth) + _log_cosh(rest * xi))


def separable(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The rows y_n x_n, and the w of least |w|₂ with y_n x_n·w ≥ 1."""
    x, y = real_array(x, "Inputs"), real_array(y, "Targets")
    if x.ndim != 2 or y.shape != x.shape[:1] or not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError(
            f"The path needs inputs (n, d) and n targets +1 or -1, got shapes {x.shape} and"
            f" {y.shape}."
        )
    A = y[:, None] * x
    margin = l2_margin(A)
    if not margin.value > 0.0:
        raise ValueError(
            "No linear classifier separates these data, so there is no margin to maximise."
        )
    return A, margin.weights / margin.value
