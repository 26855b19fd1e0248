"""Slices of what has three dimensions: densities of S³ on its great spheres θ_k = 0, predictions of
three inputs over planes."""

from functools import lru_cache
from itertools import combinations

import numpy as np
from matplotlib.colors import TwoSlopeNorm

from ..analysis.frames import frame
from ..solving.result import Result
from ..store.shown import is_normalised, name_of
from . import sphere
from .figures import AnyFigure, Saves
from .shown import (
    COLORS,
    SEEN,
    colors_of,
    draw_scale,
    input_names,
    label_inputs,
    sign_name,
    thinned,
    time_of,
)
from .traced import map_width

WIDTHS = (200, 400)  # pixels of the width of a map, at least and at most
WIDTH_OF_COLORS = 60  # of a map from which colours are chosen
PIXELS = 120  # of a plane, along each side
FEW = 12  # of them along an axis, from which colours are chosen
NEAR = 0.5  # standard deviations from a plane within which data are drawn on it


def unfit_for_slices(run: Result) -> str:
    """Why a run's measure is not drawn on slices, as the end of "this run …", or ""."""
    if not run.domain.in_slices:
        return f"lives on {run.domain.name}"
    return "" if run.has_density else "has points, without a density that is known"


def unfit_for_planes(run: Result) -> str:
    """Why a run's predictions are not drawn over planes, as the end of "this run …", or ""."""
    if run.problem.objective.risk.coupled:
        return "predicts several outputs"
    if not run.predicts:
        return "has no data to predict"
    count = run.inputs.shape[1]
    return has_lost(run) if count == 3 else f"has {count} input{'s' * (count != 1)}"


def has_lost(run: Result) -> str:
    """That a run's feature is lost, as the end of "this run …", or ""."""
    return run.lost_feature and f"has lost its activation ({run.lost_feature.rstrip('.')})"


def draw_slices(figure: AnyFigure, run: Result, save: int = -1, shared: Saves = None) -> None:
    """Draw the density at a save on the four great spheres of S³ where a coordinate is 0, a column
    of maps for each sign; of ν/|ν| where a mass is beyond numbers.

    What kinks have caught is no part of it. shared : saves that have colours in common with this
    one
    """
    save = range(len(run.time))[save]
    shared = thinned(shared or [save], save)
    normalised = is_normalised(*((run, k) for k in shared))
    figure.suptitle(time_of(run, save))
    traced = run.method == "characteristics"
    width = map_width(run, save, WIDTHS, run.dim + 1) if traced else WIDTHS[1]
    points, inside = sphere.hammer_points(width)
    densities = _on_slices(run, save, points[inside], normalised)
    others = [_few_on_slices(run, k, normalised) for k in shared if k != save]
    norm, map_name, extend = colors_of([densities, *others])
    names, signs = run.axis_names, run.signs
    axes = figure.subplots(*((2, 2) if len(signs) == 1 else (len(names), len(signs))))
    places = axes.reshape(len(names), len(signs))
    for k, row in enumerate(places):
        rest = [name for i, name in enumerate(names) if i != k]
        for ax, sign, density in zip(row, signs, densities[k], strict=True):
            image = sphere.draw_pixels(ax, inside, density, norm, map_name)
            sphere.draw_frame(ax, f"{names[k]} = 0", rest, "white")
            if k == 0 and len(signs) > 1:
                ax.annotate(
                    sign_name(sign), (0.5, 1.0), xycoords="axes fraction", xytext=(0, 12),
                    textcoords="offset points", ha="center", fontsize=7,
                )  # fmt: skip
    draw_scale(figure, image, axes.ravel(), f"density {name_of(normalised)}", extend)


@lru_cache(maxsize=SEEN)
def _few_on_slices(run, save, normalised):
    """Densities at few points, from which colours are found: all pictures of a film ask for the
    same."""
    points, inside = sphere.hammer_points(WIDTH_OF_COLORS)
    return _on_slices(run, save, points[inside], normalised)


