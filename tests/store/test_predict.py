"""Predictions of raw rows: the run keeps how the columns of its data became inputs."""

import csv
import io
import json

import numpy as np
import pytest
from commands import hk
from scipy.sparse import csr_matrix

import hkflow
from hkflow.accuracy.error_bars import Bar
from hkflow.case.columns import Columns
from hkflow.store.predictions import predicted, read_rows

CASE = {
    "data": {
        "source": "file",
        "file": "train.csv",
        "label": "outcome",
        "positive": ["ill"],
        "negative": ["well"],
        "missing": "impute",
        "standardize": True,
        "components": 2,
    },
    "objective": {"activation": "relu", "bias": True, "loss": "logistic"},
    "domain": {"kind": "signed-sphere"},
    "flow": {"kind": "hellinger-kantorovich"},
    "method": {"kind": "particles", "particles": 40},
    "time": {"end": 0.5},
}
COLOURS = ("red", "green", "blue")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a table with gaps and categories, in German writing."""
    folder = tmp_path_factory.mktemp("predict")
    rng, rows = np.random.default_rng(5), ["length;colour;weight;outcome"]
    for k in range(30):
        a, b = rng.normal(170.0, 10.0), rng.normal(60.0, 8.0)
        cells = ["" if k == 4 else f"{a:.2f}", "" if k == 7 else COLOURS[k % 3], f"{b:.2f}"]
        rows.append(";".join([*cells, "ill" if a / 10 + b > 77 else "well"]).replace(".", ","))
    (folder / "train.csv").write_text("\n".join(rows))
    (folder / "case.toml").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return hkflow.run(CASE, output=folder / "run")


def table(folder):
    """The training rows as dictionaries of texts."""
    text = (folder / "train.csv").read_text().replace(",", ".")
    return list(csv.DictReader(io.StringIO(text), delimiter=";"))


def test_raw_rows_have_the_predictions_of_the_data(run):
    rows = table(run.path.parent)
    wanted = pytest.approx(run.predictions[-1], rel=1e-12)
    columns = {name: np.array([row[name] for row in rows], dtype=object) for name in rows[0]}
    listed = [[row["length"] or None, row["colour"], row["weight"]] for row in rows]
    packed = hkflow.load(run.path / "results.h5")
    for one in (run, hkflow.load(run.path), packed):
        assert one.predict(columns) == wanted and one.predict(listed) == wanted
        assert one.predict(one.inputs, prepared=True) == wanted
        assert one.input_names == ["x₁", "x₂"]
    assert packed.preparation == run.preparation and packed.preparation.refuses is False


def test_a_solution_in_memory_takes_raw_rows_as_well(run, monkeypatch):
    monkeypatch.chdir(run.path.parent)
    problem = hkflow.check(CASE)[1]
    solution = hkflow.solve(problem, 0.5, kind="particles")
    new = [[181.0, "red", 71.5]]
    assert solution.predict(new) == pytest.approx(run.predict(new), rel=1e-12)


def test_by_other_scales_predictions_would_be_others(run, monkeypatch):
    rows = {"length": [181.0], "colour": ["red"], "weight": [71.5]}
    wanted = run.predict(rows)
    found = hkflow.load(run.path)
    size = [2.0 * value for value in found.preparation.size]
    found.__dict__["preparation"] = found.preparation.model_copy(update={"size": size})
    assert abs(found.predict(rows)[0] / wanted[0] - 1.0) > 1e-3


def test_what_does_not_fit_is_said_at_once(run):
    rows = {"length": ["181", "tall"], "colour": ["pink", "red"], "weight": [1.0, 2.0]}
    with pytest.raises(hkflow.CaseError) as caught:
        run.predict(rows)
    assert "row 1, column 'colour': 'pink' is none of blue, green, red" in str(caught.value)
    assert "row 2, column 'length': 'tall' is not a number" in str(caught.value)
    with pytest.raises(hkflow.CaseError, match="unknown column 'weight'.*'weigth'"):
        run.predict({"length": [1.0], "colour": ["red"], "weigth": [1.0]})
    with pytest.raises(ValueError, match=r"3 columns \(length, colour, weight\).* got 2"):
        run.predict([[1.0, 2.0]])


def test_a_cell_that_is_no_number_is_one_fault(run):
    refusing = run.preparation.model_copy(update={"refuses": True})
    with pytest.raises(hkflow.CaseError) as error:
        refusing({"length": ["tall", "170"], "colour": ["red", "red"], "weight": [60.0, None]})
    said = str(error.value)
    assert "2 problems" in said and "row 1, column 'length': 'tall' is not a number" in said
    assert "row 1, column 'length': has no value" not in said and "Fill it in" in said


@pytest.mark.parametrize("rows", [np.zeros((2, 5, 3)), csr_matrix(np.zeros((2, 3)))])
def test_what_is_no_array_of_rows_is_told_its_shape(run, rows):
    with pytest.raises(
        ValueError, match=rf"got {type(rows).__name__} of shape \({rows.shape[0]}, "
    ):
        run.predict(rows)


def test_a_run_without_names_refuses_what_is_no_array_of_rows(tmp_path):
    data = {"source": "inline", "inputs": [[1.0, 0.2], [-0.3, 1.0]], "targets": [1.0, -1.0]}
    run = hkflow.run(CASE | {"data": data, "time": {"end": 0.1}}, output=tmp_path / "run")
    with pytest.raises(ValueError, match=r"rows, \(n, 2\), .* shape \(2, 2, 2\)"):
        run.predict(np.zeros((2, 2, 2)))


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A run of two named columns, and the inputs of its data."""
    x = np.random.default_rng(2).normal(size=(12, 2))
    frame = {"b": x[:, 0], "a": x[:, 1], "y": np.sign(x[:, 0])}
    data = {"source": "frame", "frame": frame, "label": "y", "positive": [1], "negative": [-1]}
    case = CASE | {"data": data, "time": {"end": 0.1}}
    return hkflow.run(case, output=tmp_path_factory.mktemp("named") / "run"), x


