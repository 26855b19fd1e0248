"""Gradients that users give, held against differences of the values that they give."""

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from ..arguments import Floats

CANCELLED = 1000.0  # roundings of one: what is left of terms that cancel, as beside a hat function
SMALLER = 0.01  # the second step, for functions too steep for the first
MOST = 0.1  # that rounding may do to a slope; a second step in single precision does more


def check_slopes(
    what: str,
    values: Callable[[float], Floats],
    found: Floats,
    size: Floats | float,
    dtype: DTypeLike,
) -> None:
    """Raise ValueError unless slopes (n,) are those at 0 of functions s -> values(s), (n,).

    what : how the sentence calls it;  size : of the values, by which they are rounded;  dtype : in
        which they are made
    Central differences have a step and an error of about ε^⅓, ε the rounding.
    """
    eps = float(np.finfo(dtype).eps)
    rough = 2.0 * eps ** (1.0 / 3.0)
    for step in (rough, SMALLER * rough):
        if (rounding := CANCELLED * eps / step) > MOST:
            break
        wanted = (values(step) - values(-step)) / (2.0 * step)
        bound = rough * (np.abs(wanted) + size) + rounding
        if np.all(np.abs(found - wanted) <= bound):
            return
    k = int(np.abs(found - wanted).argmax())
    raise ValueError(
        f"{what} has another gradient than its values: {found[k]:.6g} where differences of the"
        f" values give {wanted[k]:.6g}."
    )
