"""Studies from file to tables: right errors, the same whoever computes them, and nothing lost when
they are broken off."""

import csv
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import h5py
import numpy as np
import pytest
from commands import computed_here, hk
from conftest import ROOT
from legible import legible

import hkflow
from hkflow.case.load import case_of_tables, load_case
from hkflow.files.writing import write_text
from hkflow.plots import draw
from hkflow.plots.convergence import height, save_study
from hkflow.store.run_folder import lock
from hkflow.studies import members
from hkflow.studies.file import Member
from hkflow.studies.members import compute_all, is_finished, key_of
from hkflow.studies.report import latex, markdown
from hkflow.studies.study import Outcome, StudyResult, read_study, study

CASE = ROOT / "cases" / "verification" / "circle-hellinger-kantorovich.toml"
HEAD = f'case = "{CASE}"\n[set]\ntime = {{end = 1.0, saves = 2}}\n'
REFINED = HEAD + "[refine]\ndomain.cells = [16, 32, 64]\n[expected]\nL1 = [1.7, 2.4]\n"
# columns that may differ between two computations of one study
TIMED = ("seconds", "run", "status")


@pytest.fixture
def write(tmp_path):
    """A function that writes a study file and returns its path."""

    def write(text, name="study"):
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        return path

    return write


def test_without_exact_solutions_the_finest_is_the_reference(write, here, tmp_path):
    text = HEAD + "objective.entropy = 0.1\n[refine]\ndomain.cells = [16, 32, 64]\n"
    made = study(write(text), tmp_path / "out")
    assert made.against == "finest" and made.complete and "L1" in made.names


def test_an_error_that_no_run_has_is_said_to_be_none(write, here, tmp_path):
    """The column of predictions was left out of a study of energies without data, silently."""
    case = ROOT / "cases" / "energies" / "oscillators.toml"
    text = f'case = "{case}"\nerrors = ["predictions", "W1"]\n[set]\ntime = {{end = 0.1}}\n'
    made = study(write(text + "[refine]\ndomain.cells = [16, 32, 64]\n"), tmp_path / "out")
    assert made.complete and made.names == ["W1"]
    said = "No run has this error: predictions, which is one of data."
    assert said in markdown(made) and said in markdown(read_study(tmp_path / "out"))
    assert markdown(made).count("No run has") == 1


