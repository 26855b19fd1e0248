"""Test data: a share of the rows that the seed draws, or a second file; their records and
predictions."""

import numpy as np
import pytest

import hkflow
from hkflow.analysis.summary import summary
from hkflow.case.datasets import read_data
from hkflow.case.load import case_of_tables
from hkflow.methods.choice import method_class
from hkflow.objectives.activations import FEATURES
from hkflow.plots.records import panels
from hkflow.solving.predicting import test_predictions_of as predicted_on_tests

DATA = {
    "source": "file",
    "file": "d.csv",
    "label": "y",
    "positive": ["yes"],
    "negative": ["no"],
    "standardize": True,
    "missing": "impute",
}
CASE = {
    "objective": {"activation": "relu", "bias": True, "loss": "logistic"},
    "domain": {"kind": "signed-sphere"},
    "flow": {"kind": "hellinger-kantorovich"},
    "method": {"kind": "particles", "particles": 40},
    "time": {"end": 2.0, "saves": 3},
}


def rows(seed, n):
    rng = np.random.default_rng(seed)
    made = []
    for k in range(n):
        a, b = rng.normal(3.0, 2.0, size=2)
        cells = [f"{a:.4f}", "" if k == 5 else f"{b:.4f}", "red" if k % 3 else "blue"]
        made.append(",".join([*cells, "yes" if a + b + rng.normal() > 6.0 else "no"]))
    return "a,b,colour,y\n" + "\n".join(made) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with d.csv and t.csv."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text(rows(1, 40))
    (tmp_path / "t.csv").write_text(rows(2, 15).replace("blue", "red"))
    return tmp_path


def read(seed=0, **data):
    file = case_of_tables({"seed": seed, "data": DATA | data} | CASE)
    return read_data(file.case, file.folder, FEATURES["relu"])


def test_a_share_of_the_rows_is_held_out(folder):
    whole, found, again = read(), read(test_fraction=0.25), read(test_fraction=0.25)
    assert len(found.targets) == 30 and len(found.test[1]) == 10
    assert np.array_equal(found.inputs, again.inputs)
    assert not np.array_equal(found.lines, read(seed=1, test_fraction=0.25).lines)
    back = found.preparation
    own, held = (x[:, 0] * back.spread[0] + back.mean[0] for x in (found.inputs, found.test[0]))
    column = [float(line.split(",")[0]) for line in (folder / "d.csv").read_text().split()[1:]]
    raw = np.sort(np.concatenate([own, held]) * back.size[0])
    assert raw == pytest.approx(np.sort(column), rel=1e-9) and set(found.lines) < set(whole.lines)
    assert "10 of 40 rows are held out as test data" in found.preparation.notes


def test_nothing_is_fitted_to_test_data(folder):
    found = read(test_fraction=0.25)
    assert found.inputs.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)
    assert found.inputs.std(axis=0) == pytest.approx(np.ones(3), rel=1e-12)
    assert np.abs(found.test[0].mean(axis=0)).max() > 0.01  # as if they had been standardized too
    lines = (folder / "d.csv").read_text().splitlines()
    known = [cell for k in found.lines if (cell := lines[k - 1].split(",")[1])]
    fill = found.preparation.columns[1].fill
    assert fill == pytest.approx(np.mean([float(cell) for cell in known]), rel=1e-12)


def test_generated_data_are_held_out_as_well():
    for more in ({}, {"standardize": True}):
        data = {"source": "cluster-grid", "n": 20, "test_fraction": 0.2} | more
        file = case_of_tables({"data": data} | CASE)
        found = read_data(file.case, file.folder, FEATURES["relu"])
        assert len(found.targets) == 16 and found.test[0].shape == (4, 2)
    data = {"source": "inline", "inputs": [[1.0], [2.0], [3.0]], "targets": [1.0, -1.0, 1.0]}
    data |= {"weights": [1.0, 2.0, 3.0], "test_fraction": 0.34}
    file = case_of_tables({"data": data} | CASE)
    found = read_data(file.case, file.folder, FEATURES["relu"])
    x = found.inputs[:, 0]
    assert found.weights == pytest.approx(6.0 * x / x.sum(), rel=1e-15) and len(found.test[1]) == 1


