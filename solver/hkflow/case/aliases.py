"""Former names of keys and values of case files: they are read for one version more, with a warning
that says what they are called now."""

import re
import warnings
from typing import Any

from ..errors import CaseError

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
    found: list[tuple[str, str, str]] = []
    made = _current(tables, (), found, source)
    for path, former, now in dict.fromkeys(found) if warn else ():
        place = f"{source}:{line}" if (line := _line_of(text, path[0], former)) else source
        warnings.warn(
            f"{place}: {'.'.join(path)}: '{former}' is called '{now}' now; the next version does"
            " not read the former name.",
            FutureWarning,
            stacklevel=2,
        )
    return made


def _current(value: Any, path: tuple[str, ...], found: list, source: str) -> Any:
    """A value at a path of keys with today's names; adds (path, former name, name now) to
    `found`."""
    if isinstance(value, list):
        return [_current(inner, path, found, source) for inner in value]
    if not isinstance(value, dict):
        now = VALUES.get((".".join(path[-2:]), value)) if isinstance(value, str) else None
        if now is not None:
            found.append((path[-2:], value, now))
        return value if now is None else now
    made: dict[str, Any] = {}
    for key, inner in value.items():
        whole = (*path, *key.split("."))
        if ".".join(whole[-2:]) in GONE and inner == GONE[".".join(whole[-2:])]:
            continue
        now = KEYS.get(".".join(whole[-2:]))
        if now is not None:
            found.append((whole[-2:-1], whole[-1], now))
            whole = (*whole[:-1], now)
            former, key = key, ".".join((*key.split(".")[:-1], now))
            if key in value:
                raise CaseError(
                    f"{source}: {'.'.join(whole[-2:])}: '{former}' is its former name; leave one of"
                    " them out."
                )
        made[key] = _current(inner, whole, found, source)
    return made


def _line_of(text: str, home: str, word: str) -> int | None:
    """The line of a TOML text on which a word is in a table, from 1; None if none is found."""
    table: set[str] = set()
    key: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0]
        words = set(re.findall(r"[\w-]+", line))
        if header := re.match(r"\s*\[+([\w.\s\"'-]+)\]+\s*$", line):
            table, key = set(re.findall(r"[\w-]+", header[1])), set()
        elif begun := re.match(r"\s*([\w.\s\"'-]+?)\s*=", line):
            key = set(re.findall(r"[\w-]+", begun[1]))
        if word in words and home in table | key | words:
            return number
    return None
