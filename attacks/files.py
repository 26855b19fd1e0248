"""Data files and run folders that are wrong: each is read, or refused with a sentence; nothing in
them is ever executed.

Hostile folders have checksums that fit what was put into them, links, special files, and HDF5 files
that point at other files: none of these is followed, nothing outside of the folder is changed, and
no snapshot that was not touched is lost.
"""

import json
import os
import random
import shutil
import warnings
from pathlib import Path

import h5py
import numpy as np

import hkflow
from hkflow.analysis.summary import provenance, summary
from hkflow.files.writing import checksum
from hkflow.store import run_writer
from hkflow.store.run_folder import static_arrays
from hkflow.store.snapshots import read_snapshots

from .fuzz import Hang, time_limit, value

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
saves = 4
"""
METHODS = {
    "grid": "",
    "particles": """
[method]
kind = "particles"
particles = 12
""",
    "characteristics": """
[method]
kind = "characteristics"
particles = 12
points = "quasi-uniform"
""",
    "network": """
[method]
kind = "network"
units = 12
""",
}
# the larger of the first inputs are the positive ones: their max-margin is found in a few rounds
ROWS = "a,b,y\n" + "".join(
    f"{k * 0.37 % 1:.3f},{k * 0.61 % 1:.3f},{int(k * 0.37 % 1 > 0.5)}\n" for k in range(20)
)


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
            lines[at % len(lines)] = f"{rng.choice(ODD)},0.1,1"
        elif what == 4:
            lines[0] = rng.choice(
                (
                    "a,a,y",
                    "a,b",
                    "",
                    "a,b,y,a",
                    "A,B,Y",
                    "\ufeffa,b,y",
                    " a , b , y ",
                    '"a","b","y"',
                    "a\tb\ty",
                )
            )
        elif what == 5:
            lines[at % len(lines)] = '"' + "x" * rng.choice((10, 200_000)) + '",0.1,1'
        elif what == 6:
            lines[at % len(lines)] = '"0.1,0.2,1'
        elif what == 7:
            lines[at % len(lines)] = "0.1,0.2," + rng.choice(("2", "", "1.0", " 1", "one", "☃"))
        elif what == 8:
            encoding = rng.choice(("utf-16", "latin-1", "utf-8-sig", "utf-32"))
            return text.encode(encoding, errors="replace")  # latin-1 has not every ODD
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


ODD = ("nan", "inf", "-inf", "1e400", "NaN", "0x10", "1_0", "１", "--", "None")
SECONDS = 60  # for one action on a folder, kernels compiled
SECRET = 4.2424242424242e17  # in every number of the file outside that is never to be read


def special(rng, path, outside):
    """Put something that is no file of its own in the place of a file."""
    path.unlink()
    what = rng.choice(("pipe", "device", "stdin", "loop", "sparse", "link", "folder", "nowhere"))
    if what == "pipe":
        os.mkfifo(path)
    elif what == "sparse":
        with open(path, "wb") as stream:
            stream.truncate(2**42)
    elif what == "folder":
        path.mkdir()
    else:
        targets = {
            "device": "/dev/zero",
            "stdin": "/dev/stdin",
            "loop": path,
            "link": outside,
            "nowhere": "/nowhere/at/all",
        }
        path.symlink_to(targets[what])
    return what


def one_csv(folder, seed):
    """Check the case with a wrong data file; None, or what went wrong."""
    rng, path = random.Random(seed), folder / "data.csv"
    (folder / "case.toml").write_text(CASE)
    (
        path.unlink()
        if path.is_symlink() or path.exists() and not path.is_dir()
        else path.is_dir() and path.rmdir()
    )
    path.write_bytes(csv_of(rng))
    if rng.random() < 0.1:
        special(rng, path, folder / "case.toml")
    return _attempt(lambda: hkflow.check(folder / "case.toml"), hkflow.CaseError)


def _attempt(call, *allowed):
    """None if a call succeeds or is refused with a sentence; else what it said."""
    try:
        with time_limit(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error")
            # numbers run out where they were made to
            warnings.simplefilter("ignore", RuntimeWarning)
            call()
    except allowed as error:
        return (
            None
            if isinstance(error, OSError) or str(error).strip().endswith((".", ")", "'"))
            else f"not a sentence: {error}"
        )
    except Hang:
        return f"no answer within {SECONDS} s"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return None


def damaged_run(folder, run, seed):
    """Load, resume, plot and compare a run folder in which one file was tampered with; None, or
    what went wrong."""
    rng, copy = random.Random(seed), folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    files = sorted(
        path
        for path in copy.rglob("*")
        if path.is_file() and path.name not in (".lock", "overview.png")
    )
    path = rng.choice(files)
    what = rng.choice(("cut", "flip", "empty", "gone", "foreign", "newer", "arrays", "folder"))
    _tamper(rng, path, what)
    target = copy if rng.random() < 0.6 else copy / "results.h5"
    allowed = (hkflow.RunFolderError, hkflow.CaseError)

    def look():
        loaded = hkflow.load(target)
        if len(loaded.time):
            loaded.predict(np.zeros((1, loaded.inputs.shape[1])), prepared=True)
            _measure(loaded, -1)

    for action in (look, lambda: hkflow.resume(copy)):
        if fault := _attempt(action, *allowed):
            return (
                f"{path.relative_to(copy)} {what}, {'resume' if action is not look else 'load'}:"
                f" {fault[:300]}"
            )
    return None


def _measure(run, save):
    """What a run's measure is at a save, as one array of numbers."""
    if run.method == "grid":
        return run.cell_density_at(save)
    return run.atoms_at(save, normalised=True).weights


