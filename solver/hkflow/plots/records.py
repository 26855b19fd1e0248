"""What was recorded along a run."""

import numpy as np


def draw_energy(ax, records):
    """Objective and total mass against time, on two scales."""
    ax.plot(records["time"], records["objective"], color="C0")
    ax.set_xlabel("time t")
    ax.set_ylabel("objective F", color="C0")
    mass = ax.twinx()
    mass.spines["right"].set_visible(True)
    mass.plot(records["time"], records["mass"], color="C1")
    mass.set_ylabel("total mass |ν|", color="C1")
    low, high = mass.get_ylim()
    if high - low < 1e-6 * abs(high):
        mass.set_ylim(0.0, 1.2 * records["mass"][0])


def draw_residuals(ax, records):
    """Residuals of the energy identity and of the mass budget, relative to the largest objective and mass so far."""
    time = records["time"]
    ax.set_xlabel("time t")
    if np.isnan(records["energy_residual"]).all():
        ax.text(0.5, 0.5, "no budgets: gradients are stochastic", transform=ax.transAxes, ha="center")
        ax.set_axis_off()
        return
    for name, scale, color, label in (
        ("energy_residual", "objective", "C0", "energy identity"),
        ("mass_residual", "mass", "C1", "mass budget"),
    ):
        size = np.maximum.accumulate(np.abs(records[scale]))
        ax.semilogy(time[1:], np.maximum(np.abs(records[name] / size), 1e-17)[1:], color=color, label=label)
    ax.set_ylabel("relative residual")
    ax.legend()
