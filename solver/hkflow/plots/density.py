"""The measure at one save, on whatever it lives."""

import numpy as np

from ..solving.result import Result
from ..store.shown import density_of, is_normalised, name_of
from . import atoms, circle, coordinates, sphere, traced
from .figures import AnyFigure, Saves
from .shown import colors_of, sheet_names, sheets, thinned, time_of


def draw_measure(
    figure: AnyFigure, run: Result, save: int = -1, shared: Saves = None, title: bool = True
) -> None:
    """Draw the measure at a save on an empty figure, or ν/|ν| where a mass is beyond numbers.

    Unrolled on the circle, one map for each sign on S², bars for atoms, along its main axes on
    other spheres.
    shared : saves that have colours and axes in common with this one
    """
    save = range(len(run.time))[save]
    shared = thinned(shared or [save], save)
    normalised = is_normalised((run, 0), *((run, k) for k in shared))
    nu = name_of(normalised)
    if title:
        figure.suptitle(time_of(run, save))
    picture = run.domain.picture
    if traced.is_traced(run):
        traced.draw_traced(figure, run, save, shared, normalised)
    elif picture == "bars":
        weights = [coordinates.parts_of(run.atoms_at(k, normalised)) for k in shared]
        coordinates.draw_weights(
            figure.subplots(),
            run.atoms_at(save, normalised),
            run.input_names,
            nu,
            np.concatenate(weights),
        )
    elif picture == "circle" and run.method == "grid":
        densities = [density_of(run, k, normalised) for k in shared]
        initial = density_of(run, 0, normalised) if save else None
        now = density_of(run, save, normalised)
        circle.draw_density(
            figure.subplots(),
            run.mesh,
            now,
            run.signs,
            initial,
            nu,
            (run.flow.clock, run.time[0]),
            densities,
        )
    elif picture == "circle":
        tops = [circle.histogram(run.atoms_at(k, normalised), run.signs)[0].max() for k in shared]
        circle.draw_atoms(
            figure.subplots(), run.atoms_at(save, normalised), run.signs, nu, 1.1 * max(tops)
        )
    elif picture == "map":
        axes = sheets(figure, run.signs)
        if run.method == "grid":
            norm = colors_of([density_of(run, k, normalised) for k in shared])
            density = density_of(run, save, normalised)
            circled = (density >= 0.0).all() and sphere.draw_peaks(
                axes, run.atoms_at(save, normalised), run.signs
            )
            labels, names = sheet_names(run.signs), run.axis_names
            sphere.draw_density(axes, run.mesh, density, labels, names, nu, norm, circled)
        else:
            sphere.draw_atoms(axes, run.atoms_at(save, normalised), run.signs, run.axis_names)
    else:
        atoms.draw_atoms(figure.subplots(), run.atoms_at(save, normalised), run.signs)


def draw_polar(figure: AnyFigure, run: Result, save: int = -1, shared: Saves = None) -> None:
    """Draw the measure on the circle itself: as height over it, outwards for the sign +1 and
    inwards for −1."""
    save = range(len(run.time))[save]
    shared = thinned(shared or [save], save)
    normalised = is_normalised(*((run, k) for k in shared))
    figure.suptitle(time_of(run, save))

    def values(k):
        if run.method == "grid":
            return density_of(run, k, normalised)
        return circle.histogram(run.atoms_at(k, normalised), run.signs)[0]

    norm = colors_of([values(k) for k in shared]).norm
    angle = (
        circle.angles(run.mesh.centers)
        if run.method == "grid"
        else circle.bin_centers(values(save).shape[1])
    )
    circle.draw_polar(
        figure.subplots(), angle, values(save), run.signs, norm, run.axis_names, name_of(normalised)
    )
