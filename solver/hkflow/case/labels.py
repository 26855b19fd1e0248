"""When cells of a table are missing, and when they say the same; needs no arrays."""

from typing import Any

# what stands where there is no value, in small letters
MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "#na", "nan", "-nan", "null", "none", "<na>", "nat", "?")
)


def is_missing(cell: Any) -> bool:
    """Whether a cell has no value."""
    return cell is None or str(cell).strip().lower() in MISSING


def text_of(cell: Any) -> str:
    """A cell as a text that is the same for 1, 1.0 and "1"."""
    text = str(cell).strip()
    try:
        return f"{float(text):.15g}"
    except ValueError:
        return text


def label_of(cell: Any) -> str:
    """A label as a text: as `text_of`, and true and false in any spelling as 1 and 0."""
    text = text_of(cell)
    return {"true": "1", "false": "0"}.get(text.lower(), text)