@pytest.mark.parametrize(
    "data, message",
    [
        ({"test_fraction": 0.001}, "data.test_fraction: 0.001 of 40 rows leaves none to test on"),
        ({"test_fraction": 0.999}, "leaves none to train on"),
        ({"test_fraction": 0.5, "test_file": "t.csv"}, "either 'test_fraction' or 'test_file'"),
        ({"test_file": "none.csv"}, "data.test_file: none.csv cannot be read"),
        ({"test_file": "odd.csv"}, "line 3, column 'colour': 'pink' is none of blue, red"),
        ({"test_file": "few.csv"}, "Unknown column 'b'"),
        ({"test_file": "others.csv"}, "no rows are left to test on"),
    ],
)
def test_what_cannot_be_tested_is_refused(folder, data, message):
    (folder / "odd.csv").write_text("a,b,colour,y\n1,2,red,yes\n1,2,pink,no\n")
    (folder / "few.csv").write_text("a,colour,y\n1,red,yes\n")
    (folder / "others.csv").write_text("a,b,colour,y\n1,2,red,maybe\n")
    with pytest.raises(hkflow.CaseError, match=message):
        read(**data)


def test_records_are_those_of_the_predictions(folder):
    run = hkflow.run({"data": DATA | {"test_file": "t.csv"}} | CASE, output="run")
    y, h = run.test.targets, run.test_predictions
    assert h.shape == (3, 15)
    text = (folder / "t.csv").read_text().splitlines()[1:]
    raw = [line.split(",")[:3] for line in text]
    assert h[-1] == pytest.approx(run.predict(raw), rel=1e-12)
    at = [np.flatnonzero(run.records["time"] == t)[-1] for t in run.time]
    for name, wanted in (
        ("test_error", np.mean(y * h <= 0.0, axis=1)),
        ("test_loss", np.mean(np.log1p(np.exp(-y * h)), axis=1)),
    ):
        assert run.records[name][at] == pytest.approx(wanted, rel=1e-12)
    assert "accuracy" in dict(summary(run))["test error"] and "of 15 rows" in str(summary(run))
    for path in ("run", "run/results.h5"):
        found = hkflow.load(path)
        assert np.array_equal(found.test_predictions, h) and np.array_equal(found.test.targets, y)
    dataset = hkflow.to_xarray(run)
    assert np.array_equal(dataset["test_predictions"], h)
    assert "draw_test" in [getattr(draw, "__name__", "") for draw in panels(run)]
    # what is tested changes nothing of what is trained
    alone = hkflow.run({"data": DATA} | CASE, output="alone")
    assert np.array_equal(alone.predictions, run.predictions)
    assert alone.test is None and "test_error" not in alone.records
    assert alone.test_predictions.shape == (3, 0)
    share = hkflow.run({"data": DATA | {"test_fraction": 0.2}} | CASE, output="share")
    assert share.predictions.shape == (3, 32)


def test_a_resumed_run_goes_on_with_its_test_data(folder):
    case = {"data": DATA | {"test_fraction": 0.2}} | CASE
    whole = hkflow.run(case, output="whole")
    broken = hkflow.run(case, output="broken", observers=[Stop()])
    assert not broken.finished
    again = hkflow.resume("broken")
    assert again.finished
    for name in ("test_error", "test_loss"):
        assert np.array_equal(again.records[name], whole.records[name], equal_nan=True)
    assert np.array_equal(again.test_predictions, whole.test_predictions)


class Stop(hkflow.Observer):
    """Ends a run in its midst."""

    def step(self, method, clock):
        self.late = clock.time > 1.2

    def stop(self):
        return "Stopped by a test" if self.late else None


