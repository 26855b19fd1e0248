"""The second process of a run, which compiles and draws."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
from commands import coarse
from conftest import ROOT
from numba import typeof

import hkflow
from hkflow.accuracy import companions
from hkflow.app import second_process as program
from hkflow.app.pictures import draw_pictures
from hkflow.certificates import caps, cones, search
from hkflow.compilation import Compilation
from hkflow.methods.characteristics import backward
from hkflow.methods.choice import make_method
from hkflow.methods.frozen_relu import movement, tangent_gram
from hkflow.methods.particles import waveform
from hkflow.methods.stepping import implicit_loss_gradients
from hkflow.operators import dense
from hkflow.operators.dense import blocked
from hkflow.running import ahead, beside
from hkflow.running import run as running
from hkflow.running.beside import SecondProcess, second_process
from hkflow.running.check import check
from hkflow.running.ending import certified
from hkflow.running.stages import (
    BOUND,
    HELD,
    IMPLICIT,
    MAX_MARGIN,
    PICTURE,
    PREDICTIONS,
    SLIDING,
    STEP,
    compile_stage,
    order_for,
)
from hkflow.store.snapshots import snapshot_paths

CASE = ROOT / "cases" / "quickstart" / "rings.toml"
PROGRAM = "hkflow.app.second_process"
KERNELS = [
    (movement, "move_atoms"),
    (waveform, "move_particles"),
    (tangent_gram, "movable"),
    (tangent_gram, "tangents"),
    (tangent_gram, "add_squares"),
    (implicit_loss_gradients, "newton"),
    (caps, "branch_and_bound"),
    (search, "_walk"),
    (backward, "trace"),
    (dense.dense_forward, "parallel"),
]


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


@pytest.mark.parametrize(("given", "passed"), [("-I", ["-E", "-s"]), ("-s", ["-s"])])
def test_it_imports_from_where_the_first_process_does(given, passed):
    solver = str(ROOT / "solver")
    code = (
        f"import sys; sys.path.insert(0, {solver!r}); from hkflow.running import beside;"
        " print(beside.SecondProcess('json').process.args[2:-2])"
    )
    words = [sys.executable, given, "-c", code]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == f"{passed}\n"


@pytest.fixture(scope="module")
def problem():
    return check(CASE)[1]


@pytest.fixture
def ahead_of(problem):
    """An Ahead whose process runs, of a kind of run; ended with the test."""
    made = []

    def start(order=None):
        one = ahead.Ahead(problem, "characteristics", SecondProcess(PROGRAM))
        one.order = order or one.order
        one.start()
        made.append(one)
        return one

    yield start
    for one in made:
        one.stop()
        one.process.close()


def asked(made, task, folder, *arguments, seconds=0.0):
    """What an Ahead answers to a task."""
    made.ask(task, folder, *arguments)
    return made.answer(task, seconds)


def by_stages(called, problem, last=None):
    """The types with which the stages call kernels; the last stage within a context, if given."""
    name, axes, stages = order_for(problem, "characteristics")
    assert stages == [STEP, MAX_MARGIN, PICTURE, PREDICTIONS]
    for stage in (*stages[:-1], SLIDING, HELD, IMPLICIT, BOUND):
        compile_stage(stage, name, axes)
    with last or nullcontext():
        compile_stage(stages[-1], name, axes)
    return {name: set(types) for name, types in called.items()}


def by_a_run(called, folder):
    """The types with which a run, its density and its predictions call them."""
    for types in called.values():
        types.clear()
    changes = {"time.end": 0.5, "error.companions": "none", "method.imex": "implicit"}
    run = hkflow.run(CASE, folder, **coarse(CASE) | changes)
    run.density_at(np.eye(3), 1)
    run.predict(np.zeros((2000, 2)))
    hkflow.solve(run.problem, 0.1, kind="particles")
    return called


def test_what_is_compiled_ahead_is_what_a_run_calls(called, problem, tmp_path):
    compiled = by_stages(called, problem)
    assert compiled == by_a_run(called, tmp_path / "run") and all(compiled.values())


def test_sibling_kernels_compiled_for_other_arrays_are_seen(called, problem, tmp_path, monkeypatch):
    @contextmanager
    def other_arrays():
        with monkeypatch.context() as patch:
            patch.setattr(dense, "blocked", lambda *points: np.asfortranarray(blocked(*points)))
            yield

    compiled = by_stages(called, problem, other_arrays())
    assert compiled != by_a_run(called, tmp_path / "run")


@pytest.mark.parametrize(
    "kind, changes, stages",
    [
        ("particles", {}, [SLIDING, MAX_MARGIN]),
        ("particles", {"method.stepper": "dopri5"}, [MAX_MARGIN]),
        ("particles", {"objective.activation": "squared-relu"}, [MAX_MARGIN]),
        ("particles", {"certificate.seconds": 0.0}, [SLIDING]),
        ("grid", {}, [STEP, BOUND, MAX_MARGIN]),
        (
            "grid",
            {"objective.activation": "squared-relu"},
            [BOUND, MAX_MARGIN],
        ),
        (
            "characteristics",
            {"objective.loss": "logistic", "objective.weight_decay": 0.1},
            [STEP, PICTURE, PREDICTIONS, BOUND],
        ),
    ],
)
def test_what_a_run_does_not_call_is_not_compiled(kind, changes, stages):
    case, problem = check(CASE, **{"method.kind": kind}, **changes)
    stepper = getattr(case.method, "stepper", None) or "auto"
    seconds = case.certificate.seconds
    assert order_for(problem, kind, stepper, seconds > 0.0)[-1] == stages


def test_particles_without_data_do_not_slide():
    problem = check(ROOT / "cases" / "population" / "circle.toml")[1]
    assert order_for(problem, "particles")[-1] == []


def test_contradictory_data_have_no_max_margin():
    problem = check(ROOT / "cases" / "quickstart" / "iris.toml")[1]
    assert order_for(problem, "grid")[-1] == [STEP, BOUND]


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["relu", "joint-relu", "squared-relu"])
def test_stages_fit_all_features_and_dimensions(name, axes, called, rng):
    feature, risk = hkflow.FEATURES[name], hkflow.RISKS["smooth-margin"]
    inputs = rng.normal(size=(4, axes))
    signs = (1,) if feature.joint else (1, -1)
    start = hkflow.PointMeasure(np.eye(1, axes + feature.joint))
    # such data never contradict each other, so that all stages are wanted on one axis, too
    objective = hkflow.Objective(feature, risk, inputs, np.sign(inputs[:, 0]))
    problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), signs, start)
    stages = set()
    for kind in ("particles", "grid") if feature.joint else ("particles", "characteristics"):
        if kind == "characteristics" and feature.kink is None:
            continue
        made = ahead.Ahead(problem, kind, Deaf())
        stages |= {*made.order[-1], *sum(made.meanwhile.values(), [])}
    for stage in stages:
        compile_stage(stage, name, axes)
    assert bool(called["_walk"]) == (axes in (2, 3))  # of others there is another search, or none


def test_of_several_outputs_the_search_over_cones_is_compiled(monkeypatch):
    """And a certificate waits for it."""
    problem = check(ROOT / "cases" / "quickstart" / "three-classes.toml")[1]
    order = order_for(problem, "particles")
    assert order == ("relu with 3 outputs", 3, [BOUND, MAX_MARGIN])
    called, search = [], cones._search
    monkeypatch.setattr(cones, "_search", lambda *a: called.append(typeof(a)) or search(*a))
    compile_stage(BOUND, *order[:2])
    compile_stage(MAX_MARGIN, *order[:2])
    waited: list = []
    monkeypatch.setattr(ahead, "wait", waited.append)
    e, known = make_method(problem, "particles").current, (-np.inf, np.inf)
    certifier = ahead.PatientCertifier.of(problem)
    assert np.isnan(certifier.record(e, 0.0, known, False)["dual_value"]) and not waited
    assert certifier.record(e, 0.0, known, True)["dual_value"] > 0.0
    assert waited == [BOUND]
    assert len(called) == 2 and len(set(called)) == 1  # compiled for what is called then


def test_a_process_that_fails_holds_nobody_up(ahead_of, tmp_path, monkeypatch):
    failing = ahead_of(("nonsense", 3, [STEP]))  # it knows no such feature
    monkeypatch.setattr(ahead.Ahead, "compiles", True)
    begun = time.monotonic()
    failing.wait(PICTURE)
    assert asked(failing, PICTURE, tmp_path) is None
    assert time.monotonic() - begun < ahead.PATIENCE / 2
    failing.stop()
    assert failing.process.process.returncode


class Deaf:
    """A second process that does nothing."""

    def __init__(self):
        self.told = []

    def tell(self, words):
        self.told.append(words)

    def answers(self):
        return iter(())

    def stop(self):
        pass


def test_it_is_waited_for_if_this_one_compiles(problem, monkeypatch):
    monkeypatch.setattr(ahead, "COMPILATION", Compilation())
    monkeypatch.setattr(ahead.Ahead, "start", lambda self: setattr(self, "listener", Thread()))
    monkeypatch.setattr(ahead.Ahead, "stop", lambda self: None)
    for helper, compiles in ((None, True), (Deaf(), False), (Deaf(), True)):
        with ahead.helped_by(helper):
            ahead.plan(problem, "characteristics")
            if compiles:
                ahead.COMPILATION.on_start(None)
                ahead.COMPILATION.on_end(None)
            assert ahead.waits(STEP) == (helper is not None and compiles)


@pytest.mark.parametrize(
    "kind, wanted, ends, left",
    [
        (
            "characteristics",
            [HELD, IMPLICIT, PICTURE],
            {IMPLICIT: STEP, PICTURE: MAX_MARGIN},
            [PREDICTIONS],
        ),
        (
            "particles",
            [IMPLICIT, MAX_MARGIN],
            {MAX_MARGIN: SLIDING},
            [],
        ),
        ("grid", [], {}, [STEP, BOUND, MAX_MARGIN]),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_what_the_other_would_compile_last_is_compiled_while_it_is_waited_for(
    fails, kind, wanted, ends, left, problem, monkeypatch
):
    """ends : {what is compiled here: the stage that the other process has ready by then}; what
    fails here is compiled when it is called"""
    made, compiled = ahead.Ahead(problem, kind, Deaf()), []
    monkeypatch.setattr(ahead.Ahead, "compiles", True)

    def compile_stage(stage, name, axes):
        compiled.append((stage, name, axes))
        if stage in ends:
            made.done[ends[stage]].set()
        if fails:
            raise ValueError(stage)

    monkeypatch.setattr(ahead, "compile_stage", compile_stage)
    monkeypatch.setattr(ahead, "PATIENCE", 0.01)
    for stage in (STEP, SLIDING, MAX_MARGIN):
        made.wait(stage)
    assert compiled == [(stage, "relu", 3) for stage in wanted]
    assert made.process.told == [[ahead.LEAVE, stage] for stage in wanted]
    assert list(filter(made.waits, made.done)) == left


def test_error_bars_wait_for_stages_and_the_max_margin_does_not(problem, tmp_path):
    """None is found in an empty folder, but each is answered in its turn."""
    name, axes, stages = order_for(problem, "characteristics")
    tasks = [ahead.COMPANIONS, MAX_MARGIN, ahead.ERRORS]
    process, answers = SecondProcess(PROGRAM), []
    try:
        process.tell((name, axes, stages))
        for task in tasks:
            process.tell([task, str(tmp_path), True])
        for what, answer in process.answers():
            answers.append(answer if what == ahead.COMPILED else what)
            if len(answers) == len(stages) + len(tasks):
                break
    finally:
        process.close()
    assert answers[-2:] == [ahead.COMPANIONS, ahead.ERRORS]
    assert answers[:3] == [STEP, MAX_MARGIN, MAX_MARGIN]


def test_a_stage_that_it_is_to_leave_is_not_compiled(problem):
    order = order_for(problem, "characteristics")
    process, answers = SecondProcess(PROGRAM), []
    try:
        process.tell(order)
        process.tell([ahead.LEAVE, PICTURE])
        for what, stage in process.answers():
            assert what == ahead.COMPILED
            answers.append(stage)
            if stage == PREDICTIONS:
                break
    finally:
        process.close()
    assert answers == [STEP, MAX_MARGIN, PREDICTIONS]


def test_it_starts_where_there_is_a_core_and_it_is_wanted(monkeypatch):
    """NUMBA_NUM_THREADS=1 says that there is one, as batch jobs do on a machine of many."""
    for cores, threads, wanted in ((1, 2, True), (2, 2, False), (2, 1, True), (2, 2, True)):
        monkeypatch.setattr(beside, "cores", lambda cores=cores: cores)
        monkeypatch.setenv("NUMBA_NUM_THREADS", str(threads))
        with second_process(PROGRAM, wanted) as process:
            assert (process is not None) == (cores > 1 and threads > 1 and wanted)
        assert process is None or process.process.returncode


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A coarse run without a picture."""
    folder = tmp_path_factory.mktemp("beside") / "run"
    return hkflow.run(CASE, folder, **coarse(CASE) | {"time.end": 0.5, "error.companions": "none"})


