"""Several classes from a table to predictions: the loss softmax in cases, run folders, commands."""

import csv
import io

import h5py
import numpy as np
import pytest
from commands import hk
from legible import legible
from scipy.integrate import solve_ivp
from scipy.special import softmax

import hkflow
from hkflow import plots
from hkflow.store.predictions import predicted, read_rows

CASE = {
    "data": {"source": "file", "file": "t.csv", "label": "kind", "missing": "impute",
             "standardize": True, "test_fraction": 0.25},
    "objective": {"loss": "softmax", "bias": True},
    "domain": {"kind": "sphere"},
    "flow": {"kind": "hellinger-kantorovich"},
    "method": {"kind": "particles", "particles": 40, "tolerance": 1e-4},
    "time": {"end": 4.0, "saves": 3},
}  # fmt: skip
NAMES = ("ash", "birch", "cedar")


def table(names=NAMES, seed=3, n=48):
    """Three clusters of two inputs, with a gap, by the names of their classes."""
    rng, rows = np.random.default_rng(seed), ["a;b;kind"]
    for k in range(n):
        center = ((0.0, 2.0), (2.0, -1.0), (-2.0, -1.0))[k % 3]
        a, b = rng.normal(center, 0.7)
        rows.append(f"{'' if k == 7 else f'{a:.3f}'};{b:.3f};{names[k % 3]}")
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    (folder / "t.csv").write_text(table())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return hkflow.run(CASE, output=folder / "run", quiet=True)


