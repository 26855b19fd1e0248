"""Runs to an accuracy: reached in truth, with what was chosen in the run folder, or a sentence on
what stopped them."""

import signal
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hkflow
from hkflow.accuracy import companions
from hkflow.analysis.summary import summary
from hkflow.case import accuracy as sizes
from hkflow.geometry.domain import MESHES
from hkflow.running import accuracy as planning
from hkflow.running.check import read_case
from hkflow.running.error_bars import RESUMED

CASE = """
[data]
source = "moment"
direction = [1.0, 0.4]
target = 1.5
[objective]
activation = "linear"
loss = "square"
[domain]
kind = "sphere"
[flow]
kind = "hellinger-kantorovich"
[method]
accuracy = 1e-3
[time]
end = 1.0
saves = 5
"""


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "case.toml"
    path.write_text(CASE)
    return path


def cluster_problem():
    """Function (points for each sign) -> Problem of the cluster data, and its method."""
    path = Path(__file__).parents[2] / "cases" / "colt" / "cluster-margin.toml"
    method = {"kind": "characteristics", "tolerance": 1e-4}

    def problem(points):
        _, found = hkflow.check(path, method=method | {"particles": 2 * points})
        return found

    return problem, method


def true_error(run, direction=(1.0, 0.4)):
    """Largest relative error of the predictions over the saves; the targets are of size 1.5/√n."""
    exact = hkflow.MomentFlow(direction, 1.5, hkflow.Flow(1.0, 4.0))
    off = run.predictions - exact.mass_and_moment(run.time)[1][:, None] * exact.direction
    return np.sqrt(np.mean(np.square(off), axis=1)).max() / np.sqrt(np.mean(run.targets**2))


def of_axes(axes, n_data):
    """What memory is asked for of an objective that stores nothing."""
    feature = SimpleNamespace(outputs=1)
    return SimpleNamespace(axes=axes, inputs=np.zeros((n_data, axes)), feature=feature)


@pytest.mark.parametrize("kind", ["auto", "grid", "particles"])
@pytest.mark.parametrize("accuracy", [1e-2, 1e-4])
def test_it_is_reached(case, tmp_path, kind, accuracy):
    table = {"kind": kind, "accuracy": accuracy}
    run = hkflow.run(case, output=tmp_path / "run", method=table)
    assert true_error(run) <= run.errors.reached <= run.errors.wanted == accuracy
    assert run.method == {"auto": "characteristics"}.get(kind, kind)
    assert f"{accuracy:.1e} wanted" in dict(summary(run))["accuracy"]


def test_more_is_computed_where_a_plan_falls_short(case, tmp_path, monkeypatch):
    made = []

    def short(*arguments):
        choice = planning._choice(*arguments[:3], of_axes(2, 2), 64, 1e-3, 1.0)
        made.append(choice)
        return choice

    monkeypatch.setattr(planning, "plan", lambda file: short(file, sizes.sized(file.case, 1), 1))
    run = hkflow.run(case, output=tmp_path / "run", method={"kind": "grid", "accuracy": 1e-4})
    assert made[0].size == 64 < run.mesh.n_cells
    assert true_error(run) <= run.errors.reached <= 1e-4
    assert (tmp_path / "run.1" / "results.h5").exists()  # the first is kept


def test_what_stops_it_is_said(case, tmp_path, monkeypatch):
    monkeypatch.setitem(MESHES, 1, replace(MESHES[1], most=64))
    run = hkflow.run(case, output=tmp_path / "run", method={"kind": "grid", "accuracy": 1e-7})
    assert run.mesh.n_cells == 64 and run.errors.reached > 1e-7
    assert "64 is the most" in dict(summary(run))["accuracy"]


