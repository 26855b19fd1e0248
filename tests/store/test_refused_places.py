"""What commands say of places that the system refuses: a folder that is someone else's, a current
folder that was deleted."""

import errno
import os
import re
import shlex
import tomllib

import numpy as np
import pytest
from commands import hk, hk_alone
from test_run_folder import CASE

import hkflow
from hkflow.files import writing
from hkflow.store.run_folder import unwritten


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """Two runs in folders that nothing can be written to."""
    case = tmp_path / "small.toml"
    case.write_text(CASE)
    for name in ("a", "b"):
        hkflow.run(case, tmp_path / name)

    def refuse(path, *_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr("hkflow.plots.figures.write_whole", refuse)
    monkeypatch.setattr("hkflow.store.export.write_whole", refuse)
    monkeypatch.setattr("hkflow.store.run_folder.FileLock.acquire", refuse)
    monkeypatch.setattr(writing, "write_whole", refuse)
    return tmp_path


@pytest.mark.parametrize(
    "words, what",
    [
        ("plot a", "picture"),
        ("view a", "page"),
        ("export a --netcdf", "export"),
        ("margin --from a", "values"),
        ("predict a rows.csv --output a/table.csv", "table"),
    ],
)
def test_what_cannot_be_written_is_said_with_the_remedy(read_only, monkeypatch, words, what):
    monkeypatch.chdir(read_only)
    (read_only / "rows.csv").write_text("x\n0.5\n")
    _, err = hk(*words.split(), code=2)
    assert f"the {what} cannot be written (Permission denied)" in err and "--output" in err


def test_what_took_the_time_is_said_before_it_is_kept(read_only):
    out, err = hk("errors", read_only / "a", "--own", code=2)
    assert out.startswith("Errors are not estimated") and "cannot be locked" in err
    out, err = hk("compare", read_only / "a", read_only / "b", code=2)
    assert "GHK" in out and "cannot be written" in err


@pytest.mark.skipif(os.name == "nt", reason="its shells quote otherwise")
@pytest.mark.parametrize("name", ["two words", "-dash", "it's", "line\nbreak", "a;b", "plain"])
def test_a_command_to_copy_names_its_folder_for_the_shell(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    times = {"end": 1.0, "saves": 3}
    run = hkflow.run(tomllib.loads(CASE) | {"time": times}, name, observers=[ends_at_once])
    assert not run.finished
    with pytest.raises(hkflow.RunFolderError) as refused:
        hkflow.run(tomllib.loads(CASE), name, force=False)
    said = re.search(r"continue that run with '(.*)', or give", str(refused.value), re.DOTALL)[1]
    place = shlex.split(said)[-1]
    assert not place.startswith("-") and os.path.samefile(place, name)


def ends_at_once(state):
    """An observer that ends a run at its first step."""
    return "Enough" if state.step else None


def test_what_cannot_be_read_is_not_said_to_be_damaged(tmp_path, monkeypatch):
    case = tmp_path / "small.toml"
    case.write_text(CASE)
    run = hkflow.run(case, tmp_path / "run")

    def refuse(path, *_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patch:
        patch.setattr("hkflow.store.contents.read_text", refuse)
        _, err = hk("info", run.path, code=2)
    assert (
        err
        == f"{run.path / 'run.json'}: cannot be read (Permission denied); make it readable"
        + (" and try again.\n")
    )
    monkeypatch.setattr("hkflow.plots.kinds.load", refuse)
    _, err = hk("plot", run.path, code=2)
    assert err == f"{run.path}: the system refuses it (Permission denied).\n"


def test_a_current_folder_that_is_gone_is_called_so(tmp_path, monkeypatch):
    case, gone = tmp_path / "small.toml", tmp_path / "gone"
    case.write_text(CASE)
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    _, err = hk("run", case, code=1)
    assert err == "The current folder: the system refuses it (No such file or directory).\n"


def test_an_older_table_of_predictions_outlives_a_disk_without_room(tmp_path, monkeypatch):
    case, rows, table = (tmp_path / name for name in ("small.toml", "rows.csv", "table.csv"))
    case.write_text(CASE)
    rows.write_text("x\n0.5\n")
    run = hkflow.run(case, tmp_path / "run")
    hk("predict", run.path, rows, "--output", table)
    before = table.read_bytes()

    def refuse(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writing, "sync", refuse)
    _, err = hk("predict", run.path, rows, "--output", table, code=2)
    assert "table.csv: the table cannot be written (No space left" in err
    assert before.startswith(b"line,prediction") and table.read_bytes() == before


@pytest.mark.parametrize(
    "words, file",
    [
        ("predict run rows.csv --output", "data.csv"),
        ("predict run rows.csv --output", "run/run.json"),
        ("report run --output", "run/results.h5"),
        ("view run --output", "data.csv"),
        ("margin --from run --output .", "margin.json"),
        ("export run --csv --output .", "run-records.csv"),
    ],
)
def test_no_other_file_is_written_over(tmp_path, monkeypatch, words, file):
    """A page could replace the data, or results.h5."""
    monkeypatch.chdir(tmp_path)
    case = tomllib.loads(CASE)
    hkflow.run(case, "run")
    (tmp_path / "rows.csv").write_text("x\n0.5\n")
    path = tmp_path / file
    if not path.exists():
        path.write_text("mine\n1\n")
    before, words = path.read_bytes(), [*words.split(), *([file] if words.endswith("put") else [])]
    _, err = hk(*words, code=2)
    assert f"{file}: is another file than a " in err and path.read_bytes() == before
    if path.parent == tmp_path:
        path.unlink()
        for _ in range(2):  # what hkflow made is written over
            hk(*words)


def test_tables_of_other_rows_and_methods_are_written_over(tmp_path, monkeypatch):
    """They begin with another column, and were called another's."""
    monkeypatch.chdir(tmp_path)
    hkflow.run(tomllib.loads(CASE), "run")
    (tmp_path / "rows.csv").write_text("x\n0.5\n")
    np.savez("rows.npz", x=[0.5])
    for rows in ("rows.csv", "rows.npz", "rows.csv"):
        hk("predict", "run", rows, "--output", "made.csv")
    (tmp_path / "run-particles.csv").write_text("time,unit,hidden_1\n0.0,0,1.0\n")
    particles = hkflow.run(tomllib.loads(CASE), "other/run", method={"kind": "particles"})
    hkflow.export(particles, "csv", output=tmp_path)
    assert (tmp_path / "run-particles.csv").read_text().startswith("time,particle,")


@pytest.mark.parametrize("threads", ["0", "-1", "two", "1.5", 5000 * "9"])
def test_a_number_of_threads_that_is_none_is_refused(monkeypatch, threads):
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
    _, err = hk_alone("info", "run", code=2)
    assert err.startswith("NUMBA_NUM_THREADS: wanted a number of threads, at least 1, got '")
    assert threads[:50] in err and err.count("\n") == 1 and len(err) < 200


@pytest.mark.parametrize("threads", ["", " 2", "2 "])
def test_numbers_of_threads_that_numba_reads_are_taken(monkeypatch, threads):
    """An empty one counts as none that is given: a batch script makes it of a variable of the
    scheduler that is not set."""
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
    _, err = hk_alone("info", "none", code=2)
    assert err == "none: no run here. Wanted a run folder or a results.h5.\n"


def test_what_cannot_be_saved_is_said_with_a_remedy_that_is_there(tmp_path, monkeypatch):
    """A run without a save, and one whose folder was moved away, were to be resumed where nothing
    was."""
    case, run = tmp_path / "small.toml", tmp_path / "run"
    case.write_text(CASE)

    def refuse(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(writing, "sync", refuse)
        with pytest.raises(hkflow.RunFolderError, match="Nothing was saved: .* run the case again"):
            hkflow.run(case, run)

    gone = unwritten(tmp_path / "moved", FileNotFoundError(errno.ENOENT, "gone"))
    assert "continues the run from where it is now" in str(gone)
    # where looking at the folder fails as well, as on a disk that is gone
    lost = unwritten(tmp_path / ("x" * 300), OSError(errno.EIO, "lost"))
    assert "continues the run from where it is now" in str(lost)
