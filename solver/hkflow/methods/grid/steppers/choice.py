"""Explicit steppers by their names in case files."""

from collections.abc import Callable
from functools import partial

from ...stepping.splitting import EULER, SPLITTINGS
from ..right_hand_side import RightHandSide
from .muscl_hancock import MusclHancock
from .runge_kutta import Euler, RungeKutta
from .stepper import Stepper

STEPPERS: dict[str, Callable[[RightHandSide], Stepper]] = {
    "muscl-hancock": MusclHancock,
    "euler": partial(Euler, splitting=EULER),
    **{name: partial(RungeKutta, splitting=splitting) for name, splitting in SPLITTINGS.items()},
}
