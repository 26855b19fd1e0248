"""What a margin run ends with: the max-margin of its data, beside what the run itself proved."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from brute_force import exact_highest, explicit_candidates
from conftest import ROOT
from typer.testing import CliRunner

import hkflow
from hkflow.analysis.margin_report import margin_report
from hkflow.analysis.summary import gamma_text, summary
from hkflow.app.cli import app
from hkflow.app.report import write_report
from hkflow.case.schema.case import Case
from hkflow.certificates import fixed_points, in_span, max_margin
from hkflow.certificates.column_generation import enclosed_max_margin
from hkflow.plots.records import has_margins
from hkflow.running import ending
from hkflow.solving import final_margin
from hkflow.solving.final_margin import final_max_margin
from hkflow.store.margins import arrays_of, write_max_margin

CLUSTERS = ROOT / "cases" / "colt" / "cluster-margin.toml"
SHORT = {"domain.cells": 42, "time.end": 2.0, "time.saves": 2}
SIGNED = (1, -1)
ROOMS = ("column_generation", "search", "global_upper_bound", "cones")
generation, *others = (importlib.import_module(f"hkflow.certificates.{name}") for name in ROOMS)


def a_problem(inputs, targets, feature="relu", loss="logistic", cells=32, signs=SIGNED, **flow):
    objective = hkflow.Objective(
        hkflow.FEATURES[feature], hkflow.RISKS[loss], np.array(inputs, float), targets
    )
    mesh = hkflow.circle_mesh(cells) if objective.axes == 2 else hkflow.geodesic_mesh(1)
    return hkflow.Problem(mesh, objective, hkflow.Flow(**flow or {"reaction": 2.0}), signs)


LINE = [[-1.6, 1], [-1.1, 1], [-0.5, 1], [0.1, 1], [0.6, 1], [1.2, 1], [1.8, 1]]
LABELS = [1, 1, 1, -1, -1, 1, 1]
ANGLES = np.arange(6) * np.pi / 3
HEXAGON = np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])  # y(−x) = −y(x), and not linear
XOR = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
NOT_SEPARABLE = [
    (HEXAGON, [1, -1] * 3, "relu", SIGNED),
    (XOR, [1, -1, -1, 1], "linear", (1,)),
]


def row(run, name):
    return dict(summary(run))[name]


def contains(found, gamma, run):
    """Whether an interval holds the max-margin, and that of the run's records holds it too."""
    own = [run.records[name][-1] for name in ("margin_lower", "margin_upper")]
    tight = found.upper - found.lower <= 1e-4 * found.lower
    meet = max(found.lower, gamma.lower) <= min(found.upper, gamma.upper)
    return tight and meet and own[0] <= found.upper and own[1] >= found.lower


@pytest.mark.parametrize("seed", range(10))
def test_ten_draws_end_with_the_max_margin(seed):
    """Cluster data, from a run that has only begun: its atoms are all cells."""
    problem = hkflow.check(CLUSTERS, seed=seed, domain={"cells": 42})[1]
    run, o = hkflow.solve(problem, 2.0), problem.objective
    found = final_max_margin(run, 5.0)
    assert found.certified and found.reached and contains(found, max_margin(o, SIGNED, 1e-8), run)
    dense = np.concatenate([hkflow.quasi_uniform(5000, 2), explicit_candidates(o.inputs)])
    highest = np.abs((found.dual * o.targets) @ o.feature.matrix(dense, o.inputs)).max()
    assert 0.5 * found.upper < highest <= found.upper
    atoms = found.atoms
    h = np.maximum(o.inputs @ atoms.positions.T, 0.0) @ (atoms.signs * atoms.weights)
    assert found.lower == pytest.approx((o.targets * h).min() / atoms.mass, rel=1e-12)


def test_the_proof_holds_in_exact_arithmetic(rng):
    for _ in range(5):
        x, y = rng.normal(size=(6, 3)), rng.choice([-1.0, 1.0], size=6)
        found = final_max_margin(hkflow.solve(a_problem(x, y), 0.1), 5.0)
        highest = max(exact_highest(x, sign * found.dual * y) for sign in SIGNED)
        assert highest <= found.upper <= highest * (1.0 + 1e-9) + 1e-11


