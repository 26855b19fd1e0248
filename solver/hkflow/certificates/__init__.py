"""What flows converge to, computed independently: max-margins, kernel machines, regularised
minimisers; and what runs prove."""

from ..lazy import public

__getattr__, __dir__, __all__ = public(__name__, __file__)
