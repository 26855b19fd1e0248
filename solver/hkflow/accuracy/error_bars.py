"""Error bars of a run: numbers, units, and words."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arguments import Floats
from ..measures.point_measure import PointMeasure
from ..shown import Shown

LABELS = {  # of quantities, and of what they are in units of the mass where that is beyond numbers
    "predictions": ("predictions", "predictions/mass"),
    "test_predictions": ("test predictions", "test predictions/mass"),
    "objective": ("objective", "objective/mass"),
    "log_mass": ("log mass", "log mass"),
    "margin": ("margin/mass", "margin/mass"),
    "moment": ("first moment", "first moment/mass"),
    "second_moment": ("second moment", "second moment/mass"),
    "plain_predictions": ("predictions", "predictions"),  # beside those in units of the mass
}
MOMENTS = "moment", "second_moment"
NEARBY = "nearby_positions", "nearby_signs", "nearby_weights"


@dataclass(frozen=True, eq=False)
class Bar:
    """Errors of one quantity at the saves, as they are estimated; no bounds.

    space, time : (n_saves,) what meshes or points leave, and what steps leave; root mean squares of
        a quantity of several components
    order : observed, nan if unknown;  verdict : whether the estimate can be trusted
    """

    space: Floats
    time: Floats
    order: float = np.nan
    verdict: str = ""

    @property
    def total(self) -> Floats:
        """Both together, (n_saves,)."""
        return self.space + self.time


@dataclass(frozen=True, eq=False, repr=False)
class ErrorBars(Shown):
    """How far a run may be from the flow that it computes: estimates from companions, in every
    quantity of `bars`.

    time : (n_saves,);  bars : {"predictions": Bar, "objective", "log_mass", "margin", "moment"},
        with test data "test_predictions", without data "second_moment", and where these are in
        units of the mass "plain_predictions", if the mass is not beyond numbers
    each : (n_saves, n_data), of k outputs (n_saves, n_data, k), of every prediction, space and
        time together
    normalised : whether predictions, objective and moments are those of ν/|ν|
    companions : what was computed, in words;  remark : why there are no bars, or ""
    nearby : the measure at the last save of the companion whose distance from the run tells `each`,
        ν/|ν| if normalised; None without any;  stretch : the bar of the predictions over that
        distance, which tells bars at other inputs
    wanted, reached : the accuracy that was asked for and what came of it, relative errors of the
        predictions or moments; nan if none was;  limit : what kept it from that, or ""
    """

    time: Floats
    bars: dict[str, Bar] = field(default_factory=dict)
    each: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    normalised: bool = False
    companions: tuple[str, ...] = ()
    remark: str = ""
    wanted: float = np.nan
    reached: float = np.nan
    limit: str = ""
    nearby: PointMeasure | None = None
    stretch: float = 0.0

    def __getitem__(self, name: str) -> Floats:
        """The total bar of a quantity, (n_saves,). Raises KeyError for one that has none, with the
        reason."""
        if name not in self.bars:
            raise KeyError(f"no error bar of {name!r}: {self.remark or ', '.join(self.bars)}")
        return self.bars[name].total

    def __iter__(self) -> Iterator[str]:
        return iter(self.bars)

    @property
    def judges(self) -> bool:
        """Whether they say what was reached of an accuracy that was asked for."""
        return not np.isnan(self.wanted)

    def label(self, name: str) -> str:
        """What a quantity is called."""
        return LABELS[name][self.normalised]

    def leading(self, sizes: Floats | float = 1.0) -> Bar:
        """The bar by which a run is judged: that of the predictions, or without data that of the
        moment whose bar is the larger at any save, in units of `sizes`."""
        if "predictions" in self.bars:
            return self.bars["predictions"]
        moments = [self.bars[name] for name in MOMENTS if name in self.bars]
        return max(moments, key=lambda bar: float((bar.total / sizes).max()))

    def __repr__(self):
        said = [f"{name} ± {self[name][-1]:.1e}" for name in self.bars]
        return f"<ErrorBars: {', '.join(said) or self.remark}>"

    def _facts(self):
        if not self.bars:
            return {"": str(self)}
        last = {name: (self[name][-1], bar.verdict) for name, bar in self.bars.items()}
        rows = {self.label(name): f"± {size:.2e}, {said}" for name, (size, said) in last.items()}
        return rows | {f"at t = {self.time[-1]:g} from": "; ".join(self.companions)}

    def __str__(self):
        if not self.bars:
            return f"Errors are not estimated: {self.remark}."
        rows = [f"{'':20} {'error':>9} {'space':>9} {'time':>9}"]
        for name, bar in self.bars.items():
            numbers = " ".join(f"{x[-1]:9.2e}" for x in (bar.total, bar.space, bar.time))
            rows.append(f"{self.label(name):20} {numbers}   {bar.verdict}")
        return "\n".join(
            [*rows, f"Estimated at t = {self.time[-1]:g} from: " + "; ".join(self.companions)]
        )

    def arrays(self) -> dict[str, Floats]:
        """All numbers by name, as files keep them: predictions_space, predictions_time, …,
        predictions_each, nearby_positions, …"""
        if not self.bars:
            return {}
        parts = {
            f"{name}_{part}": getattr(bar, part)
            for name, bar in self.bars.items()
            for part in ("space", "time")
        }
        parts["predictions_each"] = self.each
        if self.nearby is not None:
            values = self.nearby.positions, self.nearby.signs, self.nearby.weights
            parts |= dict(zip(NEARBY, values, strict=True))
        return parts

    def words(self) -> str:
        """All the rest as JSON."""
        return json.dumps(
            {
                "orders": {name: _plain(bar.order) for name, bar in self.bars.items()},
                "verdicts": {name: bar.verdict for name, bar in self.bars.items()},
                "labels": {name: self.label(name) for name in self.bars},
                "normalised": self.normalised,
                "companions": self.companions,
                "remark": self.remark,
                "wanted": _plain(self.wanted),
                "reached": _plain(self.reached),
                "limit": self.limit,
                "stretch": self.stretch,
            },
            ensure_ascii=False,
        )


def _plain(number):
    """A number for JSON, which knows no nan."""
    return None if np.isnan(number) else number


def _number(plain):
    return np.nan if plain is None else float(plain)


def from_arrays(time: Floats, arrays: Mapping[str, Floats], said: Mapping[str, Any]) -> ErrorBars:
    """The ErrorBars that files keep, said : what `words` writes. Raises KeyError, TypeError or
    ValueError if they are none."""
    bars = {
        name: Bar(
            np.asarray(arrays[f"{name}_space"]),
            np.asarray(arrays[f"{name}_time"]),
            _number(said["orders"][name]),
            str(said["verdicts"][name]),
        )
        for name in said["orders"]
        if name in LABELS
    }
    each = np.asarray(arrays["predictions_each"]) if bars else np.zeros((0, 0))
    companions = tuple(map(str, said["companions"]))
    asked = _number(said["wanted"]), _number(said["reached"]), str(said["limit"])
    there = NEARBY[0] in arrays  # early versions did not keep it
    nearby = PointMeasure(*(arrays[name] for name in NEARBY)) if there else None
    return ErrorBars(
        *(time, bars, each, bool(said["normalised"]), companions, str(said["remark"])),
        *(*asked, nearby, float(said.get("stretch", 0.0))),
    )
