"""How long a user waits before anything happens: importing, and the first run with and without
compiled code at hand."""

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import numpy as np

from .steps import BARS, CELLS
from .timing import Row, ratio, skipped
from .timing import seconds as timed

seconds = partial(timed, clock=time.perf_counter)  # other processes do the work
PEERS = ("numpy", "torch", "jax", "ducc0", "PyMPDATA", "pde", "clawpack.pyclaw")
# hkflow loads its parts when they are asked for
READY = "import hkflow; hkflow.solve, hkflow.geodesic_mesh, hkflow.Objective"
FIRST = """
import numpy as np, hkflow
inputs = np.column_stack([np.linspace(-1, 1, 8), np.ones(8)])
objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], inputs, inputs[:, 0])
hkflow.solve(hkflow.Problem(hkflow.circle_mesh(64), objective, hkflow.Flow(1.0, 1.0)), 0.01)
"""
QUICKSTART = Path(__file__).parent.parent / "cases/quickstart/rings.toml"
IRIS = QUICKSTART.with_name("iris.toml")
# a command, which ends with the seconds that the compiler took
COMMAND = """
import sys
from numba.core.event import install_timer
from hkflow.app.cli import main
with install_timer("numba:compiler_lock", lambda spent: print(spent, file=sys.stderr)):
    try:
        main()
    except SystemExit as end:
        failed = end.code
sys.exit(failed)
"""


def script(text, *arguments, **variables):
    """A function that runs a script in a new process; raises CalledProcessError if that fails."""
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return lambda: subprocess.run(
        command, env=os.environ | variables, check=True, capture_output=True, text=True
    )


def quickstart():
    """Rows of the first command of the README, with its picture: the first time after a clone, with
    no mesh and nothing compiled, and again; and of its picture alone."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"NUMBA_CACHE_DIR": f"{folder}/compiled", "HKFLOW_CACHE": f"{folder}/meshes"}
        # Python keeps its byte code, as it does for users
        caches |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/bytes"}
        for output, when in (("first", "nothing compiled yet"), ("second", "again")):
            run = script(COMMAND, "run", QUICKSTART, "--output", f"{folder}/{output}", **caches)
            begun, before = time.perf_counter(), getrusage(RUSAGE_CHILDREN)
            compiling = float(run().stderr.split()[-1])
            spent, after = time.perf_counter() - begun, getrusage(RUSAGE_CHILDREN)
            processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            note = f"once; {processor:.3g} s of processors"
            yield Row(f"quickstart with its picture, {when}", spent, "s", note=note)
            note = "once; a second process compiles besides"
            yield Row(f"of which the compiler, {when}", compiling, "s", note=note)
        draw = script(COMMAND, "plot", f"{folder}/second", **caches)
        yield Row("its overview alone, as a command", min(seconds(draw) for _ in range(3)), "s")


def bars_beside(quick):
    """What error bars add to the command that makes the second quickstart, which has two cores: a
    second process computes their companions."""
    with tempfile.TemporaryDirectory() as folder:
        for cells in CELLS[: 1 if quick else None]:
            words = "run", IRIS, "--output", f"{folder}/run", "--force", "--quiet", "--set"
            run = script(COMMAND, *words, f"domain.cells={cells}")
            alone = script(
                COMMAND, *words, f"domain.cells={cells}", "--set", "error.companions=none"
            )
            run()
            times = np.array([[seconds(run), seconds(alone)] for _ in range(2 if quick else 5)])
            bars = times[:, 0] - times[:, 1]
            yield Row(
                f"error bars of iris, {cells} cells, as a command",
                np.median(bars),
                "s",
                **ratio(bars, times[:, 1]),
                goal=("<=", BARS),
                note="over the time of the command without, its picture included",
            )


def rows(threads, quick):
    """Imports that take turns, then a first run, from a used and from an empty cache of compiled
    code; with two threads error bars that are computed beside a run."""
    if threads > 1:
        yield from bars_beside(quick)
        return
    repeats = 2 if quick else 5
    for name in PEERS[:1] if quick else PEERS:
        try:
            times = np.array(
                [
                    [seconds(script(READY)), seconds(script(f"import {name}"))]
                    for _ in range(repeats)
                ]
            )
        except subprocess.CalledProcessError as error:
            yield skipped(
                f"hkflow ready to solve, against import {name}",
                error.stderr.strip().split("\n")[-1],
            )
            continue
        fields = ratio(times[:, 1], times[:, 0])
        yield Row(
            f"hkflow ready to solve, against import {name}",
            np.median(times[:, 0]),
            "s",
            **fields,
            note="its time / ours",
        )
    if quick:
        return
    run = script(FIRST)
    run()
    warm = [seconds(run) for _ in range(repeats)]
    yield Row(
        "first run of a process, circle of 64 cells",
        np.median(warm),
        "s",
        note="compiled code in the cache",
    )
    with tempfile.TemporaryDirectory() as folder:
        cold = seconds(script(FIRST, NUMBA_CACHE_DIR=folder))
    yield Row("the same, nothing compiled yet", cold, "s", note="once after installation")
    yield from quickstart()
