"""What is said of a run in a few lines: how it ended, its last records, its errors."""

from collections.abc import Iterable

import numpy as np

from ..accuracy.error_bars import MOMENTS
from ..certificates.deconvolution import spikes
from ..certificates.gap import bounds_every_gap, gap_of_measure
from ..certificates.margin import MaxMargin, power_above
from ..methods.step import ENERGIES
from ..objectives.objective import Objective
from ..objectives.protocol import prediction_shape
from ..problem.problem import Problem
from ..shown import as_typed, counted
from ..solving.registry import RECORDS, are_per_mass, in_units_of_one, own_names, record_of
from ..solving.result import Result
from .comparison_table import described

ROUNDED = 1e-12  # relative: what rounding may be of the lower end of a max-margin
LOOSE = 1e-3  # a relative gap above which both ends of a max-margin are shown


def summary(run: Result) -> list[tuple[str, str]]:
    """Rows (name, text) on a run, the status first."""
    own = [
        (record_of(name).label, f"{run.records[name][-1]:.8g}") for name in own_names(run.records)
    ]
    data = [("data", note) for note in getattr(run.preparation, "notes", ())]
    rows = [("status", run.status), *data, *_last_records(run), *_errors(run), *_repeats(run)]
    rows += [*_spikes(run), *own]
    errors = run.exact_errors() if len(run.time) else None
    if errors is not None:
        grid = run.method == "grid"
        names = (
            ("relative L¹ error", "maximum error")
            if grid
            else ("relative error of the mass", "of the moment")
        )
        text = ", ".join(
            f"{name} {error[-1]:.3e}" for name, error in zip(names, errors, strict=True)
        )
        rows.append(("exact solution", f"{text} at t = {run.time[-1]:g}"))
    return rows


def _errors(run):
    """What is known of how accurate a run is."""
    bars = run.errors
    if bars is None:
        return []
    rows = []
    if bars.judges:
        limit = f": {bars.limit}" if bars.limit else ""
        reached = f"{bars.reached:.1e} reached" if bars.bars else "not estimated"
        rows.append(("accuracy", f"{reached}, {bars.wanted:.1e} wanted{limit}"))
    if not bars.bars:
        return [*rows, ("error", f"not estimated: {bars.remark}")]
    if "predictions" in bars.bars:
        bar, largest = bars["predictions"][-1], bars.each[-1].max()
        unit = _per_mass(run) if bars.normalised else np.exp(run.log_scale[-1])
        values = unit * run.scaled_predictions[-1]
        extent = np.ptp(values) if len(values) > 1 else np.abs(values).max()
        share = f", {100.0 * bar / extent:.2g} % of their range" if extent > 0.0 else ""
        rows.append((bars.label("predictions"), f"± {bar:.1e} (RMS{share}), at most {largest:.1e}"))
        if "test_predictions" in bars.bars:
            name, test = bars.label("test_predictions"), bars["test_predictions"][-1]
            rows.append((name, f"± {test:.1e} (RMS)"))
    else:
        for name in filter(bars.bars.__contains__, MOMENTS):
            rows.append((bars.label(name), f"± {bars[name][-1]:.1e} (RMS of its coordinates)"))
    chosen = bars.leading()
    parts = f"in space {chosen.space[-1]:.1e}, in time {chosen.time[-1]:.1e}"
    return [*rows, ("error", f"{parts}; {chosen.verdict}")]


def _repeats(run):
    """What other random starts of a network came to."""
    found = run.repeats
    if found is None:
        return []
    if len(found) < 2:
        return [("repeats", f"none: {found.remark}")]
    label = "objective/mass" if found.normalised else "objective"
    mean, bar = found.mean("objective")[-1], found.band("objective")[-1]
    beside = f"no infinite width: {found.without}"
    if found.infinite:
        error = found.infinite.get("objective_error")
        known = "" if error is None else f" ± {error[-1]:.1e}"
        beside = f"infinite width {found.infinite['objective'][-1]:.6g}{known}"
    text = (
        f"{len(found)} networks of {found.units} units: {label} {mean:.6g} ± {bar:.1e} ({beside})"
    )
    return [("repeats", text + (f"; {found.remark}" if found.remark else ""))]


