"""The second process of a run, which compiles and draws."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import coarse
from conftest import ROOT
from numba import typeof

import hkflow
from hkflow.app.pictures import draw_pictures
from hkflow.certificates import search
from hkflow.methods.characteristics import backward
from hkflow.methods.frozen_relu import movement
from hkflow.operators import dense
from hkflow.operators.dense import blocked
from hkflow.running import ahead
from hkflow.running.check import check
from hkflow.running.run import certified

CASE = ROOT / "cases" / "quickstart" / "rings.toml"
PROGRAM = "hkflow.app.pictures"
KERNELS = [(movement, "move_atoms"), (search, "_walk"), (backward, "trace")]


@pytest.fixture
def called(monkeypatch):
    """The types of the arguments of calls, {kernel: set}."""
    found = {name: set() for _, name in KERNELS}

    def noted(name, kernel):
        def call(*arguments):
            found[name].add(tuple(map(typeof, arguments)))
            return kernel(*arguments)

        return call

    for module, name in KERNELS:
        monkeypatch.setattr(module, name, noted(name, getattr(module, name)))
    return found


@pytest.fixture(scope="module")
def problem():
    return check(CASE)[1]


def asked(made, task, folder, seconds=0.0):
    """What an Ahead answers to a task."""
    made.ask(task, folder, *([seconds] if seconds else []))
    return made.answer(task, seconds)


def by_stages(called, problem):
    """The types with which the stages call kernels."""
    name, axes, stages = ahead.Ahead(problem, "characteristics", PROGRAM).order
    assert stages == [ahead.STEP, ahead.MAX_MARGIN, ahead.PICTURE]
    for stage in stages:
        ahead.compile_stage(stage, name, axes)
    return {name: set(types) for name, types in called.items()}


def by_a_run(called, folder):
    """The types with which a run and its density call them."""
    for types in called.values():
        types.clear()
    run = hkflow.run(CASE, folder, **coarse(CASE) | {"time.end": 0.5, "error.companions": "none"})
    run.density_at(np.eye(3), 1)
    return called


def test_what_is_compiled_ahead_is_what_a_run_calls(called, problem, tmp_path):
    compiled = by_stages(called, problem)
    assert compiled == by_a_run(called, tmp_path / "run") and all(compiled.values())


def test_sibling_kernels_compiled_for_other_arrays_are_seen(called, problem, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(dense, "blocked", lambda points: np.asfortranarray(blocked(points)))
        compiled = by_stages(called, problem)
    assert compiled != by_a_run(called, tmp_path / "run")


@pytest.mark.parametrize(
    "kind, changes, stages",
    [
        ("particles", {}, [ahead.MAX_MARGIN]),
        ("grid", {}, [ahead.STEP, ahead.MAX_MARGIN]),
        (
            "characteristics",
            {"objective.loss": "logistic", "objective.weight_decay": 0.1},
            [ahead.STEP, ahead.PICTURE],
        ),
    ],
)
def test_what_a_run_does_not_call_is_not_compiled(kind, changes, stages):
    assert list(ahead.Ahead(check(CASE, **changes)[1], kind, PROGRAM).done) == stages


@pytest.fixture
def failing(problem):
    """An Ahead whose process fails, as it knows no such feature."""
    made = ahead.Ahead(problem, "characteristics", PROGRAM)
    made.order = ("nonsense", 3, [ahead.STEP])
    return made


def test_a_process_that_fails_holds_nobody_up(failing, tmp_path):
    failing.start()
    failing.compiles, begun = True, time.monotonic()
    failing.wait(ahead.PICTURE)
    assert asked(failing, ahead.PICTURE, tmp_path) is None
    assert time.monotonic() - begun < ahead.PATIENCE / 2
    failing.stop()
    assert failing.process.returncode


def test_it_starts_where_there_is_a_core_and_is_waited_for_if_this_one_compiles(
    problem, monkeypatch
):
    monkeypatch.setattr(ahead, "COMPILATION", ahead.Compilation())
    started = []
    monkeypatch.setattr(ahead.Ahead, "start", lambda self: started.append(self))
    for cores, compiles, count in ((1, True, 0), (2, False, 1), (2, True, 2)):
        monkeypatch.setattr(ahead, "_cores", lambda cores=cores: cores)
        with ahead.second_process(PROGRAM):
            ahead.plan(problem, "characteristics")
            if compiles:
                ahead.COMPILATION.on_start(None)
                ahead.COMPILATION.on_end(None)
            assert ahead.waits(ahead.STEP) == (cores > 1 and compiles)
        assert len(started) == count


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A coarse run without a picture."""
    folder = tmp_path_factory.mktemp("beside") / "run"
    return hkflow.run(CASE, folder, **coarse(CASE) | {"time.end": 0.5, "error.companions": "none"})


def test_a_picture_is_drawn_beside_to_the_same_bytes(problem, run):
    made = ahead.Ahead(problem, "characteristics", PROGRAM)
    made.start()
    names = asked(made, ahead.PICTURE, run.path)
    made.stop()
    beside = (run.path / "overview.png").read_bytes()
    assert names == draw_pictures(run) == str(run.path / "overview.png")
    assert beside == (run.path / "overview.png").read_bytes()


def test_a_max_margin_is_found_beside_to_the_same_bytes(problem, run):
    file = run.path / "max_margin.json"
    assert certified(run, 5.0)
    here = file.read_bytes()
    file.unlink()
    made = ahead.Ahead(problem, "characteristics", PROGRAM)
    made.start()
    assert asked(made, ahead.MAX_MARGIN, run.path, 5.0) is True
    assert file.read_bytes() == here
    made.stop()
    assert asked(made, ahead.MAX_MARGIN, run.path, 5.0) is None


def test_what_takes_too_long_beside_is_given_up(problem, run, monkeypatch):
    monkeypatch.setattr(ahead, "PATIENCE", 0.0)
    made = ahead.Ahead(problem, "characteristics", PROGRAM)
    made.start()
    assert asked(made, ahead.PICTURE, run.path) is None
    assert made.process.returncode


def test_what_cannot_be_drawn_beside_is_left_to_the_first_process(problem, run, tmp_path):
    made = ahead.Ahead(problem, "characteristics", PROGRAM)
    made.start()
    assert asked(made, ahead.PICTURE, tmp_path) is None  # which is no run folder
    assert asked(made, ahead.PICTURE, run.path)  # after that it draws on
    made.stop()


def test_a_library_call_starts_no_process(problem):
    ahead.plan(problem, "characteristics")
    assert ahead.COMPILATION.ahead is None


PARENT = """
import time
from hkflow.running import ahead
from hkflow.running.check import check
made = ahead.Ahead(check({case!r})[1], "characteristics", {program!r})
made.start()
print(made.process.pid, flush=True)
time.sleep(60.0)
"""


def runs(number):
    """Whether a process runs, and is no zombie that its parent has not asked after."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", number], capture_output=True, text=True)
    return state.stdout.strip() not in ("", "Z")


@pytest.mark.skipif(sys.platform == "win32", reason="asks ps")
def test_it_ends_when_the_first_process_is_killed(tmp_path):
    """While it compiles for seconds, as its cache is empty."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(case=str(CASE), program=PROGRAM)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with parent:
        child = parent.stdout.readline().strip()
        time.sleep(1.0)
        assert runs(child)
        parent.kill()
    for _ in range(50):
        if not runs(child):
            return
        time.sleep(0.1)
    raise AssertionError("it still runs")
