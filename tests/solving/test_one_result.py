"""A Solution can do what a Run can: it is drawn, compared, exported and reported, and says the
same."""

from types import SimpleNamespace

import numpy as np
import pytest
from legible import drawn_texts
from matplotlib.backends.backend_agg import FigureCanvasAgg

import hkflow
from hkflow import compilation, plots
from hkflow.analysis.margin_report import margin_report
from hkflow.analysis.measures import errors_of, values_of
from hkflow.analysis.summary import provenance, summary
from hkflow.app.report import write_report
from hkflow.geometry.transfer import restrict
from hkflow.plots.compare import save_comparison
from hkflow.solving.observer import Observer
from hkflow.store.dataset import write_netcdf

INPUTS, TARGETS = [[0.5, 1.0], [-1.0, 1.0], [0.2, 1.0]], [1.0, -1.0, -1.0]
CASE = f"""
title = "three data"
[data]
source = "inline"
inputs = {[row[:1] for row in INPUTS]}
targets = {TARGETS}
[objective]
bias = true
loss = "logistic"
[domain]
kind = "signed-sphere"
cells = 24
[flow]
kind = "hellinger-kantorovich"
[time]
end = 0.4
saves = 3
"""
KINDS = {
    "grid": {},
    "particles": {"points": "mesh"},
    "network": {"points": "mesh"},
    "characteristics": {"points": "mesh"},
}


