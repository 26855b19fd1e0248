"""A Comparison in words and numbers."""

from typing import TYPE_CHECKING

import numpy as np

from ..measures import distances as metrics
from ..solving.result import Result

if TYPE_CHECKING:
    from .comparison import Comparison


def described(run: Result) -> str:
    """What carries a run's measure, in words."""
    if run.mesh and run.domain.fixed:
        return f"{run.method} on {run.mesh.n_cells} atoms, {len(run.signs)} output sign(s)"
    if run.mesh and run.method == "grid":
        return f"grid of {run.mesh.n_cells} cells on S^{run.dim}, {len(run.signs)} output sign(s)"
    count = len(run.atoms_at(len(run.time) - 1, normalised=True)) if len(run.time) else "no saved"
    if run.method != "network":
        moved = " moved along characteristics" if run.method == "characteristics" else ""
        return f"cloud of {count} particles{moved} on S^{run.dim}"
    return (
        f"network of {count} units, layers '{run.options.get('layers', 'both')}', training"
        f" '{run.options.get('training', 'gradient-flow')}'"
    )


def table(c: "Comparison") -> str:
    """A Comparison as text, at most 100 columns wide but for paths and statuses."""
    lines = [f"{name}  {run.name}\n   {described(run)}" for name, run in (("A", c.a), ("B", c.b))]
    shown = "all" if len(c.chosen) == len(c.time) else f"{len(c.chosen)} of"
    times = "save time" if len(c.time) == 1 else "save times"
    lines += [
        f"Shown: {shown} {len(c.time)} common {times}, t = {c.time[0]:g} to {c.time[-1]:g}.",
        *c.notes,
        "",
    ]
    lines += _difference_table(c) + [""] + _value_table(c) + [""]
    data = f"the {len(c.a.targets)} data and on " if len(c.a.targets) else ""
    h = f"h: predictions on {data}{len(c.test_inputs)} new inputs; " if c.a.predicts else ""
    lines.append(f"{h}moment: |∫εθ dν_A - ∫εθ dν_B|.")
    lines += [LEGENDS[name] for name in c.distances]
    if not np.isnan(c.density).all():
        lines.append(DENSITY_LEGEND)
    grids = [run for run in (c.a, c.b) if run.method == "grid" and not run.domain.fixed]
    widths = [run.mesh.width for run in grids if run.mesh]
    if widths:
        lines.append(
            f"Cells count as atoms at their centres; that alone makes {c.a.domain.off_centres}, h ="
            f" {max(widths):.2g} their width."
        )
    if any(np.nanmax(values[:, 1], initial=0.0) > 0.0 for values in c.distances.values()):
        lines.append(
            f"±: at most, from gathering more than {metrics.W2_ATOMS} (GHK: {metrics.GHK_ATOMS}) "
            "atoms per sign, and from rounding."
        )
    if any(np.isnan(values[c.chosen]).any() for values in c.distances.values()):
        lines.append(
            "-: a sheet of one sign is empty in one of the two, so that W1 and W2 mean nothing."
        )
    if "W2" not in c.distances:
        lines.append("W2 is left out; it needs POT: pip install 'hkflow[ot]'.")
    return "\n".join(lines)


LEGENDS = {
    "W1": (
        "W1: Wasserstein-1 between sheets (of one sign) scaled to mass 1, averaged by mass, in"
        " radians."
    ),
    "W2": (
        "W2: Wasserstein-2 between sheets (of one sign) scaled to mass 1, averaged by mass, in"
        " radians."
    ),
    "GHK": "GHK: Gaussian-Hellinger-Kantorovich distance of the measures with their masses.",
}


DENSITY_LEGEND = (
    "L1: ∫|ν_A - ν_B| of the densities on the cells of the coarser grid, captured atoms apart."
)


def _difference_table(c):
    """One line per chosen time below a heading; of predictions only where there are some."""
    width = {"W1": 8, "W2": 17, "GHK": 17}
    top = f"{'':9} {'|h_A - h_B|, data':>17} {'|h_A - h_B|, new':>17} {'':8}"
    norms, columns = f"{'max':>8} {'RMS':>8} ", [c.data_max, c.data_rms, c.test_max, c.test_rms]
    if not c.a.predicts:
        top, norms, columns = "", "", []
    head = f"{'t':>9} {norms}{norms}{'moment':>8}"
    lines = [top] if top else []
    lines.append(head + "".join(f" {name:>{width[name]}}" for name in c.distances))
    for k in c.chosen:
        numbers = [column[k] for column in (*columns, c.moment)]
        line = f"{c.time[k]:9.5g} " + " ".join(f"{_number(number):>8}" for number in numbers)
        lines.append(
            line
            + "".join(
                f" {_with_bar(*values[k]):>{width[name]}}" for name, values in c.distances.items()
            )
        )
    return lines


def _number(value):
    """A number, or a dash for one that there is not."""
    return "-" if np.isnan(value) else f"{value:.2e}"


def _with_bar(value, bar):
    """A distance and its bar."""
    return _number(value) + (f" ± {bar:.0e}" if bar > 0.0 else "")


def _value_table(c):
    """Objectives and masses at the chosen times, and densities and captured masses if there are
    any."""
    by_parts = not np.isnan(c.density).all()
    head = f"{'t':>9} {'objective A':>15} {'objective B':>15} {'mass A':>15} {'mass B':>15}"
    lines = [head + (f" {'L1':>8} {'captured A, B':>17}" if by_parts else "")]
    for k in c.chosen:
        line = f"{c.time[k]:9.5g} "
        line += " ".join(f"{number:15.8g}" for number in (*c.objective[k], *c.mass[k]))
        parts = (c.density[k], *c.captured[k])
        lines.append(line + ("".join(f" {_number(one):>8}" for one in parts) if by_parts else ""))
    return lines
