"""Units of which weights are trained: both layers, the output layer alone, or both with normalized
directions."""

from typing import Any

import numpy as np

from ...arguments import Floats
from ...measures.point_measure import PointMeasure, Units
from ...operators.dense import blocked, unblocked
from ...problem.problem import Problem
from ..particles import kernels


class MovingUnits:
    """The parameters of layers "both", "output" and "normalized" (see Network): y = hidden
    (blocked), output and, if any, inner.

    Raises ValueError for a feature or signs that these layers cannot have.
    """

    def __init__(self, problem: Problem, layers: str) -> None:
        feature = problem.objective.feature
        if layers != "output" and feature.degree not in (1, 2):
            raise ValueError(
                f"layers = '{layers}' needs a feature of degree 1 or 2, and '{feature.name}' has"
                f" {'none' if feature.degree is None else feature.degree}. Choose the layers"
                " 'output', or the method 'particles'."
            )
        if not (layers == "both" and feature.degree == 2) and len(problem.signs) == 1:
            raise ValueError(
                "A network with trained output weights of either sign needs signs=(1, -1), in a"
                " case domain.kind = 'signed-sphere'."
            )
        self.problem, self.layers, self.degree = problem, layers, feature.degree or 0

    def start(self, balance: float) -> dict[str, Floats]:
        """Hidden weights, output weights and, for normalized units, inner weights of the problem's
        initial measure."""
        initial = self.problem.initial
        if self.layers == "both":
            units = (
                initial
                if isinstance(initial, Units)
                else Units.of(self.problem.atoms(), self.degree, balance)
            )
            if self.degree == 2 and not np.isin(units.output, (1.0, -1.0)).all():
                raise ValueError(
                    "With a feature of degree 2 the output weights are signs: +1 or -1."
                )
            return {"hidden": units.hidden, "output": units.output}
        if self.layers == "output":
            if isinstance(initial, Units):
                if self.degree == 0 and not np.allclose(
                    np.linalg.norm(initial.hidden, axis=1), 1.0, rtol=1e-12
                ):
                    raise ValueError(
                        "With a feature that is not homogeneous the hidden weights must be unit"
                        " vectors."
                    )
                return {"hidden": initial.hidden, "output": initial.output}
            atoms = self.problem.atoms()
            return {"hidden": atoms.positions, "output": atoms.signs * atoms.weights * len(atoms)}
        atoms = self.problem.atoms()
        radius = np.sqrt(atoms.weights)
        output = atoms.signs * radius * np.sqrt(balance)
        return {"hidden": atoms.positions, "output": output, "inner": radius / np.sqrt(balance)}

    def place(self, arrays: dict[str, Any]) -> tuple[Floats, int]:
        """Take these arrays as the state; returns y and how many of its numbers are not padding."""
        self.hidden = arrays["hidden"]
        parts = [arrays[name] for name in ("output", "inner") if name in arrays]
        self.m = len(parts[0])
        self.objective = self.on(self.problem.objective)
        blocks = blocked(self.hidden, self.objective.operator.points.shape[2])
        self.shape, self.blocks, self.weights = blocks.shape, blocks.size, np.zeros(self.m)
        self.sums, self.scratch = (
            np.zeros((len(blocks), 5)),
            np.zeros((len(blocks), 3, blocks.shape[2])),
        )
        return np.concatenate([blocks.ravel(), *parts]), self.hidden.size + sum(map(len, parts))

    def on(self, objective: Any) -> Any:
        """An objective, of all data or of a batch, as a function of these units."""
        return objective.at_moving_points(self.hidden)

    def parts(self, y: Floats) -> tuple[Floats, Floats, Floats]:
        """Views of hidden (blocked), output and, for normalized units, inner weights in a state
        vector."""
        blocks, m = self.blocks, self.m
        return y[:blocks].reshape(self.shape), y[blocks : blocks + m], y[blocks + m :]

    def arrays(self, y: Floats) -> dict[str, Floats]:
        """The arrays that `place` takes."""
        hidden, output, inner = self.parts(y)
        return {"hidden": unblocked(hidden, self.m), "output": output} | (
            {"inner": inner} if len(inner) else {}
        )

    def homogeneous_norm(self, y: Floats) -> float:
        """The norm, to the power that makes h homogeneous of degree one in it, of the weights in
        which h is homogeneous."""
        hidden, output, inner = self.parts(y)
        if self.layers == "output":
            return float(np.sqrt(np.sum(output**2) / self.m))
        if self.layers == "normalized":
            return 0.5 * float(np.sum(output**2) + np.sum(inner**2))
        trained = np.sum(hidden**2) + (np.sum(output**2) if self.degree == 1 else 0.0)
        return float(trained) / (2.0 if self.degree == 1 else 1.0) / self.m

    def set_floors(self, y: Floats, floors: Floats) -> None:
        """Errors of the trained weights count relative to the size of their unit where it is below
        1: J makes small units grow by as many times as large ones. Outputs alone do not grow so."""
        if self.layers == "output":
            return
        both = self.layers == "both"
        by_output = not both or self.degree == 1
        kernels.unit_floors(*self.parts(y), both, by_output, *self.parts(floors))

    def fill(self, e: Any, objective: Any) -> None:
        """e.rate = −m ∂F/∂w (normalized: −∂F/∂w) and the integrals at the state e.y."""
        (hidden, output, inner), (velocities, drift, inner_drift) = (
            self.parts(e.y),
            self.parts(e.rate),
        )
        decay = self.problem.objective.weight_decay
        if self.layers == "normalized":
            kernels.to_sphere(hidden, self.m, objective.operator.points)
            np.multiply(inner, output, out=self.weights)
            risk = objective.evaluate(self.weights)
            kernels.normalized_unit_rates(
                hidden, inner, output, objective.slopes, objective.gradient, decay, velocities,
                inner_drift, drift, self.scratch, self.sums,
            )  # fmt: skip
            return self._integrals(e, risk, 1.0)
        objective.operator.points[:] = hidden
        np.divide(output, self.m, out=self.weights)
        risk = objective.evaluate(self.weights)
        trains_hidden, trains_output = (
            self.layers == "both",
            self.layers == "output" or self.degree == 1,
        )
        kernels.unit_rates(
            hidden, output, objective.slopes, objective.gradient, float(trains_hidden),
            float(trains_output), decay * self.degree * trains_hidden, decay * trains_output,
            self.degree, velocities, drift, self.scratch, self.sums,
        )  # fmt: skip
        return self._integrals(e, risk, 1.0 / self.m)

    def _integrals(self, e, risk, share):
        totals = (np.add.reduce(self.sums) * share).tolist()
        e.mass, growth, penalty, aside, along = totals
        e.objective = float(risk + penalty)
        e.rms_potential = np.sqrt((aside + along) / e.mass) if e.mass > 0.0 else 0.0
        e.rates.set(
            energy_transport=-aside,
            energy_reaction=-along,
            mass_reaction=growth,
            energy_exchanged=aside + along,
            mass_exchanged=abs(growth) + np.sqrt(aside + along) * np.sqrt(e.mass),
        )

    @staticmethod
    def measure(arrays: dict[str, Any]) -> Units | PointMeasure:
        """The network, as Problem.initial wants it; normalized units as the atoms that they are."""
        if "inner" not in arrays:
            return Units(arrays["hidden"], arrays["output"])
        weights = arrays["inner"] * arrays["output"]
        return PointMeasure(arrays["hidden"], np.where(weights < 0.0, -1.0, 1.0), np.abs(weights))
