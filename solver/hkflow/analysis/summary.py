"""What is said of a run in a few lines: how it ended, its last records, its errors."""

from collections.abc import Iterable

import numpy as np

from ..methods.step import ENERGIES
from ..solving.registry import RECORDS, own_names, record_of
from ..solving.result import Result
from .comparison import described


def summary(run: Result) -> list[tuple[str, str]]:
    """Rows (name, text) on a run, the status first."""
    rows = [("status", run.status), *_last_records(run)]
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


def _last_records(run):
    if not run.records:
        return []
    last = {name: values[-1] for name, values in run.records.items()}
    if last.get("log_scale", 0.0):
        rows = [
            ("objective/mass", f"{last['objective'] / last['mass']:.8g}"),
            (RECORDS["log_mass"].label, f"{last['log_mass']:.8g}"),
        ]
    else:
        rows = [(RECORDS[name].label, f"{last[name]:.8g}") for name in ("objective", "mass")]
    if "margin" in last:
        rows.append(("margin/mass", f"{last['margin']:.6g}"))
    if "margin_upper" in last and run.contradiction:
        rows.append(
            ("F₁ max-margin", f"{'0' if len(run.signs) == 2 else 'at most 0'}: {run.contradiction}")
        )
    elif "margin_upper" in last:
        rows.append(
            (
                "F₁ max-margin",
                f"in [{last['margin_lower']:.6g}, {last['margin_upper']:.6g}] (certified)",
            )
        )
    if "gap_bound" in last:
        rows.append(("gap to minimum", f"at most {last['gap_bound']:.4g} (E.13)"))
    if last["training_error"] == last["training_error"]:
        rows.append(
            (
                RECORDS["training_error"].label if "margin" in last else "training RMSE",
                f"{last['training_error']:.4g}",
            )
        )
    exchanged = sum(abs(last[name]) for name in ENERGIES)
    if exchanged == exchanged:  # stochastic gradients leave it unknown
        share = last["energy_residual"] / exchanged if exchanged else 0.0
        largest = np.exp(run.records["log_mass"].max() - last["log_scale"])
        relative = last["mass_residual"] / (largest or 1.0)
        rows += [
            (RECORDS["mass_residual"].label, f"{relative:.2e} of the largest mass"),
            (RECORDS["energy_residual"].label, f"{share:.2e} of the energy exchanged"),
        ]
    return rows + [(record_of(name).label, f"{last[name]:.8g}") for name in own_names(last)]


def provenance(run: Result) -> list[tuple[str, str]]:
    """Rows (name, text) on what a run was made from and with."""
    header, work = run.header, run.end
    rows = [
        ("case", run.title or "(no title)"),
        ("saves", f"{len(run.time)}, of a {described(run)}; {len(run.targets)} data"),
    ]
    if "seconds" in work:
        text = f"{work['steps']} steps, {work['evaluations']} evaluations,"
        rows.append(("work", f"{text} {work['seconds']:.3g} s of processor time"))
    if "seed" in header:
        rows.append(("seed, threads", f"{header['seed']}, {header['threads']}"))
    versions = ", ".join(f"{name} {number}" for name, number in header["versions"].items())
    rows.append(("versions", versions))
    return [*rows, ("commit", header.get("commit") or "unknown")]


def in_columns(rows: Iterable[tuple[str, str]]) -> str:
    """Rows as lines of text, the status alone in the first."""
    return "\n".join(text if name == "status" else f"{name + ':':17} {text}" for name, text in rows)
