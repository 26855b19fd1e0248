"""Max-margin and interpolation in the Hilbert space H of a kernel K, on data x_i with labels y_i;
no intercept.

          data j →
K  =  data i ↓   K_ij = K(x_i, x_j)          g = Σ_i c_i K(x_i, ·),  |g|²_H = cᵀK c
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..arguments import Floats, real_array
from ..compiled import njit
from ..errors import HkflowError, unknown_name
from ..objectives.activations import Feature
from ..objectives.objective import Objective
from ..objectives.population import arc_cosine
from ..shown import Shown
from .fixed_points import least_distance

# relative: how far the two values that enclose a margin may be apart where the rounding of K does
# not part them, or an interpolant from its data
GAP = 1e-8
# relative: how much the rounding of K may part those two, or change the square of a norm
UNKNOWN = 1e-4
EPS = np.finfo(float).eps
PAIRS = 1 << 20  # of new inputs and data whose kernels are stored together: 8 MB, several times


@dataclass(frozen=True, eq=False, repr=False)
class KernelMachine(Shown):
    """The largest margin in the unit ball of H and its proof for K as it is: lower ≤ γ ≤ upper,
    relative GAP apart, or as far as the rounding of K makes it, at most UNKNOWN.

    value : γ, or 0 if nothing separates the data;  lower : min_i y_i g(x_i);  upper : √(pᵀYKYp)
    dual : (n_data,) p ≥ 0, Σ p = 1;  coefficients : (n_data,) c = Yp/upper, zero if γ = 0
    """

    value: float
    lower: float
    upper: float
    dual: Floats
    coefficients: Floats

    def _facts(self):
        count = np.count_nonzero(self.dual)
        return {
            "γ": f"{self.lower:.9g} ≤ γ ≤ {self.upper:.9g}",
            "support": f"{count} of {len(self.dual)} data count",
        }

    def decision(self, K_new: Floats) -> Floats:
        """g(x) = Σ_i p_i y_i K(x_i, x)/upper, (n_new,), for K_new (n_new, n_data) of K(x, x_i)."""
        return K_new @ self.coefficients


@dataclass(frozen=True, eq=False)
class Interpolant:
    """The function of least norm in H that takes given values.

    norm : |g|_H;  coefficients : (n_data,) c;  residual : max |K c − y| / max |y|
    unknown : relative, how much the rounding of K may change the square of the norm
    """

    norm: float
    coefficients: Floats
    residual: float
    unknown: float

    def decision(self, K_new: Floats) -> Floats:
        """g(x) = Σ_i c_i K(x_i, x), (n_new,), for K_new (n_new, n_data) of K(x, x_i)."""
        return K_new @ self.coefficients


@dataclass(frozen=True, eq=False, repr=False)
class KernelClassifier(Shown):
    """A machine with its kernel and data: a function of x.

    machine : KernelMachine;  kernel : function (x (n, p), z (k, p)) -> (n, k);  inputs : (n_data,
        p)
    """

    machine: KernelMachine
    kernel: Callable
    inputs: Floats

    def _facts(self):
        return self.machine._facts()

    def __call__(self, x: Floats) -> Floats:
        """g at x (n_new, p), (n_new,); some at a time, by the data that count."""
        x, coefficients = np.atleast_2d(x), self.machine.coefficients
        counts = np.flatnonzero(coefficients)
        inputs, c = self.inputs[counts], coefficients[counts]
        rows = max(PAIRS // max(len(c), 1), 1)
        parts = range(0, max(len(x), 1), rows)
        return np.concatenate([self.kernel(x[k : k + rows], inputs) @ c for k in parts])


# --- kernels of directions uniform on the sphere


@njit(cache=True)
def angular(degree, cosines, out):
    """out = k_degree(cosines), both (n, k)."""
    for i in range(cosines.shape[0]):
        for j in range(cosines.shape[1]):
            out[i, j] = arc_cosine(degree, cosines[i, j])


def linear_kernel(x: Floats, z: Floats) -> Floats:
    """∫ (θ·x)(θ·z) dτ(θ) = x·z/p for τ uniform on the unit sphere of R^p; x (n, p), z (k, p).
    Returns (n, k)."""
    return x @ z.T / x.shape[1]


def arc_cosine_kernel(x: Floats, z: Floats, degree: int) -> Floats:
    """K(x, z) = ∫ σ(θ·x) σ(θ·z) dτ(θ) for σ(s) = max(s, 0)^degree and τ uniform on the unit sphere
    of R^p, x·z = |x||z| cos ω:

        degree 1   |x||z| (sin ω + (π−ω) cos ω) / (2π p)
        degree 2   |x|²|z|² (3 sin ω cos ω + (π−ω)(1 + 2cos²ω)) / (2π p(p+2))

    p or p(p+2), the moments E|g|² and E|g|⁴ of a Gaussian vector, times these is the kernel of
    weights N(0, I_p). Errors are of the order of the rounding of |x|^degree |z|^degree at all
    angles.
    x : (n, p), z : (k, p), the column of ones of a bias included.   Returns (n, k).
    Raises ValueError for another degree or inputs of different dimensions.   Source: Cho & Saul
    2009 (twice that of N(0, I)).
    """
    x, z = (np.atleast_2d(np.asarray(v, dtype=float)) for v in (x, z))
    p = x.shape[1]
    if degree not in (1, 2) or z.shape[1] != p:
        raise ValueError(
            f"Arc-cosine kernels have degree 1 or 2 and inputs of one dimension, got {degree},"
            f" {x.shape}, {z.shape}."
        )
    sizes = [np.linalg.norm(v, axis=1) for v in (x, z)]
    units = [
        v / np.where(size > 0.0, size, 1.0)[:, None] for v, size in zip((x, z), sizes, strict=True)
    ]
    K = np.empty((len(x), len(z)))
    angular(degree, units[0] @ units[1].T, K)
    K *= np.outer(*sizes) ** degree
    return K / (p if degree == 1 else p * (p + 2))


KERNELS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "linear": linear_kernel,
    "relu": partial(arc_cosine_kernel, degree=1),
    "squared-relu": partial(arc_cosine_kernel, degree=2),
}


def piecewise_linear_kernel(x: Floats, z: Floats, below: float, above: float) -> Floats:
    """∫ ψ(θ·x) ψ(θ·z) dτ(θ) of a ψ with slopes a above 0 and b below, by the arc-cosine kernel k of
    degree 1:

        K(x, z) = (a² + b²) k(x, z) − 2 a b k(x, −z)

    x (n, p), z (k, p).   Returns (n, k).
    """
    own, opposite = arc_cosine_kernel(x, z, 1), arc_cosine_kernel(x, -z, 1)
    return (above**2 + below**2) * own - 2.0 * above * below * opposite


def kernel_of(feature: Feature) -> Callable[[Floats, Floats], Floats] | None:
    """The kernel (x, z) -> ∫ φ(θ, x) φ(θ, z) dτ(θ) of a feature; None where no closed form is
    known."""
    if feature.name in KERNELS or feature.joint or not feature.pieces:
        return KERNELS.get(feature.name)
    below, above = feature.pieces
    return partial(piecewise_linear_kernel, below=below, above=above)


# --- machines


def kernel_margin(K: Floats, y: Floats) -> KernelMachine:
    """The hard-margin machine without intercept, whose dual is the point of least norm in the
    convex hull of the y_i K(x_i, ·):

        γ₂ = max over |g|_H ≤ 1 of min_i y_i g(x_i)  =  min over p ≥ 0, Σ p = 1 of √(pᵀYKYp),   g =
        Σ_i p_i y_i K(x_i, ·)/γ₂

    K : (n_data, n_data) positive semidefinite;  y : (n_data,) ±1.   Returns a KernelMachine; its
        value is 0 if γ₂² is below the rounding n ε |K| of K, whose norm is that of Frobenius.
    Raises ValueError for a K that is no symmetric finite matrix or labels that do not fit,
    HkflowError for a K with negative eigenvalues or if the two sides differ by more than GAP γ₂
    and the rounding of K, or by more than UNKNOWN γ₂.
    Source: Chizat & Bach 2020, eq. 5.
    """
    K, y = _checked(K, y)
    if not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError("A margin needs labels +1 or -1.")
    unit = np.sqrt(np.abs(K).max()) or 1.0
    K = K / unit / unit  # or the squares of its norm are beyond numbers
    relative = np.sqrt(np.linalg.norm(K)) or 1.0
    size = unit * relative
    root, order = _root(K)
    z = y[order, None] * root / relative  # a triangle, by which least_distance is fast
    multipliers, p = least_distance(z, np.ones(len(z))), np.empty(len(z))
    p[order] = multipliers
    nearest = multipliers @ z
    upper = float(np.linalg.norm(nearest))
    lower = float(np.min(z @ nearest)) / max(upper, np.finfo(float).tiny)
    if upper <= np.sqrt(len(z) * EPS):
        return KernelMachine(0.0, 0.0, size * upper, p, np.zeros(len(z)))
    apart, rounding = (upper - lower) / upper, len(z) * EPS / upper**2  # relative
    allowed = max(GAP, min(rounding, UNKNOWN))
    if not apart <= allowed:
        raise HkflowError(
            f"A margin of {size * lower} is {apart:.1e} of its dual bound {size * upper} away, more"
            f" than {allowed:.0e}: K is known to rounding only; drop data"
            " that nearly coincide."
        )
    return KernelMachine(size * lower, size * lower, size * upper, p, p * y / (size * upper))


def l2_interpolation(K: Floats, y: Floats) -> Interpolant:
    """Regression of least norm:

        min |g|_H over g(x_i) = y_i :   g = Σ_i c_i K(x_i, ·),  K c = y,  |g|²_H = yᵀK⁻¹y

    With the kernel of directions uniform on the sphere |g|_H = √κ |α|₂ of Wei, κ the area of that
    sphere, since his K is κ times ours. Eigenvalues below the rounding n ε λ_max of K count as
    zero.
    K : (n_data, n_data) positive semidefinite;  y : (n_data,) any values.   Returns an Interpolant.
    Raises ValueError as kernel_margin, HkflowError if K is numerically singular for these y: no g
    comes within GAP of them, or the rounding of K changes |g|² by more than UNKNOWN.
    Source: Wei et al. 2019, eq. D.4 and Claim D.8.
    """
    K, y = _checked(K, y)
    spectrum, vectors = _spectrum(K)
    floor = len(K) * EPS * spectrum[-1]
    seen = spectrum > floor
    parts = y @ vectors[:, seen]
    c = vectors[:, seen] @ (parts / spectrum[seen])
    square = float(np.sum(parts**2 / spectrum[seen]))
    residual = float(np.abs(K @ c - y).max() / (np.abs(y).max() or 1.0))
    unknown = float(floor * (c @ c) / square) if square > 0.0 else 0.0
    if not (residual <= GAP and unknown <= UNKNOWN):
        raise HkflowError(
            f"The kernel matrix is numerically singular for these values: {residual:.1e} of them is"
            f" not reached and the norm² is known to {unknown:.1e}, where {GAP:.0e} and"
            f" {UNKNOWN:.0e} are allowed; drop data that nearly coincide."
        )
    return Interpolant(float(np.sqrt(square)), c, residual, unknown)


def f2_max_margin(objective: Objective) -> KernelClassifier:
    """The 𝓕₂-max-margin of an objective's data, of functions f = ∫ φ(θ, ·) g(θ) dτ(θ) for τ uniform
    on the sphere of directions:

        γ₂ = max over |g|_L²(τ) ≤ 1 of min_i y_i f(x_i)

    On the signed sphere g(θ, +1) − g(θ, −1) is all that counts, and the uniform probability there
    has the same kernel.
    objective : with targets ±1 and a feature that has a kernel, see kernel_of.   Returns a
        KernelClassifier.
    Raises ValueError for another feature, several outputs, and as kernel_margin.   Source: Chizat &
    Bach 2020, eq. 5.
    """
    name, kernel = objective.feature.name, kernel_of(objective.feature)
    if objective.feature.outputs > 1:
        raise ValueError(
            "An 𝓕₂-max-margin is one of labels +1 and -1 and units of one output, got units of"
            f" {objective.feature.outputs}. Give the labels of one class against the others."
        )
    if kernel is None:
        raise ValueError(unknown_name("feature with a closed-form kernel", name, KERNELS))
    return machine_on(kernel, objective)


def machine_on(
    kernel: Callable[[Floats, Floats], Floats], objective: Objective
) -> KernelClassifier:
    """The KernelClassifier of a kernel, a function (x, z) -> K(x, z), for the data of an
    objective that count."""
    counts = objective.weights > 0.0
    x, y = objective.inputs[counts], objective.targets[counts]
    return KernelClassifier(kernel_margin(kernel(x, x), y), kernel, x)


def _checked(K, y):
    """K as a matrix of floats, and y."""
    K, y = real_array(K, "Kernel matrices"), real_array(y, "Labels")
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.size == 0 or not np.isfinite(K).all():
        raise ValueError(f"A kernel matrix must be finite, n_data by n_data, got shape {K.shape}.")
    if np.abs(K - K.T).max() > 1e-12 * np.abs(K).max():
        raise ValueError(
            "A kernel matrix must be symmetric, got entries that differ by"
            f" {np.abs(K - K.T).max():.1e}."
        )
    if y.shape != K.shape[:1] or not np.isfinite(y).all():
        raise ValueError(f"{len(K)} data need as many finite labels, got shape {y.shape}.")
    return K, y


def _root(K):
    """A matrix (n_data, rank of K), 0 above its diagonal, of which the rows have the products K up
    to its rounding, and the data (n_data,) of its rows, by Cholesky's method with pivots;
    HkflowError for a K that is not positive semidefinite."""
    from scipy.linalg.lapack import dpstrf  # slow to load

    K = 0.5 * (K + K.T)
    triangle, order, rank, _ = dpstrf(K, lower=1)
    root, order = np.tril(triangle)[:, :rank], order - 1
    rest = order[rank:]
    left = np.abs(K[np.ix_(rest, rest)] - root[rank:] @ root[rank:].T).max(initial=0.0)
    if left > 100.0 * len(K) * EPS * np.linalg.norm(K):
        raise HkflowError(
            f"A kernel matrix has no negative eigenvalues; {left} of this one, of size"
            f" {np.abs(K).max()}, is no product of vectors."
        )
    return root, order


def _spectrum(K):
    """Eigenvalues, rounding below zero removed, and eigenvectors of K; HkflowError for a K that is
    not positive semidefinite."""
    spectrum, vectors = np.linalg.eigh(0.5 * (K + K.T))
    if spectrum[0] < -100.0 * len(K) * EPS * np.abs(spectrum).max():
        raise HkflowError(
            f"A kernel matrix has no negative eigenvalues, got {spectrum[0]} below the largest"
            f" {spectrum[-1]}."
        )
    return np.maximum(spectrum, 0.0), vectors
