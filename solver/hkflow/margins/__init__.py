"""What flows converge to, computed independently: max-margins, kernel machines, regularised minimisers; and what runs prove."""

from .diagonal_path import path_point
from .fixed_points import l1_margin, l2_margin
from .kernel_machine import f2_max_margin, kernel_margin, l2_interpolation
from .max_margin import MaxMargin, max_margin
from .quasi_norm import stationary_points
from .regression import l1_interpolation
from .regularised import minimise, regularisation_path
from .tangent_kernel import tangent_max_margin

__all__ = [
    "MaxMargin",
    "f2_max_margin",
    "kernel_margin",
    "l1_interpolation",
    "l1_margin",
    "l2_interpolation",
    "l2_margin",
    "max_margin",
    "minimise",
    "path_point",
    "regularisation_path",
    "stationary_points",
    "tangent_max_margin",
]
