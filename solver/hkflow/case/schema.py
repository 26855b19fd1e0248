"""The shape of a case file: every key, its type, its default and its meaning. `hkflow schema`
prints it as JSON schema."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticKnownError

from ..methods.rules import (
    check_courant_number,
    check_descent,
    check_reconstruction,
    needs_max_step,
)
from .labels import label_of

LARGEST = 10**9  # of what is counted: far beyond any machine, and no overflow
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Positive = Annotated[float, Field(gt=0.0)]
NonNegative = Annotated[float, Field(ge=0.0)]
Label = str | bool | int | float
Vector = Annotated[list[float], Field(min_length=1)]


class Table(BaseModel):
    """A table of a case file: unknown keys, wrong types, nan and inf are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Prepared(Table):
    """Keys that every data source of rows and columns has."""

    standardize: bool = Field(
        False, description="scale every input to mean 0 and standard deviation 1"
    )
    components: Count | None = Field(
        None, description="keep only so many principal components of the inputs"
    )
    test_fraction: Annotated[float, Field(gt=0.0, lt=1.0)] | None = Field(
        None,
        description=(
            "share of the rows, drawn by the seed, that is held out: its loss and error are"
            " recorded, and nothing is fitted to it"
        ),
    )


class Labelled(Prepared):
    """Classes from labels: rows with other labels are left out. Without both lists the label is a
    number to be regressed."""

    features: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="columns used as inputs; all if absent"
    )
    positive: Annotated[list[Label], Field(min_length=1)] | None = Field(
        None, description="labels counted as +1; 1, 1.0, true and '1' are one label"
    )
    negative: Annotated[list[Label], Field(min_length=1)] | None = Field(
        None, description="labels counted as -1"
    )
    classes: Annotated[list[Label], Field(min_length=2)] | None = Field(
        None,
        description="with the loss softmax: labels of the classes in their order; all if absent",
    )
    missing: Literal["refuse", "drop", "impute"] = Field(
        "refuse",
        description=(
            "rows with an empty cell, NA, NaN, null or ?: refuse the data with a list of them, drop"
            " such rows, or impute the column's mean, of a categorical one its commonest value;"
            " rows without a label are dropped then"
        ),
    )
    categorical: list[str] = Field(
        [],
        description=(
            "columns whose numbers are names of categories; columns without any number are so by"
            " themselves. A category becomes an input that is 1 or 0; two of them share one"
        ),
    )

    @model_validator(mode="after")
    def _both_or_none(self):
        if (self.positive is None) != (self.negative is None):
            raise ValueError(
                "'positive' and 'negative' go together: give both, or neither for a numerical"
                " target"
            )
        if self.positive and set(map(label_of, self.positive)) & set(map(label_of, self.negative)):
            raise ValueError("a label is listed both in 'positive' and in 'negative'")
        if self.positive and self.classes:
            raise ValueError("give either 'classes' or 'positive' and 'negative'")
        if self.classes and len(set(map(label_of, self.classes))) < len(self.classes):
            raise ValueError("a label is listed twice in 'classes'")
        return self


class FileData(Labelled):
    """A table in a file: text with a header line (.csv, .tsv, …), .parquet (needs the extra
    hkflow[parquet]), .npy or .npz."""

    source: Literal["csv", "file"] = Field(description="two names of one source")
    file: str = Field(description="path, relative to the case file")
    label: str = Field(description="column of the label or of the numerical target")
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = Field(
        None, description="between the fields of text: , ; tab or | is found if absent"
    )
    decimal: Literal[".", ","] | None = Field(
        None, description="before the decimals of numbers in text; found if absent"
    )
    test_file: str | None = Field(
        None, description="a second such file, whose rows are test data; or give test_fraction"
    )

    @model_validator(mode="after")
    def _delimits(self):
        if self.delimiter is not None and self.delimiter in '"\r\n':
            raise ValueError(
                f"'delimiter' is {self.delimiter!r}, which quotes a field or ends a line; give"
                " another character"
            )
        if self.delimiter == self.decimal == ",":
            raise ValueError("'delimiter' and 'decimal' cannot both be ','")
        if self.test_file is not None and self.test_fraction is not None:
            raise ValueError("give either 'test_fraction' or 'test_file'")
        return self