def hostile_run(folder, run, seed):
    """Read, write out, pack and resume a folder made hostile with one to three changes; None, or
    what went wrong."""
    rng, copy, outside = random.Random(seed), folder / "copy", folder / "outside.bin"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    outside.write_bytes(np.full(4096, SECRET).tobytes())
    if rng.random() < 0.5:  # one that is still to be continued
        (copy / "status.json").unlink()
        max((copy / "snap").glob("*.h5")).unlink()
    if rng.random() < 0.5:
        (copy / "results.h5").unlink(missing_ok=True)
    files = sorted(path for path in copy.rglob("*") if path.is_file() and path.name != ".lock")
    done, untouched = [], {path: path.read_bytes() for path in files if path.parent.name == "snap"}
    for path in rng.sample(files, rng.choice((1, 1, 2, 3))):
        how = special if rng.random() < 0.2 else REWRITES.get(path.suffix, _rewrite_json)
        done.append(f"{path.relative_to(copy)}: {how(rng, path, outside)}")
        untouched.pop(path, None)
    allowed = (hkflow.RunFolderError, hkflow.CaseError)
    seen = []

    def look(path):
        loaded = hkflow.load(path)
        seen.extend(
            [
                loaded.inputs,
                loaded.targets,
                loaded.weights,
                loaded.time,
                loaded.scaled_predictions,
                *loaded.records.values(),
            ]
        )
        summary(loaded), provenance(loaded)
        for save in range(len(loaded.time)):
            loaded.predict(np.zeros((1, loaded.inputs.shape[1])), save, prepared=True)
            seen.append(_measure(loaded, save))
        if len(loaded.time):
            hkflow.export(loaded, "csv", output=folder / "exported")

    for name, action in (
        ("load the folder", lambda: look(copy)),
        ("load results.h5", lambda: look(copy / "results.h5")),
        # the command line turns an OSError, of a folder in the place of the file, into a sentence
        ("pack", lambda: hkflow.pack(copy)),
        ("resume", lambda: hkflow.resume(copy)),
        ("load again", lambda: look(copy)),
    ):
        if fault := _attempt(action, *allowed, *((OSError,) if name == "pack" else ())):
            return f"{'; '.join(done)}; {name}: {fault[:300]}"
    if any((np.asarray(array) == SECRET).any() for array in seen):
        return f"{'; '.join(done)}: the numbers of another file were read"
    if outside.read_bytes() != np.full(4096, SECRET).tobytes():
        return f"{'; '.join(done)}: a file outside of the folder was changed"
    for path, content in untouched.items():
        if not path.exists() or path.read_bytes() != content and read_snapshots(path) is None:
            return f"{'; '.join(done)}: {path.name} was whole and is lost"
    return None


