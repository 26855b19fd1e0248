"""python -m attacks [PART …] [--tries N] [--output FILE]: try to break hkflow; prints a table and
leaves it in docs/reference/reliability.md."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.progress import Progress

from . import endurance, files, fuzz, interruptions, numerics, shown, whole

ROOT = Path(__file__).parent.parent
HEAD = """# Reliability

What was tried to break hkflow, by `python -m attacks` (`tests/test_attacks.py` runs a small part). A loss is anything saved that is
gone or damaged, a result that differs from that of an undisturbed run, a traceback, a hang, a crash, or a message that does not say
what is wrong.

| attack | tries | losses | command |
| --- | ---: | ---: | --- |
"""

TAIL = """
Same case, same seed: same bits, with any number of threads, workers of a study, ranks of `mpiexec` (of functions of your own to rounding),
and whether a run was broken off or not (`tests/methods/grid/test_budgets.py`, `tests/store/test_run_folder.py`, `tests/studies`, `tests/operators/test_ranks.py`).

The whole suite passes with Python 3.11, 3.12 and 3.13 and the newest numpy, scipy, numba, h5py and matplotlib, and with the oldest
that `setup.cfg` allows (numpy 2.0, scipy 1.16, numba 0.61, h5py 3.11, matplotlib 3.9). Nothing is downloaded at run time.

A hostile problem may be refused, or stop with a sentence: for numbers beyond float64, or a coupling through the data that cannot be
solved where features times mass are large, for data that have no weight, or for a margin that cannot grow. Each is given 400 steps.
Of those that the table calls stopped, some are, by such a sentence; the others took all their steps. None of these is a loss.

Files of unknown origin are data: nothing in them is executed, no link in an HDF5 file and no other file that it names is followed,
what a header claims is compared with what the file can hold and with the shapes that the case has before it is read, and a file
that is a device, a pipe or a folder is refused.

The campaigns found, and tests now keep, among others: a crash of the certificate's search where squares of data overflow; a crash of
HDF5 on a full disk; records cut short there; the noise of particles counted in the wrong units at masses below 1e-19; orphaned
processes of a study that was killed while they were starting; a study that waited for ever, from Python 3.12 on, after one of its
processes was killed; a crash of Python 3.12 on a full disk; a depth that the moment problem has not, refused without its key;
singular systems of the implicit coupling; messages of several lines; bytes of another file read as a record; a mesh of another level
in the cache; a case of 3000 brackets; evenly spread points in thousands of dimensions, whose tables would not end; grids of data that are
all 0; a clock of the smooth margin that stopped where masses change their unit; steps that left no mass of a flow that keeps it; a
smooth margin divided by the weights of data that had none; a dollar in the name of a column;
cells of captured atoms that no mesh has; error bars of networks that failed or had no end; tables of study files that are none.
"""


def interrupt(name):
    """An attack of interruptions.py as a part, with so many tries."""

    def part(tries, told):
        faults = {}
        with tempfile.TemporaryDirectory() as place:
            prepared = interruptions.prepare(Path(place))
            for seed in range(tries):
                if fault := interruptions.ATTACKS[name](prepared, seed):
                    faults[seed] = fault
                told(seed + 1)
        return faults, ""

    return part


def damaged(kind):
    """Wrong data files, or run folders, as a part."""

    def part(tries, told):
        with tempfile.TemporaryDirectory() as place:
            return files.campaign(kind, place, tries, told=told), ""

    return part


def hostile(tries, told):
    """Problems that are hostile to numbers."""
    ends, wrong = numerics.campaign(tries, told=told)
    return wrong, ", ".join(f"{count} {how}" for how, count in sorted(ends.items()))


def long_run(tries, told):
    """One flow of so many steps."""
    growth, dearer, log_mass, fault = endurance.endure(tries)
    told(tries)
    return (
        {0: fault} if fault else {},
        f"memory {growth:+.1f} bytes a step, cost of a step × {dearer:.2f}, log mass {log_mass:.4g}",
    )


# name: (what it is called, tries, the function (tries, told) -> {seed: fault}, a remark or "")
PARTS = {
    "fuzz": (
        "case files made wrong at random; those that are right written, read, run for a step, packed, opened",
        20_000,
        lambda tries, told: (fuzz.fuzz(tries, told=told), ""),
    ),
    "studies": (
        "study files made wrong at random; those that are right read with all their members",
        20_000,
        lambda tries, told: (fuzz.fuzz(tries, told=told, one=fuzz.one_study), ""),
    ),
    "csv": ("data files made wrong at random, special files", 5_000, damaged("csv")),
    "folders": ("run folders and results files damaged or tampered with", 2_000, damaged("run")),
    "hostile": (
        "run folders made hostile: right checksums, links, special files, foreign storage",
        2_000,
        damaged("hostile"),
    ),
    "numerics": ("hostile data, starts, rates, features and options", 1_000, hostile),
    "shown": (
        "pictures, error bars, comparisons, densities of such problems",
        300,
        lambda tries, told: (shown.campaign(tries, told=told), ""),
    ),
    "whole": (
        "cases of what the schema offers, run to their end, with all that can be asked of them",
        400,
        lambda tries, told: (whole.campaign(tries, told=told), ""),
    ),
    "long": ("steps of a smooth-margin flow, memory and cost watched", 100_000, long_run),
    **{
        key: (name, tries, interrupt(name))
        for key, name, tries in (
            ("kill", "kill -9 during a run and its resumes", 50),
            ("term", "SIGTERM during a run and its resumes", 20),
            ("int", "SIGINT during a run and its resumes", 20),
            ("observer", "an observer that ends a run, or fails", 20),
            ("study", "kill -9 during a study", 50),
            ("disk", "no room on the disk", 30),
            ("removed", "output folder removed", 20),
            ("forbidden", "output folder that may not be written", 8),
            ("writers", "two processes with one output", 10),
            ("caches", "two processes fill the mesh cache", 10),
            ("streams", "standard streams closed, full or in latin-1", 20),
        )
    },
}


def main():
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m attacks", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"all if none is named: {', '.join(PARTS)}"
    )
    parser.add_argument("--tries", type=int, help="of each part, instead of its own number")
    parser.add_argument(
        "--output",
        type=Path,
        help="docs/reference/reliability.md if all parts run, else nothing is written",
    )
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"unknown part '{unknown[0]}'; choose from: {', '.join(PARTS)}")
    rows, losses = [], 0
    for key in options.parts or PARTS:
        name, tries, attack = PARTS[key]
        tries, began = options.tries or tries, time.monotonic()
        with Progress(transient=True, disable=not sys.stderr.isatty()) as progress:
            task = progress.add_task(name, total=tries)
            faults, remark = attack(
                tries,
                lambda done, task=task, progress=progress: progress.update(task, completed=done),
            )
        losses += len(faults)
        name += f" ({remark})" if remark else ""
        print(
            f"{name}: {tries} tries, {len(faults)} losses, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        for seed, fault in list(faults.items())[:5]:
            print(f"  {seed}: {fault}", flush=True)
        rows.append(f"| {name} | {tries:,} | {len(faults)} | `python -m attacks {key}` |")
    output = options.output or (
        None if options.parts else ROOT / "docs" / "reference" / "reliability.md"
    )
    if output:
        output.write_text(HEAD + "\n".join(rows) + "\n" + TAIL, encoding="utf-8")
    sys.exit(1 if losses else 0)


if __name__ == "__main__":
    main()
