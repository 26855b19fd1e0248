"""What a study of many small members costs besides computing: starting processes, reading cases,
writing and reading run folders, tables."""

import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import hkflow

from .timing import Row

CASE = Path(__file__).parent.parent / "cases" / "quickstart" / "iris.toml"
LOST = 0.1  # of the processor time: what a study may lose
SIZES = ((100, 162, 20.0), (20, 2562, 20.0))  # members, seeds of each sign, end

STUDY = """
case = "{case}"
values = ["objective"]
[set]
"time.end" = {end}
"method" = {{kind = "characteristics", particles = {atoms}}}
[sweep]
"initial.mass" = {masses}
"""


def spent():
    """Seconds of processor time, of this process and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measured(members, seeds, end):
    """Processor time of a study with one process besides this one, and of its runs' steps."""
    masses = np.linspace(0.5, 2.0, members).round(6).tolist()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "many.toml")
        file.write_text(STUDY.format(case=CASE, atoms=2 * seeds, end=end, masses=masses))
        began = spent()
        found = hkflow.study(file, Path(folder, "study"), workers=1)
        return spent() - began, sum(outcome.work["seconds"] for outcome in found.outcomes)


def rows(threads, quick):
    """The share of a study's processor time that is not its runs' steps."""
    for members, seeds, end in ((4, 42, 1.0),) if quick else SIZES:
        measured(2, seeds, end)  # compiles
        whole, steps = measured(members, seeds, end)
        lost = 1.0 - steps / whole
        yield Row(
            f"study of {members} members, 2 × {seeds} seeds", 1e3 * (whole - steps) / members, "ms",
            ratio=lost, goal=("<=", LOST),
            note=f"besides {1e3 * steps / members:.3g} ms of steps for each; as a share of all",
        )  # fmt: skip