@pytest.mark.parametrize("kind", ["grid", "characteristics", "particles"])
def test_a_coarse_run_that_is_the_answer_is_judged_once(case, tmp_path, monkeypatch, kind):
    judged, honest = [], planning.bars_for
    monkeypatch.setattr(planning, "bars_for", lambda *a: judged.append(a) or honest(*a))
    run = hkflow.run(case, output=tmp_path / "run", method={"kind": kind, "accuracy": 1e-2})
    if kind == "grid":  # and so is the run by another method that judges it
        assert [made.method for _, made, *_ in judged] == ["characteristics", "grid"]
        return
    assert len(judged) == 1
    assert np.array_equal(run.errors["predictions"], hkflow.error_bars(run)["predictions"])


def test_companions_of_coarse_runs_judge_the_run(tmp_path, monkeypatch):
    """They are not computed again; a grid is judged by another method, which is more accurate."""
    made, honest = [], companions.solved

    def solved(one, times):
        made.append(one.words)
        return honest(one, times)

    monkeypatch.setattr(companions, "solved", solved)
    iris = Path(__file__).parents[2] / "cases" / "quickstart" / "iris.toml"
    tables = tomllib.loads(iris.read_text())
    tables["data"]["file"] = str(iris.parent / tables["data"]["file"])
    tables["domain"].pop("cells")
    tables |= {"method": {"kind": "grid", "accuracy": 1e-2}, "time": {"end": 20.0, "saves": 5}}
    run = hkflow.run(tables, output=tmp_path / "run")
    assert run.errors.reached <= 1e-2 and 642 <= run.mesh.n_cells <= 1442
    assert len(made) == len(set(made)) and "162 cells" not in made
    told = ("162 cells", "162 cells with tolerance 2.5e-05", "characteristics from 162 points")
    assert run.errors.companions == told


def test_a_rival_tells_the_errors_of_a_grid(case):
    rival = planning._rival(read_case(case, {"method": {"kind": "grid", "accuracy": 1e-2}}), 1, 64)
    plain = CASE.replace("accuracy = 1e-3", 'kind = "grid"').replace(
        '"sphere"', '"sphere"\ncells = 64'
    )
    case.write_text(plain)
    run, (_, problem) = hkflow.run(case, output=case.parent / "run"), hkflow.check(case)
    assert planning.relative_error(rival.run, rival.bars)[0] <= 0.25 * 1e-2
    bars = companions.error_bars(run, problem, rival=rival)
    apart = np.sqrt(np.mean((run.predictions - rival.run.predictions) ** 2, axis=1))
    np.testing.assert_allclose(bars["predictions"], apart + rival.bars["predictions"], rtol=1e-12)
    assert true_error(run) <= planning.relative_error(run, bars)[0]


def test_sibling_a_rival_that_errs_makes_bars_wider(case, tmp_path, monkeypatch):
    """One whose flow has another β, with bars that say that it is right, lets no grid reach it."""
    honest = planning.coarse_run

    def wrong(problem, table, times):
        flow = replace(problem.flow, reaction=3.5)
        points = problem.mesh is None
        return honest(replace(problem, flow=flow) if points else problem, table, times)

    monkeypatch.setattr(planning, "coarse_run", wrong)
    monkeypatch.setitem(MESHES, 1, replace(MESHES[1], most=256))
    run = hkflow.run(case, output=tmp_path / "run", method={"kind": "grid", "accuracy": 1e-3})
    assert true_error(run) < 1e-3 < run.errors.reached


def test_a_grid_that_no_other_method_computes_is_judged_by_meshes(case, tmp_path):
    method = {"kind": "grid", "accuracy": 1e-3}
    file = read_case(case, {"method": method, "flow": {"noise": 0.1}})
    assert planning._rival(file, 1, 64) is None
    run = hkflow.run(file, output=tmp_path / "run")
    assert run.errors.reached <= 1e-3
    assert all("cells" in words for words in run.errors.companions)


