"""Max-margin machines of the arc-cosine kernel: all of their time, over that of the same with
scipy's nnls for the dual, whatever its size.

Labels are at random in 20 dimensions, where nearly all data count, and those of a line in two,
where about ten do.
"""

import numpy as np

from .timing import Row, alternate, ratio

DATA, FEWEST = (512, 2048), 256


def problem(n, dim):
    """A kernel matrix (n, n) and labels."""
    from hkflow.certificates import arc_cosine_kernel

    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(n, dim)), np.ones(n)])
    y = np.where(x[:, 0] > 0.0, 1.0, -1.0) if dim == 2 else rng.choice([-1.0, 1.0], n)
    return arc_cosine_kernel(x, x, 1), y


def rows(threads, quick):
    """Both kinds of data, few and many."""
    from hkflow.certificates import fixed_points, kernel_margin

    def by_nnls(K, y):
        many, fixed_points.MANY = fixed_points.MANY, len(y) + 1
        try:
            return kernel_margin(K, y)
        finally:
            fixed_points.MANY = many

    for n in (FEWEST,) if quick else DATA:
        for dim, goal in ((20, 1.5 if n < DATA[-1] else 4.0), (2, 0.95)):
            K, y = problem(n, dim)
            made = kernel_margin(K, y)
            works = [lambda K=K, y=y: kernel_margin(K, y), lambda K=K, y=y: by_nnls(K, y)]
            times = alternate(works, 3 if quick else 5)
            count = np.count_nonzero(made.dual)
            yield Row(
                f"kernel machine of {n} data, of which {count} count",
                1e3 * float(np.median(times[:, 0])),
                "ms",
                goal=(">=", goal),
                note=f"nnls takes so many times as long; gap {(made.upper / made.lower - 1.0):.0e}",
                **ratio(times[:, 1], times[:, 0]),
            )
