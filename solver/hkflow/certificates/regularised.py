"""The global minimum of F(ν) = R(h_ν) + λ|ν| over all measures on the sphere, between a value and a
proof, for λ down to 1e-14.

    min over ν ≥ 0 of R(h_ν)/λ + |ν|  =  max over s of −R*(−λ s)/λ  subject to  G_s(θ, ε) = ε Σ_i
    s_i φ(θ, x_i) ≤ 1 everywhere

The dual variable s_i = −∂_i R/λ stays of order one as λ → 0. With finitely many columns (θ_j, ε_j)
the dual is a convex problem in n unknowns whose multipliers are the weights of the measure; peaks
of G_s above 1 become new columns until there are none.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, qr, solve_triangular
from scipy.special import xlog1py, xlogy

from ..arguments import Floats, check_positive
from ..measures.point_measure import PointMeasure
from ..objectives.objective import Objective
from ..shown import Shown, counted
from .in_span import span_of_data
from .search import local_maxima

MOST_ROUNDS, MOST_STEPS = 100, 300
LULL, LONG_LULL = 10, 30  # steps in which a bound has to improve, where they are near and not
# rows of a least-squares problem that are so much larger than others ask for pivots
STEEP = 1e7
SHARE = 0.5  # of the highest peak: lower ones wait for a later round
FAR, ROUGH = 100.0, 1e-2  # a small λ is reached in steps of this factor, up to this relative gap
IDLE = 0.1  # columns with G_s < 1 − IDLE and no weight are dropped
RESOLVED = 1e-24  # of the largest s: smaller ones are none
# damped steps, on one set of columns; what is less of the whole than this is none
MOST_DAMPED, TINY, LEAST = 200, 1e-12, 1e-290
LOST = 1e-4  # relative gap beyond which undamped steps have gone astray
# of the gap: as far as a round solves its problem; the centre it stays at steadies the next round
LOOSE = 0.1
INWARD = 0.99  # of the way to the boundary that a step may go


@dataclass(frozen=True)
class Conjugate:
    """c(b) = −R*(−b) of one datum, for b_i = λ s_i/q_i, times y_i for a class: Σ q_i c(b_i)/λ is
    the dual objective.

    value, slope, curvature : functions (b, y) -> c, c′ (the prediction, or y times it) and −c″ > 0
    move : function (b, change) -> b + change to first order, inside the domain of c
    """

    value: Callable
    slope: Callable
    curvature: Callable
    move: Callable


def _move_positive(b, change):
    return np.where(change < 0.0, b * np.exp(np.minimum(change, 0.0) / b), b + change)


def _move_between(b, change):
    """The same where b < 1 as well; near 1 the step is that of 1 − b."""
    upward = b - (1.0 - b) * np.expm1(-np.maximum(change, 0.0) / (1.0 - b))
    return np.minimum(
        np.where(change < 0.0, b * np.exp(np.minimum(change, 0.0) / b), upward), 1.0 - 1e-12
    )


CONJUGATES = {
    "square": Conjugate(
        lambda b, y: b * (y - 0.5 * b),
        lambda b, y: y - b,
        lambda b, y: np.ones_like(b),
        lambda b, change: b + change,
    ),
    "logistic": Conjugate(
        lambda b, y: -xlogy(b, b) - xlog1py(1.0 - b, -b),
        lambda b, y: np.log1p(-b) - np.log(b),
        lambda b, y: 1.0 / (b * (1.0 - b)),
        _move_between,
    ),
    "exponential": Conjugate(
        lambda b, y: b - xlogy(b, b), lambda b, y: -np.log(b), lambda b, y: 1.0 / b, _move_positive
    ),
}


@dataclass(frozen=True, eq=False, repr=False)
class Minimiser(Shown):
    """A measure ν and how good it is: lower ≤ F* ≤ F(ν) = upper, where `lower` is proved only if
    the search for peaks is.

    atoms : ν;  predictions : (n_data,) h_ν(x_i);  dual : (n_data,) s = −∇R/λ, scaled so that G_s ≤
        1
    margin : min_i y_i h_i/|ν|; nan for a regression risk and for ν = 0
    certified : whether G_s ≤ 1 was proved on the whole sphere (circle, S²) and gap ≤ tolerance;
        rounds : searches for peaks
    """

    atoms: PointMeasure
    predictions: Floats
    dual: Floats
    lower: float
    upper: float
    weight_decay: float
    margin: float
    certified: bool
    rounds: int

    def _facts(self):
        return {
            "minimum": f"{self.lower:.9g} ≤ F ≤ {self.upper:.9g} at λ = {self.weight_decay:g}",
            "proof": "certified" if self.certified else "lower end not certified",
            "measure": f"by {counted(len(self.atoms), 'atom')} of mass {self.atoms.mass:.6g}",
        } | ({} if np.isnan(self.margin) else {"margin": f"margin {self.margin:.6g}"})

    @property
    def gap(self) -> float:
        """(upper − lower)/upper."""
        return (self.upper - self.lower) / self.upper if self.upper > 0.0 else 0.0


def minimise(
    objective: Objective,
    signs: tuple[int, ...] = (1,),
    tolerance: float = 1e-6,
    start: Minimiser | None = None,
) -> Minimiser:
    """The global minimiser of F(ν) = R(h_ν) + λ|ν| over all nonnegative measures on the (signed)
    sphere.

    objective : F with λ = weight_decay > 0 and the square, logistic or exponential risk;  signs :
        the output signs ε
    tolerance : the relative gap to reach;  start : a Minimiser of another λ or other targets
    Returns a Minimiser; not certified if rounding stops it, as it does where λ → 0 and nothing
    separates the data.
    Raises ValueError for other risks, a Sum, for λ ≤ 0, with entropy, for weights q_i that are not
    positive, signs other than 1 and −1, a tolerance that is not, and a start of other data.
    Source: Wei et al. 2019, eq. 2.1 and 4.1; Fenchel's duality in place of their eq. E.13.
    """
    dual = _Dual(objective)
    _check(dual, signs, tolerance, start)
    if span := span_of_data(objective):
        if start is not None:
            start = replace(start, atoms=span.coordinates(start.atoms))
        inside = minimise(span.objective, signs, tolerance, start)
        return _out_of_span(dual, span, inside, tolerance)
    u, columns, w = dual.start(signs, start)
    best, lower, proof = _condensed(objective, columns[0], columns[1], w), -np.inf, u
    upper = dual.primal(_predictions(objective, best), best.mass)
    if not upper <= (nothing := dual.primal(np.zeros(len(u)), 0.0)):
        best, upper = PointMeasure(np.zeros((0, objective.axes)), np.zeros(0), np.zeros(0)), nothing
    gap = np.inf
    for rounds in range(1, MOST_ROUNDS + 1):
        found = local_maxima(objective.feature, objective.inputs, dual.signed(u), signs, SHARE)
        top = max(1.0, found.bound)
        value = dual.value(u / top)
        if value > lower:
            lower, proof = value, u / top
        if upper - lower <= tolerance * upper:
            break
        new = found.values > (1.0 if len(w) else -np.inf)
        gap, last = upper - lower, gap
        # where the solver has come to the end of what rounding lets it tell
        if rounds > 2 and not new.any() and gap > 0.5 * last:
            break
        columns = _joined(columns, (found.points[new], found.signs[new]))
        u, w, active = dual.solve(
            columns, u / top, max(0.1 * tolerance, LOOSE * (1.0 - lower / upper))
        )
        columns, w = tuple(c[active] for c in columns), w[active]
        atoms = _condensed(objective, columns[0], columns[1], w)
        reached = dual.primal(_predictions(objective, atoms), atoms.mass)
        if reached < upper:
            best, upper = atoms, reached
    certified = bool(found.certified and upper - lower <= tolerance * upper)
    return _minimiser(objective, best, dual.signed(proof), lower, upper, certified, rounds)


def _minimiser(objective, atoms, s, lower, upper, certified, rounds):
    """The Minimiser of bounds in units of λ."""
    h, decay = _predictions(objective, atoms), objective.weight_decay
    margin = objective.margin(h) / atoms.mass if len(atoms) else np.nan
    return Minimiser(atoms, h, s, decay * lower, decay * upper, decay, margin, certified, rounds)


def _out_of_span(dual, span, found, tolerance):
    """The Minimiser of the data that one in coordinates of their span is."""
    objective, atoms = dual.objective, span.measure(found.atoms)
    rounding = span.rounding * float(np.sqrt(objective.feature_sizes) @ np.abs(found.dual))
    s = found.dual / (1.0 + rounding)
    upper = dual.primal(_predictions(objective, atoms), atoms.mass)
    lower = min(dual.value(dual.flip * s), found.lower / dual.decay)
    certified = found.certified and upper - lower <= tolerance * upper
    return _minimiser(objective, atoms, s, lower, upper, certified, found.rounds)


def regularisation_path(
    objective: Objective,
    signs: tuple[int, ...],
    weight_decays: Iterable[float],
    tolerance: float = 1e-6,
) -> list[Minimiser]:
    """A list of Minimisers, one for each λ of `weight_decays`, each started from the one before.

    For logistic and exponential risks the margins tend to γ_ℓ1 as λ → 0 if that is positive, with
    an excess of the order 1/log(1/λ) (Wei et al. 2019, Theorem 2.1).
    Raises ValueError as `minimise` does.
    """
    path, start = [], None
    for decay in weight_decays:
        start = minimise(replace(objective, weight_decay=float(decay)), signs, tolerance, start)
        path.append(start)
    return path


def check_is_of_data(objective: Objective) -> None:
    """Raise ValueError for what is no Objective, as a Sum."""
    if not isinstance(objective, Objective):
        raise ValueError(
            f"The minimum is known of an hkflow.Objective alone, got a {type(objective).__name__}."
        )


def _check(dual, signs, tolerance, start):
    """Raise ValueError for what says nothing of a minimum."""
    check_positive(tolerance=tolerance)
    if not (np.size(signs) and np.ndim(signs) == 1 and np.isin(signs, (1, -1)).all()):
        raise ValueError(f"signs must be (1,), (-1,) or (1, -1), got {signs!r}.")
    if start is None:
        return
    n, axes = len(dual.y), dual.objective.axes
    if start.dual.shape != (n,) or start.atoms.positions.shape[1] != axes:
        raise ValueError(
            f"A start must be of as many data and coordinates, {n} and {axes}, got one of"
            f" {len(start.dual)} and {start.atoms.positions.shape[1]}."
        )


class _Dual:
    """The dual in units of 1/λ; u is s, times y for classes, so that it is positive there."""

    def __init__(self, objective):
        check_is_of_data(objective)
        name, decay = objective.risk.name, objective.weight_decay
        if name not in CONJUGATES:
            raise ValueError(
                f"The minimum is known for the risks {', '.join(CONJUGATES)}, not for {name}."
            )
        if not decay > 0.0:
            raise ValueError(f"A regularised problem needs a positive weight decay, got {decay}.")
        if objective.entropy > 0.0:
            raise ValueError(
                "The minimum is known without entropy, which makes it a density, got entropy ="
                f" {objective.entropy:g}."
            )
        if not (objective.weights > 0.0).all():
            raise ValueError("Every datum needs a positive weight; leave out those without.")
        self.objective, self.decay, self.c = objective, decay, CONJUGATES[name]
        self.y, self.scale = objective.targets, objective.weights / decay
        self.flip = self.y if objective.risk.classifies else np.ones_like(self.y)

    def signed(self, u):
        """s of u."""
        return self.flip * u

    def value(self, u):
        """−R*(−λ s)/λ, (n_data,) -> number."""
        return float(self.scale @ self.c.value(u / self.scale, self.y))

    def primal(self, predictions, mass):
        """R(h)/λ + |ν|."""
        with np.errstate(over="ignore"):  # the exponential risk may be beyond numbers
            risk = self.objective.evaluate_risk(predictions, 0.0, np.empty_like(predictions))
            return float(risk / self.decay + mass)

    def start(self, signs, minimiser):
        """u, columns (points, signs) and weights to begin with: of a minimiser, or of a larger λ
        from which λ is reached."""
        objective, p = self.objective, np.empty_like(self.y)
        if minimiser is None:
            objective.evaluate_risk(np.zeros_like(p), 0.0, p)
            # ν = 0 is optimal from this λ on
            critical = local_maxima(objective.feature, objective.inputs, -p, signs).values[0]
            if critical <= FAR * self.decay:
                nothing = (np.zeros((0, objective.axes)), np.zeros(0)), np.zeros(0)
                return -self.flip * p / max(self.decay, critical), *nothing
            minimiser = minimise(replace(objective, weight_decay=FAR * self.decay), signs, ROUGH)
        u, atoms = self.flip * minimiser.dual, minimiser.atoms
        u = np.minimum(u, 0.5 * self.scale) if objective.risk.classifies else u
        allowed = np.isin(atoms.signs, signs)
        columns = atoms.positions[allowed], atoms.signs[allowed]
        return u, columns, atoms.weights[allowed]

    def solve(self, columns, u, tolerance):
        """The dual with finitely many constraints Zᵀu ≤ 1, by Mehrotra's predictor and corrector,
        in slacks t and weights w:

            Z w = c′(b),   Zᵀu + t = 1,   w t = μ → 0,   b = u/scale

        u : (n_data,) with Zᵀu ≤ 1.   Returns u, w (n_columns,) and which columns are worth keeping.
        """
        points, column_signs = columns
        Z = (
            self.flip[:, None]
            * self.objective.feature.matrix(points, self.objective.inputs)
            * column_signs
        )
        # rounding may drive all of u to 0
        u, least = 0.9 * u, RESOLVED * u.max() if self.objective.risk.classifies else -np.inf
        t = 1.0 - u @ Z
        slope = self.c.slope(self._resolved(u) / self.scale, self.y)
        w = max(np.abs(slope).max(), 1e-12) / (max(np.abs(Z).max(), 1e-12) * len(t) * t)
        w *= max(1.0, self.value(u) / w.sum())  # about the mass that is wanted, where λ is small
        lowest, best, highest, proof, last = np.inf, w, -np.inf, u, 0
        for steps in range(MOST_STEPS):
            u = np.maximum(self._resolved(u), least)
            upper, lower = (
                self.primal(self.flip * (Z @ w), w.sum()),
                self.value(u / max(1.0, np.max(u @ Z))),
            )
            if upper < lowest:
                lowest, best, last = upper, w, steps
            if lower > highest:
                highest, proof, last = lower, u, steps
            lull = LULL if _agree(highest, lowest, ROUGH) else LONG_LULL
            if steps - last > lull or _agree(highest, lowest, tolerance):
                break
            try:
                step = self._step(Z, u, t, w)
            except LinAlgError:
                break
            if not (step[0].any() and all(np.isfinite(part).all() for part in step)):
                # rounding has taken over, as it does for nearly coinciding data
                break
            u, t, w = step
        u, w = proof, best
        astray = not _agree(highest, lowest, max(tolerance, LOST))
        if astray and self.objective.risk.classifies and np.isfinite(best).all():
            u, w = self._by_barrier(Z, best, tolerance)
        return u, w, (u @ Z > 1.0 - IDLE) | (w > 1e-9 * w.sum())

    def _by_barrier(self, Z, w, tolerance):
        """u and w (n_columns,) of the best bounds that damped steps of Newton's method find, for a
        risk of classes. They are slower, and each lowers

            R(Zw)/λ + Σ_j (w_j − μ log w_j),   u = −∇R/λ,   for one μ after the other.
        """
        w = np.maximum(w, TINY * w.sum())
        risk, u = self._risk(Z, w)
        while not risk < np.inf and w.any():
            w = 0.1 * w
            risk, u = self._risk(Z, w)
        lowest, best, highest, proof, mu = np.inf, w, -np.inf, u, 0.0
        for _ in range(MOST_DAMPED):
            upper, lower = risk + w.sum(), self.value(u / max(1.0, np.max(u @ Z)))
            lowest, best = (upper, w) if upper < lowest else (lowest, best)
            highest, proof = (lower, u) if lower > highest else (highest, proof)
            if lowest - highest <= tolerance * lowest or 0.0 < mu < TINY * lowest / len(w):
                break
            mu = mu or (upper - lower) / len(w)
            try:
                change, decrease = self._change(Z, u, w, mu)
            except (LinAlgError, ValueError):  # inf or nan
                break
            length = INWARD / max(INWARD, np.max(-change))
            while length > TINY and decrease > 0.1 * mu:
                ahead = w * (1.0 + length * change)
                risk_ahead, u_ahead = self._risk(Z, ahead)
                less = upper - risk_ahead - ahead.sum() + mu * np.log(ahead / w).sum()
                if less >= 1e-4 * length * decrease:
                    risk, u, w = risk_ahead, u_ahead, ahead
                    break
                length *= 0.5
            else:
                mu *= 0.1
        return proof, best

    def _risk(self, Z, w):
        """R(Zw)/λ and u = −∇R/λ."""
        r = np.empty(len(Z))
        with np.errstate(over="ignore"):  # the exponential risk may be beyond numbers
            risk = self.objective.evaluate_risk(self.flip * (Z @ w), 0.0, r) / self.decay
            return float(risk), -self.flip * r / self.decay

    def _change(self, Z, u, w, mu):
        """The relative change of w by Newton's method, and how much it lowers the sum at first."""
        b = np.maximum(u / self.scale, LEAST)
        if self.objective.risk.name == "logistic":
            b = np.minimum(b, 1.0 - TINY)
        d = np.sqrt(self.scale / self.c.curvature(b, self.y))
        A = np.vstack([d[:, None] * Z * w, np.sqrt(mu) * np.eye(len(w))])
        Q, R = np.linalg.qr(A)
        right = Q.T @ np.concatenate([u / d, np.sqrt(mu) - w / np.sqrt(mu)])
        return solve_triangular(R, right), right @ right

    def _resolved(self, u):
        """u away from zero where the conjugate asks for it."""
        return np.maximum(u, RESOLVED * u.max()) if self.objective.risk.classifies else u

    def _step(self, Z, u, t, w):
        """One step of Newton's method towards a smaller μ."""
        b = u / self.scale
        d = np.sqrt(self.scale / self.c.curvature(b, self.y))
        slack, stationarity = u @ Z + t - 1.0, Z @ w - self.c.slope(b, self.y)
        root = np.sqrt(w / t)
        # better conditioned than its normal equations
        solution = _least_squares(np.vstack([np.eye(len(d)), (root * (d[:, None] * Z)).T]))

        def direction(complementarity):
            right = np.concatenate([-d * stationarity, (complementarity - w * slack) / (root * t)])
            try:
                du = d * solution(right)
            except ValueError as error:  # inf or nan
                raise LinAlgError(str(error)) from error
            dt = -slack - du @ Z
            return du, dt, -(complementarity + w * dt) / t

        _, dt, dw = direction(w * t)
        alpha = _room(t, dt, w, dw)
        mu = w @ t / len(t)
        ahead = (w + alpha * dw) @ (t + alpha * dt) / len(t)
        du, dt, dw = direction(w * t + dt * dw - (ahead / mu) ** 3 * mu)
        alpha = INWARD * _room(t, dt, w, dw)
        return self.scale * self.c.move(b, alpha * du / self.scale), t + alpha * dt, w + alpha * dw


