"""Case and study files made wrong in random ways: each must be one that can run, or be refused with
a message that names what is wrong.

What can run is written out and read back, and what is small is run for a step, packed and opened:
nothing may have changed.
"""

import copy
import json
import os
import random
import re
import shutil
import signal
import tempfile
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import tomlkit

import hkflow
from hkflow.case.load import parse_case, toml_of
from hkflow.case.resolve import resolve
from hkflow.studies.file import load_study

ROOT = Path(__file__).parent.parent
CASES = sorted(path for path in (ROOT / "cases").rglob("*.toml") if path.parent.name != "studies")
STUDIES = sorted((ROOT / "cases" / "studies").glob("*.toml"))
SECONDS, PACKING = 20, 600  # that a check may take, and a run of one step with all that it compiles
SMALL = 5000  # numbers of data, cells and particles, up to which a case is run
NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    12,
    42,
    2**31,
    2**63 - 1,
    2**63,
    10**30,
    -(10**9),
    0.0,
    -0.0,
    0.5,
    1.0,
    1e-300,
    5e-324,
    1e-12,
    1e12,
    1e150,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    10**400,
)
TEXTS = (
    "",
    " ",
    "grid",
    "uniform",
    "ünïcödé ☃",
    "a" * 5000,
    "../../etc/passwd",
    "/dev/zero",
    "/",
    ".",
    "\\",
    "\t\n",
    "0",
    "nan",
    "None",
    "__import__('os')",
    "a\0b",
    "$\\frac{a}$",
    "pipe",
    "/dev/stdin",
    "a\nb",
)
WORDS = (
    *("kind", "source", "file", "n", "dim", "cells", "seed", "end", "saves", "noise", "depth"),
    *("positions", "weights", "targets", "inputs"),
)
STUDY_WORDS = (
    *("sweep", "refine", "set", "case", "repeats", "against", "reference", "quick", "values"),
    *("curves", "errors", "domain.cells", "time.steps", "flow.noise", "method.kind"),
)


class Hang(Exception):
    """A check took too long."""


def value(rng, depth=0):
    """Something that a key may be given."""
    choice = rng.random()
    if choice < 0.45:
        return rng.choice(NUMBERS)
    if choice < 0.65:
        return rng.choice(TEXTS)
    if choice < 0.72:
        return rng.random() < 0.5
    if choice < 0.9 or depth > 2:
        return (
            [value(rng, depth + 1) for _ in range(rng.choice((0, 1, 2, 3, 5)))]
            if depth <= 2
            else []
        )
    return {rng.choice(WORDS): value(rng, depth + 1) for _ in range(rng.choice((0, 1, 2)))}


def keys_of(tables, prefix=()):
    """Paths of all keys, those of tables included."""
    for key, inner in tables.items():
        yield (*prefix, key)
        if isinstance(inner, dict):
            yield from keys_of(inner, (*prefix, key))


def mutate(rng, tables, models, words=WORDS):
    """One to four changes of a case's tables, in place: keys removed, renamed, given other values;
    tables of another case."""
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        paths = list(keys_of(tables))
        if not paths:
            return
        *above, key = rng.choice(paths)
        place = tables
        for name in above:
            place = place[name]
        what = rng.random()
        if what < 0.55:
            place[key] = nearby(rng, place[key]) if rng.random() < 0.4 else value(rng)
        elif what < 0.7:
            del place[key]
        elif what < 0.8:
            name = (
                rng.choice(words)
                if rng.random() < 0.5
                else key[: rng.randrange(len(key) + 1)] + rng.choice("xyzé_-")
            )
            place[name] = place.pop(key)
        elif what < 0.9:
            other = tomllib.loads(rng.choice(models))
            name = rng.choice(list(other))
            tables[name] = other[name]
        else:
            place[rng.choice(words)] = value(rng)