def test_a_picture_is_drawn_beside_to_the_same_bytes(ahead_of, run, tmp_path):
    """What cannot be drawn there is left to the first process, and it draws on."""
    made = ahead_of()
    assert asked(made, PICTURE, tmp_path) is None  # which is no run folder
    assert made.answer(ahead.ERRORS, None) is None  # which it was not asked for
    names = asked(made, PICTURE, run.path)
    beside = (run.path / "overview.png").read_bytes()
    assert names == draw_pictures(run) == str(run.path / "overview.png")
    assert beside == (run.path / "overview.png").read_bytes()


def test_a_max_margin_is_found_beside_to_the_same_bytes(ahead_of, run):
    file = run.path / "max_margin.json"
    assert certified(run, 5.0)
    here = file.read_bytes()
    file.unlink()
    made = ahead_of()
    assert asked(made, MAX_MARGIN, run.path, 5.0, seconds=5.0) is True
    assert file.read_bytes() == here
    made.stop()
    assert asked(made, MAX_MARGIN, run.path, 5.0, seconds=5.0) is None


def begun(run, folder):
    """A folder of the run as it was when its start was saved."""
    shutil.copytree(run.path, folder)
    for name in ("results.h5", "status.json", "max_margin.json"):
        (folder / name).unlink(missing_ok=True)
    first, *others = snapshot_paths(folder)
    assert others
    for path in others:
        path.unlink()
    return folder


