"""What arguments must be: arrays of real numbers, whole numbers, positive numbers. What is not is
refused by a ValueError."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from inspect import signature
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import unknown_name

Floats = NDArray[np.float64]  # whose shape the docstring says
Integers = NDArray[np.integer]


def real_array(value: Any, what: str) -> Floats:
    """An array of floats, a view where `value` is one.

    what : how the sentence calls it, a plural
    Raises ValueError for masked entries, dates, complex numbers, text and whatever else is no real
    number, and for ragged rows.
    """
    if any(map(np.ma.is_masked, value if isinstance(value, list | tuple) else (value,))):
        raise ValueError(
            f"{what} must not be masked: take the rows without a masked entry, or fill it"
            " (array.filled(number))."
        )
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{what} must make an array, whose rows have one length: {error}."
        ) from error
    real = (
        array.dtype.kind in "buif"
        or array.dtype.kind == "O"
        and all(isinstance(item, Real) for item in array.flat)
    )
    if not real:
        kinds = {
            "c": "complex numbers: take array.real",
            "M": "dates: take numbers",
            "m": "durations: take numbers",
        }
        kinds |= {"U": "text", "S": "text", "O": "objects"}
        raise ValueError(
            f"{what} must be real numbers, got {kinds.get(array.dtype.kind, str(array.dtype))}."
        )
    return np.asarray(array, dtype=float)


def check_shape(
    name: str, shape: tuple | None, dimensions: Sequence[str], sizes: dict[str, int]
) -> None:
    """Raise ValueError unless the shape of an array fits its dimensions, by their names.

    sizes : {dimension: extent}, to which the dimensions that it does not know are added
    """
    wanted = [sizes.get(dimension) for dimension in dimensions]
    if (
        shape is None  # of a dataset without space
        or len(shape) != len(wanted)
        or any(w not in (None, n) for w, n in zip(wanted, shape, strict=True))
    ):
        known = zip(dimensions, wanted, strict=True)
        text = ", ".join(f"{dimension} {'any' if w is None else w}" for dimension, w in known)
        raise ValueError(f"'{name}' has the shape {shape}, wanted ({text})")
    sizes.update(zip(dimensions, shape, strict=True))


def real_number(value: Any, what: str) -> float:
    """A float, since kernels would be compiled anew for an int; a float of any class stays itself.

    what : how the sentence calls it
    Raises ValueError for what is no real number, and for whole numbers too large for a float.
    """
    if isinstance(value, float):
        return value
    if not isinstance(value, Real):
        raise ValueError(f"{what} must be a real number, got {value!r}.")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{what} is too large for a float.") from None


def check_apart(times: Floats) -> None:
    """Raise ValueError if some of many times, (n,) in order, are one number."""
    if not (np.diff(times) > 0.0).all():
        raise ValueError(
            f"{len(times)} of them up to t = {times[-1]:g} are too close to be told apart in"
            " float64. Give fewer."
        )


def nonnegative(value: Any, what: str) -> float:
    """A finite float of at least 0, see `real_number`. Raises ValueError for other numbers."""
    number = real_number(value, what)
    if not 0.0 <= number < np.inf:
        raise ValueError(f"{what} must be finite and at least 0, got {number}.")
    return number


def whole_number(value: Any, what: str, least: int = 0) -> int:
    """An int. Raises ValueError for other numbers, and below the least."""
    if not (isinstance(value, Real) and value == value // 1 and least <= value < np.inf):  # type: ignore[operator]
        raise ValueError(f"{what} must be a whole number, at least {least}, got {value}.")
    return int(value)  # type: ignore[call-overload]


def check_positive(finite: bool = True, **values: Any) -> None:
    """Raise ValueError, with its name, for a value that is no number greater than 0, or that is
    infinite though it must not."""
    for name, value in values.items():
        if not (isinstance(value, Real) and value > 0.0 and (value < np.inf or not finite)):  # type: ignore[operator]
            got = value if isinstance(value, Real) else repr(value)
            raise ValueError(
                f"{name} must be a{' finite' if finite else ''} number greater than 0, got {got}."
            )


def check_choice(what: str, name: Any, choices: Collection[str]) -> None:
    """Raise ValueError, with the nearest choice, for a name that is none of them, or no text."""
    if not (isinstance(name, str) and name in choices):
        raise ValueError(unknown_name(what, name, choices))


@cache
def option_names(made: Callable) -> tuple[str, ...]:
    """The parameters of a function or class, but for the first."""
    return tuple(signature(made).parameters)[1:]


def check_options(
    options: Iterable[str], made: Callable, what: str, besides: Iterable[str] = ()
) -> None:
    """Raise ValueError, with the nearest name, for one of the options that is no keyword of what is
    made, nor of those besides."""
    known = {*option_names(made), *besides}
    for name in options:
        check_choice(what, name, known)
