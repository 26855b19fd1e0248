"""Run folders: what is in them, and that nothing saved is ever lost."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import h5py
import numpy as np
import pytest

import hkflow
from hkflow.store import run_folder
from hkflow.store.results import pack

CASE = """
title = "small"
[data]
source = "inline"
inputs = [[0.5], [-1.0], [0.2]]
targets = [1.0, -1.0, -1.0]
[objective]
bias = true
loss = "logistic"
[domain]
kind = "signed-sphere"
cells = 24
[flow]
kind = "perturbed"
noise = 0.1
[time]
end = 0.6
saves = 4
[method]
max_step = 0.05
"""


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(CASE)
    return path


def content(folder):
    """Everything that must not depend on interruptions: snapshots at saves, records, results."""
    snapshots = {}
    for path in sorted((folder / "snap").glob("*.h5")):
        state, predictions, meta = run_folder.read_snapshot(path)
        content = {name: value.tobytes() if isinstance(value, np.ndarray) else value for name, value in state.items()}
        snapshots[path.name] = (meta["save"], meta["clock"], predictions.tobytes(), content)
    with h5py.File(folder / "results.h5") as file:
        results = {}
        file.visititems(lambda name, item: results.update({name: item[()].tobytes()} if isinstance(item, h5py.Dataset) else {}))
        results["status"] = file.attrs["status"]
    return snapshots, (folder / "records.jsonl").read_bytes(), results


def test_results_file_keeps_its_contract(case, tmp_path):
    run = hkflow.run(case, output=tmp_path / "run")
    with h5py.File(tmp_path / "run" / "results.h5") as file:
        assert file["density"].shape == (4, 2, 24) and file["time"].shape == (4,)
        assert file["predictions"].shape == (4, 3)
        assert file["mesh/centers"].shape == (24, 2) and file["mesh/volumes"].shape == (24,)
        assert np.array_equal(file["data/inputs"][()], [[0.5], [-1.0], [0.2]])
        assert np.array_equal(file["data/targets"][()], [1, -1, -1])
        for name in (
            "time",
            "step",
            "objective",
            "mass",
            "log_mass",
            "minimum_density",
            "energy_residual",
            "training_error",
            "margin",
        ):
            assert len(file["records"][name]) == run.records["step"][-1] + 1
        assert file.attrs["case"] == CASE and "noise = 0.1" in file.attrs["resolved_case"]
        assert file.attrs["status"] == run.status and run.status.startswith("Completed at t = 0.6 after")
        assert json.loads(file.attrs["versions"])["numba"]
        assert [file["density"].dims[k].keys() for k in range(3)] == [["time"], ["sign"], ["cell"]]


def test_folder_and_results_file_load_alike(case, tmp_path):
    hkflow.run(case, output=tmp_path / "run")
    one, two = hkflow.load(tmp_path / "run"), hkflow.load(tmp_path / "run" / "results.h5")
    for name in ("time", "density", "log_scale", "predictions", "inputs", "targets", "signs", "mass"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert one.records.keys() == two.records.keys() and one.status == two.status and two.finished
    assert one.predict(one.inputs) == pytest.approx(one.predictions[-1], rel=1e-13)
    with pytest.raises(ValueError, match="1 columns"):
        one.predict([[1.0, 2.0]])


def test_xarray_opens_the_results(case, tmp_path):
    xarray = pytest.importorskip("xarray")
    hkflow.run(case, output=tmp_path / "run")
    with xarray.open_dataset(tmp_path / "run" / "results.h5", engine="h5netcdf") as data:
        assert data["density"].dims == ("time", "sign", "cell") and data["density"].sel(sign=-1, time=0.6).shape == (24,)
    with xarray.open_dataset(tmp_path / "run" / "results.h5", engine="h5netcdf", group="records") as records:
        assert records["objective"].dims == ("time",)


def test_a_case_with_much_inline_data_is_packed(case, tmp_path):
    rows = np.random.default_rng(0).normal(size=4000)
    long = CASE.replace("[[0.5], [-1.0], [0.2]]", str([[float(x)] for x in rows]))
    case.write_text(long.replace("[1.0, -1.0, -1.0]", str([1.0, -1.0] * 2000)))
    hkflow.run(case, output=tmp_path / "run", **{"time.end": 0.1})
    assert hkflow.load(tmp_path / "run" / "results.h5").header["case"] == case.read_text()


def test_a_used_folder_is_refused_or_moved_aside(case, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "precious.txt").write_text("keep me")
    with pytest.raises(hkflow.RunFolderError, match="not empty.*resume.*--force"):
        hkflow.run(case, output=out)
    assert [p.name for p in out.iterdir()] == ["precious.txt"]
    hkflow.run(case, output=out, force=True)
    assert (tmp_path / "run.1" / "precious.txt").read_text() == "keep me" and (out / "results.h5").exists()


def test_two_writers_are_kept_apart(case, tmp_path):
    hkflow.run(case, output=tmp_path / "run")
    with run_folder.lock(tmp_path / "run"), pytest.raises(hkflow.RunFolderError, match="another process"):
        hkflow.resume(tmp_path / "run")


@pytest.mark.parametrize("what", ["nothing", "text", "foreign", "newer"])
def test_what_is_no_run_is_refused_with_a_sentence(tmp_path, what):
    path = tmp_path / "x.h5"
    if what == "text":
        path.write_text("hello")
    elif what in ("foreign", "newer"):
        with h5py.File(path, "w") as file:
            file["a"] = 1
            if what == "newer":
                file.attrs["format"] = 99
    message = {"nothing": "no run here", "text": "x.h5: damaged", "foreign": "not a results file", "newer": "format 99"}
    with pytest.raises(hkflow.RunFolderError, match=message[what]):
        hkflow.load(path)


def test_resuming_a_finished_run_changes_nothing(case, tmp_path):
    hkflow.run(case, output=tmp_path / "run")
    before = content(tmp_path / "run")
    hkflow.resume(tmp_path / "run")
    assert content(tmp_path / "run") == before


# --- every crash point


class Crash(BaseException):
    """The process dies here."""


class CrashingSystem:
    """Counts the calls that change files and dies at the k-th, and at each one after it; writes may be cut in half."""

    NAMES = ("write", "replace", "unlink", "truncate", "fsync")

    def __init__(self, patch, crash_at=None, half=False):
        self.count, self.crash_at, self.half = 0, crash_at, half
        for name in self.NAMES:
            patch.setattr(os, name, self.wrapped(name, getattr(os, name)))

    def wrapped(self, name, original):
        def call(*arguments, **options):
            self.count += 1
            if self.crash_at is not None and self.count >= self.crash_at:
                if self.half and self.count == self.crash_at:
                    if name == "write":
                        original(arguments[0], arguments[1][: len(arguments[1]) // 2])
                    elif name == "replace":  # the temporary file is damaged, and the rename never happens
                        with open(arguments[0], "r+b") as file:
                            file.truncate(os.path.getsize(arguments[0]) // 2)
                raise Crash
            return original(*arguments, **options)

        return call


def crashed_run(case, folder, crash_at, half=False):
    """A run that dies at the k-th call that changes files."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        CrashingSystem(patch, crash_at, half)
        hkflow.run(case, output=folder)


