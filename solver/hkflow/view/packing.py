"""Runs in few bytes: what the page shows of them, as JSON and one compressed block of numbers.

    run ─▶ facts (JSON) + arrays ─▶ bytes, differences from save to save ─▶ zlib ─▶ base64

Lossy are densities and weights, one byte of their logarithm, and positions and maps of predictions,
two bytes; `facts` states the ranges, so that the page knows how far a number may be off.
"""

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..analysis.frames import frames
from ..arguments import Floats
from ..errors import HkflowError
from ..geometry.mesh import half_faces
from ..measures.point_measure import PointMeasure
from ..objectives.activations import FEATURES
from ..objectives.data import with_bias
from ..solving.registry import are_per_mass, in_units_of_one
from ..solving.result import Result
from ..store.shown import are_beyond

DECADES = 6.0  # of densities and weights below the largest of a save; smaller ones count as 0
LEVELS = 255  # of a byte, besides 0
SIGNED_LEVELS = 127  # on either side of 0
FINEST = 32767  # of two bytes
PIXELS = {1: 257, 2: 49}  # of a map of predictions along each input, by the number of inputs
MAX_DATA = 2000  # data that are drawn
MAX_NUMBERS = 400_000  # coordinates of points at all saves, and loss gradients: a third of the page
MAX_ROWS = 400  # of records
MAX_SAVES = 1000  # evenly among those of a run; more would only leave less room for each
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

Packed = tuple[dict[str, Any], dict[str, NDArray]]


class _Saves(NamedTuple):
    """What is made of the states of a run, by the saves that are shown: their indices, (n,);  log
    |ν|, (n,);  densities in bytes, of a grid on circle or S², and their ranges;  points of ν/|ν|;
    maps (n, n_grid) of predictions, if there are any;  per_mass : whether the page shows h/|ν|: of
    classifiers, whose h grows with the mass, and where the mass is beyond numbers."""

    shown: NDArray[np.intp]
    logs: Floats
    densities: list
    points: list
    maps: Floats
    per_mass: bool


