"""Figures of papers, computed again: what each needs, what it shows, and whether what the paper
says of it comes out.

A figure is a module `postprocess/<paper>_<figure>.py` of a clone of the repository, which imports
what the figures of its paper share (`from .colt import …`) and defines

    __doc__              source and title as a first paragraph, then another on what is shown and
                         how it differs from the paper's
    MINUTES              {"quick": …, "paper": …} that it takes on two cores
    STUDIES              names paper/figure of the study files cases/paper/studies/figure.toml that
                         it runs; may be left out
    compute(work)        a dictionary of arrays with all that the figure shows; work is a Work
    draw(data)           the matplotlib Figure
    claims(data)         a list of Claims
    ALSO                 other names that the figure has, in another paper for one; may be left out
"""

import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compilation import processor_time
from ..errors import CaseError, HkflowError, unknown_name
from ..files.reading import open_hdf5, read_arrays
from ..files.writing import write_arrays, write_hdf5, write_json, write_whole

SCALES = ("quick", "paper")
ALL = "all"
PACKAGE = "hkflow_figures"  # that the folder postprocess is imported as


@dataclass(frozen=True)
class Claim:
    """What a paper says of a figure, whether it came out, and the numbers that show it."""

    says: str
    holds: bool
    evidence: str

    def __post_init__(self):
        object.__setattr__(self, "holds", bool(self.holds))

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'FAILS'}: {self.says} ({self.evidence})"


class Interrupted(HkflowError):
    """A signal ended the computation; what is finished is kept."""

    def __init__(self, number: int) -> None:
        super().__init__("Interrupted; the same command goes on from here.")
        self.signal = number


class Work:
    """What computing a figure may ask for; all of it is kept in a folder, so that a second call
    goes on where the first ended.

    scale : "quick" or "paper";  folder : of this figure at this scale;  workers : runs at a time;
        watch : as for hkflow.study
    seconds : of processor time, without compiling, that runs and what is kept took, whenever they
        were computed
    """

    def __init__(
        self,
        scale: str,
        folder: str | os.PathLike[str],
        workers: int | None = None,
        watch: Callable[[int, int, Any], object] | None = None,
    ) -> None:
        self.scale, self.folder, self.workers, self.watch = scale, Path(folder), workers, watch
        self.seconds = 0.0
        self._counted: set[Path] = set()

    @property
    def quick(self) -> bool:
        """Whether a small version is wanted."""
        return self.scale == "quick"

    def study(self, name: str) -> Iterator[tuple[dict[str, Any], Any]]:
        """Run what is missing of the study paper/figure; yields (changes of the case, Run) of every
        member.

        Raises HkflowError if a run did not finish, and Interrupted after a signal.
        """
        from ..solving.interrupts import until_ctrl_c
        from ..store.run import load
        from ..studies.study import study

        result = until_ctrl_c(
            lambda: study(
                study_path(name),
                self.folder / "studies" / name,
                self.workers,
                watch=self.watch,
                quick=self.quick,
            ),
            "study",
        )
        if result.signal:
            raise Interrupted(result.signal)
        failed = [outcome for outcome in result.outcomes if not outcome.finished]
        if failed:
            raise HkflowError(
                f"{name}: {len(failed)} of {len(result.outcomes)} runs did not finish."
                f" {failed[0].status}"
            )
        self.seconds += sum(outcome.work["seconds"] for outcome in result.outcomes)
        return (
            (outcome.member.changes, load(outcome.folder / "results.h5"))
            for outcome in result.outcomes
        )

    def once(self, function: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, NDArray]:
        """function(**arguments), a dictionary of arrays, kept in a file that is known by the
        function's source and arguments."""
        text = json.dumps(
            arguments, sort_keys=True, default=lambda array: np.asarray(array).tolist()
        )
        digest = hashlib.sha256(
            f"{version('hkflow')}\n{inspect.getsource(function)}\n{text}".encode()
        ).hexdigest()[:12]
        path = self.folder / "once" / f"{function.__name__}-{digest}.h5"
        if not path.exists():
            started = processor_time()
            arrays = function(**arguments)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_hdf5(path, lambda file: self._fill(file, arrays, processor_time() - started))
        with open_hdf5(path) as file:
            self.seconds += float(file.attrs["seconds"]) if path not in self._counted else 0.0
            self._counted.add(path)
            return read_arrays(file)

    @staticmethod
    def _fill(file, arrays, seconds):
        write_arrays(file, arrays)
        file.attrs["seconds"] = seconds


