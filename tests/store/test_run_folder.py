"""Run folders: what is in them, and that nothing saved is ever lost."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing import get_all_start_methods, get_context

import h5py
import numpy as np
import psutil
import pytest
from conftest import ROOT

import hkflow
from hkflow.files.writing import checksum
from hkflow.running import beside
from hkflow.running.error_bars import keep
from hkflow.solving.observer import Observer
from hkflow.solving.state import LoopState
from hkflow.store import run as store_run
from hkflow.store import run_folder, run_writer
from hkflow.store.results import DIMENSIONS, pack

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


@pytest.fixture(autouse=True)
def every_save_is_written_at_once(monkeypatch):
    """Unless a test says otherwise; what waits for others is a matter of time."""
    monkeypatch.setattr(run_writer, "MAX_WAIT", -1.0)


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(CASE)
    return path


def content(folder):
    """Everything that must not depend on interruptions: snapshots at saves, records, results."""
    snapshots = {}
    for path in sorted((folder / "snap").glob("*.h5")):
        for state, predictions, meta in run_folder.read_snapshots(path):
            content = {
                name: value.tobytes() if isinstance(value, np.ndarray) else value
                for name, value in state.items()
            }
            snapshots[meta["clock"]["step"]] = (
                meta["save"],
                LoopState.from_dict(meta["clock"]).as_dict(),
                predictions.tobytes(),
                content,
            )
    with h5py.File(folder / "results.h5") as file:
        results = {}
        file.visititems(
            lambda name, item: results.update(
                {name: item[()].tobytes()} if isinstance(item, h5py.Dataset) else {}
            )
        )
        results["status"] = file.attrs["status"]
    return snapshots, (folder / "records.jsonl").read_bytes(), results


def test_results_are_compressed_where_it_pays(case, tmp_path):
    points = {
        "method": {"kind": "particles", "particles": 200, "points": "random"},
        "flow": {"kind": "hellinger-kantorovich", "noise": 0.0},
    }
    hkflow.run(case, output=tmp_path / "run", **points)
    with h5py.File(tmp_path / "run" / "results.h5") as file:
        packed = {name: file[name].compression for name in ("positions", "signs")}
        assert packed == {"positions": None, "signs": "gzip"}
        assert file["signs"].id.get_storage_size() < 0.1 * file["signs"].nbytes


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
        assert file.attrs["status"] == run.status and run.status.startswith(
            "Completed at t = 0.6 after"
        )
        assert json.loads(file.attrs["versions"])["numba"]
        assert [file["density"].dims[k].keys() for k in range(3)] == [["time"], ["sign"], ["cell"]]


def flipped(path, name):
    """The bytes of an HDF5 file with one of a dataset's numbers changed."""
    content = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        where, layout = file[name].id, file[name].id.get_create_plist().get_layout()
        if layout == h5py.h5d.CHUNKED:
            start = where.get_chunk_info(0).byte_offset
        elif layout == h5py.h5d.CONTIGUOUS:
            start = where.get_offset()
        else:  # in the header
            numbers = file[name][()].tobytes()
            start = content.index(numbers, h5py.h5o.get_info(where).addr)
    content[start + 6] ^= 1
    return bytes(content)


@pytest.mark.parametrize("file", ["results.h5", "errors.h5"])
def test_a_changed_byte_is_never_taken_for_a_number(case, tmp_path, file):
    """Records, predictions and error bars had no checksum: a flipped bit changed them."""
    run = hkflow.run(case, output=tmp_path / "run", domain={"cells": 64})
    keep(run, hkflow.error_bars(run))
    path, names = run.path / file, []
    with h5py.File(path) as found:
        found.visititems(
            lambda name, one: (
                names.append(name) if isinstance(one, h5py.Dataset) and one.size else None
            )
        )
        read = [name for name in names if "CLASS" not in found[name].attrs or "time" in name]
    whole, place = path.read_bytes(), path if file == "results.h5" else run.path
    for name in read:
        path.write_bytes(flipped(path, name))
        with pytest.raises(hkflow.RunFolderError):
            again = hkflow.load(place)
            assert (
                again.errors
                and again.max_margin
                and [again.state_at(k) for k in range(len(again.time))]
            )
        path.write_bytes(whole)
    assert len(read) > 10 and hkflow.load(place).errors


