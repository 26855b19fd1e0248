"""Bach & Chizat 2022, Fig. 3: the probability of learning the teacher rises from 0 to 1 as units
are added beyond the teacher's 10.

Networks of m units learn random teachers of 10 units by 10⁴ steps of stochastic gradient descent on
fresh Gaussian batches of 100. Left: their risk ½E(y − h)² at the end, which is exact here, by the
kernel for infinitely many inputs, for each repeat (10⁻¹⁰ stands for less) and on average; right:
how often it is below 10⁻³, with the 95 % interval of Wilson. The paper's published code averages
the gradients of output weights over a batch but sums those of input weights, which therefore learn
100 times as fast as in its eq. 3.3. The same descent is computed here, from units whose output
weight is 10 times as large as their input weights, with steps of 10 · 0.005. If both are averaged,
10⁴ steps of 0.005 are too few: 30 units in dimension 20 are left with risks of 0.01 to 0.03. The
quick version has dimension 20, seven widths and 20 repeats; the paper's scale has dimensions 20 and
100, all widths up to 30 and 30 repeats.
"""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binomtest

from hkflow import Claim
from hkflow.plots import PAGE

STUDIES = ("icm/fig3",)
MINUTES = {"quick": 0.9, "paper": 25}
SUCCESS, TEACHER = 1e-3, 10
SMALLEST = 1e-10  # risks below are shown there


def compute(work):
    """Risks at the end, (n_dims, n_m, repeats)."""
    found = {}
    for changes, run in work.study("icm/fig3"):
        place = found.setdefault((changes["data.dim"], changes["method.units"]), [])
        place.append(run.records["objective"][-1])
    dims, units = (np.unique([key[k] for key in found]) for k in (0, 1))
    risks = np.array([[found[dim, m] for m in units] for dim in dims])
    return {"dims": dims, "units": units, "risk": risks}


def wilson(successes, n):
    """The 95 % intervals of probabilities from successes (…,) of n tries each: (2, …)."""
    return np.transpose([binomtest(int(k), n).proportion_ci(method="wilson") for k in successes])


def claims(data):
    """Too few units fail, many succeed."""
    units, found = data["units"], []
    for dim, risk in zip(data["dims"], data["risk"], strict=True):
        rate = (risk < SUCCESS).mean(axis=1)
        low, high = wilson((risk < SUCCESS).sum(axis=1), risk.shape[1])
        few, many = units < TEACHER, units >= 2 * TEACHER
        found += [
            Claim(
                f"d = {dim}: fewer units than the teacher's {TEACHER} fail more often than not"
                " (intervals below 0.5)",
                high[few].max() < 0.5,
                f"rates up to {rate[few].max():.2f}, intervals up to {high[few].max():.2f}, risks"
                f" from {risk[few].min():.1e}",
            ),
            Claim(
                f"d = {dim}: with twice the teacher's units or more they succeed more often than"
                " not (intervals above 0.5)",
                low[many].min() > 0.5,
                f"rates from {rate[many].min():.2f}, intervals from {low[many].min():.2f}",
            ),
            Claim(
                f"d = {dim}: exactly {TEACHER} units, with which the teacher could be copied,"
                " mostly stay stuck (interval below 0.5)",
                high[units == TEACHER][0] < 0.5,
                f"rate {rate[units == TEACHER][0]:.2f}, up to {high[units == TEACHER][0]:.2f}",
            ),
        ]
    return found


def draw(data):
    """Risks on the left, success rates on the right."""
    figure = Figure(figsize=(PAGE, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    units, repeats = data["units"], data["risk"].shape[2]
    for k, dim in enumerate(data["dims"]):
        risk, color = np.maximum(data["risk"][k], SMALLEST), f"C{k}"
        left.plot(
            np.repeat(units, repeats), risk.ravel(), ".", color=color, markersize=2.5, alpha=0.5
        )
        left.semilogy(
            units,
            np.maximum(data["risk"][k].mean(axis=1), SMALLEST),
            color=color,
            label=f"d = {dim}, mean",
        )
        successes = (data["risk"][k] < SUCCESS).sum(axis=1)
        right.plot(units, successes / repeats, "o-", color=color, markersize=3, label=f"d = {dim}")
        right.fill_between(
            units, *wilson(successes, repeats), color=color, alpha=0.2, linewidth=0.0
        )
    left.axhline(SUCCESS, color="0.5", linewidth=0.6)
    right.axvline(TEACHER, color="0.5", linewidth=0.6)
    left.set(xlabel="units m", ylabel="risk ½E(y − h)²", ylim=(0.5 * SMALLEST, None))
    right.set(xlabel="units m", ylabel=f"share of risks below {SUCCESS:g}", ylim=(-0.02, 1.02))
    left.legend()
    right.legend(loc="center right")
    return figure
