"""Powers that compilers make vectors of, against decimal numbers."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from numba import njit

from hkflow.operators import powers
from hkflow.operators.powers import LEAST, power, split

EXPONENTS = (-0.9, -0.25, 0.05, 0.25, 1.0 / 3.0, 0.5, 0.75, 1.0, np.pi / 2.0, 3.5, 20.0)


@njit
def raised(x, h):
    """x^h of an array."""
    leading, rest = split(h)
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = power(x[i], leading, rest)
    return out


def errors(x, h, found):
    """In units of the last place of x^h, of which no number is below the smallest normal one."""
    with localcontext(prec=40):
        # rounded by +: a double has up to a thousand digits
        wanted = [(+Decimal(one)) ** +Decimal(h) for one in x.tolist()]
        size = np.spacing([float(one) for one in wanted])
        off = [+Decimal(a) - b for a, b in zip(found.tolist(), wanted, strict=True)]
    return np.array([float(one) for one in off]) / size


def bases(rng, h):
    """Squares of distances: of all sizes, near 1, near √½ and √2 times powers of 2, the ends."""
    least = max(LEAST, 1e-300 ** (1.0 / h) if h > 1.0 else 0.0)
    every = np.exp(rng.uniform(np.log(least), np.log(4.0), 300))
    one = 1.0 + rng.uniform(-1e-6, 1e-6, 30)
    edges = np.sqrt(0.5) * 2.0 ** np.arange(-3.0, 3.0)
    ends = [least, 1.0, 2.0, 4.0, *np.nextafter(edges, 0.0), *np.nextafter(edges, 9.0)]
    return np.concatenate([every, 4.0 * rng.random(100), one, edges, ends])


@pytest.mark.parametrize("h", EXPONENTS)
def test_powers_are_exact_to_their_last_places(h, rng):
    x = bases(rng, h)
    assert np.abs(errors(x, h, raised(x, h))).max() < 2.0 + abs(h)


def test_they_end_at_the_smallest_number(rng):
    found = raised(np.array([LEAST, 1e-200, 1e-100]), 20.0)
    assert (np.abs(found) < 1e-300).all()


def test_sibling_the_exponent_and_the_fraction_of_a_logarithm_in_one_number(rng):
    x = bases(rng, 0.25)
    assert np.abs(errors(x, 0.25, np.exp2(0.25 * np.log2(x)))).max() > 10.0


def test_sibling_a_term_that_is_left_out(rng):
    x, h = bases(rng, 0.25), 0.25
    y = h * np.log2(x)
    left_out = powers.EXPONENTIAL[11] * (y - np.rint(y)) ** 11
    assert np.abs(errors(x, h, raised(x, h) * (1.0 - left_out))).max() > 10.0
