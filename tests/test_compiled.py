"""Compiled code is kept until a kernel changes, wherever it is."""

import ast
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.caching import IndexDataCacheFile

import hkflow
from hkflow import compiled
from hkflow.case.mesh_cache import cached_mesh
from hkflow.geometry.domain import Domain

CALLER = (
    "from .compiled import njit\nfrom .b import callee\n\n\n@njit(cache=True)\ndef caller(x):\n"
)
CALLER += "    return callee(x)\n"
CALLEE = "from .compiled import njit\n\n\n@njit(cache=True)\ndef callee(x):\n    return {} * x\n"


@pytest.fixture
def package(tmp_path):
    """A package of a kernel and another that it calls, each in a file."""
    place = tmp_path / "kernels"
    place.mkdir()
    text = (Path(hkflow.__file__).parent / "compiled.py").read_text()
    for name, content in (("__init__", ""), ("compiled", text), ("a", CALLER)):
        (place / f"{name}.py").write_text(content)
    (place / "b.py").write_text(CALLEE.format(1))
    return place


def called(package, argument="2.0", **environment):
    """What the caller gives in a process of its own."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(package.parent / "kept")} | environment
    words = [sys.executable, "-c", f"from kernels.a import caller; print(caller({argument}))"]
    done = subprocess.run(
        words, env=environment, cwd=package.parent, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


@pytest.mark.parametrize(("by_numba", "then"), [(False, 200.0), (True, 2.0)])
def test_a_kernel_that_another_file_calls_changes_both(package, by_numba, then):
    """The sibling, by Numba alone, goes on with the callee of before."""
    if by_numba:
        (package / "compiled.py").write_text("from numba import njit\n")
    assert called(package) == 2.0
    (package / "b.py").write_text(CALLEE.format(100))
    assert called(package) == then


def test_other_files_change_nothing_and_old_code_goes(package, monkeypatch):
    monkeypatch.setattr(compiled, "HERE", package)
    monkeypatch.setattr(compiled.numba.config, "CACHE_DIR", str(package.parent / "kept"))
    fresh = compiled.kept_code.__wrapped__
    first = fresh()
    (package / "other.py").write_text("x = 1\n")
    assert fresh() == first and first.is_dir()
    folders = [first]
    for k in range(3):
        (package / "b.py").write_text(CALLEE.format(k + 2))
        folders.append(fresh())
        os.utime(folders[-1], (10**9 + k, 10**9 + k))
    os.utime(first, (10**8, 10**8))
    (package / "b.py").write_text(CALLEE.format(9))
    last = fresh()
    assert len(set(folders)) == 4 and set((package.parent / "kept").iterdir()) == {
        *folders[2:], last
    }  # fmt: skip


def test_what_is_kept_now_stays_where_the_clock_was_set_back(package, monkeypatch):
    """It looked older than all others, was removed by every process, and compiled by every one."""
    monkeypatch.setattr(compiled, "HERE", package)
    monkeypatch.setattr(compiled.numba.config, "CACHE_DIR", str(package.parent / "kept"))
    for k in range(compiled.KEPT):
        (package.parent / "kept" / f"{compiled.PREFIX}{k}").mkdir(parents=True)
        os.utime(package.parent / "kept" / f"{compiled.PREFIX}{k}", (4e9 + k, 4e9 + k))
    now = compiled.kept_code.__wrapped__()
    assert now.is_dir() and len(list(now.parent.iterdir())) == compiled.KEPT


@pytest.mark.skipif(sys.platform != "linux", reason="says where the user's cache folder is")
def test_without_a_place_code_is_kept_for_the_user_or_not_at_all(package, tmp_path):
    """A package that cannot be written, and a home that can, or cannot either."""
    (package / "__pycache__").write_text("")
    file, home = package / "__pycache__", tmp_path / "home"
    assert called(package, NUMBA_CACHE_DIR=str(file), XDG_CACHE_HOME=str(home)) == 2.0
    assert list((home / "hkflow").glob("hkflow-*/*"))
    assert called(package, NUMBA_CACHE_DIR="", HOME=str(file), XDG_CACHE_HOME=str(file)) == 2.0


def test_a_user_without_a_home_keeps_what_has_a_place(tmp_path, monkeypatch):
    """As in containers that give a number for the user and no home."""

    def no_home(name):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr(compiled, "user_cache_path", no_home)
    monkeypatch.delenv("HKFLOW_CACHE", raising=False)
    assert cached_mesh(Domain(2).meshes, 12).n_cells == 12
    for place in (tmp_path / "kept", tmp_path / "file"):
        monkeypatch.setattr(compiled.numba.config, "CACHE_DIR", str(place))
        (tmp_path / "file").write_text("")
        folder = compiled.kept_code.__wrapped__()
        assert (folder is not None) == (place.name == "kept")


@pytest.mark.parametrize("what", ["index", "code", "types"])
def test_what_is_kept_and_cannot_be_used_is_compiled_again(package, what):
    """An index that a crash has emptied ended all later processes; code of other types, which two
    leave that write at the same time, is as wrong as it can be."""
    assert called(package, "2") == called(package) == 2.0
    kept = package.parent / "kept"
    (index,), codes = kept.rglob("a.*.nbi"), list(kept.rglob("a.*.nbc"))
    one, two = (code.read_bytes() for code in codes)
    if what == "index":
        index.write_bytes(b"")
    else:
        codes[0].write_bytes(two if what == "types" else b"")
        codes[1].write_bytes(one if what == "types" else b"")
    assert called(package, "2.5") == 2.5 and called(package, "2") == 2.0


def test_code_that_there_is_no_room_for_is_not_kept(monkeypatch):
    """A full disk or quota ended the run."""

    def no_room(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(IndexDataCacheFile, "save", no_room)
    assert compiled.kept_code() is not None
    assert compiled.njit(cache=True)(_doubled)(2.0) == 4.0


def _doubled(x):
    return 2.0 * x


def kernels():
    """(file, function) of every compiled function of the package, by its syntax."""
    for path in compiled.HERE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any(
                sign.decode().rstrip("(") in ast.unparse(one)
                for one in node.decorator_list
                for sign in compiled.SIGNS
            ):
                yield path, node


def test_what_kernels_are_compiled_with_lies_in_files_that_are_hashed():
    """Functions and constants that a kernel imports; those of another file would be kept."""
    found, imported = list(kernels()), 0
    for path, kernel in found:
        used = {node.id for node in ast.walk(kernel) if isinstance(node, ast.Name)}
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                names = used & {one.asname or one.name for one in node.names}
                names -= {sign.decode().rstrip("(") for sign in compiled.SIGNS}
                place = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
                imported += len(names)
                for name in names:
                    file = place.with_suffix(".py") if place.with_suffix(".py").exists() else None
                    text = file.read_bytes() if file else b""
                    assert any(sign in text for sign in compiled.SIGNS), (path, kernel.name, name)
    assert len(found) > 100 and imported > 50  # it has looked


def test_without_compiling_nothing_runs(monkeypatch):
    """Commands ended in a traceback, an AttributeError of Numba's."""
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    with pytest.raises(hkflow.HkflowError, match="NUMBA_DISABLE_JIT"):
        compiled.njit(cache=True)(abs)
