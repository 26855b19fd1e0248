"""Powers x^h of arrays of positive numbers, without branches and calls: compilers make vectors of
them, as they do not of the library's `pow`.

    x = m 2^e, √½ ≤ m < √2,   log₂ m = (2/ln 2) Σ_k f^(2k+1)/(2k+1),   f = (m − 1)/(m + 1)
    x^h = 2^n Σ_k (r ln 2)^k/k!,   n the integer next to h log₂ x,   r = h log₂ x − n

e and log₂ m are never added, and the leading 33 bits of h, times e, are exact: so r is off by the
rounding of h log₂ m alone, and the power by 2 + |h| units in its last place.
"""

from math import factorial, log

import numpy as np

from ..compiled import njit

LEAST = np.finfo(float).tiny  # the smallest normal number
LOGARITHM = tuple(2.0 / (log(2.0) * (2 * k + 1)) for k in range(12))  # next term: 4e-20
EXPONENTIAL = tuple(log(2.0) ** k / factorial(k) for k in range(14))  # next term: 4e-18
FRACTION, SPLIT = np.int64(2**52 - 1), ~np.int64(2**20 - 1)
ROOT, ONE, LARGE = (int(np.float64(x).view(np.int64)) for x in (np.sqrt(0.5), 1.0, 2.0**52))
ROUND = 1.5 * 2.0**52  # numbers added to it lose their fractions
ROUNDED = int(np.float64(ROUND).view(np.int64))


@njit(cache=True)
def split(h):
    """Two numbers whose sum is h, the first of 33 bits."""
    leading = np.int64(np.float64(h).view(np.int64) & SPLIT).view(np.float64)
    return leading, h - leading


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def series(coefficients, x):
    """Σ_k coefficients_k x^k, an even number of them; the even and the odd ones do not wait for
    each other."""
    square, k = x * x, len(coefficients) - 2
    even, odd = coefficients[k], coefficients[k + 1]
    for k in range(len(coefficients) - 4, -1, -2):
        even, odd = even * square + coefficients[k], odd * square + coefficients[k + 1]
    return even + x * odd


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def power(x, leading, rest):
    """x^h for a normal number x > 0 and h = leading + rest, see `split`; below 2^−1022 it is about
    that."""
    bits = np.float64(x).view(np.int64) + (ONE - ROOT)
    e = np.int64((bits >> 52) | LARGE).view(np.float64) - (2.0**52 + 1023.0)
    m = np.int64((bits & FRACTION) + ROOT).view(np.float64)
    f = (m - 1.0) / (m + 1.0)
    log_m = f * series(LOGARITHM, f * f)
    whole, part = leading * e, rest * e + (leading + rest) * log_m
    rounded = max(whole + part, -1022.0) + ROUND
    r = max((whole - (rounded - ROUND)) + part, -1.0)
    n = np.float64(rounded).view(np.int64) - ROUNDED
    return series(EXPONENTIAL, r) * np.int64((n + 1023) << 52).view(np.float64)
