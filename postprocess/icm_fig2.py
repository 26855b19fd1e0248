"""Bach & Chizat 2022, Fig. 2: few units stay stuck, many find the teacher, and so does the
infinitely wide network.

Networks of 5, 20, 100 and 1000 ReLU units in the plane learn four teacher units from fresh Gaussian
batches of 100; each unit is drawn at tanh(m · weight) in its direction. The last panel is new: the
density on the circle that infinitely many units are, for the population risk. Units of output sign
ε end on the lines of the teacher units of that sign, and some of them opposite to a teacher unit:
ε(θ·x)₊ and ε(−θ·x)₊ differ by a linear function, of which the other units can make up, so recovery
up to ±θ is what the risk asks for. Not all of them arrive: the pull on a unit fades with the risk,
so some are left on their way when h is the teacher to 1e-3, and later times bring few of them
further: 1000 particles on 1000 fixed data, by exact characteristics, have 89 % of their grown units
within 10° at t = 400 and 93 % at t = 4000, the farthest 39° away at both. In the paper's figure all
arrive: its published code sums the gradients of input weights over a batch where eq. 3.3 has means,
as icm-fig3 explains, and with such descent all of 1000 units end within 7° here, at a risk of 8e-9
(step 0.02, balance 10, t = 4000). It is no flow on the sphere of directions, and so not what is
drawn. The paper's teacher is another draw, chosen so that its lines are recovered; quick steps are
0.01, not 0.002.
"""

import numpy as np
from matplotlib.figure import Figure

from hkflow import Claim
from hkflow.plots import PAGE

STUDIES = ("icm/fig2",)
MINUTES = {"quick": 0.4, "paper": 2}
NEAR = 10.0  # degrees from a teacher's line within which a unit counts as converged


def compute(work):
    """Paths of the units of every network, the density of the last, and risks over time."""
    data = {}
    for changes, run in work.study("icm/fig2"):
        units = changes["method"].get("units", 0)
        name = f"m{units}" if units else "grid"
        atoms = [run.atoms_at(k) for k in range(len(run.time))]
        data |= {
            f"{name} positions": (
                np.array([one.positions for one in atoms]) if units else atoms[-1].positions
            ),
            f"{name} signs": atoms[-1].signs,
            f"{name} weights": (
                np.array([one.weights for one in atoms]) if units else atoms[-1].weights
            ),
            f"{name} time": run.records["time"],
            f"{name} risk": run.records["objective"],
        }
    teacher = run.problem.objective
    return data | {
        "teacher": teacher.teacher,
        "teacher signs": np.sign(teacher.teacher_weights),
        "time": run.time,
    }


def angles(data, name):
    """Degrees from the units of a network, or the cells of the grid, to the nearest line ±θ of a
    teacher unit of their sign."""
    positions = data[f"{name} positions"]
    positions = positions if name == "grid" else positions[-1]
    same = data[f"{name} signs"][:, None] == data["teacher signs"]
    return np.degrees(
        np.arccos(
            np.clip(
                np.where(same, np.abs(positions @ data["teacher"].T), 0.0).max(axis=1), 0.0, 1.0
            )
        )
    )


def share_near(data, name):
    """The share of mass within NEAR of the teacher's lines."""
    weights = data[f"{name} weights"]
    weights = weights if name == "grid" else weights[-1]
    return weights[angles(data, name) < NEAR].sum() / weights.sum()


