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
