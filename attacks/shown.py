"""What is shown and asked of runs of hostile problems: every picture, error bars, a comparison,
densities, predictions. Each is there or says why not, and warns of nothing."""

import tempfile
import warnings
from pathlib import Path

import numpy as np

import hkflow

from . import numerics


def views(run, folder):
    """(name, function () -> anything) of all that may be asked of a run."""
    yield "its name", lambda: repr(run)
    yield "its page in a notebook", run._repr_html_
    for name in hkflow.plots.available(run):
        yield (
            f"picture {name}",
            lambda name=name: hkflow.plots.write(name, run, folder / "picture.png"),
        )
    for name in ("log_mass", "mass", "predictions", "margin_share", "contradiction"):
        yield name, lambda name=name: getattr(run, name)
    yield "error bars", lambda: hkflow.error_bars(run)
    yield "errors against a closed form", run.exact_errors
    yield "predictions of new data", lambda: run.predict(run.inputs[:2])
    yield "a comparison", lambda: hkflow.compare(run, run)
    for normalised in (False, True):
        yield "atoms", lambda normalised=normalised: run.atoms_at(-1, normalised)
        yield "objective", lambda normalised=normalised: run.objective_at(-1, normalised)
    mesh = numerics.MESHES.get(run.dim + 1, [None])[0]  # vectors live on spheres without
    signed = run.problem.flow.signed  # whose logarithms are nan
    for log in (False, True)[: 2 - signed] if mesh else ():
        yield "densities", lambda log=log: _checked(run.density_on(mesh, log=log))
        yield "densities at points", lambda log=log: run.density_at(mesh.centers, log=log)
    yield "captured atoms", run.captured_at


def _checked(density):
    """Raise ArithmeticError for densities that are nan."""
    if np.isnan(density).any():
        raise ArithmeticError("nan among the densities")


def one(seed, folder):
    """Ask all of a run; returns its name, and what is wrong or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        name, run, _ = numerics.solved(seed)
    if not isinstance(run, hkflow.Solution):
        return name, None
    for view, ask in views(run, folder):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                ask()
        except (ValueError, hkflow.HkflowError) as error:
            if not str(error).rstrip().endswith("."):
                return name, f"{view}: a message without an end: {error}"
        except Exception as error:
            return name, f"{view}: {type(error).__name__}: {error}"
    return name, None


def campaign(tries, first=0, told=lambda done: None):
    """Ask so many runs; returns {name: fault}."""
    wrong = {}
    with tempfile.TemporaryDirectory() as place:
        for seed in range(first, first + tries):
            name, fault = one(seed, Path(place))
            if fault:
                wrong[name] = fault
            told(seed - first + 1)
    return wrong
