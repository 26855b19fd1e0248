"""Data files and run folders that are wrong: each is read, or refused with a sentence; nothing in them is ever executed."""

import random
import shutil
import warnings
from pathlib import Path

import h5py
import numpy as np

import hkflow

CASE = """
[data]
source = "csv"
file = "data.csv"
features = ["a", "b"]
label = "y"
positive = ["1"]
negative = ["0"]
[objective]
activation = "relu"
bias = true
loss = "logistic"
[domain]
kind = "signed-sphere"
cells = 12
[flow]
kind = "hellinger-kantorovich"
[time]
end = 0.01
"""
ROWS = "a,b,y\n" + "".join(f"{k * 0.37 % 1:.3f},{k * 0.61 % 1:.3f},{k % 2}\n" for k in range(20))


def csv_of(rng):
    """Bytes of a CSV file with one or two things wrong with it."""
    text = ROWS
    for what in rng.sample(range(14), rng.choice((1, 1, 2))):
        lines = text.split("\n")
        at = rng.randrange(1, max(2, len(lines) - 1))
        if what == 0:
            return b""
        elif what == 1:
            lines[at % len(lines)] += "," + rng.choice(("", "7", "x,y,z"))
        elif what == 2:
            lines[at % len(lines)] = rng.choice(("1.0", "", ",,", "1,2,3,4", ";", "0.5;0.5;1"))
        elif what == 3:
            lines[at % len(lines)] = (
                f"{rng.choice(('nan', 'inf', '-inf', '1e400', 'NaN', '0x10', '1_0', '１', '--', 'None'))},0.1,1"
            )
        elif what == 4:
            lines[0] = rng.choice(
                ("a,a,y", "a,b", "", "a,b,y,a", "A,B,Y", "\ufeffa,b,y", " a , b , y ", '"a","b","y"', "a\tb\ty")
            )
        elif what == 5:
            lines[at % len(lines)] = '"' + "x" * rng.choice((10, 200_000)) + '",0.1,1'
        elif what == 6:
            lines[at % len(lines)] = '"0.1,0.2,1'
        elif what == 7:
            lines[at % len(lines)] = "0.1,0.2," + rng.choice(("2", "", "1.0", " 1", "one", "☃"))
        elif what == 8:
            return text.encode(rng.choice(("utf-16", "latin-1", "utf-8-sig", "utf-32")))
        elif what == 9:
            data = bytearray(text.encode())
            data[rng.randrange(len(data))] = rng.randrange(256)
            return bytes(data)
        elif what == 10:
            lines = [line + "\r" for line in lines]
        elif what == 11:
            lines = lines[:1] + [line for line in lines[1:] if line.endswith("1")]
        elif what == 12:
            lines = [*lines[:3], "\x00" * 10, *lines[3:]]
        else:
            lines = lines[:1] + lines[1:2] * 20
        text = "\n".join(lines)
    return text.encode("utf-8", "surrogatepass")


def one_csv(folder, seed):
    """Check the case with a wrong data file; None, or what went wrong."""
    rng = random.Random(seed)
    (folder / "case.toml").write_text(CASE)
    (folder / "data.csv").write_bytes(csv_of(rng))
    return _attempt(lambda: hkflow.check(folder / "case.toml"), hkflow.CaseError)


def _attempt(call, *allowed):
    """None if a call succeeds or is refused with a sentence; else what it said."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call()
    except allowed as error:
        return None if str(error).strip().endswith((".", ")", "'")) else f"not a sentence: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return None


def damaged_run(folder, run, seed):
    """Load, resume, plot and compare a run folder in which one file was tampered with; None, or what went wrong."""
    rng, copy = random.Random(seed), folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    files = sorted(path for path in copy.rglob("*") if path.is_file() and path.name not in (".lock", "overview.png"))
    path = rng.choice(files)
    what = rng.choice(("cut", "flip", "empty", "gone", "foreign", "newer", "arrays", "folder"))
    _tamper(rng, path, what)
    target = copy if rng.random() < 0.6 else copy / "results.h5"
    allowed = (hkflow.RunFolderError, hkflow.CaseError)

    def look():
        loaded = hkflow.load(target)
        if len(loaded.time):
            loaded.predict(np.zeros((1, loaded.inputs.shape[1])))
            loaded.density_at(-1)

    for action in (look, lambda: hkflow.resume(copy)):
        if fault := _attempt(action, *allowed):
            return f"{path.relative_to(copy)} {what}, {'resume' if action is not look else 'load'}: {fault[:300]}"
    return None


def _tamper(rng, path, what):
    data = path.read_bytes()
    if what == "cut":
        path.write_bytes(data[: rng.randrange(len(data) + 1)])
    elif what == "flip" and data:
        data = bytearray(data)
        for _ in range(rng.choice((1, 10, 100))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(data))
    elif what == "empty":
        path.write_bytes(b"")
    elif what == "gone":
        path.unlink()
    elif what == "folder":
        path.unlink()
        path.mkdir()
    elif what in ("foreign", "newer", "arrays") and path.suffix == ".h5":
        if what == "foreign":
            with h5py.File(path, "w") as file:
                file["something"] = np.arange(3)
            return
        with h5py.File(path, "r+") as file:
            if what == "newer":
                file.attrs["format"] = 99
                return
            names = []
            file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
            name = rng.choice(names)
            old = file[name][()]
            del file[name]
            file[name] = rng.choice(
                (
                    np.zeros(0),
                    np.full(np.shape(old), np.nan),
                    np.array("text", dtype=h5py.string_dtype()),
                    np.asarray(old)[..., None],
                )
            )
    elif path.suffix == ".json":
        path.write_text(rng.choice(("{}", "[]", "null", '{"format": 99}', '{"format": "x"}', "{", '{"finished": true}')))


def make_run(folder):
    """A small finished run to be tampered with."""
    (folder / "case.toml").write_text(CASE)
    (folder / "data.csv").write_text(ROWS)
    hkflow.run(folder / "case.toml", output=folder / "run", force=True)
    return folder / "run"


def campaign(kind, place, tries, first=0, told=lambda done: None):
    """{seed: fault} of so many wrong files: kind "csv" or "run"."""
    place = Path(place)
    run = make_run(place) if kind == "run" else None
    faults = {}
    for seed in range(first, first + tries):
        fault = one_csv(place, seed) if kind == "csv" else damaged_run(place, run, seed)
        if fault:
            faults[seed] = fault
        told(seed - first + 1)
    return faults
