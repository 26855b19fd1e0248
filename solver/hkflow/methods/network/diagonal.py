"""Diagonal linear networks in their raw parameters u, w = u₊^D − u₋^D."""

from typing import Any

import numpy as np

from ...arguments import Floats
from ...measures.point_measure import PointMeasure, with_each_sign
from ...problem.problem import Problem


class Diagonal:
    """Parameters of layers "diagonal": y = u = (u₊, u₋), u̇ = −∇_u F = −D u^(D−1) J, so that ν =
    u^D has ν̇ = −D² ν^(2−2/D) J.

    problem : on atoms of both signs; D is the depth of its flow, and its initial density gives u =
        density^(1/D)
    Raises ValueError for a problem that is not on atoms of both signs.
    Source: Moroshko et al. 2020, sec. 3 (eq. 5).
    """

    problem: Any  # whose mesh and density are there

    def __init__(self, problem: Problem, layers: str = "diagonal") -> None:
        if not problem.domain.fixed or len(problem.signs) == 1:
            raise ValueError(
                "A diagonal network has a parameter for each atom and sign: the domain"
                " 'fixed-features' with signs=(1, -1)."
            )
        self.problem, self.depth = problem, problem.flow.depth
        self.shape = (len(problem.signs), self.problem.mesh.n_cells)

    def start(self, balance: float) -> dict[str, Floats]:
        """u = density^(1/D), of the sign of the density."""
        density = self.problem.initial.ravel()
        return {"output": np.sign(density) * np.abs(density) ** (1.0 / self.depth)}

    def place(self, arrays: dict[str, Any]) -> tuple[Floats, int]:
        """Take these arrays as the state; returns y and its length."""
        self.objective = self.on(self.problem.objective)
        return arrays["output"], len(arrays["output"])

    def on(self, objective: Any) -> Any:
        """An objective, of all data or of a batch, as a function of the weights u^D."""
        return objective.at_fixed_points(self.problem.mesh.centers, self.problem.signs)

    def arrays(self, y: Floats) -> dict[str, Floats]:
        """What `place` takes, u, and what makes the measure: atoms with weights u^D, here
        `inner`."""
        positions, signs = with_each_sign(self.problem.mesh.centers, self.problem.signs)
        inner = self._real(y) ** self.depth
        return {"positions": positions, "signs": signs, "output": y, "inner": inner}

    def _real(self, u):
        """u, or 0 where u^D would be no number: weights of D < 2 reach 0 in finite time, and those
        whose D is not whole stay there."""
        return u if float(self.depth).is_integer() else np.maximum(u, 0.0)

    def homogeneous_norm(self, y: Floats) -> float:
        """|u|^D, of which w is a function of degree one."""
        return float(np.sum(y * y) ** (0.5 * self.depth))

    def sizes(self, y: Floats) -> Floats:
        """What errors of u count relative to: |u| itself, or where u may be zero (D < 2) the
        largest."""
        return np.abs(y) if self.depth >= 2.0 else np.full(len(y), np.abs(y).max())

    def fill(self, e: Any, objective: Any) -> None:
        """u̇ = −D u^(D−1) J; dF/dt = −D² ∫J² m(ν) and d|ν|/dt = −D² ∫sign(ν) J m(ν), m(ν) =
        u^(2D−2)."""
        D, u = self.depth, self._real(e.y.reshape(self.shape))
        nu = u**D
        e.objective, J = float(objective.evaluate(nu)), objective.potential
        slope = D * u ** (D - 1.0)
        rate = -slope * J
        e.rate[:] = rate.ravel()
        first, second = np.sum(np.sign(nu) * slope * slope * J), np.sum(rate * rate)
        e.mass = np.abs(nu).sum()
        sizes = np.maximum(self.sizes(e.y), np.finfo(float).tiny)
        relative = np.abs(e.rate) / np.where(sizes > np.finfo(float).tiny, sizes, 1.0)
        e.rms_potential = relative.max() / D**2
        e.rates.set(
            energy_reaction=-second,
            mass_reaction=-first,
            energy_exchanged=second,
            mass_exchanged=np.sqrt(second) * np.sqrt(np.sum(slope * slope)),
        )
        if self.problem.flow.signed:
            # where a weight changes its sign, |ν| has a kink, and its budget no order
            e.rates["mass_exchanged"] = np.inf

    @staticmethod
    def measure(arrays: dict[str, Any]) -> PointMeasure:
        """The atoms with weights u^D; where these are negative the signs turn."""
        weights = arrays["inner"]
        return PointMeasure(
            arrays["positions"],
            np.where(weights < 0.0, -1.0, 1.0) * arrays["signs"],
            np.abs(weights),
        )