def page_data(runs: Sequence[Result]) -> tuple[str, str]:
    """What the page reads: JSON for the inside of a script element, and base64.

    No text of a run can end the element: every < is written as \\u003c.
    """
    packs = [packed(run) for run in runs]
    table, blocks = [], []
    for facts, arrays in packs:
        rows = {}
        for name, array in arrays.items():
            code, content = _encoded(array)
            rows[name] = [code, list(array.shape), len(content)]
            blocks.append(content)
        table.append(facts | {"arrays": rows})
    text = json.dumps(table, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c"), b64encode(zlib.compress(b"".join(blocks))).decode()


def _encoded(array):
    """Type and bytes of an array. Those of one and two bytes are differences along the first axis,
    modulo 2^8 or 2^16; of two bytes all low ones precede all high ones."""
    kind = array.dtype.str[1:]
    if kind in ("u1", "i2"):
        bits = np.ascontiguousarray(array).view(f"<u{kind[1]}")
        bits = np.concatenate([bits[:1], bits[1:] - bits[:-1]])
        return kind, np.ascontiguousarray(bits.reshape(-1, 1).view("u1").T).tobytes()
    return kind, np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()


def packed(run: Result) -> Packed:
    """Facts for JSON, and arrays by name, of what the page shows of a run."""
    saves = _read(run)
    facts: dict[str, Any] = {
        "name": run.stem,
        "title": run.title,
        "status": run.status,
        "size": _raised(", ".join(run._size())),
        "method": run.method,
        "domain": "fixed features" if run.domain.fixed else _raised(run.domain.name),
        "picture": run.domain.picture,
        "plot": "slices" if run.domain.in_slices and run.has_density else "density",
        "signs": [int(sign) for sign in run.signs],
        "axes": list(run.axis_names),
        "columns": list(run.input_names),
        "clock": run.flow.clock,
        "classifies": bool(run.classifies),
        "time": _plain(run.time[saves.shown]),
        "saves": len(run.time),
        "logMass": _plain(saves.logs),
        "records": _records(run),
        "errors": _errors(run, saves.shown),
    }
    arrays: dict[str, NDArray] = {}
    for part in (_cells, _points, _data, _map, _potential):
        said, numbers = part(run, saves)
        facts |= said
        arrays |= numbers
    return facts, arrays


def _raised(text):
    """S^2 as S²."""
    return re.sub(r"S\^(\d+)", lambda found: "S" + found[1].translate(RAISED), text)


def _plain(values, digits=7):
    """Numbers for JSON, None for those that are not finite."""
    rows = np.asarray(values, dtype=float)
    return [float(f"{x:.{digits}g}") if np.isfinite(x) else None for x in rows.tolist()]


def quantised(values: Floats, signed: bool = False) -> tuple[NDArray[np.uint8], float, float]:
    """One byte of log |value| for each, and the range (low, high) of the logarithm.

    From 0 for a value of 0, or less than 10^−DECADES of the largest, 1 is low and LEVELS is high;
    where values have signs, 128 ± 1 is low and 128 ± SIGNED_LEVELS is high, and 128 counts as 0.
    A number is read back to within a factor e^±(half a step).
    """
    with np.errstate(divide="ignore"):
        logs = np.log(np.abs(values))
    high = float(logs.max(initial=-np.inf))
    if not np.isfinite(high):
        return np.full(values.shape, 128 * signed, dtype=np.uint8), 0.0, 0.0
    seen = logs >= high - DECADES * np.log(10.0)
    low = float(logs[seen].min())
    steps = (SIGNED_LEVELS if signed else LEVELS) - 1
    with np.errstate(invalid="ignore"):
        codes = 1.0 + np.rint((logs - low) / (high - low) * steps) if high > low else 1.0
    codes = np.where(seen, codes, 0.0)
    return (128 + np.sign(values) * codes if signed else codes).astype(np.uint8), low, high


def _read(run):
    """What is made of the states of a run that are shown, each of which is read once."""
    densities, points, maps = [], [], []
    cells = run.method == "grid" and run.domain.in_space
    shown = np.unique(np.linspace(0, len(run.time) - 1, min(len(run.time), MAX_SAVES)).astype(int))
    grid, logs, per_mass = _map_grid(run), np.zeros(len(shown)), bool(run.classifies)
    for k, save in enumerate(shown.tolist()):
        logs[k] = run.log_mass_at(save)
        if cells:
            densities.append(_density_at(run, save, logs[k]))
        if run.domain.in_space or run.domain.fixed:
            points.append(_points_at(run, save))
        if grid is not None:
            one = per_mass or are_beyond(logs[k : k + 1])
            maps.append(run.predict(grid, save, one, prepared=True))
    if not per_mass and are_beyond(logs):
        per_mass = True
        kept = shown[: len(maps)].tolist()
        maps = [run.predict(grid, save, True, prepared=True) for save in kept]
    return _Saves(shown, logs, densities, points, np.array(maps), per_mass)


def _density_at(run, save, log_mass):
    """ν/|ν| of a grid in bytes, and their range; cells count the atoms in them."""
    mass = np.exp(log_mass - run.log_scale[save])
    density = run.cell_density_at(save)
    return quantised(density / mass if mass > 0.0 else density, bool(run.flow.signed))


def _cells(run, saves):
    """Mesh and ν/|ν| on its cells, of a grid on circle or S²."""
    if not saves.densities:
        return {}, {}
    mesh, signed = run.mesh, bool(run.flow.signed)
    rows, ranges = zip(*((codes, ends) for codes, *ends in saves.densities), strict=True)
    arrays = {"density": np.array(rows), "centers": _directions(mesh.centers)}
    if run.domain.picture == "map":
        cell, _, face, _ = half_faces(mesh)  # a triangle between its centre and the face for each
        arrays["vertices"] = _directions(mesh.vertices)
        arrays["triangles"] = np.column_stack([cell, mesh.face_vertices[face]]).astype(np.uint32)
    cells = {"n": mesh.n_cells, "signed": signed, "ranges": [_plain(ends) for ends in ranges]}
    return {"cells": cells}, arrays


def _directions(points):
    """Unit vectors in two bytes a coordinate, to 2e-5."""
    return np.rint(FINEST * points).astype(np.int16)


def _points(run, saves):
    """Points of ν/|ν|: particles, units, atoms of characteristics, and those of a grid."""
    measures = saves.points
    counts = [len(points) for points in measures]
    if not any(counts):
        return {}, {}
    room = max(1, MAX_NUMBERS // (len(measures) * measures[0].positions.shape[1]))
    same = len(set(counts)) == 1 and all(
        np.array_equal(points.signs, measures[0].signs) for points in measures
    )
    weights = [points.weights for points in measures]
    if max(counts) > room:  # the heaviest at any save, or at each
        heavy = np.max(weights, axis=0) if same else None
        chosen = [np.sort(np.argsort(w if heavy is None else heavy)[-room:]) for w in weights]
    else:
        chosen = [np.arange(count) for count in counts]
    width = max(map(len, chosen))
    shape = (len(measures), width)
    positions = np.zeros((*shape, measures[0].positions.shape[1]), dtype=np.int16)
    codes, signs = np.zeros(shape, dtype=np.uint8), np.zeros(shape, dtype=np.uint8)
    ranges = []
    for k, (points, kept) in enumerate(zip(measures, chosen, strict=True)):
        n = len(kept)
        positions[k, :n] = _directions(points.positions[kept])
        codes[k, :n], *ends = quantised(points.weights[kept])
        signs[k, :n] = points.signs[kept] > 0.0
        ranges.append(_plain(ends))
    shown = [
        float(w[kept].sum() / (w.sum() or 1.0)) for w, kept in zip(weights, chosen, strict=True)
    ]
    said = {
        "counts": [len(kept) for kept in chosen],
        "of": max(counts),
        "same": same,
        "ranges": ranges,
        "least": _plain([min(shown)], 3)[0],
    }
    return {"points": said}, {"positions": positions, "weights": codes, "pointSigns": signs}


def _points_at(run, save):
    if run.method == "grid" and not run.domain.fixed:
        if "atom_weights" in run.state_at(save):
            return run.captured_at(save, normalised=True)
        return PointMeasure(np.zeros((0, run.dim + 1)), np.zeros(0), np.zeros(0))
    return run.atoms_at(save, normalised=True)


def _data(run, saves):
    """The data, evenly thinned, and what is predicted of them."""
    feature, n = run.problem.objective.feature, len(run.inputs)
    if not n or feature.outputs > 1:
        return {}, {}
    kept = np.unique(np.linspace(0, n - 1, min(n, MAX_DATA)).astype(int))
    inputs = with_bias(run.inputs) if run.bias else run.inputs
    logs = saves.logs if saves.per_mass else 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        h = np.exp(run.log_scale[saves.shown] - logs)[:, None] * run.scaled_predictions[saves.shown]
    h = np.nan_to_num(h, nan=0.0, posinf=0.0, neginf=0.0)
    said = {"n": n, "rows": kept.tolist(), "bias": bool(run.bias), "h": _h(saves)}
    return {"data": said}, {
        "inputs": inputs[kept].astype(np.float32),
        "targets": run.targets[kept].astype(np.float32),
        "predictions": h[:, kept].astype(np.float32),
    }


def _h(saves):
    return "h/|ν|" if saves.per_mass else "h"


def _map_grid(run):
    """An even grid of one or two inputs, (n, columns), or None."""
    columns, feature = run.inputs.shape[1], run.problem.objective.feature
    if columns not in PIXELS or feature.outputs > 1 or run.domain.fixed or not run.predicts:
        return None
    if run.lost_feature:
        return None
    ticks = [np.linspace(low, high, PIXELS[columns]) for low, high in frames(run.inputs)]
    return np.stack(np.meshgrid(*ticks), axis=-1).reshape(-1, columns)


def _map(run, saves):
    """Predictions on that grid, two bytes each in units of their largest at a save."""
    h = saves.maps
    if not len(h):
        return {}, {}
    largest = np.abs(h).max(axis=1)
    scale = np.where(largest > 0.0, largest, 1.0)[:, None]
    said = {"frames": frames(run.inputs), "pixels": PIXELS[run.inputs.shape[1]]}
    said |= {"largest": _plain(largest), "h": _h(saves)}
    return {"map": said}, {"map": np.rint(FINEST * h / scale).astype(np.int16)}


def _potential(run, saves):
    """What J = ε Σ_i g_i φ(θ, x_i) + λ is made of: the loss gradients g at every save, and φ, where
    the page can compute it."""
    objective = run.problem.objective
    feature, n = objective.feature, len(run.inputs)
    squared = feature.name == "squared-relu" and feature is FEATURES[feature.name]
    simple = feature.outputs == 1 and (feature.pieces or squared)
    if not (simple and 0 < n <= MAX_DATA and n * len(saves.shown) <= MAX_NUMBERS):
        return {}, {}
    gradients = np.zeros((len(saves.shown), n))
    try:
        for k, save in enumerate(saves.shown):
            objective.evaluate_risk(run.scaled_predictions[save], run.log_scale[save], gradients[k])
    except (AttributeError, HkflowError):  # an objective of the user's own
        return {}, {}
    if not np.isfinite(gradients).all():
        return {}, {}
    said = {
        "decay": float(objective.weight_decay),
        "pieces": list(feature.pieces) if feature.pieces else None,
        "joint": bool(feature.joint),
    }
    return {"potential": said}, {"gradients": gradients.astype(np.float32)}


def _records(run):
    """The records that the page draws, at MAX_ROWS times at most, and what is known of the margin:
    {"time", "objective", …} with None for what is not finite."""
    records = run.records
    if not len(records.get("time", ())):
        return {"time": []}
    rows = np.unique(np.linspace(0, len(records["time"]) - 1, MAX_ROWS).astype(int))
    scaled = are_per_mass(records)
    said: dict[str, Any] = {"time": _plain(records["time"][rows]), "perMass": scaled}
    with np.errstate(divide="ignore", invalid="ignore"):
        values = (
            records["objective"] / records["mass"]
            if scaled
            else in_units_of_one(records, "objective")
        )
    said["objective"] = _plain(values[rows])
    for name in (
        "log_mass",
        "margin",
        "margin_lower",
        "margin_upper",
        "training_error",
        "test_error",
    ):
        if name in records:
            said[name] = _plain(records[name][rows])
    found = run.max_margin
    if found is not None and found.is_positive:
        said["gamma"] = [found.lower, found.upper]
        said["certified"] = bool(found.certified)
    return said


def _errors(run, shown):
    """Error bars of objective, margin and predictions at the saves that are shown, as they are
    estimated."""
    try:
        bars = run.errors
    except HkflowError:
        return {}
    names = ("predictions", "objective", "log_mass", "margin")
    there = {} if bars is None else bars.bars
    found: dict[str, Any] = {name: _plain(bars[name][shown], 3) for name in names if name in there}
    return found | ({"normalised": bool(bars.normalised)} if found else {})