def test_an_array_of_rows_has_the_columns_of_the_run_in_their_order(named, tmp_path):
    run, x = named
    np.save(tmp_path / "new.npy", x)
    np.save(tmp_path / "wide.npy", np.zeros((2, 3)))
    found = predicted(run, read_rows(run, tmp_path / "new.npy"))
    assert found["prediction"] == pytest.approx(run.predictions[-1], rel=1e-12)
    with pytest.raises(hkflow.CaseError, match="wanted 2 columns, .* got 3: x1, x2, x3"):
        predicted(run, read_rows(run, tmp_path / "wide.npy"))


def test_a_table_without_a_header_line_is_told_once(named, tmp_path):
    run, _ = named
    (tmp_path / "bare.csv").write_text("0.1,2\n0.3,-1\n")
    (tmp_path / "numbered.csv").write_text("0,1,name\n0.3,-1,x\n")
    with pytest.raises(hkflow.CaseError, match="no column is called 'b', and the first line"):
        predicted(run, read_rows(run, tmp_path / "bare.csv"))
    with pytest.raises(hkflow.CaseError, match="unknown column 'b'. Choose from: 0, 1, name"):
        predicted(run, read_rows(run, tmp_path / "numbered.csv"))


def test_an_array_of_rows_has_them_in_order_whatever_their_names(tmp_path):
    """Of a table with the columns x2, x1 they were silently exchanged: an array has such names."""
    x = np.random.default_rng(2).normal(size=(12, 2))
    frame = {"x2": x[:, 0], "x1": x[:, 1], "y": np.sign(x[:, 0])}
    data = {"source": "frame", "frame": frame, "label": "y", "positive": [1], "negative": [-1]}
    run = hkflow.run(CASE | {"data": data, "time": {"end": 0.1}}, output=tmp_path / "run")
    np.save(tmp_path / "new.npy", x)
    np.save(tmp_path / "wide.npy", np.column_stack([x[:, ::-1], np.zeros(12)]))  # x1, x2, x3
    for name in ("new", "wide"):
        found = predicted(run, read_rows(run, tmp_path / f"{name}.npy"))
        assert found["prediction"] == pytest.approx(run.predictions[-1], rel=1e-12)


def test_no_rows_have_no_error_bars_beside_a_companion(named):
    found = hkflow.load(named[0].path)
    bars = {"predictions": Bar(np.zeros(len(found.time)), np.zeros(len(found.time)))}
    nearby = {"nearby": found.atoms_at(0), "stretch": 2.0}
    found.__dict__["errors"] = hkflow.ErrorBars(found.time, bars, **nearby)
    assert len(predicted(found, Columns.of({"a": [], "b": []}))["error"]) == 0


def test_the_command(run, tmp_path):
    train = run.path.parent / "train.csv"
    out, _ = hk("predict", run.path, train)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [float(row["prediction"]) for row in rows] == pytest.approx(
        run.predictions[-1], rel=1e-12
    )
    assert [int(row["line"]) for row in rows] == list(range(2, 32))
    wanted = ["ill" if h >= 0.0 else "well" for h in run.predictions[-1]]
    assert [row["class"] for row in rows] == wanted
    assert "pred.csv" in hk("predict", run.path, train, "--output", tmp_path / "pred.csv")[0]
    assert (tmp_path / "pred.csv").read_text() == out
    assert "cannot be read" in hk("predict", run.path, tmp_path / "none.csv", code=2)[1]
    (tmp_path / "new.csv").write_text("length;colour\n1,5;red\n")
    new = tmp_path / "new.csv"
    assert "unknown column 'weight'" in hk("predict", run.path, new, code=2)[1]
    assert "choose another file" in hk("predict", run.path, new, "--output", new, code=2)[1]
    assert new.read_text().startswith("length")


