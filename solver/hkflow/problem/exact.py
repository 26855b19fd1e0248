"""Closed-form solutions for linear features: F(ν) = ½ |∫θ dν − m* e|², ν₀ = uniform probability on
S^d."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats, real_array
from ..geometry.sphere import normalize, surface_area
from ..objectives.activations import FEATURES
from ..objectives.losses import RISKS
from ..objectives.objective import Objective
from .flow import Flow

# of the trapezoidal rule in x = log tan(χ/2): its error is about e^(−π²/SPACING), whatever K is
SPACING = 0.125
KNOWN = ("transport", "reaction", "noise")  # rates


@dataclass(frozen=True, eq=False)
class MomentFlow:
    """The flow that drives the first moment of a uniform measure to m* e. With u = e·θ, M = ∫u
    dν_t:

        P(K) = (cosh K + u sinh K)^−(d + β/α) / |S^d|,   κ̇ = α (M − m*)      for α > 0
        P(K) = e^{−β K u} / |S^d|,                        κ̇ = M − m*          for α = 0
        ν_t = e^{z(t)} P(κ(t)) + σ ∫₀ᵗ e^{z(t) − z(s)} P(κ(t) − κ(s)) ds,      κ(0) = z(0) = 0

    Noise gives birth to uniform measures at all times s, each moves on as P (Duhamel). ż = −σ; if
    the drive is "probability", ż = β ∫J dν − σ with ∫J dν = (M − m*) M, which keeps the mass at
    one. The drive "measure" is the flow without a drive, and its density here is the unnormalised
    ν. Without noise ν_t = e^z P(κ).

    direction : (d+1,) e, normalised here;  target : m*;  flow : transport α, reaction β, noise σ,
        drive; its depth is 2
    Raises ValueError for a flow with more than these, for which no closed form is known, and for a
    direction that is 0.
    """

    direction: Floats
    target: float
    flow: Flow

    def __post_init__(self):
        if self.flow.depth != 2.0:
            raise ValueError(f"The closed-form moment flow needs depth 2, got {self.flow.depth:g}.")
        if not self.knows(self.flow):
            names = ", ".join(self.flow.beyond(KNOWN))
            raise ValueError(
                f"The closed-form moment flow is known without {names}: make it 0."
                if names
                else f"The closed-form moment flow needs constant rates, got {self.flow}."
            )
        direction = real_array(self.direction, "Directions")
        if direction.ndim != 1 or not 0.0 < np.linalg.norm(direction) < np.inf:
            raise ValueError(
                f"The direction must be a finite vector that is not 0, got {direction}."
            )
        object.__setattr__(self, "direction", normalize(direction))

    @staticmethod
    def knows(flow: Flow) -> bool:
        """Whether the closed form is that of a flow."""
        return flow.depth == 2.0 and not flow.beyond(KNOWN) and not flow.varies

    @property
    def dim(self) -> int:
        """Dimension d of the sphere."""
        return len(self.direction) - 1

    def objective(self) -> Objective:
        """The objective ½ |∫θ dν − m* e|² as a square risk on d+1 data, the unit vectors."""
        n = self.dim + 1
        return Objective(
            FEATURES["linear"], RISKS["square"], np.eye(n), self.target * self.direction, np.ones(n)
        )

    def parameter(self, times: ArrayLike) -> Floats:
        """κ at times ≥ 0, in any order, to an error of about 1e-12. Returns (n_times,)."""
        return self._solve(times)[0]

    def mass_and_moment(self, times: ArrayLike) -> tuple[Any, Any]:
        """∫dν_t and ∫u dν_t at a time, two numbers, or at times (n_times,), two arrays of that
        shape."""
        _, _, mass, moment = self._solve(times)
        return (mass, moment) if np.ndim(times) else (float(mass[0]), float(moment[0]))

    def density(self, points: Floats, time: float) -> Floats:
        """ν_t at points (n, d+1), mass per unit area, to a relative error of about 1e-11. Returns
        (n,)."""
        births, masses = self._births(time)
        kappa, z, _, _ = self._solve(np.append(births, time))
        near, far = (0.25 * ((points + side * self.direction) ** 2).sum(axis=1) for side in (1, -1))
        density = np.zeros(len(points))
        for mass, K, log_growth in zip(masses, kappa[-1] - kappa[:-1], z[-1] - z[:-1], strict=True):
            density += mass * np.exp(log_growth) * self._profile(K, near, far)
        return density / surface_area(self.dim)

    def _profile(self, K, near, far):
        """|S^d| P(K) where near = (1 + u)/2 and far = (1 − u)/2: cosh K + u sinh K = near e^K + far
        e^−K."""
        alpha, beta = self.flow.transport, self.flow.reaction
        if alpha == 0.0:
            return np.exp(-beta * K * (near - far))
        return (near * np.exp(K) + far * np.exp(-K)) ** -(self.dim + beta / alpha)

    def _births(self, time):
        """Times and masses of what is born up to a time: one at 0, then σ ds at Gauss–Legendre
        nodes. Returns (n,), (n,)."""
        alpha, beta, sigma = self.flow.transport, self.flow.reaction, self.flow.noise
        if sigma == 0.0:
            return np.zeros(1), np.ones(1)
        from scipy.special import roots_legendre

        rate = sigma + (alpha + beta) * abs(self.target)
        # the square root: nodes are dense at both ends
        s, w = roots_legendre(64 + 8 * int(np.sqrt(rate * time)))
        return np.append(0.0, 0.5 * time * (1 + s)), np.append(1.0, 0.5 * time * sigma * w)

    def _solve(self, times):
        """κ, z, ∫dν and ∫u dν at times, each (n_times,)."""
        times, order = np.unique(np.atleast_1d(np.asarray(times, dtype=float)), return_inverse=True)
        found = _solved(self.flow, self.dim, float(self.target), tuple(times))
        return [values[order] for values in found]


@lru_cache(maxsize=256)
def _solved(flow, d, m_star, times):
    """κ, z, ∫dν and ∫u dν at times that increase, each (n_times,); the last calls are remembered.

    In x = log tan(χ/2), χ the angle from e, u = −tanh x and the uniform probability is ∝ sech(x)^d
    dx. The flow map shifts x by κ, so with the label v = x − κ and ν = g dv (no Jacobian) each node
    v of a trapezoidal rule has its own

        ∂_t g = −β g (J − mean) − σ g + σ sech(v + κ)^d,   J = (M − m*) u,   mean = ∫J dν for
        "probability", else 0

    which is solved together with κ and z. For α = 0 nothing is shifted.
    """
    rate, shift = (flow.transport, 1.0) if flow.transport else (1.0, 0.0)
    # M stays between 0 and m*, so |κ| ≤ α |m*| t: only births use labels that far out.
    reach = 40.0 / d + (shift * rate * abs(m_star) * times[-1] if flow.noise else 0.0)
    v = np.arange(-reach, reach, SPACING)

    def uniform(x):
        tail = np.exp(-np.abs(x))
        return SPACING * surface_area(d - 1) / surface_area(d) * (2.0 * tail / (1.0 + tail**2)) ** d

    def velocity(_, state):
        x, g = v + shift * state[0], state[2:]
        u = -np.tanh(x)
        c = u @ g - m_star
        mean = c * (u @ g) if flow.drive == "probability" else 0.0
        dg = -flow.reaction * g * (c * u - mean) - flow.noise * g + flow.noise * uniform(x)
        return np.concatenate([[rate * c, flow.reaction * mean - flow.noise], dg])

    states = np.concatenate([[0.0, 0.0], uniform(v)])[:, None]
    if times[-1] > 0.0:
        from scipy.integrate import solve_ivp

        span = (0.0, times[-1])
        states = solve_ivp(
            velocity, span, states[:, 0], method="DOP853", t_eval=times, rtol=1e-13, atol=1e-16
        ).y
    kappa, z, g = states[0], states[1], states[2:]
    u = -np.tanh(v[:, None] + shift * kappa)
    return kappa, z, g.sum(axis=0), (u * g).sum(axis=0)
