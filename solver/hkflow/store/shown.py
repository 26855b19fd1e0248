"""What is shown of a measure in pictures and other programs: ν, or ν/|ν| where its mass is beyond
what numbers can hold."""

import numpy as np
from numpy.typing import NDArray

from ..solving.predicting import LARGEST_LOG_MASS
from ..solving.result import Result


def is_normalised(*saves: tuple[Result, int], largest: float = LARGEST_LOG_MASS) -> bool:
    """Whether ν/|ν| is shown at some saves, pairs (run, save): if the mass of one of them is beyond
    e^±largest."""
    return are_beyond(np.array([run.log_mass_at(save) for run, save in saves]), largest)


def are_beyond(logs: NDArray[np.float64], largest: float = LARGEST_LOG_MASS) -> bool:
    """Whether one of several log masses is beyond ±largest; no mass at all is not."""
    return bool((np.abs(logs[np.isfinite(logs)]) > largest).any())


def name_of(normalised: bool) -> str:
    """How labels call what is shown."""
    return "ν/|ν|" if normalised else "ν"


def density_of(run: Result, save: int, normalised: bool = False) -> NDArray[np.float64]:
    """ν or ν/|ν| on the cells of a grid, (n_signs, n_cells)."""
    density = run.cell_density_at(save)
    if not normalised:
        return np.exp(run.log_scale[save]) * density
    mass = (np.abs(density) @ run.mesh.volumes).sum()  # type: ignore[union-attr]
    return density / mass if mass > 0.0 else density


def density_at(
    run: Result, save: int, points: NDArray[np.float64], normalised: bool = False
) -> NDArray[np.float64]:
    """ν or ν/|ν| at points (n, d+1) of a run by characteristics, (n_signs, n), as pictures
    show it: of many flows those with hardly a change are taken as one."""
    logs = run.density_at(points, save, log=True, gathered=True)
    return np.exp(logs - run.log_mass_at(save) if normalised else logs)
