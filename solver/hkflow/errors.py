"""The project's exceptions: each carries a sentence that a user can act on."""

from difflib import get_close_matches


class HkflowError(Exception):
    """Base of every error that hkflow raises on purpose."""


class CaseError(HkflowError):
    """A case file, an override or an argument that cannot be run as it stands."""


class RunFolderError(HkflowError):
    """A run folder or results file that cannot be written, read or resumed."""


def unknown_name(what, name, choices):
    """Say which names exist, nearest first: "Unknown limiter 'vanleer'. Did you mean 'van-leer'? Choose from: …"."""
    choices = sorted(choices)
    return f"Unknown {what} '{name}'.{did_you_mean(name, choices)} Choose from: {', '.join(choices)}."


def did_you_mean(name, choices):
    """" Did you mean 'van-leer'?" of the nearest choice, or nothing if none is near."""
    near = get_close_matches(str(name), choices, n=1)
    return f" Did you mean '{near[0]}'?" if near else ""
