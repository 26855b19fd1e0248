"""Former names of keys and values of case files: they are read for one version more, with a warning
that says what they are called now."""

import warnings
from typing import Any

from ..errors import CaseError
from .lines import lines_of, place

# key -> its name now
KEYS = {
    "method.coupling": "imex",
    "flow.clock": "time_variable",
    "objective.transform": "operator",
}
# keys that are no more, with the value at which they said nothing: run folders have them
GONE = {"flow.diffusion": 0.0}
# (key, value) -> its name now; keys by the names that they have now
VALUES = {
    ("method.stepper", "hancock"): "muscl-hancock",
    ("domain.kind", "atoms"): "fixed-features",
}


def current(tables: dict[str, Any], source: str, text: str = "", warn: bool = True) -> dict:
    """Tables of a case, a study or overrides, with today's names in the place of former ones.

    tables : nested, or with dotted keys;  source, text : what messages call them, and the TOML in
        which lines are counted
    warn : whether a FutureWarning is given for each former name
    Raises CaseError if a key is given by both of its names.
    """
    found: dict[tuple[str, str, str], str] = {}
    made = _current(tables, "", "", found, source)
    lines = lines_of(text) if found and warn else {}
    for (key, former, now), at in found.items() if warn else ():
        warnings.warn(
            f"{place(source, lines, at)}: {key}: '{former}' is called '{now}' now; the next version"
            " does not read the former name.",
            FutureWarning,
            stacklevel=2,
        )
    return made


def _current(value: Any, path: str, at: str, found: dict, source: str) -> Any:
    """A value with today's names.

    path, at : its dotted key, by the names of today and by those given
    found : gets {(key or table, former name, name now): dotted key as given}
    """
    if isinstance(value, list):
        return [_current(inner, path, f"{at}.{k}", found, source) for k, inner in enumerate(value)]
    if not isinstance(value, dict):
        now = VALUES.get((_last(path), value)) if isinstance(value, str) else None
        if now is not None:
            found.setdefault((_last(path), value, now), at)
        return value if now is None else now
    made: dict[str, Any] = {}
    for key, inner in value.items():
        whole, given = f"{path}.{key}".lstrip("."), f"{at}.{key}".lstrip(".")
        if _last(whole) in GONE and inner == GONE[_last(whole)]:
            continue
        if now := KEYS.get(_last(whole)):
            table, _, former = _last(whole).partition(".")
            found.setdefault((table, former, now), given)
            whole = f"{whole.rpartition('.')[0]}.{now}"
            key = f"{key.rpartition('.')[0]}.{now}".lstrip(".")
            if key in value:
                raise CaseError(
                    f"{source}: {_last(whole)}: '{former}' is its former name; leave one of them"
                    " out."
                )
        made[key] = _current(inner, whole, given, found, source)
    return made


def _last(path):
    """The last two parts of a dotted key: table and key."""
    return ".".join(path.split(".")[-2:])
