"""Features φ(θ, x): what one unit with direction θ contributes to the prediction at input x."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..operators.choice import make_transform
from ..operators.dense import LINEAR, RELU, SQUARED_RELU
from ..operators.distributed import shared
from ..operators.joint import JointTransform, joint_matrix
from ..operators.matrix import FunctionTransform, MatrixTransform
from ..operators.ranks import ALONE


@dataclass(frozen=True)
class Feature:
    """A feature φ, by its values on all pairs.

    name : how messages and files call it
    matrix : function (points (n_points, p), inputs (n_data, p)) -> (n_data, n_points) array of
        φ(θ_c, x_i)
    degree : the homogeneity of φ in θ, which fixes the reaction rate of a balanced network; None if
        not homogeneous
    kernel : code of a compiled transform, or None: then the matrix is stored, at 8 n_data n_points
        bytes
    pullback : function (points, inputs, residuals (n_data,)) -> (n_points, p), Σ_i residuals_i
        ∇φ(θ_c, x_i) as a vector of R^p; needed by particles and only where there is no kernel
    joint : whether the last coordinate of θ is an output weight b: θ = (a, b) has one coordinate
        more than the inputs, and φ = b ψ(a, x) where `kernel` belongs to ψ
    """

    name: str
    matrix: Callable
    degree: int | None = None
    kernel: int | None = None
    pullback: Callable | None = None
    joint: bool = False

    def transform(self, points, inputs, name="auto", moving=False, ranks=ALONE):
        """The sums over this feature for fixed points and inputs; name : see operators.choice, for
        features of one factor.

        ranks : between which they are shared out, see operators.distributed
        """
        if self.kernel is not None and not self.joint:
            return make_transform(name, points, inputs, self.kernel, moving, ranks)
        if name not in ("auto", "dense"):
            raise ValueError(
                f"The feature '{self.name}' has no transform '{name}'. Leave 'transform' out."
            )
        if self.joint:
            return shared(ranks, partial(JointTransform, kernel=self.kernel), points, inputs)
        return shared(
            ranks,
            lambda points, inputs: MatrixTransform(self.matrix(points, inputs)),
            points,
            inputs,
        )

    def slopes(self, points, inputs):
        """b ψ′(a·x) for φ = b ψ(a·x), or ψ′(θ·x), of a built-in feature: ∇φ = slope x, besides ψ
        along b if it is joint.

        points : (n_points, p);  inputs : (n_data, p).   Returns (n_data, n_points)
        """
        s = inputs @ points[:, : inputs.shape[1]].T
        derivative = {
            LINEAR: np.ones_like,
            RELU: lambda s: (s > 0.0) * 1.0,
            SQUARED_RELU: lambda s: 2.0 * np.maximum(s, 0.0),
        }
        slope = derivative[self.kernel](s)
        return slope * points[:, -1] if self.joint else slope

    def moving_transform(self, points, inputs, name="auto", ranks=ALONE):
        """The sums over this feature and its gradient for points that move. Raises ValueError if no
        gradient is known."""
        if self.kernel is not None:
            return self.transform(points, inputs, name, True, ranks)
        if self.pullback is None:
            raise ValueError(
                f"Particles need the gradient of the feature '{self.name}': give Feature(…,"
                " pullback=…)."
            )
        make = partial(FunctionTransform, matrix=self.matrix, pullback=self.pullback)
        return shared(ranks, make, points, inputs)


def _relu(points, inputs):
    return np.maximum(inputs @ points.T, 0.0)


FEATURES = {
    feature.name: feature
    for feature in (
        Feature("linear", lambda points, inputs: inputs @ points.T, 1, LINEAR),
        Feature("relu", _relu, 1, RELU),
        Feature("squared-relu", lambda points, inputs: _relu(points, inputs) ** 2, 2, SQUARED_RELU),
        Feature("joint-relu", joint_matrix(_relu), 2, RELU, joint=True),
    )
}