def _rewrite_json(rng, path, _):
    """Change values of a JSON file, or of a line of one."""
    lines = (
        path.read_text(encoding="utf-8").split("\n")
        if path.suffix == ".jsonl"
        else [path.read_text(encoding="utf-8")]
    )
    at = rng.randrange(max(1, len(lines) - 1))
    content = json.loads(lines[at])
    what = _change_json(rng, content)
    lines[at] = json.dumps(
        content if rng.random() < 0.95 else rng.choice((None, [], 3, "x")), default=str
    )
    path.write_text("\n".join(lines), encoding="utf-8")
    return what


def _rewrite_numbers(rng, path, _):
    """Change numbers of a file of float64, or how many there are."""
    numbers = np.fromfile(path)
    what = rng.choice(("one", "all", "fewer", "more"))
    if what == "fewer":
        numbers = numbers[: rng.randrange(len(numbers))]
    elif what == "more":
        numbers = np.concatenate([numbers, numbers])
    else:
        chosen = slice(None) if what == "all" else rng.randrange(len(numbers))
        numbers[chosen] = rng.choice((0.0, -1.0, 1e300, np.nan, np.inf, 1e-300))
    numbers.tofile(path)
    return what


def _change_json(rng, content):
    """Remove a key of nested dictionaries and lists, or give it another value; says which."""
    place, name = content, []
    while True:
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        name.append(str(key))
        if not (isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7):
            break
        place = place[key]
    if rng.random() < 0.2:
        del place[key]
        return f"no {'.'.join(name)}"
    old = place[key]
    if isinstance(old, str) and "[" in old and rng.random() < 0.8:  # a case
        lines = old.split("\n")
        at = rng.randrange(len(lines))
        lines[at] = rng.choice(
            (
                "",
                lines[at].replace("1", "2"),
                lines[at].replace("2", "9999"),
                "[time]",
                lines[at][:-1],
            )
        )
        place[key] = "\n".join(lines)
    else:
        place[key] = rng.choice((value(rng), value(rng), None, -1, [old], "2"))
    return f"{'.'.join(name)} = {str(place[key])[:40]!r}"


def _rewrite_hdf5(rng, path, outside):
    """Change arrays or attributes of an HDF5 file, or let them lie elsewhere, and give it a
    checksum that fits."""
    with h5py.File(path, "r+") as file:
        names = []
        file.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
        if rng.random() < 0.25 or not names:
            what = _change_attribute(rng, file)
        else:
            name = rng.choice(names)
            what = f"{name} {_change_array(rng, file, name, outside)}"
        try:
            _seal(file)
        except (
            KeyError,
            TypeError,
            ValueError,
            OSError,
            RuntimeError,
            AttributeError,
            MemoryError,
        ):
            pass  # there is nothing left that has a checksum
    return what


def _change_attribute(rng, file):
    key = rng.choice(sorted(set(file.attrs) - {"sha256"}) or ["sha256"])
    old = file.attrs[key]
    if key == "header" and rng.random() < 0.9:
        content = json.loads(old)
        what = _change_json(rng, content)
        file.attrs[key] = json.dumps(content, default=str)
        return f"{key}: {what}"
    del file.attrs[key]
    new = rng.choice((None, 3, -1, "x", "", np.zeros(3), np.nan, [old, old]))
    if new is not None:
        file.attrs[key] = new
    return f"attribute {key} = {str(new)[:40]}"