def a_problem(kind="grid"):
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["logistic"], INPUTS, TARGETS)
    mesh, flow = hkflow.circle_mesh(24), hkflow.Flow(1.0, 2.0)
    problem = hkflow.Problem(mesh, objective, flow, (1, -1))
    if kind in ("grid", "characteristics"):
        return problem
    start = problem.atoms()
    if kind == "network":
        start = hkflow.Units.of(start, 1)
    return hkflow.Problem(None, objective, flow, (1, -1), start)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A Solution and a Run of the same, by method, and the folder of the runs."""
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "case.toml").write_text(CASE)

    def pair(kind):
        # of the same bits on a grid: pictures show its residuals, which are rounding
        problem = hkflow.check(folder / "case.toml")[1] if kind == "grid" else a_problem(kind)
        solution = hkflow.solve(problem, 0.4, 3, kind=kind, title="three data")
        run = hkflow.run(
            folder / "case.toml", output=folder / kind, method={"kind": kind} | KINDS[kind],
            error={"companions": "none"},
        )  # fmt: skip
        return solution, run

    return {kind: pair(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_both_say_the_same(pairs, kind):
    solution, run = pairs[kind]
    for name in ("time", "log_scale", "scaled_predictions", "predictions", "mass", "log_mass"):
        assert getattr(solution, name) == pytest.approx(getattr(run, name), rel=1e-9), name
    for name in ("inputs", "targets", "weights", "signs"):
        assert np.array_equal(getattr(solution, name), getattr(run, name)), name
    alike = (
        "bias", "dim", "method", "classifies", "domain", "axis_names", "input_names",
        "finished", "status", "title", "flow", "contradiction", "teacher_network",
    )  # fmt: skip
    for name in alike:
        assert getattr(solution, name) == getattr(run, name), name
    new = [[0.3], [-2.0], [7.0]]
    assert solution.predict(new) == pytest.approx(run.predict(new), rel=1e-9)
    assert solution.predict(new, 1, True) == pytest.approx(run.predict(new, 1, True), rel=1e-9)
    assert solution.state_at(1).keys() >= run.state_at(1).keys()
    assert list(solution.records) == list(run.records)
    assert solution.records["objective"] == pytest.approx(run.records["objective"], rel=1e-9)
    assert solution.atoms_at(-1).moment() == pytest.approx(run.atoms_at(-1).moment(), rel=1e-9)
    assert [name for name, _ in summary(solution)] == [name for name, _ in summary(run)]
    assert {name for name, _ in provenance(run)} - {name for name, _ in provenance(solution)} == {
        "seed, threads"
    }
    if kind == "grid":
        assert solution.density == pytest.approx(run.density)
        assert solution.cell_density_at(1) == pytest.approx(run.cell_density_at(1))
    else:
        with pytest.raises(ValueError, match=f"by method '{kind}' has no density of cells"):
            solution.cell_density_at(1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_picture_of_a_run_is_one_of_a_solution(pairs, kind):
    solution, run = pairs[kind]
    assert plots.available(solution) == plots.available(run)
    for name in plots.available(run):
        drawn = []
        for result in (solution, run):
            with drawn_texts() as texts:
                FigureCanvasAgg(plots.draw(name, result)).draw()
            drawn.append([text.get_text() for text in texts])
        assert drawn[0] == drawn[1] != [], name


def test_files_lie_in_the_current_folder_under_the_title(pairs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    solution, run = pairs["grid"]
    cloud, _ = pairs["particles"]
    assert plots.save_overview(solution).exists() and (tmp_path / "overview.png").exists()
    assert plots.animate("density", solution, "film.gif").exists()
    plots.write("particles", cloud, "both.png", under=solution)
    hkflow.export(solution, "vtk", "csv", "netcdf")
    there = {path.name for path in tmp_path.iterdir()}
    assert there >= {"three-data.vtkhdf", "three-data.nc", "three-data-records.csv", "both.png"}
    records = np.genfromtxt("three-data-records.csv", delimiter=",", names=True)
    assert records["objective"] == pytest.approx(solution.records["objective"], rel=1e-15)
    solution.title, title = "", solution.title
    hkflow.export(solution, "csv")
    assert (tmp_path / "solution-density.csv").exists()
    solution.title = title


def test_a_data_set_of_a_solution_is_that_of_a_run(pairs, tmp_path):
    xarray = pytest.importorskip("xarray")
    one, other = (hkflow.to_xarray(result) for result in pairs["grid"])
    assert set(one.variables) == set(other.variables)
    xarray.testing.assert_allclose(one, other, rtol=1e-9)
    assert one.attrs["title"] == "three data" and one.attrs["source"] == other.attrs["source"]
    write_netcdf(tmp_path / "one.nc", pairs["grid"][0])


def test_a_solution_is_compared_with_a_run_or_a_solution(pairs, tmp_path):
    solution, run = pairs["grid"]
    same = hkflow.compare(solution, run.path)
    assert same.data_max.max() < 1e-9 and not same.notes and "three data" in str(same)
    apart = hkflow.compare(pairs["network"][0], pairs["particles"][0])
    assert apart.data_max[0] < 1e-12 and apart.data_max[-1] < 1e-3 and not apart.notes
    assert save_comparison(same, tmp_path / "same.png").exists()
    other = a_problem()
    object.__setattr__(other.objective, "weight_decay", 0.1)
    with pytest.raises(
        hkflow.CaseError, match=r"solution and .*/grid are not runs of the same problem: weight"
    ):
        hkflow.compare(hkflow.solve(other, 0.4, 2), run)
    unbalanced = hkflow.Units.of(a_problem().atoms(), 1, balance=4.0)
    start = hkflow.Problem(None, a_problem().objective, hkflow.Flow(1.0, 2.0), (1, -1), unbalanced)
    notes = hkflow.compare(hkflow.solve(start, 0.4, 3, kind="network"), run).notes
    assert any("not balanced" in note for note in notes)


def test_a_solution_is_reported_beside_a_run(pairs, tmp_path):
    text = write_report(pairs["grid"], tmp_path / "page.html").read_text()
    assert text.count("three data") >= 2 and text.count('<section id="run-') == 2


def test_a_margin_starts_from_a_solution(pairs):
    solution, run = pairs["grid"]
    one, other = margin_report(run=solution), margin_report(run=run)
    assert one.f1.lower == pytest.approx(other.f1.lower, rel=1e-9) and one.name == "three-data"
    assert one.enclosed == pytest.approx(other.enclosed) and one.input_names == other.input_names


def test_a_run_that_breaks_off_leaves_a_solution_that_is_drawn(tmp_path):
    def stop(state):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError) as caught:
        hkflow.solve(a_problem(), 0.4, observers=[hkflow.observe(stop, at=[0.1])])
    solution = caught.value.solution
    assert "enough" in solution.status and not solution.finished and solution.end["steps"] > 0
    assert plots.save_overview(solution, tmp_path / "overview.png").exists()


def test_exact_errors_of_a_solution():
    exact = hkflow.MomentFlow(np.array([1.0, 0.5]), 0.8, hkflow.Flow(1.0, 1.0))
    problem = hkflow.Problem(hkflow.circle_mesh(64), exact.objective(), exact.flow, exact=exact)
    solution = hkflow.solve(problem, 0.5, 2)
    l1, largest = solution.exact_errors()
    assert 0.0 < l1[-1] < 1e-2 and 0.0 < largest[-1] < 1e-2
    assert not solution.bias and solution.inputs.shape == (2, 2)
    assert errors_of(solution, None)["L1"] == l1[-1]
    fine = hkflow.Problem(hkflow.circle_mesh(128), exact.objective(), exact.flow, exact=exact)
    assert 0.0 < errors_of(solution, hkflow.solve(fine, 0.5, 2))["L1"] < 1e-2
    assert values_of(solution.records, ["mass", "none"])["mass"] == solution.records["mass"][-1]
    FigureCanvasAgg(plots.draw("overview", solution)).draw()


def test_predict_wants_inputs_without_the_bias(pairs):
    for result in pairs["grid"]:
        with pytest.raises(ValueError, match="1 columns, without the bias, got 2"):
            result.predict(INPUTS)


def test_errors_against_a_finer_grid_are_not_those_of_its_average():
    """Both grids hold averages of one density. As constant in its cells the finer one is 2e-3
    off."""
    e = np.array([0.3, -0.5, 0.8])
    meshes = {n: hkflow.Domain(2).mesh(n) for n in (642, 2562, 40962)}
    density = np.exp(3.0 * meshes[40962].centers @ e)
    linear, square = hkflow.FEATURES["linear"], hkflow.RISKS["square"]
    objective = hkflow.Objective(linear, square, np.eye(3), np.zeros(3))
    runs = [
        hkflow.solve(
            hkflow.Problem(
                meshes[n],
                objective,
                hkflow.Flow(1.0),
                initial=restrict(density, meshes[40962], meshes[n], linear=True),
            ),
            1e-9,
        )
        for n in (642, 2562)
    ]
    found = errors_of(*runs)
    assert found["L1"] < 5e-5 and found["max"] < 5e-4


class Compiles(Observer):
    """Each step takes one second, and two more in which a kernel is compiled."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        clock = SimpleNamespace(monotonic=lambda: self.now, process_time=lambda: self.now)
        monkeypatch.setattr(compilation, "time", clock)
        monkeypatch.setattr(compilation, "COMPILATION", compilation.Compilation())

    def step(self, method, clock):
        self.now += 1.0
        compilation.COMPILATION.on_start(None)
        self.now += 1.0
        self.inside = compilation.processor_time()
        self.now += 1.0
        compilation.COMPILATION.on_end(None)


@pytest.mark.parametrize("in_folder", [False, True])
def test_compiling_is_no_work_of_a_run(in_folder, tmp_path, monkeypatch):
    """Runs to an accuracy choose by it: they are to be the same, whatever is compiled already."""
    clock = Compiles(monkeypatch)
    if in_folder:
        made = hkflow.run(a_problem(), tmp_path / "run", end=0.4, observers=[clock])
    else:
        made = hkflow.solve(a_problem(), 0.4, observers=[clock])
    assert made.end["seconds"] == clock.now / 3.0 > 2.0
    assert clock.inside == made.end["seconds"]
