"""Methods by their names in case files."""

from importlib import import_module

from ..arguments import check_options
from ..errors import unknown_name

METHODS = {
    "grid": "grid.finite_volume.FiniteVolume",
    "characteristics": "characteristics.characteristics.Characteristics",
    "particles": "particles.particles.Particles",
    "network": "network.network.Network",
}


def method_class(kind):
    """The method of a name, loaded when it is first wanted; raises ValueError with the choices for
    an unknown one."""
    if kind not in METHODS:
        raise ValueError(unknown_name("method", kind, METHODS))
    module, name = METHODS[kind].rsplit(".", 1)
    return getattr(import_module(f".{module}", __package__), name)


def make_method(problem, kind="grid", **options):
    """The method of a name for a problem; raises ValueError with the choices for an unknown one, or
    an unknown option."""
    made = method_class(kind)
    check_options(options, made, f"{kind} option")
    return made(problem, **options)