def test_every_array_of_the_results_file_has_a_checksum(case, tmp_path):
    """Indices of axes, which others read, had none."""
    run, without = hkflow.run(case, output=tmp_path / "run", domain={"cells": 300}), []

    def look(name, one):
        if isinstance(one, h5py.Dataset) and not one.fletcher32:
            is_in_header = one.id.get_create_plist().get_layout() == h5py.h5d.COMPACT
            without.extend([] if is_in_header or not one.size else [name])

    with h5py.File(run.path / "results.h5") as found:
        found.visititems(look)
        assert len(found["cell"]) == 300 and not without


def test_the_page_names_every_array_of_the_results_file():
    """Weights, signs and all that is of test data were not there; of groups with a row of their own
    the first names do."""
    page = (ROOT / "docs/explanation/run-folder.md").read_text(encoding="utf-8")
    groups = ("history/", "errors/", "repeats/", "max_margin/", "mesh/")
    assert all(f"| `{group}" in page for group in groups)
    named = [name for name in DIMENSIONS if not name.startswith(groups)]
    assert "data/weights" in named and all(f"`{name}`" in page for name in named)


def test_folder_and_results_file_load_alike(case, tmp_path):
    hkflow.run(case, output=tmp_path / "run")
    one, two = hkflow.load(tmp_path / "run"), hkflow.load(tmp_path / "run" / "results.h5")
    for name in (
        "time",
        "density",
        "log_scale",
        "predictions",
        "inputs",
        "targets",
        "signs",
        "mass",
    ):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert one.records.keys() == two.records.keys() and one.status == two.status and two.finished
    assert one.predict(one.inputs) == pytest.approx(one.predictions[-1], rel=1e-13)
    with pytest.raises(ValueError, match="1 columns"):
        one.predict([[1.0, 2.0]])


def test_xarray_opens_the_results(case, tmp_path):
    xarray = pytest.importorskip("xarray")
    hkflow.run(case, output=tmp_path / "run")
    with xarray.open_dataset(tmp_path / "run" / "results.h5", engine="h5netcdf") as data:
        assert data["density"].dims == ("time", "sign", "cell") and data["density"].sel(
            sign=-1, time=0.6
        ).shape == (24,)
    with xarray.open_dataset(
        tmp_path / "run" / "results.h5", engine="h5netcdf", group="records"
    ) as records:
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
    with pytest.raises(hkflow.RunFolderError, match="is not empty. Choose another output folder.$"):
        hkflow.run(case, output=out, force=False)
    assert [p.name for p in out.iterdir()] == ["precious.txt"]
    with pytest.raises(hkflow.RunFolderError, match="something else than a run"):
        hkflow.run(case, output=out, force=True)
    (out / "precious.txt").rename(tmp_path / "precious.txt")
    hkflow.run(case, output=out)
    with pytest.raises(hkflow.RunFolderError, match=r"not empty.*resume.*force=True"):
        hkflow.run(case, output=out, force=False)
    (tmp_path / "precious.txt").rename(out / "precious.txt")
    hkflow.run(case, output=out, force=True)
    assert (tmp_path / "run.1" / "precious.txt").read_text() == "keep me" and (
        out / "results.h5"
    ).exists()
    assert not (out / "precious.txt").exists() and hkflow.load(tmp_path / "run.1").finished


