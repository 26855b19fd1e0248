"""Closed-form solutions for linear features: F(ν) = ½ |∫θ dν − m* e|², ν₀ = uniform probability on S^d."""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import roots_jacobi

from .flows import Flow
from .objectives.features import FEATURES
from .objectives.objective import Objective
from .objectives.risks import RISKS
from .sphere import normalize, surface_area


@dataclass(frozen=True, eq=False)
class MomentFlow:
    """The flow that drives the first moment of a uniform measure to m* e. With u = e·θ:

        ν_t = (cosh K + u sinh K)^−(d + β/α) / |S^d|,   K̇ = α (M − m*),   M = ∫u dν_t      for α > 0
        ν_t = e^{−β C u} / |S^d|,                        Ċ = M − m*                          for α = 0

    direction : (d+1,) e, normalised here;  target : m*;  flow : transport α, reaction β, no noise
    Raises ValueError if the flow has noise, for which no closed form is known.
    """

    direction: np.ndarray
    target: float
    flow: Flow

    def __post_init__(self):
        if self.flow.noise != 0.0:
            raise ValueError("The closed-form moment flow has no noise.")
        object.__setattr__(self, "direction", normalize(np.asarray(self.direction, dtype=float)))

    @property
    def dim(self):
        """Dimension d of the sphere."""
        return len(self.direction) - 1

    def objective(self):
        """The objective ½ |∫θ dν − m* e|² as a square risk on d+1 data, the unit vectors."""
        n = self.dim + 1
        return Objective(FEATURES["linear"], RISKS["square"], np.eye(n), self.target * self.direction, np.ones(n))

    def _profile(self, K, u):
        """|S^d| ν as a function of u = e·θ, for the parameter K (or C)."""
        alpha, beta = self.flow.transport, self.flow.reaction
        if alpha == 0.0:
            return np.exp(-beta * K * u)
        return (np.cosh(K) + u * np.sinh(K)) ** -(self.dim + beta / alpha)

    def _quadrature(self):
        """Gauss–Jacobi nodes u and weights of the uniform probability, ∫f(e·θ) dU = Σ w f(u)."""
        shape = 0.5 * (self.dim - 2)
        u, w = roots_jacobi(400, shape, shape)
        return u, w / w.sum()

    def parameter(self, times):
        """K (or C) at increasing times, integrated to a relative error of about 1e-12. Returns an array like `times`."""
        times = np.atleast_1d(np.asarray(times, dtype=float))
        rate = self.flow.transport or 1.0
        u, w = self._quadrature()

        def velocity(_, K):
            return [rate * (w @ (u * self._profile(K[0], u)) - self.target)]

        if times[-1] == 0.0:
            return np.zeros(len(times))
        solution = solve_ivp(velocity, (0.0, times[-1]), [0.0], method="DOP853", t_eval=times, rtol=1e-12, atol=1e-14)
        return solution.y[0]

    def density(self, points, time):
        """ν_t at points (n, d+1), mass per unit area. Returns (n,)."""
        K = self.parameter(time)[0]
        return self._profile(K, points @ self.direction) / surface_area(self.dim)

    def mass_and_moment(self, time):
        """∫dν_t and ∫u dν_t."""
        K = self.parameter(time)[0]
        u, w = self._quadrature()
        return float(w @ self._profile(K, u)), float(w @ (u * self._profile(K, u)))