def test_a_reference_that_is_not_the_finest_is_refused_before_anything_runs(write, tmp_path):
    text = HEAD + "objective.entropy = 0.1\n[refine]\ndomain.cells = [64, 32, 16]\n"
    with pytest.raises(hkflow.CaseError, match="from coarse to fine"):
        study(write(text), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_orders_of_levels_with_equal_numbers_are_left_out(write, here, tmp_path):
    made = study(write(HEAD + "[refine]\ndomain.cells = [16, 16, 32]\n"), tmp_path / "out")
    assert made.h is None and made.complete


@pytest.fixture
def here(monkeypatch):
    """Members are computed in this process: for tests of what is made of them."""
    monkeypatch.setattr("hkflow.studies.study.compute_all", computed_here)


def table_of(folder):
    """table.csv as a dictionary of columns."""
    with open(folder / "table.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def same(a, b):
    """Whether two tables agree in every digit, but for what is timed."""
    return a.keys() == b.keys() and all(a[name] == b[name] for name in a if name not in TIMED)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen")
def test_there_is_a_worker_for_each_core_that_may_be_used(write, tmp_path, monkeypatch, one_core):
    """Not as many as the machine has: a batch job has some of them."""
    asked = []

    def compute(tasks, workers, *others):
        asked.append(workers)
        return computed_here(tasks, workers, *others)

    monkeypatch.setattr("hkflow.studies.study.compute_all", compute)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    study(write(REFINED), tmp_path / "out")
    assert asked == [1]


@pytest.fixture(scope="module")
def refined(tmp_path_factory):
    """A small study that was run by two processes."""
    place = tmp_path_factory.mktemp("refined")
    (place / "study.toml").write_text(REFINED)
    return study(place / "study.toml", place / "out", workers=2)


def test_errors_are_those_of_the_runs(refined):
    assert refined.complete and refined.as_expected and refined.against == "exact"
    for outcome, cells in zip(refined.outcomes, (16, 32, 64), strict=True):
        _, problem = hkflow.check(CASE, **{"domain.cells": cells})
        run = hkflow.solve(problem, 1.0)
        wanted = problem.exact.density(problem.mesh.centers, 1.0)
        difference = (
            np.abs(run.density[-1, 0] - wanted)
            @ problem.mesh.volumes
            / (wanted @ problem.mesh.volumes)
        )
        assert outcome.errors["L1"] == pytest.approx(difference, rel=1e-12)
        _, moment = problem.exact.mass_and_moment(1.0)
        h = moment * problem.exact.direction
        assert outcome.errors["predictions"] == pytest.approx(
            np.linalg.norm(run.predictions[-1] - h) / abs(moment), rel=1e-9
        )
        assert (
            outcome.work["evaluations"] >= outcome.work["steps"] == run.records["step"][-1]
            and outcome.work["seconds"] > 0.0
        )
        assert 0.0 < outcome.errors["W1"] < 0.1 and outcome.errors["mass"] < 0.1
    fit = refined.convergence(0, "L1").fit
    assert fit.low < fit.order < fit.high


def test_its_runs_do_what_is_asked_of_members_alone(refined):
    asked = load_case(CASE).case.error.companions
    found = {hkflow.load(outcome.folder).case.error.companions for outcome in refined.outcomes}
    assert found == {"none"} and asked != "none"
    there = {path.name for path in (refined.folder / "runs").glob("[!.]*")}  # as a shell has runs/*
    assert there == {outcome.folder.name for outcome in refined.outcomes}


def test_the_folder_holds_tables_and_a_figure(refined):
    text = (refined.folder / "table.md").read_text()
    assert "Holds: order of L¹" in text and "least squares" in text and text == markdown(refined)
    tex = (refined.folder / "table.tex").read_text()
    assert (
        tex == latex(refined)
        and tex.count("\\toprule") == 1
        and tex.isascii()
        and "\\cdot10^{-" in tex
    )
    for line in tex.splitlines():
        assert not line.endswith("\\\\") or line.count("&") == 2 + 2 * len(refined.names) + 1
    table = table_of(refined.folder)
    assert [float(error) for error in table["error L1"]] == [
        outcome.errors["L1"] for outcome in refined.outcomes
    ]
    assert save_study(refined).stat().st_size > 10_000 and (refined.folder / "figure.pdf").exists()
    with h5py.File(refined.folder / "study.h5") as file:
        assert file["error L1"][()].tolist() == [
            outcome.errors["L1"] for outcome in refined.outcomes
        ]
        assert "cells = 32" in file["resolved_case"].asstr()[1] and file["finished"][()].all()
        assert file.attrs["study"] == REFINED
    for outcome in refined.outcomes:
        assert hkflow.load(outcome.folder).finished


def test_a_study_is_read_back_and_drawn_by_name(refined, tmp_path):
    again = read_study(refined.folder)
    assert (again.names, again.against, again.study.levels) == (
        refined.names,
        refined.against,
        refined.study.levels,
    )
    assert again.h == pytest.approx(refined.h, rel=1e-15) and again.complete
    for name in refined.names:
        assert again.errors(0, name).tolist() == refined.errors(0, name).tolist()
    for wide in (False, True):
        texts = legible(draw("convergence", refined.folder, wide=wide))
        assert {"error: L¹", "domain.cells", "processor time (s)", "64"} <= set(texts)
    with pytest.raises(
        hkflow.CaseError, match="'density' shows .* this is a study. Choose from: convergence"
    ):
        draw("density", refined.folder)
    with pytest.raises(hkflow.RunFolderError, match="no study here"):
        read_study(tmp_path)
    with pytest.raises(hkflow.RunFolderError, match="no run here. Look into .*/runs"):
        hkflow.load(refined.folder)


def test_finished_runs_are_used_again_and_this_process_gives_the_same(
    refined, tmp_path, write, here
):
    before = {
        outcome.folder: (outcome.folder / "results.h5").stat().st_mtime_ns
        for outcome in refined.outcomes
    }
    again = study(write(REFINED), refined.folder)
    assert {place: (place / "results.h5").stat().st_mtime_ns for place in before} == before
    alone = study(write(REFINED), tmp_path / "alone")
    assert same(table_of(refined.folder), table_of(alone.folder)) and again.complete
    longer = study(write(REFINED.replace("64]", "64, 128]")), refined.folder)
    assert len(list((refined.folder / "runs").glob("*/"))) == 4 and longer.complete
    assert {place: (place / "results.h5").stat().st_mtime_ns for place in before} == before


def test_a_key_follows_from_what_is_computed(tmp_path):
    def key(**changes):
        return key_of(load_case(CASE, changes))

    assert key() == key() and key() != key(**{"domain.cells": 64}) and key() != key(seed=1)
    assert key(**{"method.limiter": "mc"}) == key()  # the default, written out
    iris = ROOT / "cases" / "quickstart"
    for name in ("iris.toml", "iris.csv"):
        shutil.copy(iris / name, tmp_path / name)
    before = key_of(load_case(tmp_path / "iris.toml"))
    (tmp_path / "iris.csv").write_text((tmp_path / "iris.csv").read_text().replace("1.4", "1.5"))
    assert key_of(load_case(tmp_path / "iris.toml")) != before


def test_a_wrong_order_is_seen(write, tmp_path, here):
    """The sibling: at first order the same study fails."""
    result = study(
        write(REFINED + '[[sweep]]\nmethod.limiter = ["first-order"]'), tmp_path / "out", workers=1
    )
    assert result.complete and not result.as_expected and "FAILS: order of L¹" in markdown(result)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[[sweep]]\nmethod.limiter = ["first-order"]', "Orders are not as expected."),
        ("[[sweep]]\nmethod.max_step = [1.0, 1e-300]", "3 of 6 runs failed. Orders are not as"),
    ],
)
def test_a_quiet_study_that_ends_with_code_1_says_why(write, tmp_path, here, more, said):
    folder = tmp_path / "out"
    out, err = hk("study", write(REFINED + more), "--output", folder, "--quiet", code=1)
    assert not out and said in err and err.endswith(f" {folder / 'table.md'} says more.\n")


