"""The numbers of a run that have error bars."""

import numpy as np

from ..arguments import Floats, Integers
from ..measures.point_measure import DensityAndAtoms
from ..methods.choice import method_class
from ..methods.step import SMALLEST
from ..objectives.data import with_bias
from ..objectives.protocol import feature_of_data
from ..solving.predicting import predictions_at, predictions_of, unscaled
from ..solving.registry import are_per_mass
from ..solving.result import Result

LARGE = 200.0  # log mass beyond which numbers are those of ν/|ν|


def is_large(run: Result) -> bool:
    """Whether the mass is beyond what numbers in plain units can say."""
    return are_per_mass(run.records) or bool((run.records["log_mass"] > LARGE).any())


def quantities(
    run: Result, normalised: bool, given: Integers | None = None, test: Floats | None = None
) -> dict[str, Floats]:
    """Predictions, objective, log mass, margin of classifiers and first moment at the saves,
    (n_saves, k) each; without data the second moment ∫θθᵀ dν as well, which sees what is even in θ.

    normalised : predictions, objective and moments in units of the mass; predictions in plain units
        besides, infinite where they are beyond numbers
    given : saves, if not all;  test : (n_test, p) further inputs, bias included, to predict
    """
    saves = list(range(len(run.time))) if given is None else given.tolist()
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        even = not len(run.targets)
        every = [_integrals(run, k, even) for k in saves]
        log_mass, moment, second = (np.array(one) for one in zip(*every, strict=True))
        log_scale = run.log_scale[saves]
        mass = np.exp(np.minimum(log_mass - log_scale, LARGE))[:, None]
        unit = 1.0 / mass if normalised else np.exp(log_scale)[:, None]
        h = run.scaled_predictions[saves].reshape(len(saves), -1)
        found = {"predictions": h * unit} if len(run.targets) else {}
        if test is not None:
            found["test_predictions"] = unit * np.array([_at(run, k, test) for k in saves])
        found["objective"] = np.array([[run.objective_at(k, normalised)] for k in saves])
        found["log_mass"] = log_mass[:, None]
        objective = run.problem.objective
        if objective.risk.has_margins:
            margins = np.array([[objective.margin(row)] for row in h])
            found["margin"] = margins / mass
        if normalised and len(run.targets):
            found["plain_predictions"] = h * np.exp(log_scale)[:, None]
        moments = {"moment": moment} | ({"second_moment": second} if even else {})
        found |= {
            name: one if normalised else np.exp(log_mass)[:, None] * one
            for name, one in moments.items()
        }
    return found


def _at(run, save, inputs):
    """h at inputs (n, p) at one save in units of e^log_scale, (n k,)."""
    measure = method_class(run.method).measure
    scale = run.log_scale[save]
    return predictions_at(inputs, run.problem, measure, run.state_at(save), scale).ravel()


def _integrals(run, save, even):
    """log |ν|, ∫ ε θ dν/|ν| and, if `even`, ∫θθᵀ dν/|ν| (k,) at one save; of cells without making
    atoms of them."""
    state, scale = unscaled(run.state_at(save))
    measure = method_class(run.method).measure(state)
    parts = [measure]
    if isinstance(measure, DensityAndAtoms):
        parts = [measure.density, measure.atoms]
    mass, moment, second = 0.0, 0.0, 0.0
    for part in parts:
        if isinstance(part, np.ndarray):
            cells, signs = part * run.problem.mesh.volumes, np.array(run.problem.signs, dtype=float)
            points, masses = run.problem.mesh.centers, np.abs(cells).sum(axis=0)
            mass, moment = mass + masses.sum(), moment + signs @ cells @ points
        else:
            atoms = run.problem.atoms_of(part)
            points, masses = atoms.positions, atoms.weights
            mass, moment = mass + atoms.mass, moment + atoms.moment()
        if even:
            second = second + ((masses[:, None] * points).T @ points).ravel()
    size = max(mass, SMALLEST)
    return scale + np.log(mass), moment / size, second / size


def bars_at(run: Result, inputs: Floats) -> Floats:
    """Error bars of h at inputs (n, dim), without bias, for the last save of a run that has bars of
    its predictions, (n,):

        max(size · (the bars on the data and on the test data), stretch · |h(x) − h_nearby(x)|)

    |·| is the root mean square over outputs, nearby the companion of `ErrorBars`; h is in units of
    the mass where the bars are. size is |x|^degree over that of the data, 1 at least, of features
    that are homogeneous in x, bias included: so grow h and its error, while its distance from
    nearby passes 0 somewhere. Data that are fitted have smaller errors than other inputs, by orders
    of magnitude where inputs are as many as data.
    """
    bars, feature = run.errors, feature_of_data(run.problem.objective)
    there = filter(bars.bars.__contains__, ("predictions", "test_predictions"))
    full = with_bias(inputs) if run.bias else inputs
    least = max(bars[name][-1] for name in there) * _sizes(run, full)
    if bars.nearby is None:
        return least
    measures = run.atoms_at(-1, bars.normalised), bars.nearby
    own, other = (predictions_of(feature, atoms, full) for atoms in measures)
    apart = (own - other).reshape(len(inputs), feature.outputs)
    far = np.hypot.reduce(apart, axis=1, initial=0.0) / np.sqrt(apart.shape[1])  # no square is inf
    return np.maximum(bars.stretch * far, least)


def _sizes(run, inputs):
    """How much larger h may be at inputs (n, p), bias included, than on the data, (n,)."""
    objective = run.problem.objective
    feature, data = feature_of_data(objective), objective.inputs
    degree = 1 if feature.joint else feature.degree
    if degree is None or not data.any():
        return np.ones(len(inputs))
    with np.errstate(over="ignore"):
        middle = np.hypot.reduce(data, axis=None) / np.sqrt(len(data))
        return np.maximum(1.0, np.hypot.reduce(inputs, axis=1) / middle) ** degree
