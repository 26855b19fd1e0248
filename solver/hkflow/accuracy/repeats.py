"""Networks that differ by their random numbers alone, beside the flow of infinitely many units."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arguments import Floats
from ..shown import Shown

QUANTITIES = ("objective", "log_mass", "distance")
OF_INFINITE = ("objective", "log_mass", "objective_error", "log_mass_error", "predictions_error")
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class Repeats(Shown):
    """Numbers of n networks at the saves of a run, which is the first of them.

    time : (n_saves,);  units : of each network
    values : {"objective": (n, n_saves), "log_mass", "distance"}, the latter the root mean square
        over data of the difference of predictions to those of infinite width
    infinite : {"objective": (n_saves,), "log_mass"} of infinite width, and as "objective_error", …,
        "predictions_error" their error bars as far as they are known; empty without
    normalised : whether predictions and objective are those of ν/|ν|
    remark : why there are fewer networks than were asked for, or ""
    without : why there is no infinite width, or ""
    """

    time: Floats
    units: int
    values: dict[str, Floats]
    infinite: dict[str, Floats] = field(default_factory=dict)
    normalised: bool = False
    remark: str = ""
    without: str = ""

    def __len__(self):
        return len(self.values["objective"])

    def _facts(self):
        beside = self.without or self.remark or "beside infinite width"
        networks = f"{len(self)} networks of {self.units} units"
        return {"networks": networks, "saves": f"{len(self.time)} saves", "": beside}

    def mean(self, name: str) -> Floats:
        """The mean of a quantity over the networks, (n_saves,)."""
        return np.asarray(self.values[name].mean(axis=0))

    def std(self, name: str) -> Floats:
        """The standard deviation of a single network, (n_saves,). Raises ValueError for one."""
        if len(self) < 2:
            raise ValueError(f"A standard deviation needs two networks, got {len(self)}.")
        return np.asarray(self.values[name].std(axis=0, ddof=1))

    def band(self, name: str) -> Floats:
        """Half the width of the 95 % confidence interval of the mean, t s/√n, (n_saves,).

        t : the quantile of Student's distribution of n − 1 degrees of freedom;  s : see `std`
        """
        from scipy.special import stdtrit  # slow to load

        n = len(self)
        quantile = stdtrit(n - 1, 0.5 * (1.0 + CONFIDENCE))
        return quantile * self.std(name) / np.sqrt(n)

    def arrays(self) -> dict[str, Floats]:
        """All numbers by name, as files keep them."""
        return self.values | {f"infinite_{name}": a for name, a in self.infinite.items()}

    def words(self) -> str:
        """All the rest as JSON."""
        names = ("units", "normalised", "remark", "without")
        return json.dumps({name: getattr(self, name) for name in names}, ensure_ascii=False)


def from_arrays(time: Floats, arrays: Mapping[str, Floats], said: Mapping[str, Any]) -> Repeats:
    """The Repeats that files keep, said : what `words` writes. Raises KeyError, TypeError or
    ValueError if they are none."""
    values = {name: np.asarray(arrays[name]) for name in QUANTITIES if name in arrays}
    infinite = {
        name: np.asarray(arrays[f"infinite_{name}"])
        for name in OF_INFINITE
        if f"infinite_{name}" in arrays
    }
    if not len(values["objective"]) or "log_mass" not in values:
        raise ValueError("repeats hold no network")
    if ("distance" in values or infinite) and "objective" not in infinite:
        raise ValueError("repeats hold no objective of infinite width")
    words = bool(said["normalised"]), str(said["remark"]), str(said["without"])
    return Repeats(time, int(said["units"]), values, infinite, *words)
