"""The public names of hkflow.certificates and where they are defined."""

from . import bounds as bounds
from .column_generation import max_margin as max_margin
from .column_generation import max_margin_of_atoms as max_margin_of_atoms
from .column_generation import signed_features as signed_features
from .deconvolution import Spikes as Spikes
from .deconvolution import dual_polynomial as dual_polynomial
from .deconvolution import spikes as spikes
from .diagonal_path import l1_margin_direction as l1_margin_direction
from .diagonal_path import l2_margin_direction as l2_margin_direction
from .diagonal_path import path_point as path_point
from .fixed_points import l1_margin as l1_margin
from .fixed_points import l2_margin as l2_margin
from .kernel_machine import arc_cosine_kernel as arc_cosine_kernel
from .kernel_machine import f2_max_margin as f2_max_margin
from .kernel_machine import kernel_margin as kernel_margin
from .kernel_machine import l2_interpolation as l2_interpolation
from .margin import MaxMargin as MaxMargin
from .quasi_norm import stationary_points as stationary_points
from .regression import l1_interpolation as l1_interpolation
from .regularised import minimise as minimise
from .regularised import regularisation_path as regularisation_path
from .tangent_kernel import tangent_max_margin as tangent_max_margin
