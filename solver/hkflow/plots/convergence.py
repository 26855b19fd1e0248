"""Studies: errors against resolution with slope triangles, errors against work, and values against
what is swept."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from matplotlib import colormaps

from ..solving.registry import record_of
from ..studies.file import described, in_words, readable
from ..studies.report import TITLES
from ..studies.study import StudyResult
from . import overlay
from .figures import (
    COLUMN,
    PAGE,
    AnyFigure,
    Saves,
    legend_below,
    legend_columns,
    legend_height,
    thinned,
    write_figure,
)
from .shown import plain

MARKERS = "os^Dv<>pX*"
PANELS = 3  # errors that are drawn, at most
INSIDE = 6  # lines that a legend inside a panel has room for


def save_study(result: StudyResult) -> Path:
    """Write figure.png and figure.pdf into the folder of a study, as wide as a page, and return the
    path of the former."""
    size = PAGE, height(result, True)
    paths = [result.folder / f"figure.{suffix}" for suffix in ("png", "pdf")]
    return [write_figure(lambda figure: draw_study(figure, result), path, size) for path in paths][
        0
    ]


def _panels(result):
    """What the panels show: errors and "seconds", or values."""
    if not result.study.levels:
        return result.study.table.values[: PANELS + 1]
    return [*result.names[:PANELS], "seconds"] if result.names else ["seconds"]


def _rows(count, wide):
    """Rows of panels: two or three side by side on a page, one on a column."""
    return -(-count // (3 if count == 3 else 2)) if wide else count


def height(result: StudyResult, wide: bool) -> float:
    """Inches of the figure: for its rows of panels, the title and the legend."""
    if result.study.table.curves:
        return overlay.height(_curves(result), wide)
    words = _below(result)
    columns = legend_columns(thinned(words), PAGE if wide else COLUMN)
    panels = _rows(len(_panels(result)), wide) * (2.2 if wide else 2.0)
    return 0.4 + panels + legend_height(words, columns)


def _below(result):
    """The words of the legend below the panels, none where there is none."""
    groups = in_words(result.study.groups)
    if result.study.levels:
        return [described(group) for group in groups if group]
    lines = dict.fromkeys(", ".join(_rest(group, list(group)[1:])) for group in groups)
    return list(lines) if len(lines) > INSIDE else []


def draw_study(
    figure: AnyFigure, result: StudyResult, save: int = -1, shared: Saves = None
) -> None:
    """One panel for each error against h and one of the first error against seconds; or values
    against what is swept; or, if the study wants them, records over time."""
    if result.study.table.curves:
        overlay.draw_overlay(figure, _curves(result))
        return
    figure.suptitle(plain(result.study.table.title or result.study.name), wrap=True)
    panels, wide = _panels(result), figure.bbox.width > 1.5 * COLUMN * figure.dpi
    rows = _rows(len(panels), wide)
    axes = np.ravel(figure.subplots(rows, -(-len(panels) // rows)))
    for ax in axes[len(panels) :]:
        ax.remove()
    for ax, what in zip(axes, panels, strict=False):
        if not result.study.levels:
            _draw_values(ax, result, what)
        elif what == "seconds":
            _draw_work(ax, result, result.names[0] if result.names else None)
        else:
            _draw_errors(ax, result, what)
    if _below(result):
        legend_below(figure, axes[0])


@lru_cache(maxsize=1)  # of the height, and of every format
def _curves(result):
    """The runs whose records are drawn over time."""
    return overlay.together([result], result.study.table.curves)


def _draw_errors(ax, result, name):
    """An error of every group against resolution, as bands where it is a mean over repeats, with a
    triangle of its order."""
    positions = result.h if result.h is not None else np.arange(len(result.study.levels), 0, -1.0)
    fits, words = [], in_words(result.study.groups)
    for group, color in _groups(result):
        errors, table = result.errors(group, name), result.convergence(group, name)
        size = (
            np.sqrt(np.nanmean(errors**2, axis=1))
            if np.isfinite(errors).any()
            else np.full(len(errors), np.nan)
        )
        x = positions[: len(size)]
        ax.plot(
            x,
            size,
            color=color,
            marker=MARKERS[group % len(MARKERS)],
            markersize=3,
            label=plain(described(words[group])),
        )
        if table is not None and np.isfinite(table.bars).all():
            ax.fill_between(
                x,
                size * np.exp(-2 * table.bars),
                size * np.exp(2 * table.bars),
                color=color,
                alpha=0.2,
                linewidth=0,
            )
        if table is not None and np.isfinite(table.fit.order):
            fits.append((size, table.fit.order))
    if np.isfinite([line.get_ydata() for line in ax.lines]).any():
        ax.set_yscale("log")
    if result.h is not None:
        ax.set_xscale("log")
        ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        if fits:
            _draw_triangle(ax, positions, *min(fits, key=lambda fit: np.nanmin(fit[0])))
    key = next(iter(result.study.levels[0]))
    ax.set_xticks(
        positions[: len(result.levels())],
        [readable(result.study.levels[k][key]) for k in result.levels()],
    )
    ax.set_xlabel(key)
    ax.set_ylabel(f"error: {TITLES[name]}")


def _draw_triangle(ax, h, errors, order):
    """A slope triangle under a line, with the nearest half-integer order beside it."""
    slope = round(2.0 * order) / 2.0
    known = np.flatnonzero(errors > 0.0)
    if slope <= 0.0 or len(known) < 2:
        return
    low, high = np.log(np.sort(h[known[-2:]]))
    base, x = 0.45 * errors[known[-1]], np.exp([low + 0.2 * (high - low), high])
    y = base * (x / x[0]) ** slope
    ax.plot([x[0], x[1], x[1], x[0]], [y[0], y[0], y[1], y[0]], color="0.4", linewidth=0.7)
    ax.annotate(
        f"{slope:g}",
        (x[1], np.sqrt(y[0] * y[1])),
        (3, 0),
        "data",
        "offset points",
        fontsize=7,
        color="0.3",
        va="center",
    )


def _draw_work(ax, result, name):
    """An error against the seconds of processor time that it took, or the seconds alone against
    resolution."""
    for group, color in _groups(result):
        seconds = [
            np.mean([outcome.work["seconds"] for outcome in result.of(group, level)])
            for level in result.levels()
        ]
        errors = (
            np.sqrt(np.mean(result.errors(group, name) ** 2, axis=1))
            if name
            else np.arange(len(seconds))
        )
        (
            ax.loglog(
                seconds, errors, color=color, marker=MARKERS[group % len(MARKERS)], markersize=3
            )
            if name
            else ax.plot(errors, seconds)
        )
    if name:
        low, high = ax.get_xlim()
        ticks = [m * 10.0**k for k in range(-6, 9) for m in (1, 2, 5) if low <= m * 10.0**k <= high]
        ticks = (
            ticks[:: 1 + len(ticks) // 6]
            if len(ticks) > 1
            else [float(f"{end:.2g}") for end in ax.dataLim.intervalx]
        )
        ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xlabel("processor time (s)" if name else "level")
    ax.set_ylabel(f"error: {TITLES[name]}" if name else "processor time (s)")


def _draw_values(ax, result, name):
    """Means of a value over the repeats with their standard errors, one line for each value of the
    other swept keys."""
    groups, words = result.study.groups, in_words(result.study.groups)
    key, *others = groups[0] or {"": 0}
    numbers = all(isinstance(group.get(key), int | float) for group in groups)
    lines: dict[tuple[str, ...], list[int]] = {}
    for g, group in enumerate(words):
        lines.setdefault(_rest(group, others), []).append(g)
    scale = len(lines) > len(MARKERS) * overlay.FLAT  # beyond which colours and marks come again
    for place, (chosen, mine) in enumerate(lines.items()):
        x = [groups[g][key] for g in mine] if numbers else np.arange(len(mine))
        values = np.array([[o.values.get(name, np.nan) for o in result.of(g, 0)] for g in mine])
        bars = (
            values.std(axis=1, ddof=1) / np.sqrt(values.shape[1]) if values.shape[1] > 1 else None
        )
        ax.errorbar(
            x,
            values.mean(axis=1),
            bars,
            color=colormaps["viridis"](place / len(lines)) if scale else None,
            marker=MARKERS[place % len(MARKERS)],
            markersize=3,
            capsize=2,
            label=", ".join(chosen),
        )
        if not numbers:
            ax.set_xticks(
                x,
                [plain(words[g].get(key, ""), 24) for g in mine],
                rotation=30,
                ha="right",
            )
    if (
        numbers
        and min(group[key] for group in groups) > 0
        and max(g[key] for g in groups) > 8 * min(g[key] for g in groups)
    ):
        ax.set_xscale("log")
    elif numbers:
        ax.set_xscale("symlog", linthresh=min([abs(g[key]) for g in groups if g[key]], default=1.0))
    if others and len(lines) <= INSIDE:
        ax.legend()
    ax.set_xlabel(key)
    ax.set_ylabel(record_of(name).label)


def _rest(group, others):
    return tuple(plain(described({key: group[key]})) for key in others)


def _groups(result):
    """Every group and its colour."""
    return [(group, f"C{group % overlay.FLAT}") for group in range(len(result.study.groups))]
