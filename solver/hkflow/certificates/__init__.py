"""What flows converge to, computed independently: max-margins, kernel machines, regularised
minimisers; and what runs prove."""

from ..lazy import public

_HOMES = {
    "MaxMargin": "column_generation",
    "f2_max_margin": "kernel_machine",
    "kernel_margin": "kernel_machine",
    "l1_interpolation": "regression",
    "l1_margin": "fixed_points",
    "l2_interpolation": "kernel_machine",
    "l2_margin": "fixed_points",
    "max_margin": "column_generation",
    "minimise": "regularised",
    "path_point": "diagonal_path",
    "regularisation_path": "regularised",
    "stationary_points": "quasi_norm",
    "tangent_max_margin": "tangent_kernel",
}

__getattr__, __dir__, __all__ = public(__name__, _HOMES, rooms=("bounds",))
