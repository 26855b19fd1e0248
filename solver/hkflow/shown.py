"""What objects say of themselves: a line as their `repr`, a table in a notebook."""

import os
from collections.abc import Mapping
from html import escape
from shlex import quote


def counted(number: int, noun: str) -> str:
    """ "1 step", "2 steps"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def as_typed(path: str | os.PathLike[str]) -> str:
    """A path as an argument of a command that a reader copies: in quotes where it needs them, and
    no option."""
    text = os.fspath(path)
    text = f".{os.sep}{text}" if text.startswith("-") else text
    if os.name == "nt":
        return f'"{text}"' if " " in text else text
    return quote(text)


class Shown:
    """An object with facts on itself, {name: text}, which a subclass gives by `_facts`."""

    def _facts(self) -> dict[str, str]:
        raise NotImplementedError

    def __repr__(self):
        return f"<{type(self).__name__}: {', '.join(self._facts().values())}>"

    def _repr_html_(self):
        return html_table(type(self).__name__, self._facts())


def html_table(title: str, rows: Mapping[str, str], picture: str = "") -> str:
    """A table with a title, and a picture under it that is HTML already."""
    lines = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows.items()
    )
    return f"<div><b>{escape(title)}</b><table>{lines}</table>{picture}</div>"