@pytest.mark.parametrize("by", [30.0, 1000.0, -1000.0])
def test_masses_beyond_numbers(by):
    """Test predictions are in units of e^log_scale, whatever that is."""
    rng, feature, risk = np.random.default_rng(0), FEATURES["relu"], hkflow.RISKS["smooth-margin"]
    make = lambda x: hkflow.Objective(feature, risk, x, np.sign(x[:, 0]))
    train, test = make(rng.standard_normal((8, 2))), make(rng.standard_normal((4, 2)))
    for start, mesh in ((None, hkflow.circle_mesh(16)), (hkflow.PointMeasure(POINTS), None)):
        problem = hkflow.Problem(mesh, train, hkflow.Flow(), (1,), start, test=test)
        solution = hkflow.solve(problem, 0.01, kind="grid" if mesh else "particles")
        state, kind = solution.state_at(-1), method_class(solution.method)
        key = "log_scale" if mesh else "log_weights"
        larger = state | {key: state[key] + by}
        found = predicted_on_tests(problem, kind.measure, larger, by)
        assert found == pytest.approx(solution.test_predictions[-1], rel=1e-9)


POINTS = [[1.0, 0.2], [-0.5, 1.0], [0.3, -1.0]]


def test_a_problem_of_python_has_test_data_too(folder):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 1))
    feature, risk = hkflow.FEATURES["relu"], hkflow.RISKS["square"]
    make = lambda x: hkflow.Objective(feature, risk, hkflow.with_bias(x), np.abs(x[:, 0]))
    flow, mesh = hkflow.Flow(1.0, 2.0), hkflow.circle_mesh(16)
    problem = hkflow.Problem(mesh, make(x[:8]), flow, (1, -1), test=make(x[8:]))
    solution, run = hkflow.solve(problem, 0.5), hkflow.run(problem, end=0.5, output="own")
    wanted = np.sqrt(np.mean((solution.predict(x[8:]) - np.abs(x[8:, 0])) ** 2))
    for one in (solution, run, hkflow.load("own")):
        assert one.records["test_error"][-1] == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(ValueError, match="The test data have 3 columns"):
        hkflow.Problem(mesh, make(x[:8]), flow, (1, -1), test=make(rng.standard_normal((4, 2))))


def test_weights_of_test_data_are_kept(folder):
    """They were lost in run folders: a resumed run went on with equal ones."""
    rng, q = np.random.default_rng(0), np.array([1.0, 0.0, 5.0, 0.0])
    x, y = rng.standard_normal((12, 2)), rng.standard_normal(12)
    make = lambda rows, weights=None: hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], x[rows], y[rows], weights
    )
    problem = hkflow.Problem(
        hkflow.circle_mesh(16),
        make(slice(8)),
        hkflow.Flow(1.0, 2.0),
        (1, -1),
        test=make(slice(8, 12), q),
    )
    whole = hkflow.run(problem, end=2.0, output="weighted")
    hkflow.run(problem, end=2.0, output="cut", observers=[Stop()])
    off = whole.test_predictions[-1] - y[8:]
    for run in (whole, hkflow.load("weighted"), hkflow.resume("cut")):
        assert np.array_equal(run.test.weights, q)
        assert run.records["test_error"][-1] == pytest.approx(np.sqrt(q @ off**2 / q.sum()))
        assert run.records["test_loss"][-1] == pytest.approx(0.5 * q @ off**2)