def test_meshes_between_those_of_the_coarse_run_are_taken(tmp_path):
    """5762 cells after coarse runs on 162 and 362, with companions of their own."""
    flow, direction = {"transport": 1.0, "reaction": 4.0}, [1.0, 0.4, -0.3]
    tables = tomllib.loads(CASE) | {"flow": flow, "method": {"kind": "grid", "accuracy": 1.5e-4}}
    tables |= {"time": {"end": 2.0, "saves": 5}, "error": {"companions": "own"}}
    tables["data"] |= {"direction": direction}
    run = hkflow.run(tables, output=tmp_path / "run")
    assert run.mesh.n_cells == 5762 and {"1442 cells", "362 cells"} < set(run.errors.companions)
    assert true_error(run, direction) <= run.errors.reached <= 1.5e-4


def test_a_plan_on_space_that_takes_too_long_comes_to_fewer_cells(case):
    """Sizes there are eight times apart: one less than a fifth of a size is none."""
    file = read_case(case, {"method": {"kind": "grid", "accuracy": 1e-3}})
    arguments = (file, sizes.sized(file.case, 3), 3, of_axes(4, 1), 50_000, 1e-4)
    assert planning._choice(*arguments, 1.0, 40_000).size == 51_360
    assert planning._choice(*arguments, 1e4, 40_000).size == 6480


def test_a_run_that_stops_early_says_so(case, tmp_path):
    class Stops(hkflow.Observer):
        def step(self, method, clock):
            self.steps = clock.step

        def stop(self):
            return "Stopped" if self.steps > 3 else None

    run = hkflow.run(case, output=tmp_path / "run", observers=[Stops()])
    assert not run.finished
    assert dict(summary(run))["accuracy"] == "not estimated, 1.0e-03 wanted"
    assert "did not reach its end" in dict(summary(run))["error"]


