"""Which inputs pictures show and predictions are compared on, beside the data."""

import numpy as np
from numpy.typing import NDArray

TEST_POINTS = {1: 200, 2: 40}  # by number of inputs: points along each axis
FRAME = 0.08  # of the extent of the data: how far grids and pictures reach beyond them
GAUSSIAN_POINTS = 1000
POPULATION_FRAME = 2.5  # standard deviations of Gaussian inputs that grids and maps cover


def frame(values: NDArray[np.float64], share: float = FRAME) -> tuple[float, float]:
    """The interval of values, and a share of it more on both sides."""
    low, high = float(values.min()), float(values.max())
    edge = share * (high - low) or 1.0
    return low - edge, high + edge


def frames(inputs: NDArray[np.float64]) -> list[tuple[float, float]]:
    """What pictures show along each input (n, dim): the frame of the data, and without data that of
    Gaussian inputs."""
    if len(inputs):
        return [frame(column) for column in inputs.T]
    return [(-POPULATION_FRAME, POPULATION_FRAME)] * inputs.shape[1]


def make_test_inputs(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """New inputs to compare predictions on, (n, dim): an even grid over the frame of one or two
    inputs, or Gaussian draws.

    The draws have the mean and the covariance of the data and are the same in every comparison.
    Without data, for a population, both are made for standard Gaussian inputs.
    """
    count, size = inputs.shape
    if size in TEST_POINTS:
        seen = (
            inputs if count else np.array([[-POPULATION_FRAME], [POPULATION_FRAME]]) * np.ones(size)
        )
        axes = [np.linspace(*frame(column), TEST_POINTS[size]) for column in seen.T]
        return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, size)
    mean = inputs.mean(axis=0) if count else np.zeros(size)
    covariance = (inputs - mean).T @ (inputs - mean) / count if count else np.eye(size)
    values, vectors = np.linalg.eigh(covariance)
    spread = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean + np.random.default_rng(0).standard_normal((GAUSSIAN_POINTS, size)) @ spread.T
