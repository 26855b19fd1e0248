"""What options of a method need one another: asked by case files and by Python alike, without
loading a method."""

from math import isinf


def needs_max_step(stepper: str | None, max_step: float | None) -> None:
    """Raise ValueError if a stepper of fixed steps is not told their length."""
    if stepper == "euler" and (max_step is None or isinf(max_step)):
        raise ValueError("'euler' takes fixed steps: give their length, 'max_step'")
