"""One picture of two runs of a problem: both measures at the last common time, and how far the runs
are apart over time."""

from pathlib import Path

import numpy as np

from ..analysis.comparison import Comparison
from ..measures.distances import systematic_draw
from ..measures.point_measure import PointMeasure
from ..solving.registry import are_per_mass
from ..store.shown import density_of
from . import circle, records, sphere
from .figures import PAGE, AnyFigure, write_figure
from .shown import plain, sheet_names, sign_color

DOTS = 2000  # drawn at most
DOT_SIZE = 0.4  # of those in the picture of a single run
RIM = 4.0  # times the area of the dots that may hide them, beneath which they show a rim
DECADES = 5  # of differences shown
ROOM = 0.35  # above the curves, for the legend, as a share of their extent
COLORS = {"W1": "C2", "W2": "C3", "GHK": "C4"}


def save_comparison(comparison: Comparison, path: str | Path | None = None) -> Path:
    """Write the picture of a Comparison and return its path: .png, .pdf, .svg or .pgf, by default
    A/compare-<name of B>.png."""
    default = comparison.a.folder / f"compare-{comparison.b.stem}.png"
    return write_figure(
        lambda figure: draw_comparison(figure, comparison), path or default, (PAGE, 6.4)
    )


def draw_comparison(figure: AnyFigure, c: Comparison) -> None:
    """A title and five panels on an empty figure, of which those of predictions need some."""
    names = [
        f"{letter}: {plain(run.stem, 40)} ({_carriers(run)})"
        for letter, run in (("A", c.a), ("B", c.b))
    ]
    figure.suptitle(f"{plain(c.a.title or c.a.stem)}\n{'     '.join(names)}", fontsize=9)
    top, bottom = figure.subfigures(2, 1, height_ratios=(2.1, 1.0))  # type: ignore[misc]
    left, right = top.subfigures(1, 2, width_ratios=(1.1, 1.0))
    draw = {"circle": _draw_on_circle, "map": _draw_on_sphere}
    if c.a.domain.picture in draw or c.a.predicts:
        draw.get(c.a.domain.picture, _draw_predictions)(left, c)
    if c.a.predicts:
        differences, distances = right.subplots(2, 1, sharex=True)
        _draw_differences(differences, c)
    else:
        distances = right.subplots()
    _draw_distances(distances, c)
    by_scale = are_per_mass(c.a.records) or are_per_mass(c.b.records)
    for ax, of in zip(bottom.subplots(1, 2), (records.objective_of, records.mass_of), strict=True):
        _draw_records(ax, c, lambda found, of=of: of(found, by_scale))


def _carriers(run):
    """What a run is made of, in two words."""
    if run.method == "grid":
        return f"{run.mesh.n_cells} cells"
    return f"{len(run.atoms_at(-1))} {'units' if run.method == 'network' else 'particles'}"


def _last(c):
    """Letter, run and last common save of both, those without a grid first: what is filled lies
    below the lines."""
    pairs = [("A", c.a, c.saves[-1, 0]), ("B", c.b, c.saves[-1, 1])]
    return sorted(pairs, key=lambda pair: pair[1].method == "grid")


# --- the measures at the last common time


def _draw_on_circle(figure, c):
    """Grids as lines, atoms as filled histograms; a second one of the same kind dashed, or as
    outlines."""
    ax, looks = figure.subplots(), {}
    for letter, run, save in _last(c):
        if run.method == "grid":
            circle.draw_density(ax, run.mesh, density_of(run, save), run.signs, linear=True)
            looks[letter] = "lines" if "lines" not in looks.values() else "dashed"
            if looks[letter] == "dashed":
                for line in ax.lines[-len(run.signs) :]:
                    line.set(linestyle="--", label="_")
        elif "filled" not in looks.values():
            circle.draw_atoms(ax, run.atoms_at(save), run.signs)
            looks[letter] = "filled"
        else:
            _outline_atoms(ax, run.atoms_at(save), run.signs)
            looks[letter] = "outlines"
    ax.set_ylabel("density ν")
    ax.set_title(f"measures at t = {c.time[-1]:g};  {looks['A']}: A, {looks['B']}: B")
    ax.autoscale(axis="y")
    if not any(run.problem.flow.signed for run in (c.a, c.b)):
        ax.set_ylim(bottom=0.0)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)


def _outline_atoms(ax, atoms, signs):
    """Histograms as outlines, on the bins of circle.draw_atoms."""
    heights, edges = circle.histogram(atoms, signs)
    for sign, row in zip(signs, heights, strict=True):
        ax.stairs(row, edges, color=sign_color(sign, signs))


