"""Zonal kernels K(θ·θ′) of interactions, and their sums Σ_j m_j K(θ_c·θ_j).

A kernel is a Chebyshev series in t = θ·θ′, exact to TAIL of its size where it is smooth, plus
powers a |θ − θ′|^s of the distance, which have no short series and are summed as they are:

    K(t) = Σ_k c_k T_k(t) + Σ_i a_i (2 − 2t)^(s_i / 2)

On the circle and S² a series acts on harmonics, K = Σ_l λ_l Σ_m Y_lm Y_lm′ (Funk and Hecke), which
costs a product for each point and harmonic, at points that move a few. Kernels of degree 2 act on
moments in any dimension. All else is summed over pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from inspect import signature

import numpy as np
from numpy.polynomial import chebyshev

from ..arguments import Floats, check_positive, real_array
from ..errors import unknown_name
from ..measures.formula import Formula
from ..operators.dense import DATA, blocked, unblocked
from ..operators.harmonics import AXES, MAX_DEGREE, Harmonics, projection_on_degrees
from ..operators.zonal import pair_sums

TAIL = 1e-14  # of a series, relative to its size: what is left out
MAX_TERMS = 512
ROUGH = 0.01  # of its largest coefficient, beyond which a series is no kernel's
CHECKED = 2001  # values of t at which a series is compared with its function
FEW = 250  # points that move, up to which all pairs cost least, as measured on degrees 1 to 42
SMALL = 10_000  # pairs below which a second thread costs more than it brings


@dataclass(frozen=True, eq=False)
class ZonalKernel:
    """K(t), t = θ·θ′.

    series : (n_terms,) the c_k;  powers : (n_powers, 2) rows a, s of a |θ − θ′|^s, s > 0
    error : largest difference from the function that the series stands for
    """

    series: Floats
    powers: Floats
    error: float = 0.0

    def __add__(self, other: "ZonalKernel") -> "ZonalKernel":
        powers = np.concatenate([self.powers, other.powers])
        series: Floats = chebyshev.chebadd(self.series, other.series).astype(float)
        return ZonalKernel(series, powers, self.error + other.error)

    def __call__(self, t: Floats) -> Floats:
        """K at numbers t between −1 and 1, by the series and powers themselves."""
        t = np.asarray(t, dtype=float)
        distance = np.sqrt(np.maximum(2.0 - 2.0 * t, 0.0))
        return chebyshev.chebval(t, self.series) + sum(a * distance**s for a, s in self.powers)

    @cached_property
    def slopes(self) -> Floats:
        """Chebyshev coefficients of the derivative of the series."""
        found = chebyshev.chebder(self.series) if len(self.series) > 1 else np.zeros(1)
        return np.asarray(found, dtype=float)

    @property
    def degree(self) -> int:
        """Of the series."""
        return len(self.series) - 1

    @property
    def size(self) -> float:
        """A bound of |K|."""
        return float(np.abs(self.series).sum() + sum(abs(a) * 2.0**s for a, s in self.powers))

    def eigenvalues(self, axes: int) -> Floats:
        """λ_l of the series, l = 0 … degree, on the sphere of R^axes, see projection_on_degrees."""
        t, projection = projection_on_degrees(self.degree, axes)
        return projection @ chebyshev.chebval(t, self.series)

    @lru_cache(maxsize=8)  # noqa: B019 - kernels are few and small
    def stiffness(self, axes: int, alpha: float, beta: float) -> tuple[float, float]:
        """Bounds of the rate at which J answers to itself, for mass 1 and for a density of at most
        that of U, n_l the number of harmonics of degree l:

            Σ_l n_l rate_l,   max_l rate_l,   rate_l = (α l(l + d − 1) + β) λ_l where λ_l > 0

        The first is a trace, ∫(α d K′(1) + β K(1)) dν. Powers are left out.
        """
        from scipy.special import comb

        l = np.arange(len(self.series))
        rates = (alpha * l * (l + axes - 2.0) + beta) * np.maximum(self.eigenvalues(axes), 0.0)
        many = comb(l + axes - 1, axes - 1) - comb(np.maximum(l + axes - 3, 0), axes - 1)
        return float(many @ rates), float(rates.max())

    def at_fixed_points(self, points: Floats) -> "HarmonicSums | PairSums":
        """The cheapest way to make the sums at points (n, p) that stay."""
        few = self._harmonics(points.shape[1]) < len(points)
        return HarmonicSums(self, points) if few else PairSums(self, points)

    def at_moving_points(
        self, points: Floats, width: int
    ) -> "MomentSums | MovingHarmonicSums | PairSums":
        """The same, with gradients, at points that move, in blocks of this width."""
        n, axes = points.shape
        if n > FEW and not len(self.powers) and self.degree <= 2 and axes**self.degree < 2 * n:
            return MomentSums(self, points, width)
        if n > FEW and self._harmonics(axes) < 6 * n:
            return MovingHarmonicSums(self, points, width)
        return PairSums(self, points, width, with_gradient=True)

    def _harmonics(self, axes):
        """How many it acts on, infinity where they are not known."""
        known = axes in AXES and not len(self.powers) and self.degree <= MAX_DEGREE
        return len(self.series) ** (axes - 1) if known else np.inf


class HarmonicSums:
    """Σ_j m_j K(θ_c·θ_j) at points of the circle or S² that stay, by harmonics."""

    def __init__(self, kernel: ZonalKernel, points: Floats) -> None:
        self.harmonics = Harmonics(points, kernel.degree)
        self.eigenvalues = kernel.eigenvalues(points.shape[1])[self.harmonics.degrees]
        self.moments = np.zeros(len(self.eigenvalues))

    def __call__(self, masses: Floats, out: Floats) -> None:
        """masses, out (n,)."""
        self.harmonics.forward(masses, self.moments)
        self.moments *= self.eigenvalues
        self.harmonics.adjoint(self.moments, out)


class MovingHarmonicSums(HarmonicSums):
    """The same at points that move, and the part of G_c = Σ_j m_j K′(θ_c·θ_j) θ_j along the sphere.

    points, gradient : (n_blocks, p, width), see operators.dense.blocked
    """

    def __init__(self, kernel: ZonalKernel, points: Floats, width: int) -> None:
        super().__init__(kernel, points)
        self.points = blocked(points, width)
        self.gradient = np.zeros_like(self.points)

    def __call__(self, masses: Floats, out: Floats) -> None:
        """masses, out (n,); fills the gradient."""
        points = unblocked(self.points, len(out))
        self.harmonics.move(points)
        super().__call__(masses, out)
        along = self.harmonics.gradients(self.moments, points)
        self.gradient[:] = blocked(along, self.gradient.shape[2])


class MomentSums:
    """The same, with all of G, of a kernel a + bt + ct² in any dimension, by ∫dν, ∫θ dν and ∫θθᵀ
    dν."""

    def __init__(self, kernel: ZonalKernel, points: Floats, width: int) -> None:
        self.powers = np.zeros(3)
        self.powers[: len(kernel.series)] = chebyshev.cheb2poly(kernel.series)
        self.points = blocked(points, width)
        self.gradient = np.zeros_like(self.points)

    def __call__(self, masses: Floats, out: Floats) -> None:
        """masses, out (n,); fills the gradient."""
        a, b, c = self.powers
        theta = unblocked(self.points, len(out))
        weighted = masses[:, None] * theta
        first = b * np.einsum("ca->a", weighted)
        out[:] = a * masses.sum() + np.einsum("ca,a->c", theta, first)
        if c != 0.0:  # not BLAS: its bits may depend on its threads
            second = np.einsum("ca,ab->cb", theta, c * np.einsum("ca,cb->ab", weighted, theta))
            out += np.einsum("ca,ca->c", theta, second)
            first = first + 2.0 * second
        width = self.points.shape[2]
        self.gradient[:] = blocked(np.broadcast_to(first, theta.shape), width)


class PairSums:
    """The same over all pairs in any dimension, at points that may move; with_gradient : also G_c =
    Σ_j m_j K′(θ_c·θ_j) θ_j.

    points, gradient : (n_blocks, p, width), see operators.dense.blocked
    """

    def __init__(
        self,
        kernel: ZonalKernel,
        points: Floats,
        width: int | None = None,
        with_gradient: bool = False,
    ) -> None:
        self.kernel, self.n = kernel, len(points)
        self.points = blocked(points, width)
        B, p, width = self.points.shape
        self.masses, self.sums = np.zeros((B, width)), np.zeros((B, width))
        self.scratch = np.zeros((B, 3 * DATA, width))
        self.gradient = np.zeros((B, p if with_gradient else 0, width))

    def __call__(self, masses: Floats, out: Floats) -> None:
        """masses, out (n,); fills the gradient."""
        self.masses.reshape(-1)[: self.n] = masses
        few = self.n * self.n < SMALL
        (pair_sums.serial if few else pair_sums.parallel)(
            self.kernel.series, self.kernel.slopes, self.kernel.powers, self.points, self.n,
            self.masses, self.scratch, self.sums, self.gradient,
        )  # fmt: skip
        out[:] = self.sums.reshape(-1)[: self.n]


def series_of(function: Callable[[Floats], Floats]) -> tuple[Floats, float]:
    """Chebyshev coefficients of a function of t on [−1, 1], and the largest error of their sum.

    Terms are doubled until the last ones are below TAIL of the sum, up to MAX_TERMS. Raises
    ValueError for values that are no finite numbers of the shape of t.
    """

    from scipy.fft import dct  # slow to load

    def values(t):
        found = real_array(function(t.copy()), "Values of a kernel")
        got = f"the shape {found.shape}" if found.shape not in ((), t.shape) else ""
        if not got and not np.isfinite(found).all():
            first = t[np.argmin(np.isfinite(np.broadcast_to(found, t.shape)))]
            got = f"nan or inf at t = {first:g}" + ", where points coincide" * int(first == 1.0)
        if got:
            raise ValueError(
                "A kernel is a function of an array t between -1 and 1 with finite values of its"
                f" shape {t.shape}, got {got}."
            )
        return np.broadcast_to(found, t.shape)

    for terms in (16, 32, 64, 128, 256, MAX_TERMS):
        nodes = np.cos(np.pi * (np.arange(terms) + 0.5) / terms)
        c = dct(values(nodes)) / terms
        c[0] *= 0.5
        left_out = np.cumsum(np.abs(c[::-1]))[::-1]
        if left_out[terms // 2] <= TAIL * left_out[0]:
            break
    c = c[: max(1, np.count_nonzero(left_out > TAIL * left_out[0]))]
    t = np.cos(np.linspace(0.0, np.pi, CHECKED))
    return c, float(np.abs(values(t) - chebyshev.chebval(t, c)).max())


def _function(function):
    """The kernel of a function of an array t, or ValueError."""
    try:
        taken = signature(function)
        taken.bind(0)
    except TypeError:
        raise ValueError(
            "A kernel is a function of one array t = θ·θ′, and so the same for θ′ and θ; got one of"
            f" {taken}."
        ) from None
    except ValueError:  # some functions in C do not tell
        pass
    series, error = series_of(function)
    if not error <= ROUGH * np.abs(series).max():
        raise ValueError(
            f"This kernel jumps or is too steep: its series of {len(series)} terms is off by"
            f" {error:.2g}. Make it smoother."
        )
    return ZonalKernel(series, np.zeros((0, 2)), error)


def _exponential(concentration):
    return _function(lambda t: np.exp(concentration * (t - 1.0)))


def _von_mises(concentration):
    from scipy.special import ive

    peak = ive(0, concentration)  # I₀(κ) e^−κ
    return _function(lambda t: np.exp(concentration * (t - 1.0)) / peak)


def _gaussian(width):
    return _exponential(1.0 / width**2)


def _riesz(exponent):
    if exponent == 2.0:
        return _function(lambda t: 2.0 - 2.0 * t)
    return ZonalKernel(np.zeros(1), np.array([[1.0, exponent]]))


# the name, what it needs, and K
KERNELS: dict[str, tuple[str | None, Callable]] = {
    "linear": (None, lambda: _function(lambda t: t)),
    "quadratic": (None, lambda: _function(lambda t: t * t)),
    "exponential": ("concentration", _exponential),
    "von-mises": ("concentration", _von_mises),
    "gaussian": ("width", _gaussian),
    "riesz": ("exponent", _riesz),
}


def zonal_kernel(
    kernel: str | Callable[[Floats], Floats], parameters: dict[str, float]
) -> ZonalKernel:
    """The kernel of a name and its parameter, of a formula in t, or of a function of arrays t.

    Raises ValueError for an unknown name, with the choices, a parameter that is missing or not its
    own, numbers that are not positive, and a function that has no series.
    """
    needed, make = None, None
    if not (isinstance(kernel, str) or callable(kernel)):
        raise ValueError(
            "A kernel is a name, a formula in t or a function of an array t, got"
            f" {type(kernel).__name__}."
        )
    if not isinstance(kernel, str):
        needed, make = None, lambda: _function(kernel)
    elif kernel in KERNELS:
        needed, make = KERNELS[kernel]
    elif kernel == "t" or not kernel.replace("-", "").isalpha():
        formula = Formula(kernel, ("t",))
        make = lambda: _function(lambda t: formula({"t": t}))  # noqa: E731
    else:
        raise ValueError(
            unknown_name("kernel", kernel, KERNELS) + " A formula in t = θ·θ′ is one, too."
        )
    wanted = {needed} if needed else set()
    if parameters.keys() != wanted:
        named = kernel if isinstance(kernel, str) else "of a function"
        has = f"the parameter {needed}" if needed else "no parameter"
        raise ValueError(
            f"The kernel '{named}' has {has}, got {', '.join(parameters) or 'nothing'}."
        )
    check_positive(True, **parameters)
    return make(**parameters)
