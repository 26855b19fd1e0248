"""Sums of energies, F(ν) = R(∫φ dν) + ∫V dν + ½ ∬K(θ·θ′) dν dν + τ ∫ν log ν + λ|ν|, and J = δF/δν.

V and K act on the mass |ν| of both signs alike; on a signed density, that of depth 1, they act on
ν itself. The potential of an interaction belongs to a measure and not to loss gradients of data, so
that a Sum's steps are explicit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arguments import Floats, nonnegative, real_array, real_number
from ..errors import printable
from ..measures.formula import Formula
from ..measures.initial import COORDINATES, VARIABLES, coordinates_of
from ..operators.dense import blocked, unblocked
from ..operators.ranks import ALONE, Alone
from ..shown import Shown
from .activations import Feature
from .differences import check_slopes
from .kernels import ZonalKernel, zonal_kernel
from .losses import Risk
from .objective import Objective
from .population import PopulationRisk

PARAMETERS = ("concentration", "width", "exponent")
PLACES = [name for name in VARIABLES if name != "sign"]
EPS = 16.0 * np.finfo(float).eps
RISKS = Objective, PopulationRisk


@dataclass(frozen=True, eq=False, repr=False)
class External(Shown):
    """∫V dν.

    potential : V, a formula in x, y, z or theta1, theta2, … such as "-2*x", or a function (points
        (n, d+1)) -> (n,)
    gradient : function (points) -> (n, d+1), ∇V in R^(d+1), of which the part along the sphere
        counts; particles need it. A formula has its own
    Raises ValueError for what is no formula, or a gradient beside one.
    """

    potential: str | Callable[[Floats], Floats]
    gradient: Callable[[Floats], Floats] | None = None

    def __post_init__(self):
        if not (isinstance(self.potential, str) or callable(self.potential)):
            raise ValueError(
                "An external potential is a formula or a function of points, got"
                f" {type(self.potential).__name__}."
            )
        if isinstance(self.potential, str) and self.gradient is not None:
            raise ValueError("A formula has a gradient of its own: leave 'gradient' out.")
        self.formula  # noqa: B018 - made here, so that it raises here

    def _facts(self):
        named = self.potential if self.formula else _name_of(self.potential)
        return {"external": f"potential {named}"}

    @cached_property
    def formula(self) -> Formula | None:
        """Of V, None of a function."""
        return Formula(self.potential, tuple(PLACES)) if isinstance(self.potential, str) else None

    def values(self, points: Floats) -> Floats:
        """V, (n,)."""
        try:
            found = (
                self.formula(coordinates_of(points)) if self.formula else self.potential(points)  # type: ignore[operator]
            )
        except KeyError as error:
            raise ValueError(
                f"The potential '{printable(self.potential)}' names {error}, and points have"
                f" {points.shape[1]} coordinates."
            ) from None
        return self._checked(found, points, (len(points),))

    def slopes(self, points: Floats) -> Floats:
        """∇V, (n, d+1). Raises ValueError where it is not known."""
        if self.formula is None:
            if self.gradient is None:
                raise ValueError(
                    "Particles need the gradient of the potential: give External(V, gradient=…)."
                )
            return self._checked(self.gradient(points), points, points.shape)
        found = np.zeros_like(points)
        for name, slope in self.formula.gradient(coordinates_of(points)).items():
            found[:, _axis(name)] += slope
        return self._checked(found, points, points.shape)

    def _checked(self, found, points, shape):
        """Values as an array of a shape, or ValueError."""
        found = real_array(found, "Values of a potential")
        if found.ndim and found.shape != shape:
            raise ValueError(
                f"{self._facts()['external']}: wanted values of the shape {shape}, got"
                f" {found.shape}."
            )
        found = np.array(np.broadcast_to(found, shape))
        wrong = np.flatnonzero(~np.isfinite(found.reshape(len(points), -1)).all(axis=1))
        if len(wrong):
            place = ", ".join(f"{c:.3g}" for c in points[wrong[0]])
            raise ValueError(f"{self._facts()['external']} is not finite at θ = ({place}).")
        return found

    def check(self, axes: int) -> None:
        """Raise ValueError unless the gradient, if it is given, is that of the values."""
        rng = np.random.default_rng(0)
        points, direction = rng.standard_normal((2, 5, axes))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        given, values = points.copy(), self.values(points)
        slopes = None if self.gradient is None else self.slopes(points)
        if not np.array_equal(points, given):
            raise ValueError(
                f"{self._facts()['external']} changes the points that it is given; let it work on a"
                " copy."
            )
        if slopes is None:
            return
        direction -= np.sum(direction * points, axis=1, keepdims=True) * points

        def along(s):
            moved = points + s * direction
            return self.values(moved / np.linalg.norm(moved, axis=1, keepdims=True))

        found, size = np.sum(slopes * direction, axis=1), 1.0 + np.abs(values).max()
        rounded = np.result_type(np.asarray(self.potential(points)), np.float32)  # type: ignore[operator]
        check_slopes(self._facts()["external"], along, found, size, rounded)


@dataclass(frozen=True, eq=False, repr=False)
class Interaction(Shown):
    """½ ∬ strength · K(θ·θ′) dν dν; masses attract each other where the strength times K falls
    towards t = θ·θ′ = 1.

        exponential  e^(κ(t − 1)), κ = concentration     linear     t
        von-mises    e^(κt) / I₀(κ)                      quadratic  t²
        gaussian     e^(−|θ − θ′|² / 2 width²)           riesz      |θ − θ′|^exponent, exponent > 0

    kernel : one of these, a formula in t, or a function of an array t; these two become Chebyshev
        series, whose error the interaction shows
    Raises ValueError for an unknown kernel or a wrong parameter.
    """

    kernel: str | Callable[[Floats], Floats]
    strength: float = 1.0
    concentration: float | None = None
    width: float | None = None
    exponent: float | None = None
    zonal: ZonalKernel = field(init=False)

    def __post_init__(self):
        if not np.isfinite(real_number(self.strength, "strength")):
            raise ValueError(f"strength must be a finite number, got {self.strength}.")
        one = zonal_kernel(self.kernel, self.parameters)
        powers = one.powers * (self.strength, 1.0)
        zonal = ZonalKernel(self.strength * one.series, powers, abs(self.strength) * one.error)
        object.__setattr__(self, "zonal", zonal)

    @property
    def parameters(self) -> dict[str, float]:
        """Those that are given, by name."""
        given = {name: getattr(self, name) for name in PARAMETERS}
        return {name: value for name, value in given.items() if value is not None}

    def _facts(self):
        named = self.kernel if isinstance(self.kernel, str) else _name_of(self.kernel)
        given = "".join(f", {name} {value:g}" for name, value in self.parameters.items())
        series = (
            "summed over pairs"
            if len(self.zonal.powers)
            else f"a series of degree {self.zonal.degree} to {self.zonal.error:.1g}"
        )
        return {"interaction": f"{self.strength:g} · {named}{given} ({series})"}


def _nothing(predictions, targets, weights, out):
    return 0.0


NO_RISK = Risk("energy", _nothing, False)


def _no_matrix(points, inputs):
    return np.zeros((len(inputs), len(points)))


class Sum(Shown):
    """The sum of energies: at most one data risk, an Objective or a PopulationRisk, and any number
    of External and Interaction.

    axes : d + 1, coordinates of a point; of data it is that of their objective
    weight_decay : λ, beside that of the data risk;  entropy : τ, likewise
    It stands in for an Objective, whose data, predictions, errors and margins are those of the data
    risk; without one they are empty, or nan.
    Raises ValueError for terms that cannot be added, and potentials that do not fit the axes.
    """

    def __init__(
        self,
        *terms: "Objective | PopulationRisk | External | Interaction",
        axes: int | None = None,
        weight_decay: float = 0.0,
        entropy: float = 0.0,
    ) -> None:
        data = [term for term in terms if isinstance(term, RISKS)]
        known = *RISKS, External, Interaction
        given: tuple[Any, ...] = terms
        wrong = [term for term in given if not isinstance(term, known)]
        if wrong or len(data) > 1 or not (terms or entropy):
            got = f"got {type(wrong[0]).__name__}" if wrong else f"got {len(data)} of {len(terms)}"
            raise ValueError(
                "A sum of energies has terms hkflow.External and hkflow.Interaction and at most"
                f" one hkflow.Objective or hkflow.PopulationRisk, {got}."
            )
        weight_decay = nonnegative(weight_decay, "weight_decay")
        entropy = nonnegative(entropy, "entropy")
        if data:
            (objective,) = data
            own = {name.name for name in fields(objective)} & {"weight_decay", "entropy"}
            weight_decay += objective.weight_decay
            entropy += getattr(objective, "entropy", 0.0)
            plain = replace(objective, **dict.fromkeys(own, 0.0))  # type: ignore[arg-type]
            terms = tuple(plain if term is objective else term for term in terms)
            if axes not in (None, objective.axes):
                raise ValueError(
                    f"The data's units lie in R^{objective.axes}: leave axes = {axes} out."
                )
            axes = objective.axes
        elif axes is None or axes < 2:
            raise ValueError(
                "Without data a sum of energies needs 'axes', the number d + 1 of coordinates of a"
                f" point on S^d, at least 2; got {axes}."
            )
        self.terms, self.axes = terms, axes
        self.weight_decay, self.entropy = weight_decay, entropy
        if isinstance(self.data, PopulationRisk):
            self.teacher, self.teacher_weights = self.data.teacher, self.data.teacher_weights
            self.draw = self.data.draw
        for term in self.external:
            term.check(axes)

    def _facts(self):
        facts = self.data._facts() if self.data else {}
        for k, term in enumerate((*self.external, *self.interactions)):
            facts |= {f"{name} {k + 1}": text for name, text in term._facts().items()}
        for name in ("weight_decay", "entropy"):
            if (value := getattr(self, name)) > 0.0:
                facts[name] = f"{name.replace('_', ' ')} {value:g}"
        return facts

    @cached_property
    def data(self) -> Any:
        """The data risk or that of a population, without weight decay and entropy, or None."""
        return next((term for term in self.terms if isinstance(term, RISKS)), None)

    @cached_property
    def external(self) -> tuple[External, ...]:
        """The external potentials."""
        return tuple(term for term in self.terms if isinstance(term, External))

    @cached_property
    def interactions(self) -> tuple[Interaction, ...]:
        """The interactions."""
        return tuple(term for term in self.terms if isinstance(term, Interaction))

    @cached_property
    def kernel(self) -> ZonalKernel | None:
        """The sum of all interactions' kernels, None without."""
        kernels = [term.zonal for term in self.interactions]
        return sum(kernels[1:], kernels[0]) if kernels else None

    # --- what it offers as an Objective

    @cached_property
    def feature(self) -> Feature:
        """The data's, whose sums alone are known: not how it moves by itself, nor its degree."""
        if self.data is None:
            return Feature("energy", _no_matrix)
        one = self.data.feature
        named = f"{one.name} and energies"
        hidden = dict.fromkeys(("activation", "ridge", "one_sided_slopes"))
        return replace(one, name=named, degree=None, pullback=None, **hidden)

    @cached_property
    def risk(self) -> Risk:
        """The data's, without its tail, by which steps are implicit and margins certified."""
        if self.data is None:
            return NO_RISK
        return replace(self.data.risk, tail=None, scaled=None)

    @property
    def inputs(self) -> Floats:
        """(n_data, p) of the data risk, or none."""
        return self.data.inputs if self.data else np.zeros((0, self.axes))

    @property
    def targets(self) -> Floats:
        """(n_data,) of the data risk, or none."""
        return self.data.targets if self.data else np.zeros(0)

    @property
    def weights(self) -> Floats:
        """(n_data,) of the data risk, or none."""
        return self.data.weights if self.data else np.zeros(0)

    @property
    def ranks(self) -> Any:
        """Between which sums over data are shared out."""
        return self.data.ranks if self.data else ALONE

    @ranks.setter
    def ranks(self, ranks: Alone) -> None:
        data = vars(self).pop("data", None) or self.data
        if data:
            shared = replace(data, ranks=ranks)
            self.terms = tuple(shared if term is data else term for term in self.terms)

    def rms(self, values: Floats) -> float:
        """See Objective.rms; 0 without data."""
        return self.data.rms(values) if self.data else 0.0

    def error(self, predictions: Floats, log_scale: float = 0.0) -> float:
        """Of the data, nan without."""
        return self.data.error(predictions, log_scale) if self.data else np.nan

    def margin(self, predictions: Floats) -> float:
        """Of the data, nan without."""
        return self.data.margin(predictions) if self.data else np.nan

    def leads(self, predictions: Floats) -> Floats:
        """Of the data, see Objective.leads."""
        return np.asarray(self.data.leads(predictions))

    def smooth_margin(self, predictions: Floats, log_scale: float = 0.0) -> float:
        """Of the data, nan without."""
        return self.data.smooth_margin(predictions, log_scale) if self.data else np.nan

    def evaluate_risk(self, predictions: Floats, log_scale: float, out: Floats) -> float:
        """The data risk alone, see Objective.evaluate_risk; 0 without."""
        return self.data.evaluate_risk(predictions, log_scale, out) if self.data else 0.0

    @cached_property
    def largest_feature(self) -> float:
        """A bound of |φ|, see Objective; 1 without data."""
        return self.data.largest_feature if self.data else 1.0

    def rounding(
        self, value: float, loss_gradient: Floats, mass: float, log_scale: float = 0.0
    ) -> float:
        """What rounding may do to a value: that of the data risk, and ε (|F| + max|V| |ν| + max|K|
        |ν|²); all in units of e^log_scale."""
        size = self.weight_decay + self._largest_potential
        if self.kernel:
            size += self.kernel.size * mass * np.exp(log_scale)
        data = self.data.rounding(value, loss_gradient, mass, log_scale) if self.data else 0.0
        return data + EPS * (abs(value) + size * mass)

    @cached_property
    def _largest_potential(self):
        """About max |Σ V|: that at some hundred points."""
        points = np.random.default_rng(0).standard_normal((300, self.axes))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        return float(np.abs(self.external_values(points)).max())

    def stiffness(self, alpha: float, beta: float, mass: float, peak: float) -> float:
        """A bound of the rate at which the interaction's J answers to itself, which explicit steps
        have to resolve.

        mass : |ν|;  peak : largest density over that of the uniform probability
        """
        if self.kernel is None:
            return 0.0
        # plain numbers: rates that vary are equal at all times, and what is kept goes by them
        trace, largest = self.kernel.stiffness(self.axes, float(alpha), float(beta))
        return min(mass * trace, peak * largest)

    @property
    def is_linear(self) -> bool:
        """Whether F is linear in ν but for its entropy, so that J stands still."""
        return self.data is None and not self.interactions

    @property
    def moves_atoms(self) -> bool:
        """Whether grids can move captured atoms in it: external potentials with known gradients
        alone, no interactions."""
        known = (term.formula or term.gradient for term in self.external)
        return not self.interactions and all(known)

    def external_values(self, points: Floats) -> Floats:
        """Σ V, (n,)."""
        return sum((term.values(points) for term in self.external), np.zeros(len(points)))

    def external_slopes(self, points: Floats) -> Floats:
        """∇ Σ V, (n, d+1)."""
        return sum((term.slopes(points) for term in self.external), np.zeros_like(points))

    def at_fixed_points(self, points: Floats, signs: tuple[int, ...] = (1,)) -> "SumAtFixedPoints":
        """F on points (n_points, p) that stay."""
        return SumAtFixedPoints(self, points, signs)

    def at_moving_points(self, points: Floats, on_sphere: bool = False) -> "SumAtMovingPoints":
        """F without weight decay on points (n_points, p) that move, of the sphere in any case."""
        return SumAtMovingPoints(self, points)