def everything(folder):
    """Names and bytes of all files below a folder, links as links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name != ".lock":
            whole = (
                os.readlink(path)
                if path.is_symlink()
                else path.read_bytes()
                if path.is_file()
                else None
            )
            found[str(path.relative_to(folder))] = whole
    return found


@pytest.mark.parametrize("name", [".", "..", "here", "../..", "../run"])
def test_the_folder_one_stands_in_is_never_moved(case, tmp_path, monkeypatch, name):
    """Not even if it is a run; and no folder that is none, by whatever name."""
    hkflow.run(case, output=tmp_path / "home" / "run")
    inside = tmp_path / "home" / "run" / "inside"
    inside.mkdir()
    (tmp_path / "home" / "run" / "here").symlink_to(tmp_path / "home")
    (inside / "here").symlink_to(tmp_path / "home" / "run")
    (tmp_path / "home" / "letters.txt").write_text("keep me")
    for place in (inside, tmp_path / "home" / "run"):
        monkeypatch.chdir(place)
        before = everything(tmp_path)
        if not (place / name).exists():
            continue
        with pytest.raises(hkflow.RunFolderError, match="moved aside.* Choose another output"):
            hkflow.run(case, output=name, force=True)
        assert everything(tmp_path) == before


def test_a_link_to_a_run_is_run_again_where_it_points(case, tmp_path):
    hkflow.run(case, output=tmp_path / "elsewhere" / "run")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "run")
    hkflow.run(case, output=tmp_path / "link", force=True)
    assert all(hkflow.load(tmp_path / "elsewhere" / name).finished for name in ("run", "run.1"))


def test_a_run_that_is_being_written_is_not_moved(case, tmp_path):
    hkflow.run(case, output=tmp_path / "run")
    with (
        run_folder.lock(tmp_path / "run"),
        pytest.raises(hkflow.RunFolderError, match="another process"),
    ):
        hkflow.run(case, output=tmp_path / "run", force=True)
    assert not (tmp_path / "run.1").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="has no umask")
def test_a_group_that_shares_files_can_resume_each_other_s_runs(case, tmp_path):
    before = os.umask(0o002)
    try:
        hkflow.run(case, tmp_path / "run")
    finally:
        os.umask(before)
    closed = [path for path in (tmp_path / "run").rglob("*") if not path.stat().st_mode & 0o020]
    assert closed == []


def test_two_writers_are_kept_apart(case, tmp_path):
    hkflow.run(case, output=tmp_path / "run")
    with (
        run_folder.lock(tmp_path / "run"),
        pytest.raises(hkflow.RunFolderError, match="another process"),
    ):
        hkflow.resume(tmp_path / "run")


def test_a_disk_without_locks_is_told(case, tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(hkflow.RunFolderError, match="No locks .*on a disk with locks"):
        hkflow.run(case, output=tmp_path / "run")


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
    message = {
        "nothing": "no run here",
        "text": "x.h5: does not begin as an HDF5 file does",
        "foreign": "not a results file",
        "newer": "format 99",
    }
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
    """Notes the calls that change files and dies at the k-th, and at each one after it; writes may
    be cut in half."""

    NAMES = ("write", "replace", "unlink", "truncate", "fsync")

    def __init__(self, patch, crash_at=None, half=False):
        self.calls, self.crash_at, self.half = [], crash_at, half
        for name in self.NAMES:
            patch.setattr(os, name, self.wrapped(name, getattr(os, name)))

    def wrapped(self, name, original):
        def call(*arguments, **options):
            self.calls.append(name)
            if self.crash_at is not None and len(self.calls) >= self.crash_at:
                if self.half and len(self.calls) == self.crash_at:
                    if name == "write":
                        original(arguments[0], arguments[1][: len(arguments[1]) // 2])
                    elif name == "replace":
                        # the temporary file is damaged, and the rename never happens
                        with open(arguments[0], "r+b") as file:
                            file.truncate(os.path.getsize(arguments[0]) // 2)
                raise Crash
            return original(*arguments, **options)

        return call


def noted_run(case, folder):
    """The calls of a whole run that change files, once its kernels are compiled: the compiler's
    cache writes files as well."""
    hkflow.run(case, output=folder.with_name("compiles"))
    with pytest.MonkeyPatch.context() as patch:
        system = CrashingSystem(patch)
        hkflow.run(case, output=folder)
    return system.calls


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

    monkeypatch.setattr("hkflow.running.run.prepare_resume", forgetful)
    hkflow.resume(folder)


def crash_points(calls, half):
    """The calls to die at: all that find or leave files as no other does. Only writes and renames
    can be cut in half; a file found before its fsync is the one found before the rename that
    follows."""
    if half:
        return [k for k, name in enumerate(calls, 1) if name in ("write", "replace")]
    pairs = zip(calls, [*calls[1:], ""], strict=True)
    return [k for k, pair in enumerate(pairs, 1) if pair != ("fsync", "replace")]


@pytest.mark.parametrize("files", ["one for each save", "and checkpoints", "one for two saves"])
@pytest.mark.parametrize("half", [False, True], ids=["before", "half-written"])
def test_every_crash_point_can_be_resumed_to_the_same_bits(
    case, tmp_path, monkeypatch, half, files
):
    checkpoints, together = files == "and checkpoints", files == "one for two saves"
    # every record, or none between saves
    monkeypatch.setattr(run_writer, "FLUSH_SECONDS", 0.0 if checkpoints else np.inf)
    # a first save, one in between and a last one, and steps between them
    text = CASE.replace("saves = 4", "saves = 3").replace("end = 0.6", "end = 0.4")
    if checkpoints:  # one for each step; half as many steps
        monkeypatch.setattr(run_writer, "CHECKPOINT_SECONDS", 0.0)
        text = text.replace("end = 0.4", "end = 0.2")
    case.write_text(text)
    if together:
        monkeypatch.setattr(run_writer, "MAX_WAIT", np.inf)
        monkeypatch.setattr(run_writer, "MAX_WAITING", 1000)  # bytes; a save takes some 600
    points = crash_points(noted_run(case, tmp_path / "whole"), half)
    wanted, resumed = content(tmp_path / "whole"), 0
    for crash_at in points:
        folder = tmp_path / f"crash{crash_at}"
        crashed_run(case, folder, crash_at, half)
        saved = list((folder / "snap").glob("*.h5"))
        try:
            assert len(hkflow.load(folder).time) <= 3
            hkflow.resume(folder)
        except hkflow.RunFolderError as error:
            assert not saved and (
                "before its first save" in str(error) or "no intact snapshot" in str(error)
            )
            continue
        resumed += 1
        assert content(folder) == wanted, crash_at
    # all but those that make the folder and its first save
    assert resumed >= len(points) - (4 if half else 12)


@pytest.mark.parametrize("value", ["[{}]", "a\0b", [1, {}], 2**70, {"a": "\0"}, None, True, 1.5])
def test_a_header_is_packed_whatever_stands_in_it(value, case, tmp_path):
    run = hkflow.run(case, output=tmp_path / "run")
    header = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(header | {"ranks": value}))
    assert hkflow.load(hkflow.pack(run.path)).header["ranks"] == value


LAGRANGIAN = {
    "particles": (
        'kind = "particles"\nparticles = 20\npoints = "random"\nnoise_points = 6\nnoise_interval'
        " = 0.1"
    ),
    "particles, random noise": (
        'kind = "particles"\nparticles = 20\nnoise = "random"\nnoise_interval = 0.1'
    ),
    "particles on a mesh": 'kind = "particles"\npoints = "mesh"\nnoise_points = 6',
    "particles in a tree": (
        'kind = "particles"\nparticles = 300\nnoise_points = 6\nnoise_interval = 0.1'
    ),
    "network": 'kind = "network"\nunits = 10\npoints = "gaussian"',
    "sgd": 'kind = "network"\nunits = 10\ntraining = "sgd"\nstep = 0.001\nbatch = 3',
    "normalized": 'kind = "network"\nunits = 10\nlayers = "normalized"\nmax_step = 0.05',
}


@pytest.fixture(params=LAGRANGIAN)
def lagrangian(request, tmp_path):
    """A case of each Lagrangian method, whose random numbers must go on as if nothing had
    happened."""
    text = CASE.replace("max_step = 0.05", LAGRANGIAN[request.param])
    text = text if "mesh" in request.param else text.replace("cells = 24\n", "")
    if "tree" in request.param:
        text = text.replace("[objective]", '[objective]\noperator = "tree"')
    path = tmp_path / "lagrangian.toml"
    path.write_text(
        text
        if "particles" in request.param
        else text.replace('[flow]\nkind = "perturbed"\nnoise = 0.1\n', "")
    )
    return path


def test_particles_and_networks_resume_to_the_same_bits(lagrangian, tmp_path, monkeypatch):
    monkeypatch.setattr(run_writer, "CHECKPOINT_SECONDS", 0.0)
    # a busy machine would flush more often, and count more calls
    monkeypatch.setattr(run_writer, "FLUSH_SECONDS", 1e9)
    calls = len(noted_run(lagrangian, tmp_path / "whole"))
    wanted, resumed = content(tmp_path / "whole"), 0
    for crash_at in range(16, calls, calls // 8):
        folder = tmp_path / f"crash{crash_at}"
        crashed_run(lagrangian, folder, crash_at)
        hkflow.resume(folder)
        assert content(folder) == wanted, crash_at
        resumed += 1
    assert resumed >= 6


def test_a_run_interrupted_before_its_first_save_is_shown_and_resumed(lagrangian, tmp_path):
    late = {"time.saves": [0.6]}
    hkflow.run(lagrangian, output=tmp_path / "whole", **late)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        patch.setattr(run_writer, "CHECKPOINT_SECONDS", 0.0)
        honest, seen = run_writer.RunWriter.step, []

        def step(self, method, clock):
            honest(self, method, clock)
            seen.append(clock.step)
            if len(seen) == 3:
                raise Crash

        patch.setattr(run_writer.RunWriter, "step", step)
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
        assert data[name].dims == ("time", carrier, "axis") and data["count"].values[-1] == len(
            one.atoms_at(-1)
        )


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
    """If the step-size limit, or the past that steps are extrapolated from, were not stored,
    resuming would give other bits."""
    hkflow.run(case, output=tmp_path / "whole")
    crashed_run(case, tmp_path / "cut", 20)

    def forget(state, clock):
        if piece == "limit":
            return state, replace(clock, limits=[0.1 * limit for limit in clock.limits])
        return state | {"ages": np.zeros_like(state["ages"])}, clock

    resume_with(forget, tmp_path / "cut", monkeypatch)
    assert content(tmp_path / "cut") != content(tmp_path / "whole")


def test_a_state_of_another_version_is_refused_and_nothing_is_changed(case, tmp_path, monkeypatch):
    """Records were cut back and the format became today's before it was seen."""
    crashed_run(case, tmp_path / "cut", 30)
    header = json.loads((tmp_path / "cut" / "run.json").read_text())
    (tmp_path / "cut" / "run.json").write_text(json.dumps(header | {"format": 4}))
    with (tmp_path / "cut" / "records.jsonl").open("a") as file:
        file.write('{"time": ')
    there = (path for path in (tmp_path / "cut").rglob("*") if path.is_file())
    paths = [path for path in there if not path.name.startswith(".")]  # on their way when it died
    before = {path: path.read_bytes() for path in paths}

    def older(state, clock):
        return {name: value for name, value in state.items() if name != "ages"}, clock

    with pytest.raises(hkflow.RunFolderError, match="another version. Run its case again"):
        resume_with(older, tmp_path / "cut", monkeypatch)
    assert {path: path.read_bytes() for path in paths} == before


