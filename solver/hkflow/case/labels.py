"""When cells of a table are missing, and when they say the same; needs no arrays."""

from typing import Any

EXACT = 1e15  # below it 15 digits tell whole numbers apart

# what stands where there is no value, in small letters
MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "#na", "nan", "-nan", "null", "none", "<na>", "nat", "?")
)


def is_missing(cell: Any) -> bool:
    """Whether a cell has no value."""
    return cell is None or str(cell).strip().lower() in MISSING


def number_of(cell: Any) -> float:
    """A cell as a number. Raises ValueError or TypeError for what is none: 1_000 is one in Python
    alone."""
    if isinstance(cell, str) and "_" in cell:
        raise ValueError
    return float(cell)


def text_of(cell: Any) -> str:
    """A cell as a text that is the same for 1, 1.0 and "1"; whole numbers keep all their digits."""
    text = str(cell).strip()
    try:
        number = number_of(text)
    except ValueError:
        return text
    if abs(number) >= EXACT and text.lstrip("+-").isdecimal():
        return str(int(text))
    return f"{number:.15g}"


def label_of(cell: Any) -> str:
    """A label as a text: as `text_of`, and true and false in any spelling as 1 and 0."""
    text = text_of(cell)
    return {"true": "1", "false": "0"}.get(text.lower(), text)