def test_error_bars_that_are_broken_off_end_it(case, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(planning.Attempt, "judged", interrupted)
    method = {"kind": "grid", "accuracy": 1e-4}
    run = hkflow.run(case, output=tmp_path / "run", method=method)
    assert "not estimated, 1.0e-04 wanted: broken off" in dict(summary(run))["accuracy"]
    assert not (tmp_path / "run.1").exists()


def test_coarse_runs_go_on_until_they_are_near_the_plan(case, monkeypatch):
    """What few cells ask for may be far off; 1/16 of it is tried, again and again."""
    tried = []

    def plan(file, dim, size, known=(), rival=None):
        tried.append(size)
        wanted = 40 * size if len(tried) < 3 else 4 * size
        return planning.Choice(file, "particles", wanted, 1e-3, 1.0, 0, "", known=[*known, size])

    monkeypatch.setattr(planning, "_tried", plan)
    file = read_case(case, {"method": {"kind": "particles", "accuracy": 1e-3}})
    chosen = planning.plan(file)
    assert len(tried) == 3 and chosen.known == tried and chosen.size == 4 * tried[-1]
    assert tried[2] / tried[1] == pytest.approx(2.5, rel=0.1)


@pytest.mark.parametrize(("middle", "holds"), [(1.5, True), (0.8, False)])
def test_what_misses_by_little_asks_for_little(case, monkeypatch, middle, holds):
    """By an order in the middle of the band; the sibling's, as low as observed, asks for more."""
    run = hkflow.run(case, output=case.parent / "run", method={"kind": "particles"})
    low = replace(run.errors.bars["predictions"], order=1.0, verdict="")
    bars = replace(run.errors, bars=run.errors.bars | {"predictions": low})
    monkeypatch.setattr(planning, "relative_error", lambda *_: (1.2e-3, 1.2e-3, 0.0))
    monkeypatch.setattr(planning, "orders_of", lambda *_: (middle, middle))
    file = read_case(case, {"method": {"kind": "particles", "accuracy": 1e-3}})
    asked = planning._better(
        file, sizes.sized(file.case, 1, 1000, 1e-4), 1, 1000, run, bars, 1.0, 0.9
    )
    assert (1000 < asked.size < 1270) == holds


@pytest.mark.parametrize(
    ("table", "key", "value", "words"),
    [
        ("method", "tolerance", 1e-5, "'accuracy' chooses"),
        ("domain", "cells", 64, "it chooses domain.cells"),
        ("method", "accuracy", 0.0, "method.accuracy"),
    ],
)
def test_it_stands_in_the_place_of_what_it_chooses(case, table, key, value, words):
    with pytest.raises(hkflow.CaseError, match=words):
        hkflow.check(case, **{f"{table}.{key}": value})


TABLE = """
[data]
source = "file"
file = "table.csv"
label = "y"
[objective]
activation = "relu"
loss = "logistic"
bias = true
[domain]
kind = "signed-sphere"
[flow]
kind = "hellinger-kantorovich"
[method]
kind = "characteristics"
accuracy = 1e-2
[time]
end = 5.0
saves = 4
"""


@pytest.fixture
def table(tmp_path):
    """The path of a case with a file of data."""
    rows = np.random.default_rng(5).standard_normal((12, 2)).round(3)
    lines = [f"{a},{b},{np.sign(a * b):.0f}" for a, b in rows]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,y", *lines]))
    (tmp_path / "table.toml").write_text(TABLE)
    return tmp_path / "table.toml"


@pytest.fixture
def broken(tmp_path, press):
    """Function (case, changes) -> folder of the run of a case that Ctrl-C broke off."""

    def make(case, **changes):
        press(3)
        with pytest.raises(KeyboardInterrupt) as raised:
            hkflow.run(case, output=tmp_path / "run", **changes)
        press(-1)
        run = raised.value.run
        assert run.signal == signal.SIGINT and run.errors is None
        return run.path

    return make


def same_bars(one, other):
    """Whether two runs have the same error bars, to the bits."""
    return one.companions == other.companions and all(
        np.array_equal(getattr(one.bars[name], part), getattr(other.bars[name], part))
        for name in {**one.bars, **other.bars}
        for part in ("space", "time")
    )


@pytest.mark.parametrize(
    "changes", [{}, {"method.accuracy": 3e-2}, {"observers": [lambda state: None]}]
)
def test_a_resumed_run_has_the_error_bars_of_an_undisturbed_one(table, tmp_path, broken, changes):
    """They came from companions of its own, and were up to 3.5 times as wide."""
    undisturbed = hkflow.run(table, output=tmp_path / "undisturbed", **changes)
    resumed = hkflow.resume(broken(table, **changes))
    assert resumed.errors.wanted == changes.get("method.accuracy", 1e-2) >= resumed.errors.reached
    assert same_bars(resumed.errors, undisturbed.errors)


def test_a_run_that_is_met_broken_off_goes_on(table, tmp_path, broken):
    """It was said to be another run, and moved aside."""
    undisturbed = hkflow.run(table, output=tmp_path / "undisturbed")
    folder = broken(table)
    met = hkflow.run(table, output=folder)
    assert not (tmp_path / "run.1").exists() and same_bars(met.errors, undisturbed.errors)


def test_a_resumed_run_that_falls_short_is_followed_by_another(case, tmp_path, monkeypatch, broken):
    grid = {"kind": "grid", "accuracy": 1e-4}

    def short(file):
        coarse = sizes.sized(file.case, 1)
        return planning._choice(file, coarse, 1, of_axes(2, 2), 64, 1e-3, 1.0)

    monkeypatch.setattr(planning, "plan", short)
    undisturbed = hkflow.run(case, output=tmp_path / "undisturbed", method=grid)
    folder = broken(case, method=grid)
    resumed = hkflow.resume(folder)
    assert resumed.errors.reached <= 1e-4 and same_bars(resumed.errors, undisturbed.errors)
    assert resumed.path == folder and hkflow.load(tmp_path / "run.1").mesh.n_cells == 64
    assert np.array_equal(resumed.predictions, undisturbed.predictions)


@pytest.mark.parametrize("met", [False, True])
def test_a_run_that_fell_short_is_followed_by_another_where_that_was_not_begun(
    case, tmp_path, monkeypatch, met
):
    """It has reached its end, and was left as it was, without a word on its accuracy."""
    grid = {"kind": "grid", "accuracy": 1e-4}

    def short(file):
        coarse = sizes.sized(file.case, 1)
        return planning._choice(file, coarse, 1, of_axes(2, 2), 64, 1e-3, 1.0)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(planning, "plan", short)
    with monkeypatch.context() as patch:
        patch.setattr(planning, "refined", interrupted)
        with pytest.raises(KeyboardInterrupt):
            hkflow.run(case, output=tmp_path / "run", method=grid)
    assert hkflow.load(tmp_path / "run").finished
    if met:
        resumed = hkflow.run(case, output=tmp_path / "run", method=grid)
    else:
        resumed = hkflow.resume(tmp_path / "run")
    assert resumed.errors.reached <= 1e-4 == resumed.errors.wanted
    assert hkflow.load(tmp_path / "run.1").mesh.n_cells == 64


@pytest.mark.parametrize("misses", [False, True])
def test_without_its_data_a_resumed_run_is_judged_by_itself(
    table, tmp_path, monkeypatch, broken, misses
):
    """One that misses its accuracy is not taken for the answer."""
    folder, rows = broken(table), (tmp_path / "table.csv").read_text()
    (tmp_path / "table.csv").unlink()
    with monkeypatch.context() as patch:
        if misses:
            patch.setattr(planning, "relative_error", lambda *_: (1.0, 1.0, 0.0))
        bars = hkflow.resume(folder).errors
    assert bars.wanted == 1e-2 and (bars.limit == RESUMED) == misses
    assert (bars.reached <= 1e-2) != misses
    (tmp_path / "table.csv").write_text(rows)
    again = hkflow.run(table, output=tmp_path / "run")
    assert again.errors.reached <= 1e-2
    assert (tmp_path / "run.1").exists() == misses


def test_a_grid_needs_a_sphere_with_meshes(case):
    with pytest.raises(hkflow.CaseError, match="lie on S\\^5, of which there is none"):
        hkflow.check(case, method={"kind": "grid", "accuracy": 1e-2}, data={"direction": [1.0] * 6})


def test_steps_that_no_tolerance_governs_are_no_hindrance(tmp_path):
    """Characteristics of iris on few points: a tighter tolerance changes nothing."""
    iris = Path(__file__).parents[2] / "cases" / "quickstart" / "iris.toml"
    tables = tomllib.loads(iris.read_text())
    tables["data"]["file"] = str(iris.parent / tables["data"]["file"])
    tables["domain"].pop("cells")
    tables |= {"method": {"accuracy": 1e-2}, "time": {"end": 20.0, "saves": 5}}
    run = hkflow.run(tables, output=tmp_path / "run")
    assert run.errors.reached <= 1e-2 and run.method == "characteristics"


def test_errors_of_normalised_predictions_are_relative_to_the_targets_where_these_are_larger():
    """A margin flow begins with predictions that are 0."""
    x = np.column_stack([[-1.0, 0.2, 1.0], np.ones(3)])
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["smooth-margin"], x, np.array([1.0, -1.0, 1.0])
    )
    problem = hkflow.Problem(hkflow.circle_mesh(64), objective, hkflow.Flow(1.0, 2.0), (1, -1))
    run = hkflow.solve(problem, end=1.0, saves=3)
    bars = replace(hkflow.error_bars(run, companions="own"), normalised=True)
    assert np.abs(run.predictions[0]).max() < 1e-15
    own = np.sqrt(np.mean(run.predictions**2, axis=1))
    size = np.maximum(own, 1.0)
    wanted = bars["predictions"] * run.mass / size + bars["log_mass"] * own / size
    assert planning.relative_error(run, bars)[0] == pytest.approx(wanted.max(), rel=1e-12)


