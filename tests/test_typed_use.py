"""What is public, as users with a type checker write it: mypy reads this file (pyproject.toml), and
it runs."""

import numpy as np
from numpy.typing import NDArray

import hkflow

Floats = NDArray[np.float64]


def clipped(s: Floats) -> tuple[Floats, Floats]:
    return np.clip(s, -1.0, 1.0), (abs(s) < 1.0).astype(float)


def test_lists_and_whole_numbers_are_data() -> None:
    lists = hkflow.Objective(
        hkflow.ridge(clipped, kinks=np.array([-1.0, 1.0])),
        hkflow.RISKS["square"],
        [[1.0, 0.5], [-1.0, 0.5]],
        [1, -1],
        weights=[0.5, 0.5],
    )
    whole = hkflow.Objective(lists.feature, lists.risk, lists.inputs, np.array([1, -1]))
    assert lists.targets.dtype == whole.targets.dtype == float
    start = hkflow.PointMeasure([[1.0, 0.0], [0.0, 1.0]], [1, -1])
    flow = hkflow.Flow(transport=1.0)
    solution = hkflow.solve(hkflow.Problem(None, lists, flow, signs=(1, -1), initial=start), 0.1)
    assert solution.predict([[1.0, 0.5]]).shape == (1,)


def test_energies_stand_in_for_an_objective() -> None:
    mesh, flow = hkflow.circle_mesh(32), hkflow.Flow(transport=1.0)
    energies = hkflow.Sum(hkflow.External("-x"), hkflow.Interaction("linear"), axes=2)
    population = hkflow.PopulationRisk(hkflow.FEATURES["relu"], np.eye(2), np.ones(2))
    for objective in (energies, population):
        assert hkflow.solve(hkflow.Problem(mesh, objective, flow), end=0.01).finished