def _change_array(rng, file, name, outside):
    """Another array in the place of one, or one that lies in another file."""
    old = file[name][()]
    if name == "meta" and rng.random() < 0.9:
        content = json.loads(old.tobytes())
        what = _change_json(rng, content)
        del file[name]
        file[name] = np.frombuffer(json.dumps(content, default=str).encode(), np.uint8)
        return what
    shape, size = np.shape(old) or (1,), max(1, np.size(old))
    del file[name]
    what = rng.choice(
        ("external", "soft", "link", "virtual", "huge", "packed", "group", "gone", *["values"] * 8)
    )
    if what == "external":
        file.create_dataset(name, shape, "f8", external=[(str(outside), 0, 8 * size)])
    elif what == "soft":
        file[name] = h5py.SoftLink(rng.choice(("/sign", f"/{name}", "/nowhere", "/")))
    elif what == "link":
        with h5py.File(outside.with_suffix(".h5"), "w") as other:
            other["x"] = np.full(shape, SECRET)
        file[name] = h5py.ExternalLink(str(outside.with_suffix(".h5")), "x")
    elif what == "virtual":
        with h5py.File(outside.with_suffix(".h5"), "w") as other:
            other["x"] = np.full(shape, SECRET)
        layout = h5py.VirtualLayout(shape, "f8")
        layout[...] = h5py.VirtualSource(str(outside.with_suffix(".h5")), "x", shape)
        file.create_virtual_dataset(name, layout)
    elif what == "huge":
        file.create_dataset(
            name, (2**40, *shape[1:]), "f8", **({"chunks": True} if rng.random() < 0.5 else {})
        )
    elif what == "packed":
        file.create_dataset(
            name, (2**28, *shape[1:]), "f8", chunks=True, compression="gzip", fillvalue=1.0
        )
    elif what == "group":
        file.create_group(name)
    elif what == "values":
        array = np.asarray(old)
        new = rng.choice(
            (
                lambda: array[:0], lambda: array[..., None],
                lambda: array[: len(array) // 2] if array.ndim else array[None],
                lambda: np.full(array.shape, np.nan), lambda: np.zeros_like(array), lambda: -array,
                lambda: array.T, lambda: array + array.dtype.type(100), lambda: array * 1e300,
                lambda: array.astype("f4"), lambda: array.astype(">f8"),
                lambda: array.astype(complex), lambda: array.astype("i8"), lambda: array > 0,
                lambda: np.array(b"text"),
                lambda: np.concatenate([array, array]) if array.ndim else array,
                lambda: array[::-1] if array.ndim else -array,
            )
        )  # fmt: skip
        with np.errstate(all="ignore"):
            file[name] = new()
        return f"shape {file[name].shape}, {file[name].dtype}"
    return what


REWRITES = {".h5": _rewrite_hdf5, ".bin": _rewrite_numbers}


def _seal(file):
    """Write the checksum that fits what is in a file now, as hkflow does."""

    def arrays(group):
        return {
            name: item[()]
            for name, item in group.items()
            if isinstance(item, h5py.Dataset) and item.nbytes < 1e8
        }

    if "meta" in file:
        file.attrs["sha256"] = checksum(arrays(file), "")
    elif "data" in file:
        mesh = arrays(file["mesh"]) if "mesh" in file else None
        file.attrs["sha256"] = checksum(static_arrays(mesh, arrays(file["data"]), file["sign"][()]))


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
            file.visititems(
                lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
            )
            if not names:  # an earlier blow has taken them
                return
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
        path.write_text(
            rng.choice(
                ("{}", "[]", "null", '{"format": 99}', '{"format": "x"}', "{", '{"finished": true}')
            )
        )


FOLDERS = {"run": damaged_run, "hostile": hostile_run}


def make_run(folder, wait=run_writer.MAX_WAIT, method="grid"):
    """A small finished run to be tampered with; wait : seconds in which its saves share a file."""
    folder.mkdir(exist_ok=True)
    (folder / "case.toml").write_text(CASE + METHODS[method])
    (folder / "data.csv").write_text(ROWS)
    usual, run_writer.MAX_WAIT = run_writer.MAX_WAIT, wait
    try:
        hkflow.run(folder / "case.toml", output=folder / "run", force=True)
    finally:
        run_writer.MAX_WAIT = usual
    return folder / "run"


def campaign(kind, place, tries, first=0, told=lambda done: None):
    """{seed: fault} of so many wrong files: kind "csv", "run" or "hostile"."""
    place = Path(place)
    runs = [] if kind == "csv" else [make_run(place / "apart", 0.0)]
    runs += [make_run(place / name, method=name) for name in METHODS if kind != "csv"]
    faults = {}
    for seed in range(first, first + tries):
        fault = (
            one_csv(place, seed)
            if kind == "csv"
            else FOLDERS[kind](place, runs[seed % len(runs)], seed)
        )
        if fault:
            faults[seed] = fault
        told(seed - first + 1)
    return faults