@pytest.mark.parametrize("rounded", [-0.0, -7e-17])
def test_a_max_margin_with_both_output_signs_is_said_to_be_at_least_0(rounded):
    """It was said to lie in [-0, …] or [-6.9e-17, …] where rounding makes the margin of the start
    that."""
    run = hkflow.solve(a_problem(LINE, LABELS), 0.1)
    run.records["margin_lower"][-1] = rounded
    assert row(run, "F₁ max-margin").startswith("in [0, ")


@pytest.mark.parametrize("broken", ["search", "labels"])
def test_sibling_a_wrong_max_margin_is_seen(broken, monkeypatch):
    """A search that overlooks the highest directions, and labels of which one is turned."""
    problem = a_problem(LINE, LABELS)
    run, gamma = hkflow.solve(problem, 0.5), max_margin(problem.objective, SIGNED, 1e-8)
    assert contains(final_max_margin(run, 5.0), gamma, run)
    if broken == "search":
        honest = generation.local_maxima

        def blind(*arguments):
            found = honest(*arguments)
            return type(found)(found.points, found.signs, 0.9 * found.values, True, 0.0)

        monkeypatch.setattr(generation, "local_maxima", blind)
    else:
        run.problem = a_problem(LINE, [1, 1, 1, -1, 1, 1, 1])
    assert not contains(final_max_margin(run, 5.0), gamma, run)


def test_it_shows_everywhere(tmp_path):
    run = hkflow.run(CLUSTERS, output=tmp_path / "run", **SHORT)
    gamma, found = max_margin(run.problem.objective, SIGNED, 1e-9), run.max_margin
    assert contains(found, gamma, run) and found.tolerance == 1e-6
    share = 100.0 * run.records["margin"] / gamma.upper
    assert run.margin_share == pytest.approx(share, rel=2e-6)
    text = gamma_text(found)
    assert text.startswith("γ = 0.0312406") and text.endswith(" (certified to 1e-6)")
    out = CliRunner().invoke(app, ["info", str(run.path / "results.h5")]).stdout
    assert f"{text}: the data are not separated at t = 2\n" in out
    assert "(certified by the run alone)" in out
    assert text in write_report([run], tmp_path / "report.html").read_text()
    figure = hkflow.plots.draw("overview", run)
    titles = [ax.get_legend().get_title().get_text() for ax in figure.axes if ax.get_legend()]
    assert any("0312406" in title and "certified to 1e-6" in title for title in titles)
    content = json.loads((run.path / "max_margin.json").read_text())
    assert (
        content["gamma_lower"] == found.lower and "max-margin" in content["labels"]["gamma_upper"]
    )
    with h5py.File(run.path / "results.h5") as file:
        assert file["max_margin/gamma_upper"][()] == found.upper
        assert "from above" in file["max_margin/gamma_upper"].attrs["long_name"]
        assert file["max_margin/gamma_dual"].dims[0][0].name == "/datum"
    for other in (hkflow.load(run.path), hkflow.load(run.path / "results.h5")):
        for name, value in vars(found).items():
            again = getattr(other.max_margin, name)
            if name != "atoms":
                assert np.array_equal(value, again), name
        assert np.allclose(other.max_margin.atoms.positions, found.atoms.positions, 0.0, 1e-15)


def test_what_is_reached_is_said_in_per_cent(tmp_path):
    """On fixed features, where one linear programme finds γ = 1/2 exactly; the clock is γ̃."""
    end = {"time.end": 20.0, "time.saves": 2}
    run = hkflow.run(ROOT / "cases" / "moroshko" / "path.toml", output=tmp_path / "run", **end)
    share = 100.0 * run.records["margin"][-1] / 0.5
    assert 0.0 < share < 10.0
    wanted = f"of γ = 0.5 (certified to 1e-12): {share:.1f} % reached at γ̃ = 20"
    assert row(run, "margin/mass").endswith(wanted)


def test_it_is_in_the_data_set(tmp_path):
    pytest.importorskip("xarray")
    run = hkflow.run(a_problem(LINE, LABELS), output=tmp_path / "run", end=0.1)
    data = hkflow.to_xarray(run)
    assert data["gamma_upper"] == run.max_margin.upper
    assert data["optimal_positions"].shape == run.max_margin.atoms.positions.shape
    assert "from above" in data["gamma_upper"].attrs["long_name"]


