"""hkflow: gradient flows of measures on spheres, computed as partial differential equations.

Everything public stands in `__init__.pyi` and is loaded when it is first used, so that
`import hkflow` is quick.
"""

import os
from importlib.util import find_spec

from .lazy import public

# Threads that wait must sleep: spinning ones cost milliseconds per kernel as soon as another
# program wants a core.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# what a batch script sets from a variable that is not set; Numba would print a traceback
if os.environ.get("NUMBA_NUM_THREADS") == "":
    del os.environ["NUMBA_NUM_THREADS"]

_load, __dir__, __all__ = public(__name__, __file__)
if find_spec("sklearn") is None:  # `from hkflow import *` takes what can be had
    __all__ = [name for name in __all__ if not name.startswith("WideNetwork")]


def __getattr__(name):
    if name != "__version__":
        return _load(name)
    from importlib.metadata import version

    return version("hkflow")