def test_the_finest_and_a_reference_of_another_method(write, tmp_path, here):
    teacher = ROOT / "cases" / "verification" / "teacher-circle.toml"
    text = f'case = "{teacher}"\n[set]\ntime.end = 0.3\n[refine]\ndomain.cells = [32, 64, 128]\n'
    result = study(write(text), tmp_path / "out")
    assert (
        result.complete
        and result.against == "finest"
        and {"L1", "max", "W1", "predictions", "objective"} <= set(result.names)
    )
    assert [len(o.errors) > 0 for o in result.outcomes] == [True, True, False]
    fine, coarse = (hkflow.load(result.outcomes[k].folder) for k in (2, 0))
    averages = fine.density[-1].reshape(2, 32, 4).mean(axis=2)
    wanted = np.abs(coarse.density[-1] - averages).sum() / averages.sum()
    assert result.outcomes[0].errors["L1"] == pytest.approx(wanted, rel=1e-12)
    other = text + '[reference]\nmethod = {kind = "particles", particles = 400, tolerance = 1e-8}'
    against = study(write(other), tmp_path / "out")
    assert (
        against.complete
        and against.against == "reference"
        and set(against.names) == {"W1", "predictions", "objective", "mass"}
    )
    assert all(1.5 < order < 2.5 for order in against.convergence(0, "predictions").orders)


def test_cases_of_different_dimensions_have_no_order_in_common(write, tmp_path):
    sphere = CASE.parent / "sphere-hellinger-kantorovich.toml"
    text = (
        f'case = ["{CASE}", "{sphere}"]\n[set]\ntime = {{end = 0.1, saves ='
        " 2}\n[refine]\ndomain.cells = [42, 162]\n"
    )
    with pytest.raises(hkflow.CaseError, match="different dimensions \\(d = 1, d = 2\\)"):
        study(write(text), tmp_path / "out")
    assert not (tmp_path / "out").exists()  # before anything runs