def claims(data):
    """Who converges, and who does not."""
    risk = {name: data[f"{name} risk"][-1] for name in ("m5", "m20", "m100", "m1000", "grid")}
    found = [
        Claim(
            f"m = {m}: the units converge to the teacher's, 90 % of the mass within {NEAR:g}° of"
            " their lines",
            share_near(data, f"m{m}") > 0.9,
            f"{100 * share_near(data, f'm{m}'):.1f} % of the mass, risk {risk[f'm{m}']:.1e}",
        )
        for m in (100, 1000)
    ]
    heavy = angles(data, "m1000")[1000 * data["m1000 weights"][-1] > 1.0]
    return found + [
        Claim(
            f"m = 1000: all units that have grown, m · weight > 1, end within {NEAR:g}° of the"
            " lines",
            heavy.max() < NEAR,
            f"{100 * (heavy < NEAR).mean():.0f} % of them do, the farthest {heavy.max():.0f}° away",
        ),
        Claim(
            "m = 5, more than the teacher's 4: stuck in a local minimum",
            risk["m5"] > 1e-2,
            f"risk {risk['m5']:.2g}",
        ),
        Claim("m = 20: the global optimum already", risk["m20"] < 1e-3, f"risk {risk['m20']:.1e}"),
        Claim(
            "new: the infinitely wide network converges likewise, 90 % of its mass within"
            f" {NEAR:g}° of the lines",
            share_near(data, "grid") > 0.9 and risk["grid"] < 1e-3,
            f"{100 * share_near(data, 'grid'):.1f} % of the mass, risk {risk['grid']:.1e}",
        ),
    ]


def draw(data):
    """A disc for every network and the density; risks below."""
    figure = Figure(figsize=(PAGE, 3.8), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(0.9, 1.0))
    axes = top.subplots(1, 5)
    for ax, m in zip(axes, (5, 20, 100, 1000), strict=False):
        _frame(ax, data, f"m = {m}")
        radius = np.tanh(m * data[f"m{m} weights"])
        points = radius[..., None] * data[f"m{m} positions"]
        for sign, color in ((1.0, "C0"), (-1.0, "C1")):
            mine = data[f"m{m} signs"] == sign
            step = max(1, mine.sum() // 150)
            ax.plot(
                *np.moveaxis(points[:, mine][:, ::step], 2, 0),
                color=color,
                linewidth=0.4,
                alpha=0.6,
            )
            ax.plot(*points[-1, mine].T, "o", color=color, markersize=2.0, zorder=3)
    _frame(axes[4], data, "m = ∞")
    weights = len(data["grid weights"]) / 2 * data["grid weights"]
    angle = np.arctan2(*data["grid positions"].T[::-1])
    for sign, color in ((1.0, "C0"), (-1.0, "C1")):
        mine = data["grid signs"] == sign
        radius = np.tanh(weights[mine])
        around = np.argsort(angle[mine])
        axes[4].fill(
            *(radius[:, None] * data["grid positions"][mine])[around].T,
            color=color,
            alpha=0.6,
            linewidth=0.0,
        )
    ax = bottom.subplots()
    for name, label in (
        ("m5", "m = 5"),
        ("m20", "20"),
        ("m100", "100"),
        ("m1000", "1000"),
        ("grid", "∞ (grid)"),
    ):
        look = {"color": "black", "linestyle": "--"} if name == "grid" else {}
        ax.loglog(
            data[f"{name} time"][1:], data[f"{name} risk"][1:], label=label, linewidth=1.0, **look
        )
    ax.set(xlabel="time t", ylabel="population risk")
    ax.legend(ncols=5, loc="lower left")
    return figure


def _frame(ax, data, title):
    """The disc, and the teacher's directions as dashed rays in the colours of their signs."""
    angle = np.linspace(0.0, 2.0 * np.pi, 200)
    for radius in (1.0, np.tanh(1.0)):
        ax.plot(radius * np.cos(angle), radius * np.sin(angle), color="0.8", linewidth=0.6)
    for unit, sign in zip(data["teacher"], data["teacher signs"], strict=True):
        ax.plot(
            *np.outer(unit, (0.0, 1.0)),
            color="C0" if sign > 0 else "C1",
            linestyle=(0, (3, 2)),
            linewidth=0.8,
        )
        ax.plot(*np.outer(unit, (0.0, -1.0)), color="0.6", linestyle=(0, (1, 2)), linewidth=0.6)
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title(title)