@pytest.mark.parametrize("names", [(), ("a", "b", "c")])
def test_a_row_that_no_class_leads_has_none(run, names, monkeypatch):
    """As the training error counts it: h = 0 is right for neither class."""
    scores = np.array([[0.0, -1.0, -2.0], [0.0, 0.0, -1.0], [np.nan] * 3, [-1.0, 0.0, 1.0]])
    monkeypatch.setattr(type(run), "class_names", list(names))
    monkeypatch.setattr(
        type(run),
        "predict",
        lambda *_, **__: scores if names else np.array([1.0, 0.0, np.nan, -1.0]),
    )
    made = predicted(run, read_rows(run, run.path.parent / "train.csv"))
    assert made["class"].tolist() == (["a", "", "", "c"] if names else ["ill", "", "", "well"])


def test_error_bars_stand_beside_predictions(run):
    found = hkflow.load(run.path)
    bar = Bar(np.array([0.0, 0.02]), np.array([0.0, 0.01]))
    found.__dict__["errors"] = hkflow.ErrorBars(found.time, {"predictions": bar})
    made = predicted(found, read_rows(found, run.path.parent / "train.csv"))
    sizes = np.hypot(1.0, np.linalg.norm(run.inputs, axis=1))  # the bias is 1
    sizes = np.maximum(1.0, sizes / np.sqrt(np.mean(sizes**2)))
    assert made["error"] == pytest.approx(0.03 * sizes)
    wide = Bar(np.array([0.0, 0.5]), np.array([0.0, 0.1]))  # of rows that are not fitted
    bars = {"predictions": bar, "test_predictions": wide}
    found.__dict__["errors"] = hkflow.ErrorBars(found.time, bars)
    made = predicted(found, read_rows(found, run.path.parent / "train.csv"))
    assert made["error"] == pytest.approx(0.6 * sizes)
    assert "error" not in predicted(run, read_rows(run, run.path.parent / "train.csv"))


def test_rows_with_gaps_have_no_prediction_where_the_case_drops_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "a,b,y\n" + "".join(f"{k / 10},{(k * 7) % 5},{k % 2}\n" for k in range(12)) + ",1,0\n"
    (tmp_path / "train.csv").write_text(text)
    data = {"source": "csv", "file": "train.csv", "label": "y", "positive": [1], "negative": [0]}
    made = hkflow.run(CASE | {"data": data | {"missing": "drop"}}, output="run")
    found = made.predict({"a": [0.3, None], "b": [1, 2]})
    assert np.isfinite(found[0]) and np.isnan(found[1])
    out, err = hk("predict", "run", "train.csv")
    assert out.splitlines()[-1] == "14,," and "1 row has no prediction" in err
    refusing = made.preparation.model_copy(update={"refuses": True})
    with pytest.raises(hkflow.CaseError, match="row 2, column 'a': has no value"):
        refusing({"a": [0.3, None], "b": [1, 2]})


def test_no_rows_have_no_predictions_and_huge_ones_no_warning(tmp_path):
    rng = np.random.default_rng(0)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["square"], rng.normal(size=(4, 2)), np.ones(4)
    )
    mesh, start = hkflow.circle_mesh(12), np.full((1, 12), 10.0)
    problem = hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 2.0), initial=start)
    solved = hkflow.solve(problem, 1e-3)
    for rows, values in ((np.zeros((0, 2)), []), (np.full((1, 2), 1e308), [np.inf])):
        np.save(tmp_path / "rows.npy", rows)
        table = predicted(solved, read_rows(solved, tmp_path / "rows.npy"))
        assert table["prediction"].tolist() == values


def test_energies_without_data_predict_nothing(tmp_path):
    energy = hkflow.Sum(hkflow.External("-x"), axes=2)
    solved = hkflow.solve(hkflow.Problem(hkflow.circle_mesh(12), energy, hkflow.Flow(1.0)), 0.1)
    np.save(tmp_path / "rows.npy", np.ones((1, 2)))
    with pytest.raises(hkflow.RunFolderError, match="energies without data predict nothing"):
        predicted(solved, read_rows(solved, tmp_path / "rows.npy"))


def test_a_run_that_did_not_keep_its_preparation_says_so(run, tmp_path):
    import shutil

    shutil.copytree(run.path, tmp_path / "old")
    header = json.loads((tmp_path / "old" / "run.json").read_text())
    preparation = header.pop("preparation")
    (tmp_path / "old" / "run.json").write_text(json.dumps(header))
    old = hkflow.load(tmp_path / "old")
    assert old.predict(old.inputs, prepared=True) == pytest.approx(run.predictions[-1], rel=1e-12)
    with pytest.raises(hkflow.RunFolderError, match="did not keep how raw inputs"):
        old.predict([[1.0, 2.0]])
    preparation["mean"].pop()
    (tmp_path / "old" / "run.json").write_text(json.dumps(header | {"preparation": preparation}))
    with pytest.raises(hkflow.RunFolderError, match="damaged"):
        hkflow.load(tmp_path / "old").predict([[1.0, "red", 2.0]])