def test_what_is_printed_is_as_right_as_it_says(rng):
    _, problem = hkflow.check(CLUSTERS, domain={"cells": 42})
    truth = max_margin(problem.objective, SIGNED, 1e-10).lower
    for tolerance in (1e-2, 1e-3, 1e-4, 1e-5, 1e-7, 1e-9):
        found = enclosed_max_margin(problem.objective, SIGNED, tolerance)
        text = gamma_text(found)
        if " in [" in text:
            assert found.relative_gap > 1e-3
            continue
        value, accuracy = text.removeprefix("γ = ").removesuffix(")").split(" (certified to ")
        assert abs(float(value) / truth - 1.0) <= float(accuracy) <= 10.0 * found.relative_gap


@pytest.mark.parametrize("small", [1.5e-11, 5e-12])
def test_a_margin_that_atoms_prove_is_not_said_to_be_none(small):
    """Of inputs of very different sizes it is below the resolution, and was said to be 0 beside its
    ends: one unit for each of two inputs on a line, 1/γ = √2 (1/|x₁| + 1/|x₂|)."""
    objective = hkflow.Objective(
        hkflow.vector_feature("relu", 2), hkflow.SOFTMAX, np.array([[small], [-1.0]]), [0, 1]
    )
    start = hkflow.balanced_atoms(50, 2, outputs=2)
    run = hkflow.solve(hkflow.Problem(None, objective, hkflow.Flow(1.0), initial=start), 0.1)
    found, gamma = run.max_margin, np.sqrt(0.5) / (1.0 + 1.0 / small)
    assert found.lower <= gamma <= found.upper <= 2.0 * found.resolution
    assert found.is_positive and not found.is_none
    assert row(run, "max-margin γ").startswith("in [") and has_margins(run)
    said = str(margin_report(run=run))
    assert "not separable" not in said and "no margin" not in said


@pytest.mark.parametrize("inputs, targets, feature, signs", NOT_SEPARABLE)
def test_a_margin_of_zero_is_said_and_no_interval(inputs, targets, feature, signs, tmp_path):
    problem = a_problem(inputs, targets, feature, signs=signs)
    run = hkflow.run(problem, output=tmp_path / "run", end=0.5)
    found = run.max_margin
    assert found.is_none and found.reached and not found.is_positive and run.margin_share is None
    text = row(run, "F₁ max-margin")
    rows = np.flatnonzero(found.dual) + 1
    assert text.startswith("0: weights on rows " if signs == SIGNED else "at most 0: weights on")
    assert f"{rows[-2]} and {rows[-1]} of the data" in text and text.endswith(" above 1e-11")
    assert not has_margins(run) and "[" not in text and "of γ" not in row(run, "margin/mass")
    run.records["margin"][-1] = -0.0
    assert row(run, "margin/mass").split()[0] == "0"
    theta = hkflow.quasi_uniform(1000, problem.dim)
    values = (found.dual * problem.objective.targets) @ problem.objective.feature.matrix(
        theta, problem.objective.inputs
    )
    assert np.abs(values).max() <= found.upper <= 1e-11


def test_sibling_data_that_are_separable_have_no_such_row(tmp_path):
    turned = [*NOT_SEPARABLE[0][1][:-1], 1]
    run = hkflow.run(a_problem(HEXAGON, turned), output=tmp_path / "run", end=0.5)
    assert run.max_margin.is_positive and has_margins(run)
    assert "weights on rows" not in row(run, "F₁ max-margin")


def test_contradictory_data_need_no_programme(tmp_path):
    run = hkflow.run(
        a_problem([[1, 1], [2, 1], [1, 1]], [1, 1, -1]), output=tmp_path / "run", end=0.5
    )
    assert run.max_margin is None and not (run.path / "max_margin.json").exists()
    assert (
        row(run, "F₁ max-margin") == "0: rows 1 and 3 of the data hold one input with both labels"
    )


@pytest.mark.parametrize(
    "loss, axes, feature", [("square", 2, "relu"), ("logistic", 4, "squared-relu")]
)
def test_where_nothing_is_certified_nothing_is_said(loss, axes, feature, rng, tmp_path):
    x, y = rng.normal(size=(8, axes)), rng.choice([-1.0, 1.0], size=8)
    start = hkflow.PointMeasure(hkflow.quasi_uniform(50, axes - 1))
    objective = hkflow.Objective(hkflow.FEATURES[feature], hkflow.RISKS[loss], x, y)
    problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), initial=start)
    run = hkflow.run(problem, output=tmp_path / "run", end=0.1)
    assert run.max_margin is None and not any("γ" in text for _, text in summary(run))
    assert "F₁ max-margin" not in dict(summary(run))