@pytest.mark.parametrize(("early", "late"), [(0.05, 0.02), (0.02, 0.05)])
def test_errors_in_space_and_in_time_count_at_different_saves(case, early, late):
    """In the kernel regime errors in time are largest early, and those in space late: runs were
    made again with smaller tolerances alone, and missed the accuracy by a factor of 9."""
    run = hkflow.run(case, output=case.parent / "run", method={"kind": "particles"})
    space, in_time = np.zeros((2, 5))
    in_time[1], space[-1] = early, late
    bar = replace(run.errors.bars["predictions"], space=space, time=in_time)
    bars = replace(run.errors, bars=run.errors.bars | {"predictions": bar})
    file = read_case(case, {"method": {"kind": "particles", "accuracy": 1e-3}})
    asked = planning._better(
        file, sizes.sized(file.case, 1, 1000, 1e-4), 1, 1000, run, bars, 1.0, 0.9
    )
    assert asked.size > 4000 and asked.tolerance < 0.1 * 1e-4


def test_predictions_of_test_data_are_as_accurate(tmp_path):
    """Rows that are fitted, as many as inputs, are known long before others; so the sibling without
    test data takes fewer points."""
    rng = np.random.default_rng(0)
    for name, rows in (("train", 6), ("test", 40)):
        x = rng.standard_normal((rows, 5))
        table = np.column_stack([x, np.sin(x[:, 0]) + 0.3 * x[:, 1]])
        file, header = tmp_path / f"{name}.csv", "a,b,c,d,e,y"
        np.savetxt(file, table, delimiter=",", header=header, comments="")
    data = {"source": "csv", "file": str(tmp_path / "train.csv"), "label": "y"}
    tables = {
        "data": data | {"test_file": str(tmp_path / "test.csv")},
        "objective": {"loss": "square"},
        "domain": {"kind": "signed-sphere"},
        "flow": {"kind": "hellinger-kantorovich"},
        "method": {"accuracy": 1e-2},
        "time": {"end": 20.0, "saves": 3},
    }
    run = hkflow.run(tables, output=tmp_path / "run")
    sizes = [
        np.sqrt(np.maximum(np.mean(h**2, axis=1), np.mean(y**2)))
        for h, y in ((run.predictions, run.targets), (run.test_predictions, run.test.targets))
    ]
    bars = run.errors["predictions"], run.errors["test_predictions"]
    off = [(bar / size).max() for bar, size in zip(bars, sizes, strict=True)]
    assert off[0] < off[1] == pytest.approx(run.errors.reached, rel=1e-12)
    assert run.errors.reached <= run.errors.wanted
    alone = hkflow.run(tables | {"data": data}, output=tmp_path / "alone")
    assert len(alone.problem.atoms()) < len(run.problem.atoms())