def test_the_picture_of_a_sweep_has_the_height_of_its_panels(write, tmp_path, here):
    """Not that of a legend of every run, which it does not have; lines that are too many to be
    named inside the panels are named below them."""
    decays = [round(0.01 * k, 2) for k in range(1, 9)]
    swept = f"[sweep]\nflow.noise = [0.0, 0.1]\nobjective.weight_decay = {decays}\n"
    result = study(write(HEAD + "domain.cells = 16\n" + swept), tmp_path / "out")
    assert height(result, True) < 0.4 + 2.2 + 0.6
    words = [f"objective.weight_decay = {decay:g}" for decay in decays]
    assert set(words) <= set(legible(draw("convergence", result)))
    assert [ax.get_legend() for ax in draw("convergence", result).axes] == [None, None]


def test_swept_tables_that_are_called_as_a_record_keep_their_column(write, tmp_path, here):
    """The objectives' numbers took the place of what tells their runs apart."""
    base = "activation = 'linear', loss = 'square'"
    swept = f"[sweep]\nobjective = [{{{base}, weight_decay = 0.1}}, {{{base}}}]\n"
    result = study(write(HEAD + swept), tmp_path / "out")
    columns = table_of(tmp_path / "out")
    assert ["0.1" in text for text in columns["swept objective"]] == [True, False]
    values = [outcome.values["objective"] for outcome in result.outcomes]
    assert list(map(float, columns["objective"])) == values
    again = read_study(tmp_path / "out")
    assert [outcome.values["objective"] for outcome in again.outcomes] == values


def test_outcomes_of_a_place_are_not_looked_for_among_all():
    """Of 4000 runs the tables took 20 s for that, and the pictures 40 s."""

    class Counted(list):
        read = 0

        def __iter__(self):
            Counted.read += 1
            return super().__iter__()

    places = [
        (group, level, repeat) for group in range(50) for level in (0, 1) for repeat in (0, 1)
    ]
    outcomes = Counted(
        Outcome(Member(*place, None, {}), Path(), True, "", {}, {}, {}) for place in places
    )
    result = StudyResult(None, Path(), outcomes, "", [], None)
    found = [result.of(group, level) for group in range(50) for level in (0, 1)]
    assert [outcome for some in found for outcome in some] == list(outcomes)
    assert Counted.read <= 2 and result.of(50, 0) == []


def test_results_that_were_cut_off_are_made_again(write, tmp_path, here):
    """Of snapshots that are all there; the run was not measured, whenever the study was called.
    Others, whose damage is inside, are told with the remedy."""
    path, folder = write(HEAD + "[sweep]\nflow.noise = [0.0, 0.1]\n"), tmp_path / "out"
    first = study(path, folder)
    wanted, results = table_of(folder), first.outcomes[1].folder / "results.h5"
    os.truncate(results, 3000)
    assert study(path, folder).complete and same(table_of(folder), wanted)
    with h5py.File(results, "r+") as file:
        del file["records"]
    result = study(path, folder)
    assert not result.complete
    assert result.outcomes[1].problem.endswith("; without this file, the same study makes it again")
    results.unlink()
    assert study(path, folder).complete and same(table_of(folder), wanted)


def test_repeats_are_taken_together(write, tmp_path, here):
    text = (
        HEAD + 'method = {kind = "particles", points = "random", tolerance ='
        " 1e-5}\n[refine]\nmethod.particles = [50, 450]\n"
    )
    result = study(write("repeats = 12\n" + text), tmp_path / "out")
    assert result.complete and result.errors(0, "predictions").shape == (2, 12)
    assert len({o.errors["predictions"] for o in result.outcomes}) == 24
    table = result.convergence(0, "predictions")
    assert (
        table.fit.low < 0.5 < table.fit.high
        and (table.bars > 0.05).all()
        and "±" in markdown(result)
    )


def test_a_full_disk_is_told_with_the_file_that_it_has_no_room_for(
    write, tmp_path, here, monkeypatch
):
    """The disk itself names none."""

    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path, out = write(HEAD + "[refine]\ndomain.cells = [16, 32]\n"), tmp_path / "out"
    study(path, out)
    monkeypatch.setattr(type(path), "write_bytes", full)
    with pytest.raises(hkflow.RunFolderError, match=r"out/study.h5: cannot be written \(No space"):
        study(path, out)
    with pytest.raises(OSError) as caught:
        write_text(tmp_path / "page.md", "text")
    assert caught.value.filename == str(tmp_path / "page.md")
    assert not [file for file in tmp_path.iterdir() if file.name.endswith(".tmp")]