def test_error_bars_are_made_beside_to_the_same_numbers(run, tmp_path, monkeypatch):
    """From companions that were made when the run had only its start."""
    monkeypatch.setattr(program, "READY", [])
    assert program.TASKS[ahead.COMPANIONS](begun(run, tmp_path / "begun"), True) == 3
    shutil.copytree(run.path, tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(companions, "solved", None)  # nothing is computed again
        assert program.TASKS[ahead.ERRORS](tmp_path / "run", "all")
    bars, alone = hkflow.load(tmp_path / "run").errors, hkflow.error_bars(run.path)
    assert bars.words() == alone.words() and bars.bars
    for name, values in bars.arrays().items():
        np.testing.assert_array_equal(values, alone.arrays()[name])


def test_sibling_companions_of_another_tolerance_are_not_taken(run, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "READY", [])
    program.TASKS[ahead.COMPANIONS](begun(run, tmp_path / "begun"), True)
    for one in program.READY:
        one.options["tolerance"] *= 2.0
    monkeypatch.setattr(companions, "solved", lambda *_: None)  # others would be computed
    assert "did not reach its end" in str(companions.error_bars(run, ready=program.READY))


@pytest.mark.parametrize(
    "kind, compiled, asks",
    [("grid", 1.0, 1), ("characteristics", 1.0, 0), ("characteristics", 0.0, 1)],
)
def test_companions_wait_where_a_few_kernels_are_to_be_compiled(
    kind, compiled, asks, problem, tmp_path, monkeypatch
):
    made = ahead.Ahead(problem, kind, Deaf())
    monkeypatch.setattr(ahead.CURRENT, "ahead", made)
    monkeypatch.setattr(ahead.COMPILATION, "seconds", compiled)
    observer = ahead.AsksForCompanions(tmp_path, True)
    for _ in range(2):  # the start, and another save
        observer.save(None, None)
    assert made.process.told == asks * [[ahead.COMPANIONS, str(tmp_path), True]]
    assert ahead.tells_errors() == bool(asks)


@pytest.mark.parametrize("large, leaves", [(1e9, True), (1e8, False)])
def test_large_runs_are_alone_in_memory(problem, monkeypatch, large, leaves):
    """Their companions are computed when they have ended."""
    case, method = check(CASE)[0], SimpleNamespace(problem=problem)
    assert not running._leaves_room(case, method)  # nobody would compute them
    monkeypatch.setattr(ahead.CURRENT, "ahead", Deaf())
    monkeypatch.setattr(running, "LARGE", large)
    assert running._leaves_room(case, method) == leaves


def test_what_takes_too_long_beside_is_given_up(ahead_of, run, monkeypatch):
    monkeypatch.setattr(ahead, "PATIENCE", 0.0)
    made = ahead_of()
    assert asked(made, PICTURE, run.path) is None
    assert made.process.process.returncode


def test_a_library_call_starts_no_process(problem):
    ahead.plan(problem, "characteristics")
    assert ahead.CURRENT.ahead is None


PARENT = """
import time
from hkflow.running import ahead
from hkflow.running.beside import SecondProcess
from hkflow.running.check import check
process = SecondProcess({program!r})
made = ahead.Ahead(check({case!r})[1], "characteristics", process)
made.start()
print(process.process.pid, flush=True)
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
