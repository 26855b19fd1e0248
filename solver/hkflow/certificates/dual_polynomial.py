"""The certificate of sparse deconvolution: the dual polynomial η(θ) = −Σ_i ∂_i R(h) φ(θ, x_i).

ν minimises R(∫φ dν) + λ|ν| over measures ν ≥ 0 exactly if η ≤ λ, with equality on its support (de
Castro & Gamboa 2012; Chizat 2022).
"""

import numpy as np

from ..arguments import Floats
from ..objectives.objective import Objective

SAMPLES = 2**16
ROUNDING = 1e-15  # of the largest coefficient: smaller ones are not told from none


def dual_polynomial(objective: Objective, predictions: Floats) -> tuple[float, float]:
    """The largest value of η on the circle, between a value that it takes and a bound.

        max η ≤ max_k η(θ_k) + ½ (πn/N)² max_k |η(θ_k)| / cos(πn/N) + 2 tail,   N samples

    by Bernstein's inequality |η″| ≤ n² max|η| for a trigonometric polynomial of degree n. φ need
    not be one: n is where its Fourier coefficients become rounding, and `tail` is the rest of them.

    objective : with a smooth feature, on the circle;  predictions : (n_data,) h
    Raises ValueError for another sphere, and for features that are no such polynomial to rounding.
    """
    if objective.axes != 2:
        raise ValueError(
            f"A dual polynomial is one on the circle, got points of R^{objective.axes}."
        )
    from scipy.fft import rfft  # slow to load

    loss_gradient = np.zeros_like(predictions)
    objective.evaluate_risk(np.asarray(predictions, dtype=float), 0.0, loss_gradient)
    angle = 2.0 * np.pi / SAMPLES * np.arange(SAMPLES)
    points = np.column_stack([np.cos(angle), np.sin(angle)])
    eta = -loss_gradient @ objective.feature.matrix(points, objective.inputs)
    size = np.abs(rfft(eta)) / SAMPLES
    degree = int(np.flatnonzero(size > ROUNDING * size.max()).max(initial=0))
    step = np.pi * degree / SAMPLES
    if step > 0.1:
        raise ValueError(
            f"The feature '{objective.feature.name}' has Fourier coefficients beyond degree"
            f" {degree}: the dual polynomial of a feature with kinks is not enclosed."
        )
    tail = 2.0 * float(size[degree + 1 :].sum())
    highest = float(eta.max())
    return highest, highest + 0.5 * step**2 * float(np.abs(eta).max()) / np.cos(step) + 2.0 * tail
