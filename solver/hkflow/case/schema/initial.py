"""The table [initial]: the measure at the start."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from .tables import NonNegative, Positive, Table, Vector


def _expression(text):
    """A formula in the coordinates; its dimension follows from the data."""
    from ...measures.formula import Formula  # slow to load
    from ...measures.initial import VARIABLES

    Formula(text, VARIABLES)
    return text


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
    """With activation joint-relu or the loss softmax: the uniform measure on |a| = |b|, which the
    flow keeps."""

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
