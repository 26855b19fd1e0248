"""Two runs compared: the same problem by different methods agrees, and another problem is
refused."""

from contextlib import contextmanager
from copy import copy
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from commands import hk
from conftest import ROOT
from matplotlib.figure import Figure

import hkflow
from hkflow.analysis import comparison
from hkflow.analysis.comparison_table import DENSITY_LEGEND
from hkflow.analysis.frames import make_test_inputs
from hkflow.measures.distances import distances
from hkflow.plots.compare import draw_comparison, save_comparison

CASE = """
title = "Four points"
[data]
source = "inline"
inputs = {inputs}
targets = [1.0, -0.5, 0.2, 0.4]
[objective]
activation = "squared-relu"
bias = true
loss = "square"
weight_decay = 0.01
[domain]
kind = "signed-sphere"
cells = 64
[flow]
kind = "hellinger-kantorovich"
[time]
end = 1.0
saves = 12
"""
INPUTS = {
    1: [[0.5], [-1.0], [0.2], [1.4]],
    2: [[0.5, 0.1], [-1.0, 0.3], [0.2, -0.8], [1.4, 1.0]],
    3: [[0.5, 0.1, 0.0], [-1.0, 0.3, 1.0], [0.2, -0.8, 0.4], [1.4, 1.0, -0.3]],
}
PARTICLES = {"method.kind": "particles", "method.particles": 400}
NETWORK = {"method.kind": "network", "method.units": 100}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A function that runs a variant of the case once and returns its Run."""
    folder, runs = tmp_path_factory.mktemp("compare"), {}

    def make(name, dim=1, **overrides):
        if name not in runs:
            case = folder / f"{name}.toml"
            case.write_text(CASE.format(inputs=INPUTS[dim]))
            runs[name] = hkflow.run(case, output=folder / name, **overrides)
        return runs[name]

    return make


@pytest.fixture
def few_atoms(monkeypatch):
    """Distances of measures are those of few atoms, for tests of other things."""
    for name, distance in comparison.DISTANCES.items():
        if name != "W1":
            monkeypatch.setitem(comparison.DISTANCES, name, partial(distance, atoms=50))


def test_grids_approach_particles(made, monkeypatch):
    monkeypatch.setattr(comparison, "PLAN_TIMES", 2)  # distances are looked at in the end alone
    particles = made("many", **PARTICLES | {"method.particles": 2000})
    found = [
        hkflow.compare(made(f"grid{n}", **{"domain.cells": n}), particles) for n in (32, 64, 128)
    ]
    for values, low, high in (
        # atoms at the centres of cells: first order
        ([c.distances["W1"][-1, 0] for c in found], 1.7, 2.3),
        ([c.distances["W2"][-1, 0] for c in found], 1.7, 2.3),
        ([c.distances["GHK"][-1, 0] for c in found], 1.5, 2.5),
        ([c.test_max.max() for c in found], 2.5, 6.0),  # what is predicted: second order
        ([c.data_rms.max() for c in found], 2.5, 6.0),
        ([np.abs(np.diff(c.mass)).max() for c in found], 2.5, 6.0),
    ):
        ratios = np.array(values[:-1]) / values[1:]
        assert np.all((ratios > low) & (ratios < high)), (values, ratios)
    last = found[-1]
    assert last.objective[-1] == pytest.approx(
        [last.a.records["objective"][-1], particles.records["objective"][-1]], rel=1e-13
    )


def test_a_run_equals_itself_and_order_does_not_matter(made):
    a, b = made("grid64"), made("particles", **PARTICLES)
    same = hkflow.compare(a.path, a.path / "results.h5")
    for name in ("data_max", "data_rms", "test_max", "test_rms", "moment"):
        assert np.array_equal(getattr(same, name), np.zeros(12)), name
    assert max(np.nanmax(values[:, 0]) for values in same.distances.values()) < 1e-6
    one, two = hkflow.compare(a, b), hkflow.compare(b, a)
    for name in ("data_max", "data_rms", "test_max", "test_rms", "moment"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-9, abs=1e-15)
        assert getattr(one, name)[-1] > 1e-6
    assert np.array_equal(one.mass, two.mass[:, ::-1]) and np.array_equal(
        one.objective, two.objective[:, ::-1]
    )
    for name, values in one.distances.items():
        assert values == pytest.approx(two.distances[name], rel=1e-5, abs=1e-9, nan_ok=True), name


def test_a_bar_counts_the_saves(made, monkeypatch):
    told = []

    @contextmanager
    def counted(what, quiet):
        yield None if quiet else lambda done, count: told.append((what, done, count))

    monkeypatch.setattr(comparison, "counted", counted)
    run = made("grid64")
    hkflow.compare(run, run)
    assert not told
    hkflow.compare(run, run, quiet=False)
    assert told == [("comparing saves", done, 12) for done in range(1, 13)]


def test_lines_of_a_legend_are_told_apart_by_their_dashes(made):
    """A dot in their middle filled the gap."""
    figure = Figure(figsize=(6.9, 6.4), layout="constrained")
    draw_comparison(figure, hkflow.compare(made("grid64"), made("particles", **PARTICLES)))
    (ax,) = [ax for ax in figure.axes if ax.get_title() == "difference of the predictions"]
    lines = ax.get_legend().legend_handles
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == len(lines) == 4
    assert {line.get_marker() for line in lines} == {""}


def test_dots_of_two_runs_in_one_place_are_both_seen(tmp_path):
    """Those of the first were hidden by those of the second."""
    runs = [
        hkflow.run(ROOT / "cases" / "quickstart" / "rings.toml", output=tmp_path / name,
                   time={"end": 0.1, "saves": 2}, error={"companions": "none"})
        for name in ("a", "b")
    ]  # fmt: skip
    figure = Figure(figsize=(6.9, 6.4), layout="constrained")
    draw_comparison(figure, hkflow.compare(*runs))
    pairs = [ax.collections[-2:] for ax in figure.axes if len(ax.collections) >= 2][:2]
    assert len(pairs) == 2  # of output signs
    for below, above in pairs:
        assert np.array_equal(below.get_offsets(), above.get_offsets())
        assert (below.get_sizes() > 2.0 * above.get_sizes()).all()


def test_numbers_are_those_of_their_definitions(made):
    a, b = made("grid64"), made("particles", **PARTICLES)
    c = hkflow.compare(a, b)
    assert (
        len(c.time) == 12
        and c.chosen.tolist()[:2] == [0, 1]
        and c.chosen[-1] == 11
        and len(c.chosen) == 9
    )
    assert np.isnan(c.distances["W2"][:, 0]).sum() == 3 and not np.isnan(c.distances["W1"]).any()
    difference = a.predictions[5] - b.predictions[5]
    assert c.data_max[5] == np.abs(difference).max() and c.data_rms[5] == pytest.approx(
        np.sqrt(np.mean(difference**2)), rel=1e-14
    )
    x = np.linspace(-1.0 - 0.08 * 2.4, 1.4 + 0.08 * 2.4, 200)[:, None]
    assert c.test_inputs == pytest.approx(x, rel=1e-12)
    assert c.test_max[5] == pytest.approx(
        np.abs(a.predict(x, 5) - b.predict(x, 5)).max(), rel=1e-12
    )
    moments = [run.atoms_at(5).moment() for run in (a, b)]
    assert c.moment[5] == pytest.approx(np.linalg.norm(moments[0] - moments[1]), rel=1e-12)
    assert c.mass[5] == pytest.approx([a.mass[5], b.mass[5]], rel=1e-14)
    sparse = copy(a)
    sparse.records = {}
    assert sparse.objective_at(5) == pytest.approx(c.objective[5, 0], rel=1e-12)


def test_densities_of_grids_approach_those_of_characteristics(made, monkeypatch):
    """What kinks hold apart, at kinks that lie on no face."""
    for name in ("W2", "GHK"):  # of 20,000 atoms
        monkeypatch.setitem(comparison.DISTANCES, name, lambda a, b: (0.0, 0.0))
    relu = {"objective.activation": "relu", "objective.bias": False, "time.saves": 3}
    relu |= {"data.targets": [2.0, 2.0, 2.0, -1.0], "time.end": 2.0}
    exact = {"method": {"kind": "characteristics", "points": "mesh"}, "domain.cells": 20_000}
    b = made("characteristics", 2, **relu | exact)
    cells = (67, 131, 257)
    found = [hkflow.compare(made(f"relu{n}", 2, **relu | {"domain.cells": n}), b) for n in cells]
    apart = [c.density[-1] for c in found]
    captured = [abs(np.diff(c.captured[-1])[0]) for c in found]
    assert b.captured_at().mass > 0.1 * b.mass[-1]
    assert apart[-1] < 0.5 * apart[0] and apart[-1] < 0.06 * b.mass[-1], apart
    assert captured[-1] < 0.5 * captured[0], captured
    last, mesh = found[-1], found[-1].a.mesh
    density = [run.density_on(mesh) for run in (last.a, b)]
    assert last.density[-1] == (np.abs(density[0] - density[1]) @ mesh.volumes).sum()
    # what is captured would be seen if it counted twice
    twice = (np.abs(last.a.cell_density_at(-1) - density[1]) @ mesh.volumes).sum()
    assert twice > 3.0 * apart[-1], (twice, apart)
    assert last.density[0] < 5e-3 and (last.captured[0] == 0.0).all()
    assert DENSITY_LEGEND in str(last) and max(map(len, str(last).split("\n")[4:])) <= 100
    other = hkflow.compare(found[0].a, last.a)  # two grids, on the coarser one
    assert 0.0 < other.density[-1] < 2.0 * apart[0]
    relu |= {"time.saves": 2} | PARTICLES
    particles = hkflow.compare(found[0].a, made("relu-particles", 2, **relu))
    assert np.isnan(particles.density).all() and "L1" not in str(particles)


def test_inputs_to_compare_on(rng):
    assert make_test_inputs(rng.normal(size=(9, 2))).shape == (1600, 2)
    assert np.ptp(make_test_inputs(np.full((3, 1), 2.0))) == 2.0
    x = rng.normal(size=(400, 5)) @ rng.normal(size=(5, 5)) + 3.0
    y = make_test_inputs(x)
    assert y.shape == (1000, 5) and np.array_equal(y, make_test_inputs(x))
    size = np.linalg.norm(np.cov(x.T))
    assert np.linalg.norm(np.cov(y.T) - np.cov(x.T)) < 0.2 * size and np.linalg.norm(
        y.mean(0) - x.mean(0)
    ) < 0.2 * np.sqrt(size)
    assert np.ptp(make_test_inputs(np.ones((1, 3))), axis=0).max() == 0.0


@pytest.mark.parametrize(
    "overrides, sentence",
    [
        ({"flow": {"kind": "wasserstein"}}, "flow.reaction is 4 in the first and 0 in the second"),
        ({"flow.noise": 0.1}, "flow.noise is 0 in the first and 0.1 in the second"),
        (
            {"objective.weight_decay": 0.02},
            "weight_decay is 0.01 in the first and 0.02 in the second",
        ),
        (
            {"objective.activation": "relu"},
            "activation is 'squared-relu' in the first and 'relu' in the second; flow.reaction",
        ),
        (
            {"data.targets": [1.0, -0.5, 0.3, 0.4]},
            "targets of datum 2 are 0.2 in the first and 0.3 in the second",
        ),
        (
            {"data.inputs": [[0.5], [-1.0], [0.2], [1.5]]},
            "inputs of datum 3 are 1.4 in the first and 1.5 in the second",
        ),
        (
            {"data.weights": [1.0, 1.0, 1.0, 1.0]},
            "weights of datum 0 are 0.25 in the first and 1 in the second",
        ),
        (
            {"domain.kind": "sphere"},
            "domain is 'signed-sphere' in the first and 'sphere' in the second",
        ),
        (
            {"flow.transport": "1+t", "flow.reaction": "2"},
            "flow.transport is 1 in the first and '1+t' in the second",
        ),
        (
            {"flow.kind": "spherical-hellinger-kantorovich"},
            "flow.drive is 'measure' in the first and 'probability' in the second",
        ),
        (
            {"energy": [{"kind": "external", "potential": "x"}]},
            "energy is none in the first and <External: potential x> in the second",
        ),
        (
            {"data.inputs": [[0.1], [0.2]], "data.targets": [1.0, 0.0]},
            "data is 4 x 1 in the first and 2 x 1 in the second",
        ),
    ],
)
def test_another_problem_is_refused(made, overrides, sentence):
    other = made(
        "-".join(f"{key}-{value}" for key, value in overrides.items())[:40].replace("/", ""),
        **overrides,
        **{"time.end": 0.1},
    )
    with pytest.raises(hkflow.CaseError, match="are not runs of the same problem") as error:
        hkflow.compare(made("grid64"), other)
    assert sentence in str(error.value)


def test_times_must_be_common(made):
    late = made("late", **{"time.saves": [0.333, 0.77], "time.end": 0.9})
    with pytest.raises(
        hkflow.CaseError,
        match=(
            r"No save time is common: .*grid64 has 12 from t = 0 to 1 and .*late has 3 from t ="
            r" 0.333 to 0.9"
        ),
    ):
        hkflow.compare(made("grid64"), late)
    some = made("some", **{"time.saves": [0.0, 0.5, 1.0], "method.max_step": 0.01})
    c = hkflow.compare(made("grid64"), some)
    assert c.time.tolist() == [0.0, 1.0] and c.saves.tolist() == [[0, 0], [11, 2]]
    assert "Shown: all 2 common save times, t = 0 to 1." in str(c)
    once = hkflow.compare(some, made("short", **{"time.saves": [0.5], "time.end": 0.7}))
    assert "all 1 common save time, t = 0.5 to 0.5" in str(once) and save_comparison(once).exists()


def test_saves_that_crowd_at_the_start_have_each_their_own_partner():
    run = SimpleNamespace(name="a", time=np.concatenate([[0.0], np.geomspace(1e-15, 1e6, 20_000)]))
    other = SimpleNamespace(name="b", time=run.time[::2] * (1.0 + 1e-14))
    saves = comparison.common_saves(run, other)
    assert saves.tolist() == [[2 * k, k] for k in range(len(other.time))]
    assert comparison.common_saves(other, run).tolist() == [[j, i] for i, j in saves]


def test_networks_compare_and_what_differs_in_them_is_said(made):
    c = hkflow.compare(made("particles", **PARTICLES), made("network", **NETWORK))
    assert "network of 100 units, layers 'both', training 'gradient-flow'" in str(
        c
    ) and "400 particles on S^1" in str(c)
    assert c.notes == () and 1e-3 < c.test_rms[-1] < 1.0
    output = made(
        "output", **NETWORK | {"method.layers": "output", "flow": None, "initial.mass": 2.0}
    )
    c = hkflow.compare(made("grid64"), output)
    assert c.notes[0] == "The starts differ: initial.mass is 1.0 for A and 2.0 for B."
    no_flow = (
        "B is a network that is not balanced or trains its output weights alone: no flow of the"
        " family."
    )
    assert c.notes[1] == no_flow
    relu = {"objective.activation": "relu"}
    unbalanced = made("unbalanced", **NETWORK | relu | {"method.balance": 9.0})
    assert hkflow.compare(made("relu64", **relu), unbalanced).notes == (no_flow,)
    gaussian = made("gaussian", **PARTICLES | {"method.points": "gaussian", "method.scale": 3.0})
    assert (
        hkflow.compare(made("grid64"), gaussian)
        .notes[0]
        .startswith("The starts differ: the mass is 1 for A and ")
    )


def test_a_sheet_that_one_run_lacks_has_no_balanced_distance(made):
    c = hkflow.compare(made("grid64"), made("plus", **{"initial.signs": [1]}))
    assert (
        np.isnan(c.distances["W1"]).all()
        and np.isnan(c.distances["W2"]).all()
        and c.distances["GHK"][0, 0] > 0.5
    )
    assert "initial.signs is None for A and [1] for B." in str(
        c
    ) and "\n-: a sheet of one sign is empty" in str(c)
    assert save_comparison(c).exists()


def test_the_table_is_narrow_and_says_what_is_missing(made, monkeypatch):
    c = hkflow.compare(made("grid64"), made("particles", **PARTICLES))
    body = str(c).split("\n")[4:]
    assert (
        max(map(len, body)) <= 100
        and "9 of 12 common save times" in body[0]
        and "\x1b" not in str(c)
    )
    rows = [line.split() for line in body if line.split()[:1] == ["1"]]
    assert [len(row) for row in rows] == [len(c.distances) + 6 + 2, 5]  # GHK carries its bar
    assert float(rows[0][1]) == pytest.approx(c.data_max[-1], rel=1e-2) and float(
        rows[1][4]
    ) == pytest.approx(c.mass[-1, 1])
    assert "W2:" in str(c) and "hkflow[ot]" not in str(c)
    monkeypatch.setattr(comparison, "has_pot", lambda: False)
    without = hkflow.compare(c.a, c.b)
    assert (
        set(without.distances) == {"W1", "GHK"}
        and str(without).count("pip install 'hkflow[ot]'") == 1
    )


def texts(figure):
    return {
        text for ax in figure.axes for text in (ax.get_xlabel(), ax.get_ylabel(), ax.get_title())
    }


@pytest.mark.usefixtures("few_atoms")
@pytest.mark.parametrize(
    "dim, first, second, label",
    [
        (1, {}, PARTICLES, "measures at t = 1;  lines: A, filled: B"),
        (1, {}, {"domain.cells": 32}, "measures at t = 1;  lines: A, dashed: B"),
        (1, NETWORK, PARTICLES, "measures at t = 1;  filled: A, outlines: B"),
        (
            2,
            PARTICLES | {"method.particles": 3000},
            {"domain.cells": 642},
            "measures at t = 1;  colours: B, dots: A",
        ),
        (
            2,
            {"domain.cells": 162},
            {"domain.cells": 642},
            "measures at t = 1;  colours: A, dots: B",
        ),
        (2, NETWORK, PARTICLES, "measures at t = 1;  blue: A, orange: B"),
        (3, PARTICLES, NETWORK, "predictions at t = 1"),
    ],
)
def test_every_kind_of_picture(made, tmp_path, dim, first, second, label):
    runs = [
        made(f"{dim}-{sorted(o.items())}".replace("'", ""), dim, **o | {"time.saves": 2})
        for o in (first, second)
    ]
    c = hkflow.compare(*runs)
    figure = Figure(figsize=(7.1, 6.4), layout="constrained")
    draw_comparison(figure, c)
    assert {"|h_A − h_B|", "distance", "time t", "objective F", "total mass |ν|"} <= texts(figure)
    titles = texts(figure) | {
        part._suptitle.get_text()
        for whole in figure.subfigs
        for part in whole.subfigs
        if part._suptitle
    }
    assert label in titles, titles
    assert save_comparison(c, tmp_path / "picture.png").stat().st_size > 20_000
    with pytest.raises(hkflow.RunFolderError, match="unknown picture format"):
        save_comparison(c, tmp_path / "picture.bmp")
    with pytest.raises(hkflow.RunFolderError, match="cannot be written"):
        save_comparison(c, tmp_path / "nowhere" / "picture.png")


def test_atoms_compare_by_their_predictions(made, tmp_path):
    atoms = {
        "objective.activation": "linear",
        "objective.bias": False,
        "objective.weight_decay": 0.0,
        "domain.cells": None,
    }
    atoms |= {"domain.kind": "fixed-features", "flow": {"kind": "diagonal", "depth": 2.0}}
    runs = [
        made("atoms-grid", 2, **atoms),
        made("atoms-particles", 2, **atoms | {"method.kind": "particles"}),
    ]
    c = hkflow.compare(*runs)
    assert (
        "A  " in str(c)
        and "grid on 2 atoms, 2 output sign(s)" in str(c)
        and "particles on 2 atoms" in str(c)
    )
    assert 0.0 < c.test_max.max() < 1e-3 and "Cells count" not in str(c)
    figure = Figure(figsize=(7.1, 6.4), layout="constrained")
    draw_comparison(figure, c)
    assert (
        "predictions at t = 1" in texts(figure)
        and save_comparison(c, tmp_path / "picture.png").exists()
    )


def test_masses_beyond_numbers_are_refused(made):
    run = hkflow.load(made("grid64").path)
    huge = run.state_at(11) | {"log_scale": 900.0}
    run._states[11] = lambda: huge
    with pytest.raises(
        hkflow.CaseError, match=r"up to a mass of e\^600. The mass at save 11 is e\^90"
    ):
        hkflow.compare(run, made("grid64"))


def test_the_command(made, tmp_path):
    a, b = made("grid64").path, made("particles", **PARTICLES).path
    out, err = hk("compare", a, b)
    assert "picture:" in out and "GHK" in out and err == ""
    assert (a / "compare-particles.png").stat().st_size > 20_000
    assert (
        hk("compare", a, b, "--quiet", "--output", tmp_path / "p.pdf") == ("", "")
        and (tmp_path / "p.pdf").exists()
    )
    _, err = hk("compare", a, made("steady", **{"flow": {"kind": "wasserstein"}}).path, code=2)
    assert "flow.reaction is 4 in the first and 0 in the second" in err and "Traceback" not in err


@pytest.mark.parametrize(
    "mesh",
    [hkflow.circle_mesh(40), hkflow.geodesic_mesh(2), hkflow.Domain(3).meshes.of_size(840)],
)
def test_the_table_says_how_far_centres_are_from_what_is_even_in_cells(mesh, rng):
    even = hkflow.sampled(rng, 20_000, mesh, (1,), np.ones((1, mesh.n_cells)))
    apart = distances(even.positions, mesh.centers).min(axis=1) / mesh.width
    words = hkflow.Domain(mesh.centers.shape[1] - 1).off_centres
    assert float(words.split()[-2]) == pytest.approx(np.sqrt(np.mean(apart**2)), abs=0.01)
    assert apart.mean() == pytest.approx(0.25, abs=0.01) or "W1" not in words


@pytest.mark.parametrize("axes, cells", [(2, 16), (4, 120)])
def test_energies_without_data_are_compared_by_their_measures_alone(axes, cells):
    """Nothing is predicted, where 0 was shown as the difference of all predictions."""
    energy = hkflow.Sum(hkflow.External("-x" if axes < 4 else "-theta1"), axes=axes)
    problem = hkflow.Problem(hkflow.Domain(axes - 1).mesh(cells), energy, hkflow.Flow(1.0))
    a, b = (hkflow.solve(problem, 0.5, kind=kind) for kind in ("grid", "particles"))
    found = hkflow.compare(a, b)
    assert np.isnan([found.test_max, found.test_rms, found.data_max]).all()
    assert (found.moment[1:] > 0.0).all()
    assert "h_A" not in str(found) and "predictions" not in str(found)
    figure = Figure(figsize=(8.0, 6.4))
    draw_comparison(figure, found)
    figure.canvas.draw()
    with pytest.raises(ValueError, match="energies without data predict nothing"):
        a.predict(np.ones((1, axes)))
