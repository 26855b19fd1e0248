"""A density on a mesh with all that the scheme derives from it, and the unit of its numbers."""

import numpy as np

from ..step import Budget

RESCALE = 2.0**64  # a mass that outgrows this factor moves into log_scale


class Evaluation:
    """A density and all that the scheme derives from it; extensive numbers in units of e^log_scale.

    density, divergence, mobility : (n_signs, n_cells);  potential : the same shape
    predictions, loss_gradient : (n_data,) h and ∂R/∂h;  objective, mass, log_mass, smallest
        (density), lowest (potential), outflow (largest, per time), rounding (of F), rms_potential
        (root mean square of J under ν), mobility_mass (∫m(ν)), first (∫J m(ν)), shift : numbers
    rates : Budget of dF/dt and d|ν|/dt
    """

    def __init__(self, n_signs: int, n_cells: int, n_data: int, hellinger: bool):
        self.density, self.divergence, self.potential = (
            np.zeros((n_signs, n_cells)) for _ in range(3)
        )
        self.mobility = self.density if hellinger else np.zeros((n_signs, n_cells))
        self.predictions, self.loss_gradient = np.zeros(n_data), np.zeros(n_data)
        self.rates = Budget()
        self.objective = self.mass = self.log_mass = self.smallest = self.outflow = 0.0
        self.rounding = self.rms_potential = self.lowest = self.shift = self.mobility_mass = 0.0
        self.defect = self.first = 0.0


def next_unit(mass: float, log_scale: float, normalised: bool) -> tuple[float, float]:
    """The factor by which the unit of a mass grows, and the new log_scale; (1, log_scale) if the
    unit stays.

    The unit is a power of two near a mass that is very large or very small, and the mass itself in
    a normalised flow. F does not vanish with the mass: its unit is one at least, for normalised
    flows 1 / RESCALE.
    """
    if not 0.0 < mass < np.inf or not (normalised or not 1.0 / RESCALE <= mass <= RESCALE):
        return 1.0, log_scale
    factor = mass if normalised else 2.0 ** np.round(np.log2(mass))
    larger = log_scale + np.log(factor)
    if larger < (-np.log(RESCALE) if normalised else 0.0):
        return float(np.exp(-log_scale)), 0.0
    return float(factor), float(larger)
