"""Compute what the live page of the docs shows beside its 1000 units, infinitely many of them:
python postprocess/live.py [docs/_static/live/answers.js]

Presets of labelled points are trained by characteristics from ATOMS atoms, as the page trains its
units: uniform start, square loss, ReLU with a bias. The file holds, for every preset and flow, the
loss over time, and at TIMES the prediction on a grid and the masses near the page's first units.
"""

import json
import sys
import zlib
from base64 import b64encode
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

import hkflow

ATOMS = 10_000  # of either sign
MASS = 4.0  # at the start
UNITS = 1000  # of the page
PIXELS, REACH = 29, 2.0  # of the plane [−REACH, REACH]² on each side
TIMES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 15.0, 20.0, 30.0)
FLOWS = {"both": (1.0, 2.0), "move": (1.0, 0.0), "grow": (0.0, 2.0)}  # α, β


def circle(n, radius, turn=0.0):
    """n even points of a circle."""
    angle = turn + 2.0 * np.pi * np.arange(n) / n
    return radius * np.column_stack([np.cos(angle), np.sin(angle)])


def presets():
    """(name, points of label +1, points of label −1)"""
    spread = 0.22 * np.random.default_rng(3).normal(size=(2, 2, 6, 2))
    corners = (
        spread + np.array([[[1.0, 1.0], [-1.0, -1.0]], [[1.0, -1.0], [-1.0, 1.0]]])[:, :, None]
    )
    angle = np.linspace(0.0, np.pi, 12)
    moon = np.column_stack([1.1 * np.cos(angle) - 0.5, 1.3 * np.sin(angle) - 0.4])
    yield "Rings", circle(8, 0.55, 0.2), circle(16, 1.6)
    yield "Exclusive or", *corners.reshape(2, 12, 2)
    yield "Moons", moon, -moon


def trained(x, y, rates, atoms=ATOMS):
    """The flow from evenly spread atoms of equal mass and both signs."""
    places, signs = np.tile(hkflow.quasi_uniform(atoms, 2), (2, 1)), np.repeat([1.0, -1.0], atoms)
    start = hkflow.PointMeasure(places, signs).scaled_to(MASS)
    feature, loss = hkflow.FEATURES["relu"], hkflow.RISKS["square"]
    objective = hkflow.Objective(feature, loss, hkflow.with_bias(x), y)
    problem = hkflow.Problem(None, objective, hkflow.Flow(*rates), signs=(1, -1), initial=start)
    return hkflow.solve(problem, end=TIMES[-1], saves=TIMES, kind="characteristics")


def packed(found):
    """(curve [[t, F], …], largest roots, codes of the maps, codes of the roots) of a solution.

    A map holds h/REACH from −127 to 127, a root the square root of a unit's share of the mass.
    """
    ticks = np.linspace(-REACH, REACH, PIXELS)
    grid = hkflow.with_bias(np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2))
    units, maps, roots = cKDTree(hkflow.quasi_uniform(UNITS // 2, 2)), [], []
    for save in range(len(TIMES)):
        atoms = found.atoms_at(save, normalised=True)
        unit = units.query(atoms.positions)[1] + np.where(atoms.signs > 0.0, 0, UNITS // 2)
        roots.append(np.sqrt(np.bincount(unit, atoms.weights, UNITS)))
        maps.append(found.predict(grid[:, : found.inputs.shape[1]], save, prepared=True))
    largest = np.max(roots, axis=1)
    heights = np.rint(127.0 * np.clip(np.array(maps) / REACH, -1.0, 1.0)).astype(np.int8)
    codes = np.rint(255.0 * np.array(roots) / largest[:, None]).astype(np.uint8)
    curve = np.column_stack([found.records["time"], found.records["objective"]])
    return _short(curve), _short(largest), heights.tobytes() + codes.tobytes()


def _short(numbers):
    """Nested lists of numbers of four digits."""
    if np.ndim(numbers):
        return [_short(row) for row in numbers]
    return float(f"{numbers:.4g}")


def main(path):
    """Write the file; print how much an eighth of the atoms changes the loss."""
    rows, content = [], b""
    for name, plus, minus in presets():
        x, y = np.round([*plus, *minus], 3), np.repeat([1.0, -1.0], [len(plus), len(minus)])
        preset = {"name": name, "points": _short(np.column_stack([x, y])), "curves": [], "tops": []}
        for flow, rates in FLOWS.items():
            found = trained(x, y, rates)
            curve, tops, codes = packed(found)
            preset["curves"].append(curve)
            preset["tops"].append(tops)
            content += codes
            off = trained(x, y, rates, ATOMS // 8).records
            off = np.interp(TIMES, off["time"], off["objective"])
            loss = np.interp(TIMES, found.records["time"], found.records["objective"])
            print(f"{name}, {flow}: changed by {np.abs(off - loss).max():.1e}")
        rows.append(preset)
    facts = {"units": UNITS, "mass": MASS, "pixels": PIXELS, "times": TIMES, "presets": rows}
    facts["numbers"] = b64encode(zlib.compress(content, 9)).decode()
    text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    Path(path).write_text(f"const ANSWERS = {text};\n", encoding="utf-8")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["docs/_static/live/answers.js"]))
