"""Runs in the formats of other programs."""

from collections.abc import Callable
from pathlib import Path

from ..errors import CaseError, RunFolderError, unknown_name
from ..files.userfiles import named
from ..files.writing import for_user, write_whole
from ..solving.result import ResultLike
from .dataset import check_xarray, write_netcdf
from .run import loaded
from .tables import write_csv
from .vtkhdf import check_shape, write_vtkhdf


def _single(suffix, write):
    """A writer of one file, STEM.suffix, as a writer of several."""

    def write_one(stem, run):
        path = stem.with_name(stem.name + suffix)
        write_whole(path, lambda temporary: write(temporary, run))
        return [path]

    return write_one


# What may stand in the way, said before anything is written; and a writer (stem, run) that returns
# paths.
FORMATS: dict[str, tuple[Callable, Callable]] = {
    "vtk": (check_shape, write_vtkhdf),
    "netcdf": (check_xarray, _single(".nc", write_netcdf)),
    "csv": (lambda run: None, write_csv),
}


def export(run: ResultLike, *formats: str, output: str | Path | None = None) -> list[Path]:
    """Write a run in other formats, export("runs/iris", "vtk", "csv"), over what an earlier export
    wrote; returns the paths.

    run : Run, Solution, run folder or results.h5
    formats : "vtk" (RUN/name.vtkhdf, of characteristics name-captured.vtkhdf too, see vtkhdf),
        "netcdf" (name.nc, see to_xarray), "csv" (name-….csv, see tables)
    output : folder for them, made if need be; by default run.folder
    Raises CaseError for no or an unknown format or a missing package, RunFolderError if the run
    holds no save or no shape that the format can show, or a file cannot be written.
    """
    if not formats:
        raise CaseError(
            "Nothing to export: choose one or more of 'vtk', 'netcdf' and 'csv', as options --vtk,"
            " --netcdf and --csv."
        )
    for name in formats:
        if not isinstance(name, str):
            raise CaseError(f'Formats are texts, export(run, "csv", "vtk"), got {name!r:.60}.')
        if name not in FORMATS:
            raise CaseError(unknown_name("format", name, FORMATS))
    run = loaded(run)
    if len(run.time) == 0:
        raise RunFolderError(f"{run.name}: holds no save yet, so there is nothing to export.")
    for name in formats:
        FORMATS[name][0](run)
    folder = named(output or run.folder)
    stem = folder / run.stem
    with for_user(folder, "export"):
        folder.mkdir(parents=True, exist_ok=True)
        return [path for name in formats for path in FORMATS[name][1](stem, run)]
