"""The tables [domain], [flow] and [time]: where the measure lives, at which rates it flows, and
how long."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from .tables import LARGEST, NonNegative, Positive, Table, refuse_unread


class DomainTable(Table):
    """Where the measure lives; the dimension follows from the data."""

    kind: Literal["sphere", "signed-sphere", "fixed-features"] = Field(
        description=(
            "fixed-features: the unit vector of every input and its negative, without transport:"
            " diagonal linear networks"
        )
    )
    cells: Annotated[int, Field(ge=3, le=LARGEST)] | None = Field(
        None,
        description=(
            "of the grid, or of the mesh of method.points = 'mesh'; on the circle any number, on S²"
            " 10·4^k + 2 or 90·4^k + 2 (162, 362, 642, 1442, 2562, 5762, 10242, 23042, 40962, …),"
            " on S³ 100·n³ + 20·n"
        ),
    )
    dim: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="d of the sphere, of energies without data alone"
    )


def _rate(value):
    """A number of at least 0, or a formula in t."""
    from ...measures.formula import Formula  # slow to load

    if isinstance(value, str):
        Formula(value, ("t",))
    elif not value >= 0.0:
        raise ValueError(f"must be at least 0, or a formula in t, got {value:g}")
    return value


Rate = Annotated[float | str, AfterValidator(_rate)]  # a number, or a formula in the time t


class FlowTable(Table):
    """A named flow, or its rates; noise goes with either."""

    kind: (
        Literal[
            "wasserstein", "hellinger-kantorovich", "hellinger", "spherical-hellinger-kantorovich",
            "spherical-hellinger", "perturbed", "diagonal", "output-layer",
        ]
        | None
    ) = Field(None, description="a flow by its name, instead of its rates")  # fmt: skip
    transport: Rate | None = Field(
        None, description="α; each rate is a number or a formula in the time t, as '0.1*exp(-t)'"
    )
    reaction: Rate | None = Field(None, description="β")
    noise: Rate = Field(0.0, description="σ")
    depth: Annotated[float, Field(ge=1.0, le=1000.0)] = Field(
        2.0, description="D of the mobility ν^(2 - 2/D); other than 2 on fixed features"
    )
    drive: Literal["measure", "probability"] | None = Field(
        None,
        description=(
            "normalised flow: J at ν = e^log_mass ν̄ (the same flow, its mass apart), or"
            " with the mass of the start"
        ),
    )
    time_variable: Literal["time", "margin"] = Field(
        "time", description="margin: time is what the smooth margin γ̃ = -log loss has grown by"
    )

    @model_validator(mode="after")
    def _name_or_rates(self):
        named, rates = (
            self.kind is not None,
            self.transport is not None or self.reaction is not None,
        )
        if named and rates:
            raise ValueError("give either 'kind' or the rates 'transport' and 'reaction', not both")
        if not named and not rates:
            raise ValueError("give 'kind' or the rates 'transport' and 'reaction'")
        if self.kind == "perturbed" and self.noise == 0.0:
            raise ValueError("the perturbed flow needs 'noise' greater than 0")
        spherical = self.kind in ("spherical-hellinger-kantorovich", "spherical-hellinger")
        refuse_unread(self, named and not spherical, "a spherical flow alone reads", "drive")
        refuse_unread(
            self, named and self.kind != "diagonal", "the flow 'diagonal' alone reads", "depth"
        )
        return self


class TimeTable(Table):
    """Simulated time."""

    end: Positive | None = Field(None, description="simulated time at which the run ends")
    steps: Annotated[int, Field(ge=1, le=10**7)] | None = Field(
        None, description="instead of end: number of steps of a network's descent"
    )
    saves: (
        Annotated[int, Field(ge=2, le=10**6)] | Annotated[list[NonNegative], Field(min_length=1)]
    ) = Field(
        2, description="number of equally spaced saves, or a list of times; the end is always saved"
    )
    first: Positive | None = Field(
        None,
        description=(
            "with a number of saves: the first, and the others up to the end in equal ratios, as γ̃"
            " over decades"
        ),
    )
    until_margin: Positive | None = Field(
        None,
        description=(
            "end where the smooth margin γ̃ = -log loss reaches this, to 0.1 %, but for jumps by the"
            " noise of particles"
        ),
    )
    records: NonNegative = Field(
        0.0,
        description="simulated time between records, 0 for every accepted step; saves have one",
    )

    @model_validator(mode="after")
    def _increasing(self):
        if self.end is None and self.steps is None:
            raise ValueError("'end' is missing (or 'steps', for a network's descent)")
        if self.end is not None and self.steps is not None:
            raise ValueError("give 'end' or 'steps', not both")
        if isinstance(self.saves, list):
            if self.end is None:
                raise ValueError("with 'steps', 'saves' is a number")
            times = self.saves
            if any(b <= a for a, b in zip(times, times[1:], strict=False)) or times[-1] > self.end:
                raise ValueError(
                    f"listed 'saves' must increase and not exceed 'end' = {self.end:g}"
                )
        if self.first is not None and (self.end is None or isinstance(self.saves, list)):
            raise ValueError("'first' goes with 'end' and a number of 'saves'")
        if self.first is not None and self.first >= self.end:
            raise ValueError(f"'first' must lie before 'end' = {self.end:g}, got {self.first:g}")
        return self
