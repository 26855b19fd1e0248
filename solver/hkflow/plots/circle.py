"""Densities on the circle, unrolled."""

import numpy as np


def draw_density(ax, mesh, density, signs, initial=None):
    """Draw the densities (n_signs, n_cells) against the angle of θ, and the initial ones dotted."""
    angle = np.arctan2(mesh.centers[:, 1], mesh.centers[:, 0])
    order = np.argsort(angle)
    for s, sign in enumerate(signs):
        label = "density ν" if len(signs) == 1 else f"output sign {'+' if sign > 0 else '−'}1"
        ax.plot(angle[order], density[s, order], color=f"C{s}", label=label)
        if initial is not None:
            ax.plot(angle[order], initial[s, order], color=f"C{s}", linestyle=":", linewidth=0.8)
    ax.set_xticks([-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], ["−π", "−π/2", "0", "π/2", "π"])
    ax.set_xlim(-np.pi, np.pi)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("angle of θ")
    ax.set_ylabel("density ν (initial: dotted)" if initial is not None else "density ν")
    ax.legend()