@pytest.mark.parametrize(("share", "holds"), [(1.0, True), (0.0, False)])
def test_errors_of_the_mass_are_errors_of_predictions(share, holds):
    """Few points of a margin flow: h/|ν| is right where |ν| is not; so the sibling without the bar
    of the mass does not hold."""
    problem, method = cluster_problem()
    few = hkflow.solve(problem(162), 20.0, 5, **method)
    truth = hkflow.solve(problem(2562), 20.0, 5, **method)
    bars = hkflow.error_bars(few)
    assert bars.normalised
    bar = bars.bars["log_mass"]
    less = {"log_mass": replace(bar, space=share * bar.space, time=share * bar.time)}
    known = {name: bar for name, bar in bars.bars.items() if name != "plain_predictions"}
    found, _, _ = planning.relative_error(few, replace(bars, bars=known | less))
    off = np.sqrt(np.mean((few.predictions - truth.predictions) ** 2, axis=1))
    size = np.maximum(np.sqrt(np.mean(truth.predictions**2, axis=1)), 1.0)
    assert ((off / size).max() <= found) == holds
    plain, _, _ = planning.relative_error(few, bars)
    assert (off / size).max() <= plain and (plain < found) == holds


@pytest.mark.parametrize(("longest", "holds"), [(1e-6, True), (1e9, False)])
def test_what_takes_too_long_is_foreseen(case, monkeypatch, longest, holds):
    """More cells than the time allows are not taken; the sibling without a limit takes them."""
    monkeypatch.setattr(planning, "LONGEST", longest)
    choice = planning.plan(read_case(case, {"method": {"kind": "grid", "accuracy": 1e-6}}))
    assert ("more would take over" in choice.limit) == holds
    assert (choice.size == sizes.first_size(1)) == holds


