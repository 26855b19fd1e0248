"""What objects say of themselves: a line as their `repr`, a table in a notebook."""

from collections.abc import Mapping
from html import escape


def counted(number: int, noun: str) -> str:
    """ "1 step", "2 steps"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


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
