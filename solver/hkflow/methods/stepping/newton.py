"""Newton's method for implicit loss gradients with K stored, compiled, and how it solves symmetric
positive definite systems."""

import numpy as np

from ...arguments import Floats
from ...compiled import njit
from ...operators.matrix import TILE, tile_sums

EPS = np.finfo(float).eps
# share of the largest weight below which data do not enter Newton's system: others lead them
NEGLIGIBLE = 1e-9
STILL = 8  # Newton steps that are rounding; a weight that is to grow doubles its log in one
FOUND, LOST, INDEFINITE = range(3)  # how Newton's method ends


@njit(cache=True, error_model="numpy")
def newton(pulled, tau, u, q, temperature, smooth, logistic, most, tolerance, theta):
    """Coupling._newton with K stored, in place; returns FOUND, LOST or INDEFINITE, where rounding
    has left no positive matrix.

    pulled (n, n): y_i K_ij y_j;  u, q, theta (n,): margins, weights, θ;  smooth, logistic: bool
    """
    n, farthest = len(theta), 0.0
    room, pair, scratch = np.empty(n * n), np.empty(2 * n), np.empty((6, n))
    heavy = np.empty(n, dtype=np.int64)
    # loops, since each expression of whole arrays takes a tenth of a second and more to compile
    a, gradient, entropy = scratch[0], scratch[1], scratch[2]
    answer, change, driven = scratch[3], scratch[4], scratch[5]
    for i in range(n):
        farthest = max(farthest, abs(u[i]))
    last, still = np.inf, 0
    for _ in range(most):
        if smooth:
            highest, total = theta[0], 0.0
            for i in range(n):
                highest = max(highest, theta[i])
            for i in range(n):
                total += q[i] * np.exp(theta[i] - highest)
            highest += np.log(total)
            for i in range(n):
                theta[i] -= highest
        top, moved, finite = 0.0, 0.0, True
        for i in range(n):
            a[i] = q[i] * np.exp(theta[i])
            top = max(top, a[i])
        multiply(pulled, tau, a, answer)
        count = 0
        for i in range(n):
            moved = max(moved, abs(answer[i]))
            free = -np.expm1(theta[i]) if logistic else 1.0  # 1 − a/q
            gradient[i] = u[i] + answer[i] + temperature * theta[i]
            if logistic:
                gradient[i] -= temperature * np.log(free)
            entropy[i] = temperature / free
            if a[i] >= NEGLIGIBLE * top:
                heavy[count] = i
                count += 1
        system, solved = room[: count * count].reshape(count, count), pair[: 2 * count]
        solved = solved.reshape(2, count)
        for k in range(count):
            i = heavy[k]
            solved[1, k] = np.sqrt(a[i])
            solved[0, k] = -solved[1, k] * gradient[i]
            for m in range(k + 1):
                system[k, m] = tau * solved[1, k] * pulled[i, heavy[m]] * solved[1, m]
            system[k, k] += entropy[i]
        if not cholesky_solve(system, solved):
            return INDEFINITE
        multiplier = 0.0
        if smooth:
            above = below = 0.0
            for k in range(count):
                above += np.sqrt(a[heavy[k]]) * solved[0, k]
                below += np.sqrt(a[heavy[k]]) * solved[1, k]
            multiplier = -above / below
        for i in range(n):
            change[i] = 0.0
            gradient[i] = multiplier - gradient[i]
        for k in range(count):
            i = heavy[k]
            whole = solved[0, k] + multiplier * solved[1, k]
            change[i] = whole / np.sqrt(a[i]) if a[i] > 0.0 else 0.0
        for i in range(n):
            driven[i] = a[i] * change[i]
        multiply(pulled, tau, driven, answer)
        size, largest = 0.0, -np.inf
        for i in range(n):
            # there the entropy alone answers, which the scaled system does not resolve
            if a[i] < 1e-6 * top:
                change[i] = (gradient[i] - answer[i]) / entropy[i]
            most_change = -0.5 * theta[i] if logistic else max(2.0, -0.5 * theta[i])  # a < q
            if change[i] > most_change:
                change[i] = most_change
            theta[i] += change[i]
            finite &= abs(theta[i]) < np.inf
            size, largest = max(size, abs(a[i] * change[i]) / top), max(largest, change[i])
        if not finite:
            return LOST
        # or rounding has taken over: at once, or so often that nothing grows behind it
        stands = size > 0.3 * last
        if largest < 1.0 and (size <= tolerance or size < 1e-6 and stands):
            return FOUND
        noise = 4.0 * EPS * (farthest + moved) / temperature
        still = still + 1 if stands and size <= max(noise, 1e-6) else 0
        if still == STILL:
            return FOUND
        last = size
    return LOST


@njit(cache=True, fastmath={"reassoc", "contract"})
def multiply(matrix, factor, x, out):
    """out = factor · matrix x."""
    for i in range(len(x)):
        total = 0.0
        for j in range(len(x)):
            total += matrix[i, j] * x[j]
        out[i] = factor * total


def solve_positive(matrix: Floats, right: Floats) -> Floats:
    """x of matrix x_k = right_k, rows (n_right, n); matrix (n, n) symmetric and positive definite.

    Not by LAPACK, unless rounding has made the matrix indefinite: OpenBLAS spreads even small
    factorisations over threads that wait for one another, ten times as long where others compute.
    Raises LinAlgError for a singular matrix.
    """
    out = right.copy()
    if cholesky_solve(matrix.copy(), out):
        return out
    return np.asarray(np.linalg.solve(matrix, right.T).T, dtype=np.float64)


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def cholesky_solve(matrix, right):
    """Solve for rows of `right` (n_right, n), in place; returns whether the matrix (n, n) is
    positive definite. Its lower half is overwritten by its Cholesky factor, tile by tile: what the
    columns before take away is summed for sixteen numbers at once."""
    n = len(matrix)
    for i in range(0, n, TILE):
        for j in range(0, i + 1, TILE):
            sums = tile_sums(matrix, i, matrix, j, j)
            for k in range(i, min(i + TILE, n)):
                for m in range(j, min(j + TILE, k + 1)):
                    value = matrix[k, m] - sums[k - i][m - j]
                    for c in range(j, m):
                        value -= matrix[k, c] * matrix[m, c]
                    if m < k:
                        matrix[k, m] = value / matrix[m, m]
                    elif value > 0.0:
                        matrix[k, m] = np.sqrt(value)
                    else:
                        return False
    for x in right:
        for j in range(n):
            total = 0.0
            for i in range(j):
                total += matrix[j, i] * x[i]
            x[j] = (x[j] - total) / matrix[j, j]
        for j in range(n - 1, -1, -1):
            x[j] /= matrix[j, j]
            for i in range(j):
                x[i] -= matrix[j, i] * x[j]
    return True
