"""What a study leaves in its folder: tables as Markdown, LaTeX and CSV, and study.h5."""

import csv
import io
import json
import re
from typing import TYPE_CHECKING

import h5py
import numpy as np

from ..case.load import toml_of
from ..case.resolve import resolve
from ..files.writing import write_hdf5, write_text
from ..solving.registry import record_of
from ..store.contents import WORK
from .file import COLUMNS, ERRORS, described, in_words, readable

if TYPE_CHECKING:
    from .study import StudyResult

TITLES = {name: name for name in ERRORS} | {"L1": "L¹", "W1": "W₁"}  # of errors
POWER = re.compile(r"(\d+(?:\.\d+)?)e([+-]\d+)")
WHOSE = {"L1": "of grids", "max": "of grids", "W1": "on the circle", "predictions": "of data"}
AGAINST = {"exact": "the exact solution", "reference": "the reference", "finest": "the finest"}
LATEX = {
    "¹": "$^1$",
    "₁": "$_1$",
    "±": "$\\pm$",
    "–": "--",
    "−": "$-$",
    "γ": "$\\gamma$",
    "σ": "$\\sigma$",
    "λ": "$\\lambda$",
    "α": "$\\alpha$",
    "β": "$\\beta$",
    "²": "$^2$",
    "…": "\\dots",
    "%": "\\%",
    "&": "\\&",
    "_": "\\_",
    "#": "\\#",
}


def write_report(result: "StudyResult") -> None:
    """Write study.h5, by which the folder is that of a study, then its tables, each whole or not at
    all."""
    write_hdf5(
        result.folder / "study.h5", lambda file: _fill(file, result), libver=("v108", "v110")
    )
    texts = {
        "table.md": markdown(result),
        "table.tex": latex(result),
        "table.csv": comma_separated(result),
    }
    for name, text in texts.items():
        write_text(result.folder / name, text)


def markdown(result: "StudyResult") -> str:
    """Title, a table for each group or one of the sweep, verdicts, and what failed."""
    parts = [f"## {result.study.table.title or result.study.name}"]
    for caption, header, rows in tables(result):
        lines = ["| " + " | ".join(header) + " |", "| " + " | ".join(["---:"] * len(header)) + " |"]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        parts += [f"**{caption}**"] if caption else []
        parts.append("\n".join(lines))
    parts += notes(result)
    return "\n\n".join(parts) + "\n"


def latex(result: "StudyResult") -> str:
    """The tables in LaTeX, with the rules of the package booktabs."""

    def cell(text):
        text = "".join(LATEX.get(letter, letter) for letter in text)
        return POWER.sub(lambda found: f"${found[1]}\\cdot10^{{{int(found[2])}}}$", text)

    lines = [f"% {result.study.table.title or result.study.name}"]
    for caption, header, rows in tables(result):
        lines += [f"% {caption}"] if caption else []
        lines += [f"\\begin{{tabular}}{{{'r' * len(header)}}}", "\\toprule"]
        lines += [" & ".join(map(cell, header)) + " \\\\", "\\midrule"]
        lines += [" & ".join(map(cell, row)) + " \\\\" for row in rows]
        lines += ["\\bottomrule", "\\end{tabular}", ""]
    return "\n".join(lines)


def tables(result: "StudyResult") -> list[tuple[str, list[str], list[list[str]]]]:
    """Caption, header and rows of strings of every table."""
    return (
        [_refined(result, group) for group in range(len(result.study.groups))]
        if result.study.levels
        else [_swept(result)]
    )


def _refined(result, group):
    """One row per level: what is refined, errors and orders, and the work; the fits at the end."""
    keys = list(result.study.levels[0])
    header = [_name(key) for key in keys] + [
        text for name in result.names for text in (TITLES[name], "order")
    ]
    header += WORK
    found = {
        name: (result.errors(group, name), result.convergence(group, name)) for name in result.names
    }
    rows = []
    for level in result.levels():
        row = [readable(result.study.levels[level][key]) for key in keys]
        for errors, table in found.values():
            row += [
                _mean_square(errors[level]),
                _order(table.orders[level - 1]) if table and level else "",
            ]
        rows.append(row + _work(result.of(group, level)))
    if any(table for _, table in found.values()):
        fits = [
            text for _, table in found.values() for text in ("", _fit(table.fit) if table else "")
        ]
        rows.append(["least squares"] + [""] * (len(keys) - 1) + fits + [""] * 3)
    groups = in_words(result.study.groups)
    return described(groups[group]) if groups[group] else "", header, rows


def _swept(result):
    """One row per group: what is swept, the values at the end, their standard error over the
    repeats, and the work."""
    keys, names = list(result.study.groups[0]), result.study.table.values
    header = [*map(_name, keys), *(record_of(name).label for name in names), *WORK]
    rows = []
    for group, swept in enumerate(in_words(result.study.groups)):
        # repeats that no seed tells apart are one run
        outcomes = list({outcome.folder: outcome for outcome in result.of(group, 0)}.values())
        values = [[outcome.values.get(name, np.nan) for outcome in outcomes] for name in names]
        rows.append([swept[key] for key in keys] + [_mean(v) for v in values] + _work(outcomes))
    return "", header, rows


