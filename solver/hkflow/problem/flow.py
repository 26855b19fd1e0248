"""The family of flows ∂_t ν = α div(ν ∇J) − β m(ν) J − σ ν + σ U."""

from collections.abc import Callable, Collection, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from ..arguments import Floats, check_choice, real_number
from ..errors import unknown_name
from ..measures.formula import Formula
from ..shown import Shown

RATES = ("transport", "reaction", "noise")
DRIVES = ("measure", "probability")
TIME_VARIABLES = ("time", "margin")
# of a step [0, 1], those of Clenshaw and Curtis; LAST gives the coefficients of the last two
# Chebyshev polynomials, which tell whether a rate is resolved: the last one is 0 for no jump
DEGREE = 16
NODES = 0.5 - 0.5 * np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)
_CHEBYSHEV = np.polynomial.chebyshev.chebvander(2.0 * NODES - 1.0, DEGREE)
_MEANS = [1.0 / (1.0 - k * k) if k % 2 == 0 else 0.0 for k in range(DEGREE + 1)]
WEIGHTS = np.linalg.solve(_CHEBYSHEV.T, _MEANS)
LAST = np.linalg.inv(_CHEBYSHEV)[-2:].T
UNRESOLVED = 1e-13  # of the largest value of a rate: what a piece of a step may add to its mean
MOST_PIECES = 1024  # at a time; a rate that still is not resolved is noise
LEAST = 1e-100  # of a rate that varies: it is never gone for good
Rate = Any  # a float; where it is given, a formula in t or a function of t as well


class RateError(ValueError):
    """A rate that varies is negative at a time, or no finite number."""


class VaryingRate(float):
    """The mean of a rate that varies over a piece of time.

    rule : a formula in t, or a function of t
    """

    rule: str | Callable[[float], float]

    def __new__(cls, rule: str | Callable[[float], float], mean: float) -> "VaryingRate":
        self = super().__new__(cls, max(mean, LEAST))
        self.rule = rule
        return self

    def __getnewargs__(self):
        return self.rule, float(self)

    def __eq__(self, other):
        return isinstance(other, VaryingRate) and self.rule == other.rule

    def __hash__(self):
        return hash(self.rule)

    def __repr__(self):
        return repr(self.rule)

    def values(self, times: Floats) -> Floats:
        """At several times. Raises RateError unless all are finite and at least 0."""
        if isinstance(self.rule, str):
            values = Formula(self.rule, ("t",))({"t": times}) + np.zeros(len(times))
        else:
            values = np.asarray([self.rule(float(t)) for t in times])
            if values.shape != times.shape or values.dtype.kind not in "buif":
                raise RateError(f"must be one real number at a time, got {values[0]!r}.")
        if not ((values >= 0.0) & np.isfinite(values)).all():
            at = np.argmin(np.where(np.isfinite(values), values, -np.inf))
            raise RateError(
                f"must be finite and at least 0 at all times, got {values[at]:g} at t ="
                f" {times[at]:.6g}."
            )
        return np.maximum(values, LEAST)

    def mean_over(self, begin: float, dt: float, values: Floats) -> float:
        """The mean over a step of which the values at NODES are known. Pieces where it is not
        resolved, since it jumps or varies fast, are halved until it is, or until they do not count.

        Raises RateError as `values`.
        """
        starts, share, mean, largest = np.zeros(1), 1.0, 0.0, values.max()
        while True:
            known = values.reshape(-1, len(NODES))
            halved = share * np.abs(known @ LAST).max(axis=1) > UNRESOLVED * largest
            if 2 * np.count_nonzero(halved) > MOST_PIECES:
                halved[:] = False
            mean += share * float((known[~halved] @ WEIGHTS).sum())
            if not halved.any():
                return mean
            share *= 0.5
            starts = np.add.outer(starts[halved], [0.0, share]).ravel()
            values = self.values((begin + dt * np.add.outer(starts, share * NODES)).ravel())