def _least_squares(A):
    """The function b -> argmin |A x − b|, of an A (k, n) that begins with the unit matrix: by QR,
    and where rows differ much in size with the largest first and pivots, without which rounding of
    these drowns the others (Cox & Higham 1998)."""
    sizes = np.abs(A).max(axis=1)
    if not STEEP < sizes.max() < np.inf:
        Q, R = np.linalg.qr(A)
        return lambda b: solve_triangular(R, Q.T @ b)
    order = np.argsort(-sizes, kind="stable")
    Q, R, columns = qr(A[order], mode="economic", pivoting=True)
    back = np.argsort(columns)
    return lambda b: solve_triangular(R, Q.T @ b[order])[back]


def _agree(lower, upper, tolerance):
    """Whether bounds are as near as that, relative to the upper one; infinite ones never are."""
    return upper - lower <= tolerance * upper < np.inf


def _room(t, dt, w, dw):
    """The largest α ≤ 1 with t + α dt ≥ 0 and w + α dw ≥ 0."""
    return 1.0 / max(1.0, np.max(-dt / t), np.max(-dw / w))


def _joined(*columns):
    points, signs = zip(*columns, strict=True)
    return np.concatenate(points), np.concatenate(signs)


def _predictions(objective, atoms):
    """(n_data,) h_i."""
    return objective.feature.matrix(atoms.positions, objective.inputs) @ (
        atoms.signs * atoms.weights
    )


def _condensed(objective, points, signs, weights):
    """The measure without what has no weight; where φ is linear on a region, one atom for each
    region predicts the same.

    Σ_j w_j θ_j = w θ has w ≤ Σ w_j, so the objective does not rise.
    """
    alive = weights > 1e-13 * weights.sum()
    points, signs, weights = points[alive], signs[alive], weights[alive]
    feature = objective.feature
    if not feature.pieces or feature.joint:
        return PointMeasure(points, signs, weights)
    inside = (
        points @ objective.inputs.T > 0.0
        if feature.kink
        else np.zeros((len(points), 0), dtype=bool)
    )
    regions, which = np.unique(np.column_stack([signs > 0.0, inside]), axis=0, return_inverse=True)
    moments = np.zeros((len(regions), points.shape[1]))
    np.add.at(moments, which.ravel(), weights[:, None] * points)
    masses = np.linalg.norm(moments, axis=1)
    kept = masses > 0.0
    return PointMeasure(moments[kept], np.where(regions[kept, 0], 1.0, -1.0), masses[kept])
