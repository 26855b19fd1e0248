"""The square risk for infinitely many Gaussian inputs, F(ν) = ½ ∬ k(θ, θ') d(ν−ν*)(θ) d(ν−ν*)(θ') +
λ|ν|, of a teacher ν*.

k(θ, θ') = E φ(θ, x) φ(θ', x) for x ~ N(0, I_p) depends on t = cos ω = θ·θ' alone (Cho & Saul 2009,
arc-cosine kernels):

    ReLU           k₁ = (sin ω + (π−ω) cos ω) / 2π                  k₁' = k₀ = (π−ω) / 2π
    squared ReLU   k₂ = (3 sin ω cos ω + (π−ω)(1 + 2cos²ω)) / 2π    k₂' = 4 k₁
                   (derivatives in t)

Products with k are sums over all pairs, exact to rounding and without a matrix, or an FFT on a
uniform circle. For the same time on S², 642 to 10242 cells (benchmarks/population.py): nodes on the
sphere of inputs leave errors of 4e-4 to 2e-5 for ReLU and 2e-6 to 4e-8 for squared ReLU; the
kernel's Legendre series, by harmonics stored for fixed points, 1e-7 to 2e-8 and 1e-10 to 2e-11.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numba import prange
from numpy.polynomial import Chebyshev, Polynomial

from ..arguments import Floats, nonnegative, real_array
from ..compiled import njit
from ..errors import unknown_name
from ..geometry.sphere import normalize
from ..operators.dense import blocked
from ..operators.parallel_loops import parallel_loop
from ..operators.ranks import ALONE, Alone
from ..shown import Shown
from .activations import FEATURES, Feature
from .losses import RISKS, Risk

CHOICES = {name: FEATURES[name] for name in ("relu", "squared-relu")}
TERMS = 20  # even
SMALL = 10_000  # pairs below which a second thread costs more than it brings
# points of a circle this close to equally spaced ones differ from them by rounding
EQUAL_ANGLES = 1e-14


def polynomial_of(n: int) -> tuple[float, ...]:
    """The coefficients (TERMS,) of P_n(z), k_n(−cos ω) = u^{2n+1} P_n(u²), u = sin(ω/2), to 2e-15
    relative on 0 ≤ z ≤ ½.

    P_0 = asin(u)/πu, and k_n' = n² k_{n−1} gives the Taylor coefficients p_nk = 4n² p_{n−1,k} /
    (2k+2n+1); their Chebyshev interpolant needs 20 terms where the series itself needs 46.
    n : 0, 1 or 2
    """
    k = np.arange(64)
    series = 2.0 / (2 * k + 1) * np.cumprod(np.append(1.0, (2 * k[1:] - 1) / (2 * k[1:])))
    for m in range(1, n + 1):
        series *= 4 * m * m / (2 * k + 2 * m + 1)
    interpolant = Chebyshev.interpolate(
        Polynomial(series / (2.0 * np.pi)), TERMS - 1, domain=[0.0, 0.5]
    )
    found = interpolant.convert(kind=Polynomial).coef.tolist()
    return tuple(found + [0.0] * (TERMS - len(found)))


P0, P1, P2 = (polynomial_of(n) for n in range(3))


@njit(inline="always")
def polynomial(table, z):
    """Σ table[i] z^i, an even number of terms; even and odd powers apart, so that fewer products
    wait for others."""
    y, even, odd = z * z, 0.0, 0.0
    for i in range(len(table) - 2, -1, -2):
        even = even * y + table[i]
        odd = odd * y + table[i + 1]
    return even + z * odd


@njit(inline="always")
def arc_cosine(n, t):
    """k_n(t), n = 0, 1 or 2, to 1e-15; |t| may exceed 1 by rounding.

    k_n(−|t|) = u^{2n+1} P_n(u²), u² = (1−|t|)/2, has no cancellation, and k_n(t) = q_n(t) − (−1)^n
    k_n(−t), 2q = 1, t, 1+2t².
    """
    z = 0.5 - 0.5 * abs(t)
    z = max(z, 0.0)
    u = np.sqrt(z)
    if n == 0:
        k = u * polynomial(P0, z)
        return k if t < 0.0 else 0.5 - k
    if n == 1:
        return u * z * polynomial(P1, z) + (0.0 if t < 0.0 else 0.5 * t)
    k = u * z * z * polynomial(P2, z)
    return k if t < 0.0 else 0.5 + t * t - k


@njit(cache=True, fastmath={"contract"})
def block_sums(degree, points, sources, n_sources, weights, t, potential, gradient):
    """The sums of pair_sums for one block; points, gradient (p, width), t, potential (width,) cut
    to the points in use."""
    n, width = len(degree), weights.shape[1]
    for j in range(n_sources):
        x, w = sources[j // width, :, j % width], weights[j // width, j % width]
        for c in range(len(t)):
            t[c] = 0.0
        for a in range(len(points)):
            for c in range(len(t)):
                t[c] += x[a] * points[a, c]
        if len(gradient) == 0:
            for c in range(len(t)):
                potential[c] += w * arc_cosine(n, t[c])
            continue
        for c in range(len(t)):
            potential[c] += w * arc_cosine(n, t[c])
            t[c] = w * (n * n) * arc_cosine(n - 1, t[c])
        for a in range(len(points)):
            for c in range(len(t)):
                gradient[a, c] += t[c] * x[a]


@parallel_loop
def pair_sums(degree, points, n, sources, n_sources, weights, scratch, potential, gradient):
    """Add Σ_j weights_j k(θ_c·θ_j) to the potential and Σ_j weights_j k'(θ_c·θ_j) θ_j to the
    gradient, j in order.

    degree: tuple whose length is the degree;  points (n_blocks, p, width), n of them, unit vectors
    or zero;  sources (their blocks, p, their width), n_sources of them;  weights (their blocks,
    their width);  scratch, potential (n_blocks, width);  gradient (n_blocks, p, width), or
    (n_blocks, 0, width) to leave it out
    """
    width = potential.shape[1]
    for b in prange(len(points)):
        c = slice(0, min(width, n - b * width))
        block_sums(
            degree, points[b, :, c], sources, n_sources, weights, scratch[b, c], potential[b, c],
            gradient[b, :, c],
        )  # fmt: skip


@parallel_loop
def directions(points, n, degree, unit, lengths, sizes):
    """unit = points / |points|, or 0 for 0; lengths |points|, sizes |points|^degree.

    points, unit (n_blocks, p, width), n of them; lengths, sizes (n_blocks, width)
    """
    width = points.shape[2]
    for b in prange(len(points)):
        for c in range(min(width, n - b * width)):
            square = 0.0
            for a in range(points.shape[1]):
                square += points[b, a, c] ** 2
            lengths[b, c] = np.sqrt(square)
            sizes[b, c] = lengths[b, c] ** degree
            inverse = 0.0 if square == 0.0 else 1.0 / lengths[b, c]
            for a in range(points.shape[1]):
                unit[b, a, c] = inverse * points[b, a, c]


@parallel_loop
def homogeneous(unit, lengths, n, degree, sums, gradient, slopes):
    """From unit vectors û to points a = |a| û: slope |a|^degree S, and in place its gradient, with
    degree · S along û.

    Euler's identity gives the radial part: in the sum it has errors of 1e-8, since k'' is infinite
    where points meet. unit, gradient (n_blocks, p, width), n of them; lengths, sums (n_blocks,
    width); slopes (n,)
    """
    width = unit.shape[2]
    for b in prange(len(unit)):
        for c in range(min(width, n - b * width)):
            radial = degree * sums[b, c]
            for a in range(unit.shape[1]):
                radial -= unit[b, a, c] * gradient[b, a, c]
            factor = 0.0 if lengths[b, c] == 0.0 else lengths[b, c] ** (degree - 1)
            for a in range(unit.shape[1]):
                gradient[b, a, c] = factor * (gradient[b, a, c] + radial * unit[b, a, c])
            slopes[b * width + c] = lengths[b, c] ** degree * sums[b, c]


class Charges:
    """Points of any length with signed weights, and the potential that such points make at these;
    every array is allocated here, once.

    points : (n_blocks, p, width), see operators.dense.blocked; `refresh` after writing to it
    masses, sums : (n_blocks, width) weights × |θ_c|^degree, and what `add_interaction` adds up at
        the unit vectors
    gradient : (n_blocks, p, width) the same for the gradient, or (n_blocks, 0, width)
    """

    def __init__(self, points: Floats, degree: int, with_gradient: bool = False) -> None:
        self.n, self.degree, self.points = len(points), degree, blocked(points)
        B, p, width = self.points.shape
        self.unit, self.gradient = (
            np.zeros_like(self.points),
            np.zeros((B, p if with_gradient else 0, width)),
        )
        self.lengths, self.sizes, self.masses, self.sums, self.scratch = (
            np.zeros((B, width)) for _ in range(5)
        )
        self.refresh()

    def of_points(self, blocks: Floats) -> Floats:
        """The entries (n,) of an array (n_blocks, width) that belong to points, as a view."""
        return blocks.reshape(-1)[: self.n]

    def refresh(self) -> None:
        """Take unit vectors and lengths of the points as they are now."""
        directions(self.points, self.n, self.degree, self.unit, self.lengths, self.sizes)

    def set_masses(self, weights: Floats | float, scale: float = 1.0) -> None:
        """Take weights (n,) times a scale."""
        np.multiply(weights, scale, out=self.of_points(self.masses))
        self.masses *= self.sizes

    def reset(self) -> None:
        """Set sums and gradient to zero."""
        self.sums.fill(0.0)
        self.gradient.fill(0.0)

    def add_interaction(self, other: "Charges") -> None:
        """Add the potential of other charges: Σ_j masses_j k(θ_c·θ_j) and Σ_j masses_j k'(θ_c·θ_j)
        θ_j."""
        kind, few = (0,) * self.degree, self.n * other.n < SMALL
        (pair_sums.serial if few else pair_sums.parallel)(
            kind, self.unit, self.n, other.unit, other.n, other.masses, self.scratch, self.sums,
            self.gradient,
        )  # fmt: skip

    def energy(self) -> float:
        """Σ_c masses_c sums_c."""
        # not BLAS: its threads would fight with the kernels’
        return float(np.einsum("bc,bc->", self.masses, self.sums))


def circulant_spectrum(charges: Charges) -> Floats | None:
    """The eigenvalues of k(θ_c·θ_j), (n // 2 + 1,), if the points are equally spaced on the circle,
    in order; None if not."""
    (_, p, _), n = charges.unit.shape, charges.n
    if p != 2 or n < 3:
        return None
    z = charges.of_points(charges.unit[:, 0] + 1j * charges.unit[:, 1])
    step = np.copysign(2.0 * np.pi / n, (z[1] * z[0].conj()).imag)
    if not np.abs(z - z[0] * np.exp(1j * step * np.arange(n))).max() <= EQUAL_ANGLES:
        return None
    from scipy.fft import rfft  # slow to load

    one = Charges(charges.unit[0, :, :1].T, charges.degree)
    one.set_masses(1.0)
    charges.reset()
    charges.add_interaction(one)
    return rfft(charges.of_points(charges.sums)).real


@dataclass(frozen=True, eq=False, repr=False)
class PopulationRisk(Shown):
    """F(ν) = ½ E (h_ν(x) − h_ν*(x))² + λ|ν| for x ~ N(0, I_p), without bias, and the targets of a
    teacher ν*.

    It stands in for an Objective: there are no data, so inputs (0, p), targets, weights and all
    predictions are empty.

    feature : φ, FEATURES["relu"] or FEATURES["squared-relu"]
    teacher : (m*, p) the teacher's units, of any length; made unit vectors here
    teacher_weights : (m*,) their signed weights, multiplied here by |unit|^degree
    weight_decay : λ ≥ 0;  entropy : τ ≥ 0, see Objective
    ranks : between which sums over fresh batches are shared out; its own
        sums each rank makes by itself
    Raises ValueError for another feature, shapes that do not fit, units that are zero or numbers
    that are not finite.
    Source: Bach & Chizat 2022, sec. 4.4 (without the ½); the kernels are those of Cho & Saul 2009.
    """

    feature: Feature
    teacher: Floats
    teacher_weights: Floats
    weight_decay: float = 0.0
    ranks: Alone = ALONE
    entropy: float = 0.0
    risk: Risk = field(init=False, default=RISKS["square"])
    inputs: Floats = field(init=False)
    targets: Floats = field(init=False)
    weights: Floats = field(init=False)

    def _facts(self):
        decay = f", weight decay {self.weight_decay:g}" if self.weight_decay else ""
        decay += f", entropy {self.entropy:g}" if self.entropy else ""
        teacher = f"a teacher of {len(self.teacher)} units in R^{self.teacher.shape[1]}"
        return {
            "units": f"{self.feature.name} units",
            "risk": f"square risk{decay}",
            "data": f"all Gaussian inputs and {teacher}",
        }

    def __post_init__(self):
        if self.feature not in CHOICES.values():
            raise ValueError(
                unknown_name("feature of a population risk", self.feature.name, CHOICES)
            )
        teacher = real_array(self.teacher, "The teacher's directions")
        weights = np.array(real_array(self.teacher_weights, "The teacher's weights"))
        if teacher.ndim != 2 or 0 in teacher.shape or weights.shape != teacher.shape[:1]:
            raise ValueError(
                f"The teacher must be (m*, p) and its weights (m*,), got {teacher.shape} and"
                f" {weights.shape}."
            )
        if not (
            np.isfinite(teacher).all() and np.isfinite(weights).all() and teacher.any(axis=1).all()
        ):
            raise ValueError(
                "The teacher's units and weights must be finite, and its units not zero."
            )
        for name in ("weight_decay", "entropy"):
            object.__setattr__(self, name, nonnegative(getattr(self, name), name))
        weights *= np.linalg.norm(teacher, axis=1) ** self.feature.degree
        given = {"teacher": normalize(teacher), "teacher_weights": weights}
        for name, value in (
            given | {"inputs": teacher[:0], "targets": weights[:0], "weights": weights[:0]}
        ).items():
            object.__setattr__(self, name, value)

    @property
    def degree(self) -> int:
        """Homogeneity of φ: 1 or 2."""
        return self.feature.degree or 0

    @property
    def axes(self) -> int:
        """Number of coordinates of θ."""
        return self.inputs.shape[1]

    def error(self, predictions: Floats, log_scale: float = 0.0) -> float:
        """nan: there are no data to be wrong on."""
        return np.nan

    def margin(self, predictions: Floats) -> float:
        """nan, as for every regression risk."""
        return np.nan

    def smooth_margin(self, predictions: Floats, log_scale: float = 0.0) -> float:
        """nan, as for every regression risk."""
        return np.nan

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """Fresh inputs (n, p) ~ N(0, I) and the teacher's targets (n,): the mean of ½(h − y)² over
        them has the expectation F."""
        inputs = rng.standard_normal((n, self.teacher.shape[1]))
        return inputs, self.feature.matrix(self.teacher, inputs) @ self.teacher_weights

    def at_fixed_points(
        self, points: Floats, signs: tuple[int, ...] = (1,)
    ) -> "PopulationAtFixedPoints":
        """The objective of measures carried by fixed points, one weight per sign and point."""
        return PopulationAtFixedPoints(self, points, signs)

    def at_moving_points(
        self, points: Floats, on_sphere: bool = False
    ) -> "PopulationAtMovingPoints":
        """The objective as a function of points that move and of their signed weights."""
        return PopulationAtMovingPoints(self, points)

    @cached_property
    def minus_teacher(self) -> Charges:
        """−ν* as charges."""
        charges = Charges(self.teacher, self.degree)
        charges.set_masses(self.teacher_weights, -1.0)
        return charges

    @cached_property
    def constant(self) -> float:
        """F(0) = ½ ∬ k dν* dν*."""
        charges = self.minus_teacher
        charges.reset()
        charges.add_interaction(charges)
        return 0.5 * charges.energy()

    @cached_property
    def largest_feature(self) -> float:
        """The root mean square √k(1) of φ(θ, x) over the inputs, the same for all θ."""
        return float(np.sqrt(arc_cosine(self.degree, 1.0)))

    def rounding(
        self, value: float, loss_gradient: Floats, mass: float, log_scale: float = 0.0
    ) -> float:
        """What rounding may do to the value: ε (|F| + k(1) (|ν| + |ν*|)² + λ|ν|), times 16; all in
        units of e^log_scale."""
        root = np.exp(0.5 * log_scale)
        size = self.largest_feature * (root * mass + np.abs(self.teacher_weights).sum() / root)
        return 16.0 * np.finfo(float).eps * (abs(value) + size * size + self.weight_decay * mass)

    def charges(self, points: Floats, with_gradient: bool = False) -> Charges:
        """Charges at points (n, p), or ValueError if these are not in the space of the inputs."""
        if points.shape[1] != self.inputs.shape[1]:
            raise ValueError(
                f"The teacher's inputs lie in R^{self.inputs.shape[1]}, the points in"
                f" R^{points.shape[1]}."
            )
        return Charges(points, self.degree, with_gradient)


class PopulationAtFixedPoints:
    """The population risk as a function of the weights of fixed points, like
    ObjectiveAtFixedPoints.

    points : (n_points, p);  signs : the output signs ε, (1,) or (1, −1)
    potential : (n_signs, n_points) J, after `evaluate`;  predictions, loss_gradient : empty
    spectrum : of the circulant kernel if the points are equally spaced on the circle, else None.
        Without it `evaluate` sums over all pairs and allocates nothing; with it the cost is that of
        two FFTs. Both are exact to rounding
    """

    def __init__(self, objective: PopulationRisk, points: Floats, signs: tuple[int, ...]) -> None:
        self.objective, self.signs = objective, np.array(signs, dtype=float)
        self.charges = objective.charges(points)
        self.spectrum = circulant_spectrum(self.charges)
        self.predictions, self.loss_gradient = np.zeros(0), np.zeros(0)
        self.potential, self.signed = np.zeros((len(signs), len(points))), np.zeros(len(points))
        self.charges.reset()
        self.charges.add_interaction(objective.minus_teacher)
        self.push = self.charges.sums.copy()

    def evaluate(self, weights: Floats, log_scale: float = 0.0) -> float:
        """e^−L F(ν) for ν = e^L Σ weights_sc δ_(θ_c, ε_s), L = log_scale; fills the potential.

        F = ½ e^{2L} Σ w_c w_j k(θ_c·θ_j) − e^L Σ w_c ∫k(θ_c·θ') dν* + ½ ∬ k dν* dν* + λ|ν|, w = Σ_s
        ε_s weights_s
        J_ν(θ, ε) = ε (e^L Σ w_j k(θ·θ_j) − ∫k(θ·θ') dν*) + λ.   weights : (n_signs, n_points)
        """
        c, obj, scale = self.charges, self.objective, np.exp(log_scale)
        np.einsum("s,sc->c", self.signs, weights, out=self.signed)
        c.set_masses(self.signed)
        self.convolve()
        value = (
            0.5 * scale * c.energy()
            + float(np.einsum("bc,bc->", c.masses, self.push))
            + obj.constant / scale
        )
        c.sums *= scale
        c.sums += self.push
        c.sums *= c.sizes
        np.multiply(self.signs[:, None], c.of_points(c.sums), out=self.potential)
        self.potential += obj.weight_decay
        return value + obj.weight_decay * weights.sum()

    def convolve(self) -> None:
        """Fill the sums with Σ_j masses_j k(θ_c·θ_j)."""
        c = self.charges
        if self.spectrum is None:
            c.reset()
            c.add_interaction(c)
        else:
            from scipy.fft import irfft, rfft  # slow to load

            c.of_points(c.sums)[:] = irfft(rfft(c.of_points(c.masses)) * self.spectrum, c.n)

    def value(self, weights: Floats, log_scale: float = 0.0) -> float:
        """The same as `evaluate`."""
        return self.evaluate(weights, log_scale)

    def drive(self, loss_gradient: Floats) -> None:
        """Nothing: without data there are no loss gradients, and the potential is that of the
        measure last evaluated."""


class PopulationAtMovingPoints:
    """The population risk as a function of points that move, of any length, and of signed weights,
    like ObjectiveAtMovingPoints.

    k(a, a') = |a|^degree |a'|^degree k(cos ω) for points of any length.

    operator.points : (n_blocks, p, width), to be written before `evaluate`;  predictions,
        loss_gradient : empty
    slopes : (n_points,) ∫k(θ_c, θ') d(ν−ν*)(θ');  gradient : (n_blocks, p, width) its gradient in
        R^p;  filled by `evaluate`
    """

    def __init__(self, objective: PopulationRisk, points: Floats) -> None:
        self.objective = objective
        self.operator = self.charges = objective.charges(points, with_gradient=True)
        self.predictions, self.loss_gradient = np.zeros(0), np.zeros(0)
        self.slopes, self.gradient = np.zeros(len(points)), self.charges.gradient

    def evaluate(self, weights: Floats, log_scale: float = 0.0) -> float:
        """e^−L F(ν) for ν = e^L Σ_c weights_c δ_θc, L = log_scale; weights (n_points,), signs
        included.

        Weight decay is the caller's. A point 0 has slope and gradient 0.
        """
        c, obj, scale = self.charges, self.objective, np.exp(log_scale)
        c.refresh()
        c.set_masses(weights, scale)
        c.reset()
        c.add_interaction(obj.minus_teacher)
        value = obj.constant + 0.5 * c.energy()
        c.add_interaction(c)
        value += 0.5 * c.energy()
        homogeneous(c.unit, c.lengths, c.n, c.degree, c.sums, c.gradient, self.slopes)
        return value / scale

    def value(self, weights: Floats, log_scale: float = 0.0) -> float:
        """The same as `evaluate`."""
        return self.evaluate(weights, log_scale)

    def drive(self, loss_gradient: Floats) -> None:
        """Nothing: without data there are no loss gradients, and slopes and gradient are those of
        the measure last evaluated."""
