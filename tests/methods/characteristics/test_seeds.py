"""Seeds where they matter: the cubature, the valley of which it knows moments to 1e-6, and runs
seeded again."""

from dataclasses import replace

import numpy as np
import pytest
from test_frozen import SLOPES, VALLEY, valley

import hkflow
from hkflow.geometry.sphere import surface_area
from hkflow.methods.characteristics import seeds
from hkflow.methods.characteristics.history import History
from hkflow.methods.frozen_relu.kinks import Kinks


def monomials(x, degree):
    """Products of coordinates up to a degree, (n, n_monomials)."""
    columns = [np.ones(len(x))]
    for _ in range(degree):
        columns = columns + [column * x[:, a] for column in columns for a in range(x.shape[1])]
    return np.column_stack(columns)


@pytest.mark.parametrize("dim, degree", [(1, 5), (2, 4), (3, 2), (6, 2)])
def test_rules_are_exact_for_polynomials_and_have_positive_weights(dim, degree):
    """Moments of the simplex are the same after it is cut in two; not of one degree more."""
    places, weights = seeds.rule(dim)
    assert (weights > 0.0).all() and weights.sum() == pytest.approx(1.0, rel=1e-14)
    assert (places > 0.0).all() and np.allclose(places.sum(axis=1), 1.0, rtol=1e-14)

    def errors(of):
        whole = weights @ monomials(places[:, 1:], of)
        corners, parts = np.eye(dim + 1), 0.0
        for drop in (0, 1):
            half = corners.copy()
            half[drop] = 0.5 * (corners[0] + corners[1])
            parts = parts + 0.5 * weights @ monomials((places @ half)[:, 1:], of)
        return np.abs(whole - parts).max()

    assert errors(degree) < 1e-14 < 1e-6 < errors(degree + 1)


@pytest.mark.parametrize("dim, order", [(1, 6.0), (2, 4.0), (3, 2.0)])
def test_areas_add_up_to_the_sphere_at_the_order_of_the_rule(dim, order):
    corners, found = seeds.orthants(dim), []
    for _ in range(3):
        found.append(abs(seeds.nodes(corners)[1].sum() / surface_area(dim) - 1.0))
        for _ in range(dim):  # all edges halved about once
            corners = seeds.halves(corners).reshape(-1, dim + 1, dim + 1)
    assert np.linalg.norm(corners, axis=2) == pytest.approx(1.0, rel=1e-14)
    assert np.log2(found[1] / found[2]) > order - 0.5


@pytest.mark.parametrize("slope, time", [(0.3, 4.0), (0.1, 8.0)])
def test_moments_of_the_valley_to_a_millionth_from_ten_thousand_seeds(slope, time):
    """Against 480,000 points of Gauss's, on one side of the valley."""
    kinks, flow = Kinks.of(hkflow.FEATURES["relu"], VALLEY), hkflow.Flow(1.0)
    row = np.concatenate([[time, 0.0], SLOPES * [1.0, 1.0, slope / 0.3, slope / 0.3]])

    def moments(points, signs):
        ends, _ = seeds.carried(kinks, History(row[None]), flow, 0.0, points, signs)
        return np.column_stack([ends[:, 1], np.abs(ends[:, 0])])

    def uniform(points, sign):
        return np.full(len(points), 0.25 / np.pi)

    def found(most):
        cubature = seeds.Cubature(moments, uniform, 2, (1,))
        cubature.refine(most)
        assert cubature.n_nodes <= most
        assert cubature.measure()[2].sum() == pytest.approx(1.0, rel=1e-5)
        return cubature.parts.sum(axis=0), cubature.error()

    x, w = np.polynomial.legendre.leggauss(600)
    polar, angle = 0.25 * np.pi * (1.0 + x), (np.arange(800) + 0.5) * np.pi / 400.0
    P, A = (x.ravel() for x in np.meshgrid(polar, angle))
    fine = np.column_stack([np.cos(P), np.sin(P) * np.cos(A), np.sin(P) * np.sin(A)])
    areas = np.tile(0.25 * np.pi * w * np.sin(polar), 800) / 800.0
    wanted = areas @ moments(fine, np.ones(len(fine)))  # of half the sphere; the other is alike
    assert (
        np.abs(moments(fine[:50], np.ones(50))[:, 0] - valley(fine[:50], time, slope)[:, 1]).max()
        < 1e-12
    )
    got, error = found(10_000)
    assert np.abs(got - wanted).max() < 1e-6 and error < 1e-6
    few, error = found(2562)
    assert np.abs(few - wanted).max() < 1e-5 and np.abs(few - wanted).max() < error
    mesh = hkflow.geodesic_mesh(4)
    even = mesh.volumes @ moments(mesh.centers, np.ones(2562)) / mesh.volumes.sum()
    assert np.abs(even - wanted).max() > 1e-4


