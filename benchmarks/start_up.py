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


def rows(threads, quick):
    """Imports that take turns, then a first run, from a used and from an empty cache of compiled
    code."""
    if threads > 1:
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
