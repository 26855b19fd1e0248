"""Users' own functions: found by their names, module:function, and known again by their source."""

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ..arguments import Floats
from ..errors import CaseError, printable
from ..objectives.activations import (
    FEATURES,
    Feature,
    feature_named,
    misfit,
    unchecked_ridge,
    vector_feature,
)
from ..objectives.losses import ALL_RISKS, SOFTMAX, Risk
from ..objectives.own import TRIED, check_feature
from .schema.tables import Table
from .sources import module_in, source_hash

REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def imported(reference: str, folder: str | Path | None = None) -> Any:
    """What a reference module:name, or module:name.attribute, names; a module in `folder` comes
    first.

    Raises CaseError if there is no such module or nothing of that name in it.
    """
    module, _, names = reference.partition(":")
    if not REFERENCE.fullmatch(reference) or module.endswith(".py"):
        raise CaseError(
            f"'{printable(reference)}' cannot be imported: wanted module:function, with a function"
            " at the top of a module; 'units:tanh' is the function tanh of the file units.py."
        )
    try:
        found = _module(module, folder)
    except (Exception, SystemExit) as error:  # whatever the user's module says
        place = f"in {folder} and " if folder else ""
        raise CaseError(
            f"'{reference}': the module '{module}' cannot be imported ({type(error).__name__}:"
            f" {error}). It was looked for {place}where Python looks; PYTHONPATH adds a folder."
        ) from error
    for name in names.split("."):
        if not hasattr(found, name):
            remedy = (
                " It was defined in a notebook or a script: define it again, or in a module."
                if module == "__main__"
                else ""
            )
            raise CaseError(
                f"'{reference}': there is no '{name}' in the module '{module}'.{remedy}"
            )
        found = getattr(found, name)
    return found


def _module(name, folder):
    path = _path(name, folder)
    if path is None:
        return import_module(name)
    return module_in(path, path.parents[name.count(".")])


def home_of(reference: str, folder: str | Path) -> str | None:
    """The folder, as a whole path, if the module of a reference lies in it; else None."""
    path = _path(reference.partition(":")[0], folder)
    return None if path is None else str(Path(folder).resolve())


def _path(name, folder):
    """The file of a module in a folder, None if it is not there."""
    path = Path(folder or "", *name.split(".")).with_suffix(".py")
    return path.resolve() if folder is not None and path.is_file() else None


def _name_of(function):
    """module:name of a function. That of a partial or an object, which cannot be imported, is the
    same in every session."""
    if isinstance(function, partial):
        module, _, name = _name_of(function.func).partition(":")
        return f"{module}:partial({name})"
    if not hasattr(function, "__qualname__"):
        return f"{type(function).__module__}:{type(function).__qualname__}()"
    return f"{function.__module__}:{function.__qualname__}"


class StoredFunction(Table):
    """A user's function as a run folder knows it.

    function : module:name;  source : see source_hash;  folder : of the case, if the module is there
    """

    function: str
    source: str | None = None
    folder: str | None = None

    @staticmethod
    def of(
        function: Callable, name: str | None = None, folder: str | None = None
    ) -> "StoredFunction":
        """That of a function, by default under the name that it has itself."""
        name = name or _name_of(function)
        return StoredFunction(function=name, source=source_hash(function), folder=folder)

    def load(self, where: str | Path, sourceless: bool = False) -> Callable:
        """The function. Raises CaseError, which begins with `where`, if it cannot be imported or
        its source is not what it was.

        sourceless : whether one whose source nobody knew is taken as it is
        """
        try:
            found = imported(self.function, self.folder)
        except CaseError as error:
            raise CaseError(f"{where}: {error}") from error
        if self.source is None and not sourceless:
            raise CaseError(
                f"{where}: whether '{self.function}' is what it was when the run was made cannot be"
                " told, for it has no source in Python; wrap it in a function of a module, and run"
                " again."
            )
        if source_hash(found) != self.source:
            raise CaseError(
                f"{where}: the source of '{self.function}' is not what it was when the run was"
                " made, so its numbers may be others; put the former source back, or run again."
            )
        return found

    def deferred(self, where: str) -> Callable:
        """A function that is imported, and known again, when it is first called."""

        @lru_cache(maxsize=1)
        def function():
            return self.load(where)

        return lambda *arguments: function()(*arguments)