@pytest.mark.parametrize("weights", [None, [0.25] * 4, [0.1, 0.2, 0.3, 0.4]])
def test_weights_of_a_share_of_the_rows_add_up_to_those_of_all(weights):
    """Equal ones are the same as none."""
    data = {"source": "inline", "inputs": [[1.0, 0.2], [-0.5, 1.0], [0.3, -0.4], [0.2, 0.9]]}
    data |= {"targets": [1.0, 2.0, 3.0, 4.0], "test_fraction": 0.5}
    tables = CASE | {"data": data | ({"weights": weights} if weights else {})}
    tables |= {"objective": {"activation": "relu", "loss": "square"}}
    problem = hkflow.check(tables)[1]
    wanted = np.array(weights or [0.25] * 4)
    for one in (problem.objective, problem.test):
        rows = wanted[one.targets.astype(int) - 1]
        assert one.weights == pytest.approx(rows / rows.sum(), rel=1e-15)


def test_a_share_of_weight_0_is_refused_as_such():
    keys = {"source": "inline", "inputs": [[1.0], [2.0]], "targets": [1.0, 2.0]}
    with pytest.raises(hkflow.CaseError, match="all rows that data.test_fraction .* weight 0"):
        hkflow.check(CASE | {"data": keys | {"weights": [1.0, 0.0], "test_fraction": 0.5}})


def test_an_accuracy_that_counts_by_weights_says_so(folder):
    """It read as a share of the rows, as 63.2 % of 9."""
    keys = {"source": "inline", "inputs": [[1.0, 0.2], [-0.5, 1.0], [0.3, -0.4], [0.2, 0.9]]}
    keys |= {"targets": [1.0, -1.0, -1.0, 1.0], "test_fraction": 0.5}
    for weights, said in ([0.1, 0.2, 0.3, 0.4], "of 2 rows by their weights"), (None, "of 2 rows"):
        run = hkflow.run(CASE | {"data": keys | {"weights": weights}}, output=f"{said}")
        assert dict(summary(run))["test error"].endswith(said)


def test_a_second_frame_tests_as_a_second_file_does(folder):
    """Arrays or texts by column; the run folder keeps the rows as it uses them."""
    (header, *own), (_, *held) = (
        [line.split(",") for line in (folder / name).read_text().split()]
        for name in ("d.csv", "t.csv")
    )
    frames = [
        {name: [row[k] for row in table] for k, name in enumerate(header)} for table in (own, held)
    ]
    data = {key: value for key, value in DATA.items() if key != "file"}
    data |= {"source": "frame", "frame": frames[0], "test_frame": frames[1]}
    made = hkflow.run(CASE | {"data": data}, output="by frame", quiet=True)
    file = hkflow.run(CASE | {"data": DATA | {"test_file": "t.csv"}}, output="by file", quiet=True)
    np.testing.assert_array_equal(made.test_predictions, file.test_predictions)
    assert np.array_equal(hkflow.load("by frame").test.targets, file.test.targets)
    with pytest.raises(hkflow.CaseError, match="either 'test_fraction' or 'test_frame'"):
        hkflow.check(CASE | {"data": data | {"test_fraction": 0.2}})


def test_a_run_that_stops_tells_its_last_known_test_error(tmp_path):
    """It stops between the steps at which the test error is recorded, and said nan."""
    case = {
        "data": {"source": "teacher", "n": 12, "units": 2, "classify": True, "test_fraction": 0.3},
        "objective": {"activation": "relu", "loss": "smooth-margin"},
        "domain": {"kind": "sphere"},
        "energy": [
            {"kind": "interaction", "kernel": "gaussian", "width": 0.5, "strength": -3.0},
        ],
        "flow": {"transport": 1.0, "reaction": 4.0},
        "method": {"kind": "particles", "particles": 20},
        "time": {"end": 3.0},
        "certificate": {"seconds": 0.0},
    }
    run = hkflow.run(case, output=tmp_path / "run", quiet=True)
    errors = run.records["test_error"]
    assert not run.finished and np.isnan(errors[-1]), run.status
    known = np.flatnonzero(~np.isnan(errors))[-1]
    said = dict(summary(run))["test error"]
    assert said.startswith(f"{errors[known]:.4g}, ")
    assert said.endswith(f", at t = {run.records['time'][known]:g}")
