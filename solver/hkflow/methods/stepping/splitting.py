"""Steppers: which mechanisms of the flow advance together, by which tableau, for which fraction of
the step."""

from dataclasses import dataclass

from .tableaus import SSPRK1, SSPRK2, SSPRK3, Tableau, stability_limit


@dataclass(frozen=True)
class Part:
    """One substep: transport, or reaction and noise, or both, over a fraction of the step."""

    tableau: Tableau
    fraction: float = 1.0
    transport: bool = True
    reaction: bool = True


@dataclass(frozen=True)
class Stepper:
    """A sequence of substeps that makes one step of the given order.

    parts : the substeps; none if the step is the flow of the potential at its middle, held fixed,
        which follows from the last three states: stable like the Adams–Bashforth method of order 3,
        whose limit is 6/11
    cfl, largest_cfl : Courant numbers, by default and at most, with limited linear reconstruction
    stability : largest dt λ at which an explicit step is stable for ẏ = −λy
    exponential : whether the reaction is integrated as a factor e^Λ; if not, every stage is a plain
        Euler step
    """

    name: str
    order: int
    parts: tuple
    cfl: float = 0.4
    largest_cfl: float = 0.5
    exponential: bool = True
    stability: float = 2.0


def _unsplit(tableau):
    return Stepper(
        tableau.name, tableau.order, (Part(tableau),), stability=stability_limit(*tableau.butcher())
    )


_HALF_REACTION = Part(SSPRK2, fraction=0.5, transport=False)

STEPPERS = {
    stepper.name: stepper
    for stepper in (
        Stepper("hancock", 3, (), cfl=0.9, largest_cfl=1.0, stability=6 / 11),
        Stepper("euler", 1, (Part(SSPRK1),), exponential=False),
        _unsplit(SSPRK1),
        _unsplit(SSPRK2),
        _unsplit(SSPRK3),
        Stepper("strang", 2, (_HALF_REACTION, Part(SSPRK2, reaction=False), _HALF_REACTION)),
    )
}
