"""What is recorded is registered, and a user's functions are recorded beside it."""

from dataclasses import replace

import numpy as np
import pytest

import hkflow
from hkflow.analysis.summary import summary
from hkflow.certificates.regularised import minimise
from hkflow.methods.grid.finite_volume import FiniteVolume
from hkflow.methods.record import PLAIN, SCALED
from hkflow.plots.records import PANELS
from hkflow.solving.records import OF_EVERY_RUN, _effective_number
from hkflow.solving.registry import RECORDS, in_units_of_one, own_names, record_of

INPUTS, TARGETS = [[0.5, 1.0], [-1.0, 1.0], [0.2, 1.0]], [1.0, -1.0, -1.0]


def a_problem(loss="logistic", flow=None, initial=None, decay=0.0):
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS[loss], INPUTS, TARGETS, weight_decay=decay
    )
    mesh = hkflow.circle_mesh(16) if initial is None else None
    return hkflow.Problem(mesh, objective, flow or hkflow.Flow(1.0, 2.0), (1, -1), initial)


def atoms():
    return hkflow.PointMeasure(
        hkflow.quasi_uniform(8, 1), np.resize([1.0, -1.0], 8), np.full(8, 0.125)
    )


def test_registered_records_say_all_of_themselves():
    for name, record in RECORDS.items():
        assert name == record.name and name.isidentifier() and record.label
        assert record.meaning[0].isupper() and record.meaning[-1] == "." and "\n" not in record.axis
        assert record.unit in (PLAIN, SCALED) and record.scale in ("linear", "log", "symlog")
        assert record.panel in ("", *PANELS)
    assert set(PANELS) == {record.panel for record in RECORDS.values()} - {""}


RUNS = {
    "grid": lambda: a_problem(),
    "grid that is regularised": lambda: a_problem("square", hkflow.Flow(1.0, 2.0, 0.1), decay=0.1),
    "particles": lambda: a_problem(initial=atoms()),
    "characteristics": lambda: a_problem(initial=atoms()),
    "network": lambda: a_problem("square", initial=hkflow.Units([[1.0, 0.5]], [0.5])),
    "network by a theorem": lambda: a_problem(
        "smooth-margin", hkflow.Flow(0.0, 4.0), initial=atoms()
    ),
}


def records_of(name):
    descent = {"layers": "radii", "training": "gradient-descent", "schedule": "proposition"}
    options = descent if name == "network by a theorem" else {}
    end = 5.0 if options else 0.05
    return hkflow.solve(RUNS[name](), end, kind=name.partition(" ")[0], **options).records


@pytest.mark.parametrize("name", RUNS)
def test_every_record_is_registered(name):
    found = records_of(name)
    assert own_names(found) == []
    missing = {row.name for row in OF_EVERY_RUN} - set(found)
    assert not missing, f"rows of OF_EVERY_RUN whose value _of_every_run forgets: {missing}"


def test_sibling_a_record_that_is_not_registered_is_seen(monkeypatch):
    monkeypatch.setattr(FiniteVolume, "record", lambda self, clock: {"novelty": 1.0})
    assert own_names(records_of("grid")) == ["novelty"]


@pytest.mark.parametrize("name", RUNS)
def test_effective_data_lie_between_one_and_all_of_them(name):
    """r = (1, 1, 0) counts two, however small r is."""
    found = records_of(name)["effective_data"]
    assert np.all((found >= 1.0) & (found <= len(INPUTS) * (1.0 + 1e-15))), found
    for size in (1.0, -1e-200):
        assert _effective_number(size * np.array([1.0, 1.0, 0.0])) == 2.0
    assert _effective_number(np.zeros(3)) == 0.0 and np.isnan(_effective_number(np.zeros(0)))


def test_units_of_one():
    records = {"mass": np.array([2.0, 2.0]), "margin": np.array([0.5, 0.5])}
    records["log_scale"] = np.array([0.0, np.log(3.0)])
    assert in_units_of_one(records, "mass") == pytest.approx([2.0, 6.0], rel=1e-15)
    assert in_units_of_one(records, "margin") is records["margin"]


# --- a user's


def entropy(state):
    density = np.maximum(state.density, 1e-300)
    return np.sum(density * np.log(density))


def test_functions_of_a_state_are_recorded():
    own = {"entropy": entropy, "twice_the_mass": lambda state: 2.0 * state.mass}
    seen = []
    s = hkflow.solve(
        a_problem(), 0.2, observers=[lambda state: seen.append(entropy(state))], records=own
    )
    assert s.records["entropy"].tolist() == seen and len(seen) > 2
    assert np.array_equal(s.records["twice_the_mass"], 2.0 * s.records["mass"])
    plain = hkflow.solve(a_problem(), 0.2).records
    for name, values in plain.items():  # and nothing else changes
        assert np.array_equal(s.records[name], values, equal_nan=True), name
    assert own_names(s.records) == [*own] and record_of("twice_the_mass").label == "twice the mass"


def test_an_observer_may_change_the_record_that_it_is_given():
    """The records of the run were gone."""

    class Greedy(hkflow.Observer):
        def record(self, method, clock, record):
            record.clear()

    plain = hkflow.solve(a_problem(), 0.2).records["mass"]
    for observers in ([Greedy()], [Greedy(), Greedy()]):
        found = hkflow.solve(a_problem(), 0.2, observers=observers).records["mass"]
        assert np.array_equal(found, plain)


def test_steps_record_too():
    for state in hkflow.steps(a_problem(), 0.1, records={"entropy": entropy}):
        assert "entropy" not in state.record()  # that of hkflow alone