class FrameData(Labelled):
    """A table that a Python program holds."""

    source: Literal["frame"]
    frame: Any = Field(
        None,
        exclude=True,
        repr=False,
        description=(
            "in Python: a DataFrame of pandas or polars, a pyarrow Table, a dictionary of arrays,"
            " or an array of rows, whose columns are x1, x2, …"
        ),
    )
    label: str = Field(description="column of the label or of the numerical target")
    test_frame: Any = Field(
        None,
        exclude=True,
        repr=False,
        description="a second frame, whose rows are test data; or give test_fraction",
    )

    @model_validator(mode="after")
    def _one_test(self):
        if self.test_frame is not None and self.test_fraction is not None:
            raise ValueError("give either 'test_fraction' or 'test_frame'")
        return self


class ScikitLearnData(Labelled):
    """A data set that scikit-learn ships; needs the extra hkflow[data]."""

    source: Literal["scikit-learn"]
    name: Literal["iris", "wine", "breast-cancer", "digits", "diabetes"] = Field(
        description="of the data set"
    )


class InlineData(Prepared):
    """Data written into the case file."""

    source: Literal["inline"]
    inputs: Annotated[list[Vector], Field(min_length=1)] = Field(
        description="x_i, one list for each datum, without bias"
    )
    targets: Vector = Field(
        description="y_i, one for each datum; ±1 for classes, 0, 1, … with the loss softmax"
    )
    weights: list[NonNegative] | None = Field(
        None, description="weights q_i of the data, 1/n each if absent"
    )


class ClusterGridData(Prepared):
    """k² discs on a grid, each with a random class (Chizat & Bach 2020, sec. 7)."""

    source: Literal["cluster-grid"]
    n: Count = Field(description="number of data")
    dim: Annotated[int, Field(ge=2, le=LARGEST)] = Field(
        2, description="of the inputs; noise from the third on"
    )
    clusters: Count = Field(3, description="k, discs on a side of the grid")
    classes: list[Literal[1, -1]] | None = Field(
        None,
        description=(
            "of the discs, row by row from the lower left; drawn with the data, from the seed, if"
            " absent"
        ),
    )

    @model_validator(mode="after")
    def _one_class_each(self):
        if self.classes is not None and len(self.classes) != self.clusters**2:
            raise ValueError(
                f"'classes' has {len(self.classes)} entries for {self.clusters**2} discs"
            )
        return self


class XorData(Prepared):
    """XOR of the first two inputs among Gaussians (Wei et al., sec. 3.4)."""

    source: Literal["xor"]
    n: Count = Field(description="number of data")
    dim: Annotated[int, Field(ge=2, le=LARGEST)] = Field(2, description="of the inputs")


class ParityData(Prepared):
    """Product of the first bits of a random corner of the cube (2-homogeneity paper, Example
    4.1)."""

    source: Literal["parity"]
    n: Count = Field(description="number of data")
    dim: Count = Field(2, description="of the inputs")
    bits: Count = Field(2, description="how many of the inputs the class is the product of")

    @model_validator(mode="after")
    def _enough_bits(self):
        if self.bits > self.dim:
            raise ValueError(f"'bits' is {self.bits}, more than the {self.dim} inputs of 'dim'")
        return self


class Teacher(Table):
    """Keys of the network that makes targets: a random one of so many `units`, or a given one."""

    units: Count = Field(3, description="of a random teacher")
    positions: Annotated[list[Vector], Field(min_length=1)] | None = Field(
        None,
        description=(
            "instead of units: vectors of any length but 0, of the directions of its units, bias"
            " included"
        ),
    )
    signs: list[Literal[1, -1]] | None = Field(
        None, description="one per position; all +1 if absent"
    )
    weights: list[Positive] | None = Field(None, description="one per position; all 1 if absent")

    @model_validator(mode="after")
    def _random_or_given(self):
        if self.positions is None:
            _refuse_unread(self, True, "given positions alone read", "signs", "weights")
            return self
        _refuse_unread(self, True, "a random teacher alone reads", "units")
        for key in ("signs", "weights"):
            values = getattr(self, key)
            if values is not None and len(values) != len(self.positions):
                raise ValueError(f"{len(values)} {key} for {len(self.positions)} positions")
        sizes = {len(row) for row in self.positions}
        if len(sizes) > 1 or not all(map(any, self.positions)):
            raise ValueError("'positions' must be nonzero vectors of one length")
        return self


class TeacherData(Prepared, Teacher):
    """Gaussian inputs labelled by a network with the case's own activation and bias."""

    source: Literal["teacher"]
    n: Count = Field(description="number of data")
    dim: Count = Field(2, description="of the inputs")
    classify: bool = Field(False, description="use the sign of the teacher as the target")
    margin: NonNegative = Field(
        0.0, description="with classify: smallest |teacher| of the inputs that are kept"
    )


