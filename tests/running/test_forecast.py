"""What is foreseen of a run: its steps, from the first of them, and time and accuracy."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from commands import hk
from conftest import ROOT

import hkflow
from hkflow.running import forecast
from hkflow.running.check import build_all, build_method, read_case

CASE = {
    "data": {"source": "inline", "inputs": [[0.5], [-1.0], [0.2]], "targets": [1.0, -1.0, -1.0]},
    "objective": {"bias": True, "loss": "square"},
    "domain": {"kind": "signed-sphere", "cells": 24},
    "flow": {"kind": "hellinger-kantorovich"},
    "time": {"end": 1.0, "saves": 2},
}
CIRCLE = ROOT / "cases" / "verification" / "teacher-circle.toml"


def stopped(tables, out, after=80, **more):
    """A run that ends after some steps."""
    ends = hkflow.observe(lambda state: state.step >= after)
    return hkflow.run(tables, out, observers=[ends], **more)


@pytest.mark.parametrize("power", [0.7, 1.0, 2.5])
def test_powers_of_the_steps_are_foreseen(power):
    times = 1e-3 * np.arange(129) ** power
    found = forecast.steps_needed(128, times[64], times[128], 7.0)
    assert found == pytest.approx((7.0 / 1e-3) ** (1.0 / power), rel=1e-12)
    assert forecast.steps_needed(4, 0.0, 1.0, 3.0) == 12.0


MANY = {
    "max_step": ({"method": {"max_step": 1e-7}}, "none is longer than 1e-07", 1e7),
    "tolerance": (
        {"method": {"tolerance": 1e-9}, "time.end": 1e4},
        "the tolerance keeps them",
        1e6,
    ),
    "cells": (
        {
            "domain.cells": 5000,
            "time.end": 5000.0,
            "flow": {"kind": "wasserstein"},
            "method": {"tolerance": 1.0},
        },
        "mass crosses one of 5000 cells",
        1e6,
    ),
    "saves": ({"time.saves": 200_000}, "there are 200000 saves", 2e5),
    "method.max_step": (  # three steps from save to save, by less than that
        {"time.saves": 200_001, "method": {"max_step": 2e-6}},
        "none is longer than 2e-06",
        6e5,
    ),
    "longer": (
        {"time.saves": 20_000, "method": {"max_step": 1e-7}},
        "none is longer than 1e-07",
        1e7,
    ),
}


@pytest.mark.parametrize("name", MANY)
def test_many_steps_are_told_once_with_the_remedy(tmp_path, capsys, name):
    change, why, count = MANY[name]
    smooth = CASE | {"objective": CASE["objective"] | {"activation": "squared-relu"}}
    stopped(smooth, tmp_path / "run", 150, **change)
    said = capsys.readouterr().err
    assert said.count("At the pace") == 1 and why in said, said
    assert name in said.split("What makes them fewer:")[1]
    of_all = "method.kind = 'particles'" in said, "an earlier time.end" in said
    assert of_all == (name != "saves",) * 2  # every method steps from save to save
    foreseen = float(re.search(r"takes about (\S+) of them", said)[1])
    assert 0.5 * count <= foreseen < 30.0 * count


def told(times, monkeypatch, capsys):
    """What is said of a run that comes to these times."""
    case, problem = hkflow.check(CASE)
    method = build_method(problem, case)
    watch = forecast.Forecast()
    clock = SimpleNamespace(step=0, time=0.0, dt=0.0, limits=[1.0, 1.0], implicit=False)
    watch.start(method, clock, np.array([0.0, 1e4]))
    for step, time in enumerate(times, 1):
        clock.step, clock.dt, clock.time = step, time - clock.time, time
        watch.step(method, clock)
    return capsys.readouterr().err


GROWING = np.cumsum(1e-2 * np.maximum(1.0, 1.03 ** (np.arange(1000) - 64.0)))  # as margin flows


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_noise_is_a_reason_where_there_is_noise(noise):
    changes = {"method": {"kind": "particles", "particles": 20}, "flow.noise": noise}
    case, problem = hkflow.check(CASE, **changes)
    method = build_method(problem, case)
    clock = SimpleNamespace(dt=1e-3, limits=[1.0, 1.0], implicit=False)
    why, remedies = forecast._reason(method, clock, 2, 1e6)
    assert ("noise comes every" in why) == (noise > 0.0)
    assert ("a longer method.noise_interval" in remedies) == (noise > 0.0)


def test_steps_that_grow_are_not_many(monkeypatch, capsys):
    assert GROWING[-1] > 1e4 and told(GROWING, monkeypatch, capsys) == ""
    assert "1e+06 of them" in told(np.arange(1, 200) * 1e-2, monkeypatch, capsys)


def test_sibling_without_their_growth_there_would_be_an_alarm(monkeypatch, capsys):
    monkeypatch.setattr(forecast, "steps_needed", lambda step, half, time, end: 1e6)
    assert "At the pace" in told(GROWING, monkeypatch, capsys)


def test_fixed_steps_are_as_many_as_was_asked_for(tmp_path, capsys):
    stopped(CASE, tmp_path / "run", method={"stepper": "euler", "max_step": 1e-7})
    assert capsys.readouterr().err == ""


# --- check


def foretold(out):
    """Seconds, steps and accuracy that `hkflow check` prints; None for what it does not."""
    found = re.search(r"# Expected time: (\S+) s, about (\S+) steps", out)
    accuracy = re.search(r"# Expected accuracy: predictions to about (\S+),", out)
    return float(found[1]), float(found[2]), accuracy and float(accuracy[1])


def test_time_and_accuracy_are_foreseen(tmp_path, capsys):
    """Against the run itself, and one with sixteen times as many cells."""
    keys = {"domain.cells": 256, "method.tolerance": 1e-5, "time.end": 3.0}
    words = [word for pair in keys.items() for word in ("--set", f"{pair[0]}={pair[1]}")]
    out, _ = hk("check", CIRCLE, *words)
    seconds, steps, accuracy = foretold(out)
    run = hkflow.run(CIRCLE, tmp_path / "run", **keys)
    assert steps == pytest.approx(run.end["steps"], rel=0.4)
    assert 0.0 < seconds < 60.0
    fine = hkflow.run(CIRCLE, tmp_path / "fine", **keys | {"domain.cells": 4096})
    error = np.sqrt(np.mean((run.predictions[-1] - fine.predictions[-1]) ** 2))
    error /= np.sqrt(np.mean(fine.predictions[-1] ** 2))
    assert error < 2.0 * accuracy and accuracy < 30.0 * error  # error bars are wide
    assert "At the pace" not in capsys.readouterr().err
    assert "takes particles: there is no noise" in out and "takes grid on the circle (d = 1)" in out


def test_a_long_flow_is_told_before_it_is_run(tmp_path):
    out, _ = hk("check", CIRCLE, "--set", "time.end=1e6", "--set", "method.max_step=1e-3")
    count = float(re.search(r"# At the pace .* about (\S+) of them", out)[1])
    assert 2e8 < count < 2e9 and "a longer method.max_step" in out


def test_a_grid_in_four_dimensions_is_told_what_suits():
    data = {"source": "xor", "n": 20, "dim": 4}
    for activation, best in (("relu", "characteristics"), ("squared-relu", "particles")):
        tables = CASE | {"data": data, "method": {"kind": "grid"}}
        tables |= {"objective": CASE["objective"] | {"activation": activation}}
        with pytest.raises(hkflow.CaseError, match=f"S.4, d = 4.*Set method.kind = '{best}'"):
            hkflow.check(tables)


def foreseen(tables):
    file = read_case(tables, {})
    return forecast.prospects(file, *build_all(file))


@pytest.mark.parametrize(
    "method", [{"kind": "network", "units": 10}, {"kind": "particles", "points": "random"}]
)
def test_what_a_coarse_run_does_not_tell_is_left_to_the_run(method):
    said = foreseen(CASE | {"method": method, "domain": {"kind": "signed-sphere"}})
    assert said[-1].startswith("Expected accuracy: not estimated beforehand")
    assert said[1].startswith("Expected time: ") and len(said) == 3


def test_a_case_that_asks_for_an_accuracy_has_its_own_plan():
    said = foreseen(CASE | {"domain": {"kind": "signed-sphere"}, "method": {"accuracy": 0.05}})
    assert len(said) == 1 and said[0].startswith("method.kind = 'auto' takes")


def test_the_pace_is_that_of_steps_alone(monkeypatch):
    """Not of the record of the start, which may search millions of data, nor of the first, short
    steps."""
    now = iter([0.0, 50.0, 60.0, 61.0])  # start, record of the start, a step that compiles, another
    monkeypatch.setattr(forecast.time, "monotonic", lambda: next(now))
    probe = forecast.Forecast(aloud=False, seconds=1.0)
    clock = SimpleNamespace(step=0, time=0.0)
    probe.start(None, clock, np.array([0.0, 10.0]))
    for time in (0.0, 0.1, 1.1):
        assert probe.stop() is None
        clock.time = time
        probe.step(None, clock)
        clock.step += 1
    assert probe.stop() == "Probed"
    assert probe.pace == 1.0
    assert probe.steps == pytest.approx(2.0 + 8.9)


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_large_targets_are_told_to_be_divided(tmp_path, capsys, size):
    """The remedies were another tolerance, and an earlier end."""
    data = {"source": "inline", "inputs": [[0.5], [-1.0]], "targets": [size, -0.3 * size]}
    objective = {"activation": "squared-relu", "bias": True, "loss": "square"}
    tables = CASE | {"data": data, "objective": objective, "method": {"kind": "particles"}}
    stopped(tables, tmp_path / "run", 150, method={"max_step": 1e-10})
    said = capsys.readouterr().err
    assert ("What makes them fewer: targets divided by their size, 1e+06;" in said) == (size > 1.0)
    assert said.count("At the pace") == 1
