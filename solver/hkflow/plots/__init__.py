"""Pictures made from runs alone, by name: `draw(name, run)` makes a figure, `write` a file,
`animate` a film of all saves."""

from ..lazy import public

__getattr__, __dir__, __all__ = public(__name__, __file__)
