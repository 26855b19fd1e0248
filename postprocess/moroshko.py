"""What the figures of Moroshko et al. 2020 share: directions on the sphere, norms at margin one,
and what the paths are held against.

The data are separated by w when all x_n·w > 0, since all targets are +1; at margin one, w has been
divided by its smallest x_n·w.
"""

import numpy as np
from matplotlib import colormaps


def ground_truth(inputs, depth, mus, only_minima):
    """Max-margins in ℓ₁ and ℓ₂, points of the Q_μ path and stationary points of the ℓ_(2/D)
    quasi-norm, all at margin one."""
    import numpy as np

    from hkflow.certificates import (
        l1_margin_direction,
        l2_margin_direction,
        path_point,
        stationary_points,
    )

    x, y = np.array(inputs), np.ones(len(inputs))
    points = [path_point(x, y, mu, depth) for mu in mus]
    stationary = stationary_points(x, y, depth, only_minima)
    return {
        "inputs": x,
        "l1": l1_margin_direction(x, y),
        "l2": l2_margin_direction(x, y),
        "mu": np.array(mus),
        "path": np.array([point.weights for point in points]),
        "multipliers": np.array(
            [mu * point.multipliers for mu, point in zip(mus, points, strict=True)]
        ),
        "stationary": np.array([point.weights for point in stationary]),
        "quasi-norm": np.array([point.value for point in stationary]),
        "minimum": np.array([point.minimum for point in stationary]),
    }


def truth(work, run, depth, mus, only_minima=False):
    """The ground truth of a run's data, kept by work."""
    return work.once(
        ground_truth,
        inputs=run.inputs.tolist(),
        depth=depth,
        mus=[float(mu) for mu in mus],
        only_minima=only_minima,
    )


def weights(run):
    """w at every save, (saves, d)."""
    return np.array([run.atoms_at(k).moment() for k in range(len(run.time))])


def at_margin_one(w, inputs):
    """Each w divided by its smallest x·w."""
    return w / np.min(w @ inputs.T, axis=-1, keepdims=True)


def degrees_between(w, v):
    """The angles between the rows of w and v, accurate for small ones as well."""
    w, v = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (w, v))
    return np.degrees(2.0 * np.arcsin(np.minimum(0.5 * np.linalg.norm(w - v, axis=-1), 1.0)))


def azimuth_pitch(w):
    """Degrees of the direction of w, (2, …): in the plane of the first two coordinates, and above
    it."""
    w = np.asarray(w)
    return np.degrees(
        [np.arctan2(w[..., 1], w[..., 0]), np.arctan2(w[..., 2], np.hypot(w[..., 0], w[..., 1]))]
    )


def curve(ax, w, **look):
    """Draw directions in the plane of azimuth and pitch."""
    return ax.plot(*azimuth_pitch(w), **look)


def targets(ax, data, name):
    """The Q_μ path, the ℓ₁ and ℓ₂ max-margins and the start, the mean of the data."""
    curve(
        ax,
        data[f"{name} path"],
        color="black",
        linestyle="--",
        linewidth=1.0,
        label="$Q_μ$ path",
        zorder=4,
    )
    for key, marker, color, label in (("l2", "o", "C2", "ℓ₂"), ("l1", "*", "C1", "ℓ₁")):
        curve(
            ax,
            data[f"{name} {key}"],
            marker=marker,
            color=color,
            markersize=7,
            linestyle="none",
            label=label,
            zorder=6,
        )
    start = data[f"{name} inputs"].mean(axis=0)
    curve(
        ax,
        start,
        marker="s",
        color="black",
        markersize=4,
        linestyle="none",
        label="start",
        zorder=6,
    )


def scale_name(alpha):
    """α as the figures print it."""
    return f"{alpha:g}" if 1e-3 <= alpha < 1e4 else f"10$^{{{np.log10(alpha):.0f}}}$"


def colors(alphas):
    """A colour for each scale, from dark to light as α grows."""
    return colormaps["viridis"](np.linspace(0.0, 0.9, len(alphas)))
