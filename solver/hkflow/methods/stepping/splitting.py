"""Splittings: which terms of the flow advance together, by which tableau, for which fraction of the
step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..step import shares
from .tableaus import SSPRK1, SSPRK2, SSPRK3, Tableau, stability_limit


@dataclass(frozen=True)
class Substep:
    """Transport, or reaction and noise, or both, over a fraction of the step."""

    tableau: Tableau
    fraction: float = 1.0
    transport: bool = True
    reaction: bool = True

    @property
    def active(self) -> NDArray[np.float64]:
        """1 for the terms of a Budget that the substep exchanges, 0 for the others."""
        return shares(self.transport, self.reaction)


@dataclass(frozen=True)
class Splitting:
    """A sequence of substeps that makes one step of the given order.

    stability : largest dt λ at which a step is stable for ẏ = −λy
    """

    order: int
    substeps: tuple[Substep, ...]
    stability: float = 2.0


def _unsplit(tableau):
    return Splitting(tableau.order, (Substep(tableau),), stability_limit(*tableau.butcher()))


_HALF_REACTION = Substep(SSPRK2, fraction=0.5, transport=False)

EULER = Splitting(1, (Substep(SSPRK1),))
SPLITTINGS = {
    "ssprk1": _unsplit(SSPRK1),
    "ssprk2": _unsplit(SSPRK2),
    "ssprk3": _unsplit(SSPRK3),
    "strang": Splitting(2, (_HALF_REACTION, Substep(SSPRK2, reaction=False), _HALF_REACTION)),
}