def test_records_are_in_plain_units():
    """State is in units of one where the run is not."""
    problem = a_problem("smooth-margin", hkflow.Flow(1.0, 2.0, drive="measure"))
    s = hkflow.solve(problem, 2.0, records={"own": lambda state: state.mass})
    assert s.records["log_scale"][-1] > 0.1
    assert s.records["own"] == pytest.approx(in_units_of_one(s.records, "mass"), rel=1e-14)


@pytest.mark.parametrize(
    "records, message",
    [
        ({"mass": entropy}, "'mass' is a record of hkflow: The total mass.*than: time, .*margin"),
        ({"held": entropy}, "'held' is a record of hkflow: Share of the mass"),
        ({"my-record": entropy}, "'my-record' is no name.*letters, digits and '_'"),
        ({"": entropy}, "'' is no name"),
        ({3: entropy}, "3 is no name"),
        ({"own": 3.0}, "'own' must be a function of a State, got 3.0"),
        ([entropy], "wanted {name: function of a State}, got \\["),
    ],
)
def test_what_is_no_record_is_refused(records, message):
    for call in (hkflow.solve, hkflow.steps):
        with pytest.raises(hkflow.CaseError, match=message):
            next(iter(call(a_problem(), 0.1, records=records)))


@pytest.mark.parametrize("value", [None, "3", [1.0], np.ones(2), 1j, {}])
def test_a_function_without_a_number_is_named(value):
    with pytest.raises(hkflow.CaseError, match="record 'own' must be a number.*at t = 0\\.") as e:
        hkflow.solve(a_problem(), 0.1, records={"own": lambda state: value})
    assert not e.value.solution.finished


@pytest.mark.parametrize("value", [1, True, np.float32(0.5), np.array(2.0), float("nan")])
def test_any_real_number_is_one(value):
    s = hkflow.solve(a_problem(), 0.01, records={"own": lambda state: value})
    assert s.records["own"].dtype == float
    assert np.array_equal(s.records["own"][-1], float(value), equal_nan=True)


def test_a_function_that_fails_later_leaves_what_was_computed():
    def own(state):
        return 1.0 if state.time < 0.1 else None

    with pytest.raises(hkflow.CaseError, match="'own' must be a number") as caught:
        hkflow.solve(a_problem(), 0.2, saves=5, records={"own": own})
    assert caught.value.solution.time.tolist() == [0.0, 0.05]
    assert caught.value.solution.records["own"][-1] == 1.0


@pytest.mark.parametrize("kind", ["grid", "particles", "characteristics"])
def test_errors_of_a_regression_are_those_of_h_where_the_mass_is_set_apart(kind):
    """With drive = "measure" predictions are in units of the mass, targets are not."""
    problem = a_problem(
        "square", hkflow.Flow(1.0, 2.0, drive="measure"), None if kind == "grid" else atoms()
    )
    problem = replace(problem, test=problem.objective)
    found = hkflow.solve(problem, 2.0, kind=kind)
    wanted = np.sqrt(np.mean((found.predictions[-1] - TARGETS) ** 2))
    assert abs(found.log_scale[-1]) > 0.1
    assert found.records["training_error"][-1] == pytest.approx(wanted, rel=1e-12)
    assert found.records["test_error"][-1] == pytest.approx(wanted, rel=1e-12)


def test_the_gap_to_the_minimum_is_told_in_plain_units():
    """At a mass of e^log_scale it was told in units of that, below the gap where the mass grows."""
    rows = []
    for drive in (None, "measure"):
        problem = a_problem("square", hkflow.Flow(1.0, 2.0, drive=drive), decay=0.01)
        found = hkflow.solve(problem, 5.0)
        rows.append(dict(summary(found))["gap to minimum"])
        assert (found.log_scale[-1] > 0.1) == (drive is not None)
    assert rows[0] == rows[1]


@pytest.mark.parametrize("loss", ["square", "logistic"])
@pytest.mark.parametrize("kind", ["particles", "characteristics", "network"])
def test_methods_without_a_grid_tell_their_gap_to_the_minimum(kind, loss):
    points = hkflow.quasi_uniform(60, 1)
    start = hkflow.PointMeasure(points, np.resize([1.0, -1.0], 60), np.full(60, 1.0 / 60.0))
    problem = a_problem(loss, initial=start, decay=0.01)
    found = hkflow.solve(problem, 20.0, kind=kind)
    told = float(dict(summary(found))["gap to minimum"].split()[2])
    best = minimise(problem.objective, problem.signs)
    gap = found.records["objective"][-1] - best.lower
    assert best.certified and gap <= 1.001 * told < 40.0 * gap + 1e-6
    early = hkflow.solve(problem, 0.5, kind=kind)
    assert float(dict(summary(early))["gap to minimum"].split()[2]) > 2.0 * told
    plain = hkflow.solve(a_problem(loss, initial=start), 0.5, kind=kind)
    assert "gap to minimum" not in dict(summary(plain))


def test_the_gap_to_the_minimum_is_at_most_the_objective_where_min_J_is_one_over_cells():
    """Of units on the joint sphere, of which no bound is known, it was 10 F."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(10, 1)), np.resize([0.0, 1.0], 10)
    feature, mesh = hkflow.vector_feature("relu", 2), hkflow.Domain(2).mesh(42)
    objective = hkflow.Objective(feature, hkflow.SOFTMAX, x, labels, weight_decay=1e-3)
    found = hkflow.solve(hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 1.0)), 0.1)
    told = float(dict(summary(found))["gap to minimum"].split()[2])
    assert found.records["gap_bound"][-1] > 2.0 * found.records["objective"][-1]
    assert told == pytest.approx(found.records["objective"][-1], rel=1e-3)
