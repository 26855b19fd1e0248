"""ReLU units that are positive on the data of one class each: of few data in many inputs, nearly
the best margin.

    w_y = argmin |w|²:  w·x_i ≥ 1 for the data of class y, w·x_i ≤ 0 for all others

is Σ ± a_i x_i with multipliers a ≥ 0, of which those of class y add up to |w_y|². With masses
∝ |w_y| in the directions w_y all classes have one margin, and p_i ∝ a_i/|w_y| on the data of class
y has this value at each w_y. Of orthogonal data no measure is better.
"""

import numpy as np

from ..arguments import Floats
from ..geometry.sphere import normalize
from ..measures.point_measure import PointMeasure
from ..objectives.objective import Objective
from .certificate import others

NONE = 1e-12  # a residual that says that no w is there


def one_class_units(
    objective: Objective, signs: tuple[int, ...]
) -> tuple[PointMeasure, Floats] | None:
    """The measure of these units, of mass 1, and p, (n_data,) or (n_data, k) of k classes; None if
    they do not exist, as where the data of a class are a combination of others.

    objective : of ReLU units, its data with labels ±1, or numbers of classes
    signs : of the outputs of units (1,) that have one
    """
    feature, labels, k = objective.feature, objective.targets, objective.feature.outputs
    counts = objective.weights > 0.0
    x, p, directions, masses = objective.inputs[counts], np.zeros(len(labels)), [], []
    classes = np.unique(labels[counts])
    if not (feature.joint or np.isin(classes, signs).all()):
        return None
    for label in classes:
        solved = _nearest(x, labels[counts] == label)
        if solved is None:
            return None
        w, multipliers = solved
        masses.append(np.linalg.norm(w))
        directions.append(w / masses[-1])
        own = counts & (labels == label)
        p[own] = multipliers[own[counts]] / masses[-1]
    points, weights, p = np.array(directions), np.array(masses) / np.sum(masses), p / p.sum()
    if k > 1:
        outputs = np.eye(k)[classes.astype(int)] - 1.0 / k
        points = np.column_stack([points, normalize(outputs)]) * np.sqrt(0.5)
        p = np.where(others(objective), p[:, None] / (k - 1), 0.0)
    elif feature.joint:
        points = np.column_stack([points, classes]) * np.sqrt(0.5)
    point_signs = np.ones(len(classes)) if feature.joint else classes
    return PointMeasure(points, point_signs, weights), p


def _nearest(x, own):
    """w and its multipliers (n,), or None: least distance by non-negative least squares (Lawson &
    Hanson 1974, ch. 23)."""
    from scipy.optimize import nnls  # slow to load

    size = np.linalg.norm(x, axis=1).max()
    if size == 0.0:
        return None
    rows = np.vstack([np.where(own, 1.0, -1.0) * x.T / size, own])
    try:
        u, _ = nnls(rows, np.eye(1, len(rows), len(rows) - 1)[0])
    except RuntimeError:  # too many steps
        return None
    residual = rows @ u
    share = 1.0 - residual[-1]
    if share <= NONE:
        return None
    return residual[:-1] / (share * size), u / (share * size**2)