def test_a_run_seeded_again_from_few_atoms_knows_the_closed_form():
    """Linear features, mass that concentrates: 162 cells tell where from. Even seeds of as many
    points are a hundred times worse."""
    exact = hkflow.MomentFlow([1.0, 2.0, -1.0], 0.9, hkflow.Flow(1.0, 4.0))
    start = hkflow.Problem(
        hkflow.geodesic_mesh(2), exact.objective(), exact.flow, (1,), None, exact
    )
    pilot = hkflow.solve(start, 2.0, 3, kind="characteristics")
    problem, error = hkflow.reseeded(pilot, 3000)
    assert len(problem.initial) <= 3000 and problem.atoms().mass == pytest.approx(1.0, rel=1e-14)
    mass, moment = exact.mass_and_moment(2.0)

    def errors(problem):
        s = hkflow.solve(problem, 2.0, tolerance=1e-8, kind="characteristics")
        last = s.atoms_at(-1)
        return max(abs(last.mass - mass), np.abs(last.moment() - moment * exact.direction).max()), s

    even = hkflow.PointMeasure(hkflow.quasi_uniform(3000, 2))
    (ours, again), (others, _) = errors(problem), errors(replace(problem, initial=even))
    assert 50.0 * ours < others and ours < 1e-7 and error < 1e-5
    points = hkflow.quasi_uniform(200, 2)
    wanted = exact.density(points, 2.0)
    assert np.abs(again.density_at(points)[0] - wanted).max() < 1e-6 * wanted.max(), ours


def test_seeds_for_signs_and_folders_and_what_has_none(tmp_path):
    rng = np.random.default_rng(0)
    x, y = np.column_stack([rng.normal(size=(4, 1)), np.ones(4)]), rng.normal(size=4)
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], x, y)
    start = hkflow.Problem(hkflow.circle_mesh(40), objective, hkflow.Flow(1.0, 2.0), (1, -1))
    run = hkflow.run(start, tmp_path / "run", end=1.0, kind="characteristics")
    (mine, error), (theirs, other) = (
        hkflow.reseeded(one, 1200)
        for one in (run.path, hkflow.solve(start, 1.0, kind="characteristics"))
    )
    assert np.array_equal(mine.initial.positions, theirs.initial.positions) and error == other
    assert set(mine.initial.signs) == {1.0, -1.0}
    exact = hkflow.solve(
        replace(start, mesh=hkflow.circle_mesh(20_000), initial=None),
        1.0,
        kind="characteristics",
        tolerance=1e-7,
    )
    errors = [
        np.abs(
            hkflow.solve(p, 1.0, kind="characteristics", tolerance=1e-7).predictions[-1]
            - exact.predictions[-1]
        ).max()
        for p in (mine, replace(start, mesh=hkflow.circle_mesh(600), initial=None))
    ]
    assert errors[0] < 0.3 * errors[1]
    with pytest.raises(ValueError, match="On S\\^1 seeds for 2 sign\\(s\\) are at least 48 atoms"):
        hkflow.reseeded(run, 40)
    with pytest.raises(ValueError, match="seeds are found for runs by characteristics"):
        hkflow.reseeded(hkflow.solve(start, 0.1))
