"""Features φ(θ, x): what one unit with direction θ contributes to the prediction at input x."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..transforms.dense import LINEAR, RELU, SQUARED_RELU, DenseTransform, MatrixTransform


@dataclass(frozen=True)
class Feature:
    """A feature φ, by its values on all pairs.

    name : how messages and files call it
    matrix : function (points (n_points, p), inputs (n_data, p)) -> (n_data, n_points) array of φ(θ_c, x_i)
    degree : the homogeneity of φ in θ, which fixes the reaction rate of a balanced network (MATH 3); None if not homogeneous
    kernel : code of a compiled transform, or None: then the matrix is stored, at 8 n_data n_points bytes
    """

    name: str
    matrix: Callable
    degree: int | None = None
    kernel: int | None = None

    def transform(self, points, inputs):
        """The sums over this feature for fixed points and inputs."""
        if self.kernel is None:
            return MatrixTransform(self.matrix(points, inputs))
        return DenseTransform(points, inputs, self.kernel)


FEATURES = {
    feature.name: feature
    for feature in (
        Feature("linear", lambda points, inputs: inputs @ points.T, 1, LINEAR),
        Feature("relu", lambda points, inputs: np.maximum(inputs @ points.T, 0.0), 1, RELU),
        Feature("squared-relu", lambda points, inputs: np.maximum(inputs @ points.T, 0.0) ** 2, 2, SQUARED_RELU),
    )
}
