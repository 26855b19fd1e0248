"""Packages whose public names are loaded when they are first used, so that importing them is
quick."""

import sys
from importlib import import_module


def public(package, homes, rooms=()):
    """What a package binds to __getattr__, __dir__ and __all__.

    homes : {name: module that defines it};  rooms : modules that are public as a whole. Both
        relative to the package
    """
    names = sorted((*homes, *rooms))

    def load(name):
        if name in rooms:
            return import_module(f".{name}", package)
        if name not in homes:
            raise AttributeError(
                f"module '{package}' has no attribute '{name}'", name=name, obj=sys.modules[package]
            )
        value = getattr(import_module(f".{homes[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: names, names
