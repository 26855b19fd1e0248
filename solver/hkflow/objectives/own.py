"""Users' own features and risks, tried before anything runs: shapes, gradients, and what they say
of themselves."""

from typing import Any

import numpy as np

from ..arguments import Floats
from .activations import Feature, is_built_in, misfit
from .differences import check_slopes
from .losses import ALL_RISKS, RISKS, SMOOTH_MARGINS, Risk

TRIED = 4  # data that features are tried on
REAL = "fiub"
ALIKE = 4e5  # roundings between values of θ and of 2 θ
ALONE = 0.01  # of the largest value: how far that of its pair alone may be from it
LOG_SCALE = 0.5  # at which `scaled` is tried


def check_own(objective: Any) -> None:
    """Raise ValueError unless the functions of a user's own in an objective are what they are taken
    for: see `check_feature` and `check_risk`."""
    data = getattr(objective, "data", objective)  # of a sum of energies, perhaps none
    if data is None or len(data.targets) == 0:
        return
    if not is_built_in(data.feature):
        check_feature(data.feature, data.inputs[:TRIED], data.axes)
    if data.risk not in ALL_RISKS.values():
        check_risk(data.risk, data.targets, data.weights, data.n_predictions)


def check_feature(feature: Feature, inputs: Floats, axes: int) -> None:
    """Raise ValueError unless a user's feature has values of the right shape, each of its own pair
    alone, its degree, its kinks, and the gradient that differences of its values have.

    inputs : (n_data, p);  axes : coordinates of a point. A feature without degree is asked for unit
        vectors alone, and for its gradient along the sphere
    """
    rng, n = np.random.default_rng(0), len(inputs)
    points, direction = rng.standard_normal((2, 5, axes))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    if feature.degree is None:
        direction -= np.sum(direction * points, axis=1, keepdims=True) * points
    loss_gradient, ridge = rng.standard_normal(n), feature.ridge

    def matrix(at, inputs):  # of ψ as it is made, not rounded anew
        return feature.matrix(at, inputs) if feature.ridge is None else ridge(inputs @ at.T)[0]

    def values(at):
        return _tried(matrix, (at, inputs), (n, 5))

    try:
        found = values(points)
        # the largest value: one that is 0 says nothing of the others
        i, j = np.unravel_index(np.abs(found).argmax(), found.shape)
        alone = _tried(matrix, (points[[j]], inputs[[i]]), (1, 1))[0, 0]
        pulled = feature.pullback and _tried(
            feature.pullback, (points, inputs, loss_gradient), (5, axes)
        )
    except Exception as error:  # whatever the user's function says
        raise misfit(feature, error) from error
    if not abs(alone - found[i, j]) <= ALONE * abs(found[i, j]):
        raise ValueError(
            f"'{feature.name}' of one point and one datum is {alone:.6g}, but {found[i, j]:.6g} of"
            " the same beside others: a value must depend on its own pair alone."
        )
    _ = feature.hinges  # which looks at its kinks
    if feature.degree is not None:
        scaled = values(2.0 * points)
        rough = ALIKE * float(np.finfo(found.dtype).eps) * (1.0 + np.abs(scaled).max())
        if not np.abs(scaled - 2.0**feature.degree * found).max() <= rough:
            raise ValueError(f"'{feature.name}' is not homogeneous of degree {feature.degree}.")
    if pulled is None:
        return

    def along(s):
        moved = points + s * direction
        if feature.degree is None:
            moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        return loss_gradient @ values(moved)

    size = np.abs(loss_gradient) @ np.abs(found)
    check_slopes(f"'{feature.name}'", along, np.sum(pulled * direction, axis=1), size, found.dtype)


def check_risk(risk: Risk, targets: Floats, weights: Floats, n_predictions: int) -> None:
    """Raise ValueError unless a user's risk returns a number, writes the gradient that differences
    of it have and nothing else, and is by its `tail` and `scaled` what they say."""
    scale = max(1.0, np.abs(targets).max())
    h, direction = scale * np.random.default_rng(0).standard_normal((2, n_predictions))
    value, slopes = _at(risk, risk.evaluate, (h, targets, weights))
    if not np.isfinite(value):  # nor need it be, where predictions have no right to be
        return

    def along(s):
        return np.array([_at(risk, risk.evaluate, (h + s * direction, targets, weights))[0]])

    found, size = np.array([slopes @ direction]), np.abs(value) + np.abs(slopes) @ np.abs(direction)
    check_slopes(f"The risk '{risk.name}'", along, found, size, value.dtype)
    if risk.tail is not None and risk.scaled is None:
        known = np.empty_like(slopes)
        RISKS[risk.tail].evaluate(h, targets, weights, known)
        _compare(risk, f"tail '{risk.tail}' wants the gradient of that risk", slopes, known)
    if risk.scaled is None:
        return
    cold, shrunk = np.exp(-LOG_SCALE), h * np.exp(-LOG_SCALE)
    one, found = _at(risk, risk.scaled, (shrunk, LOG_SCALE, targets, weights))
    _compare(risk, "'scaled' wants e^−log_scale R, as 'evaluate' has it", one, cold * value)
    _compare(risk, "'scaled' wants the gradient of 'evaluate'", found, slopes)
    if risk.tail is not None:
        known = np.empty_like(slopes)
        SMOOTH_MARGINS[risk.tail](h, 0.0, targets, weights, known)
        _compare(risk, f"tail '{risk.tail}' wants the gradient of its margin", slopes, known)


def _compare(risk, why, found, known):
    if not np.allclose(found, known, rtol=1e-6, atol=1e-9 * np.abs(known).max()):
        found, known = np.atleast_1d(found), np.atleast_1d(known)
        i = int(np.abs(found - known).argmax())
        raise ValueError(
            f"The risk '{risk.name}': its {why}; got {found[i]:.6g} instead of {known[i]:.6g}."
        )


def _at(risk, function, arguments):
    """A value and gradient of a risk."""
    out = np.full(len(arguments[0]), np.nan)
    try:
        value = _tried(function, (*arguments, out), (), finite=False, kept=len(arguments))
    except Exception as error:  # whatever the user's function says
        raise ValueError(
            f"The risk '{risk.name}' does not fit: {type(error).__name__}:"
            f" {str(error).rstrip('.')}. Wanted a function (predictions, targets, weights, out) ->"
            " R that writes ∂R/∂h to out."
        ) from error
    if np.isfinite(value) and not np.isfinite(out).all():
        i = int(np.argmin(np.isfinite(out)))
        raise ValueError(
            f"The risk '{risk.name}' writes no finite gradient to out[{i}], but {out[i]}: fill it"
            " with out[:] = …, for `out = …` makes another array."
        )
    return value, out


def _tried(function, arguments, shape, finite=True, kept=None):
    """What a function makes of copies of arguments: real numbers of a shape, finite ones.

    kept : how many of the first arguments must stay what they were, by default all
    """
    given = [np.array(one) if isinstance(one, np.ndarray) else one for one in arguments[:kept]]
    values = np.asarray(function(*given, *arguments[len(given) :]))
    if values.shape != shape or values.dtype.kind not in REAL:
        raise ValueError(
            f"wanted real numbers of the shape {shape}, got {values.dtype} of the shape"
            f" {values.shape}"
        )
    if finite and not np.isfinite(values).all():
        raise ValueError("wanted finite numbers, got nan or inf")
    if not all(map(np.array_equal, given, arguments[:kept])):
        raise ValueError("it changes an array that it is given; let it work on a copy")
    return values if values.dtype.kind == "f" else values.astype(float)