class SumAtFixedPoints:
    """A Sum as a function of the weights of fixed points, like ObjectiveAtFixedPoints.

    by_data : whether J follows from loss gradients of data; with an interaction it belongs to the
        measure last evaluated
    potential : (n_signs, n_points) J, after `drive` if by_data, else after `value`
    predictions, loss_gradient : of the data;  external : (n_points,) V + λ
    """

    def __init__(self, objective: Sum, points: Floats, signs: tuple[int, ...]) -> None:
        self.objective = objective
        self.data = objective.data and objective.data.at_fixed_points(points, signs)
        self.kernel = objective.kernel and objective.kernel.at_fixed_points(points)
        self.external = objective.weight_decay + objective.external_values(points)
        self.predictions: Floats = self.data.predictions if self.data else np.zeros(0)
        self.loss_gradient: Floats = self.data.loss_gradient if self.data else np.zeros(0)
        self.by_data = not self.kernel and len(self.predictions) > 0
        self.potential = np.zeros((len(signs), len(points)))
        self.masses, self.sums = np.zeros(len(points)), np.zeros(len(points))

    def value(self, weights: Floats, log_scale: float = 0.0) -> float:
        """e^−L F(ν) for ν = e^L Σ weights_sc δ_(θ_c, ε_s), L = log_scale; fills all arrays.

        J_ν(θ, ε) = Σ_i ∂_i R(h) ε φ(θ, x_i) + V(θ) + e^L Σ_c weights_c K(θ·θ_c) + λ
        """
        np.einsum("sc->c", weights, out=self.masses)
        value = float(np.einsum("c,c->", self.masses, self.external))
        if self.by_data:
            return value + self.data.value(weights, log_scale)
        self.potential[:] = self.external
        if self.kernel:
            scale = np.exp(log_scale)
            self.kernel(self.masses, self.sums)
            self.sums *= scale
            value += 0.5 * float(np.einsum("c,c->", self.masses, self.sums))
            self.potential += self.sums
        if self.data:
            value += self.data.value(weights, log_scale)
            self.data.drive(self.loss_gradient)
            self.potential += self.data.potential
        return value

    def evaluate(self, weights: Floats, log_scale: float = 0.0) -> float:
        """`value`, then `drive` with its loss gradients."""
        value = self.value(weights, log_scale)
        self.drive(self.loss_gradient)
        return value

    def drive(self, loss_gradient: Floats) -> None:
        """Fill the potential that given loss gradients make; if it does not follow from them, it is
        that of the measure last evaluated."""
        if self.by_data:
            self.data.drive(loss_gradient)
            np.add(self.data.potential, self.external, out=self.potential)


