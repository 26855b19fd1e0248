"""Packages whose public names are loaded when they are first used, so that importing them is
quick."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def public(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list]:
    """What a package binds to __getattr__, __dir__ and __all__: the names that its stub
    __init__.pyi imports.

    The stub is the one list of public names: editors and type checkers read it as well.
    """
    homes = _imported(ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")))
    names = sorted(homes)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(
                f"module '{package}' has no attribute '{name}'", name=name, obj=sys.modules[package]
            )
        if not homes[name]:
            return import_module(f".{name}", package)
        value = getattr(import_module(f".{homes[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: names, names


def _imported(stub: ast.Module) -> dict[str, str]:
    """{name: the module that a stub imports it from, "" for a module of the package itself}."""
    return {
        alias.name: line.module or ""
        for line in stub.body
        if isinstance(line, ast.ImportFrom) and line.level == 1
        for alias in line.names
    }
