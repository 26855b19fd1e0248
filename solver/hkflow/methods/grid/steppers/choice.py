"""Explicit steppers by their names in case files."""

from functools import partial

from ...stepping.splitting import EULER, SPLITTINGS
from .muscl_hancock import MusclHancock
from .runge_kutta import Euler, RungeKutta

STEPPERS = {
    "muscl-hancock": MusclHancock,
    "euler": partial(Euler, splitting=EULER),
} | {name: partial(RungeKutta, splitting=splitting) for name, splitting in SPLITTINGS.items()}
