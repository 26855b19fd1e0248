"""Runs as temporal VTKHDF files, which ParaView opens: cells of circle and S² as lines and
polygons, particles and the cells of S³ as vertices; of characteristics, cells in one file and
captured atoms in another, as pictures show them. S³ is shown as a ball, see Domain.placed.

A part is a geometry that was written; the steps point at parts and at rows of data, so that a mesh
is there once:

    step                             0    1    2
    PartOffsets                      0    0    0     of a mesh; 0 1 2 of particles, which move
    CellDataOffsets/density          0    n   2n     n cells

A reader that finds fewer offsets than steps, or no offsets at all, shows the first step for all of
them or nothing, without a word; one that finds more times than steps breaks off. So files are
written whole, and read back by VTK in the tests.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RunFolderError
from ..files.writing import write_hdf5
from ..geometry.transfer import corner_table
from ..solving.result import Result
from .shown import density_of, is_normalised

# the columns of CellOffsets; readers want all four
TOPOLOGIES = ("Vertices", "Lines", "Polygons", "Strips")
CHUNK = 64  # rows at least
# cells of a mesh on which a density is shown that has none: the fewer where more would be more WORK
CELLS = {"circle": (360, 1440), "map": (2562, 10242)}
WORK = 2e9  # points times flows times kinks of all saves, about half a minute


def check_shape(run: Result) -> None:
    """Raise RunFolderError if a run's measure lives on nothing that can be shown in space."""
    if not (run.domain.in_space or run.domain.in_slices):
        raise RunFolderError(
            f"{run.name}: a measure on {run.domain.name} has no shape in space, so there is no"
            " --vtk; take --netcdf or --csv."
        )


def write_vtkhdf(stem: Path, run: Result) -> list[Path]:
    """Write all saves of a run on the circle, S² or S³ to STEM.vtkhdf; returns the paths.

    Cell data of a grid, on S³ point data: density, or density_plus and density_minus, one for each
    sign, and there the volumes; point data of particles and networks: weight and sign. Of
    characteristics whose density is known: its averages over the cells of a mesh, and
    STEM-captured.vtkhdf, what kinks have caught, as points; together they hold all mass. They are
    of ν; if its mass is beyond numbers at some save they are of ν/|ν|, and called
    normalised_density and normalised_weight.
    Field data: log_mass, of ν.
    """
    normalised = is_normalised(*((run, save) for save in range(len(run.time))))
    if run.method == "grid":
        mesh: Any = run.mesh
        parts = [("", partial(_cells, run, mesh, partial(density_of, run), normalised))]
    elif run.method == "characteristics" and run.domain.in_space and run.has_density:
        mesh = run.domain.mesh(_number_of_cells(run))

        def density(save, normalised):  # with all mass, where peaks are narrower than a cell too
            logs = run.density_on(mesh, save, log=True)
            return np.exp(logs - run.log_mass_at(save) if normalised else logs)

        parts = [
            ("", partial(_cells, run, mesh, density, normalised)),
            ("-captured", partial(_points, run, run.captured_at, normalised)),
        ]
    else:
        parts = [("", partial(_points, run, run.atoms_at, normalised))]
    paths = []
    for name, fill in parts:
        paths.append(stem.with_name(f"{stem.name}{name}.vtkhdf"))
        write_hdf5(paths[-1], partial(_write, fill))
    return paths


def _write(fill, file):
    """A group of a file that a function fills."""
    fill(_Series(file.create_group("VTKHDF")))


def _cells(run, mesh, density, normalised, series):
    """Densities on a mesh at all saves; density : function (save, normalised) -> (n_signs,
    n_cells)."""
    kind, always = "CellData", {}
    if run.domain.in_slices:
        n = mesh.n_cells
        kind, always = "PointData", {"volume": mesh.volumes}
        series.geometry(run.domain.placed(mesh.centers), "Vertices", np.arange(n + 1), np.arange(n))
    else:
        series.geometry(*_corners(mesh, run.domain))
    names = [("normalised_" if normalised else "") + name for name in _names(run.signs)]
    for save, time in enumerate(run.time):
        data = dict(zip(names, density(save, normalised), strict=True))
        series.step(time, kind, data | always, {"log_mass": run.log_mass_at(save)})


def _points(run, atoms_at, normalised, series):
    """Atoms at all saves; atoms_at : function (save, normalised) -> PointMeasure."""
    weight = "normalised_weight" if normalised else "weight"
    for save, time in enumerate(run.time):
        atoms = atoms_at(save, normalised)
        n = len(atoms)
        positions = run.domain.placed(atoms.positions)
        series.geometry(positions, "Vertices", np.arange(n + 1), np.arange(n))
        data = {weight: atoms.weights, "sign": atoms.signs.astype("i1")}
        series.step(time, "PointData", data, {"log_mass": run.log_mass_at(save)})


