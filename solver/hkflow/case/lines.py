"""On which line of a TOML text a key stands, for messages."""

import tomllib
from typing import Any

Lines = dict[str, int]  # by dotted keys, from 1; 0: a key that is set elsewhere

LONGEST_TEXT = 2**16  # characters; longer ones hold data, and no lines are told


def lines_of(text: str, changes: dict[str, Any] | None = None) -> Lines:
    """The lines on which the tables and keys of a valid TOML text begin: {"data": 3, "data.file":
    5, "energy.0.kind": 9}.

    changes : tables, or values by dotted keys, that take the place of what the text says
    Each statement is parsed by itself, so that no line of a longer value is taken for a key.
    """
    lines: Lines = {}
    table, counts = "", dict[str, int]()  # the open table; the tables so far in each list of them
    statement, begun = "", 1
    for number, line in enumerate(text.splitlines() if len(text) <= LONGEST_TEXT else (), 1):
        if not statement:
            begun = number
        elif line.endswith(","):  # a value goes on
            statement += f"{line}\n"
            continue
        statement += f"{line}\n"
        try:
            found = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        if statement.lstrip().startswith("["):
            table = _opened(found, "", counts)
            lines.setdefault(table, begun)
        else:
            _add(found, table, begun, lines)
        statement = ""
    return lines | dict.fromkeys(flat(changes or {}), 0)


def _opened(found, table, counts):
    """The dotted key of the table that a header opens, with its number in a list of tables; counts
    those of a list."""
    if isinstance(found, list):  # [[table]] opens one more
        counts[table] = counts.get(table, 0) + 1
        return f"{table}.{counts[table] - 1}"
    if table in counts:  # [table.inner] is in the last one
        table = f"{table}.{counts[table] - 1}"
    if not found:
        return table
    ((key, inner),) = found.items()
    return _opened(inner, f"{table}.{key}".lstrip("."), counts)


def _add(value, path, line, lines):
    """Add the line of all keys within a value at a dotted key."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inner:
        at = f"{path}.{key}".lstrip(".")
        lines.setdefault(at, line)
        if isinstance(one, dict) or isinstance(one, list) and one and isinstance(one[0], dict):
            _add(one, at, line, lines)


def flat(tables: dict[str, Any], table: str = "") -> dict[str, Any]:
    """Values by dotted keys: {"domain": {"cells": […]}} as {"domain.cells": […]}."""
    found: dict[str, Any] = {}
    for key, value in tables.items():
        at = f"{table}.{key}".lstrip(".")
        found |= flat(value, at) if isinstance(value, dict) else {at: value}
    return found


def place(source: str, lines: Lines, key: str) -> str:
    """Where a dotted key, or the innermost of its tables that is known, stands: "case.toml:7", or
    "case.toml, what is set"; the source alone if that is not known."""
    while key and key not in lines:
        key = key.rpartition(".")[0]
    if not key:
        return source
    return f"{source}:{lines[key]}" if lines[key] else set_beside(source)


def set_beside(source: str) -> str:
    """How messages call what takes the place of a text, as --set does."""
    return f"{source}, what is set"


def placed(message: object, source: str, lines: Lines) -> str:
    """A message, every line of which begins with the place of the key that it is about, but those
    that are indented."""
    return "\n".join(
        line
        if line.startswith("  ")
        else f"{place(source, lines, line.partition(': ')[0])}: {line}"
        for line in str(message).splitlines()
    )