def nearby(rng, old):
    """A value of the same type."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int | float):
        return type(old)(rng.choice((old * 2, -old, old + 1, old * 1000, old // 2, 0)))
    if isinstance(old, str):
        return rng.choice((old.upper(), old[:-1], old + "s", old * 2))
    if isinstance(old, list):
        return rng.choice((old[:1], old + old, [*old, value(rng)], [old]))
    return value(rng)


def damage(rng, text):
    """Bytes that are nearly a TOML text."""
    data = bytearray(text.encode())
    for _ in range(rng.choice((1, 2, 5, 20))):
        at = rng.randrange(len(data) + 1)
        what = rng.random()
        if what < 0.3:
            del data[at : at + rng.choice((1, 2, 10, 100))]
        elif what < 0.6:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 8))))
        elif what < 0.8:
            data[at:at] = rng.choice(
                (
                    "[",
                    "]",
                    '"',
                    "=",
                    "\n",
                    "[[a]]\n",
                    "= 1",
                    "#",
                    "'''",
                    "\\u",
                    "1e999",
                    "2024-01-01",
                    "\r",
                    "[" * 3000,
                    "9" * 5000,
                    "0x" + "f" * 5000,
                    "\\u0000",
                    "a." * 3000,
                )
            ).encode()
        else:
            data[at:at] = data[max(0, at - rng.randrange(1, 60)) : at]
    return b"\xef\xbb\xbf" * (rng.random() < 0.1) + bytes(data)


class OneStep(hkflow.Observer):
    """Ends a run after its first step."""

    steps = 0

    def step(self, *_):
        self.steps += 1

    def stop(self):
        return "Enough steps" if self.steps > 1 else None


def changed(path, resolved, problem):
    """What changes when a case is written and read, or run, packed and opened; None if nothing
    does."""
    text = toml_of(resolved)
    again = resolve(parse_case(text, path.parent, path.stem, source=str(path)).case)
    if again != resolved:
        return f"written and read it is another case: {text[:200]}"
    size = problem.objective.inputs.size + (
        problem.initial.size if problem.mesh else problem.atoms().positions.size
    )
    if (
        size > SMALL
        or getattr(resolved.method, "noise_points", 0) > SMALL
        or getattr(resolved.method, "batch", 0) > SMALL
    ):
        return None
    folder = path.parent / "run"
    try:
        with np.errstate(all="ignore"):
            run = hkflow.run(path, output=folder, observers=(OneStep(),))
            kept = hkflow.load(folder / "results.h5")
            if not (
                kept.case == run.case == resolved
                and kept.status == run.status
                and _equal(kept.records, run.records)
            ):
                return "packed and opened it is another run"
            if not all(_equal(kept.state_at(k), run.state_at(k)) for k in range(len(run.time))):
                return "packed and opened its states are others"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _equal(kept, found):
    """Whether what is kept has the same bits."""
    return all(np.array_equal(kept[name], np.asarray(found[name]), equal_nan=True) for name in kept)


@cache
def _models(study=False):
    """The texts of all cases, or studies."""
    return [path.read_text(encoding="utf-8") for path in (STUDIES if study else CASES)]


def make(rng, models, path, words=WORDS):
    """Write a wrong file that is like one of the models; returns whether TOML can say it."""
    if rng.random() < 0.25:
        path.write_bytes(damage(rng, rng.choice(models)))
        return True
    tables = copy.deepcopy(tomllib.loads(rng.choice(models)))
    mutate(rng, tables, models, words)
    try:
        path.write_text(tomlkit.dumps(tables), encoding="utf-8")
    except (ValueError, TypeError, UnicodeError):
        return False
    return True


def one(seed, folder):
    """Make a case file in a folder and check it. Returns None if that went well, else what went
    wrong.

    The folder must hold the data files that cases name; nothing may be left in it.
    """
    path = folder / "case.toml"
    if not make(random.Random(seed), _models(), path):
        return None
    before = sorted(folder.iterdir())
    try:
        with time_limit(SECONDS):
            resolved, problem = hkflow.check(path)
        with time_limit(PACKING):
            fault = changed(path, resolved, problem)
    except hkflow.CaseError as error:
        fault = unhelpful(str(error), path)
    except Hang:
        fault = f"no answer within {SECONDS} s, or {PACKING} s with a step of a run"
    except BaseException as error:
        fault = f"{type(error).__name__}: {error}"
    if fault is None and sorted(folder.iterdir()) != before:
        fault = "it left something behind"
    return fault


def one_study(seed, folder):
    """The same of a study file, whose members are checked and not run."""
    rng, path = random.Random(seed), folder / "studies" / "study.toml"
    if not make(rng, _models(study=True), path, WORDS + STUDY_WORDS):
        return None
    try:
        with time_limit(SECONDS):
            load_study(path, quick=rng.random() < 0.5)
    except hkflow.CaseError as error:
        return unhelpful(str(error), path)
    except Hang:
        return f"no answer within {SECONDS} s"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return None


def unhelpful(message, path):
    """What is wrong with a message: every line must name the file and a key or a place in the
    file."""
    for line in message.splitlines():
        if not line.startswith(str(path)) and not line.startswith("  "):
            return f"a message that does not name the file: {line!r}"
        rest = line.removeprefix(f"{path}: ")
        named = re.match(
            r"[^\s:]+|not valid TOML: .*|is not UTF-8|cannot be read|the (case|problem)", rest
        )
        if (
            not named
            or not rest.rstrip().endswith((".", ")", "]", "'", "…"))
            and not rest.endswith(":")
        ):
            return f"a message without key or end: {line!r}"
    return None


class time_limit:
    """Raises Hang in the main thread when so many seconds are over."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        signal.signal(signal.SIGALRM, self.ring)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    @staticmethod
    def ring(*_):
        raise Hang


def fuzz(tries, first=0, told=lambda done: None, one=one):
    """Check so many case files, or study files by `one_study`, from a seed on; returns {seed:
    fault}."""
    faults = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(ROOT / "cases", folder, dirs_exist_ok=True)
        for file in (ROOT / "cases").rglob("*.csv"):
            shutil.copy(file, folder)
        os.mkfifo(folder / "pipe")
        for seed in range(first, first + tries):
            if fault := one(seed, folder):
                faults[seed] = fault
            told(seed - first + 1)
    return faults


if __name__ == "__main__":
    import sys

    found = fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(json.dumps(found, indent=1, ensure_ascii=False))