def test_sweeps_show_values_and_a_member_that_fails_does_not_stop_the_others(write, tmp_path, here):
    text = HEAD.replace("[set]\n", 'values = ["objective", "mass"]\n[set]\n') + "[[sweep]]\n"
    text += (
        'initial = [{kind = "uniform"}, {kind = "points", file = "absent.csv"}, {kind = "uniform",'
        " mass = 2.0}]\n"
    )
    result = study(write(text), tmp_path / "out")
    assert [o.finished for o in result.outcomes] == [True, False, True] and not result.complete
    assert "absent.csv" in result.outcomes[1].status and "absent.csv" in markdown(result)
    run = hkflow.load(result.outcomes[2].folder)
    assert result.outcomes[2].values == {
        name: run.records[name][-1] for name in ("objective", "mass")
    }
    assert save_study(result).exists()


def test_a_table_of_values_reads_of_its_runs_what_it_shows(write, tmp_path, monkeypatch, here):
    text = HEAD.replace("[set]\n", 'values = ["mass", "captures"]\n[set]\n') + "[[sweep]]\n"
    path = write(text + 'initial = [{kind = "uniform"}, {kind = "uniform", mass = 2.0}]\n')
    wanted = study(path, tmp_path / "out")
    monkeypatch.setattr("hkflow.studies.study.load", lambda path: pytest.fail(f"{path} was read"))
    again = study(path, tmp_path / "out")
    for one, other in zip(again.outcomes, wanted.outcomes, strict=True):
        assert one.finished and one.work == other.work and one.status == other.status
        assert one.values["mass"] == hkflow.load(one.folder).records["mass"][-1]
        assert np.isnan(one.values["captures"])
    with h5py.File(again.outcomes[1].folder / "results.h5", "r+") as file:
        del file["records/log_scale"]
    sound, damaged = study(path, tmp_path / "out").outcomes  # which costs no other its numbers
    assert sound.finished and sound.values == again.outcomes[0].values
    assert not damaged.finished
    assert "results.h5: damaged ('log_scale' is missing" in damaged.problem


