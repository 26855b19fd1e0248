"""A whole case file."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from .data import Data, InlineData, Labelled
from .flow import DomainTable, FlowTable, TimeTable
from .initial import GIVEN, InitialTable, UniformInitial
from .methods import AutomaticMethod, GridMethod, MethodTable
from .objective import Energies, ObjectiveTable
from .tables import NonNegative, Table, refuse_unread


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


def _without_energies(schema):
    """What a file must have in any case: data and objective may be absent beside [[energy]]."""
    absent = ("data", "objective")
    schema["required"] = [name for name in schema["required"] if name not in absent]
    schema["anyOf"] = [{"required": [*absent]}, {"required": ["energy"]}]


class Case(Table):
    """A whole case file."""

    model_config = ConfigDict(json_schema_extra=_without_energies)

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
        self._has_a_size(discrete)
        self._fits_fixed_features(discrete)
        self._fits_the_loss()
        if kind != "grid" and not discrete:
            self._points_come_from_one_place()
        if kind == "network":
            self._fits_a_network()
        descends = kind == "network" and self.method.training != "gradient-flow"
        if self.time.steps is not None and not descends:
            raise ValueError(
                "time.steps counts the steps of a network's descent; give time.end instead"
            )
        return self

    def _has_a_size(self, discrete):
        """Raise ValueError unless a number of cells, or what chooses it, is given where it is
        read."""
        kind = self.method.kind
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
        refuse_unread(self.domain, discrete, "a sphere alone reads", "cells")
        if kind in ("particles", "auto"):
            refuse_unread(self.method, discrete, "a sphere alone reads", "particles")

    def _fits_fixed_features(self, discrete):
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

    def _fits_the_loss(self):
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
        if self.time.until_margin is not None and self.objective.loss == "square":
            raise ValueError("time.until_margin: the loss 'square' has no smooth margin")

    def _fits_a_network(self):
        method = self.method
        if method.repeats > 1 and method.training != "sgd" and not self.is_drawn:
            raise ValueError(
                "method.repeats: the initial points are not drawn, so all repeats would be the"
                " same; choose method.points 'random' or 'gaussian', or leave it out"
            )
        if self.objective.activation == "squared-relu":
            refuse_unread(
                method,
                method.layers == "both",
                "units with trained output weights alone read",
                "balance",
            )

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
