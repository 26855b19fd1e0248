"""Runs as CSV tables in long form, every number with all its digits."""

import csv
from functools import partial
from pathlib import Path

import numpy as np

from ..files.writing import check_replaced, write_whole
from ..solving.result import Result
from .contents import COUNTED, STATE_ARRAYS


def write_csv(stem: Path, run: Result) -> list[Path]:
    """Write STEM-records.csv, STEM-predictions.csv and STEM-density.csv or STEM-particles.csv;
    returns their paths.

    Predictions and densities are in units of e^log_scale, which stands beside them, records too
    where the list of records says so.
    """
    measure = (
        {"density": _densities(run)} if run.method == "grid" else {"particles": _particles(run)}
    )
    records = {"time": run.records["time"], **run.records}  # first, in whatever order they are kept
    tables = {
        "records": (list(records), [list(records.values())]),
        "predictions": _predictions(run),
        **measure,
    }
    paths = {stem.with_name(f"{stem.name}-{name}.csv"): table for name, table in tables.items()}
    for path in paths:
        check_replaced(path, ("time,",), "table")
    for path, (header, blocks) in paths.items():
        write_whole(path, partial(_write, header=header, blocks=blocks))
    return list(paths)


def _write(path, header, blocks):
    """A header and rows, from blocks of columns; numbers of a block are repeated."""
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        for columns in blocks:
            writer.writerows(
                zip(*(column.tolist() for column in np.broadcast_arrays(*columns)), strict=True)
            )


def _predictions(run):
    """A row for each save, datum and class, or for each save and datum."""
    index, targets = np.arange(len(run.targets)), run.targets
    series = zip(run.time, run.log_scale, run.scaled_predictions, strict=True)
    if names := run.class_names:
        index, output = np.indices(run.scaled_predictions.shape[1:]).reshape(2, -1)
        own, of = (np.array(names)[k] for k in (targets[index].astype(int), output))
        blocks = ([time, scale, index, own, of, h.ravel()] for time, scale, h in series)
        return ["time", "log_scale", "datum", "target", "class", "prediction"], blocks
    blocks = ([time, scale, index, targets, h] for time, scale, h in series)
    return ["time", "log_scale", "datum", "target", "prediction"], blocks


def _densities(run):
    mesh, index = run.mesh, np.arange(run.mesh.n_cells)
    header = [
        "time",
        "log_scale",
        "sign",
        "cell",
        *_numbered("theta", mesh.dim + 1),
        "volume",
        "density",
    ]
    blocks = (
        [run.time[k], run.log_scale[k], sign, index, *mesh.centers.T, mesh.volumes, density]
        for k in range(len(run.time))
        for sign, density in zip(run.signs, run.cell_density_at(k), strict=True)
    )
    return header, blocks


def _particles(run):
    """The states as they are in results.h5: of particles theta, sign, log_weight; of a network
    hidden, output and what it has."""
    names = {"positions": "theta", "signs": "sign", "log_weights": "log_weight"}
    header = ["time", "unit" if run.method == "network" else "particle"]
    for name, array in _carried(run.state_at(0)).items():
        header += (
            _numbered(names.get(name, name), array.shape[1])
            if array.ndim == 2
            else [names.get(name, name)]
        )

    def block(k):
        columns = [
            column
            for array in _carried(run.state_at(k)).values()
            for column in np.atleast_2d(array.T)
        ]
        return [run.time[k], np.arange(len(columns[0])), *columns]

    return header, map(block, range(len(run.time)))


def _carried(state):
    """The arrays of a state with a row for each particle or unit."""
    return {
        name: state[name]
        for name, dimensions in STATE_ARRAYS.items()
        if name in state and dimensions[:1] in COUNTED
    }


def _numbered(name, count):
    return [f"{name}_{k + 1}" for k in range(count)]
