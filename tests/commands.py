"""The command, here or in a process of its own, and cases made quick."""

import subprocess
import sys
import tomllib
import warnings
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from unittest.mock import patch

import numba

from hkflow.app.cli import main
from hkflow.studies.members import compute

MESHES = {"circle": 64, "hypersphere": 2760}  # cells, by a word in the name; 642 of others
SHORT = {
    "icm": 5.0,
    "icm/fig2-m1000": 1.0,
    "wei": 20.0,
    "wei/sec34": 1.0,
    "twohom/thm12": 100.0,
    "joint": 20.0,
    "colt/cluster-margin": 40.0,
    "colt/fig1": 10.0,  # later on rounding decides where some atoms go
    "colt/fig3": 1.0,
    "moroshko": 1000.0,
    "verification/teacher-hypersphere": 1.0,  # as above
}


def hk(*words, code=0):
    """Run `hkflow words…` in this process, which has all loaded; returns (stdout, stderr)."""
    out, err, words = StringIO(), StringIO(), ["hkflow", *map(str, words)]
    with (
        patch.object(sys, "argv", words),
        patch.object(warnings, "formatwarning"),  # which the program replaces
        patch("hkflow.running.beside.cores", lambda: 1),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            ended = main()
        except SystemExit as end:
            ended = end.code
    assert (ended or 0) == code, out.getvalue() + err.getvalue()
    return out.getvalue(), err.getvalue()


def hk_alone(*words, code=0):
    """The same in a process of its own, as a user has it."""
    command = [sys.executable, "-c", "from hkflow.app.cli import main; main()", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def computed_here(tasks, workers, threads, scheduler, tell):
    """In the place of hkflow.studies.study.compute_all: members of a study are computed in this
    process, where other ones would take seconds to load all."""
    outcomes, before = {}, numba.get_num_threads()
    for folder, file in tasks.items():
        outcomes[folder] = compute(folder, file, threads)
        tell(folder, outcomes[folder])
    numba.set_num_threads(before)
    return outcomes, None


def coarse(path):
    """Overrides that make a case quick."""
    table = tomllib.loads(path.read_text())
    kind = table["domain"]["kind"]
    size = next((n for word, n in MESHES.items() if word in path.stem), 642)
    cells = {} if kind == "fixed-features" else {"domain.cells": size}
    end = SHORT.get(f"{path.parent.name}/{path.stem}", SHORT.get(path.parent.name))
    # many more, and rounding decides which datum is hardest
    steps = {"time.steps": 1000} if "steps" in table["time"] else {}
    # on few cells rounding would decide the lengths of steps
    tight = table.get("method", {}).get("tolerance", 1.0) < 1e-6
    steps |= {"method.tolerance": 1e-5} if tight else {}
    return (
        cells
        | {"time.saves": 2}
        | steps
        | ({"time.end": end} if end and "end" in table["time"] else {})
    )