class PopulationData(Teacher):
    """Infinitely many Gaussian inputs, by the closed-form kernel, and the targets of a network;
    square loss, no bias."""

    source: Literal["population"]
    dim: Annotated[int, Field(ge=2, le=LARGEST)] = Field(2, description="of the inputs")


class NoData(Table):
    """No data: [[energy]] tables are the whole energy, and domain.dim is the sphere's dimension."""

    source: Literal["none"]


class MomentData(Table):
    """The linear problem F = ½ |∫θ dν - target e|², which has a closed-form solution."""

    source: Literal["moment"]
    direction: Annotated[list[float], Field(min_length=2)] = Field(
        description="e in R^(d+1), of any length but 0"
    )
    target: float = Field(description="m*, the first moment along e that the flow seeks")

    @model_validator(mode="after")
    def _not_zero(self):
        if not any(self.direction):
            raise ValueError("'direction' must not be zero")
        return self


Data = Annotated[
    FileData
    | FrameData
    | ScikitLearnData
    | InlineData
    | ClusterGridData
    | XorData
    | ParityData
    | TeacherData
    | PopulationData
    | NoData
    | MomentData,
    Field(discriminator="source"),
]


# the names in objectives.activations, which takes long to load
ACTIVATIONS = ("linear", "relu", "squared-relu", "joint-relu", "absolute-value")


def _activation(name):
    """A built-in activation, or a reference module:name to a user's."""
    if name not in ACTIVATIONS and ":" not in name:
        choices = (*ACTIVATIONS, "module:function")
        raise PydanticKnownError("literal_error", {"expected": str(choices)[1:-1]})
    return name


Activation = Annotated[
    str,
    AfterValidator(_activation),
    Field(json_schema_extra={"anyOf": [{"enum": [*ACTIVATIONS]}, {"pattern": ":"}]}),
]
OperatorName = Literal["auto", "dense", "sorted", "tree", "dense-single"]


class ObjectiveTable(Table):
    """F(ν) = R(h) + weight_decay |ν| + entropy ∫ν log ν dθ."""

    activation: Activation = Field(
        "relu",
        description=(
            "φ(θ, x) of a unit; joint-relu is b(a·x)₊ for θ = (a, b) on the sphere of input and"
            " output weights; absolute-value is |θ·x|; 'module:function' beside the case or where"
            " Python looks: a function s -> (ψ(s), ψ′(s)) of arrays for φ = ψ(θ·x), or a"
            " hkflow.Feature"
        ),
    )
    bias: bool = Field(False, description="append a constant 1 to every input")
    loss: Literal[
        "square", "logistic", "exponential", "smooth-margin", "smooth-logistic-margin", "softmax"
    ] = Field(
        description=(
            "the risk R; smooth margins are minus the log of a mean of losses; softmax: for k"
            " classes, an output for each, of units b ψ(a·x), θ = (a, b), with b in R^k and the"
            " activation ψ relu or linear"
        )
    )
    weight_decay: NonNegative = Field(0.0, description="λ")
    entropy: NonNegative = Field(0.0, description="τ of τ∫ν log ν, ν a density per area")
    operator: OperatorName = Field(
        "auto",
        description=(
            "how sums over data are made, exact to rounding: over all pairs, by sorting (circle),"
            " by a tree of caps; dense-single: over all pairs in float32, to about 1e-6"
        ),
    )


def _potential(text):
    """A formula in the coordinates."""
    from ..measures.formula import Formula  # slow to load
    from ..measures.initial import VARIABLES

    Formula(text, tuple(name for name in VARIABLES if name != "sign"))
    return text


# of objectives.kernels, which takes long to load: the parameter that each needs
KERNELS = {
    "linear": None, "quadratic": None, "exponential": "concentration",
    "von-mises": "concentration", "gaussian": "width", "riesz": "exponent",
}  # fmt: skip


def _kernel(text):
    """A named kernel, or a formula in t."""
    if text in KERNELS:
        return text
    if text != "t" and text.replace("-", "").isalpha():
        raise PydanticKnownError("literal_error", {"expected": str((*KERNELS, "a formula"))[1:-1]})
    from ..measures.formula import Formula  # slow to load

    Formula(text, ("t",))
    return text


class ExternalEnergy(Table):
    """∫V dν of a potential V."""

    kind: Literal["external"]
    potential: Annotated[str, AfterValidator(_potential)] = Field(
        description="V, a formula in x, y, z, or theta1, theta2, …, as initial.density"
    )


