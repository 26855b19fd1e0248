"""Whether two runs are runs of the same problem, or what differs, in words."""

import numpy as np

from ..errors import CaseError
from ..problem.flow import RATES, VaryingRate
from ..solving.restart import DATA, SAME_DATA
from ..solving.result import Result


def check_same_problem(a: Result, b: Result) -> None:
    """Raise CaseError with all that differs between two runs' objectives, domains, flows and
    data."""
    first, second = _statement(a), _statement(b)
    if not (in_the_family(a) and in_the_family(b)):
        first = {name: words for name, words in first.items() if not name.startswith("flow.")}
    faults = [
        f"{name} is {first[name]} in the first and {second[name]} in the second"
        for name in first
        if first[name] != second[name]
    ]
    faults = faults or [fault for name in DATA for fault in _different_row(name, a, b)]
    if faults:
        raise CaseError(
            f"{a.name} and {b.name} are not runs of the same problem: {'; '.join(faults)}."
        )


def _statement(run):
    """What two runs must share besides the numbers of the data, in words, by name."""
    objective, flow = run.problem.objective, run.flow
    terms = [getattr(objective, name, ()) for name in ("external", "interactions")]
    statement = {
        "the data": _data_in_words(run),
        "activation": f"'{objective.feature.name}'",
        "bias": str(run.bias).lower(),
        "loss": f"'{objective.risk.name}'",
        "weight_decay": f"{objective.weight_decay:.12g}",
        "entropy": f"{objective.entropy:.12g}",
        "the domain": f"'{run.domain.kind}'",
        "energy": ", ".join(repr(term) for some in terms for term in some) or "none",
        "flow.depth": f"{flow.depth:.12g}",
        "flow.time_variable": f"'{flow.time_variable}'",
        # the normalised flow of ν is the flow of ν itself, seen through ν/|ν|
        "flow.drive": f"'{flow.drive or 'measure'}'",
    }
    return statement | {f"flow.{name}": _rate_in_words(getattr(flow, name)) for name in RATES}


def _rate_in_words(rate):
    if not isinstance(rate, VaryingRate):
        return f"{rate:.12g}"
    named = getattr(rate.rule, "__qualname__", None)  # of a function
    return named or repr(rate.rule)


def _data_in_words(run):
    """Number and dimension of the data, or of the teacher's units if there is a population
    instead."""
    teacher = getattr(run.problem.objective, "teacher", None)
    if teacher is None:
        return f"{len(run.inputs)} x {run.inputs.shape[1]}"
    return f"a population of {run.inputs.shape[1]} inputs with a teacher of {len(teacher)} units"


def in_the_family(run: Result) -> bool:
    """Whether a run follows a flow of the family: a network does that is balanced and trains more
    than its output weights."""
    if run.method != "network":
        return True
    balanced = run.problem.objective.feature.degree == 2 or _is_balanced(run)
    return run.options.get("layers") != "output" and balanced


def _is_balanced(run):
    """Whether a network starts from |a_j| = |b_j|: as its case says, or by its units."""
    drawn = run.options.get("points") == "gaussian"
    return run.start.get("balanced", run.options.get("balance", 1.0) == 1.0 and not drawn)


def _different_row(name, a, b):
    """A sentence on the first row in which arrays differ, if there is one."""
    x, y = (getattr(run, name, getattr(run.problem.objective, name, np.zeros(0))) for run in (a, b))
    differ = np.abs(x - y) > SAME_DATA * np.abs(x).max(initial=0.0)
    if differ.any():
        row = int(np.argmax(differ.reshape(len(x), -1).any(axis=1)))
        called = "unit" if name.startswith("teacher") else "datum"
        yield (
            f"{name} of {called} {row} are {_numbers(x[row])} in the first and"
            f" {_numbers(y[row])} in the second"
        )


def _numbers(values):
    return ", ".join(f"{value:.6g}" for value in np.atleast_1d(values)[:4]) + (
        ", …" if np.size(values) > 4 else ""
    )
