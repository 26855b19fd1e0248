"""`hkflow margin`: values with their proofs, from a case and from a run, and what is refused."""

import json
import signal
from dataclasses import replace

import numpy as np
import pytest
from conftest import ROOT
from typer.testing import CliRunner

import hkflow
from hkflow.analysis.margin_report import margin_report
from hkflow.app.cli import app
from hkflow.certificates import column_generation

CLUSTERS, PATH = (
    ROOT / "cases" / "colt" / "cluster-margin.toml",
    ROOT / "cases" / "moroshko" / "path.toml",
)
CLASSES = ROOT / "cases" / "quickstart" / "three-classes.toml"
RAW, IRIS = (
    ROOT / "cases" / "moroshko" / "raw-network.toml",
    ROOT / "cases" / "quickstart" / "iris.toml",
)
SMALL = """
title = "seven data on a line"
[data]
source = "inline"
inputs = [[-1.6], [-1.1], [-0.5], [0.1], [0.6], [1.2], [1.8]]
targets = [1, 1, 1, -1, -1, 1, 1]
[objective]
activation = "ACTIVATION"
bias = true
loss = "smooth-margin"
[domain]
kind = "DOMAIN"
cells = 162
[flow]
kind = "hellinger-kantorovich"
[time]
end = 0.1
"""


def small(folder, activation="relu", domain="signed-sphere"):
    """The path of a case of seven data on a line."""
    path = folder / f"{activation}.toml"
    path.write_text(SMALL.replace("ACTIVATION", activation).replace("DOMAIN", domain))
    return path


def independent_margin(report):
    """min_i y_i h(x_i) of the optimal measure, by NumPy alone."""
    o, atoms = report.problem.objective, report.f1.atoms
    h = np.maximum(o.inputs @ atoms.positions.T, 0.0) @ (atoms.signs * atoms.weights)
    return float((o.targets * h).min() / atoms.weights.sum())


def network_margin(stored, inputs, targets, joint):
    """min_i y_i f(x_i) over the squared norm of all weights of the network f of a stored measure:
    balanced, or joint units."""
    positions, root = np.array(stored["positions"]), np.sqrt(stored["weights"])[:, None]
    if joint:
        hidden, output = root * positions[:, :-1], root[:, 0] * positions[:, -1]
    else:
        hidden, output = root * positions, root[:, 0] * stored["signs"]
    f = np.maximum(inputs @ hidden.T, 0.0) @ output
    return (targets * f).min() / (np.sum(hidden**2) + np.sum(output**2))


def strict(path):
    """The JSON of a file, in which Infinity and NaN are errors."""

    def refuse(word):
        raise AssertionError(word)

    return json.loads(path.read_text(), parse_constant=refuse)


def test_a_case_gives_values_files_and_a_picture(tmp_path):
    result = CliRunner().invoke(app, ["margin", str(CLUSTERS), "--output", str(tmp_path / "m")])
    assert result.exit_code == 0 and "certified" in result.stdout and "half of it" in result.stdout
    stored, o = (
        strict(tmp_path / "m" / "margin.json"),
        hkflow.check(CLUSTERS)[1].objective,
    )
    low, high = stored["gamma_l1"]
    assert 0.0 < low <= high <= low * (1.0 + 1e-6) and stored["certified"]
    assert stored["half_gamma_l1"][0] == pytest.approx(
        network_margin(stored, o.inputs, o.targets, False), rel=1e-9
    )
    assert sum(stored["weights"]) == pytest.approx(1.0) and sum(stored["dual"]) == pytest.approx(
        1.0
    )
    assert (tmp_path / "m" / "margin.png").read_bytes()[:4] == b"\x89PNG"


def test_the_margins_of_a_case_and_of_its_run_lie_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case, command = small(tmp_path), CliRunner()
    hkflow.run(case, **{"domain.cells": 162})
    written = {}
    for words in ((case,), ("--from", "runs/relu"), ("--from", "runs/relu/results.h5")):
        result = command.invoke(app, ["margin", *map(str, words)])
        assert result.exit_code == 0, result.output
        path = result.stdout.partition("values:")[2].split()[0]
        assert path not in written
        written[path] = (tmp_path / path).read_bytes()
    assert list(written)[:2] == ["margins/relu/margin.json", "runs/relu/margin/margin.json"]
    assert all((tmp_path / path).read_bytes() == content for path, content in written.items())


