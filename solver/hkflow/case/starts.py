"""Initial measures in files: densities on a mesh, or atoms."""

import zipfile
from pathlib import Path

import numpy as np

from ..arguments import Floats
from ..errors import CaseError, printable
from ..files.userfiles import size_of
from ..geometry.mesh import Mesh
from ..measures.initial import PointsInCells, with_mass
from ..measures.point_measure import PointMeasure
from .columns import Faults
from .datafiles import all_numbers, read_points, read_text_columns

NAMES = ("density", "positions", "signs", "weights")
MOST_BYTES = 2**33  # of what an .npz holds when it is unpacked


def start_in_file(
    path: Path, mass: float | None, axes: int, signs: tuple[int, ...], mesh: Mesh | None
) -> Floats | PointsInCells | PointMeasure:
    """The measure in a file, as Problem.initial wants it.

    path : .npy of densities (n_signs, n_cells) or of positions (n, d+1); .npz of `density`, or of
        `positions` and, if wanted, `signs` and `weights`; .csv with a column `density` and, of two
        signs, `sign`, a row for each cell in their order, or as [initial] kind = "points"
    mass : that it is scaled to, or None for that of the file
    mesh : that densities belong to, and onto which atoms are put; None wants atoms
    Raises CaseError, naming the file, for what is no such measure.
    """
    arrays = _arrays(path, axes, signs, mesh)
    try:
        if "density" not in arrays:
            atoms = PointMeasure(**arrays)
            if not np.isin(atoms.signs, signs).all():
                raise ValueError("the domain 'sphere' has the sign +1 only; use 'signed-sphere'")
            if atoms.positions.shape[1] != axes:
                raise ValueError(f"wanted positions (n, {axes}), got {arrays['positions'].shape}")
            atoms = atoms if mass is None else atoms.scaled_to(mass)
            return atoms if mesh is None else PointsInCells.of(mesh, signs, atoms)
        if mesh is None:
            raise ValueError(
                "it holds the density of cells, and there is no mesh: set method.points = 'mesh'"
                " and domain.cells, or take the method 'grid'"
            )
        density, shape = np.atleast_2d(arrays["density"]), (len(signs), mesh.n_cells)
        if density.shape != shape:
            raise ValueError(f"wanted a density (signs, cells) = {shape}, got {density.shape}")
        return density if mass is None else with_mass(density, mesh, mass)
    except (ValueError, TypeError) as error:
        raise CaseError(f"initial.file: {path}: {str(error).rstrip('.')}.") from error


def _arrays(path, axes, signs, mesh):
    """What a file holds of NAMES."""
    try:
        if path.suffix in (".npy", ".npz"):
            return _of_numpy(path, axes, signs, mesh)
    except OSError as error:
        raise CaseError(
            f"initial.file: {printable(path)} cannot be read ({error.strerror or error})."
        ) from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CaseError(
            f"initial.file: {path}: wanted real numbers in .npy, .npz or .csv ({error})."
        ) from error
    columns = read_text_columns(path, key="initial.file")
    if "density" in columns.named:
        return {"density": _of_columns(path, columns, signs)}
    found = zip(NAMES[1:], read_points(path, axes), strict=True)
    return {name: np.array(values, dtype=float) for name, values in found if values is not None}


def _of_numpy(path, axes, signs, mesh):
    size_of(path)
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as packed:
            if sum(one.file_size for one in packed.infolist()) > MOST_BYTES:
                raise ValueError(f"it unpacks to more than {MOST_BYTES / 1e9:.0f} GB")
        with np.load(path, allow_pickle=False) as file:
            found = {name: np.asarray(file[name], dtype=float) for name in NAMES if name in file}
        if not {"density", "positions"} & found.keys():
            raise ValueError(f"it has neither 'density' nor 'positions', but {file.files}")
        return {"density": found["density"]} if "density" in found else found
    found = np.asarray(np.load(path, allow_pickle=False), dtype=float)
    cells = 0 if mesh is None else mesh.n_cells
    shapes = {(len(signs), cells)} | ({(cells,)} if len(signs) == 1 else set())
    atoms = found.ndim == 2 and found.shape[1] == axes and found.shape not in shapes
    return {"positions" if atoms else "density": found}


def _of_columns(path, columns, signs):
    """The density (n_signs, n_cells) in a table with a row for each sign and cell."""
    where = f"initial.file: {path}"
    names = [name for name in ("density", "sign") if name in columns.named]
    values = all_numbers(columns, Faults(where, columns), names)
    if "sign" not in values:
        return values["density"][None]
    rows = [values["density"][values["sign"] == sign] for sign in signs]
    if sum(map(len, rows)) != len(values["sign"]) or len(set(map(len, rows))) > 1:
        raise CaseError(
            f"{where}: wanted as many rows for each of the signs {list(signs)}, and no others."
        )
    return np.array(rows)
