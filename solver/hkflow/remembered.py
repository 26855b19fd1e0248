"""What follows from an object, kept while that lives."""

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Found = TypeVar("Found")


def remembered(most: int) -> Callable[[Callable[[Any], Found]], Callable[[Any], Found]]:
    """A decorator of functions of one object, an array or a record, that is not written to: what
    they return is kept for the very same object, of the `most` that were asked for last, and no
    longer than the object itself, which is not kept alive."""

    def decorated(function):
        kept: dict[int, Any] = {}
        missing = object()

        @wraps(function)
        def found(one):
            # each use of `kept` is one call that threads cannot divide
            key = id(one)
            value = kept.pop(key, missing)
            if value is missing:
                value = function(one)
                weakref.finalize(one, kept.pop, key, None).atexit = False
            kept[key] = value  # the latest is the last
            for oldest in list(kept)[:-most]:
                kept.pop(oldest, None)
            return value

        return found

    return decorated