def _on_slices(run, save, points, normalised):
    """Densities at points (n, 3) of the slices: (n_slices, n_signs, n)."""
    slices = [np.insert(points, k, 0.0, axis=1) for k in range(run.dim + 1)]
    found = run.density_at(np.concatenate(slices), save, log=normalised, gathered=True)
    if normalised:
        found = np.exp(found - run.log_mass_at(save))
    return found.reshape(len(found), len(slices), -1).swapaxes(0, 1)


def draw_planes(figure: AnyFigure, run: Result, save: int = -1, shared: Saves = None) -> None:
    """Draw the prediction h over the three planes through the middle of the data along two inputs
    each, its zero level, and the data near them; h/|ν| where the mass is beyond numbers.

    shared : saves that have colours in common with this one
    """
    save = range(len(run.time))[save]
    shared = thinned(shared or [save], save)
    normalised = is_normalised(*((run, k) for k in shared))
    figure.suptitle(time_of(run, save))
    inputs = run.inputs if len(run.inputs) else np.array([[-2.0] * 3, [2.0] * 3])
    planes = [_plane(inputs, pair) for pair in combinations(range(3), 2)]
    every = np.concatenate([grid for _, _, grid in planes])
    values = run.predict(every, save, normalised, prepared=True).reshape(3, PIXELS, PIXELS)
    few = np.linspace(0, PIXELS - 1, FEW).astype(int)  # the edges among them
    some = every.reshape(3, PIXELS, PIXELS, 3)[:, few][:, :, few].reshape(-1, 3)
    largest = max(np.abs(run.predict(some, k, normalised, prepared=True)).max() for k in shared)
    axes = figure.subplots(*((1, 3) if figure.bbox.width > 2.0 * figure.bbox.height else (3, 1)))
    for ax, (pair, ticks, _), value in zip(axes, planes, values, strict=True):
        image = ax.pcolormesh(
            *ticks, value, cmap="PuOr_r", norm=TwoSlopeNorm(0.0, -(largest or 1.0), largest or 1.0),
            shading="nearest", rasterized=True,
        )  # fmt: skip
        if value.min() < 0.0 < value.max():
            ax.contour(*ticks, value, levels=[0.0], colors="black", linewidths=1.0)
        _draw_near(ax, run, pair, image.norm)
        x, y = (input_names(run)[k] for k in pair)
        label_inputs(ax, x, y, narrow=True)
        ax.set(xlim=ticks[0][[0, -1]], ylim=ticks[1][[0, -1]])
    draw_scale(figure, image, axes, f"prediction {'h/|ν|' if normalised else 'h'}", "neither")


def _plane(inputs, pair):
    """The pair of inputs, their ticks, and the inputs (n², 3) of the pixels of their plane."""
    ticks = [np.linspace(*frame(inputs[:, k]), PIXELS) for k in pair]
    grid = np.tile(inputs.mean(axis=0), (PIXELS**2, 1))
    grid[:, list(pair)] = np.stack(np.meshgrid(*ticks), axis=-1).reshape(-1, 2)
    return pair, ticks, grid


def _draw_near(ax, run, pair, norm):
    """The data near a plane, by class or by the colour of their target."""
    if not len(run.inputs):
        return
    (third,) = set(range(3)) - set(pair)
    column = run.inputs[:, third]
    near = np.abs(column - column.mean()) <= NEAR * column.std()
    look = {"edgecolors": "black", "s": 12, "linewidths": 0.4}
    for sign, marker in ((1.0, "o"), (-1.0, "s")) if run.classifies else ((0.0, "o"),):
        chosen = near & (run.targets * sign > 0.0) if sign else near
        colors = {"color": COLORS[sign]} if sign else {"c": run.targets[chosen], "norm": norm}
        x, y = run.inputs[chosen][:, list(pair)].T
        ax.scatter(x, y, marker=marker, **look, **colors, **({} if sign else {"cmap": "PuOr_r"}))
