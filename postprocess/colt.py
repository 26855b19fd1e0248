"""What the figures of Chizat & Bach 2020 share: margins of networks as the paper normalises them,
limits, maps of the square."""

import numpy as np

# points along each side of the square [−REACH, REACH]² that classifiers are compared on
SIDE, REACH = 101, 0.5
PLUS, MINUS = "#d6604d", "#4393c3"  # of the classes


def square(side=SIDE, reach=REACH):
    """Points of the square, (side², 2), row by row."""
    x = np.linspace(-reach, reach, side)
    return np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)


def network_margin(run, save=-1):
    """min_i y_i h(x_i) of a network with both layers trained, over half the mean squared norm of
    its units (|a|² + b²)/2.

    That is at most γ_ℓ1; the paper divides by the whole squared norm, so that its margins are half
    of these.
    """
    state = run.state_at(save)
    norm = (
        0.5 * (np.sum(state["hidden"] ** 2) + np.sum(state["output"] ** 2)) / len(state["output"])
    )
    return float(np.min(run.targets * run.predictions[save])) / norm


def limits(inputs, targets, points, tolerance=1e-6):
    """The F₁ and F₂ max-margin classifiers of data in the plane, without bias column, and what they
    say at points."""
    import numpy as np

    from hkflow import FEATURES, RISKS, Objective
    from hkflow import certificates as margins

    x, new = (np.column_stack([v, np.ones(len(v))]) for v in map(np.asarray, (inputs, points)))
    objective = Objective(FEATURES["relu"], RISKS["smooth-margin"], x, np.asarray(targets))
    f1, f2 = margins.max_margin(objective, (1, -1), tolerance), margins.f2_max_margin(objective)
    units = f1.atoms.signs * f1.atoms.weights
    return {
        "f1 lower": f1.lower,
        "f1 upper": f1.upper,
        "certified": f1.certified,
        "f1 units": len(units),
        "f2 margin": f2.machine.value,
        "f1": objective.feature.matrix(f1.atoms.positions, new) @ units,
        "f2": f2(new),
    }


def l2_on_units(hidden, inputs, targets):
    """What the output layer of given ReLU units tends to: weights (m,) of the largest margin, √m
    |a|₂ = 1."""
    import numpy as np

    from hkflow.certificates import l2_margin

    x = np.column_stack([inputs, np.ones(len(inputs))])
    best = l2_margin(np.asarray(targets)[:, None] * np.maximum(x @ np.asarray(hidden).T, 0.0))
    return {"weights": best.weights, "margin": best.value}


def cosine(a, b):
    """The cosine of two functions on the square, or of rows of them."""
    return np.sum(a * b, axis=-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def draw_map(ax, values, inputs, targets, reach=REACH):
    """Where a function is positive and negative, its zero level, and the data with their
    classes."""
    side = int(np.sqrt(len(values)))
    x = np.linspace(-reach, reach, side)
    grid = values.reshape(side, side) / np.abs(values).max()
    ax.contourf(x, x, np.sign(grid), levels=(-2, 0, 2), colors=(MINUS, PLUS), alpha=0.35)
    ax.contour(x, x, grid, levels=(0.0,), colors="black", linewidths=1.0)
    draw_data(ax, inputs, targets, reach)


def draw_data(ax, inputs, targets, reach=REACH):
    """Data of two classes in the square."""
    for sign, color, marker in ((1.0, PLUS, "+"), (-1.0, MINUS, "x")):
        ax.plot(
            *inputs[targets == sign, :2].T, marker, color=color, markersize=3.0, markeredgewidth=0.8
        )
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=(), yticks=(), aspect="equal")
