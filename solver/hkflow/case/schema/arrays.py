"""What a run folder says of a Problem that was made in Python."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from .case import CertificateTable, ErrorTable
from .flow import FlowTable, TimeTable
from .methods import MethodTable
from .objective import Energy, OperatorName
from .tables import Count, NonNegative, Positive, Table, Vector


class ArraysData(Table):
    """Data that a run folder holds as arrays."""

    source: Literal["arrays"] = "arrays"


class DensityTable(Table):
    """An InitialDensity, a factor times a smooth measure, or the BalancedUnits of some outputs."""

    kind: Literal["uniform", "von-mises-fisher", "caps", "expression", "balanced"]
    factor: NonNegative = 1.0
    signs: list[Literal[1, -1]] = [1]
    outputs: Count | None = None
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
            "balanced": {"outputs"},
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