class InteractionEnergy(Table):
    """½ ∬K(θ·θ′) dν dν of a kernel K of t = θ·θ′."""

    kind: Literal["interaction"]
    kernel: Annotated[str, AfterValidator(_kernel)] = Field(
        description=(
            "linear t; quadratic t²; exponential e^(κ(t − 1)) and von-mises e^(κt)/I₀(κ), κ ="
            " concentration; gaussian e^(−|θ − θ′|²/2 width²); riesz |θ − θ′|^exponent; or a"
            " formula in t, as 'exp(t) / (2 - t)'"
        )
    )
    strength: float = Field(1.0, description="factor; −1 makes masses attract that 1 lets repel")
    concentration: Positive | None = Field(None, description="κ of exponential and von-mises")
    width: Positive | None = Field(None, description="of gaussian")
    exponent: Positive | None = Field(None, description="of riesz")

    @model_validator(mode="after")
    def _its_own_parameter(self):
        given = {key for key in ("concentration", "width", "exponent") if getattr(self, key)}
        needed = KERNELS.get(self.kernel)
        if given != ({needed} if needed else set()):
            raise ValueError(
                f"the kernel '{self.kernel}' has the parameter {needed or 'nothing'}, got"
                f" {', '.join(sorted(given)) or 'nothing'}"
            )
        return self


class EntropyEnergy(Table):
    """τ ∫ν log ν, which is diffusion."""

    kind: Literal["entropy"]
    temperature: Positive = Field(description="τ")


ENERGIES = {
    "external": ExternalEnergy,
    "interaction": InteractionEnergy,
    "entropy": EntropyEnergy,
}
Energy = Annotated[ExternalEnergy | InteractionEnergy | EntropyEnergy, Field(discriminator="kind")]
Energies = Annotated[list[Energy], Field(min_length=1)]


def unit_name(table: Any) -> str:
    """What messages and choices call φ of an objective table."""
    several = table.loss == "softmax" and table.activation in ACTIVATIONS
    return f"{table.activation} with an output for each class" if several else table.activation


class DomainTable(Table):
    """Where the measure lives; the dimension follows from the data."""

    kind: Literal["sphere", "signed-sphere", "fixed-features"] = Field(
        description=(
            "fixed-features: the unit vector of every input and its negative, without transport:"
            " diagonal linear networks"
        )
    )
    cells: Annotated[int, Field(ge=3, le=LARGEST)] | None = Field(
        None, description="of the grid, or of the mesh of method.points = 'mesh'"
    )
    dim: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="d of the sphere, of energies without data alone"
    )


def _expression(text):
    """A formula in the coordinates; its dimension follows from the data."""
    from ..measures.formula import Formula  # slow to load
    from ..measures.initial import VARIABLES

    Formula(text, VARIABLES)
    return text


def _rate(value):
    """A number of at least 0, or a formula in t."""
    from ..measures.formula import Formula  # slow to load

    if isinstance(value, str):
        Formula(value, ("t",))
    elif not value >= 0.0:
        raise ValueError(f"must be at least 0, or a formula in t, got {value:g}")
    return value


Rate = Annotated[float | str, AfterValidator(_rate)]  # a number, or a formula in the time t


class Initial(Table):
    """Total mass, and the output signs that carry it."""

    mass: Positive = Field(1.0, description="total mass |ν| at the start")


class SignedInitial(Initial):
    """Keys of the smooth initial measures."""

    signs: Annotated[list[Literal[1, -1]], Field(min_length=1)] | None = Field(
        None, description="signs that carry mass; all if absent"
    )


class UniformInitial(SignedInitial):
    """The uniform measure."""

    kind: Literal["uniform"]


class VonMisesFisherInitial(SignedInitial):
    """Density proportional to the sum of exp(concentration c·θ) over the centres c."""

    kind: Literal["von-mises-fisher"]
    centers: Annotated[list[Vector], Field(min_length=1)] = Field(
        description="directions c, of any length but 0"
    )
    concentration: NonNegative = Field(description="how narrow the density is; 0 makes it uniform")


class CapsInitial(SignedInitial):
    """Uniform on the union of caps."""

    kind: Literal["caps"]
    centers: Annotated[list[Vector], Field(min_length=1)] = Field(
        description="directions of the middles, of any length but 0"
    )
    radius: Positive = Field(description="in radians")


class ExpressionInitial(SignedInitial):
    """Density proportional to an expression."""

    kind: Literal["expression"]
    density: Annotated[str, AfterValidator(_expression)] = Field(
        description=(
            "in the coordinates x, y, z, or theta1, theta2, … of unit vectors, and sign (1 or -1):"
            " numbers, + - * / **, comparisons (1 or 0), pi, abs, exp, log, sqrt, sin, cos, tan,"
            " arcsin, arccos, arctan, sinh, cosh, tanh, arctan2, minimum, maximum, where; as"
            " 'exp(3*x) * (sign > 0)'"
        )
    )


