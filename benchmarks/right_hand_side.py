"""The right-hand side of the grid against streaming its arrays once, on the same threads: from a density to its rate of change."""

import numpy as np

from .machine import stream
from .timing import Row, alternate, ratio, skipped

CELLS, DATA, GOAL = 163_842, 256, 6.0
TRANSPORT_GOAL = 4.0


def problem(cells, n):
    """A Wasserstein flow on S² with n Gaussian data; starts from a smooth density."""
    import hkflow
    from hkflow.meshes import geodesic_level

    rng, mesh = np.random.default_rng(0), hkflow.geodesic_mesh(geodesic_level(cells))
    inputs = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], inputs, rng.normal(size=n))
    density = np.exp(mesh.centers @ rng.normal(size=3))[None]
    return hkflow.Problem(mesh, objective, hkflow.Flow(1.0, 1.0), initial=density)


def arrays_of(thing, least, seen=None):
    """All arrays of at least so many numbers that an object holds, each once, however deep."""
    seen = {} if seen is None else seen
    if isinstance(thing, np.ndarray):
        if thing.size >= least and thing.flags.c_contiguous:
            seen.setdefault(("array", thing.ctypes.data), thing)
    elif id(thing) not in seen and not isinstance(thing, (str, int, float, type)):
        seen[id(thing)] = thing
        if isinstance(thing, (list, tuple)):
            inside = thing
        else:
            inside = thing.values() if isinstance(thing, dict) else getattr(thing, "__dict__", {}).values()
        for part in inside:
            arrays_of(part, least, seen)
    return [array for key, array in seen.items() if isinstance(key, tuple)]


def rows(threads, quick):
    """Whole right-hand side, then the transport alone, which is the reconstruction, fluxes and divergence."""
    cells, n, repeats = (642, 32, 5) if quick else (CELLS, DATA, 15)
    from hkflow.time_loop import make_method

    method = make_method(problem(cells, n), "grid")
    now, st = method.current, method.stencil
    arrays = arrays_of([st, method.objective.transform, method.objective.potential, method.gradient, method.masses, now], cells)
    whole = stream(arrays)
    times = alternate([lambda: method._evaluate(now), whole], repeats, warm=3)
    size = sum(array.nbytes for array in arrays)
    note = f"time / time to stream its {size / 1e6:.0f} MB ({size / cells:.0f} bytes per cell) once"
    name = f"right-hand side, {cells:,} cells, {n} data"
    yield Row(name, 1e3 * np.median(times[:, 0]), "ms", **ratio(times[:, 0], times[:, 1]), goal=("<=", GOAL), note=note)
    yield Row(f"{name}: rate", 1e-6 * cells / np.median(times[:, 0]), "M cells/s")
    try:
        yield transport(method, cells, repeats)
    except (ImportError, AttributeError, TypeError) as error:
        yield skipped(f"transport alone, {cells:,} cells", error, ("<=", TRANSPORT_GOAL))


def transport(method, cells, repeats):
    """Gradients, fluxes and divergence against streaming what they read and write."""
    now, st = method.current, method.stencil
    evaluate, inputs = lambda: method._rates(now), arrays_of([st, method.gradient], cells) + [now.density, now.potential]
    times = alternate([evaluate, stream(inputs, [np.empty_like(now.divergence)])], repeats, warm=3)
    note = f"time / time to stream its {sum(a.nbytes for a in inputs) / 1e6:.0f} MB once; with the integrals"
    value = 1e3 * np.median(times[:, 0])
    return Row(f"transport alone, {cells:,} cells", value, "ms", **ratio(times[:, 0], times[:, 1]),
               goal=("<=", TRANSPORT_GOAL), note=note)  # fmt: skip
