"""The tangent kernel of a network: what it learns while its weights stay near their start."""

import numpy as np

from ..arguments import Floats, check_choice
from ..errors import unknown_name
from ..measures.point_measure import Units
from ..objectives.activations import Feature
from ..objectives.objective import Objective
from .kernel_machine import KERNELS, KernelClassifier, kernel_of, machine_on

LAYERS = ("output", "hidden")


def tangent_kernel(
    hidden: Floats,
    output: Floats,
    x: Floats,
    z: Floats,
    feature: Feature,
    layers: tuple[str, ...] = LAYERS,
) -> Floats:
    """The kernel of the gradient of f(x) = (1/m) Σ_j b_j σ(a_j·x), in the time of ẇ_j = −m ∂F/∂w_j:

        K(x, z) = m Σ_j ∂_j f(x)·∂_j f(z) = (1/m) Σ_j [ σ(a_j·x) σ(a_j·z) + b_j² σ'(a_j·x) σ'(a_j·z)
        x·z ]

    hidden : (m, p) a_j;  output : (m,) b_j;  x : (n, p);  z : (k, p);  feature : one that has
        a kernel, see kernel_of
    layers : those that move: ("output",) leaves the first term, ("hidden",) the second, as for
        squared-relu with fixed b_j = ±1
    Returns (n, k), at 8m(n+k) bytes.   Raises ValueError for another feature or layer.
    Source: Jacot et al. 2018; Chizat & Bach 2020, Fig. 3.
    """
    if kernel_of(feature) is None:
        raise ValueError(unknown_name("feature with a tangent kernel", feature.name, KERNELS))
    for layer in layers:
        check_choice("layer", layer, LAYERS)
    m, K = len(hidden), np.zeros((len(x), len(z)))
    if "output" in layers:
        K += feature.matrix(hidden, x) @ feature.matrix(hidden, z).T / m
    if "hidden" in layers:
        K += (feature.slopes(hidden, x) * output**2) @ feature.slopes(hidden, z).T / m * (x @ z.T)
    return K


def tangent_max_margin(
    objective: Objective, units: Units, layers: tuple[str, ...] = LAYERS
) -> KernelClassifier:
    """The max-margin of the linearised network x ↦ Σ_j ∂_j f(x)·v_j over Σ|v_j|² ≤ m, and the
    machine that has it:

        γ = max over |g|_H ≤ 1 of min_i y_i g(x_i),   H of the tangent kernel

    The network's own output f at the start is left out: in the lazy regime the margin outgrows it.
    objective : with targets ±1;  units : the start, as Units.   Returns a KernelClassifier.
    Raises ValueError and HkflowError as tangent_kernel and kernel_margin.   Source: Chizat & Bach
    2020, sec. 7 and Fig. 3.
    """

    def kernel(x, z):
        return tangent_kernel(units.hidden, units.output, x, z, objective.feature, layers)

    return machine_on(kernel, objective)
