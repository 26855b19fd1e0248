"""The max-margins of a case's data, or of a run's: values with their proofs, decision functions,
and files of both."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..case.datasets import input_names, lines_of_data
from ..certificates.column_generation import hidden_gap
from ..certificates.contradiction import contradiction
from ..certificates.kernel_machine import KernelClassifier, f2_max_margin, kernel_of
from ..certificates.margin import MaxMargin, Watch
from ..certificates.search import is_searchable
from ..certificates.tangent_kernel import tangent_max_margin
from ..errors import CaseError, HkflowError
from ..files.writing import check_replaced, for_user, write_json
from ..measures.point_measure import Units
from ..problem.problem import Problem
from ..running.check import build_case, read_case
from ..solving.final_margin import heaviest_atoms, max_margin_of
from ..solving.result import ResultLike
from ..store.run import loaded
from .summary import margin_name

SHOWN = 20  # atoms that a report lists
MOST_DATA = 5000  # of kernel machines, which take a minute then, and data³ operations


@dataclass(frozen=True, eq=False)
class MarginReport:
    """The max-margins of one data set.

    name : of the case or run;  problem : its objective and signs
    f1 : of measures on the sphere;  f2, tangent : KernelClassifiers, or a sentence why there is
        none
    enclosed : (lower, upper) that the run's records prove, None without a run
    contradiction : which data prove by themselves that no margin is positive, "" if none do
    input_names : for axes
    """

    name: str
    problem: Problem
    f1: MaxMargin
    f2: KernelClassifier | str
    tangent: KernelClassifier | str
    enclosed: tuple | None
    contradiction: str
    input_names: tuple

    @property
    def separable(self) -> bool:
        """Whether the F₁ max-margin is positive beyond doubt."""
        return self.f1.is_positive

    @property
    def gamma(self) -> tuple[float, float] | None:
        """γ_ℓ1 of the signed sphere, (lower, upper): twice the max-margin of joint units, b(a·x)₊
        with |a|² + |b|² = 1; None for several outputs."""
        if self.problem.objective.feature.outputs > 1:
            return None
        times = 2.0 if self.problem.objective.feature.joint else 1.0
        return times * self.f1.lower, times * self.f1.upper

    @property
    def of_network(self) -> tuple[float, ...] | None:
        """γ_ℓ1/2, which a network b(a·x) or b(a·x)₊ has per squared norm of all weights; None for
        other units, and for atoms."""
        feature, problem = self.problem.objective.feature, self.problem
        if self.gamma is not None and (
            feature.joint
            or feature.degree == 1
            and len(problem.output_signs) == 2
            and not problem.domain.fixed
        ):
            return tuple(0.5 * end for end in self.gamma)
        return None

    def classifiers(self) -> dict[str, Callable]:
        """Decision functions of inputs (n, p), bias included, by name, each divided by its margin:
        their values (n,), or (n · k,) of k outputs datum by datum."""
        feature, atoms = self.problem.objective.feature, self.f1.atoms
        found: dict[str, Callable] = {}
        if self.separable:
            found["F₁"] = lambda x: (
                feature.matrix(atoms.positions, x) @ (atoms.signs * atoms.weights) / self.f1.lower
            )
        for name, one in (("F₂", self.f2), ("tangent kernel", self.tangent)):
            if not isinstance(one, str) and one.machine.value > 0.0:
                found[name] = lambda x, one=one: one(x) / one.machine.value
        return found

    def __str__(self):
        """A table of values, and the measure that has the largest margin."""
        f1, atoms, n = self.f1, self.f1.atoms, len(self.f1.dual)
        proof = "certified" if f1.certified else "upper value not certified: highest of many climbs"
        gap = f"{f1.relative_gap:.2g} after {f1.rounds} linear programmes"
        if not f1.is_positive and f1.lower <= f1.resolution:  # a wide interval above 0 is another
            gap = "the data are not separable: " + (
                f1.why_none if f1.is_none else f"no margin is positive, up to {f1.upper:.1e}"
            )
        if not f1.reached:
            axes, feature = self.problem.objective.axes, self.problem.objective.feature
            hidden = is_searchable(feature, axes) and f1.upper - f1.lower <= hidden_gap(f1)
            why = "rounding hides" if hidden else "the search's end leaves"
            gap += f", wider than the tolerance {f1.tolerance:g}: {why} the rest"
        lines = [
            f"{margin_name(self.problem)} in [{f1.lower:.8g}, {f1.upper:.8g}] ({proof})",
            f"relative gap:     {gap}",
        ]
        if f1.climbs:
            lines.append(f"not proved:       {f1.climbs}")
        if self.contradiction:
            name = margin_name(self.problem)
            lines = [f"{name}: 0 (certified), no margin is positive: {self.contradiction}"]
        elif self.problem.objective.feature.joint:
            gamma = "" if self.gamma is None else f"; γ_ℓ1 in {_interval(self.gamma)}"
            lines.append(f"of a network:     the same, per squared norm of all weights{gamma}")
        elif self.of_network is not None:
            lines.append(
                f"of a network:     half of it, {_interval(self.of_network)}, per squared norm of"
                " all weights"
            )
        lines.append(
            f"slackness:        {f1.slackness[0]:.2g} of the measure, {f1.slackness[1]:.2g} of the"
            " data"
        )
        if self.enclosed is not None:
            low, high = self.enclosed
            share = f", {100.0 * (high - low) / f1.lower:.3g} % wide" if self.separable else ""
            proved = (
                f"{_interval(self.enclosed)}{share}"
                if np.isfinite(high)
                else f"at least {low:.8g}, no upper value"
            )
            lines.append(f"the run proved:   {proved}")
        for name, one in (("F₂ max-margin:", self.f2), ("tangent kernel:", self.tangent)):
            text = (
                one
                if isinstance(one, str)
                else f"{one.machine.value:.8g}, gap {one.machine.upper - one.machine.lower:.1e}"
            )
            lines.append(f"{name:18}{text}")
        lines.append(
            f"support:          {len(f1.support)} of {n} data carry p, {len(atoms)} directions"
            " carry mass"
        )
        order = np.argsort(-atoms.weights)
        lines += [
            f"  {atoms.weights[k]:10.6f}  ε = {atoms.signs[k]:+.0f}  θ ="
            f" ({', '.join(f'{v: .6f}' for v in atoms.positions[k])})"
            for k in order[:SHOWN]
        ]
        lines += [f"  and {len(atoms) - SHOWN} more"] if len(atoms) > SHOWN else []
        return "\n".join(lines)

    def write(self, folder: str | Path) -> Path:
        """Write margin.json into a folder and return its path: values, measure, dual weights; null
        for what is not known.

        f1 : of the units of this problem;  gamma_l1, half_gamma_l1 : see gamma, of_network
        dual : (n_data,), or (n_data, k) of k classes
        Raises RunFolderError if the folder cannot be written.
        """
        folder, f1 = Path(folder), self.f1
        machines = {
            name: one
            for name, one in (("f2", self.f2), ("tangent", self.tangent))
            if not isinstance(one, str)
        }
        content = {
            "f1": [f1.lower, f1.upper],
            "gamma_l1": self.gamma,
            "half_gamma_l1": self.of_network,
            "climbed": f1.climbed,
            "certified": f1.certified,
            "tolerance": f1.tolerance,
            "reached": f1.reached,
            "slackness": f1.slackness.tolist(),
            "dual": f1.dual.tolist(),
            "positions": f1.atoms.positions.tolist(),
            "signs": f1.atoms.signs.tolist(),
            "weights": f1.atoms.weights.tolist(),
            "enclosed": (
                self.enclosed and [end if np.isfinite(end) else None for end in self.enclosed]
            ),
        } | {name: [one.machine.lower, one.machine.upper] for name, one in machines.items()}
        with for_user(folder / "margin.json", "values"):
            folder.mkdir(parents=True, exist_ok=True)
            check_replaced(folder / "margin.json", ('{\n  "f1"',), "margin report")
            write_json(folder / "margin.json", content)
        return folder / "margin.json"


def _interval(ends):
    return f"[{ends[0]:.8g}, {ends[1]:.8g}]"


def margin_report(
    case: str | Path | dict | None = None,
    run: ResultLike | None = None,
    tolerance: float = 1e-6,
    watch: Watch | None = None,
    **overrides: Any,
) -> MarginReport:
    """The max-margins of the data of a case file, or of a run, from whose heaviest atoms the search
    then starts.

    case : path of a TOML file, or its tables, overrides : of its keys;  run : Run, Solution, run
        folder or results.h5;  tolerance : relative gap of F₁, and `f1.reached` whether it was
    watch : function (linear programmes, lower, upper value of F₁ so far) -> whether to end its
        search, called after each
    Raises HkflowError with the file's name if there are no labels.
    """
    if not 0.0 <= tolerance < np.inf:
        raise CaseError(
            f"The tolerance is a relative gap, finite and at least 0, got {tolerance:g}."
        )
    if (case is None) == (run is None):
        raise CaseError(
            "A margin needs either a case or a run: hkflow margin CASE, or hkflow margin --from RUN"
            " (in Python case, or run=…)."
        )
    if run is not None and overrides:
        raise CaseError("Overrides belong to a case; a run's data are what they were.")
    if run is None:
        file = read_case(case, overrides)  # type: ignore[arg-type]
        resolved, problem = build_case(file)
        found, start, enclosed = contradiction(problem.objective), None, None
        why = found.sentence(lines_of_data(resolved, file.folder)) if found else ""
        name, source = file.name, file.source
        count = problem.objective.inputs.shape[1] - resolved.objective.bias
        names = input_names(resolved, count, problem.prepare)
    else:
        one = loaded(run)
        name, source, names = one.stem, one.name, one.input_names
        problem, why = one.problem, one.contradiction
        start = heaviest_atoms(one)
        enclosed = (
            tuple(
                float(one.records[key][-1])
                for key in ("margin_lower", "margin_upper")
                if key in one.records
            )
            or None
        )
    data = getattr(problem.objective, "data", None)  # of a sum of energies, whose margin is theirs
    problem = replace(problem, objective=data) if data else problem
    try:
        f1 = max_margin_of(problem, start, tolerance, watch=watch)
        return MarginReport(
            name,
            problem,
            f1,
            _f2(problem.objective),
            _tangent(problem),
            enclosed,
            why,
            tuple(names),
        )
    except (HkflowError, ValueError) as error:
        raise HkflowError(f"{source}: {error}") from error


def _f2(objective):
    if objective.feature.outputs > 1:
        return _one_output(objective.feature)
    if kernel_of(objective.feature) is None:
        return f"no closed-form kernel for '{objective.feature.name}'"
    if (count := len(objective.targets)) > MOST_DATA:
        return _too_many(count)
    try:
        return f2_max_margin(objective)
    except HkflowError as error:
        return f"not found: {error}"


def _one_output(feature):
    return f"left out: kernel machines are for one output, these units have {feature.outputs}"


def _too_many(count):
    return (
        f"left out: {count} data, and the matrix of their kernel takes data³ operations; at most"
        f" {MOST_DATA} are taken (in Python hkflow.certificates takes any number)"
    )


def _tangent(problem):
    if not isinstance(problem.initial, Units):
        return (
            "belongs to random units: of a case with"
            " method.kind = 'network' and method.points = 'gaussian'"
        )
    if problem.objective.feature.outputs > 1:
        return _one_output(problem.objective.feature)
    if kernel_of(problem.objective.feature) is None:
        return f"none is known for '{problem.objective.feature.name}'"
    if (count := len(problem.objective.targets)) > MOST_DATA:
        return _too_many(count)
    layers = ("output", "hidden") if problem.objective.feature.degree == 1 else ("hidden",)
    try:
        return tangent_max_margin(problem.objective, problem.initial, layers)
    except HkflowError as error:
        return f"not found: {error}"