def _spikes(run):
    """The spikes of sparse deconvolution, where their certificate holds."""
    problem, flow = run.problem, run.problem.flow
    o = problem.objective
    free = flow.reaction > 0.0 and flow.noise == 0.0 and not flow.drive and flow.depth == 2.0
    circle = isinstance(o, Objective) and o.axes == 2 and not problem.domain.fixed
    if not (len(run.time) and free and circle):
        return []
    one_sign = problem.signs == (1,) and len(prediction_shape(o)) == 1
    if not (one_sign and o.weight_decay > 0.0 and o.entropy == 0.0):
        return []
    if o.feature.kink is not None or o.feature.pullback is None:  # smooth features alone
        return []
    try:
        found = spikes(o, run.atoms_at(-1))
    except ValueError:
        return []
    return [("spikes", str(found))] if found.certified else []


def _per_mass(run):
    """e^log_scale over the mass at the last save."""
    return float(np.exp(run.log_scale[-1] - run.log_mass_at(len(run.time) - 1)))


def _bar(run, name, relative_to=1.0):
    """ " ± bar" of a quantity at the last save, or "" if there is none."""
    bars = run.errors
    bar = relative_to * bars[name][-1] if bars is not None and name in bars.bars else 0.0
    return f" ± {bar:.1e}" if bar > 0.0 else ""


def _last_records(run):
    if not run.records:
        return []
    last = {name: values[-1] for name, values in run.records.items()}
    objective, per_mass = _bar(run, "objective"), are_per_mass(run.records)
    if run.errors is not None and run.errors.normalised != per_mass:
        objective = ""  # in other units
    if per_mass:
        rows = [
            ("objective/mass", f"{last['objective'] / last['mass']:.8g}{objective}"),
            (RECORDS["log_mass"].label, f"{last['log_mass']:.8g}{_bar(run, 'log_mass')}"),
        ]
    else:
        value, mass = (in_units_of_one(run.records, name)[-1] for name in ("objective", "mass"))
        rows = [
            (RECORDS["objective"].label, f"{value:.8g}{objective}"),
            (RECORDS["mass"].label, f"{mass:.8g}{_bar(run, 'log_mass', relative_to=mass)}"),
        ]
    rows += margin_rows(run, last)
    if (gap := _gap(run, last)) is not None:
        rows.append(("gap to minimum", f"at most {gap:.4g} (certified)"))
    if last["training_error"] == last["training_error"]:
        rows.append(
            (
                RECORDS["training_error"].label if "margin" in last else "training RMSE",
                f"{last['training_error']:.4g}",
            )
        )
    if "test_error" in last:
        errors = run.records["test_error"]
        # not always the last of a run that has stopped
        known = max(np.flatnonzero(~np.isnan(errors)), default=len(errors) - 1)
        error, share = errors[known], ""
        if "margin" in last:
            share = f", accuracy {100.0 * (1.0 - error):.1f} % of {len(run.test.targets)} rows"
            share += " by their weights" * bool(np.ptp(run.test.weights))
        if known < len(errors) - 1:
            share += f", at {run.flow.clock} = {run.records['time'][known]:g}"
        label = RECORDS["test_error"].label if "margin" in last else "test RMSE"
        rows.append((label, f"{error:.4g}{share}"))
    exchanged = sum(abs(last[name]) for name in ENERGIES)
    if exchanged == exchanged:  # stochastic gradients leave it unknown
        share = last["energy_residual"] / exchanged if exchanged else 0.0
        energy = f"{share:.2e} of the energy exchanged"
        if max(exchanged, abs(last["energy_residual"])) <= _rounding(run, last):
            energy = "none, for the energy exchanged is rounding alone"
        largest = np.exp(run.records["log_mass"].max() - last["log_scale"])
        relative = last["mass_residual"] / (largest or 1.0)
        rows += [
            (RECORDS["mass_residual"].label, f"{relative:.2e} of the largest mass"),
            (RECORDS["energy_residual"].label, energy),
        ]
    return rows


def _gap(run, last):
    """A bound of F − F* at the end: of grids their record, and that of the last save where min J
    over the sphere is found. None without."""
    gap = np.inf
    if "gap_bound" in last:
        gap = np.exp(last["log_scale"]) * min(last["gap_bound"], last["objective"])  # F* ≥ 0
    saved = len(run.time) > 0 and run.time[-1] == last["time"]
    if saved and bounds_every_gap(run.problem):
        gap = min(gap, _gap_at_end(run))
    return gap if gap < np.inf else None


