"""A density on a mesh, atoms beside it, all that the scheme derives from them, and the unit of its
numbers."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..step import Budget

RESCALE = 2.0**64  # a mass that outgrows this factor moves into log_scale
FEWEST_ATOMS = 64  # that the arrays of a state have room for


@dataclass(frozen=True, eq=False)
class Atoms:
    """Captured masses, in units of e^log_scale of the method.

    positions : (n, d+1) θ;  signs : (n,) ε;  weights : (n,) > 0;  cells : (n,) those they lie in
    predictions : (n_data,) what they add to h, and external_energy ∫V over them, not known while
        they move
    """

    positions: NDArray[np.float64]
    signs: NDArray[np.float64]
    weights: NDArray[np.float64]
    cells: NDArray[np.int64]
    predictions: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    external_energy: float = 0.0

    def as_dict(self, capacity: int, filler: NDArray[np.float64]) -> dict[str, Any]:
        """What a state has of them: arrays of a length that seldom changes, so that many saves can
        be stacked in one file. They end with atoms of weight 0 at the point `filler` (d+1,)."""
        n = len(self.weights)
        found = {
            "atom_positions": np.tile(filler, (capacity, 1)),
            "atom_signs": np.ones(capacity),
            "atom_weights": np.zeros(capacity),
            "atom_cells": np.zeros(capacity),
        }
        values = self.positions, self.signs, self.weights, self.cells
        for array, value in zip(found.values(), values, strict=True):
            array[:n] = value
        return found

    @property
    def mass(self) -> float:
        """Σ weight_i."""
        return float(self.weights.sum())

    def integral(self, loss_gradient: NDArray[np.float64], weight_decay: float) -> float:
        """∫J over them, for the potential that loss gradients (n_data,) make."""
        # not BLAS: its threads would fight with the kernels’
        work = np.einsum("i,i->", loss_gradient, self.predictions)
        return float(work + weight_decay * self.mass + self.external_energy)


class Evaluation:
    """A density and all that the scheme derives from it; extensive numbers in units of e^log_scale.

    density, divergence, mobility : (n_signs, n_cells);  potential : the same shape
    predictions, loss_gradient : (n_data,) h and ∂R/∂h;  objective, mass, log_mass, smallest
        (density), lowest (potential), outflow (largest, per time), rounding (of F), entropy
        (τ∫ν log ν, a part of F), rms_potential (root mean square of δF/δν under ν, with entropy
        less its mean where that changes the mass alone), mobility_mass (∫m(ν)),
        potential_integral (∫J m(ν)), shift : numbers
    rates : Budget of dF/dt and d|ν|/dt
    atoms : captured mass beside the density, see capture.py; None where nothing is captured
    """

    atoms: Atoms | None = None

    def __init__(self, n_signs: int, n_cells: int, n_data: int, hellinger: bool) -> None:
        self.density, self.divergence, self.potential = (
            np.zeros((n_signs, n_cells)) for _ in range(3)
        )
        self.mobility = self.density if hellinger else np.zeros((n_signs, n_cells))
        self.predictions, self.loss_gradient = np.zeros(n_data), np.zeros(n_data)
        self.rates = Budget()
        self.objective = self.mass = self.log_mass = self.smallest = self.outflow = 0.0
        self.rounding = self.rms_potential = self.lowest = self.shift = self.mobility_mass = 0.0
        self.defect = self.potential_integral = self.entropy = 0.0


def room_for(n: int, room: int = FEWEST_ATOMS) -> int:
    """The length of arrays that hold n atoms: as it was, or doubled until they fit."""
    while room < n:
        room *= 2
    return room


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
