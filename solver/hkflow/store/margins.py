"""A max-margin as arrays with labels, for run folders and results files, and back."""

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from ..certificates.margin import MaxMargin
from ..files.reading import check_array
from ..files.writing import write_json
from ..measures.point_measure import PointMeasure

MAX_MARGIN = {  # arrays and their dimensions
    "gamma_lower": (),
    "gamma_upper": (),
    "gamma_climbed": (),
    "gamma_tolerance": (),
    "gamma_resolution": (),
    "gamma_certified": (),
    "gamma_rounds": (),
    "gamma_slackness": ("slackness_part",),
    "gamma_dual": ("datum",),
    "optimal_positions": ("optimal_atom", "axis"),
    "optimal_signs": ("optimal_atom",),
    "optimal_weights": ("optimal_atom",),
}
LABELS = {
    "gamma_lower": "max-margin of the data, gamma, from below: the margin of the optimal atoms",
    "gamma_upper": "max-margin of the data, gamma, from above: what gamma_dual proves",
    "gamma_climbed": "what climbs found of gamma from above, which nothing proves",
    "gamma_tolerance": "relative gap between both that was asked for",
    "gamma_resolution": "a margin up to which counts as none",
    "gamma_certified": "1 if gamma_upper is proved over the whole domain",
    "gamma_rounds": "linear programmes that were solved for gamma",
    "gamma_slackness": "residuals of complementary slackness, of the measure and of the data",
    "gamma_dual": "weights in the simplex that prove gamma_upper, of data or of their leads",
    "optimal_positions": "directions of the atoms whose margin is gamma_lower",
    "optimal_signs": "output signs of these atoms",
    "optimal_weights": "weights of these atoms",
}


def arrays_of(found: MaxMargin) -> dict[str, NDArray]:
    """A MaxMargin by the names of MAX_MARGIN."""
    values = (
        *(found.lower, found.upper, found.climbed, found.tolerance, found.resolution),
        *(int(found.certified), found.rounds, found.slackness, found.dual),
        *(found.atoms.positions, found.atoms.signs, found.atoms.weights),
    )
    return {n: np.asarray(v, dtype=float) for n, v in zip(MAX_MARGIN, values, strict=True)}


def names_in(content: Container[str]) -> dict[str, tuple[str, ...]]:
    """MAX_MARGIN of a file, which early versions wrote without what climbs found."""
    return {n: shape for n, shape in MAX_MARGIN.items() if n in content or n != "gamma_climbed"}


def of_arrays(arrays: Mapping[str, Floats], sizes: Mapping[str, int]) -> MaxMargin:
    """The MaxMargin of such arrays. Raises ValueError or KeyError if they are none of so many data
    and classes;  sizes : by dimension, "class" where there is an output for each."""
    sizes = dict(sizes) | {"slackness_part": 2}
    arrays = {"gamma_climbed": arrays["gamma_upper"]} | dict(arrays)
    for name, dimensions in MAX_MARGIN.items():
        check_array(arrays[name], name, dimensions, sizes)
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"'{name}' holds numbers that are not finite")
    positions, signs, weights = (arrays[name] for name in list(MAX_MARGIN)[-3:])
    return MaxMargin(
        lower=float(arrays["gamma_lower"]),
        upper=float(arrays["gamma_upper"]),
        climbed=float(arrays["gamma_climbed"]),
        atoms=PointMeasure(positions, signs, weights),
        dual=arrays["gamma_dual"],
        certified=bool(arrays["gamma_certified"]),
        rounds=int(arrays["gamma_rounds"]),
        slackness=arrays["gamma_slackness"],
        tolerance=float(arrays["gamma_tolerance"]),
        resolution=float(arrays["gamma_resolution"]),
    )


def write_max_margin(folder: Path, found: MaxMargin) -> None:
    """Write RUN/max_margin.json: the arrays, and what each of them is."""
    values = {name: array.tolist() for name, array in arrays_of(found).items()}
    write_json(folder / "max_margin.json", values | {"labels": LABELS})


def of_json(content: Mapping[str, Any], sizes: Mapping[str, int]) -> MaxMargin:
    """The MaxMargin in the content of max_margin.json; errors as of_arrays."""
    arrays = {name: np.array(content[name], dtype=float) for name in names_in(content)}
    return of_arrays(arrays, sizes)
