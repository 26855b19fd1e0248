"""hkflow: gradient flows of measures on spheres, computed as partial differential equations.

Everything public is found here and loaded when it is first used, so that `import hkflow` is quick.
"""

import os
from importlib import import_module

# Threads that wait must sleep: spinning ones cost milliseconds per kernel as soon as another program wants a core.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_HOMES = {
    "run": "runs",
    "resume": "runs",
    "check": "runs",
    "load": "store.run",
    "pack": "store.results",
    "compare": "comparison",
    "solve": "time_loop",
    "Solution": "time_loop",
    "Problem": "problem",
    "Flow": "flows",
    "named_flow": "flows",
    "FiniteVolume": "eulerian.finite_volume",
    "MomentFlow": "exact",
    "Objective": "objectives.objective",
    "Feature": "objectives.features",
    "FEATURES": "objectives.features",
    "Risk": "objectives.risks",
    "RISKS": "objectives.risks",
    "Mesh": "meshes",
    "Particles": "lagrangian.particles",
    "Network": "lagrangian.network",
    "Atoms": "measures",
    "Units": "measures",
    "sampled": "measures",
    "quasi_uniform": "point_sets",
    "random_uniform": "point_sets",
    "circle_mesh": "meshes",
    "atoms_mesh": "meshes",
    "PopulationRisk": "objectives.population",
    "geodesic_mesh": "meshes",
    "CaseError": "errors",
    "RunFolderError": "errors",
    "HkflowError": "errors",
}
_ROOMS = ("margins",)

__all__ = sorted((*_HOMES, *_ROOMS))


def __getattr__(name):
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'hkflow' has no attribute '{name}'")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return __all__