def test_a_run_is_polished_into_the_same_interval(tmp_path):
    run = hkflow.run(CLUSTERS, output=tmp_path / "run", domain={"cells": 162}, time={"end": 60.0})
    polished, plain = margin_report(run=run.path), margin_report(CLUSTERS)
    assert polished.f1.relative_gap <= 1e-6 and plain.f1.relative_gap <= 1e-6
    assert max(polished.f1.lower, plain.f1.lower) <= min(polished.f1.upper, plain.f1.upper)
    low, high = polished.enclosed
    assert (
        low <= polished.f1.upper
        and high >= polished.f1.lower
        and (high - low) < 1.5 * polished.f1.lower
    )
    assert independent_margin(polished) == pytest.approx(polished.f1.lower, rel=1e-12)
    assert "the run proved" in str(polished)
    assert "F₁ max-margin:    in [" in CliRunner().invoke(app, ["info", str(run.path)]).stdout


def test_energies_beside_data_leave_their_margin_as_it_is(tmp_path):
    plain = margin_report(small(tmp_path))
    energies = [{"kind": "external", "potential": "x"}, {"kind": "entropy", "temperature": 0.1}]
    added = margin_report(small(tmp_path), energy=energies, **{"domain.cells": 42})
    assert (added.f1.lower, added.f1.upper) == (plain.f1.lower, plain.f1.upper)
    assert added.f2.machine.value == plain.f2.machine.value


def test_a_network_has_a_tangent_kernel_and_atoms_a_programme_of_their_own(tmp_path):
    with_network = (
        CLUSTERS.read_text()
        .replace('drive = "measure"\n', "")
        .replace('kind = "spherical-hellinger-kantorovich"', "")
    )
    case = tmp_path / "case.toml"
    case.write_text(
        with_network.replace("[flow]\n", "")
        + '\n[method]\nkind = "network"\npoints = "gaussian"\nunits = 50\n'
    )
    report = margin_report(case)
    assert report.tangent.machine.value > 0.0 and set(report.classifiers()) == {
        "F₁",
        "F₂",
        "tangent kernel",
    }
    for function in report.classifiers().values():
        o = report.problem.objective
        assert (o.targets * function(o.inputs)).min() == pytest.approx(1.0, abs=1e-6)
    assert margin_report(PATH).f1.lower == pytest.approx(0.5, abs=1e-9)


def test_joint_units_have_the_numbers_of_the_signed_sphere(tmp_path):
    """A joint network is measured by the squared norm of its weights itself, so that its max-margin
    is γ_ℓ1/2."""
    reports = {
        name: margin_report(small(tmp_path, name, domain))
        for name, domain in (("relu", "signed-sphere"), ("joint-relu", "sphere"))
    }
    stored = {name: strict(report.write(tmp_path / name)) for name, report in reports.items()}
    for key in ("gamma_l1", "half_gamma_l1"):
        assert stored["joint-relu"][key] == pytest.approx(stored["relu"][key], rel=2e-6)
    for name, report in reports.items():
        o = report.problem.objective
        margin = network_margin(stored[name], o.inputs, o.targets, name == "joint-relu")
        assert stored[name]["half_gamma_l1"][0] == pytest.approx(margin, rel=1e-9)
        assert stored[name]["f1"][0] == pytest.approx(
            margin * (1.0 if name == "joint-relu" else 2.0), rel=1e-9
        )
        assert f"{stored[name]['half_gamma_l1'][0]:.7g}"[:9] in str(report)


def test_half_of_it_is_said_of_balanced_units_alone(tmp_path):
    """Not of squared ReLU, nor of atoms, where |u|² is |w|₁ at depth 2."""
    for report in (margin_report(small(tmp_path, "squared-relu")), margin_report(PATH)):
        assert (
            "of a network" not in str(report)
            and strict(report.write(tmp_path / "m"))["half_gamma_l1"] is None
        )
    assert "half of it" in str(margin_report(small(tmp_path)))


def test_equal_margins_are_drawn(tmp_path):
    result = CliRunner().invoke(app, ["margin", str(RAW), "--output", str(tmp_path)])
    assert result.exit_code == 0, result.exception
    assert (tmp_path / "margin.png").stat().st_size > 5000


