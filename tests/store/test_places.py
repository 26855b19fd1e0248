"""Run folders that are met while or after another process, or a kill, has been there."""

import errno
import os
import socket

import pytest
from test_run_folder import CASE

import hkflow
from hkflow.running.error_bars import keep
from hkflow.store import run_folder, run_writer


def killed(*_):
    """In the place of a function at which a process ends."""
    raise SystemExit


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "small.toml"
    text = CASE.replace("cells = 24", "cells = 96")  # enough for error bars
    path.write_text(f'{text}[error]\ncompanions = "own"\n')
    return path


def test_a_finished_run_that_is_resumed_keeps_what_it_said_until_it_is_said_again(
    case, tmp_path, monkeypatch
):
    run, there = hkflow.run(case, tmp_path / "run"), {}

    def look_and_die(folder, packed):
        there.update({name: (folder / name).exists() for name in run_folder.OF_THE_END[:3]})
        killed()

    monkeypatch.setattr("hkflow.running.ending.pack", look_and_die)
    with pytest.raises(SystemExit):
        hkflow.resume(run.path, observers=[lambda state: None])
    assert all(there.values()) and hkflow.load(run.path).errors.bars


def test_what_a_kill_leaves_out_at_the_end_is_made_when_the_case_is_met_again(
    case, tmp_path, monkeypatch
):
    """Error bars, here; the run is finished and read as such before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hkflow.running.ending.estimated", killed)
        with pytest.raises(SystemExit):
            hkflow.run(case, tmp_path / "run")
    left = hkflow.load(tmp_path / "run")
    assert left.finished and left.errors is None
    assert hkflow.run(case, tmp_path / "run").errors.bars
    monkeypatch.setattr("hkflow.running.ending.estimated", killed)
    assert hkflow.run(case, tmp_path / "run").errors.bars  # not once more


def test_a_run_in_memory_follows_its_folder_where_it_is_moved_aside(case, tmp_path):
    """Its error bars are read when they are asked for, and another run has the folder by then."""
    path = hkflow.run(case, tmp_path / "run").path
    own, first = hkflow.load(path).errors["predictions"], hkflow.load(path)
    other = hkflow.run(case, path, **{"flow.noise": 0.5})
    assert other.path == path and first.path == tmp_path / "run.1"
    assert (first.errors["predictions"] == own).all() and (own != other.errors["predictions"]).any()
    gone = hkflow.load(first.path)
    first.path.rename(tmp_path / "elsewhere")
    with pytest.raises(hkflow.RunFolderError, match="Load it from where it is now"):
        _ = gone.errors
    bars = hkflow.error_bars(other, "own")
    path.rename(tmp_path / "other")
    (tmp_path / "elsewhere").rename(path)
    with pytest.raises(hkflow.RunFolderError, match="no longer there"):
        keep(other, bars)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(hkflow.RunFolderError, match="no longer there"):  # where none is either
        keep(other, bars)


def test_a_run_whose_folder_is_moved_writes_into_no_other(case, tmp_path, monkeypatch):
    monkeypatch.setattr(run_writer, "MAX_WAIT", -1.0)

    def moves(state):
        if state.step == 6:
            (tmp_path / "run").rename(tmp_path / "moved")
            hkflow.run(case, tmp_path / "run")

    with pytest.raises(hkflow.RunFolderError, match="no longer there"):
        hkflow.run(case, tmp_path / "run", observers=[moves])
    assert len(hkflow.load(tmp_path / "run").time) == 4


def test_results_are_not_packed_while_the_run_goes_on(case, tmp_path):
    """What was read before its end would stand for all of it after that."""
    said = []

    def packs(state):
        with pytest.raises(hkflow.RunFolderError, match="another process is writing"):
            hkflow.pack(tmp_path / "run")
        said.append(state.time)

    hkflow.run(case, tmp_path / "run", observers=[packs])
    assert said and hkflow.load(hkflow.pack(tmp_path / "run")).finished


def test_what_an_observer_ended_is_not_taken_for_whole(case, tmp_path):
    """Of a run that was broken off, and resumed with an observer; the case itself goes on."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr("hkflow.running.run.Signals.step", killed)
        hkflow.run(case, tmp_path / "run")
    at_once = hkflow.resume(tmp_path / "run", observers=[lambda state: "Seen enough"])
    assert at_once.status.startswith("Seen enough") and not at_once.finished
    assert hkflow.run(case, tmp_path / "run").finished and not (tmp_path / "run.1").exists()


def test_what_another_run_claimed_and_has_not_begun_is_not_moved_aside(tmp_path):
    for names, moved in (("snap", False), ("snap .lock", False), ("snap run.json", True)):
        folder = tmp_path / names.replace(" ", "-")
        (folder / "snap").mkdir(parents=True)
        for name in names.split()[1:]:
            (folder / name).touch()
        assert (run_folder.claim_folder(folder, force=True) is not None) == moved
        assert (folder / "snap").is_dir()


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_where_a_disk_has_no_locks_a_file_stands_for_one_and_names_its_process(
    case, tmp_path, monkeypatch
):
    def flock(number, how):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", flock)
    run, refused = hkflow.run(case, tmp_path / "run"), []

    def meets(state):
        with pytest.raises(hkflow.RunFolderError, match="another process is writing") as error:
            hkflow.pack(tmp_path / "run")
        refused.append(str(error.value))

    hkflow.run(case, tmp_path / "run", force=True, observers=[meets])
    named = f"It is process {os.getpid()} of {socket.gethostname()}; if that is no more, delete"
    assert f"{named} {tmp_path / 'run' / '.lock'}." in refused[0]
    assert run.path == tmp_path / "run.1"
    assert not any((tmp_path / name / ".lock").exists() for name in ("run", "run.1"))
