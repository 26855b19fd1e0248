"""A problem: which measure flows, on what, driven by what."""

from dataclasses import dataclass

import numpy as np

from .exact import MomentFlow
from .flows import Flow
from .meshes.mesh import Mesh
from .objectives.objective import Objective


@dataclass(frozen=True, eq=False)
class Problem:
    """∂_t ν = α div(ν ∇J_ν) − β ν J_ν − σ ν + σ U on a sphere or signed sphere, from an initial density.

    mesh : cells on S^d
    objective : F, whose first variation is J; its inputs have d+1 columns
    flow : α, β, σ
    signs : (1,) for the sphere, (1, −1) for the signed sphere
    initial : (n_signs, n_cells) mass per unit area; the uniform probability if not given
    exact : closed-form solution, if there is one
    Raises ValueError if the shapes do not fit together or the initial density is not a density.
    """

    mesh: Mesh
    objective: Objective
    flow: Flow
    signs: tuple = (1,)
    initial: np.ndarray | None = None
    exact: MomentFlow | None = None

    def __post_init__(self):
        columns, axes = self.objective.inputs.shape[1], self.mesh.dim + 1
        if columns != axes:
            raise ValueError(f"Inputs have {columns} columns (bias included) but the sphere lies in R^{axes}.")
        if tuple(self.signs) not in ((1,), (1, -1)):
            raise ValueError(f"signs must be (1,) or (1, -1), got {self.signs}.")
        shape = (len(self.signs), self.mesh.n_cells)
        density = np.full(shape, self.uniform) if self.initial is None else np.array(self.initial, dtype=float)
        density = np.ascontiguousarray(np.broadcast_to(density, shape))
        if not (np.isfinite(density).all() and (density >= 0.0).all() and density.any()):
            raise ValueError("The initial density must be finite, nonnegative and not zero everywhere.")
        object.__setattr__(self, "initial", density)

    @property
    def uniform(self):
        """Density of U, the uniform probability on the domain: one over its area."""
        return 1.0 / (len(self.signs) * self.mesh.volumes.sum())