def _draw_on_sphere(figure, c):
    """The density of a grid and the atoms of the other run as dots on it, or two sets of dots; one
    projection per sign."""
    signs = c.a.signs
    axes = np.atleast_1d(figure.subplots(len(signs), 1))
    labels = sheet_names(signs)
    dots, ground = _last(c) if c.a.method != "grid" or c.b.method != "grid" else reversed(_last(c))
    (letter, run, save), (other, below, below_save) = dots, ground
    atoms = _fewer(run.atoms_at(save))
    if below.method == "grid":
        sphere.draw_density(axes, below.mesh, density_of(below, below_save), labels, c.a.axis_names)
        looks = f"colours: {other}, dots: {letter}"
        layers = [(atoms, "white", 1.0)]
    else:
        for ax, label in zip(axes, labels, strict=True):
            sphere.draw_frame(ax, label, c.a.axis_names, "0.3")
        looks = f"blue: {letter}, orange: {other}"
        layers = [(atoms, "C5", RIM), (_fewer(below.atoms_at(below_save)), "C1", 1.0)]
    for one, color, size in layers:
        for ax, sign in zip(axes, signs, strict=True):
            positions, weights = one.sheet(sign)
            area = size * DOT_SIZE * sphere.dot_areas(weights, one.weights)
            ax.scatter(
                *sphere.hammer(positions),
                s=area,
                color=color,
                alpha=0.6,
                linewidths=0,
                rasterized=True,
            )
    figure.suptitle(f"measures at t = {c.time[-1]:g};  {looks}", fontsize=8)


def _fewer(atoms):
    """At most DOTS atoms of the same mass, drawn by weight."""
    if len(atoms) <= DOTS:
        return atoms
    drawn = systematic_draw(np.random.default_rng(0), atoms.weights, DOTS)
    return PointMeasure(
        atoms.positions[drawn], atoms.signs[drawn], np.full(DOTS, atoms.mass / DOTS)
    )


def _draw_predictions(figure, c):
    """Predictions of B against those of A at the last common time, where measures cannot be
    drawn."""
    ax, (a, b) = figure.subplots(), c.saves[-1]
    new, data = (
        [run.predict(c.test_inputs, k, prepared=True) for run, k in ((c.a, a), (c.b, b))],
        (c.a.predictions[a], c.b.predictions[b]),
    )
    ax.plot(*new, ".", markersize=3, color="C5", label="new inputs", rasterized=True)
    if data[0].size:
        ax.plot(*data, "o", markersize=3, color="C0", label="data")
    ends = np.min([new, (new[1], new[0])]), np.max(new)
    ax.plot(ends, ends, color="0.5", linewidth=0.8, label="equal")
    ax.set_title(f"predictions at t = {c.time[-1]:g}")
    ax.set_xlabel("h of A")
    ax.set_ylabel("h of B")
    ax.legend(loc="upper left")


# --- over time


def _draw_differences(ax, c):
    """Largest and root mean square difference of the predictions; those at rounding level are left
    out."""
    largest = np.nanmax([c.data_max, c.test_max])
    lowest = largest
    for kind, color, label in (("test", "C1", "new inputs"), ("data", "C0", "data")):
        for norm, style, words in (("max", "-", "maximum"), ("rms", "--", "RMS")):
            values = getattr(c, f"{kind}_{norm}")
            if np.isnan(values).all():  # a population has no data
                continue
            shown = np.where(values >= largest * 10.0**-DECADES, values, np.nan)
            lowest = min(lowest, np.nanmin(shown, initial=largest))
            ax.plot(
                c.time,
                shown,
                style,
                color=color,
                marker=".",
                markersize=3,
                label=f"{words}, {label}",
            )
    if largest > 0.0:
        ax.set_yscale("log")
        ax.set_ylim(0.7 * lowest, 1.4 * largest * (2.0 * largest / lowest) ** ROOM)
    ax.set_ylabel("|h_A − h_B|")
    ax.set_title("difference of the predictions")
    for handle in ax.legend(loc="upper center", ncols=2).legend_handles:
        handle.set_marker("")  # which hides the gap between two dashes


def _draw_distances(ax, c):
    """Distances of the measures, with their error bars."""
    ax.plot(c.time, c.moment, color="0.5", marker=".", markersize=3, label="moment")
    top = c.moment.max()
    for name, values in c.distances.items():
        there = ~np.isnan(values[:, 0])
        time, (distance, bar) = c.time[there], values[there].T
        top = np.max(distance + bar, initial=top)
        ax.plot(time, distance, color=COLORS[name], marker=".", markersize=3, label=name)
        ax.fill_between(
            time,
            np.maximum(distance - bar, 0.0),
            distance + bar,
            color=COLORS[name],
            alpha=0.15,
            linewidth=0,
        )
    ax.set_ylim(0.0, (1.0 + ROOM) * top or 1.0)
    ax.set_xlabel("time t")
    ax.set_ylabel("distance")
    ax.set_title("distance of the measures (shaded: error bars)")
    ax.legend(loc="upper center", ncols=4)


def _draw_records(ax, c, of):
    """One record of both runs, up to the last common time; of : function of the records -> values,
    label."""
    drawn = []
    for letter, run, style in (("A", c.a, "-"), ("B", c.b, "--")):
        seen = run.records["time"] <= c.time[-1]
        found, label = of(run.records)
        drawn.append(found[seen])
        ax.plot(
            run.records["time"][seen],
            drawn[-1],
            style,
            color="C0" if letter == "A" else "C1",
            label=letter,
        )
    records.scale_values(ax, np.concatenate(drawn), "log")
    ax.set_xlabel("time t")
    ax.set_ylabel(label)
    ax.legend()