class FileInitial(Table):
    """A density on the mesh of domain.cells, or atoms, in a file."""

    kind: Literal["file"]
    file: str = Field(
        description=(
            "beside the case: .npy of a density (signs, cells) or of positions; .npz of density, or"
            " of positions and, if wanted, signs and weights; .csv with a column 'density' and, of"
            " two signs, 'sign', a row for each cell in their order, or columns of points"
        )
    )
    mass: Positive | None = Field(None, description="in the place of that in the file")


class PointsInitial(Initial):
    """Listed point masses: a grid gives each to the cell that holds it, particles and networks
    start from them."""

    kind: Literal["points"]
    positions: Annotated[list[Vector], Field(min_length=1)] | None = Field(
        None, description="vectors of any length but 0"
    )
    signs: list[Literal[1, -1]] | None = Field(
        None, description="one per position; all +1 if absent"
    )
    weights: list[Positive] | None = Field(
        None, description="one per position, scaled to the mass; equal if absent"
    )
    file: str | None = Field(
        None,
        description=(
            "CSV file beside the case instead: a column per coordinate and, if wanted, columns"
            " 'sign' and 'weight'"
        ),
    )

    @model_validator(mode="after")
    def _inline_or_file(self):
        inline = self.positions is not None
        if inline == (self.file is not None):
            raise ValueError("give either 'positions' or 'file'")
        if not inline and (self.signs or self.weights):
            raise ValueError("signs and weights belong into columns of 'file'")
        return self


class RunInitial(Table):
    """What another run has left: as a density with captured atoms beside it where there is a mesh,
    else as atoms. Its domain and data are those of the case; flow, loss and method may differ."""

    kind: Literal["run"]
    run: str = Field(
        description=(
            "run folder or results.h5, beside the case file or, if it is not there, in the current"
            " folder"
        )
    )
    save: int = Field(-1, description="which save, from 0; negative ones from the end")

    def place(self, folder: Path) -> Path:
        """Where the run is, for a case file in a folder."""
        beside = folder / self.run
        return beside if beside.exists() else Path(self.run)


class BalancedInitial(Initial):
    """With activation joint-relu: the uniform measure on |a| = |b|, which the flow keeps."""

    kind: Literal["balanced"]


class ZeroInitial(Table):
    """No mass at all, from where a signed density starts."""

    kind: Literal["zero"]


class ScaledInitial(Table):
    """A diagonal network with all parameters equal to one number: every atom has the weight
    scale^depth."""

    kind: Literal["scaled"]
    scale: Positive = Field(description="α, the number that all parameters are equal to")


InitialTable = Annotated[
    UniformInitial
    | VonMisesFisherInitial
    | CapsInitial
    | ExpressionInitial
    | FileInitial
    | PointsInitial
    | RunInitial
    | BalancedInitial
    | ZeroInitial
    | ScaledInitial,
    Field(discriminator="kind"),
]


# kinds whose points no method chooses
GIVEN = {"points": "listed", "run": "those of a run", "file": "those in a file"}


def _given(table, keys):
    """Those keys of a table that are not at their defaults."""
    return [key for key in keys if getattr(table, key) != type(table).model_fields[key].default]