def classes(folder, inputs, activation="relu", method=""):
    """The path of a case of nine data and three classes with one, two or three inputs each."""
    path = folder / "classes.toml"
    text = SMALL.partition("[data]")[0] + "[data]\nsource = 'inline'\n"
    text += f"inputs = {inputs.tolist()}\ntargets = [0, 1, 2, 0, 1, 2, 0, 1, 2]\n"
    text += f"[objective]\nactivation = '{activation}'\nbias = true\nloss = 'softmax'\n"
    text += "[domain]\nkind = 'sphere'\n[time]\nend = 0.1\n"
    path.write_text(text + (method or "[flow]\nkind = 'hellinger-kantorovich'\n"))
    return path


def network_lead(stored, inputs, targets):
    """min_i min_{l ≠ y_i} f_{y_i} − f_l over the squared norm of all weights of the network f."""
    p, root = inputs.shape[1], np.sqrt(stored["weights"])[:, None]
    units = root * np.array(stored["positions"])
    f = np.maximum(inputs @ units[:, :p].T, 0.0) @ units[:, p:]
    rows, y = np.arange(len(f)), targets.astype(int)
    own = f[rows, y]
    f[rows, y] = -np.inf
    return (own - f.max(axis=1)).min() / np.sum(units**2)


def test_several_classes_have_a_margin_of_their_own(tmp_path):
    """Of three irises; the picture is the map of their classes."""
    words = ["margin", str(CLASSES), "--output", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0 and "(certified)" in result.stdout
    stored, o = strict(tmp_path / "margin.json"), hkflow.check(CLASSES)[1].objective
    low, high = stored["f1"]
    assert 0.011 < low <= high <= low * (1.0 + 1e-6) and stored["certified"]
    assert network_lead(stored, o.inputs, o.targets) == pytest.approx(low, rel=1e-9)
    assert np.shape(stored["dual"]) == (112, 3) and np.sum(stored["dual"]) == pytest.approx(1.0)
    assert stored["gamma_l1"] is None and stored["half_gamma_l1"] is None
    assert "the same, per squared norm of all weights\n" in result.stdout
    assert result.stdout.startswith("max-margin γ in [0.0113") and "F₁" not in result.stdout
    one = "left out: kernel machines are for one output, these units have 3"
    assert f"F₂ max-margin:    {one}\n" in result.stdout
    assert (tmp_path / "margin.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_margin_of_a_run_of_several_classes_is_drawn(dim, tmp_path, rng):
    """Maps of two inputs, histograms of others; and the same from the run."""
    centres = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])[:, :dim]
    case = classes(tmp_path, np.tile(centres, (3, 1)) + 0.1 * rng.normal(size=(9, dim)))
    run = hkflow.run(case, output=tmp_path / "run")
    result = CliRunner().invoke(app, ["margin", "--from", str(run.path)])
    assert result.exit_code == 0, result.exception
    found = margin_report(case)
    low, high = strict(run.path / "margin" / "margin.json")["f1"]
    assert found.f1.reached and max(low, found.f1.lower) <= min(high, found.f1.upper)
    least = found.problem.objective.leads(found.classifiers()["F₁"](found.problem.objective.inputs))
    assert least.min() == pytest.approx(1.0, rel=1e-9)
    assert (run.path / "margin" / "margin.png").stat().st_size > 5000


def test_several_classes_without_a_margin_are_told(tmp_path):
    """Linear units cannot lead where the classes alternate on a line, nor have such units kernels
    here."""
    inputs = np.arange(9.0)[:, None]
    case = classes(tmp_path, inputs, "linear", "[method]\nkind = 'network'\npoints = 'gaussian'\n")
    result = CliRunner().invoke(app, ["margin", str(case), "--output", str(tmp_path / "out")])
    assert result.exit_code == 0, result.exception
    assert "the data are not separable: weights on rows" in result.stdout
    one = "left out: kernel machines are for one output, these units have 3"
    assert all(f"{name:18}{one}" in result.stdout for name in ("F₂ max-margin:", "tangent kernel:"))
    assert (tmp_path / "out" / "margin.png").read_bytes()[:4] == b"\x89PNG"