@pytest.fixture
def many():
    """A case of 10,000 data, whose kinks are many, that asks for an accuracy."""
    x = np.random.default_rng(0).normal(size=(10_000, 2))
    frame = {"X": x, "y": x[:, 0] + np.abs(x[:, 1])}
    return {
        "data": {"source": "frame", "frame": frame, "label": "y"},
        "objective": {"bias": True, "loss": "square"},
        "domain": {"kind": "signed-sphere"},
        "flow": {"kind": "hellinger-kantorovich"},
        "method": {"accuracy": 1e-3},
        "time": {"end": 2.0, "saves": 3},
    }


def test_kinks_of_many_data_are_stepped_over_to_an_accuracy(many, tmp_path):
    run = hkflow.run(many, output=tmp_path / "run")
    assert run.method == "particles" and run.errors.reached <= 1e-3
    _, problem = hkflow.check(many, method={"kind": "particles", "particles": 2000})
    fine = hkflow.solve(problem, 2.0, saves=3, kind="particles", tolerance=1e-6)
    off = np.sqrt(np.mean((run.predictions - fine.predictions) ** 2, axis=1)).max()
    assert off < run.errors.reached * np.sqrt(np.mean(run.targets**2))


def test_steps_that_a_tighter_tolerance_leaves_are_judged_by_a_far_tighter_one(many):
    """The difference to the tighter one is 0, whatever the error."""
    _, problem = hkflow.check(many, method={"kind": "particles", "particles": 400})
    loose = hkflow.solve(problem, 2.0, saves=3, kind="particles", tolerance=3e-2)
    fine = hkflow.solve(problem, 2.0, saves=3, kind="particles", tolerance=1e-6)
    off = np.sqrt(np.mean((loose.predictions - fine.predictions) ** 2, axis=1)).max()
    bar = hkflow.error_bars(loose).bars["predictions"]
    assert off <= bar.time.max()


@pytest.mark.parametrize("kind", ["grid", "particles"])
def test_a_run_that_ends_at_its_margin_has_bars_of_its_own_saves(tmp_path, kind):
    """Coarse runs go on to the end; their bars, and the other method, were taken for this run's."""
    case = {
        "data": {
            "source": "inline",
            "inputs": [[1.0, 0.2], [-0.3, 1.0], [0.5, -1.0]],
            "targets": [1.0, -1.0, 1.0],
        },
        "objective": {"activation": "relu", "loss": "smooth-logistic-margin"},
        "domain": {"kind": "signed-sphere"},
        "flow": {"kind": "hellinger-kantorovich"},
        "method": {"kind": kind, "accuracy": 0.05},
        "time": {"end": 3.0, "saves": 5, "until_margin": 1.0},
        "certificate": {"seconds": 0.0},
    }
    run = hkflow.run(case, output=tmp_path / "run", quiet=True)
    assert len(run.time) == 4 and 2.1 < run.time[-1] < 2.3
    assert np.array_equal(run.errors.time, run.time)
    assert run.errors.reached <= 0.05
    exact = {**case, "method": {"kind": "characteristics", "accuracy": 1e-4}}
    exact["time"] = {"end": float(run.time[-1]), "saves": run.time[:-1].tolist()}
    truth = hkflow.run(exact, output=tmp_path / "truth", quiet=True).predictions
    away = np.sqrt(np.mean((run.predictions - truth) ** 2, axis=1))
    assert (away <= run.errors["predictions"] + 1e-3).all()