def resume_with(change, folder, monkeypatch):
    """Resume with a state or clock that `change(state, clock)` has tampered with."""
    honest = run_folder.prepare_resume

    def forgetful(folder):
        state, clock, *others = honest(folder)
        return *change(state, clock), *others

    monkeypatch.setattr("hkflow.runs.prepare_resume", forgetful)
    hkflow.resume(folder)


@pytest.mark.parametrize("checkpoints", [False, True], ids=["saves", "saves-and-checkpoints"])
@pytest.mark.parametrize("half", [False, True], ids=["before", "half-written"])
def test_every_crash_point_can_be_resumed_to_the_same_bits(case, tmp_path, monkeypatch, half, checkpoints):
    monkeypatch.setattr(run_folder, "FLUSH_SECONDS", 0.0 if checkpoints else np.inf)  # every record, or none between saves
    if checkpoints:
        monkeypatch.setattr(run_folder, "CHECKPOINT_SECONDS", 0.0)
    with pytest.MonkeyPatch.context() as patch:
        calls = CrashingSystem(patch)
        hkflow.run(case, output=tmp_path / "whole")
    wanted, resumed = content(tmp_path / "whole"), 0
    for crash_at in range(1, calls.count + 1):
        folder = tmp_path / f"crash{crash_at}"
        crashed_run(case, folder, crash_at, half)
        saved = [p for p in (folder / "snap").glob("*.h5")]
        try:
            assert len(hkflow.load(folder).time) <= 4
            hkflow.resume(folder)
        except hkflow.RunFolderError as error:
            assert not saved and ("before its first save" in str(error) or "no intact snapshot" in str(error))
            continue
        resumed += 1
        assert content(folder) == wanted, crash_at
    assert resumed >= max(calls.count - 12, 20)  # all but those that make the folder and its first save


