"""The max-margin of a run's data, from what the run itself found."""

import numpy as np

from ..certificates.certificate import certifies_margin
from ..certificates.contradiction import contradiction
from ..certificates.global_upper_bound import WORK_OF_RUN, global_upper_bound, nodes_within
from ..certificates.margin import MaxMargin, Watch
from ..certificates.search import local_maxima
from ..errors import HkflowError
from ..measures.point_measure import PointMeasure
from ..problem.problem import Problem
from .result import Result

HEAVIEST = 300  # atoms of a run that a programme starts from
CERTIFICATE_SECONDS = 5.0  # that it may take in memory; of runs in files the case says it
MOST_ROWS = 2000  # of linear programmes that are begun at the end of a run


def seeks_max_margin(problem: Problem) -> bool:
    """Whether the max-margin of a problem's data is looked for at the end of a run."""
    objective = problem.objective
    rows = len(objective.targets) * max(objective.feature.outputs - 1, 1)
    return certifies_margin(problem) and rows <= MOST_ROWS and contradiction(objective) is None


def final_max_margin(run: Result, seconds: float) -> MaxMargin | None:
    """The max-margin of the data of a run, in the units of its record `margin`; None where runs
    enclose none, where the data contradict each other, and where it is not found in time.

    seconds : after which what is known is returned
    The first linear programme is one over the run's heaviest atoms, and evenly spread directions
    if data are few; the directions that its multipliers p find highest are added, and so on.
    """
    problem = run.problem
    objective = problem.objective
    if not (len(run.time) and seeks_max_margin(problem)):
        return None
    if not problem.domain.fixed:  # compiled at the first call, which takes no share of the seconds
        feature = objective.feature
        local_maxima(feature, objective.inputs[:1], np.ones(feature.outputs), share=0.5)
        global_upper_bound(feature, objective.inputs[:1], np.ones(feature.outputs))
    nodes = nodes_within(WORK_OF_RUN, objective.inputs)
    try:
        return max_margin_of(problem, heaviest_atoms(run), seconds=seconds, nodes=nodes)
    except HkflowError:  # out of time, or beyond what the solver can tell
        return None


def max_margin_of(
    problem: Problem,
    start: PointMeasure | None,
    tolerance: float = 1e-6,
    seconds: float = np.inf,
    nodes: int | None = None,
    watch: Watch | None = None,
) -> MaxMargin:
    """The max-margin over the domain of a problem: see enclosed_max_margin; on fixed features one
    linear programme, which needs no start."""
    # which most runs do without; where files are slow it takes seconds to load, which are none of
    # those of the search
    import scipy.optimize  # noqa: F401

    from ..certificates.column_generation import enclosed_max_margin, max_margin_of_atoms

    objective, signs = problem.objective, problem.output_signs
    if problem.domain.fixed:
        points = problem.mesh.centers  # type: ignore[union-attr]  # fixed features have a mesh
        return max_margin_of_atoms(objective, points, signs, tolerance, seconds)
    return enclosed_max_margin(objective, signs, tolerance, start, seconds, nodes, watch)


def heaviest_atoms(run: Result) -> PointMeasure | None:
    """Where most of the mass of a run's last save lies, as a PointMeasure of equal weights; None if
    there is no mass."""
    atoms = run.atoms_at(-1, normalised=True)
    heaviest = np.argsort(-atoms.weights, kind="stable")[:HEAVIEST]
    if not len(heaviest):
        return None
    return PointMeasure(atoms.positions[heaviest], atoms.signs[heaviest])
