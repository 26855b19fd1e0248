"""Records of several runs in one picture: a curve for each group, with a band over its seeds, and
the certified max-margin."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib import colormaps

from ..analysis.groups import HIGHEST, LOWEST, Group, curve_of, groups_of, order_of
from ..analysis.summary import gamma_text
from ..errors import CaseError, RunFolderError, unknown_name
from ..methods.record import SCALED
from ..shown import counted
from ..solving.registry import RECORDS, are_per_mass, in_units_of_one, record_of
from ..solving.result import Result
from ..store.run import load
from ..studies.study import StudyResult
from .figures import COLUMN, PAGE, ROW, AnyFigure, Saves, left_out, legend_height, thinned
from .records import relative_to_largest, scale_of_objective, scale_time, scale_values
from .shown import plain

RESIDUALS = {"energy_residual": "objective", "mass_residual": "mass"}  # and what they are shares of
BESIDES = ("step", "gap_bound")  # that are compared in tables, but not drawn unless asked for
FLAT = 7  # colours of the style
CLOCKS = {"time": "time", "margin": "smooth_margin"}  # and the record that names their axis
DASHES = ("-", "--", ":", "-.")
# of γ: how far below 0 an axis of margins reaches, and how far up at least and at most
BELOW, ABOVE, MOST = 0.25, 1.1, 3.0
LIMIT = {"color": "black", "linestyle": (0, (4, 1.5)), "linewidth": 0.9}  # of infinite width
SCALE = (0.05, 0.8)  # of the map of colours, for what numbers tell apart
GAMMA = r"$\gamma$"
GREY, LINE = "0.35", {"linestyle": "-.", "linewidth": 0.9, "zorder": 2.5}  # of γ
OF_GAMMA = "data.", "objective.activation", "objective.bias", "domain.kind"  # keys that change it
LETTER, HANDLE = 0.055, 0.42  # inches of a letter of a legend, and of what stands before a label
SAME_GAMMA = 1e-3  # relative: max-margins that one line stands for


@dataclass(frozen=True, eq=False)
class Runs:
    """Several runs whose records are drawn together.

    groups : of runs that differ in the seed alone;  of : names of records, those that tables of
        several runs have by default;  title : of the study that they belong to
    folder : where the picture goes, the current one if not given;  missing : how many runs of
        studies did not finish
    Raises CaseError for records that none of them has, and runs by different clocks.
    """

    groups: list[Group]
    of: Sequence[str] = ()
    title: str = ""
    folder: Path = field(default_factory=Path)
    missing: int = 0

    def __post_init__(self):
        there = dict.fromkeys(name for run in self.runs for name in run.records)
        if not there:
            raise RunFolderError(f"{self.name}: nothing is recorded yet, so nothing can be drawn.")
        for name in self.of:
            if name not in there or name == "time":
                others = [other for other in there if other != "time"]
                raise CaseError(unknown_name("record", name, others))
        if len({run.flow.time_variable for run in self.runs}) > 1:
            raise CaseError("Runs by time and by the smooth margin have no axis in common.")
        if not self.of:
            compared = [name for name in there if record_of(name).compared and name not in BESIDES]
            object.__setattr__(self, "of", compared)

    @property
    def runs(self) -> list[Result]:
        """All of them."""
        return [run for group in self.groups for run in group.runs]

    @property
    def name(self) -> str:
        """How messages call them."""
        return self.title or f"{len(self.runs)} runs"

    @property
    def by_mass(self) -> bool:
        """Whether extensive records are shown per mass: where a mass is beyond numbers."""
        return any(are_per_mass(run.records) for run in self.runs)


def together(parts: Sequence[Result | StudyResult], of: Sequence[str] = ()) -> Runs:
    """Runs, and the finished ones of studies, to be drawn together.

    Raises RunFolderError if there is none.
    """
    runs, missing = [], 0
    for part in parts:
        if isinstance(part, Result):
            runs.append(part)
            continue
        folders = dict.fromkeys((o.folder, o.finished) for o in part.outcomes)
        runs += [load(place / "results.h5") for place, finished in folders if finished]
        missing += sum(not finished for _, finished in folders)
    if not runs:
        raise RunFolderError("No run has finished yet, so nothing can be drawn.")
    alone = parts[0] if len(parts) == 1 else None
    study = alone.study if isinstance(alone, StudyResult) else None
    title = study.table.title or study.name if study else ""
    return Runs(groups_of(runs), tuple(of), title, alone.folder if alone else Path(), missing)


def shape(count: int, wide: bool) -> tuple[int, int]:
    """Rows and columns of so many panels: two side by side on a page."""
    columns = 2 if wide and count > 1 else 1
    return -(-count // columns), columns


def height(runs: Runs, wide: bool) -> float:
    """Inches of the picture: for its panels, the title and the legend."""
    rows, columns = shape(len(runs.of), wide)
    panel = 2.6 if len(runs.of) == 1 else 2.0
    words = [plain(group.label) for group in runs.groups]
    legend = legend_height(words, _legend_columns(words, PAGE if wide else COLUMN))
    return rows * panel + 0.2 * bool(runs.title) + 2 * ROW + legend


def draw_overlay(figure: AnyFigure, runs: Runs, save: int = -1, shared: Saves = None) -> None:
    """A panel for each record: the median of every group over time, the band that holds all but a
    tenth of its members on either side, and where margins are drawn the certified max-margin."""
    rows, columns = shape(len(runs.of), figure.bbox.width > figure.bbox.height)
    axes = np.ravel(figure.subplots(rows, columns, sharex=True, squeeze=False))
    looks = looks_of(runs.groups)
    words = [_draw_record(ax, runs, name, looks) for ax, name in zip(axes, runs.of, strict=False)]
    for ax in axes[len(runs.of) :]:
        ax.remove()
    for ax in axes[: len(runs.of) - columns]:
        ax.set_xlabel("")
    for ax in axes[len(runs.of) - columns : len(runs.of)]:
        ax.tick_params(labelbottom=True)
    figure.align_ylabels()
    lines = [plain(runs.title)] if runs.title else []
    if runs.missing:
        lines.append(f"without {runs.missing} runs that did not finish")
    if lines:
        figure.suptitle("\n".join(lines), wrap=True)
    told = dict.fromkeys(text for of_one in words for text in of_one if text)
    _draw_legend(figure, axes[: len(runs.of)], "\n".join(told))


def looks_of(groups: Sequence[Group]) -> list[dict]:
    """Colour and dashes of each group: along one scale where a number tells them apart, with black
    for infinite width; else the colours of the style, and dashes, between which the other of two
    curves that agree is seen."""
    order = order_of(groups) if len(groups) > 1 else None
    if order is None and len(groups) > FLAT * len(DASHES):  # which would come again
        order = list(map(float, range(len(groups))))
    if order is None:
        return [
            {"color": f"C{k % FLAT}", "linestyle": DASHES[k % len(DASHES)]}
            for k in range(len(groups))
        ]
    finite = sorted(value for value in order if np.isfinite(value))
    places = dict(zip(finite, np.linspace(*SCALE, max(len(finite), 2)), strict=False))
    return [
        {"color": colormaps["viridis"](places[value]), "linestyle": "-"}
        if value in places
        else LIMIT
        for value in order
    ]


def _draw_record(ax, runs, name, looks):
    """Draw one record of all groups; returns what is to be said of it."""
    label, scale, values_of = _shown(name, runs.by_mass)
    words = []
    curves = [curve_of(group, values_of) for group in runs.groups]
    first = runs.runs[0]
    ax.set_xlabel(RECORDS[CLOCKS[first.flow.time_variable]].axis)
    for k, (curve, look, group) in enumerate(zip(curves, looks, runs.groups, strict=True)):
        if curve is None:
            continue
        ax.plot(curve.time, curve.middle, label=plain(group.label), zorder=3 + 0.1 * k, **look)
        if curve.members > 1:
            band = {"color": look["color"], "alpha": 0.2, "linewidth": 0.0}
            ax.fill_between(curve.time, curve.low, curve.high, **band)
    found = [curve for curve in curves if curve]
    if first.flow.time_variable == "margin":
        scale_time(ax, np.unique(np.concatenate([curve.time for curve in found])))
    values = np.concatenate([curve.middle for curve in found])
    scale_values(ax, values, scale_of_objective(values) if name == "objective" else scale)
    if record_of(name).panel == "margins":
        words.append(_draw_gamma(ax, runs.groups, looks, found))
    ax.set_ylabel(plain(label, 40))
    members = max(curve.members for curve in found)
    if members > 1:
        words.append(f"median and {LOWEST:g}–{HIGHEST:g} % of {members} seeds")
    return words


def _shown(name, by_mass):
    """Label, scale, and the values of a record as a function of runs, None of those without it;
    extensive ones per mass if wanted, residuals as shares."""
    record = record_of(name)
    if name in RESIDUALS:

        def share(run):
            sizes = run.records[RESIDUALS[name]]
            scales = run.records.get("log_scale", np.zeros(len(sizes)))
            return relative_to_largest(run.records[name], sizes, scales)

        values, label, scale = share, f"relative {record.label}", "log"
    elif name == "mass" and by_mass:
        return _shown("log_mass", by_mass)
    elif record.unit == SCALED and by_mass:

        def per_mass(run):
            with np.errstate(divide="ignore", invalid="ignore"):
                return run.records[name] / run.records["mass"]

        values, label, scale = per_mass, f"{record.label} per mass", "linear"
    else:

        def plainly(run):
            return in_units_of_one(run.records, name)

        values, label, scale = plainly, record.axis, record.scale
    return label, scale, lambda run: values(run) if name in run.records else None


def _draw_gamma(ax, groups, looks, curves):
    """The certified max-margin: one line if the data of all runs have the same, else a line or a
    band for each group, in its colour; and no room for margins far below 0, but where runs end.

    Returns it in words, "" if it is not known.
    """
    known = [[m for run in group.runs if _is_known(m := run.max_margin)] for group in groups]
    found = [m for mine in known for m in mine]
    if not found:
        return ""
    low, high = _ends(found)
    best = min(found, key=lambda m: m.relative_gap)
    text = gamma_text(best).replace("γ", GAMMA)
    one = high - low <= SAME_GAMMA * high
    if one and _have_it(groups, known):
        ax.axhline(best.upper, color=GREY, label=GAMMA, **LINE)
    else:
        for mine, look in zip(known, looks, strict=True):
            least, most = _ends(mine) if mine else (np.nan, np.nan)
            if most - least > SAME_GAMMA * most:
                ax.axhspan(least, most, color=look["color"], alpha=0.12, linewidth=0.0, zorder=1)
            elif mine:
                ax.axhline(most, color=look["color"], **LINE)
        ax.plot([], [], color=GREY, label=GAMMA, **LINE)
        if one:
            text += f" of {counted(len(found), 'run')}"
        else:
            text = f"{GAMMA} of {len(found)} runs from {low:.3g} to {high:.3g} (certified)"
    top = max(curve.high.max() for curve in curves)
    bottom = min(curve.low.min() for curve in curves)
    end = max(min(curve.low[-1] for curve in curves), -MOST * high)  # of data that none separates
    bottom = max(bottom - 0.05 * high, min(-BELOW * high, 1.1 * end))
    ax.set_ylim(bottom, np.clip(top, ABOVE * high, MOST * high))
    return text


def _have_it(groups, known):
    """Whether groups without a known max-margin have data and units of those with one, as far as
    their cases tell."""

    def stated(group):
        return {key: value for key, value in group.keys.items() if key.startswith(OF_GAMMA)}

    there = [stated(group) for group, mine in zip(groups, known, strict=True) if mine]
    return all(stated(group) in there for group in groups)


def _is_known(margin):
    return margin is not None and margin.is_positive


def _ends(margins):
    """The least and the largest that several max-margins can be."""
    return min(m.lower for m in margins), max(m.upper for m in margins)


def _draw_legend(figure, axes, title):
    """One legend for all panels, in as many columns as there is room for."""
    entries = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    words = thinned(list(entries))
    title = "\n".join(filter(None, (title, left_out(len(entries)))))
    figure.legend(
        [entries[word] for word in words], words, loc="outside lower center",
        ncols=_legend_columns(words, figure.bbox.width / figure.dpi), title=title or None,
    )  # fmt: skip


def _legend_columns(words, width):
    """How many columns of a legend's words there is room for in a width in inches."""
    longest = max(len(word.replace(GAMMA, "γℓ")) for word in words)
    return int(np.clip(width / (HANDLE + LETTER * longest), 1, len(words)))