@dataclass(frozen=True, repr=False)
class Flow(Shown):
    """∂_t ν = α div(ν ∇J) − β m(ν) J − σ ν + σ U: the rates of its mechanisms, the mobility m(ν) =
    ν^(2 − 2/depth), and whether the mass is set apart.

    transport : α ≥ 0;  reaction : β ≥ 0;  noise : σ ≥ 0;  U is the uniform probability on the
        domain
    depth : D ≥ 1 of a diagonal linear network. 2 is the Hellinger mobility ν, any other one needs
        fixed positions: D = 1 is the flow of a signed density with respect to a fixed τ, the
        uniform probability (on atoms the counting measure)
    drive : None for the flow as it stands. The normalised flows move ν̄ = ν/|ν| by −β ν̄ (J − ∫J
        dν̄): "measure" takes J at ν = e^log_mass ν̄, which is the same flow seen through ν̄;
        "probability" keeps the mass as it is at the start, noise taking σν and giving σ|ν|U (Chizat
        & Bach 2020, eq. 12; Rotskoff et al. 2019)
    time_variable : "time", or "margin": the flow of a smooth-margin risk run by γ̃ = −F instead of
        time, dγ̃ = (−dF/dt) dt
    A rate may be given as a formula in t, as "0.1*exp(-t)", or as a function of t: see `over`.
    Raises ValueError for rates out of range and for combinations that are no flow.
    """

    transport: Rate = 1.0
    reaction: Rate = 0.0
    noise: Rate = 0.0
    depth: float = 2.0
    drive: str | None = None
    time_variable: str = "time"

    def __post_init__(self):
        for name in RATES:
            if isinstance(rate := getattr(self, name), str) or callable(rate):
                object.__setattr__(self, name, VaryingRate(rate, 0.0))
        for name in (*RATES, "depth"):
            object.__setattr__(self, name, real_number(getattr(self, name), name))
        self.over(0.0, 0.0)
        for name in RATES:
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise ValueError(
                    f"{name} must be finite and at least 0, got {getattr(self, name)}."
                )
        if not 1.0 <= self.depth < float("inf"):
            raise ValueError(f"depth must be finite and at least 1, got {self.depth}.")
        if self.drive is not None and self.drive not in DRIVES:
            raise ValueError(unknown_name("drive", self.drive, DRIVES))
        check_choice("time variable", self.time_variable, TIME_VARIABLES)
        if self.depth != 2.0:
            others = {name: getattr(self, name) for name in self.beyond(["reaction"])}
            for name, value in (others | {"a drive": self.drive}).items():
                if value:
                    raise ValueError(
                        f"A flow of depth {self.depth:g} has the mobility"
                        f" ν^{2.0 - 2.0 / self.depth:.3g} and fixed positions: it goes without"
                        f" {name}, got {value}. Depth 2 has them all."
                    )

    def __repr__(self):
        named = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}
        told = [
            f"{name}={value!r}"
            for name, (value, default) in named.items()
            if name in ("transport", "reaction") or value != default
        ]
        return f"Flow({', '.join(told)})"

    @property
    def equation(self) -> str:
        """The equation with its rates, "∂ₜν = div(ν ∇J) − 4 ν J"."""
        power = "" if self.depth == 2.0 else f"^{2.0 - 2.0 / self.depth:.3g}"
        density = "τ" if self.signed else f"ν{power}"
        potential = "J" if self.drive is None else "(J − ∫J dν̄)"
        terms = (
            ("transport", "div(ν ∇J)", "+"),
            ("reaction", f"{density} {potential}", "−"),
            ("noise", "(ν − U)", "−"),
        )
        parts = [
            f"{sign} {self._in_words(name)}{term}"
            for name, term, sign in terms
            if getattr(self, name)
        ]
        return f"∂ₜν = {' '.join(parts).removeprefix('+ ') or '0'}"

    def _facts(self):
        drives = {"measure": "J at ν, the mass apart", "probability": "J at ν, whose mass stays"}
        return {
            "equation": self.equation,
            **({"normalised": drives[self.drive]} if self.drive else {}),
            **({"time": "runs by the smooth margin γ̃"} if self.time_variable != "time" else {}),
        }

    def _in_words(self, name):
        """The factor before the term of a rate."""
        rate = getattr(self, name)
        if not isinstance(rate, VaryingRate):
            return "" if rate == 1.0 else f"{rate:g} "
        if isinstance(rate.rule, str):
            return f"({rate.rule}) "
        return f"{getattr(rate.rule, '__name__', type(rate.rule).__name__)}(t) "

    @cached_property
    def varies(self) -> tuple[str, ...]:
        """The names of its rates that vary."""
        return tuple(name for name in RATES if isinstance(getattr(self, name), VaryingRate))

    def own(self) -> "Flow":
        """Itself, or, where rates vary, a copy whose rates may be taken over a step."""
        return copy(self) if self.varies else self

    def values(self, times: Floats) -> Floats:
        """Of its rates that vary, (n_varies, n_times). Raises RateError as `over`."""
        values = np.zeros((len(self.varies), len(times)))
        for row, name in zip(values, self.varies, strict=True):
            with _named(name):
                row[:] = getattr(self, name).values(times)
        return values

    def take(self, values: Sequence[float] | Floats) -> None:
        """Take these for its rates that vary, (n_varies,)."""
        for name, value in zip(self.varies, values, strict=True):
            rule = getattr(self, name).rule
            object.__setattr__(self, name, VaryingRate(rule, float(value)))

    def over(self, begin: float, dt: float, change: float = np.inf, shortest: float = 0.0) -> float:
        """Take for each rate that varies its mean over a step, to rounding; returns the step.

        The step is halved until the shares of the rates change within it by no more than `change`,
        or it is shorter than `shortest`, for rates may jump. With means for rates the flow errs by
        the commutators of its terms alone, of third order in the step; where all rates have one
        factor in common, not at all.
        Raises RateError for a rate that is negative or no finite number.
        """
        if not self.varies:
            return dt
        while True:
            values = self.values(begin + dt * NODES)
            if dt <= shortest or self._change(values) <= change:
                break
            dt *= 0.5
        means = []
        for name, known in zip(self.varies, values, strict=True):
            with _named(name):
                means.append(getattr(self, name).mean_over(begin, dt, known))
        self.take(means)
        return dt

    def varies_apart(self, begin: float, dt: float) -> bool:
        """Whether its rates have no factor in common in a step, so that means err."""
        return bool(self._change(self.values(begin + dt * NODES)) > UNRESOLVED)

    def _change(self, values):
        """The largest change of the share of a rate, of values (n_varies, n) at some times."""
        rates = np.array([[getattr(self, name)] * values.shape[1] for name in RATES], dtype=float)
        rates[[RATES.index(name) for name in self.varies]] = values
        return np.ptp(rates / rates.sum(axis=0), axis=1).max()

    def beyond(self, known: Collection[str]) -> list[str]:
        """The names of its rates that are not among those known."""
        return [name for name in RATES if name not in known and getattr(self, name) > 0.0]

    @property
    def moves(self) -> bool:
        """Whether mass moves on the domain."""
        return self.transport > 0.0

    @property
    def clock(self) -> str:
        """What it calls time: t, or the smooth margin γ̃."""
        return "t" if self.time_variable == "time" else "γ̃"

    @property
    def signed(self) -> bool:
        """Whether densities may be negative."""
        return self.depth == 1.0

    @property
    def keeps_mass(self) -> bool:
        """Whether the mass is the same at all times, by construction."""
        return self.drive == "probability"


