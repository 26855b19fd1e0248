"""Pictures made from runs alone, by name: `draw(name, run)` makes a figure, `write` a file,
`animate` a film of all saves."""

from ..lazy import public

_HOMES = {
    "KINDS": "kinds", "draw": "kinds", "write": "kinds", "fitting": "kinds", "animate": "animation",
    "save_overview": "overview", "style": "figures", "COLUMN": "figures", "PAGE": "figures",
}  # fmt: skip

__getattr__, __dir__, __all__ = public(__name__, _HOMES)
