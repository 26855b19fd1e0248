"""The project's exceptions: each carries a sentence that a user can act on."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches

# that a message lists, and looks through for what may have been meant
MAX_CHOICES, MAX_COMPARED = 40, 10_000
LONGEST_NAME = 1000  # letters that a message shows


class HkflowError(Exception):
    """Base of every error that hkflow raises on purpose."""


class CaseError(HkflowError):
    """A case file, an override or an argument that cannot be run as it stands."""


class RunFolderError(HkflowError):
    """A run folder or results file that cannot be written, read or resumed."""


def printable(name: object) -> str:
    """A name as messages show it, in one line of bounded length."""
    text = str(name)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def led_by(lead: str, error: Exception) -> str:
    """An error's message, every line of which begins with a lead but those that are indented."""
    lines = str(error).splitlines()
    return "\n".join(line if line.startswith("  ") else f"{lead}: {line}" for line in lines)


def unknown_name(what: str, name: object, choices: Collection[str]) -> str:
    """Say which names exist, nearest first: "Unknown limiter 'vanleer'. Did you mean 'van-leer'?
    Choose from: …"."""
    name, choices = printable(name), sorted(map(printable, choices))
    more = f" and {len(choices) - MAX_CHOICES} more" if len(choices) > MAX_CHOICES else ""
    return (
        f"Unknown {what} '{name}'.{did_you_mean(name, choices)} Choose from:"
        f" {', '.join(choices[:MAX_CHOICES])}{more}."
    )


def namesake(what: str, name: object) -> str:
    """Say that a user's own is called as a built-in one is."""
    return f"The {what} '{printable(name)}' is not hkflow's own; give it another name."


def did_you_mean(name: object, choices: Sequence[str]) -> str:
    """ " Did you mean 'van-leer'?" of the nearest choice, or nothing if none is near."""
    near = get_close_matches(str(name), choices[:MAX_COMPARED], n=1)
    return f" Did you mean '{near[0]}'?" if near else ""
