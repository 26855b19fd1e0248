"""The coupling of a flow through its data, and the loss gradients that are implicit in it.

Over a time τ with loss gradients r the predictions change by −τ K r, where K is the tangent kernel
between data, K_ij = ∫ (β m(ν) φ_i φ_j + α ν ∇φ_i·∇φ_j). Where a mass is large predictions respond
within a short time, and an explicit step must obey τ λ(K ∂²R) ≲ 1.

Implicit loss gradients are those at the step's end:

    r = ∇R(h − τ K r),   or   minimise ½ τ rᵀK r − h·r + R*(r),   a convex problem in n unknowns.

Everything is in units of e^L: predictions, K and ε = e^−L, the temperature of the conjugate R*.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...arguments import Floats
from ...objectives.losses import LARGE_MARGIN, LARGEST_LOG
from ...objectives.objective import Objective
from ..step import SMALLEST
from .newton import EPS, FOUND, INDEFINITE, STILL, newton, solve_positive

DENSE = 512  # data up to which K is stored and factorised at little cost
FEW = 256  # data up to which K among all of them costs less than everything else
STORED = 2048  # data up to which K is stored at all
LIGHT = 1e-14  # share of the largest loss gradient from which a datum leads
# temperature below which float64 cannot tell the margins apart, relative to their size
COLDEST = 1e-11
COOLING = 0.2
MOST_PRODUCTS, SETTLED = 8, 1.01  # of the power method, which ends where its value grows no more
MOST_NEWTON_STEPS = 80
# curvatures are bounded below for larger scales: their squares are numbers, and all is stiff there
STIFF_LOG = 200.0


def implicit_is_known(objective: Objective, predictions: Floats, log_scale: float) -> bool:
    """Whether `Coupling.solve` can do it: for built-in risks of data, for the smooth logistic
    margin only with K stored, or from margins of 35 on."""
    risk = objective.risk
    if risk.tail is None or len(predictions) == 0:
        return False
    if risk.tail == "logistic" and risk.scaled is not None:
        return len(predictions) <= DENSE or large_margins(objective, predictions, log_scale)
    return True


class Coupling:
    """K of one state, in units of e^log_scale.

    objective : its targets, weights and risk;  log_scale : L
    form : function (data) -> K among some data (n, n), their numbers (n,) in order, called when K
        is needed for the first time; None where products have to do
    product : function (data, v) -> K v among some data where it costs less than K; None for those
        by K itself
    most : data of which K is made at most
    """

    def __init__(
        self,
        objective: Objective,
        log_scale: float,
        form: Callable[[NDArray[np.int64]], Floats] | None,
        product: Callable[[NDArray[np.int64], Floats], Floats] | None = None,
        most: int = STORED,
    ) -> None:
        self.objective, self.log_scale, self.most = objective, log_scale, most
        self.form, self._product = form, product
        self._part: tuple[NDArray[np.int64], Coupling] | None = None

    @classmethod
    def stored(cls, objective: Objective, log_scale: float, matrix: Floats) -> "Coupling":
        """That of a matrix K (n_data, n_data)."""
        coupling = cls(objective, log_scale, lambda data: matrix[np.ix_(data, data)])
        coupling.matrix = matrix
        return coupling

    @cached_property
    def matrix(self) -> Floats | None:
        """K (n_data, n_data); None where products have to do."""
        return None if self.form is None else self.form(self._every)

    @cached_property
    def _every(self):
        return np.arange(len(self.objective.weights))

    def product(self, v: Floats) -> Floats:
        """K v (n_data,), without K where this costs less."""
        return self.times(v) if self._product is None else self._product(self._every, v)

    def times(self, v: Floats) -> Floats:
        """K v (n_data,), by the matrix where there is one."""
        return self.product(v) if self.matrix is None else np.asarray(self.matrix @ v)

    def among(self, data: NDArray[np.int64]) -> "Coupling":
        """The Coupling between some data, their numbers (n,) in order; the last one is kept."""
        n, form, product = len(self.objective.weights), self.form, self._product
        if len(data) == n:
            return self
        if self._part is None or not np.array_equal(data, self._part[0]):
            self._part = (
                data,
                Coupling(
                    self.objective.among(data),
                    self.log_scale,
                    form and (lambda those: form(data[those])),
                    product and (lambda those, v: product(data[those], v)),
                ),
            )
        return self._part[1]

    def leading(self, loss_gradient: Floats) -> NDArray[np.int64]:
        """Numbers of the leading data, see `leading`, with those of the last part if they are among
        them: its K is known; all where products have to do."""
        if self.form is None:
            return np.arange(len(loss_gradient))
        data = leading(self.objective, loss_gradient)
        if self._part is None:
            return data
        known = self._part[0]
        return known if np.isin(data, known).all() else data

    def followers(
        self, tau: float, leads: NDArray[np.int64], predictions: Floats, loss_gradient: Floats
    ) -> NDArray[np.int64]:
        """Set the loss gradients (n_data,) of all data that do not lead to what their predictions
        at the end (n_data,) make them beside those that do, −y q exp(θ), at most the largest;
        returns the numbers of those that are to lead as well, the heaviest last.

        Margins u have θ = (m − u)/ε, for the logistic tail θ − log(1 − exp θ), with m as the
        largest loss gradient has it if the margin is smooth, 0 if not.
        """
        counts = self.objective.counts.copy()
        counts[leads] = False
        others = np.flatnonzero(counts)
        if not len(others):
            return others
        y, q = self.objective.targets, self.objective.weights
        sizes = np.maximum(np.abs(loss_gradient[leads]), SMALLEST)
        top, largest = leads[np.argmax(sizes)], np.log(sizes.max())
        u = y * predictions
        theta = -u / self.among(leads).temperature(tau, u[leads])
        if self._smooth:
            theta += largest - np.log(q[top]) - theta[top]
        elif self._logistic:
            theta = -np.logaddexp(0.0, -theta)
        log_sizes = theta[others] + np.log(q[others])
        loss_gradient[others] = -y[others] * np.exp(np.minimum(log_sizes, largest))
        order = np.argsort(log_sizes)
        return others[order[log_sizes[order] >= largest + np.log(LIGHT)]]

    @cached_property
    def _pulled(self):
        """K between margins, (n_data, n_data), if it is stored."""
        y = self.objective.targets
        return None if self.matrix is None else y[:, None] * self.matrix * y

    def corrected(self, change: Floats, answer: Floats) -> "Coupling":
        """The coupling with K change = answer, as was found; the rest of K stays as it can (the
        BFGS formula).

        change, answer : (n_data,). Without a matrix, or where K would not stay positive, nothing is
            corrected.
        """
        if self.matrix is None:
            return self
        moved = self.matrix @ change
        old, new = change @ moved, change @ answer
        if not (old > 0.0 and new > 1e-3 * old):
            return self
        matrix = self.matrix - np.outer(moved, moved) / old + np.outer(answer, answer) / new
        return Coupling.stored(self.objective, self.log_scale, matrix)

    def stiffer(self, more: float) -> "Coupling":
        """K + more · 1, if it is stored."""
        matrix = self.matrix.copy()  # type: ignore[union-attr]
        matrix.reshape(-1)[:: len(matrix) + 1] += more
        return Coupling.stored(self.objective, self.log_scale, matrix)

    def stiffness(self, loss_gradient: Floats) -> float:
        """Largest eigenvalue of K ∂²R, the rate at which loss gradients answer, to within some per
        cent from below; by products among the leading data."""
        leads = self.leading(loss_gradient)
        if len(leads) < len(loss_gradient):
            return self.among(leads).stiffness(loss_gradient[leads])
        curvature = np.sqrt(curvatures(self.objective, loss_gradient, self.log_scale))
        largest = curvature.max(initial=0.0)
        if not 0.0 < largest < np.inf:
            return 0.0 if largest == 0.0 else np.inf
        v, value = curvature.copy(), 0.0
        for _ in range(MOST_PRODUCTS):
            v /= np.linalg.norm(v)
            v = curvature * self.product(curvature * v)
            before, value = value, float(np.linalg.norm(v))
            if value <= SETTLED * before:
                break
        return value

    def solve(self, tau: float, predictions: Floats, guess: Floats) -> Floats | None:
        """The loss gradients r with r = ∇R(h − τ K r), (n_data,), or None if they are not found;
        predictions h, guess (n_data,). Data of weight 0 have none."""
        objective, risk, log_scale = self.objective, self.objective.risk, self.log_scale
        if not objective.weights.all():
            counting = np.flatnonzero(objective.weights)
            part = self.among(counting).solve(tau, predictions[counting], guess[counting])
            return None if part is None else _widened(part, counting, len(predictions))
        if risk.tail == "square":
            cold = np.exp(-log_scale)
            return self._system(
                tau, cold / objective.weights, predictions - cold * objective.targets
            )
        found = self._dual(tau, predictions, guess)
        if not (risk.tail == "logistic" and self._smooth):
            return found
        if large_margins(objective, predictions, log_scale):
            return found
        if self.matrix is None:  # down to half these margins the tails differ by e^−17
            return found if large_margins(objective, 2.0 * predictions, log_scale) else None
        return self._primal(tau, predictions, guess, found)

    def _dual(self, tau, predictions, guess):
        """The same for a tail, by Newton's method for the convex problem in r; of the smooth
        logistic margin with the exponential tail."""
        y, q = self.objective.targets, self.objective.weights
        u = y * predictions
        cold = self.temperature(tau, u)
        theta = np.log(np.maximum(-y * guess, 1e-300) / q)
        if self._logistic:
            theta = np.minimum(theta, -np.log1p(np.exp(np.clip(u / cold, -50.0, 500.0))))
        found = self._newton(tau, u, cold, theta, 12, 1e-12)
        if found is None and self._smooth:
            found = self._cooled(tau, u, cold, np.ptp(u) + self._shift(tau))
        return None if found is None else -y * q * np.exp(found)

    def temperature(self, tau: float, u: Floats) -> float:
        """ε, or the lowest at which margins u (n_data,) can be told apart."""
        size = np.abs(u).max() + self._shift(tau)
        return max(np.exp(-min(self.log_scale, LARGEST_LOG)), COLDEST * size)

    def _shift(self, tau):
        """How far equal loss gradients of all data move predictions in a time."""
        y = self.objective.targets
        return tau * np.abs(self.times(y * (1.0 / len(y)))).max()

    def _primal(self, tau, predictions, *guesses):
        """The same for a risk whose conjugate R* has no closed form: Newton's method for the
        minimum of the convex function

            Φ(r) = R(h − τ K r) + ½ τ rᵀK r,   ∇Φ = τ K (r − ∇R),   (1 + τ H K) δ = ∇R − r,   H =
            ∂²R

        from the guess at which Φ is lowest, with steps halved until Φ falls. Only with K stored;
        None if it does not end.
        """
        K, objective, log_scale = self.matrix, self.objective, self.log_scale

        def at(r):
            gradient = np.zeros_like(r)
            value = objective.evaluate_risk(predictions - tau * (K @ r), log_scale, gradient)
            return value + 0.5 * tau * r @ (K @ r), gradient

        values = [(*at(r), r) for r in guesses if r is not None]
        value, gradient, r = min(values, key=lambda one: one[0])
        for _ in range(MOST_NEWTON_STEPS):
            H = logistic_margin_hessian(objective, predictions - tau * (K @ r), gradient, log_scale)
            change = np.linalg.solve(np.eye(len(r)) + tau * H @ K, gradient - r)
            if np.abs(change).max() <= 1e-12 * np.abs(r).max():
                return r + change
            slope = tau * (change @ (K @ (r - gradient)))
            # R is a logarithm, and near 0 known to rounding of one, in units of e^L
            size = abs(value) + np.abs(gradient) @ np.abs(predictions) + np.exp(-log_scale)
            for halvings in range(40):
                trial = r + 0.5**halvings * change
                new, new_gradient = at(trial)
                if new <= value + 1e-4 * 0.5**halvings * slope + 1e-15 * size:
                    break
            else:
                return r if np.abs(change).max() <= 1e-6 * np.abs(r).max() else None
            value, gradient, r = new, new_gradient, trial
        return None

    @property
    def _smooth(self):
        """Whether the risk is a smooth margin: then Σ_i −y_i r_i = 1."""
        return self.objective.risk.scaled is not None

    @property
    def _logistic(self):
        return self.objective.risk.tail == "logistic" and not self._smooth

    def _cooled(self, tau, u, cold, spread):
        """θ = log(a/q) from a temperature at which it is a plain soft-argmin down to the wanted
        one."""
        hot = max(cold, 0.3 * spread)
        theta = -(u - u.min()) / hot
        while theta is not None:
            theta = self._newton(tau, u, hot, theta, 60, 1e-12 if hot == cold else 1e-2)
            if hot == cold:
                break
            hot = max(cold, COOLING * hot)
        return theta

    def _newton(self, tau, u, temperature, theta, most, tolerance):
        """Newton's method in θ = log(a/q), a_i = −y_i r_i, at one temperature ε; None if it has not
        ended after so many steps.

        Stationarity for margins u: u + τ K a + ε θ = m, with Σa = 1 and a multiplier m if the
        margin is smooth, m = 0 if not; for the logistic tail θ − log(1 − a/q) stands for θ.
        """
        if self.matrix is not None:
            found = theta.copy()
            state = newton(
                self._pulled, tau, u, self.objective.weights, temperature,
                self._smooth, self._logistic, most, tolerance, found,
            )  # fmt: skip
            if state != INDEFINITE:
                return found if state == FOUND else None
        q, y, smooth = self.objective.weights, self.objective.targets, self._smooth
        last, still, pull, logistic = np.inf, 0, tau * y, self._logistic
        highest = np.maximum.reduce
        for _ in range(most):
            if smooth:
                theta = theta - highest(theta)
                theta -= np.log(q @ np.exp(theta))
            a = q * np.exp(theta)
            pulled = pull * self.product(y * a)
            gradient = u + pulled + temperature * theta
            entropy = np.empty_like(a)
            entropy.fill(temperature)
            if logistic:
                room = -np.expm1(theta)  # 1 − a/q
                gradient -= temperature * np.log(room)
                entropy /= room
            change, multiplier = self._direction(tau, a, gradient, entropy, smooth)
            # there the entropy alone answers, which the scaled system does not resolve
            top = highest(a)
            idle = a < 1e-6 * top
            if idle.any():
                answer = multiplier - gradient - pull * self.product(y * a * change)
                change[idle] = answer[idle] / entropy[idle]
            change = np.minimum(change, np.maximum(2.0, -0.5 * theta))
            if logistic:
                change = np.minimum(change, -0.5 * theta)  # a < q
            theta = theta + change
            size = highest(np.abs(a * change)) / top
            # or rounding has taken over: at once, or so often that nothing grows behind it
            stands = size > 0.3 * last
            if highest(change) < 1.0 and (size <= tolerance or size < 1e-6 and stands):
                return theta
            if stands:
                noise = 4.0 * EPS * (highest(np.abs(u)) + highest(np.abs(pulled))) / temperature
            still = still + 1 if stands and size <= max(noise, 1e-6) else 0
            if still == STILL:
                return theta
            last = size
        return None

    def _direction(self, tau, a, gradient, entropy, smooth):
        """δa/a and the multiplier: (τ K diag(a) + diag(entropy)) δ = m − gradient, a·δ = 0 if the
        margin is smooth."""
        d, y = np.sqrt(a), self.objective.targets
        if self.matrix is not None:
            system = d[:, None] * self._pulled * d
            system *= tau
            system.reshape(-1)[:: len(d) + 1] += entropy
            solved = np.empty((2, len(d)))
            np.multiply(-d, gradient, out=solved[0])
            solved[1] = d
            solved = solve_positive(system, solved).T
        else:

            def product(v):
                return tau * d * y * self.times(y * d * v) + entropy * v

            from scipy.sparse.linalg import LinearOperator, cg  # slow to load

            operator = LinearOperator((len(d), len(d)), matvec=product)
            preconditioner = LinearOperator((len(d), len(d)), matvec=lambda v: v / entropy)
            columns = (-d * gradient, d) if smooth else (-d * gradient,)
            solved = np.column_stack(
                [cg(operator, c, rtol=1e-8, maxiter=200, M=preconditioner)[0] for c in columns]
            )
        multiplier, whole = 0.0, solved[:, 0]
        if smooth:
            multiplier = -(d @ whole) / (d @ solved[:, 1])
            whole = whole + multiplier * solved[:, 1]
        return np.divide(whole, d, out=np.zeros_like(d), where=d > 0.0), multiplier

    def _system(self, tau, diagonal, right):
        """x with (τ K + diag) x = right."""
        if self.matrix is not None:
            return solve_positive(tau * self.matrix + np.diag(diagonal), right[None])[0]
        from scipy.sparse.linalg import LinearOperator, cg  # slow to load

        n = len(right)
        operator = LinearOperator((n, n), matvec=lambda v: tau * self.times(v) + diagonal * v)
        return cg(
            operator, right, rtol=1e-12, M=LinearOperator((n, n), matvec=lambda v: v / diagonal)
        )[0]


def leading(objective: Objective, loss_gradient: Floats) -> NDArray[np.int64]:
    """Numbers of the data whose loss gradients are at least LIGHT of the largest: the others follow
    from these, and add nothing. All of few data, and of risks without a tail."""
    n, risk = len(loss_gradient), objective.risk
    # small margins of the smooth logistic margin are known to K alone, see implicit_is_known
    few = DENSE if risk.tail == "logistic" and risk.scaled is not None else FEW
    if n <= few or risk.tail not in ("logistic", "exponential"):
        return np.arange(n)
    sizes = np.abs(loss_gradient)
    return np.flatnonzero(objective.counts & (sizes >= LIGHT * sizes.max()))


def curvatures(objective: Objective, loss_gradient: Floats, log_scale: float) -> Floats:
    """Diagonal of e^L ∂²R/∂h², (n_data,), an upper bound of the matrix (up to L = 200)."""
    scale, q = np.exp(min(log_scale, STIFF_LOG)), objective.weights
    size = np.abs(loss_gradient)
    if objective.risk.tail == "square":
        return scale * q
    if objective.risk.tail == "logistic" and objective.risk.scaled is None:
        return scale * size * (1.0 - size / np.where(q > 0.0, q, 1.0))
    return scale * size


def large_margins(objective: Objective, predictions: Floats, log_scale: float) -> bool:
    """Whether all margins of data that count are so large that the logistic tail is the exponential
    one."""
    least = objective.margin(predictions)
    return bool(np.exp(min(log_scale, LARGEST_LOG)) * least > LARGE_MARGIN)


def logistic_margin_hessian(
    objective: Objective, predictions: Floats, loss_gradient: Floats, log_scale: float
) -> Floats:
    """∂²R/∂h² (n_data, n_data) in units of e^−L of the smooth logistic margin: e^L y_i y_j (δ_ij
    p_i (1 − σ(−u_i)) − p_i p_j)."""
    y, scale = objective.targets, np.exp(min(log_scale, LARGEST_LOG))
    p = -y * loss_gradient
    return scale * (
        np.diag(p / (1.0 + np.exp(np.minimum(-scale * y * predictions, 700.0))))
        - np.outer(loss_gradient, loss_gradient)
    )


def _widened(v, places, n):
    """v (n_places,) at its places among n, 0 elsewhere."""
    out = np.zeros(n)
    out[places] = v
    return out
