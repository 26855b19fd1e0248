"""Kinks of ∫φ off the origin: the small spheres on which features ψ(θ·x) have one of several kinks.

With θ̂ = (θ, 1) a hinge (x·θ − c)₊ is (x̂·θ̂)₊ of x̂ = (x, −c), and what is known of kinks through
the origin holds in one dimension more:

    ψ(s) = v + b s + Σ_j J_j (s − c_j)₊,   Σ_i r_i ψ(x_i·θ) = θ̂·(ĝ₀ + Σ_{n_k·θ̂ > 0} κ_k n_k)

A plane n_k·θ̂ = 0 that misses the sphere has all of it on one side, and is part of ĝ₀.
"""

from typing import Any

import numpy as np

from ...arguments import Floats
from ...objectives.activations import FEATURES, Feature
from ..frozen_relu.kinks import Kinks


class ShiftedKinks:
    """The kinks of a feature with `hinges`, and what a loss gradient makes of them; as Kinks.

    feature : with `hinges`;  inputs : (n_data, p)
    normals : (n_kinks, p + 1) unit vectors n_k
    """

    def __init__(self, feature: Feature, inputs: Floats) -> None:
        assert feature.hinges is not None
        self.value, self.below, places, self.jumps = feature.hinges
        self.inputs, n = np.ascontiguousarray(inputs, dtype=float), len(inputs)
        pairs = np.column_stack([np.tile(self.inputs, (len(places), 1)), -np.repeat(places, n)])
        self.pairs = Kinks.of(FEATURES["relu"], pairs)
        normals = self.pairs.normals
        sizes = np.linalg.norm(normals[:, :-1], axis=1)
        self.meets = np.abs(normals[:, -1]) < sizes
        self.always = normals[:, -1] >= sizes
        self.normals = np.ascontiguousarray(normals[self.meets])

    def gradient(self, loss_gradient: Floats) -> tuple[np.ndarray, np.ndarray]:
        """κ (n_kinks,) and ĝ₀ (p + 1,) for a loss gradient (n_data,)."""
        jumps, constant = self.pairs.gradient(np.outer(self.jumps, loss_gradient).ravel())
        constant += np.einsum("k,ka->a", jumps[self.always], self.pairs.normals[self.always])
        constant[:-1] += self.below * np.einsum("i,ia->a", loss_gradient, self.inputs)
        constant[-1] += self.value * loss_gradient.sum()
        return jumps[self.meets], constant


def kinks_of(feature: Feature, inputs: Floats) -> Any:
    """Kinks or ShiftedKinks of a feature over inputs (n_data, p); None if it has none."""
    if feature.kink is not None:
        return Kinks.of(feature, inputs)
    return ShiftedKinks(feature, inputs) if feature.hinges else None