def _gap_at_end(run):
    """A bound of F − F* at the last save."""
    scale, lowest = run.log_scale[-1], in_units_of_one(run.records, "objective").min()
    unit = np.exp(scale)
    mass = np.exp(run.log_mass_at(-1) - scale)
    predictions = run.scaled_predictions[-1]
    return unit * gap_of_measure(run.problem, predictions, scale, mass, lowest / unit)


def _rounding(run, last):
    """What rounding alone may do to F where no loss gradient is left, in the units of the last
    records."""
    return run.problem.objective.rounding(
        last["objective"], np.zeros(0), last["mass"], float(last["log_scale"])
    )


def margin_rows(run: Result, last: dict[str, float]) -> list[tuple[str, str]]:
    """Rows on the margin of a run, how much that is of the max-margin γ, and on what the run alone
    proved of γ; last : its last records."""
    if "margin" not in last:
        return []
    found, margin = run.max_margin, f"{last['margin']:z.6g}{_bar(run, 'margin')}"
    if found is not None and found.is_positive:
        margin += (
            f" of {gamma_text(found)}: {_reached(run)} at {run.flow.clock} = {last['time']:.6g}"
        )
    rows = [("margin/mass", margin)]
    if "margin_upper" not in last:
        return rows
    # halves of two signs may cancel: rounding alone makes the margin negative
    cancel = len(run.signs) == 2 or run.problem.objective.feature.joint
    name, zero = margin_name(run.problem), "0" if cancel else "at most 0"
    if run.contradiction:
        return [*rows, (name, f"{zero}: {run.contradiction}")]
    if found is not None and found.is_none:
        return [*rows, (name, f"{zero}: {found.why_none}")]
    low, high, by, more = last["margin_lower"], last["margin_upper"], "", ""
    if found is not None and found.relative_gap <= LOOSE:
        by = " by the run alone"
    else:
        low, high = (
            (low, high) if found is None else (max(low, found.lower), min(high, found.upper))
        )
        more = (
            f"; closer: hkflow margin --from {as_typed(run.path)}"
            if run.path and run.finished
            else ""
        )
    low = max(0.0, low) if cancel else low
    ends = f"in [{low:.6g}, {high:.6g}]" if np.isfinite(high) else f"at least {low:.6g}"
    climbs = f"; {found.climbs}" if found is not None and not by and found.climbs else ""
    return [*rows, (name, f"{ends} (certified{by}{climbs}){more}")]


def margin_name(problem: Problem) -> str:
    """What the max-margin of a problem's data is called: F₁ where units have one output."""
    return "max-margin γ" if problem.objective.risk.coupled else "F₁ max-margin"


def gamma_text(found: MaxMargin) -> str:
    """A positive max-margin with as many digits as are certified, or both of its ends."""
    gap = max(power_above(found.relative_gap), ROUNDED)
    if gap > LOOSE:
        return f"γ in [{found.lower:.6g}, {found.upper:.6g}] (certified)"
    digits = 1 - round(np.log10(gap))
    middle = 0.5 * (found.lower + found.upper)
    return f"γ = {middle:.{digits}g} (certified to {gap:g})".replace("e-0", "e-")


def _reached(run):
    """How much of γ a run has, in words."""
    share = run.margin_share[-1]
    if share <= 0.0:
        return "the data are not separated"
    least = "at least " if run.max_margin.relative_gap > LOOSE else ""
    return f"{least}{share:.1f} % reached"


def provenance(run: Result) -> list[tuple[str, str]]:
    """Rows (name, text) on what a run was made from and with."""
    header, work = run.header, run.end
    rows = [
        ("case", run.title or "(no title)"),
        ("saves", f"{len(run.time)}, of a {described(run)}; {len(run.targets)} data"),
    ]
    if "seconds" in work:
        text = f"{counted(work['steps'], 'step')}, {counted(work['evaluations'], 'evaluation')},"
        rows.append(("work", f"{text} {work['seconds']:.3g} s of processor time"))
    if "seed" in header:
        rows.append(("seed, threads", f"{header['seed']}, {header['threads']}"))
    versions = ", ".join(f"{name} {number}" for name, number in header["versions"].items())
    rows.append(("versions", versions))
    return [*rows, ("commit", header.get("commit") or "unknown")]


def in_columns(rows: Iterable[tuple[str, str]]) -> str:
    """Rows as lines of text, the status alone in the first."""
    return "\n".join(text if name == "status" else f"{name + ':':17} {text}" for name, text in rows)