def _refuse_unread(table, unread, reader, *keys):
    """Raise ValueError if keys were given that nothing would read."""
    given = _given(table, keys)
    if unread and given:
        raise ValueError(f"{reader} {', '.join(repr(key) for key in given)}; leave it out")


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
            "normalised flow: J at ν = e^log_mass ν̄ (the same flow, its mass apart) or at ν̄,"
            " whose mass stays"
        ),
    )
    time_variable: Literal["time", "margin"] = Field(
        "time", description="margin: time is the smooth margin γ̃ = -log loss"
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
        _refuse_unread(self, named and not spherical, "a spherical flow alone reads", "drive")
        _refuse_unread(
            self, named and self.kind != "diagonal", "the flow 'diagonal' alone reads", "depth"
        )
        return self


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
    limiter: Literal["mc", "van-leer", "minmod", "koren", "first-order"] = Field(
        "mc", description="of the slopes in cells; first-order has none"
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
            "step in units of the time in which a cell would be emptied; 0.9 with muscl-hancock,"
            " else 0.4, if not given"
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
    """The method with most accuracy per second: characteristics for ReLU and linear units without
    noise, a grid for noise and population risks where domain.cells are given, else particles."""

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
        _refuse_unread(self, self.points != "gaussian", "points = 'gaussian' alone reads", "scale")
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
            " along kinks; 1e-10 makes a reference. If not given"
            " 1e-6, and 1e-4 for smooth margins of ReLU units, whose steps are short at every kink"
            " that a unit crosses"
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
    stepper: Literal["auto", "dopri5", "dop853", "euler"] = Field(  # type: ignore[assignment]
        "auto",
        description=(
            "auto locates where particles meet the kinks of ReLU, joint ReLU or a ridge with known"
            " kinks, and lets them slide there; without kinks it is dopri5"
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
    noise_interval: Positive = Field(
        0.05, description="longest time between two injections or renewals"
    )

    @property
    def count(self) -> int | None:
        """How many points are asked for."""
        return self.particles

    @model_validator(mode="after")
    def _nothing_unread(self):
        _refuse_unread(
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
    step: Positive = Field(0.01, description="of descent; time advances by it")
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
        given = _given(self, type(self).model_fields.keys() - {"kind"})
        check_descent(self.training, self.schedule, self.layers, given)
        _refuse_unread(
            self,
            self.layers == "diagonal",
            "units on a sphere alone read",
            "units",
            "points",
            "scale",
        )
        free = self.points == "gaussian" or self.layers not in ("both", "normalized")
        _refuse_unread(self, free, "units made from a measure alone read", "balance")
        return self


MethodTable = Annotated[
    GridMethod | CharacteristicsMethod | ParticlesMethod | NetworkMethod | AutomaticMethod,
    Field(discriminator="kind"),
]


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
        None, description="end as soon as the smooth margin γ̃ = -log loss reaches this"
    )
    records: NonNegative = Field(
        0.0, description="simulated time between records; 0 for every accepted step"
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


class ErrorTable(Table):
    """How errors are estimated when a run has ended."""

    companions: Literal["all", "own", "none"] = Field(
        "all",
        description=(
            "runs beside it, on 1/4 and 1/16 of the cells or points and with a tighter tolerance,"
            " from which its error bars come; all: also by another method, where there is one"
        ),
    )


class CertificateTable(Table):
    """What is proved at the end of a run whose records enclose the max-margin."""

    seconds: NonNegative = Field(
        5.0,
        description=(
            "for the max-margin itself, at most, after the end of the run; 0 leaves it out"
        ),
    )


# of tables that are there without saying of which kind; without a mesh the method is "auto"
DEFAULT_KINDS = {"initial": "uniform", "method": "grid"}


class Case(Table):
    """A whole case file."""

    title: str = Field("", description="of pictures and reports")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(
        0, description="of everything random: data, teachers, points, batches"
    )
    data: Data = Field(description="inputs and targets, from a file or made; or [[energy]] tables")
    objective: ObjectiveTable = Field(description="what is minimised")
    energy: Energies | None = Field(
        None,
        description=(
            "tables [[energy]] of kind external, interaction or entropy, added to the objective;"
            " with them [data] and [objective] may be absent"
        ),
    )
    domain: DomainTable = Field(description="where the measure lives")
    initial: InitialTable = Field(
        UniformInitial(kind="uniform"), description="the measure at the start; uniform if absent"
    )
    flow: FlowTable | None = Field(
        None, description="of all methods but the network; a network's flow follows from its layers"
    )
    method: MethodTable = Field(
        GridMethod(), description="a grid of domain.cells, or 'auto' where there are none"
    )
    time: TimeTable = Field(description="how far, and what is saved")
    error: ErrorTable = Field(ErrorTable(), description="the error bars of the run")
    certificate: CertificateTable = Field(
        CertificateTable(), description="the max-margin at the end of a margin run"
    )
    records: dict[str, Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]] | None = Field(
        None,
        description=(
            "further records: name = 'module:function', a function of a hkflow State -> number; the"
            " module lies beside the case file or where Python looks"
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _default_kinds(cls, tables):
        if not isinstance(tables, dict):
            return tables
        if "energy" in tables and "data" not in tables:
            objective = tables.get("objective", {})
            if isinstance(objective, dict):
                objective = {"activation": "linear", "loss": "square"} | objective
            tables = tables | {"data": {"source": "none"}, "objective": objective}
        domain, kinds = tables.get("domain"), DEFAULT_KINDS
        method = tables.get("method", {})
        if (
            isinstance(domain, dict)
            and domain.get("kind") != "fixed-features"
            and domain.get("cells") is None
            and isinstance(method, dict)
            and set(method) <= set(AutomaticMethod.model_fields)
        ):
            kinds, tables = kinds | {"method": "auto"}, tables | {"method": method}
        for name, kind in kinds.items():
            if isinstance(tables.get(name), dict):
                tables = tables | {name: {"kind": kind} | tables[name]}
        return tables

    @model_validator(mode="after")
    def _fits_together(self):
        kind = self.method.kind
        if self.flow is None and kind != "network":
            raise ValueError("[flow] is missing: give its 'kind' or its rates")
        discrete = self.domain.kind == "fixed-features"
        self._energies_have_a_sphere(discrete)
        accuracy = getattr(self.method, "accuracy", None)
        if accuracy is not None and (discrete or self.domain.cells is not None):
            raise ValueError(
                "method.accuracy: "
                + ("fixed features need no mesh" if discrete else "it chooses domain.cells")
                + "; leave one of the two out"
            )
        if accuracy is not None and getattr(self.method, "points", "") in ("mesh", "gaussian"):
            raise ValueError(
                f"method.accuracy: it chooses how many points, which '{self.method.points}' does as"
                " well; leave one of the two out"
            )
        if (
            not discrete
            and self.domain.cells is None
            and accuracy is None
            and (kind == "grid" or self.method.points == "mesh")
        ):
            raise ValueError("domain.cells is missing: a mesh needs a number of cells")
        _refuse_unread(self.domain, discrete, "a sphere alone reads", "cells")
        if discrete and self.objective.activation != "linear":
            raise ValueError(
                "domain 'fixed-features' has one feature for each input and sign:"
                " objective.activation must be 'linear'"
            )
        if discrete and self.initial.kind not in ("uniform", "scaled", "zero", "run", "file"):
            raise ValueError(
                f"initial.kind '{self.initial.kind}' is for spheres; on fixed features choose"
                " uniform, scaled, zero, file or run"
            )
        if not discrete and self.initial.kind == "scaled":
            raise ValueError("initial.kind 'scaled' is for the domain 'fixed-features'")
        several = self.objective.loss == "softmax"
        if several:
            self._fits_several_classes()
        elif getattr(self.data, "classes", None) and isinstance(self.data, Labelled):
            raise ValueError(
                f"data.classes is read with the loss 'softmax'; '{self.objective.loss}' tells"
                " 'positive' from 'negative'"
            )
        joint = several or self.objective.activation == "joint-relu"
        if self.initial.kind == "balanced" and not joint:
            raise ValueError(
                "initial.kind 'balanced' needs the activation 'joint-relu' or the loss 'softmax'"
            )
        if self.time.until_margin is not None and self.objective.loss in ("square", "softmax"):
            raise ValueError(
                f"time.until_margin: the loss '{self.objective.loss}' has no smooth margin"
            )
        if kind != "grid" and not discrete:
            self._points_come_from_one_place()
        repeats = kind == "network" and self.method.repeats > 1
        if repeats and self.method.training != "sgd" and not self.is_drawn:
            raise ValueError(
                "method.repeats: the initial points are not drawn, so all repeats would be the"
                " same; choose method.points 'random' or 'gaussian', or leave it out"
            )
        if kind == "network" and self.objective.activation == "squared-relu":
            _refuse_unread(
                self.method,
                self.method.layers == "both",
                "units with trained output weights alone read",
                "balance",
            )
        if self.time.steps is not None and not (
            kind == "network" and self.method.training != "gradient-flow"
        ):
            raise ValueError(
                "time.steps counts the steps of a network's descent; give time.end instead"
            )
        return self

    def _energies_have_a_sphere(self, discrete):
        empty, given = self.data.source == "none", self.domain.dim
        if empty and self.energy is None:
            raise ValueError("data.source 'none' is for cases with [[energy]] tables")
        if empty and given is None:
            raise ValueError("domain.dim is missing: without data it is d of the sphere S^d")
        if not empty and given is not None:
            raise ValueError("domain.dim follows from the data; leave it out")
        if self.energy is not None and self.method.kind in ("characteristics", "network"):
            raise ValueError(
                f"method.kind '{self.method.kind}' moves units by the data alone; with [[energy]]"
                " tables choose grid or particles"
            )
        if self.energy is not None and discrete:
            raise ValueError("[[energy]] tables are for spheres, not for 'fixed-features'")

    @property
    def is_by_data(self) -> bool:
        """Whether data alone drive the flow: neither a population nor other energies."""
        return self.energy is None and self.data.source not in ("population", "none")

    def _fits_several_classes(self):
        """Raise ValueError for what units with an output for each class have not."""
        activation, kind, source = self.objective.activation, self.method.kind, self.data.source
        faults = {
            f"objective.activation: with the loss 'softmax' units are b ψ(a·x) with ψ 'relu' or"
            f" 'linear', got '{activation}'": activation not in ("relu", "linear"),
            f"domain.kind: with the loss 'softmax' units (a, b) have their signs in b: choose"
            f" 'sphere', got '{self.domain.kind}'": self.domain.kind != "sphere",
            "data: the loss 'softmax' tells all classes apart: leave out 'positive' and 'negative',"
            " or list some classes in 'classes'": getattr(self.data, "positive", None),
            f"data.source: '{source}' makes no classes 0, 1, …, which the loss 'softmax' needs;"
            " take a table with a label, or 'inline'": not (
                isinstance(self.data, Labelled | InlineData)
            ),
            "method.kind: 'characteristics' are of units with one output; with the loss 'softmax'"
            " choose particles, network, or a grid where the sphere of (a, b) has a mesh": kind
            == "characteristics",
            "method.layers: with the loss 'softmax' choose 'both' or 'radii'": kind == "network"
            and self.method.layers not in ("both", "radii"),
        }
        if found := [text for text, is_one in faults.items() if is_one]:
            raise ValueError(found[0])

    @property
    def is_drawn(self) -> bool:
        """Whether the initial points depend on the seed."""
        stated = self.domain.kind != "fixed-features" and self.initial.kind not in GIVEN
        return stated and getattr(self.method, "points", "") in ("random", "gaussian")

    def _points_come_from_one_place(self):
        given = GIVEN.get(self.initial.kind)
        meshed = self.method.points == "mesh"
        key = "units" if self.method.kind == "network" else "particles"
        if self.method.count is not None and (given or meshed):
            source = (
                "the mesh has its own number of cells"
                if meshed
                else f"the initial points are {given}"
            )
            raise ValueError(f"method.{key}: {source}, so leave it out")
        chosen = ("mesh", "gaussian") if self.initial.kind == "points" else ("gaussian",)
        if given and self.method.points in chosen:
            raise ValueError(
                f"method.points: the initial points are {given}, so '{self.method.points}' cannot"
                " choose them; leave it out"
            )


# --- what a run folder says of a Problem that was made in Python


class ArraysData(Table):
    """Data that a run folder holds as arrays."""

    source: Literal["arrays"] = "arrays"


class DensityTable(Table):
    """An InitialDensity: a factor times a smooth measure."""

    kind: Literal["uniform", "von-mises-fisher", "caps", "expression"]
    factor: NonNegative
    signs: list[Literal[1, -1]]
    expression: str | None = None
    centers: list[Vector] | None = None
    concentration: NonNegative | None = None
    radius: Positive | None = None

    @model_validator(mode="after")
    def _keys_of_its_kind(self):
        wanted = {
            "von-mises-fisher": {"centers", "concentration"},
            "caps": {"centers", "radius"},
            "expression": {"expression"},
        }
        given = self.model_dump(exclude={"kind", "factor", "signs"}, exclude_none=True)
        if given.keys() != wanted.get(self.kind, set()):
            raise ValueError(f"the keys of a density '{self.kind}' are not {', '.join(given)}")
        return self


class ArraysInitial(Table):
    """An initial measure that the first save holds."""

    kind: Literal["arrays"] = "arrays"
    balanced: bool | None = Field(None, description="of units: whether |a_j| = |b_j|")


class ProblemObjective(Table):
    """An objective; names that are not built in are those of functions that the header describes.

    teacher, teacher_weights : of a population risk
    """

    activation: str
    bias: bool
    loss: str
    weight_decay: NonNegative
    entropy: NonNegative = 0.0
    operator: OperatorName = "auto"
    teacher: list[Vector] | None = None
    teacher_weights: Vector | None = None
    energy: list[Energy] | None = Field(None, description="terms of a hkflow.Sum")
    axes: Count | None = Field(None, description="of a point, if that has no data")


class ProblemDomain(Table):
    """A domain by its signs, and the cells of its mesh."""

    kind: Literal["sphere", "signed-sphere", "fixed-features"]
    signs: list[Literal[1, -1]]
    cells: Count | None = None


class ExactTable(Table):
    """The closed-form moment flow."""

    direction: Vector
    target: float


class ProblemCase(Table):
    """A Problem that was made in Python, by the keys of a case as far as there are any."""

    title: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    data: ArraysData = ArraysData()
    objective: ProblemObjective
    domain: ProblemDomain
    initial: ArraysInitial = ArraysInitial()
    density: DensityTable | None = Field(None, description="the initial one at every point")
    flow: FlowTable
    method: MethodTable
    time: TimeTable
    error: ErrorTable = ErrorTable()
    certificate: CertificateTable = CertificateTable()
    exact: ExactTable | None = None