LAGRANGIAN = {
    "particles": 'kind = "particles"\nparticles = 20\npoints = "random"\nnoise_points = 6\nnoise_interval = 0.1',
    "particles, random noise": 'kind = "particles"\nparticles = 20\nnoise = "random"\nnoise_interval = 0.1',
    "particles on a mesh": 'kind = "particles"\npoints = "mesh"\nnoise_points = 6',
    "network": 'kind = "network"\nunits = 10\npoints = "gaussian"',
    "sgd": 'kind = "network"\nunits = 10\ntraining = "sgd"\nstep = 0.001\nbatch = 3',
    "normalized": 'kind = "network"\nunits = 10\nlayers = "normalized"\nmax_step = 0.05',
}


@pytest.fixture(params=LAGRANGIAN)
def lagrangian(request, tmp_path):
    """A case of each Lagrangian method, whose random numbers must go on as if nothing had happened."""
    text = CASE.replace("max_step = 0.05", LAGRANGIAN[request.param])
    text = text if "mesh" in request.param else text.replace("cells = 24\n", "")
    path = tmp_path / "lagrangian.toml"
    path.write_text(text if "particles" in request.param else text.replace('[flow]\nkind = "perturbed"\nnoise = 0.1\n', ""))
    return path


def test_particles_and_networks_resume_to_the_same_bits(lagrangian, tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "CHECKPOINT_SECONDS", 0.0)
    with pytest.MonkeyPatch.context() as patch:
        calls = CrashingSystem(patch)
        hkflow.run(lagrangian, output=tmp_path / "whole")
    wanted, resumed = content(tmp_path / "whole"), 0
    for crash_at in range(16, calls.count, calls.count // 12):
        folder = tmp_path / f"crash{crash_at}"
        crashed_run(lagrangian, folder, crash_at)
        hkflow.resume(folder)
        assert content(folder) == wanted, crash_at
        resumed += 1
    assert resumed >= 10


def test_a_run_interrupted_before_its_first_save_is_shown_and_resumed(lagrangian, tmp_path):
    late = {"time.saves": [0.6]}
    hkflow.run(lagrangian, output=tmp_path / "whole", **late)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        patch.setattr(run_folder, "CHECKPOINT_SECONDS", 0.0)
        honest, seen = run_folder.RunWriter.step, []

        def step(self, method, clock):
            honest(self, method, clock)
            seen.append(clock.step)
            if len(seen) == 3:
                raise Crash

        patch.setattr(run_folder.RunWriter, "step", step)
        hkflow.run(lagrangian, output=tmp_path / "cut", **late)
    assert hkflow.load(tmp_path / "cut").dim == 1 and len(hkflow.load(tmp_path / "cut").time) == 0
    hkflow.resume(tmp_path / "cut")
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_lagrangian_results_load_alike_and_open_in_xarray(lagrangian, tmp_path):
    xarray = pytest.importorskip("xarray")
    hkflow.run(lagrangian, output=tmp_path / "run")
    one, two = hkflow.load(tmp_path / "run"), hkflow.load(tmp_path / "run" / "results.h5")
    assert np.array_equal(one.time, two.time) and one.records.keys() == two.records.keys()
    for k in range(len(one.time)):
        a, b = one.atoms_at(k), two.atoms_at(k)
        for name in ("positions", "signs", "weights"):
            assert np.array_equal(getattr(a, name), getattr(b, name))
    assert one.predict(one.inputs) == pytest.approx(one.predictions[-1], rel=1e-12)
    with xarray.open_dataset(tmp_path / "run" / "results.h5", engine="h5netcdf") as data:
        carrier = "particle" if one.method == "particles" else "unit"
        name = "positions" if one.method == "particles" else "hidden"
        assert data[name].dims == ("time", carrier, "axis") and data["count"].values[-1] == len(one.atoms_at(-1))


def test_sibling_forgotten_random_numbers_are_noticed(tmp_path, monkeypatch):
    case = tmp_path / "noise.toml"
    case.write_text(CASE.replace("max_step = 0.05", LAGRANGIAN["particles, random noise"]))
    hkflow.run(case, output=tmp_path / "whole")
    crashed_run(case, tmp_path / "cut", 24)
    other = {"random": np.random.default_rng(0).bit_generator.state}
    resume_with(lambda state, clock: (state | other, clock), tmp_path / "cut", monkeypatch)
    assert content(tmp_path / "cut") != content(tmp_path / "whole")


def test_a_crash_during_resume_is_no_worse(case, tmp_path):
    hkflow.run(case, output=tmp_path / "whole")
    wanted = content(tmp_path / "whole")
    for crash_at in (14, 25):
        folder = tmp_path / f"crash{crash_at}"
        crashed_run(case, folder, crash_at)
        for again in (2, 5, 9):
            with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
                CrashingSystem(patch, again)
                hkflow.resume(folder)
        hkflow.resume(folder)
        assert content(folder) == wanted


@pytest.mark.parametrize("piece", ["limit", "history"])
def test_sibling_a_forgotten_piece_of_state_is_noticed(case, tmp_path, monkeypatch, piece):
    """If the step-size limit, or the past that steps are extrapolated from, were not stored, resuming would give other bits."""
    hkflow.run(case, output=tmp_path / "whole")
    crashed_run(case, tmp_path / "cut", 20)

    def forget(state, clock):
        if piece == "limit":
            return state, replace(clock, limit=0.1 * clock.limit)
        return state | {"ages": np.zeros_like(state["ages"])}, clock

    resume_with(forget, tmp_path / "cut", monkeypatch)
    assert content(tmp_path / "cut") != content(tmp_path / "whole")


def test_a_damaged_snapshot_is_passed_over(case, tmp_path):
    hkflow.run(case, output=tmp_path / "run")
    wanted = content(tmp_path / "run")
    last = sorted((tmp_path / "run" / "snap").glob("*.h5"))[-1]
    last.write_bytes(last.read_bytes()[:-2000])
    assert len(hkflow.load(tmp_path / "run").time) == 3
    hkflow.resume(tmp_path / "run")
    assert content(tmp_path / "run") == wanted


# --- real signals, real processes


def start(case, folder, *options):
    command = [sys.executable, "-c", "from hkflow.cli import main; main()", "run", str(case), "--output", str(folder), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while len(list(folder.glob("snap/*.h5"))) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


LONG = ("--set", "time.end=2.0", "--set", "method.max_step=0.0002", "--set", "time.saves=41")


@pytest.fixture
def long_run(case, tmp_path):
    hkflow.run(case, output=tmp_path / "whole", **{"time.end": 2.0, "method.max_step": 2e-4, "time.saves": 41})
    return content(tmp_path / "whole")


def test_kill_9_loses_nothing(case, tmp_path, long_run):
    process = start(case, tmp_path / "run", *LONG)
    process.kill()
    process.communicate()
    assert 3 <= len(hkflow.load(tmp_path / "run").time)
    hkflow.resume(tmp_path / "run")
    assert content(tmp_path / "run") == long_run


def test_sigterm_saves_and_says_how_to_go_on(case, tmp_path, long_run):
    process = start(case, tmp_path / "run", *LONG)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    if process.returncode == 0:
        pytest.fail("the run was over before the signal came: make it longer")
    assert process.returncode == 143, err
    assert "Interrupted by SIGTERM at t =" in out and "hkflow resume" in err
    hkflow.resume(tmp_path / "run")
    assert content(tmp_path / "run") == long_run


def test_pack_works_on_unfinished_runs(case, tmp_path):
    crashed_run(case, tmp_path / "cut", 20)
    pack(tmp_path / "cut")
    assert hkflow.load(tmp_path / "cut" / "results.h5").status.startswith("Not finished")