class _Points:
    """Points that move, blocked, without data."""

    def __init__(self, points: Floats) -> None:
        self.points = blocked(points)


class SumAtMovingPoints:
    """A Sum, without weight decay, as a function of points on the sphere that move and of their
    signed weights, like ObjectiveAtMovingPoints.

    slopes : (n_points,) and gradient, blocked like the points, of J times the sign of each point,
        after `drive`, with V and K of the points and weights last evaluated
    """

    def __init__(self, objective: Sum, points: Floats) -> None:
        self.objective = objective
        self.data = objective.data and objective.data.at_moving_points(points, True)
        self.operator: Any = self.data.operator if self.data else _Points(points)
        n, width = len(points), self.operator.points.shape[2]
        self.kernel = objective.kernel and objective.kernel.at_moving_points(points, width)
        self.predictions: Floats = self.data.predictions if self.data else np.zeros(0)
        self.loss_gradient: Floats = self.data.loss_gradient if self.data else np.zeros(0)
        self.slopes, self.gradient = np.zeros(n), np.zeros_like(self.operator.points)
        self.own_slopes, self.own_gradient = np.zeros(n), np.zeros_like(self.gradient)
        self.sums, self.signs = np.zeros(n), np.ones(n)

    def evaluate(self, weights: Floats, log_scale: float = 0.0) -> float:
        """`value`, then `drive` with its loss gradients."""
        value = self.value(weights, log_scale)
        self.drive(self.loss_gradient)
        return value

    def value(self, weights: Floats, log_scale: float = 0.0) -> float:
        """e^−L (F(ν) − λ|ν|) for ν = e^L Σ_c |weights_c| δ_(θ_c, ε_c), ε_c the sign of weights_c, L
        = log_scale."""
        np.copysign(1.0, weights, out=self.signs)
        masses, value = np.abs(weights), 0.0
        self.own_slopes.fill(0.0)
        self.own_gradient.fill(0.0)
        if self.kernel:
            scale = np.exp(log_scale)
            self.kernel.points[:] = self.operator.points
            self.kernel(masses, self.sums)
            self.own_slopes += scale * self.sums
            self.own_gradient += scale * self.kernel.gradient
            value += 0.5 * scale * float(np.einsum("c,c->", masses, self.sums))
        points = unblocked(self.operator.points, len(weights))
        for term in self.objective.external:
            values = term.values(points)
            value += float(np.einsum("c,c->", masses, values))
            self.own_slopes += values
        if self.data:
            value += self.data.value(weights, log_scale)
        return value

    def drive(self, loss_gradient: Floats) -> None:
        """Fill slopes and gradient: the data's by given loss gradients."""
        n, (_, p, width) = len(self.slopes), self.gradient.shape
        np.multiply(self.own_slopes, self.signs, out=self.slopes)
        self.gradient[:] = self.own_gradient
        points = unblocked(self.operator.points, n)
        self.gradient += blocked(self.objective.external_slopes(points), width)
        if (self.signs < 0.0).any():
            self.gradient *= blocked(np.tile(self.signs[:, None], p), width)
        if self.data:
            self.data.drive(loss_gradient)
            self.slopes += self.data.slopes
            self.gradient += self.data.gradient

    def forces(self) -> Floats:
        """∇_S E + E θ, (n_points, p), of E = V + K∗ν alone, at the points and weights last
        evaluated: with a force f, data make J = ε θ·f and its gradient along the sphere."""
        points = unblocked(self.operator.points, len(self.slopes))
        found = unblocked(self.own_gradient, len(points)) + self.objective.external_slopes(points)
        normal = self.own_slopes - np.einsum("na,na->n", found, points)
        return found + normal[:, None] * points


def _axis(name):
    return COORDINATES.index(name) if name in COORDINATES else int(name[5:]) - 1


def _name_of(function):
    return str(getattr(function, "__name__", "a function"))
