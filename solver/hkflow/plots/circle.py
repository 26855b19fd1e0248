"""Densities and atoms on the circle, unrolled."""

import numpy as np


def draw_density(ax, mesh, density, signs, initial=None, nu="ν"):
    """Draw the densities (n_signs, n_cells) against the angle of θ, and the initial ones dotted; nu: what they are."""
    angle = angles(mesh.centers)
    order = np.argsort(angle)
    for s, sign in enumerate(signs):
        label = f"density {nu}" if len(signs) == 1 else f"output sign {'+' if sign > 0 else '−'}1"
        ax.plot(angle[order], density[s, order], color=f"C{s}", label=label)
        if initial is not None:
            ax.plot(angle[order], initial[s, order], color=f"C{s}", linestyle=":", linewidth=0.8)
    negative = density.min() < 0.0 or initial is not None and initial.min() < 0.0
    _label(ax, f"density {nu} (initial: dotted)" if initial is not None else f"density {nu}", negative)


def draw_atoms(ax, atoms, signs, nu="ν"):
    """Draw atoms as a histogram over the angle of θ: mass in each bin by its width; nu: what they are."""
    bins = int(np.clip(np.sqrt(len(atoms) / len(signs)) * 2, 16, 180))
    for s, sign in enumerate(signs):
        positions, weights = atoms.sheet(sign)
        heights, edges = np.histogram(angles(positions), bins, (-np.pi, np.pi), weights=weights)
        label = "mass by angle" if len(signs) == 1 else f"output sign {'+' if sign > 0 else '−'}1"
        ax.stairs(
            heights * bins / (2 * np.pi), edges, color=f"C{s}", alpha=0.5, fill=True, label=f"{label}, {len(weights)} atoms"
        )
    _label(ax, f"density {nu}")


def angles(positions):
    """Angle in (−π, π] of points (n, 2)."""
    return np.arctan2(positions[:, 1], positions[:, 0])


def label_angles(ax):
    """The angle of θ along the horizontal axis."""
    ax.set_xticks([-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], ["−π", "−π/2", "0", "π/2", "π"])
    ax.set_xlim(-np.pi, np.pi)
    ax.set_xlabel("angle of θ")


def _label(ax, text, negative=False):
    label_angles(ax)
    if negative:
        ax.axhline(0.0, color="0.5", linewidth=0.6)
    else:
        ax.set_ylim(bottom=0.0)
    ax.set_ylabel(text)
    ax.legend()
