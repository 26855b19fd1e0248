"""What users' functions are made of: modules from files as they stand, and sources."""

import hashlib
import inspect
import os
import sys
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import partial
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

INSTALLED = "site-packages", "dist-packages"
OWN = "hkflow_case_"  # in names that no folder has
# by its file: a module, and the contents by which it and those beside it were made
LOADED: dict[str, tuple[ModuleType, dict[str, bytes]]] = {}


class _FromSource(SourceFileLoader):
    """Modules from their sources: Python's byte code does not tell two contents of one second and
    one length apart."""

    def __init__(self, name, path, files):
        super().__init__(name, path)
        self.files = files

    def get_code(self, fullname):
        content = self.files[self.path] = self.get_data(self.path)
        return compile(content, self.path, "exec", dont_inherit=True)


class _Beside:
    """Finds modules in a folder, and notes their contents."""

    def __init__(self, folder, files):
        self.folder = str(folder)
        loader = (lambda name, path: _FromSource(name, path, files)), SOURCE_SUFFIXES
        self.finder_in = lambda place: FileFinder(place, loader)

    def find_spec(self, name, path=None, target=None):
        places = [self.folder] if path is None else [p for p in path if self._has(p)]
        specs = (self.finder_in(place).find_spec(name) for place in places)
        return next((spec for spec in specs if spec and spec.loader), None)

    def _has(self, place):
        return Path(place).is_relative_to(self.folder)

    def namesakes(self):
        """Modules of other folders that bear names of this one's; not Python's own, nor installed
        ones."""
        finder, found = self.finder_in(self.folder), {}
        for name, module in sys.modules.items():
            top, file = name.partition(".")[0], getattr(module, "__file__", None)
            own = file is None or top in sys.stdlib_module_names or self._has(file)
            if not (own or any(part in INSTALLED for part in Path(file).parts)):
                spec = finder.find_spec(top)
                if spec is not None and spec.loader:
                    found[name] = module
        return found


def module_in(path: Path, folder: Path) -> ModuleType:
    """The module of a file, with those of its folder that it imports, all as they stand: folders
    may have modules of one name, and they change.

    path, folder : whole ones
    """
    module, made_of = LOADED.get(str(path), (None, {}))
    if module is not None and all(_holds(file, content) for file, content in made_of.items()):
        return module
    files: dict[str, bytes] = {}
    digest = hashlib.sha256(str(path).encode() + path.read_bytes()).hexdigest()
    # its package, for relative imports
    name = ".".join([*path.relative_to(folder).parts[:-1], f"{OWN}{digest[:16]}"])
    loader = _FromSource(name, str(path), files)
    spec: Any = spec_from_file_location(name, path, loader=loader)
    with _looked_at_first(folder, files):
        module = sys.modules[name] = module_from_spec(spec)
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    LOADED[str(path)] = module, files
    return module


def _holds(file, content):
    return Path(file).is_file() and Path(file).read_bytes() == content


@contextmanager
def _looked_at_first(folder, files):
    """Imports from a folder, of which nothing is left for those from others."""
    beside = _Beside(folder, files)
    others = beside.namesakes()
    for name in others:
        del sys.modules[name]
    sys.meta_path.insert(0, beside)
    sys.path.insert(0, str(folder))  # for what is compiled
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.meta_path.remove(beside)
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file in files and OWN not in name:
                del sys.modules[name]
        sys.modules.update(others)


def source_hash(function: Any) -> str | None:
    """SHA-256 of the source of a function, or of what holds one: a partial, a method, an object
    that is called; with the constants that it names or holds, also in objects of its module, and
    the functions that it names of modules of its folder. None if there is no source."""
    try:
        parts = "\n".join(_parts(function, {}))
    except (OSError, TypeError, SyntaxError):
        return None
    return hashlib.sha256(parts.encode()).hexdigest()


def _parts(value, seen):
    if id(value) in seen:
        return
    seen[id(value)] = value  # which must live, or another may have its id
    function, named = _opened(value)
    yield inspect.getsource(function)
    code, scope = function.__code__, function.__globals__
    named |= dict(zip(code.co_freevars, _cells(function), strict=True))
    named |= {f"={k}": one for k, one in enumerate(function.__defaults__ or ())}
    named |= function.__kwdefaults__ or {}
    names = _names(code)
    named |= {name: scope[name] for name in names if name in scope}
    for module in [one for one in named.values() if inspect.ismodule(one)]:
        if _folder_of(getattr(module, "__file__", None)) == _folder_of(code.co_filename):
            own = {name: vars(module)[name] for name in names if name in vars(module)}
            named |= {f"{module.__name__}.{name}": one for name, one in own.items()}
    for name, one in sorted(named.items(), key=lambda item: item[0]):
        yield from _told(name, one, function, seen)


def _told(name, value, function, seen):
    """What a value adds to the source of the function that names it."""
    inner, _ = _opened(value)
    if inner is not None:
        if _folder_of(inner.__code__.co_filename) == _folder_of(function.__code__.co_filename):
            yield from _parts(value, seen)
    elif isinstance(value, np.ndarray):
        yield f"{name} = {hashlib.sha256(np.ascontiguousarray(value)).hexdigest()}"
    elif _is_constant(value):
        yield f"{name} = {value!r}"
    elif id(value) not in seen:
        seen[id(value)] = value
        for key, one in _held(value, function):
            yield from _told(f"{name}.{key}", one, function, seen)


def _held(value, function):
    """The items of what is no constant: a container, a table of attributes, a class or object of
    the function's module."""
    if isinstance(value, tuple | list):
        return enumerate(value)
    if isinstance(value, dict):
        return value.items()
    kind = value if inspect.isclass(value) else type(value)
    own = kind.__module__ == function.__module__ or isinstance(value, SimpleNamespace)
    items = getattr(value, "__dict__", {}).items() if own or is_dataclass(value) else ()
    return [(key, one) for key, one in items if not key.startswith("__")]


def _opened(value):
    """The function of something that is called, and what it holds besides by name; None for what
    Python has no source of."""
    value = getattr(value, "py_func", value)  # compiled by numba
    if isinstance(value, partial):
        function, held = _opened(value.func)
        return function, held | {f"#{k}": one for k, one in enumerate(value.args)} | value.keywords
    if inspect.ismethod(value):
        return value.__func__, dict(getattr(value.__self__, "__dict__", {}))
    if inspect.isfunction(value):
        return value, {}
    wrapped = getattr(value, "__wrapped__", None)  # by a cache, or numba's vectorize
    if inspect.isfunction(wrapped):
        return wrapped, {}
    call = inspect.getattr_static(type(value), "__call__", None)
    if inspect.isfunction(call):
        return call, dict(getattr(value, "__dict__", {}))
    return None, {}


def _cells(function):
    return [cell.cell_contents for cell in function.__closure__ or ()]


def _folder_of(file):
    return file and os.path.dirname(os.path.abspath(file))


def _is_constant(value):
    if isinstance(value, tuple | list | dict):
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        return all(map(_is_constant, inner))
    return value is None or isinstance(value, int | float | complex | str | np.generic)


def _names(code):
    """The names that code and the functions inside it look up."""
    inner = (_names(part) for part in code.co_consts if inspect.iscode(part))
    return set(code.co_names).union(*inner)