def test_ctrl_c_costs_it_alone(tmp_path, monkeypatch):
    seen = []

    def interrupted(run, seconds):
        whole = hkflow.load(run.path / "results.h5")
        seen.append((whole.status, whole.finished, (run.path / "status.json").exists(), seconds))
        raise KeyboardInterrupt

    monkeypatch.setattr(ending, "final_max_margin", interrupted)
    run = hkflow.run(CLUSTERS, output=tmp_path / "run", **SHORT)
    assert seen == [(run.status, True, True, 5.0)] and run.finished and run.max_margin is None
    hint = f"closer: hkflow margin --from {run.path}"
    assert row(run, "F₁ max-margin").endswith(f"(certified); {hint}")
    assert not (run.path / "max_margin.json").exists()


def test_it_can_be_left_out(tmp_path):
    with_it, without = (
        hkflow.run(CLUSTERS, output=tmp_path / name, **SHORT | {"certificate.seconds": seconds})
        for name, seconds in (("with", 5.0), ("without", 0.0))
    )
    assert with_it.max_margin is not None and without.max_margin is None
    for name, values in with_it.records.items():
        assert np.array_equal(values, without.records[name], equal_nan=True), name
    problem = a_problem(LINE, LABELS)
    run = hkflow.run(problem, output=tmp_path / "own", end=0.1, certificate={"seconds": 0.0})
    assert run.max_margin is None


def test_a_run_in_memory_takes_as_long_as_one_in_files():
    default = Case.model_fields["certificate"].default.seconds
    assert default == final_margin.CERTIFICATE_SECONDS


def test_more_data_than_are_cheap_leave_it_to_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(final_margin, "MOST_ROWS", len(LINE) - 1)
    run = hkflow.run(a_problem(LINE, LABELS), output=tmp_path / "run", end=0.1)
    assert run.max_margin is None and "closer: hkflow margin" in row(run, "F₁ max-margin")


