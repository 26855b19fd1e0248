"""The table [data]: where inputs and targets come from."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ..labels import label_of
from .tables import LARGEST, Count, Label, NonNegative, Positive, Table, Vector, refuse_unread


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
        None, description="columns used as inputs; all but 'label' and 'weight' if absent"
    )
    weight: str | None = Field(
        None,
        description=(
            "column of numbers ≥ 0 by which rows count, divided by their sum: a row of weight 2"
            " counts as two copies, one of weight 0 is left out; all count alike if absent"
        ),
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
        None,
        description=(
            "weights q_i of the data in the risk, taken as they are: a sum other than 1 multiplies"
            " it; 1/n each if absent"
        ),
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
            refuse_unread(self, True, "given positions alone read", "signs", "weights")
            return self
        refuse_unread(self, True, "a random teacher alone reads", "units")
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
