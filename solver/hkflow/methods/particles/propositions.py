"""Steps of gradient descent for which convergence to a largest margin is proved, and what is proved
of them."""

from dataclasses import dataclass

import numpy as np

from ...arguments import Floats
from ...certificates.fixed_points import (
    l1_margin,
    l2_margin,
    mirror_ascent_bound,
    projected_ascent_bound,
)
from ...objectives.objective import Objective


@dataclass(frozen=True)
class Progress:
    """What a descent has reached before its step t.

    best : max over s < t of min_i z_i·ā(s);  beta : β of the last of these s;  total : Σ_{s<t}
        1/(β(s) √(s+1))
    """

    best: float = -np.inf
    beta: float = 1.0
    total: float = 0.0


class Proposition:
    """The steps η(t) of a proposition of Chizat & Bach 2020, on the signed features z_ij = y_i ε_j
    φ(θ_j, x_i).

        radii (Prop. 6)    η = 1/(16 ‖z‖ √(t+1)),      a = r²/m,  β = |a|₁,
                           r(0) ∝ 1
        output (Prop. 7)   η = β √2/(‖z‖ √(t+1)),      a = r/m,   β = max(1, max_s √m |a(s)|₂),
                           r(0) = 0

    points, signs : (m, p), (m,) θ_j and ε_j;  start : (m,) r(0)
    Raises ValueError for another risk than −S of the exponential loss with equal
    weights and without weight decay, another start, and for output weights that cannot separate the
    data.
    """

    def __init__(
        self,
        layers: str,
        objective: Objective,
        points: Floats,
        signs: Floats | float,
        start: Floats,
    ) -> None:
        equal = np.ptp(objective.weights) <= 1e-12 * objective.weights.max()
        normed = equal and abs(objective.weights.sum() - 1.0) <= 1e-12
        if objective.risk.name != "smooth-margin" or objective.weight_decay > 0.0 or not normed:
            raise ValueError(
                "schedule='proposition' is proved for the loss 'smooth-margin' of data of weight"
                " 1/n and without weight decay."
            )
        if layers == "radii" and np.ptp(start) > 1e-9 * np.abs(start).max():
            raise ValueError(
                "schedule='proposition' with layers 'radii' needs equal radii at the start: a"
                " uniform measure."
            )
        if layers == "output" and start.any():
            raise ValueError(
                "schedule='proposition' with layers 'output' needs output weights that are zero:"
                " initial 'zero'."
            )
        self.layers, self.targets = layers, objective.targets
        z = objective.targets[:, None] * objective.feature.matrix(points, objective.inputs) * signs
        self.n, self.m = z.shape
        self.largest = np.abs(z).max()
        self.gamma = (l1_margin if layers == "radii" else l2_margin)(z).value
        if layers == "output" and not self.gamma > 0.0:
            raise ValueError(
                "schedule='proposition' with layers 'output' needs data that these units can"
                " separate."
            )

    def step(
        self, progress: Progress, t: int, predictions: Floats, norm: float
    ) -> tuple[float, Progress]:
        """The step from a state and the progress that counts it.

        t : steps taken before;  predictions : (n,) h;  norm : |a|₁ of radii, √m |a|₂ of output
            weights
        """
        beta = norm if self.layers == "radii" else max(progress.beta, norm)
        best = max(progress.best, float(np.min(self.targets * predictions)) / beta)
        after = Progress(best, beta, progress.total + 1.0 / (beta * np.sqrt(t + 1.0)))
        size = 1.0 / 16.0 if self.layers == "radii" else beta * np.sqrt(2.0)
        return size / (self.largest * np.sqrt(t + 1.0)), after

    def record(self, progress: Progress, steps: int) -> dict[str, float]:
        """The best margin of so many steps, and what it exceeds; nan before the first step."""
        if steps == 0:
            return {"best_margin": np.nan, "bound": np.nan}
        if self.layers == "radii":
            bound = mirror_ascent_bound(
                self.gamma, self.largest, self.m, self.n, [steps], [progress.total]
            )
        else:
            bound = projected_ascent_bound(self.gamma, self.largest, self.n, [steps])
        return {"best_margin": progress.best, "bound": float(bound[0])}