def test_a_damaged_snapshot_is_passed_over(case, tmp_path):
    hkflow.run(case, output=tmp_path / "run")
    wanted = content(tmp_path / "run")
    last = sorted((tmp_path / "run" / "snap").glob("*.h5"))[-1]
    last.write_bytes(last.read_bytes()[:-2000])
    assert len(hkflow.load(tmp_path / "run").time) == 3
    hkflow.resume(tmp_path / "run")
    assert content(tmp_path / "run") == wanted


def snapshots_of(folder):
    return sorted((folder / "snap").glob("*.h5"))


@pytest.mark.parametrize("which", [1, -1])
@pytest.mark.parametrize("why", [errno.EACCES, errno.EIO, errno.EAGAIN])
def test_what_cannot_be_read_is_left_alone(case, tmp_path, why, which):
    """A snapshot that may be whole is no damaged one: resuming says which file it is, and changes
    nothing."""
    hkflow.run(case, output=tmp_path / "run")
    before, refused = everything(tmp_path), snapshots_of(tmp_path / "run")[which]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("open", "read_bytes"):
            honest = getattr(type(refused), name)

            def read(path, *words, honest=honest, **options):
                if path == refused:
                    raise OSError(why, os.strerror(why))
                return honest(path, *words, **options)

            patch.setattr(type(refused), name, read)
        opened = h5py.File

        def open_hdf5(path, *words, **options):
            if path == refused:
                raise OSError(why, os.strerror(why))
            return opened(path, *words, **options)

        patch.setattr(h5py, "File", open_hdf5)
        for change in (hkflow.resume, pack):
            said = f"{refused.name}: cannot be read \\({os.strerror(why)}\\)"
            with pytest.raises(hkflow.RunFolderError, match=said):
                change(tmp_path / "run")
    assert everything(tmp_path) == before
    hkflow.resume(tmp_path / "run")


