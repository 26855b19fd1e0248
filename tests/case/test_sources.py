"""What users' functions are made of: modules beside them, constants, objects that are called."""

import sys
from types import ModuleType

import numpy as np
import pytest

from hkflow import CaseError
from hkflow.case.functions import imported
from hkflow.case.sources import source_hash

UNITS = """
import functools
from types import SimpleNamespace

import numba
import numpy as np

import helper
from helper import bent

RATES = {"steep": [1.0, None]}
WIDTH = 1.0

class Bump:
    def __init__(self, width):
        self.width = width

    def __call__(self, s):
        return np.tanh(self.width * s), self.width / np.cosh(self.width * s) ** 2

    def method(self, s):
        return self(s)

def wide(width, s):
    return Bump(width)(s)

class Options:
    steep = 1.0

    @staticmethod
    def value(s):
        return np.tanh(s)

class Plain:
    def __init__(self):
        self.of = [{"steep": 1.0}, np.ones(2), self]

plain_options = Plain()
table = SimpleNamespace(steep=1.0, one=np.tanh)

def by_class(s):
    return Options.steep * Options.value(s), s

def by_instance(s):
    return plain_options.of[0]["steep"] * s, s

def by_namespace(s):
    return table.steep * s, s

@functools.lru_cache
def cached():
    return 1.0

@numba.vectorize
def each(s):
    return np.tanh(s)

bump = Bump(1.0)
method = bump.method
fixed = functools.partial(wide, 1.0)

def by_table(s):
    return RATES["steep"][0] * s, s

def by_default(s, width=WIDTH):
    return width * s, s

def by_object(s):
    return bump(s)

def by_module(s):
    return helper.bent(s)

def by_name(s):
    return bent(s)

def by_cache(s):
    return cached() * s, s

def by_each(s):
    return each(s), s

def plain(s):
    return np.tanh(s), 1.0 / np.cosh(s) ** 2
"""
HELPER = """
import numpy as np

def bent(s):
    return np.tanh(s), 1.0 / np.cosh(s) ** 2
"""


def written(folder, units=UNITS, helper=HELPER):
    folder.mkdir(exist_ok=True)
    (folder / "units.py").write_text(units)
    (folder / "helper.py").write_text(helper)
    return lambda name: imported(f"units:{name}", folder)


@pytest.mark.parametrize(
    "name, changes",
    [
        ("by_table", [("[1.0, None]", "[2.0, None]")]),
        ("by_default", [("WIDTH = 1.0", "WIDTH = 2.0")]),
        ("by_object", [("bump = Bump(1.0)", "bump = Bump(2.0)"), ("/ np.cosh", "* np.cosh")]),
        ("bump", [("bump = Bump(1.0)", "bump = Bump(2.0)"), ("/ np.cosh", "* np.cosh")]),
        ("method", [("bump = Bump(1.0)", "bump = Bump(2.0)"), ("self(s)", "self(2 * s)")]),
        ("fixed", [("(wide, 1.0)", "(wide, 2.0)"), ("Bump(width)(s)", "Bump(2 * width)(s)")]),
        ("by_cache", [("return 1.0", "return 2.0")]),
        ("by_each", [("return np.tanh(s)\n\nbump", "return np.sinh(s)\n\nbump")]),
        (
            "by_class",
            [
                ("steep = 1.0\n\n", "steep = 2.0\n\n"),
                ("(s):\n        return np.tanh", "(s):\n        return np.sin"),
            ],
        ),
        ("by_instance", [('{"steep": 1.0}', '{"steep": 2.0}'), ("np.ones(2)", "np.ones(3)")]),
        ("by_namespace", [("steep=1.0", "steep=2.0")]),
        ("by_module", []),
        ("by_name", []),
    ],
)
def test_a_source_has_what_its_numbers_depend_on(tmp_path, name, changes):
    known = source_hash(written(tmp_path)(name))
    assert known is not None
    assert (
        source_hash(written(tmp_path, UNITS + "\nother = 5\n", HELPER + "\nx = 1\n")(name)) == known
    )
    for old, new in changes:
        assert old in UNITS
        assert source_hash(written(tmp_path, UNITS.replace(old, new))(name)) != known
    if not changes:
        assert source_hash(written(tmp_path, helper=HELPER.replace("tanh", "sinh"))(name)) != known


def test_a_plain_function_keeps_its_hash(tmp_path):
    """By which run folders of former versions know it."""
    known = "42b2d0843deb87b6adc1de75a08cf102ed1cb3633d160a1125a03fe96a34fa5b"
    assert source_hash(written(tmp_path)("plain")) == known


def test_what_has_no_source_has_no_hash():
    assert source_hash(np.tanh) is None and source_hash(3) is None


def test_helpers_of_one_name_in_two_folders_are_two(tmp_path, monkeypatch):
    """The first of them is not taken for the other, nor is one that a session has imported."""
    for name, function in (("a", "tanh"), ("b", "sin")):
        written(tmp_path / name, helper=HELPER.replace("np.tanh", f"np.{function}"))
    helper = ModuleType("helper")
    helper.__file__ = str(tmp_path / "c" / "helper.py")
    monkeypatch.setitem(sys.modules, "helper", helper)
    path = list(sys.path)
    for name, function in (("a", np.tanh), ("b", np.sin), ("a", np.tanh)):
        for by in ("by_module", "by_name"):
            assert imported(f"units:{by}", tmp_path / name)(0.5)[0] == function(0.5)
    assert sys.modules["helper"] is helper and sys.path == path


def test_a_helper_is_taken_as_it_stands(tmp_path):
    one = written(tmp_path)
    assert one("by_module") is one("by_module")  # not made twice
    other = written(tmp_path, helper=HELPER.replace("np.tanh", "np.sinh"))
    assert other("by_module")(0.5)[0] == np.sinh(0.5)
    assert "helper" not in sys.modules


def test_a_package_beside_a_case_is_its_own(tmp_path):
    package = tmp_path / "parts"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import bent\n")
    (package / "inner.py").write_text(HELPER)
    (package / "outer.py").write_text("from .inner import bent\n")
    (tmp_path / "units.py").write_text("from parts import bent\n")
    for function in (np.tanh, np.sinh):
        (package / "inner.py").write_text(HELPER.replace("np.tanh", f"np.{function.__name__}"))
        for reference in ("units:bent", "parts.inner:bent", "parts.outer:bent"):
            assert imported(reference, tmp_path)(0.5)[0] == function(0.5)


def test_a_file_is_no_module(tmp_path):
    written(tmp_path)
    for reference in ("units.py:plain", "./units.py:plain"):
        with pytest.raises(CaseError, match="'units:tanh' is the function tanh of the file units"):
            imported(reference, tmp_path)
