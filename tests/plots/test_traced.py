"""Pictures of runs by characteristics: the density at every pixel, and what kinks hold."""

import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import hkflow
from hkflow.plots import density, sphere, traced
from hkflow.store.shown import density_at

ROOT = Path(__file__).parents[2]


def problem(mesh):
    rng = np.random.default_rng(0)
    x, y = np.column_stack([rng.normal(size=(6, mesh.dim)), np.ones(6)]), rng.normal(size=6)
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], x, y)
    return hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 2.0), (1, -1))


@pytest.fixture(scope="module")
def solutions():
    return {
        mesh.dim: hkflow.solve(problem(mesh), 2.0, 3, kind="characteristics")
        for mesh in (hkflow.circle_mesh(200), hkflow.geodesic_mesh(2))
    }


def drawn(run, **options):
    figure = Figure(figsize=(6.9, 3.0), layout="constrained")
    density.draw_measure(figure, run, **options)
    FigureCanvasAgg(figure).draw()
    return figure


def test_pixels_of_a_map_show_the_density_there(solutions):
    s = solutions[2]
    figure = Figure(figsize=(6.9, 3.0), layout="constrained")
    traced.draw_traced(figure, s, 2, [2], False, width=300)
    points, inside = sphere.hammer_points(300)
    wanted = s.density_at(points[inside])
    for ax, values, sign in zip(figure.axes, wanted, s.signs, strict=False):
        image = ax.images[0]
        shown = image.get_array()[inside]
        close = np.isclose(shown, np.maximum(values, image.norm.vmin), rtol=1e-9)
        assert close.mean() > 0.999  # but where rounding moves a pixel over a jump
        dots = ax.collections[0].get_offsets()
        assert len(dots) == len(s.captured_at().sheet(sign)[0])
    assert len(s.captured_at()) and (wanted == 0.0).any()


@pytest.mark.parametrize("dim", [1, 2])
def test_a_film_asks_once_for_the_densities_that_its_pictures_share(solutions, monkeypatch, dim):
    traced._at_few.cache_clear()
    points, given = [], density_at

    def counted(run, save, at, normalised):
        points.append((save, len(at)))
        return given(run, save, at, normalised)

    monkeypatch.setattr(traced, "density_at", counted)

    def limits(save):
        ax = drawn(solutions[dim], save=save, shared=range(3)).axes[0]
        return ax.get_ylim() if dim == 1 else ax.images[0].get_clim()

    found = [limits(save) for save in range(3)]
    few = {1: traced.ANGLES[0], 2: traced.SAMPLE}[dim]
    assert sorted(save for save, count in points if count == few) == [0, 1, 2]
    traced._at_few.cache_clear()  # as the first picture of another film
    assert found[2] == limits(2)


def test_maps_have_fewer_pixels_where_points_have_longer_ways(solutions, monkeypatch):
    s, bounds = solutions[2], (240, 1600)
    kinks, signs, inputs = 6, 2, s.problem.objective.inputs
    sides = [s.state_at(save)["positions"] @ inputs.T > 0.0 for save in (0, -1)]
    looks = s.state_at(-1)["flows"] + np.mean(np.sum(sides[0] != sides[1], axis=1))
    assert looks > s.state_at(-1)["flows"]
    monkeypatch.setattr(traced, "WORK", 500.0**2 * traced.INSIDE * signs * looks * (kinks + 8))
    assert traced.map_width(s, -1, bounds) == pytest.approx(500, abs=1)
    assert traced.map_width(s, -1, bounds, maps=4) == pytest.approx(250, abs=1)
    assert traced.map_width(s, -1, bounds, maps=9) == 240


@pytest.mark.parametrize("dim", [1, 2])
def test_pictures_of_many_saves_take_flows_that_hardly_change_as_one(solutions, dim):
    s = hkflow.solve(solutions[dim].problem, 2.0, 1001, kind="characteristics")
    exact, few = s.flows_at(-1), s.flows_at(-1, gathered=True)
    assert len(exact) >= 2000 and 10 < len(few) < 0.25 * len(exact)
    points = hkflow.quasi_uniform(500, 2) if dim == 2 else hkflow.circle_mesh(500).centers
    shown, wanted = density_at(s, -1, points), s.density_at(points)
    assert np.mean((shown == 0.0) != (wanted == 0.0)) < 0.005  # near the edge of a void
    both = (shown > 0.0) & (wanted > 0.0)
    off = np.abs(np.log(shown[both] / wanted[both]))
    assert np.median(off) < 2e-3 and np.quantile(off, 0.99) < 0.04  # a colour of four decades
    # the few saves of the other pictures are shown as they are
    assert np.array_equal(
        density_at(solutions[dim], 1, points), solutions[dim].density_at(points, 1)
    )


def test_the_circle_shows_the_density_and_the_mass_that_kinks_hold(solutions):
    s = solutions[1]
    ax, twin = drawn(s).axes
    angle, values = ax.lines[0].get_data()
    points = np.column_stack([np.cos(angle), np.sin(angle)])
    low = ax.get_ylim()[0] if ax.get_yscale() == "log" else 0.0
    found = np.maximum(s.density_at(points, sign=1), low)
    # rounding of the angle moves a few points to the other side of a jump
    assert np.mean(np.isclose(values, found, rtol=1e-6)) > 0.99
    stems = sum(line.get_ydata().sum() for line in twin.lines)
    assert stems == pytest.approx(s.captured_at().mass) and "kinks hold" in twin.get_ylabel()


def test_other_starts_are_drawn_as_atoms(solutions):
    start = problem(hkflow.circle_mesh(60))
    atoms = replace(start, mesh=None, initial=start.atoms())
    s = hkflow.solve(atoms, 0.1, kind="characteristics")
    assert not s.has_density and "mass by angle" not in str(drawn(s))
    assert any("atom" in text.get_text() for text in drawn(s).axes[0].get_legend().get_texts())


def test_the_script_zooms_into_a_valley(tmp_path, monkeypatch):
    """Of 128² points instead of a million."""
    run = hkflow.run(
        problem(hkflow.geodesic_mesh(1)), tmp_path / "run", end=1.5, kind="characteristics"
    )
    monkeypatch.setattr(sys, "argv", ["zoom", str(run.path), str(tmp_path / "zoom.png"), "-1"])
    whole = (ROOT / "postprocess" / "zoom.py").read_text(encoding="utf-8")
    fewer = whole.replace("SIDE = 1024", "SIDE = 128")
    assert fewer != whole
    (tmp_path / "zoom.py").write_text(fewer, encoding="utf-8")
    runpy.run_path(str(tmp_path / "zoom.py"), run_name="__main__")
    assert (tmp_path / "zoom.png").stat().st_size > 10_000
