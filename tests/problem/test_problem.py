"""What a problem takes as its start."""

import numpy as np
import pytest

import hkflow

OBJECTIVE = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.eye(2), [1.0, 1.0])


def started(function):
    return hkflow.Problem(hkflow.circle_mesh(16), OBJECTIVE, hkflow.Flow(), initial=function)


def test_a_function_may_change_the_points_that_it_is_given():
    """The centres of the mesh were others then, and no step was possible."""

    def hill(points, sign):
        points[:, 0] += 1.0
        return np.exp(points[:, 0])

    problem, mesh = started(hill), hkflow.circle_mesh(16)
    assert np.array_equal(problem.mesh.centers, mesh.centers)
    assert problem.initial[0] == pytest.approx(np.exp(mesh.centers[:, 0] + 1.0), rel=1e-15)
    points = mesh.centers.copy()
    problem.initial_density(points, 1)
    assert np.array_equal(points, mesh.centers)


def test_the_density_of_another_mesh_is_told():
    with pytest.raises(ValueError, match=r"the shape \(1, 16\).*got \(1, 32\).*fits every mesh"):
        started(np.ones((1, 32)))


@pytest.mark.parametrize(
    "values, why",
    [
        (lambda x: x, r"nonnegative and not zero everywhere, got -0.9\d* to 0.9"),
        (lambda x: 1.0 + 0j * x, "Initial densities must be real numbers, got complex"),
        (lambda x: "1", "Initial densities must be real numbers, got text"),
        (lambda x: None, "Initial densities must be real numbers, got objects"),
    ],
)
def test_what_is_no_density_is_told(values, why):
    with pytest.raises(ValueError, match=why):
        started(lambda points, sign: values(points[:, 0]))


def test_points_on_a_mesh_are_told():
    points = hkflow.PointMeasure(hkflow.quasi_uniform(20, 1))
    with pytest.raises(ValueError, match=r"a density, got a PointMeasure\. .*DensityAndAtoms\("):
        started(points)


@pytest.mark.parametrize(
    "density, why",
    [
        (lambda points, sign: points[:, 0], "must be nonnegative numbers, got -"),
        (lambda points, sign: np.nan * points[:, 0], "must be nonnegative numbers, got nan"),
        (lambda points, sign: np.ones((len(points), 1)), r"shape \(20,\), got \(20, 1\)"),
        (lambda points, sign: None, "must be real numbers, got objects"),
        (lambda points, sign: np.ones(len(points)) + 0j, "got complex numbers"),
    ],
)
def test_what_is_no_density_of_atoms_is_told(density, why, tmp_path):
    """Runs went to their end, and their densities were nan, complex, of another shape or those of
    negative ones."""
    start = hkflow.PointMeasure(hkflow.quasi_uniform(20, 1))
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.eye(2), [1.0, -1.0]
    )
    problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), initial=start, density=density)
    with pytest.raises(ValueError, match=why):
        hkflow.solve(problem, 0.1, kind="characteristics")
    with pytest.raises(hkflow.CaseError, match=why):
        hkflow.run(problem, tmp_path / "run", end=0.1, kind="characteristics")


@pytest.mark.parametrize("kind", ["particles", "characteristics"])
def test_a_state_of_atoms_has_no_density(kind):
    """Functions that ask for it ended in an AttributeError that named a class."""
    start = hkflow.PointMeasure(hkflow.quasi_uniform(20, 1))
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.eye(2), [1.0, -1.0]
    )
    problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), initial=start)
    with pytest.raises(hkflow.CaseError, match="density is not known: take state.atoms()"):
        hkflow.solve(problem, 0.1, kind=kind, records={"own": lambda s: s.density.max()})


@pytest.mark.parametrize("density", [lambda *_: 2, lambda points, sign: np.full(len(points), 2.0)])
def test_an_initial_density_may_be_changed(density):
    """It could be read only."""
    start = hkflow.PointMeasure(hkflow.quasi_uniform(20, 1))
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], np.eye(2), [1.0, -1.0]
    )
    problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), initial=start, density=density)
    found = problem.initial_density(start.positions, 1)
    found *= 2.0
    assert found.tolist() == [4.0] * 20