def equations(x, labels, beta=4.0):
    """The right-hand side of particles θ = (a, b) of weight e^l, in NumPy: θ̇ = −∇J, l̇ = −β J."""
    k, p = 1 + labels.max(), x.shape[1]

    def rate(_, y):
        points, logs = y[: -len(y) // (p + k + 1)].reshape(-1, p + k), y[-len(y) // (p + k + 1) :]
        a, b = points[:, :p], points[:, p:]
        psi = np.maximum(x @ a.T, 0.0)
        r = (softmax((psi * np.exp(logs)) @ b, axis=1) - np.eye(k)[labels]) / len(x)
        of_a = ((r @ b.T) * (psi > 0.0)).T @ x
        gradient = np.hstack([of_a, psi.T @ r])
        J = np.sum(b * (psi.T @ r), axis=1)
        along = np.sum(points * gradient, axis=1, keepdims=True)
        return np.concatenate([(points * along - gradient).ravel(), -beta * J])

    return rate


def inline(x, labels, start, **method):
    """The case of given data and particles."""
    data = {"source": "inline", "inputs": x, "targets": labels.astype(float)}
    initial = {"kind": "points", "positions": start, "mass": 1.0}
    case = {"data": data, "objective": {"loss": "softmax"}, "initial": initial}
    method = {"kind": "particles"} | method
    return CASE | case | {"method": method, "time": {"end": 0.5}}


@pytest.mark.parametrize(
    ("method", "off"),
    [
        ({"kind": "particles", "particles": 40}, 1e-14),
        ({"kind": "particles", "particles": 40, "points": "random"}, 1e-14),
        ({"kind": "grid"}, 0.1),  # of cells that hold some of it
    ],
)
def test_balanced_units_have_input_and_output_weights_of_one_size(method, off, rng):
    """The last output alone had the size of all others and the inputs."""
    x, labels = rng.normal(size=(9, 2)), np.arange(9) % 2
    case = inline(x, labels, []) | {"initial": {"kind": "balanced"}, "method": method}
    case["domain"] = (
        {"kind": "sphere", "cells": 840} if method["kind"] == "grid" else CASE["domain"]
    )
    start = hkflow.check(case)[1].atoms()
    sizes = np.linalg.norm(start.positions[start.weights > 0.0, :2], axis=1)
    assert start.positions.shape[1] == 4 and np.abs(sizes**2 - 0.5).max() < 2.0 * off


def test_particles_follow_their_equations(rng, tmp_path):
    """Against scipy's integrator with tight tolerances; ReLU units that stay off their kinks."""
    x, labels = np.abs(rng.normal(size=(9, 2))), np.arange(9) % 3
    start = rng.normal(size=(12, 5))
    start[:, :2] = np.abs(start[:, :2]) * np.where(np.arange(12) % 4, 1.0, -1.0)[:, None]
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    case = inline(x, labels, start, tolerance=1e-10)
    found = hkflow.run(case, output=tmp_path / "r", quiet=True).predictions[-1]

    def apart(beta):
        y = np.concatenate([start.ravel(), np.full(12, -np.log(12.0))])
        ends = (0.0, case["time"]["end"])
        y = solve_ivp(equations(x, labels, beta), ends, y, rtol=1e-11, atol=1e-13).y[:, -1]
        points, weights = y[:60].reshape(12, 5), np.exp(y[60:])
        return np.abs((np.maximum(x @ points[:, :2].T, 0.0) * weights) @ points[:, 2:] - found)

    assert found.shape == (9, 3) and np.abs(found).max() > 0.1
    assert apart(4.0).max() < 1e-8 < 1e-3 < apart(2.0).max()  # another reaction is seen


def test_a_grid_and_particles_agree(tmp_path):
    """One input and two classes live on S²."""
    x = np.linspace(-1.0, 1.0, 8)[:, None]
    case = inline(x, (x[:, 0] > 0.1).astype(int), [[1.0, 0.0, 0.0]]) | {
        "initial": {"kind": "uniform"}
    }
    runs = [
        hkflow.run(case | made, output=tmp_path / made["method"]["kind"], quiet=True)
        for made in (
            {"method": {"kind": "grid"}, "domain": {"kind": "sphere", "cells": 642}},
            {"method": {"kind": "particles", "particles": 2000, "tolerance": 1e-4}},
        )
    ]
    assert runs[0].domain.name == "S^2" and runs[0].predictions.shape == (2, 8, 2)
    apart = np.abs(runs[0].predictions[-1] - runs[1].predictions[-1]).max()
    assert apart < 0.02 * np.abs(runs[1].predictions[-1]).max()


def test_what_a_run_keeps(run):
    """Folder, results file and memory say the same; records are those of the predictions."""
    assert run.predictions.shape == (3, 36, 3) and run.class_names == list(NAMES)
    assert run.test_predictions.shape == (3, 12, 3) and run.case.data.classes == list(NAMES)
    packed = hkflow.load(run.path / "results.h5")
    np.testing.assert_array_equal(packed.predictions, run.predictions)
    assert packed.class_names == run.class_names
    again = run.predict(run.inputs, prepared=True)
    np.testing.assert_allclose(again, packed.predictions[-1], rtol=1e-10, atol=1e-12)
    with h5py.File(run.path / "results.h5") as file:
        dims = [axis.keys() for axis in file["predictions"].dims]
        assert file["predictions"].shape == (3, 36, 3) and dims == [["time"], ["datum"], ["class"]]
    wrong = run.test_predictions[-1].argmax(axis=1) != run.test.targets
    assert run.records["test_error"][-1] == wrong.mean() < 0.2
    h, y = run.predictions[-1].copy(), run.targets.astype(int)
    own = h[np.arange(36), y]
    h[np.arange(36), y] = -np.inf
    lead = (own - h.max(axis=1)).min() / run.mass[-1]
    assert run.records["margin"][-1] == pytest.approx(lead, rel=1e-12)
    assert run.records["training_error"][-1] == np.mean(own <= h.max(axis=1))


def test_raw_rows_are_predicted_by_name(run, tmp_path):
    """The command writes the class and the scores; rows of the data get those of the run."""
    text = (run.path.parent / "t.csv").read_text()
    out, _ = hk("predict", run.path, run.path.parent / "t.csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    scores = np.array([[float(row[f"prediction {name}"]) for name in NAMES] for row in rows])
    assert [row["class"] for row in rows] == [NAMES[k] for k in scores.argmax(axis=1)]
    labels = [line.rpartition(";")[2] for line in text.split()[1:]]
    assert np.mean([row["class"] == label for row, label in zip(rows, labels, strict=True)]) > 0.9
    apart = np.abs(scores[:, None] - run.predictions[-1]).max(axis=2).min(axis=1)
    assert np.sum(apart < 1e-12) == 36  # the others are held out
    raw = run.predict([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0], [np.nan, -1.0]])
    assert raw.argmax(axis=1)[:3].tolist() == [0, 1, 2] and np.isfinite(raw).all()
    (tmp_path / "new.csv").write_text("a,b\n,2\n")
    found = predicted(run, read_rows(run, tmp_path / "new.csv"))
    assert list(found) == ["line", *(f"prediction {name}" for name in NAMES), "class"]


def test_sibling_names_of_other_classes_are_seen(run, monkeypatch):
    """Predicted rows that are called by the names in another order are wrong."""

    def right():
        out, _ = hk("predict", run.path, run.path.parent / "t.csv")
        found = [row["class"] for row in csv.DictReader(io.StringIO(out))]
        return np.mean([name == NAMES[k % 3] for k, name in enumerate(found)])

    assert right() > 0.9
    monkeypatch.setattr(type(run), "class_names", list(NAMES[::-1]))
    assert right() < 0.5


def test_labels_are_texts_or_numbers_in_any_order(run, tmp_path, monkeypatch):
    """Labels 1, 2, 10 are the same classes; another order permutes them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(table(("1", "2.0", "10")))
    _, numbered = hkflow.check(CASE)
    assert numbered.prepare.classes == ["1", "2", "10"]
    np.testing.assert_array_equal(numbered.objective.targets, run.targets)
    _, permuted = hkflow.check(CASE | {"data": CASE["data"] | {"classes": [10, 1, 2]}})
    assert permuted.prepare.classes == ["10", "1", "2"]
    order = np.array([1.0, 2.0, 0.0])[run.targets.astype(int)]
    np.testing.assert_array_equal(permuted.objective.targets, order)


def test_a_run_goes_on_to_the_same_bits(run, tmp_path, monkeypatch):
    monkeypatch.chdir(run.path.parent)
    steps = []

    class Cut(hkflow.Observer):
        def step(self, method, clock):
            steps.append(clock.step)

        def stop(self):
            return "Enough" if len(steps) == 7 else None

    cut = hkflow.run(CASE, output=tmp_path / "cut", quiet=True, observers=[Cut()])
    assert not cut.finished
    whole = hkflow.resume(tmp_path / "cut", quiet=True)
    assert whole.finished
    np.testing.assert_array_equal(whole.predictions, run.predictions)
    np.testing.assert_array_equal(whole.records["objective"], run.records["objective"])


def test_commands_know_such_runs(run, tmp_path):
    out, _ = hk("info", run.path)
    assert "accuracy" in out and "rows" in out
    bars = hkflow.error_bars(run)
    assert bars.each.shape == run.predictions.shape and bars["predictions"][-1] > 0.0
    made = hkflow.export(run, "csv", "netcdf", output=tmp_path)
    text = next(path for path in made if "predictions" in path.name).read_text()
    assert text.startswith("time,log_scale,datum,target,class,prediction\n0.0,0.0,0,")
    hk("report", run.path)
    with plots.style():
        for name in plots.available(run):
            texts = legible(plots.draw(name, run))
            if name in ("decision", "overview"):
                assert {*NAMES, "test", "a, standardised", "b, standardised"} <= set(texts)


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"objective": {"loss": "logistic"}}, "as 'softmax'|the loss 'softmax', which tells all"),
        ({"objective": {"loss": "softmax", "activation": "squared-relu"}}, "'relu' or 'linear'"),
        ({"domain": {"kind": "signed-sphere"}}, "choose 'sphere', got 'signed-sphere'"),
        ({"method": {"kind": "characteristics"}}, "choose particles, network, or a grid"),
        ({"method": {"kind": "network", "layers": "output"}}, "choose 'both' or 'radii'"),
        ({"domain": {"kind": "sphere", "cells": 642}, "method": {"kind": "grid"}},
         r"make 6 coordinates.*Set method.kind = 'particles'"),
        ({"data": CASE["data"] | {"positive": ["ash"], "negative": ["birch"]}}, "leave out 'pos"),
        ({"data": CASE["data"] | {"classes": ["ash", "brich"]}}, "Did you mean 'birch'"),
        ({"data": CASE["data"] | {"classes": ["ash", "ash"]}}, "twice in 'classes'"),
        ({"data": CASE["data"] | {"test_fraction": 0.95}}, "no training data of class"),
        ({"data": {"source": "xor", "n": 10}}, "'xor' makes no classes 0, 1"),
        ({"data": {"source": "inline", "inputs": [[0.0], [1.0]], "targets": [0.0, 0.5]}},
         "needs the numbers 0, 1, … of classes, got 0.5"),
        ({"data": CASE["data"] | {"classes": ["ash", "birch"]},
          "objective": {"loss": "logistic"}}, "classes is read with the loss 'softmax'"),
        ({"data": CASE["data"] | {"label": "b"}}, "no training data of class|different labels"),
        ({"flow": {"kind": "hellinger-kantorovich", "time_variable": "margin"}}, "runs by the sm"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_at_once(tables, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(table())
    with pytest.raises(hkflow.CaseError, match=sentence):
        hkflow.check(CASE | tables)


def test_runs_end_where_their_smooth_margin_is_reached(tmp_path, monkeypatch):
    """It was said that there is none, though it was recorded."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(table())
    time = {"end": 1000.0, "saves": 2, "until_margin": 0.9}
    run = hkflow.run(CASE | {"time": time}, output="run", quiet=True)
    assert run.finished and run.time[-1] < 900.0 and "smooth margin is 0.900" in run.status
    h, y = run.predictions[-1], run.targets.astype(int)
    loss = np.log(np.exp(h - h[np.arange(len(y)), y][:, None]).sum(axis=1))
    assert -np.log(loss.mean()) == pytest.approx(0.9, rel=1.1e-3)


def test_labels_of_test_files_are_those_of_the_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(table())
    data = {key: value for key, value in CASE["data"].items() if key != "test_fraction"}
    data |= {"test_file": "later.csv"}
    (tmp_path / "later.csv").write_text("a,b,kind\n1,2,birch\n2,1,cedar\n")
    _, made = hkflow.check(CASE | {"data": data})
    assert made.test.targets.tolist() == [1.0, 2.0]
    (tmp_path / "later.csv").write_text("a,b,kind\n1,2,birch\n2,1,oak\n")
    with pytest.raises(hkflow.CaseError, match="'oak' is none of ash, birch, cedar"):
        hkflow.check(CASE | {"data": data})


def test_effective_data_count_data_and_not_their_outputs(run):
    """At the start, where all classes are as probable, each datum weighs the same."""
    assert run.records["effective_data"][0] == pytest.approx(len(run.targets), rel=1e-2)