class StoredFeature(Table):
    """A user's feature as a run folder knows it; functions and numbers as of hkflow.Feature."""

    name: str
    degree: int | None = None
    ridge: StoredFunction | None = None
    matrix: StoredFunction | None = None
    pullback: StoredFunction | None = None
    kinks: list[float] | None = None
    one_sided_slopes: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None

    @model_validator(mode="after")
    def _is_made_of_functions(self):
        if (self.ridge is None) == (self.matrix is None):
            raise ValueError("a feature has either 'ridge' or 'matrix'")
        return self

    @staticmethod
    def of(
        feature: Feature, reference: str | None = None, folder: str | None = None
    ) -> "StoredFeature":
        """That of a feature; reference : by which a case names it."""
        if feature.joint or feature.activation is not None:
            raise CaseError(
                f"The feature '{feature.name}' is not one of hkflow's and not made of functions"
                " alone: leave out activation and joint."
            )
        names = ("ridge",) if feature.ridge is not None else ("matrix", "pullback")
        functions = {
            name: StoredFunction.of(
                getattr(feature, name),
                reference and (reference if name == "ridge" else f"{reference}.{name}"),
                folder,
            )
            for name in names
            if getattr(feature, name) is not None
        }
        try:
            slopes = feature.pieces
        except Exception as error:  # whatever the user's function says
            raise CaseError(f"objective.activation: {misfit(feature, error)}") from error
        return StoredFeature(
            name=feature.name,
            degree=feature.degree,
            kinks=list(feature.kinks) or None,
            one_sided_slopes=slopes and list(slopes),
            **functions,
        )

    def check(self, where: str) -> None:
        """Raise CaseError if a function cannot be imported or is not what it was."""
        for function in (self.ridge, self.matrix, self.pullback):
            if function is not None:
                function.load(where)

    def built(self, where: str) -> Feature:
        """The Feature, whose functions are imported when they are first called."""
        if self.ridge is not None:
            function = self.ridge.deferred(where)
            feature = unchecked_ridge(function, self.name, self.degree, self.kinks or ())
            below_above = self.one_sided_slopes and (*self.one_sided_slopes,)
            return replace(feature, one_sided_slopes=below_above)  # type: ignore[arg-type]  # two
        pullback = None if self.pullback is None else self.pullback.deferred(where)
        assert self.matrix is not None
        return Feature(self.name, self.matrix.deferred(where), self.degree, pullback=pullback)


class StoredRisk(Table):
    """A user's risk as a run folder knows it; the fields as of hkflow.Risk."""

    name: str
    classifies: bool
    tail: Literal["exponential", "logistic", "square"] | None = None
    evaluate: StoredFunction
    scaled: StoredFunction | None = None
    coupled: bool = False

    @staticmethod
    def of(risk: Risk) -> "StoredRisk":
        """That of a risk."""
        return StoredRisk(
            name=risk.name,
            classifies=risk.classifies,
            tail=risk.tail,  # type: ignore[arg-type]  # a Risk has no other
            evaluate=StoredFunction.of(risk.evaluate),
            scaled=risk.scaled and StoredFunction.of(risk.scaled),
            coupled=risk.coupled,
        )

    def built(self, where: str) -> Risk:
        """The Risk, whose functions are imported when they are first called."""
        scaled = None if self.scaled is None else self.scaled.deferred(where)
        evaluate = self.evaluate.deferred(where)
        return Risk(self.name, evaluate, self.classifies, self.tail, scaled, self.coupled)