def notes(result: "StudyResult") -> list[str]:
    """What errors are measured against, which orders were expected, and what did not work, as
    paragraphs."""
    lines = []
    if result.names:
        repeats = result.study.table.repeats
        text = f"Errors against {AGAINST[result.against]} at the end of each run"
        text += f"; root mean square of {repeats} runs ± its standard error" if repeats > 1 else ""
        lines.append(text + ". Orders with their 95 % confidence intervals.")
    unknown = [name for name in result.study.table.errors or () if name not in result.names]
    if len(result.failed) < len(result.outcomes):
        lines += [f"No run has this error: {_described_error(name)}." for name in unknown]
    groups = in_words(result.study.groups)
    for group, name, fit, low, high, holds in result.verdicts():
        place = f" ({described(groups[group])})" if groups[group] else ""
        order = f"{fit.order:.3f}" if fit and np.isfinite(fit.order) else "unknown"
        lines.append(
            f"{'Holds' if holds else 'FAILS'}: order of {TITLES[name]}{place} {order}, expected"
            f" {low:g} to {high:g}."
        )
    for outcome in result.failed:
        what = outcome.problem and f"Not measured: {outcome.problem}." or outcome.status
        swept = groups[outcome.member.group]
        case = {key: swept[key] for key in swept if key == "case"}
        lines.append(f"{described(case | outcome.member.changes)}: {what}")
    return lines


def _described_error(name):
    return f"{TITLES[name]}, which is one {WHOSE[name]}" if name in WHOSE else TITLES[name]


def comma_separated(result: "StudyResult") -> str:
    """One line per run, every number with all its digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = _columns(result)
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow(
            [repr(float(value)) if isinstance(value, float) else value for value in row]
        )
    return out.getvalue()


def _columns(result):
    """Every column of the long table, by name; "swept objective" where a table of the case is
    called as a record."""
    study, outcomes = result.study, result.outcomes
    groups, records = in_words(study.groups), {*study.table.values, *COLUMNS}

    def named(key):
        return f"swept {key}" if key in records else key

    columns = {named(key): [groups[o.member.group][key] for o in outcomes] for key in groups[0]}
    if study.levels:
        columns |= {
            named(key): [readable(study.levels[o.member.level][key]) for o in outcomes]
            for key in study.levels[0]
        }
    if result.h is not None:
        columns["h"] = [float(result.h[o.member.level]) for o in outcomes]
    columns["repeat"] = [o.member.repeat for o in outcomes]
    columns |= {
        f"error {name}": [float(o.errors.get(name, np.nan)) for o in outcomes]
        for name in result.names
    }
    columns |= {
        name: [float(o.values.get(name, np.nan)) for o in outcomes] for name in study.table.values
    }
    columns |= {name: [float(o.work[name]) for o in outcomes] for name in WORK}
    columns["finished"] = [o.finished for o in outcomes]
    return columns | {
        "status": [o.status for o in outcomes],
        "run": [f"runs/{o.folder.name}" for o in outcomes],
    }


def _fill(file, result):
    """study.h5: a dataset per column of the long table, the resolved case of every run, and the
    study's own text."""
    file.attrs["study"], file.attrs["against"] = result.study.text, result.against
    file.attrs["groups"], file.attrs["levels"] = (
        json.dumps(part) for part in (result.study.groups, result.study.levels)
    )
    for name, values in _columns(result).items():
        text = isinstance(values[0], str)
        file.create_dataset(
            name.replace("/", "_"), data=values, dtype=h5py.string_dtype() if text else None
        )
    cases = [
        toml_of(resolve(outcome.member.file.case, outcome.member.file.folder))
        for outcome in result.outcomes
    ]
    file.create_dataset("resolved_case", data=cases, dtype=h5py.string_dtype())


def _name(key):
    return key.rsplit(".", 1)[-1]


def _order(value):
    return "" if np.isnan(value) else f"{value:.2f}"


def _fit(fit):
    if np.isnan(fit.order):
        return ""
    return (
        f"{fit.order:.2f}" if np.isnan(fit.low) else f"{fit.order:.2f} ± {fit.high - fit.order:.2f}"
    )


def _mean_square(errors):
    """Root mean square of the repeats, ± its standard error by the delta method."""
    errors = errors[np.isfinite(errors)]
    if not len(errors):
        return ""
    size = np.sqrt(np.mean(errors**2))
    if len(errors) < 3 or np.ptp(errors) == 0.0:
        return f"{size:.2e}"
    return f"{size:.2e} ± {0.5 * np.std(errors**2, ddof=1) / np.sqrt(len(errors)) / size:.0e}"


def _mean(values):
    """Mean of the repeats, ± its standard error."""
    values = np.array(values)[np.isfinite(values)]
    if not len(values):
        return ""
    if len(values) < 2:
        return f"{values[0]:.6g}"
    return f"{values.mean():.5g} ± {values.std(ddof=1) / np.sqrt(len(values)):.1g}"


def _work(outcomes):
    """Mean steps, evaluations and seconds of the repeats."""
    means = [np.mean([outcome.work[name] for outcome in outcomes]) for name in WORK]
    return [
        *("" if np.isnan(mean) else f"{mean:.0f}" for mean in means[:2]),
        "" if np.isnan(means[2]) else f"{means[2]:.3g}",
    ]