def test_sibling_a_table_of_errors_reads_all_of_its_runs(write, tmp_path, monkeypatch, here):
    path = write(REFINED)
    study(path, tmp_path / "out")
    monkeypatch.setattr("hkflow.studies.study.load", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        study(path, tmp_path / "out")


SLOW = (
    f'case = "{CASE}"\n[set]\ntime = {{end = 2.0, saves = 5}}\nmethod.max_step ='
    " 0.002\n[refine]\ndomain.cells = [16, 32, 64, 128]\n"
)


def command(path, folder, *options):
    return [
        sys.executable,
        "-c",
        "from hkflow.app.cli import main; main()",
        "study",
        str(path),
        "--output",
        str(folder),
        *options,
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The table of a study that nothing disturbs."""
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "study.toml").write_text(SLOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hkflow.studies.study.compute_all", computed_here)
        study(place / "study.toml", place / "out")
    return table_of(place / "out")


@pytest.mark.parametrize(
    "attack, times", [(signal.SIGKILL, 2), (signal.SIGTERM, 1)], ids=["SIGKILL", "SIGTERM"]
)
def test_a_study_that_is_broken_off_goes_on_to_the_same_table(
    attack, times, write, tmp_path, undisturbed, rng, here
):
    """What processes of the command began, this one ends."""
    path, folder, codes = write(SLOW), tmp_path / "out", []
    for delay in rng.uniform(1.0, 4.0, times):
        process = subprocess.Popen(command(path, folder, "--quiet"), start_new_session=True)
        time.sleep(delay)
        process.send_signal(attack)
        codes.append(process.wait(timeout=60))
    assert set(codes) <= {0, -attack, 128 + attack}
    result = study(path, folder)
    assert result.complete and same(table_of(folder), undisturbed)


def test_a_run_killed_before_it_is_packed_is_not_measured_by_an_earlier_session(
    write, tmp_path, here
):
    """Its status says that it finished, and the results.h5 beside it would be that of the session
    that was broken off."""

    def killed(*_):
        raise SystemExit

    path, folder = write(HEAD + "[refine]\ndomain.cells = [16, 32]\n"), tmp_path / "out"
    wanted = table_of(study(path, tmp_path / "undisturbed").folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "Stopping", lambda study: lambda state: state.time > 0.1)
        assert not study(path, folder).complete
    assert len(list((folder / "runs").glob("*/results.h5"))) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hkflow.running.ending.pack", killed)
        with pytest.raises(SystemExit):
            study(path, folder)
    assert study(path, folder).complete and same(table_of(folder), wanted)


@pytest.mark.parametrize("attack", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_runs_say_by_which_signal_their_study_was_broken_off(attack, tmp_path):
    """The study itself hears it; its runs end in order, whichever it was, and none says it was
    another."""
    tasks = {
        tmp_path / "run": load_case(
            CASE, {"time": {"end": 2.0, "saves": 5}, "method.max_step": 1e-4}
        )
    }

    def interrupt():
        while not any(tmp_path.glob("*/snap/*.h5")):
            time.sleep(0.05)
        os.kill(os.getpid(), attack)

    threading.Thread(target=interrupt).start()
    outcomes, received = compute_all(tasks, 1, 1, None, lambda folder, outcome: None)
    ((finished, status),) = outcomes.values()
    assert received == attack and not finished
    assert status.startswith(f"Interrupted by {attack.name} at t ="), status
    assert hkflow.load(tmp_path / "run").status == status


def test_a_process_that_starts_hears_an_interruption_without_a_traceback(tmp_path, capfd):
    """What it imports takes a second or two, in which Ctrl-C was a KeyboardInterrupt anywhere."""
    tasks = {tmp_path / "run": load_case(CASE, {"time": {"end": 2.0, "saves": 5}})}

    def interrupt():
        while not active_children():
            time.sleep(0.01)
        time.sleep(0.5)  # in its imports
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    outcomes, received = compute_all(tasks, 1, 1, None, lambda folder, outcome: None)
    assert received == signal.SIGINT and "Traceback" not in capfd.readouterr().err
    assert outcomes == {tmp_path / "run": (False, "Interrupted with its study")}


def test_ctrl_c_raises_once_the_tables_are_written(write, tmp_path, monkeypatch, press):
    """As in hkflow.run and hkflow.solve, so that the cells of a notebook below do not go on."""
    monkeypatch.setattr("hkflow.studies.study.compute_all", lambda *_: ({}, int(signal.SIGINT)))
    with pytest.raises(KeyboardInterrupt, match="the same call goes on") as raised:
        study(write(REFINED), tmp_path / "out")
    assert raised.value.study.signal == signal.SIGINT and not raised.value.study.complete
    assert (tmp_path / "out" / "table.md").exists()


NETWORKS = {
    "data": {"source": "inline", "inputs": [[0.5], [-1.0], [0.2]], "targets": [1.0, -1.0, 0.5]},
    "objective": {"activation": "relu", "loss": "square", "bias": True},
    "domain": {"kind": "signed-sphere"},
    "time": {"end": 1.0},
    "error": {"companions": "none"},
    "method": {"kind": "network", "units": 200, "points": "gaussian", "repeats": 100000},
}


def test_what_follows_the_steps_of_a_run_hears_an_interruption(tmp_path):
    """Its repeats, here, which would take minutes; those that are there are kept."""
    tasks = {tmp_path / "run": case_of_tables(NETWORKS, {})}

    def interrupt():
        while not (tmp_path / "run" / "results.h5").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    outcomes, received = compute_all(tasks, 1, 1, None, lambda folder, outcome: None)
    assert received == signal.SIGINT and list(outcomes) == list(tasks)
    assert "broken off after" in hkflow.load(tmp_path / "run").repeats.remark


def test_a_process_that_is_killed_is_replaced(tmp_path, undisturbed):
    tasks = {}
    for cells in (16, 32, 64, 128):
        changes = {
            "domain.cells": cells,
            "time": {"end": 2.0, "saves": 5},
            "method.max_step": 0.002,
        }
        tasks[tmp_path / str(cells)] = load_case(CASE, changes)

    def kill():
        while not (children := active_children()) or not any(tmp_path.glob("*/snap/*.h5")):
            time.sleep(0.05)
        os.kill(children[0].pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    outcomes, received = compute_all(tasks, 2, 1, None, lambda folder, outcome: None)
    killer.join()
    assert (
        received is None
        and all(finished for finished, _ in outcomes.values())
        and all(map(is_finished, tasks))
    )
    found = [hkflow.load(folder).exact_errors()[0][-1] for folder in tasks]
    assert [float(error) for error in undisturbed["error L1"]] == found


@pytest.mark.filterwarnings("ignore")  # those of Dask are its own
def test_a_dask_cluster_gives_the_same(write, tmp_path, refined):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        result = study(write(REFINED), tmp_path / "out", scheduler=cluster.scheduler_address)
    assert result.complete
    errors = {o.member.file.case.domain.cells: o.errors for o in refined.outcomes}
    assert all(o.errors == errors[o.member.file.case.domain.cells] for o in result.outcomes)


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_is_not_there_is_told(write, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(members, "ANSWER", 0.5)
    with pytest.raises(hkflow.CaseError, match="no Dask scheduler answers"):
        study(write(REFINED), tmp_path / "out", scheduler="tcp://127.0.0.1:9")


def test_a_plain_script_runs_a_study_once(write, tmp_path):
    """Without the usual guard around its main part, which processes that are started afresh would
    run again."""
    path = write(HEAD + "[refine]\ndomain.cells = [16, 32]\n")
    script = tmp_path / "script.py"
    script.write_text(
        f"import hkflow\nprint('begins')\nprint(hkflow.study({str(path)!r},"
        f" {str(tmp_path / 'out')!r}, workers=1).complete, __file__)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == f"begins\nTrue {script}\n"


def test_a_study_writes_over_no_files_of_others(write, tmp_path, refined):
    """It wrote its tables and figure over those of any folder, and into that of a run."""
    path, run = write(REFINED), next((refined.folder / "runs").iterdir())
    held = sorted(run.iterdir())
    with pytest.raises(hkflow.RunFolderError, match="is the folder of a run. Choose another"):
        study(path, run)
    assert sorted(run.iterdir()) == held
    for name in ("table.csv", "figure.png"):
        mine = tmp_path / name.partition(".")[0] / name
        mine.parent.mkdir()
        mine.write_text("mine")
        _, refused = hk("study", path, "--output", mine.parent, code=2)
        assert f"it would write over {name}. Choose another folder" in refused
        assert mine.read_text() == "mine" and list(mine.parent.iterdir()) == [mine]


def test_two_studies_in_one_folder_are_refused(write, tmp_path, refined):
    with lock(refined.folder), pytest.raises(hkflow.RunFolderError, match="another process"):
        study(write(REFINED), refined.folder)


def test_the_command_says_how_it_went(write, tmp_path):
    path = write(HEAD + "[refine]\ndomain.cells = [16, 32]\n")
    done = subprocess.run(
        command(path, "out", "--workers", "1"),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (
        done.returncode == 0 and "least squares" in done.stdout and "run 2 of 2" in done.stderr
    ), done.stderr
    assert "tables:           out/table.md" in done.stdout, done.stdout
    wrong = write(HEAD + "[refine]\ndomain.cells = [16, 1]\n", "wrong")
    _, refused = hk("study", wrong, "--output", tmp_path / "wrong", code=2)
    assert "domain.cells" in refused and "Traceback" not in refused
    assert not (tmp_path / "wrong").exists()


def test_cases_of_one_name_are_told_apart(write, here, tmp_path):
    """Both were "same" in tables and pictures, and what failed did not say of which case it was."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        shutil.copy(CASE, tmp_path / folder / "same.toml")
    path = write('case = ["a/same.toml", "b/same.toml"]\n[set]\ntime = {end = 0.5, saves = 2}\n')
    made = study(path, tmp_path / "out")
    assert "| a/same |" in markdown(made) and "| b/same |" in markdown(made)
    failed = [replace(o, finished=False, status="Failed: no room") for o in made.outcomes]
    assert "case = b/same, time.end = 0.5" in markdown(replace(made, outcomes=failed))
