"""The table [method]: how the flow is computed."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ...methods.rules import (
    check_courant_number,
    check_descent,
    check_reconstruction,
    needs_max_step,
)
from .tables import LARGEST, Count, Positive, Table, given_keys, refuse_unread


class ToAccuracy(Table):
    """The key of methods that find out by themselves how many cells or points they need."""

    accuracy: Annotated[float, Field(gt=0.0, lt=1.0)] | None = Field(
        None,
        description=(
            "of the predictions at every save, root mean square, relative to them or the targets;"
            " in the place of domain.cells, particles and tolerance, which are chosen from a coarse"
            " run, and again from the error bars, at most twice"
        ),
    )

    @model_validator(mode="after")
    def _chosen_once(self):
        chosen = [key for key in ("particles", "tolerance") if key in self.model_fields_set]
        if self.accuracy is not None and chosen:
            raise ValueError(
                f"'accuracy' chooses {' and '.join(map(repr, chosen))}; give one or the other"
            )
        return self


class GridMethod(ToAccuracy):
    """Finite volumes on a mesh."""

    kind: Literal["grid"] = "grid"
    limiter: Literal["mc", "van-leer", "minmod", "koren", "ultimate", "first-order"] = Field(
        "mc",
        description=(
            "of the slopes in cells; ultimate cuts off least, with muscl-hancock; first-order has"
            " none"
        ),
    )
    reconstruction: Literal["linear", "quadratic"] = Field(
        "linear",
        description=(
            "of the density in a cell; quadratic, for smooth features on the circle and S², carries"
            " narrow hills with a fifth of the error in less than twice the time of transport"
        ),
    )
    stepper: Literal["muscl-hancock", "ssprk1", "ssprk2", "ssprk3", "strang", "euler"] | None = (
        Field(
            None,
            description=(
                "muscl-hancock: one potential and one transport per step; ssprk3: three, errors in"
                " time proportional to the tolerance, and the default with transport where the"
                " tolerance is below 1e-4; euler: explicit steps of max_step (Wei et al., E.3)"
            ),
        )
    )
    imex: Literal["auto", "explicit", "implicit"] = Field(
        "auto",
        description=(
            "through the data, stiff where the mass is large; auto goes implicit where explicit is"
            " unstable"
        ),
    )
    cfl: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        None,
        description=(
            "step in units of the time in which a cell would be emptied; if not given 0.9 with"
            " muscl-hancock, else 0.4, and none where potentials and entropy alone move mass"
        ),
    )
    tolerance: Positive = Field(
        1e-4, description="largest relative error of a step in the energy and mass budgets"
    )
    max_step: Positive | None = Field(None, description="no step is longer than this")

    @model_validator(mode="after")
    def _positive(self):
        check_courant_number(self.cfl, self.stepper, self.limiter)
        check_reconstruction(self.reconstruction, self.stepper, self.limiter)
        needs_max_step(self.stepper, self.max_step)
        return self


class AutomaticMethod(ToAccuracy):
    """The method with most accuracy per second: characteristics for ReLU, absolute-value and linear
    units without noise, unless data are very many; a grid for noise, entropy, rates that vary and
    population risks where domain.cells are given, and for output-layer; else particles."""

    kind: Literal["auto"]
    particles: Count | None = Field(
        None, description="how many, if no grid is taken; those at domain.cells if absent"
    )
    tolerance: Positive | None = Field(None, description="of the method that is taken")
    max_step: Positive | None = Field(None, description="no step is longer than this")

    @property
    def count(self) -> int | None:
        """How many points are asked for."""
        return self.particles

    @property
    def points(self) -> str:
        """Where points start, if they are not listed."""
        return "quasi-uniform"


class StartingPoints(Table):
    """Where the methods without a mesh start."""

    points: Literal["quasi-uniform", "random", "gaussian", "mesh"] = Field(
        "quasi-uniform",
        description=(
            "where they start: evenly spread with weights that follow the initial density,"
            " independent draws from it, units with Gaussian input and output weights (which fix"
            " the masses too), or the cell centres of domain.cells"
        ),
    )
    scale: Positive = Field(
        1.0, description="with points = 'gaussian': standard deviation of the weights"
    )

    @model_validator(mode="after")
    def _scale_is_read(self):
        refuse_unread(self, self.points != "gaussian", "points = 'gaussian' alone reads", "scale")
        return self


class FromPoints(StartingPoints):
    """Keys of the methods that start from points and follow an ordinary differential equation."""

    stepper: Literal["dopri5", "dop853", "euler"] = Field(
        "dopri5", description="Runge–Kutta method; dop853 for tight tolerances, euler for max_step"
    )
    tolerance: Positive | None = Field(
        None,
        description=(
            "largest local error of a step, root mean square, of predictions where particles slide"
            " along kinks, of units of a network relative to their size; 1e-10 makes a reference."
            " If not given 1e-6, but 1e-5 where auto steps over kinks of units with one output, and"
            " 1e-4 for smooth margins of ReLU units, whose steps are short at every kink that a"
            " unit crosses"
        ),
    )
    max_step: Positive | None = Field(
        None, description="no step is longer than this; the step of euler"
    )

    @model_validator(mode="after")
    def _fixed_step(self):
        needs_max_step(self.stepper, self.max_step)
        return self


class CharacteristicsMethod(StartingPoints, ToAccuracy):
    """Atoms that move exactly between kinks, in any dimension: ReLU or linear features, no
    noise."""

    kind: Literal["characteristics"]
    imex: Literal["auto", "explicit", "implicit"] = Field("auto", description="as for the grid")
    particles: Count | None = Field(None, description="how many atoms; as for particles")
    tolerance: Positive = Field(
        1e-4,
        description=(
            "of the predictions in a step, relative to them or the targets; their error is like it"
        ),
    )
    max_step: Positive | None = Field(None, description="no step is longer than this")

    @property
    def count(self) -> int | None:
        """How many points are asked for."""
        return self.particles


class ParticlesMethod(FromPoints, ToAccuracy):
    """Weighted particles, in any dimension."""

    kind: Literal["particles"]
    stepper: Literal["auto", "sliding", "dopri5", "dop853", "euler"] = Field(  # type: ignore[assignment]
        "auto",
        description=(
            "sliding locates where particles meet the kinks of ReLU, joint ReLU or a ridge with"
            " known kinks, and lets them slide there; auto is sliding where there are kinks, fewer"
            " than 1000 (for several outputs at most 1e-4/tolerance), else dopri5"
        ),
    )
    imex: Literal["auto", "explicit", "implicit"] = Field("auto", description="as for the grid")
    particles: Count | None = Field(
        None, description="how many; 1000 if absent, or as many as there are listed points or cells"
    )
    noise: Literal["deterministic", "random"] = Field(
        "deterministic",
        description=(
            "inject new particles on a fixed set, or let particles die and be born again uniform"
        ),
    )
    noise_points: Annotated[int, Field(ge=2, le=LARGEST)] = Field(
        1000, description="deterministic noise: particles injected each time"
    )
    noise_interval: Positive | None = Field(
        None,
        description=(
            "longest time between two injections or renewals; 0.05 if absent, or 1/(2σ) where that"
            " is shorter"
        ),
    )

    @property
    def count(self) -> int | None:
        """How many points are asked for."""
        return self.particles

    @model_validator(mode="after")
    def _nothing_unread(self):
        refuse_unread(
            self, self.noise == "random", "noise = 'deterministic' alone reads", "noise_points"
        )
        return self


class NetworkMethod(FromPoints):
    """A two-layer network in raw parameters."""

    kind: Literal["network"]
    units: Count | None = Field(
        None, description="how many; 1000 if absent, or as many as there are listed points or cells"
    )
    layers: Literal["both", "output", "normalized", "radii", "diagonal"] = Field(
        "both",
        description=(
            "what is trained, and how units are written; radii: of fixed directions; diagonal: a"
            " diagonal linear network on the domain 'fixed-features', of the depth of [flow]"
        ),
    )
    training: Literal["gradient-flow", "gradient-descent", "sgd"] = Field(
        "gradient-flow",
        description="in continuous time, by steps on all data, or by steps on batches",
    )
    step: Positive = Field(
        0.01, description="of descent; time advances by it, and saves between two steps shorten one"
    )
    schedule: Literal["constant", "inverse-sqrt", "proposition"] = Field(
        "constant",
        description=(
            "step k is step, or step/√(k+1), or for layers radii and output that of Chizat & Bach"
            " 2020, Prop. 6 and 7: the best margin and its bound are recorded, and time counts"
            " steps"
        ),
    )
    batch: Count = Field(
        100,
        description="sgd: fresh data at each step; from a file's data, rows drawn with replacement",
    )
    balance: Positive = Field(
        1.0, description="|output weight| / |input weights| of each unit at the start"
    )
    points: Literal["quasi-uniform", "random", "gaussian", "mesh"] = Field(
        "random", description="as for particles"
    )
    repeats: Count = Field(
        1,
        description=(
            "networks that are trained on the same data, the run and others of the seeds seed + 1,"
            " seed + 2, …: from 2 on their mean and its confidence band are kept, beside infinite"
            " width"
        ),
    )

    @property
    def count(self) -> int | None:
        """How many points are asked for."""
        return self.units

    @model_validator(mode="after")
    def _nothing_unread(self):
        given = given_keys(self, type(self).model_fields.keys() - {"kind"})
        check_descent(self.training, self.schedule, self.layers, given)
        refuse_unread(
            self,
            self.layers == "diagonal",
            "units on a sphere alone read",
            "units",
            "points",
            "scale",
        )
        free = self.points == "gaussian" or self.layers not in ("both", "normalized")
        refuse_unread(self, free, "units made from a measure alone read", "balance")
        return self


MethodTable = Annotated[
    GridMethod | CharacteristicsMethod | ParticlesMethod | NetworkMethod | AutomaticMethod,
    Field(discriminator="kind"),
]
# the tables of methods that "auto" may stand for, by their kinds
TABLES: dict[str, Any] = {
    "grid": GridMethod,
    "characteristics": CharacteristicsMethod,
    "particles": ParticlesMethod,
}