class OwnFunctions(Table):
    """All that is a user's own in a run.

    records : those that the case names, by their names;  density : the initial one at every point,
        which nothing but densities depends on
    """

    feature: StoredFeature | None = None
    risk: StoredRisk | None = None
    draw: StoredFunction | None = None
    density: StoredFunction | None = None
    records: dict[str, StoredFunction] = {}

    @staticmethod
    def of(
        objective: Any, draw: Callable | None = None, density: Callable | None = None
    ) -> "OwnFunctions":
        """Those of an objective, of what draws fresh data, and of an initial density, if that is a
        function that can be imported."""
        feature, risk = objective.feature, objective.risk
        return OwnFunctions(
            feature=None if feature == feature_named(feature.name) else StoredFeature.of(feature),
            risk=None if risk in ALL_RISKS.values() else StoredRisk.of(risk),
            draw=draw and StoredFunction.of(draw),
            density=StoredFunction.of(density) if _can_be_imported(density) else None,  # type: ignore[arg-type]
        )

    def functions(self) -> list[StoredFunction]:
        """Every StoredFunction that results depend on."""
        tables = (self, self.feature, self.risk)
        values = [value for table in tables if table is not None for _, value in table]
        values = [value for value in values if value is not self.density]
        return [value for value in values if isinstance(value, StoredFunction)]

    def check(self, where: str | Path) -> None:
        """Raise CaseError if a function cannot be imported or is not what it was."""
        for function in self.functions():
            function.load(where)


def _can_be_imported(function):
    """Whether a later session can find a function by its name."""
    if not inspect.isfunction(function) or function.__module__ == "__main__":
        return False
    return REFERENCE.fullmatch(f"{function.__module__}:{function.__qualname__}") is not None


def feature_of(activation: str, folder: str | Path | None) -> Feature:
    """The feature of objective.activation: a built-in one, or that of module:name.

    What is named is a function s -> (ψ(s), ψ′(s)) of arrays, for φ(θ, x) = ψ(θ·x), or a Feature.
    Raises CaseError if it cannot be imported or does not fit.
    """
    if activation in FEATURES:
        return FEATURES[activation]
    found = imported(activation, folder)
    if isinstance(found, Feature):
        feature = Feature(activation, found.matrix, found.degree, pullback=found.pullback)
        if found.ridge is not None:
            feature = unchecked_ridge(found.ridge, activation, found.degree, found.kinks)
        fits = not found.joint and found.activation is None
    else:
        feature, fits = unchecked_ridge(found, activation), callable(found)
    if not fits:
        raise CaseError(
            f"objective.activation: '{activation}' is {type(found).__name__}; wanted a function"
            " s -> (ψ(s), ψ′(s)), or a hkflow.Feature without activation."
        )
    return feature


def check_activation(feature: Feature, inputs: Floats, axes: int) -> None:
    """Raise CaseError unless the feature of objective.activation is one, see
    objectives.own.check_feature."""
    if feature_named(feature.name) is None:
        try:
            check_feature(feature, inputs[:TRIED], axes)
        except ValueError as error:
            raise CaseError(f"objective.activation: {error}") from error


def built_in_feature(table: Any, targets: Floats) -> Feature | None:
    """φ of an [objective] table and its data, with an output for each class 0 … k − 1 of the loss
    softmax; None if it is a user's.

    table : ObjectiveTable, or ProblemObjective, whose activation names the outputs
    """
    if table.loss == SOFTMAX.name and table.activation in FEATURES:
        return vector_feature(table.activation, 1 + int(targets.max()))
    return feature_named(table.activation)


def own_feature(activation: str, folder: str | Path) -> OwnFunctions:
    """What a run folder stores of objective.activation."""
    if activation in FEATURES:
        return OwnFunctions()
    found, place = imported(activation, folder), home_of(activation, folder)
    feature = feature_of(activation, folder)
    # the functions of a Feature are its attributes, and so are ψ's
    whole = isinstance(found, Feature)
    name = f"{activation}.ridge" if whole and feature.ridge is not None else activation
    return OwnFunctions(feature=StoredFeature.of(feature, name, place))