def test_what_is_infinite_is_said_in_words(tmp_path):
    """Two irises with equal petals and other names, and a run without an upper value."""
    result = CliRunner().invoke(app, ["margin", str(IRIS), "--output", str(tmp_path / "iris")])
    assert (
        result.exit_code == 0
        and "F₁ max-margin: 0 (certified)" in result.stdout
        and "inf %" not in result.stdout
    )
    assert (
        "no margin is positive: lines 72 and 128 of the data file hold one input with both labels"
        in result.stdout
    )
    assert strict(tmp_path / "iris" / "margin.json")["gamma_l1"] == [0.0, 0.0]
    report = replace(margin_report(small(tmp_path)), enclosed=(0.1, np.inf))
    assert "the run proved:   at least 0.1, no upper value\n" in str(report)
    assert strict(report.write(tmp_path / "run"))["enclosed"] == [0.1, None]


def test_a_report_outlives_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["margin", str(PATH), "--output", str(tmp_path / "file")])
    assert "F₁ max-margin in [" in result.stdout and isinstance(
        result.exception, hkflow.errors.RunFolderError
    )
    assert "margin.json: the values cannot be written (" in str(result.exception)


@pytest.mark.parametrize(
    "words, wanted",
    [
        ((), "needs either a case or a run"),
        (
            ("cases/icm/fig2.toml",),
            (
                "targets +1 and -1, got -2.69183, -2.66044, -2.48996, …. List the classes in"
                " data.positive"
            ),
        ),
        (("cases/population/sphere.toml",), "needs data; a population has none"),
        (("cases/energies/oscillators.toml",), "has none, nor have energies alone"),
        (("cases/moroshko/path.toml", "--tolerance", "nan"), "finite and at least 0, got nan"),
        (("cases/moroshko/path.toml", "--tolerance=-1"), "finite and at least 0, got -1"),
        (("--from", "nowhere"), "no run here"),
        (("--from", "nowhere", "--set", "seed=2"), "Overrides belong to a case"),
    ],
)
def test_what_is_refused(words, wanted, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, ["margin", *words])
    assert result.exit_code != 0 and wanted in str(result.exception)


def test_a_wide_interval_above_0_is_not_taken_for_none(monkeypatch):
    """With a cone or two beyond S² the upper value is far off, and the data are separable."""
    monkeypatch.setattr(column_generation, "WORK_OF_MARGIN", 1)
    changes = {"data.n": 30, "data.dim": 6}
    report = margin_report(ROOT / "cases" / "colt" / "fig2d.toml", **changes)
    assert report.f1.upper > 2.0 * report.f1.lower > 0.0
    assert "not separable" not in str(report) and "the search's end leaves the rest" in str(report)


def test_a_search_that_is_ended_tells_what_it_has_proved(tmp_path):
    """As Ctrl-C ends that of the command, after the linear programme under way."""
    seen = []

    def watch(count, lower, upper):
        seen.append((count, lower, upper))
        return count == 2

    whole, ended = margin_report(CLUSTERS), margin_report(CLUSTERS, watch=watch)
    assert [count for count, _, _ in seen] == [1, 2] and ended.f1.rounds == 2
    assert whole.f1.reached and not ended.f1.reached
    assert ended.f1.certified and ended.f1.lower <= whole.f1.lower
    assert ended.f1.upper >= whole.f1.upper
    assert "the search's end leaves the rest" in str(ended)


def test_ctrl_c_ends_the_search_of_the_command(tmp_path, monkeypatch):
    def interrupted(*args, **options):
        signal.raise_signal(signal.SIGINT)
        return first(*args, **options)

    first = column_generation.l1_margin
    monkeypatch.setattr(column_generation, "l1_margin", interrupted)
    said = CliRunner().invoke(app, ["margin", str(CLUSTERS), "--output", str(tmp_path / "out")])
    assert said.exit_code == 1 and "after 1 linear programmes" in said.output
    assert json.loads((tmp_path / "out" / "margin.json").read_text())


def test_many_data_have_no_kernel_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("hkflow.analysis.margin_report.MOST_DATA", 6)
    report = margin_report(small(tmp_path))
    assert report.f2.startswith("left out: 7 data") and report.f1.reached
    assert "F₂ max-margin:    left out: 7 data" in str(report)
