"""Several runs in groups: members that differ in nothing but the seed, called by what else
differs, and what they recorded over time with its spread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arguments import Floats
from ..solving.result import Result

# of cases, that change nothing of what is computed, or only how often it is written down
UNSEEN = ("title", "error", "certificate", "records", "time.saves", "time.records",
          "method.repeats", "objective.operator")  # fmt: skip
SEED, WIDTH = "seed", "m"
TIMES = ("time.end", "time.first", "time.steps", "time.until_margin")
KINDS = ("kind", "source", "loss", "activation")  # last words of keys whose value says enough
DRAWN = ("random", "gaussian")  # points of which so many are a network of that width
INFINITE = "∞"  # the width of densities and evenly spread points
LOWEST, HIGHEST = 10.0, 90.0  # per cent of the members of a group below its band, and below its top
POINTS = 500  # of a curve, at most
LONGEST = 40  # letters of a value in a label


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ in nothing but their seed.

    label : what tells them from other groups, "" where there are none
    runs : its members;  keys : {dotted key: value} of their cases, WIDTH among them
    """

    label: str
    runs: list[Result]
    keys: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Curve:
    """What a group recorded over time.

    time, middle, low, high : (n,), the median of the members, and the band with a tenth of them
        below and a tenth above it; low and high are the middle of one member alone
    members : how many have the record
    """

    time: Floats
    middle: Floats
    low: Floats
    high: Floats
    members: int


def groups_of(runs: Sequence[Result]) -> list[Group]:
    """The runs in groups, in the order in which these come first; members differ in the seed
    alone."""
    tables = [_keys(run) for run in runs]
    members: dict[str, list[int]] = {}
    for k, table in enumerate(tables):
        members.setdefault(repr(sorted(table.items())), []).append(k)
    labels = labels_of([tables[mine[0]] for mine in members.values()])
    return [
        Group(label, [runs[k] for k in mine], tables[mine[0]])
        for label, mine in zip(labels, members.values(), strict=True)
    ]


def curve_of(group: Group, values_of: Callable[[Result], Floats | None]) -> Curve | None:
    """What a group recorded, None if no member did; values_of(run) : (n_records,) or None.

    Members took their records at times of their own: between these they are interpolated, and left
    out after their end. Values that are not finite are left out as well.
    """
    found = []
    for run in group.runs:
        values = values_of(run)
        if values is not None and (known := np.isfinite(values)).any():
            found.append((run.records["time"][known], values[known]))
    if not found:
        return None
    time = np.unique(np.concatenate([time for time, _ in found]))
    time = time[np.unique(np.linspace(0, len(time) - 1, POINTS).astype(int))]
    values = np.array([np.interp(time, *one, left=np.nan, right=np.nan) for one in found])
    there = np.isfinite(values).any(axis=0)
    low, middle, high = np.nanpercentile(values[:, there], [LOWEST, 50.0, HIGHEST], axis=0)
    return Curve(time[there], middle, low, high, len(found))


def order_of(groups: Sequence[Group]) -> list[float] | None:
    """The numbers that tell groups apart, inf for infinite width; None unless one key does that
    tells all of them apart by numbers."""
    differing = _differing([group.keys for group in groups])
    if len(differing) != 1 and WIDTH not in differing:
        return None
    key = WIDTH if WIDTH in differing else differing[0]
    values = [np.inf if v == INFINITE else v for v in (group.keys.get(key) for group in groups)]
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return numbers if len(set(numbers)) == len(values) else None


def _keys(run):
    """What a run computes, as {dotted key: value}: of its case, or what is known without one."""
    case = getattr(run, "case", None)
    known = {"name": run.title, "method": {"kind": run.method}} if case is None else None
    return _with_width(_flat(known or case.model_dump()))


def _flat(tables, prefix=""):
    """{"method": {"units": 10}} as {"method.units": 10}, without what is not seen or not given."""
    flat = {}
    for key, value in tables.items():
        name = prefix + key
        if isinstance(value, dict) and name not in UNSEEN:
            flat |= _flat(value, f"{name}.")
        elif name not in (SEED, *UNSEEN) and value is not None:
            flat[name] = value
    return flat


def _with_width(flat):
    """The same with the width by one name: how many units a network has, or how many atoms are
    drawn."""
    counts = "method.units", "method.particles"
    count = next((flat[key] for key in counts if key in flat), None)
    if flat.get("method.kind") != "network" and flat.get("method.points") not in DRAWN:
        return flat | {WIDTH: INFINITE}
    return {key: value for key, value in flat.items() if key not in counts} | {WIDTH: count}


def labels_of(tables: Sequence[dict[str, Any]]) -> list[str]:
    """What tells tables {key: value} from one another, in words: kinds and widths that differ, and
    of those alike in these the other keys; a key of [time] only where nothing else does."""
    differing = _differing(tables)
    first = [key for key in differing if key == WIDTH or key.rpartition(".")[2] in KINDS]
    alike = [
        [other for other in tables if _alike(table, other, set(first) - {WIDTH})]
        for table in tables
    ]
    others = [[key for key in _differing(same) if key not in (*first, *TIMES)] for same in alike]
    shown = [[*first, *keys] for keys in others]
    parts = [tuple(str(t.get(key)) for key in keys) for t, keys in zip(tables, shown, strict=True)]
    late = [key for key in differing if key in TIMES]
    return [
        _words(table, keys if parts.count(mine) == 1 else [*keys, *late])
        for table, keys, mine in zip(tables, shown, parts, strict=True)
    ]


def full_labels_of(tables: Sequence[dict[str, Any]]) -> list[str]:
    """Tables {key: value} in words, with every key in which they differ."""
    return [_words(table, _differing(tables)) for table in tables]


def _alike(table, other, kinds):
    """Whether two tables have the same kinds and are both of finite or both of infinite width."""
    return all(table.get(key) == other.get(key) for key in kinds) and (
        (table.get(WIDTH) == INFINITE) == (other.get(WIDTH) == INFINITE)
    )


def _differing(tables):
    """The keys whose values are not the same in all tables, in the order of the first that has
    them."""
    keys = dict.fromkeys(key for table in tables for key in table)
    return [key for key in keys if any(t.get(key) != tables[0].get(key) for t in tables)]


def _words(table, keys):
    """Keys of a table by their last words, or whole where two have the same, kinds by their value
    alone."""
    last = [key.rpartition(".")[2] for key in keys]
    words = []
    for key, word in zip(keys, last, strict=True):
        if key not in table:
            continue
        value = _readable(table[key])
        name = key if last.count(word) > 1 else word
        words.append(value if word in KINDS or key == "name" else f"{name} = {value}")
    return ", ".join(words)


def _readable(value):
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