def test_a_lock_of_another_program_does_no_harm(case, tmp_path):
    run = hkflow.run(case, output=tmp_path / "run")
    wanted = content(run.path)
    with h5py.File(snapshots_of(run.path)[-1], "r+"):
        hkflow.resume(run.path)
    assert content(run.path) == wanted
    for name in ("problem.h5", "results.h5"):
        with open(run.path / name, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            place = run.path if name == "problem.h5" else run.path / name
            assert (hkflow.load(place).predictions == run.predictions).all()


def test_what_is_damaged_is_set_aside(case, tmp_path):
    run = hkflow.run(case, output=tmp_path / "run")
    wanted, last = content(run.path), snapshots_of(run.path)[-1]
    for damage in (b"one", b"two"):
        last.write_bytes(damage)
        hkflow.resume(run.path)
        assert content(run.path) == wanted
    assert sorted(path.read_bytes() for path in (run.path / "damaged").iterdir()) == [
        b"one",
        b"two",
    ]


LINKED = (
    "snap",
    "snap/00000000.h5",
    "records.jsonl",
    "results.h5",
    "status.json",
    ".lock",
    "damaged",
)


@pytest.mark.parametrize("name", LINKED)
def test_no_link_is_written_through(case, tmp_path, name):
    run = hkflow.run(case, output=tmp_path / "run")
    target, link = tmp_path / "elsewhere", run.path / name
    link.rename(target) if link.exists() else target.mkdir()
    link.symlink_to(target)
    (tmp_path / "damaged.h5").write_bytes(snapshots_of(run.path)[-1].read_bytes())
    snapshots_of(run.path)[-1].write_bytes(b"damaged")
    before = everything(tmp_path)
    for change in (hkflow.resume, pack):
        with pytest.raises(hkflow.RunFolderError, match=f"{name}: is a symbolic link"):
            change(run.path)
    assert everything(tmp_path) == before


def test_what_killed_error_bars_left_is_removed_by_the_next_ones(case, tmp_path):
    run = hkflow.run(case, output=tmp_path / "run")
    for name in (".errors.h5.7.tmp", ".results.h5.8.tmp", ".mine.9.tmp"):
        (run.path / name).write_text("half")
    keep(run, hkflow.error_bars(run, companions="own"))
    assert [path.name for path in run.path.glob(".*.tmp")] == [".mine.9.tmp"]


def test_files_of_the_user_stay(case, tmp_path):
    run = hkflow.run(case, output=tmp_path / "run")
    wanted = content(run.path)
    names = (
        "snap/my_notes.h5",
        "snap/99999999_old.h5",
        "snap/.draft.tmp",
        ".mine.7.tmp",
        "notes.txt",
    )
    mine = [run.path / name for name in names]
    for path in mine:
        path.write_text("mine")
    leftover = run.path / "snap" / ".00000099.h5.7.tmp"
    leftover.write_text("what a crash left")
    assert len(hkflow.load(run.path).time) == 4
    hkflow.resume(run.path)
    assert [path.read_text() for path in mine] == ["mine"] * 5 and not leftover.exists()
    for path in mine[:2]:  # which the test takes for snapshots
        path.unlink()
    assert content(run.path) == wanted


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_a_results_file_is_not_replaced_by_one_with_a_save_missing(case, tmp_path, how):
    run = hkflow.run(case, output=tmp_path / "run")
    wanted, middle = content(run.path), snapshots_of(run.path)[1]
    middle.write_bytes(middle.read_bytes()[:-2000]) if how == "damaged" else middle.unlink()
    before = everything(run.path)
    for change in (hkflow.resume, pack):
        with pytest.raises(hkflow.RunFolderError, match="save 1 is missing") as error:
            change(run.path)
        assert (middle.name in str(error.value)) == (how == "damaged")
    assert everything(run.path) == before and len(hkflow.load(run.path / "results.h5").time) == 4
    read = hkflow.load(run.path)
    assert (
        len(read.time) == 3
        and read.status.startswith("Completed")
        and "save 1 is missing" in read.status
    )
    for path in snapshots_of(run.path)[1:]:  # the remedy that it names
        path.rename(tmp_path / path.name)
    hkflow.resume(run.path)
    assert content(run.path) == wanted


def test_packing_names_a_damaged_last_snapshot(case, tmp_path):
    run = hkflow.run(case, output=tmp_path / "run")
    last, before = snapshots_of(run.path)[-1], (run.path / "results.h5").read_bytes()
    last.write_bytes(b"")
    with pytest.raises(hkflow.RunFolderError, match=f"{last.name}: damaged. 'hkflow resume"):
        pack(run.path)
    assert (run.path / "results.h5").read_bytes() == before


# --- many saves


def test_saves_that_come_fast_share_files(case, tmp_path, monkeypatch):
    alone = hkflow.run(case, output=tmp_path / "alone", **{"time.saves": 40})
    monkeypatch.setattr(run_writer, "MAX_WAIT", 60.0)
    together = hkflow.run(case, output=tmp_path / "together", **{"time.saves": 40})
    assert content(alone.path) == content(together.path)
    assert together.state_at(-1)["atom_weights"].any()  # so the crash tests have captured mass too
    assert len(snapshots_of(alone.path)) == 40
    assert len(snapshots_of(together.path)) == 2  # the first save is written at once
    for save in (0, 17, -1):
        assert np.array_equal(alone.cell_density_at(save), together.cell_density_at(save))
    state = together.state_at(3)
    state["density"][:] = 0.0  # of the caller
    assert together.state_at(3)["density"].any()


def test_packing_reads_what_is_too_much_to_keep_once(case, tmp_path, monkeypatch):
    run, opened = hkflow.run(case, output=tmp_path / "run", **{"time.saves": 40}), []
    real = store_run.read_snapshots
    monkeypatch.setattr(store_run, "KEPT", 1)
    monkeypatch.setattr(store_run, "read_snapshots", lambda p: opened.append(p) or real(p))
    whole = hkflow.load(run.path)
    assert len(opened) == len(snapshots_of(run.path)) == 40
    packed = hkflow.load(pack(run.path, whole))
    assert len(opened) < 90
    for save in (0, 17, -1):
        assert np.array_equal(packed.cell_density_at(save), run.cell_density_at(save))


def test_saves_of_a_results_file_are_read_many_at_a_time(case, tmp_path, monkeypatch):
    whole = hkflow.run(case, output=tmp_path / "run", **{"time.saves": 40})
    packed, opened = hkflow.load(whole.path / "results.h5"), []
    real = store_run.open_hdf5
    monkeypatch.setattr(store_run, "open_hdf5", lambda path: opened.append(path) or real(path))
    for save in range(40):
        assert np.array_equal(packed.state_at(save)["density"], whole.state_at(save)["density"])
    assert len(opened) == 1
    packed.state_at(3)["density"][:] = 0.0  # of the caller
    assert packed.state_at(3)["density"].any()
    monkeypatch.setattr(store_run, "TOGETHER", 30_000)  # a few saves
    few = hkflow.load(whole.path / "results.h5")
    opened.clear()
    for save in range(-1, 39):
        assert np.array_equal(few.state_at(save)["density"], whole.state_at(save)["density"])
    assert 3 < len(opened) < 21


def test_numbers_of_particles_that_grow_do_not_share_a_file(tmp_path, monkeypatch):
    case = tmp_path / "noise.toml"
    case.write_text(CASE.replace("max_step = 0.05", LAGRANGIAN["particles"]))
    monkeypatch.setattr(run_writer, "MAX_WAIT", 60.0)
    run = hkflow.run(case, output=tmp_path / "run", **{"time.saves": 13})
    counts = [len(run.atoms_at(k)) for k in range(13)]
    assert len(set(counts)) > 3 and len(snapshots_of(run.path)) >= len(set(counts))
    packed = hkflow.load(run.path / "results.h5")
    assert [len(packed.atoms_at(k)) for k in range(13)] == counts


def test_an_error_of_an_observer_leaves_no_save_waiting(case, tmp_path, monkeypatch):
    monkeypatch.setattr(run_writer, "MAX_WAIT", 60.0)

    def third(method, clock):
        if clock.next_save == 3:
            raise ZeroDivisionError

    observer = Observer()
    observer.save = third
    with pytest.raises(ZeroDivisionError):
        hkflow.run(case, output=tmp_path / "run", observers=[observer])
    assert len(hkflow.load(tmp_path / "run").time) == 3
    hkflow.run(case, output=tmp_path / "whole")
    hkflow.resume(tmp_path / "run")
    assert content(tmp_path / "run") == content(tmp_path / "whole")


def test_a_folder_of_the_format_before_is_resumed(case, tmp_path):
    """Format 4: one snapshot to a file, without the axis of saves, its meta an attribute, one limit
    of steps in its clock."""
    run = hkflow.run(case, output=tmp_path / "run")
    wanted = content(run.path)
    for path in snapshots_of(run.path):
        with h5py.File(path) as file:
            arrays = {name: item[()][0] for name, item in file.items() if name != "meta"}
            meta = json.loads(file["meta"][()].tobytes())[0]
        (meta["clock"]["limit"], _), _ = meta["clock"].pop("limits"), meta["clock"].pop("implicit")
        text = json.dumps(meta)
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
            file.attrs["meta"], file.attrs["sha256"] = text, checksum(arrays, text)
    header = run.path / "run.json"
    header.write_text(header.read_text().replace('"format": 5', '"format": 4'))
    assert content(run.path) == wanted and np.array_equal(
        hkflow.load(run.path).density, run.density
    )
    snapshots_of(run.path)[-1].unlink()
    hkflow.resume(run.path)
    assert content(run.path) == wanted and json.loads(header.read_text())["format"] == 5


@pytest.mark.parametrize("wait, saves, files", [(60.0, 200, 2), (-1.0, 6, 6)])
def test_packing_reads_every_file_once_however_many_saves_are_in_it(
    wait, saves, files, case, tmp_path, monkeypatch
):
    monkeypatch.setattr(run_writer, "MAX_WAIT", wait)
    run = hkflow.run(case, output=tmp_path / "run", **{"time.saves": saves, "time.end": 0.05})
    read, honest = [], run_folder.read_snapshots
    monkeypatch.setattr(
        "hkflow.store.run.read_snapshots", lambda path: read.append(path) or honest(path)
    )
    pack(run.path)
    assert len(snapshots_of(run.path)) == files and len(read) == files


def test_sibling_a_run_that_keeps_one_file_reads_each_save_again(case, tmp_path, monkeypatch):
    monkeypatch.setattr("hkflow.store.run.KEPT", 1)
    with pytest.raises(AssertionError):
        test_packing_reads_every_file_once_however_many_saves_are_in_it(
            -1.0, 6, 6, case, tmp_path, monkeypatch
        )


# --- real signals, real processes


def start(case, folder, *overrides):
    """A run in a process of its own, which has written three saves, each at once."""
    command = [
        sys.executable,
        "-c",
        "from hkflow.store import run_folder, run_writer; run_writer.MAX_WAIT = -1.0\n"
        "from hkflow.app.cli import main; main()",
        "run",
        str(case),
        "--output",
        str(folder),
        *(word for override in overrides for word in ("--set", override)),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while (
        len(list(folder.glob("snap/*.h5"))) < 3
        and process.poll() is None
        and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    return process


# 1500 steps, of which some 250 are done when the signal comes
LONG = ("time.end=0.6", "method.max_step=0.0004", "time.saves=13", "error.companions=none")


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    place = tmp_path_factory.mktemp("long")
    (place / "small.toml").write_text(CASE)
    long = {"time.end": 0.6, "method.max_step": 4e-4, "time.saves": 13}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_writer, "MAX_WAIT", -1.0)
        hkflow.run(place / "small.toml", output=place / "whole", **long)
    return content(place / "whole")


def children_of(process):
    """The processes that a run has started: the second one of the command, where a core is free,
    and with Python 3.14 one that looks after multiprocessing's locks."""
    return psutil.Process(process.pid).children()


def are_gone(processes):
    return psutil.wait_procs(processes, timeout=30)[1] == []


def test_kill_9_loses_nothing(case, tmp_path, long_run):
    process = start(case, tmp_path / "run", *LONG)
    others = children_of(process)
    second = [one for one in others if "hkflow.app.second_process" in one.cmdline()]
    process.kill()
    process.communicate()
    assert are_gone(others) and len(second) == beside.has_free_core()
    assert len(hkflow.load(tmp_path / "run").time) >= 3
    hkflow.resume(tmp_path / "run")
    assert content(tmp_path / "run") == long_run


def test_sigterm_saves_and_says_how_to_go_on(case, tmp_path, long_run):
    process = start(case, tmp_path / "run", *LONG)
    others = children_of(process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert are_gone(others)
    if process.returncode == 0:
        pytest.fail("the run was over before the signal came: make it longer")
    assert process.returncode == 143, err
    assert "Interrupted by SIGTERM at t =" in out and "hkflow resume" in err
    # a batch system that ends a job kills it half a minute later
    assert "hkflow plot" in out and not (tmp_path / "run" / "overview.png").exists()
    hkflow.resume(tmp_path / "run")
    assert content(tmp_path / "run") == long_run


class Pool(Observer):
    def step(self, method, clock):
        if clock.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)


def ended_by_its_pool(case, folder):
    hkflow.run(case, folder, observers=[Pool()])
    time.sleep(60.0)  # as for the next task, which never comes


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.skipif("fork" not in get_all_start_methods(), reason="cannot fork")
def test_sigterm_ends_the_process_of_a_pool_once_the_run_is_saved(case, tmp_path):
    """Pools send it, and wait for its effect: where a run heard it, they waited for ever."""
    process = get_context("fork").Process(target=ended_by_its_pool, args=(case, tmp_path / "run"))
    process.start()
    process.join(40.0)
    alive = process.is_alive()
    if alive:
        process.kill()
    assert not alive and process.exitcode == -signal.SIGTERM
    found = hkflow.load(tmp_path / "run")
    assert found.signal == signal.SIGTERM and found.status.endswith("after 3 steps.")
    assert hkflow.resume(tmp_path / "run").finished


def test_pack_works_on_unfinished_runs(case, tmp_path):
    crashed_run(case, tmp_path / "cut", 20)
    pack(tmp_path / "cut")
    assert hkflow.load(tmp_path / "cut" / "results.h5").status.startswith("Not finished")