def test_loading_the_solver_takes_no_share_of_the_seconds():
    """Where files are slow, as on a network's disk, it took all of them."""
    lines = [
        "import sys, hkflow, numpy",
        "from hkflow.certificates import column_generation as generation",
        "from hkflow.solving.final_margin import max_margin_of",
        f"inputs, targets = {LINE}, {LABELS}",
        "feature, risk = hkflow.FEATURES['relu'], hkflow.RISKS['logistic']",
        "o = hkflow.Objective(feature, risk, numpy.array(inputs, float), targets)",
        "flow = hkflow.Flow(reaction=2.0)",
        "problem = hkflow.Problem(hkflow.circle_mesh(8), o, flow, (1, -1))",
        "def begun(*_): print('scipy.optimize' in sys.modules)",
        "generation.enclosed_max_margin = begun",
        "max_margin_of(problem, None, seconds=5.0)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_when_time_is_up_what_is_known_is_kept(tmp_path, monkeypatch):
    """A clock that jumps after the first linear programme; and no time at all."""
    problem = hkflow.check(CLUSTERS, domain={"cells": 42})[1]
    run, gamma = hkflow.solve(problem, 2.0), max_margin(problem.objective, SIGNED)
    ticks = iter([0.0, 0.0])
    monkeypatch.setattr(generation.time, "monotonic", lambda: next(ticks, 100.0))
    found = final_max_margin(run, 5.0)
    assert found.rounds == 1 and not found.reached and found.certified
    assert found.lower <= gamma.lower <= gamma.upper <= found.upper < 2.0 * gamma.upper
    monkeypatch.undo()
    assert final_max_margin(run, 1e-9) is None
    run.max_margin = found
    assert "of γ in [" in row(run, "margin/mass")


@pytest.mark.parametrize("seed", [1, 2, 6])
def test_a_tolerance_means_what_it_says(seed):
    """At 1e-9 these once ended at 1.3e-9, after 200 rounds, and at 1.2e-9."""
    problem = hkflow.check(CLUSTERS, seed=seed, domain={"cells": 42})[1]
    for tolerance in (1e-9, 1e-10):
        found = max_margin(problem.objective, SIGNED, tolerance)
        assert 0.0 < found.upper - found.lower <= tolerance * found.lower


def test_sibling_a_coarser_programme_misses_it(monkeypatch):
    monkeypatch.setattr(fixed_points, "SHARP", 1.0)
    problem = hkflow.check(CLUSTERS, seed=2, domain={"cells": 42})[1]
    with pytest.raises(hkflow.HkflowError, match="wider than the tolerance 1e-10"):
        max_margin(problem.objective, SIGNED, 1e-10)


def test_a_tolerance_that_rounding_forbids_is_marked(tmp_path):
    words = ["margin", str(CLUSTERS), "--tolerance", "1e-13", "--output", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1 and "wider than the tolerance 1e-13" in result.stdout
    content = json.loads((tmp_path / "margin.json").read_text())
    low, high = content["f1"]
    assert content["reached"] is False and 1e-13 < (high - low) / low < 1e-9


def a_wide_table():
    """Data of S² in twelve coordinates, of which hardly any cone is looked at."""
    rng = np.random.default_rng(3)
    plane = np.column_stack([rng.normal(size=(12, 2)), np.ones(12)])
    turn = np.linalg.qr(rng.normal(size=(12, 12)))[0][:3]
    relu, risk, labels = hkflow.FEATURES["relu"], hkflow.RISKS["logistic"], np.sign(plane[:, 0])
    return (hkflow.Objective(relu, risk, x, labels) for x in (plane, plane @ turn))


def test_climbs_tell_what_no_bound_proves(monkeypatch):
    """Where the certified upper value is far above the margin, which the search in S² knows."""
    plane, wide = a_wide_table()
    exact = enclosed_max_margin(plane, (1, -1))
    assert exact.climbed == exact.upper and not exact.climbs
    monkeypatch.setattr(in_span, "SPARSE", 1e9)
    found = enclosed_max_margin(wide, (1, -1), nodes=100)
    assert found.certified and found.upper > 1.1 * exact.upper
    assert found.lower <= exact.upper and exact.lower <= found.climbed < 1.0001 * exact.upper
    assert found.climbs == f"climbs find at most {found.climbed:.6g}"
    assert f", certified, {found.climbs}, by " in repr(found)


def test_what_climbs_find_is_kept_and_told(tmp_path, monkeypatch):
    run = hkflow.run(a_problem(LINE, LABELS), output=tmp_path / "run", end=0.1)
    gamma = run.max_margin
    wide = replace(gamma, upper=4.0 * gamma.lower, climbed=1.5 * gamma.lower)
    write_max_margin(run.path, wide)
    made = hkflow.load(run.path)
    assert made.max_margin.climbed == wide.climbed
    told = f"(certified; climbs find at most {wide.climbed:.6g})"
    assert told in row(made, "F₁ max-margin")
    report = margin_report(run=run)
    assert "not proved:" not in str(report)
    report = replace(report, f1=wide)
    assert f"\nnot proved:       {wide.climbs}\n" in str(report)
    written = json.loads(report.write(tmp_path).read_text())
    assert written["climbed"] == wide.climbed and written["f1"][1] == wide.upper
    # early versions did not write it
    content = json.loads((run.path / "max_margin.json").read_text())
    del content["gamma_climbed"]
    (run.path / "max_margin.json").write_text(json.dumps(content))
    early = hkflow.load(run.path)
    assert early.max_margin.climbed == wide.upper and "climbs find" not in row(
        early, "F₁ max-margin"
    )
    monkeypatch.setattr("hkflow.store.results.arrays_of", arrays_of_early)
    hkflow.pack(run.path)
    assert hkflow.load(run.path / "results.h5").max_margin.climbed == wide.upper


def arrays_of_early(found):
    return {name: a for name, a in arrays_of(found).items() if name != "gamma_climbed"}


def test_a_damaged_file_is_named(tmp_path):
    run = hkflow.run(a_problem(LINE, LABELS), output=tmp_path / "run", end=0.1)
    path = run.path / "max_margin.json"
    content = json.loads(path.read_text())
    for change in ({"gamma_dual": [1.0]}, {"gamma_upper": None}, {"optimal_signs": "x"}):
        path.write_text(json.dumps(content | change))
        with pytest.raises(hkflow.RunFolderError, match=r"max_margin\.json: damaged .* remove it"):
            assert hkflow.load(run.path).max_margin


class SlowMachine:
    """A clock that only work moves on: so many seconds for each climb and each cone."""

    def __init__(self, monkeypatch, a_climb, a_cone):
        self.now = 0.0
        cones = others[-1]
        for module in (generation, *others):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        climb, search = cones.climb, cones._search

        def slow_climb(x, c, linear, points, values):
            self.now += a_climb * len(points)
            climb(x, c, linear, points, values)

        def slow_search(*arguments):
            counts = arguments[-2]
            looked = counts[5]
            goes_on = search(*arguments)
            self.now += a_cone * (counts[5] - looked)
            return goes_on

        monkeypatch.setattr(cones, "climb", slow_climb)
        monkeypatch.setattr(cones, "_search", slow_search)


@pytest.mark.parametrize(("a_climb", "a_cone"), [(0.02, 1e-5), (1e-4, 1e-3)])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_search_keeps_to_its_time(rng, monkeypatch, a_climb, a_cone, outputs):
    """500 climbs, or the last branch and bound, took up to 40 s more; what is known by then is
    certified all the same."""
    x = rng.normal(size=(30, 4))
    if outputs == 1:
        relu, y = hkflow.FEATURES["relu"], rng.choice([-1.0, 1.0], size=30)
        o, signs = hkflow.Objective(relu, hkflow.RISKS["logistic"], x, y), SIGNED
    else:
        feature, y = hkflow.vector_feature("relu", outputs), rng.integers(0, outputs, size=30)
        o, signs = hkflow.Objective(feature, hkflow.SOFTMAX, x, y), (1,)
    long = enclosed_max_margin(o, signs, 1e-2, nodes=20_000)
    monkeypatch.setattr(others[-1], "WORK_AT_ONCE", 20_000)
    clock = SlowMachine(monkeypatch, a_climb, a_cone)
    found = enclosed_max_margin(o, signs, 1e-9, seconds=2.0, nodes=500_000)
    assert 1.9 < clock.now < 3.5
    assert found.certified and not found.reached and np.isfinite(found.upper)
    assert found.lower <= long.upper and found.upper >= long.lower


def test_climbs_that_run_out_of_time_bound_nothing(rng, monkeypatch):
    """Of features without a bound the upper value is the highest point found, by all climbs."""
    x, y = rng.normal(size=(20, 5)), rng.choice([-1.0, 1.0], size=20)
    tanh = hkflow.ridge(lambda s: (np.tanh(s), 1.0 / np.cosh(s) ** 2), "tanh")
    o = hkflow.Objective(tanh, hkflow.RISKS["logistic"], x, y)
    assert np.isfinite(enclosed_max_margin(o, SIGNED, seconds=60.0).upper)
    monkeypatch.setattr(others[0], "time", SimpleNamespace(monotonic=lambda: np.inf))
    found = enclosed_max_margin(o, SIGNED, seconds=60.0)
    assert found.upper == np.inf and not (found.certified or found.reached)


def test_an_output_layer_that_ends_at_zero_has_its_max_margin(tmp_path):
    """The smooth logistic margin of 0 is 0.37, so that the run ends where it starts, without an
    atom: it ended in a traceback."""
    data = {"source": "inline", "inputs": [[-1.0], [1.0]], "targets": [1.0, -1.0]}
    case = {
        "data": data,
        "objective": {"activation": "relu", "loss": "smooth-logistic-margin", "bias": True},
        "domain": {"kind": "signed-sphere", "cells": 42},
        "flow": {"kind": "output-layer"},
        "initial": {"kind": "zero"},
        "time": {"end": 1.0, "until_margin": 0.05},
        "error": {"companions": "none"},
    }
    run = hkflow.run(case, output=tmp_path / "run", quiet=True)
    assert run.time.tolist() == [0.0] and "the smooth margin is" in run.status
    found = max_margin(run.problem.objective, SIGNED)
    assert run.max_margin.lower == pytest.approx(found.lower, rel=1e-5)
    assert margin_report(run=run.folder).f1.lower == pytest.approx(found.lower, rel=1e-5)