def _number_of_cells(run):
    """Of the mesh on which the density of characteristics is shown."""
    few, many = CELLS[run.domain.picture]
    flows = sum(run.state_at(save)["flows"] for save in range(len(run.time)))
    points = many * (2 if run.domain.ordered else 6)  # pieces of cells, see density_on
    work = points * len(run.signs) * flows * len(run.problem.objective.inputs)
    return few if work > WORK else many


def _names(signs):
    """What the densities of the sheets are called."""
    return (
        ["density"]
        if len(signs) == 1
        else ["density_plus" if sign > 0 else "density_minus" for sign in signs]
    )


def _corners(mesh, domain):
    """Points, topology, where each cell's corners begin, and the corners: segments of the circle,
    polygons of S²."""
    if domain.ordered:
        n = mesh.n_cells
        # the vertex k is where the cell k ends
        corners = np.stack([np.arange(n) - 1, np.arange(n)], axis=1) % n
        return mesh.vertices, "Lines", 2 * np.arange(n + 1), corners.ravel()
    table, counts = corner_table(mesh)
    return (
        mesh.vertices,
        "Polygons",
        np.append(0, counts.cumsum()),
        table[np.arange(table.shape[1]) < counts[:, None]],
    )


class _Series:
    """A temporal PolyData in an HDF5 group, written step by step."""

    def __init__(self, root):
        self.root, self.steps = root, root.create_group("Steps")
        root.attrs["Version"] = np.array([2, 0], dtype="i8")
        root.attrs["Type"] = np.bytes_("PolyData")  # of fixed length: older readers refuse others
        self.steps.attrs["NSteps"] = 0
        for kind in ("CellData", "PointData", "FieldData"):
            root.create_group(kind)
            self.steps.create_group(f"{kind}Offsets")

    def geometry(self, points, topology, starts, corners):
        """A new part, in force from the next step on.

        points : (n, 2 or 3);  topology : of all cells;  starts : (n_cells + 1,) where the corners
            of each cell begin, and
        their number;  corners : indices into points
        """
        root = self.root
        part = _append(root, "NumberOfPoints", [len(points)])
        before = _append(root, "Points", np.pad(points, ((0, 0), (0, 3 - points.shape[1]))))
        cells, connections = [], []  # of each topology, before this part
        for name in TOPOLOGIES:
            group = root.require_group(name)
            offsets, connectivity = (starts, corners) if name == topology else ([0], [])
            # every part has one offset more than cells
            cells.append(_append(group, "Offsets", offsets, "i8") - part)
            connections.append(_append(group, "Connectivity", connectivity, "i8"))
            _append(group, "NumberOfCells", [len(offsets) - 1])
            _append(group, "NumberOfConnectivityIds", [len(connectivity)])
        self.part = {"PartOffsets": part, "NumberOfParts": 1, "PointOffsets": before}
        self.part |= {"CellOffsets": cells, "ConnectivityIdOffsets": connections}

    def step(self, time, kind, data, field):
        """A save of the part in force.

        kind : CellData or PointData;  data : (n,) arrays by name;  field : numbers by name
        """
        for name, rows in [
            (kind, data),
            ("FieldData", {name: [value] for name, value in field.items()}),
        ]:
            for key, values in rows.items():
                _append(self.steps[f"{name}Offsets"], key, [_append(self.root[name], key, values)])
        for name in field:
            # components, tuples
            _append(self.steps.require_group("FieldDataSizes"), name, [[1, 1]])
        for name, offset in self.part.items():
            _append(self.steps, name, [offset])
        _append(self.steps, "Values", [time])
        self.steps.attrs["NSteps"] += 1


def _append(group, name, rows, dtype=None):
    """Append rows to a dataset, made when it is first used; returns the row that they start at."""
    rows = np.asarray(rows, dtype)
    if name not in group:
        packing = {
            "chunks": (max(CHUNK, len(rows)), *rows.shape[1:]),
            "compression": "gzip",
            "compression_opts": 1,
        }
        group.create_dataset(
            name,
            (0, *rows.shape[1:]),
            rows.dtype,
            maxshape=(None, *rows.shape[1:]),
            shuffle=True,
            **packing,
        )
    start = len(group[name])
    group[name].resize(start + len(rows), axis=0)
    group[name][start:] = rows
    return start