@dataclass(frozen=True, eq=False)
class Reproduction:
    """A figure that was computed again.

    name, scale;  data : what it shows, by name;  claims : list of Claim;  seconds : that its
    computations took on one core
    folder : with figure.png, figure.h5 and claims.json
    """

    name: str
    scale: str
    data: dict
    claims: list
    seconds: float
    folder: Path

    @property
    def holds(self) -> bool:
        """Whether all claims came out."""
        return all(claim.holds for claim in self.claims)


def reproduce(
    name: str,
    scale: str = "quick",
    output: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    watch: Callable[[int, int, Any], object] | None = None,
) -> Reproduction:
    """Compute a figure of a paper, or what is missing of it, draw it and check the paper's claims;
    returns the Reproduction.

    name : one of names();  scale : "quick", or "paper" for the paper's own parameters
    output : folder, by default reproductions/<name>/<scale>;  workers, watch : as for hkflow.study
    Raises CaseError for unknown names, HkflowError if a run fails, Interrupted after a signal.
    """
    from ..plots.figures import style

    if scale not in SCALES:
        raise CaseError(unknown_name("scale", scale, SCALES))
    name, figure = figure_of(name)
    folder = Path(output or Path("reproductions") / name / scale)
    folder.mkdir(parents=True, exist_ok=True)
    work = Work(scale, folder, workers, watch)
    data = figure.compute(work)
    data = {key: np.asarray(value) for key, value in data.items()}
    claims = figure.claims(data)
    with style():
        drawn = figure.draw(data)
        write_whole(folder / "figure.png", partial(drawn.savefig, format="png", dpi=150))
    write_hdf5(folder / "figure.h5", lambda file: write_arrays(file, data))
    about = {
        "name": name,
        "scale": scale,
        "version": version("hkflow"),
        "seconds": round(work.seconds, 1),
    }
    write_json(folder / "claims.json", about | {"claims": [asdict(claim) for claim in claims]})
    return Reproduction(name, scale, data, claims, work.seconds, folder)


def root() -> Path:
    """The clone of the repository that has the figures' scripts and cases. Raises CaseError if
    there is none."""
    for place in (Path(__file__).resolve().parents[3], Path.cwd()):
        if (place / "postprocess").is_dir() and (place / "cases").is_dir():
            return place
    raise CaseError(
        "The papers' figures lie in a clone of the repository, in cases and postprocess: call this"
        " from there."
    )


def study_path(name: str) -> Path:
    """The study file paper/figure."""
    paper, figure = name.split("/")
    return root() / "cases" / paper / "studies" / f"{figure}.toml"


def figures() -> dict[str, ModuleType]:
    """{name: module} of all figures, in the order of their names."""
    folder = root() / "postprocess"
    package = sys.modules.setdefault(PACKAGE, ModuleType(PACKAGE))
    package.__path__ = [str(folder)]
    return {
        path.stem.replace("_", "-"): import_module(f"{PACKAGE}.{path.stem}")
        for path in sorted(folder.glob("*.py"))
        if "\ndef claims(" in path.read_text(encoding="utf-8")
    }


def figure_of(name: str) -> tuple[str, ModuleType]:
    """The name of a figure's script, and its module, by one of its names."""
    found = figures()
    for main, module in found.items():
        if name in (main, *getattr(module, "ALSO", ())):
            return main, module
    raise CaseError(unknown_name("figure", name, names(found)))


def names(found: dict[str, ModuleType] | None = None) -> list[str]:
    """Names of all figures, those that they have in other papers included."""
    found = found or figures()
    return sorted(
        {name for main, module in found.items() for name in (main, *getattr(module, "ALSO", ()))}
    )


def title(module: ModuleType) -> str:
    """Source and title of a figure."""
    return " ".join((module.__doc__ or "").strip().split("\n\n")[0].split()).rstrip(".")


def missing(module: ModuleType, scale: str, folder: Path) -> float:
    """The share of a figure's runs that are not computed yet; 1 for one without studies that was
    never finished."""
    from ..studies.file import load_study
    from ..studies.members import is_finished, key_of

    done = []
    for name in getattr(module, "STUDIES", ()):
        runs = folder / "studies" / name / "runs"
        keys = {
            key_of(member.file)
            for member in load_study(study_path(name), quick=scale == "quick").members
        }
        done += [is_finished(runs / key) for key in keys]
    return 1.0 - sum(done) / len(done) if done else float(not (folder / "claims.json").exists())


def checked(name: str, scale: str) -> list[Claim] | None:
    """Claims as last checked here, in reproductions, or else as the repository's gallery has them;
    None if never."""
    for path in (
        Path("reproductions") / name / scale / "claims.json",
        root() / "docs" / "gallery" / f"{name}-{scale}.json",
    ):
        if path.exists():
            return [
                Claim(**claim) for claim in json.loads(path.read_text(encoding="utf-8"))["claims"]
            ]
    return None