@contextmanager
def _named(name):
    """A RateError says which rate it is about."""
    try:
        yield
    except RateError as error:
        raise RateError(f"{name} {error}") from error


FLOW_KINDS = (
    "wasserstein", "hellinger-kantorovich", "hellinger", "spherical-hellinger-kantorovich",
    "spherical-hellinger", "perturbed", "diagonal", "output-layer",
)  # fmt: skip


def named_flow(
    kind: str,
    degree: int | None,
    signed: bool,
    noise: float = 0.0,
    depth: float = 2.0,
    drive: str = "probability",
) -> Flow:
    """The flow of a name.

    wasserstein (1, 0), hellinger-kantorovich and perturbed (1, β), hellinger (0, β), each with
    noise σ; the spherical ones with their drive; diagonal (0, D²) with mobility ν^(2 − 2/D)
    (Moroshko et al. 2020, sec. 3); output-layer (0, 1) of a signed density with respect to τ
    (Chizat & Bach 2020, sec. 5). A network that is balanced (|a| = |b|) and lives on the signed
    sphere with a feature of degree 1 has β = 2, every other flow β = 4 (Chizat & Bach 2020, eq. 11
    and App. H).
    Raises ValueError for an unknown name and for a perturbed flow without noise.
    """
    check_choice("flow", kind, FLOW_KINDS)
    if kind == "perturbed" and noise == 0.0:
        raise ValueError("The perturbed flow needs noise greater than 0.")
    if kind == "diagonal":
        return Flow(0.0, depth**2, noise, depth)
    if kind == "output-layer":
        return Flow(0.0, 1.0, noise, 1.0)
    reaction = 2.0 if signed and degree == 1 else 4.0
    transport = 0.0 if kind.endswith("hellinger") else 1.0
    return Flow(
        transport,
        0.0 if kind == "wasserstein" else reaction,
        noise,
        drive=drive if kind.startswith("spherical") else None,
    )
