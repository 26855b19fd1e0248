"""Units with fixed directions and trained radii, h = (1/m) Σ ε_j r_j² φ(θ_j, x): a raw form of the
Hellinger flow."""

from dataclasses import replace
from typing import Any

import numpy as np

from ...arguments import Floats
from ...measures.point_measure import PointMeasure
from ...problem.problem import Problem


class Radii:
    """The parameters of layers "radii": y = r, and ṙ_j = −m ∂F/∂r_j = −2 r_j J_j, so that r_j²/m
    follows −4 ν J.

    The initial atoms give the directions θ_j with their signs ε_j, and r_j² = m weight_j.
    Source: Chizat & Bach 2020, sec. 4.
    """

    def __init__(self, problem: Problem, layers: str = "radii") -> None:
        self.problem = problem

    def start(self, balance: float) -> dict[str, Floats]:
        """Directions, signs and radii of the problem's initial measure."""
        atoms = self.problem.atoms()
        return {
            "positions": atoms.positions,
            "signs": atoms.signs,
            "inner": np.sqrt(len(atoms) * atoms.weights),
        }

    def place(self, arrays: dict[str, Any]) -> tuple[Floats, int]:
        """Take these arrays as the state; returns y and its length."""
        self.positions, self.signs = arrays["positions"], arrays["signs"]
        self.m = len(self.signs)
        self.objective, self.weights = (
            self.on(self.problem.objective),
            np.zeros((1, self.m)),
        )
        return arrays["inner"], self.m

    def on(self, objective: Any) -> Any:
        """An objective, of all data or of a batch, as a function of the signed weights ε r²/m."""
        return replace(objective, weight_decay=0.0).at_fixed_points(self.positions)

    def arrays(self, y: Floats) -> dict[str, Floats]:
        """The arrays that `place` takes."""
        return {"positions": self.positions, "signs": self.signs, "inner": y}

    def homogeneous_norm(self, y: Floats) -> float:
        """|r|²/m, of which h is a function of degree one: the mass."""
        return float(np.sum(y * y)) / self.m

    def set_floors(self, y: Floats, floors: Floats) -> None:
        """Errors count relative to radii below 1, which J makes grow by as many times as others."""
        floors[:] = np.where(y != 0.0, np.minimum(np.abs(y), 1.0), 1.0)

    def fill(self, e: Any, objective: Any) -> None:
        """ṙ = −2 r J with J = ε Σ_i ∂_i R φ(θ, x_i) + λ; dF/dt = −4 ∫J² dν and d|ν|/dt = −4 ∫J
        dν."""
        nu, decay = e.y * e.y / self.m, self.problem.objective.weight_decay
        np.multiply(self.signs, nu, out=self.weights[0])
        risk = objective.evaluate(self.weights)
        J = self.signs * objective.potential[0] + decay
        e.rate[:] = -2.0 * e.y * J
        e.mass, first, second = nu.sum(), np.sum(nu * J), np.sum(nu * J * J)
        e.objective = float(risk + decay * e.mass)
        e.rms_potential = np.sqrt(second / e.mass) if e.mass > 0.0 else 0.0
        e.rates.set(
            energy_reaction=-4.0 * second,
            mass_reaction=-4.0 * first,
            energy_exchanged=4.0 * second,
            mass_exchanged=4.0 * np.sqrt(second) * np.sqrt(e.mass),
        )

    @staticmethod
    def measure(arrays: dict[str, Any]) -> PointMeasure:
        """The atoms (1/m) Σ r_j² δ_(θ_j, ε_j)."""
        return PointMeasure(
            arrays["positions"], arrays["signs"], arrays["inner"] ** 2 / len(arrays["inner"])
        )
