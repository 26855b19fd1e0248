"""Atoms on spheres of any dimension are drawn along their main axes."""

import tracemalloc

import numpy as np
import pytest
from matplotlib.figure import Figure

import hkflow
from hkflow.plots.atoms import draw_atoms, main_axes


def some(count, p, seed=0):
    rng = np.random.default_rng(seed)
    scales = np.append([3.0, 2.0], np.ones(p - 2))
    return hkflow.PointMeasure(rng.normal(size=(count, p)) * scales, weights=rng.random(count))


@pytest.mark.parametrize("count", [4, 20, 200])
def test_main_axes_are_those_of_the_second_moment(count):
    """Of fewer and of more atoms than dimensions."""
    atoms = some(count, 20)
    values, vectors = np.linalg.eigh((atoms.positions.T * atoms.weights) @ atoms.positions)
    axes, share = main_axes(atoms)
    assert np.abs(share - values[:-3:-1] / values.sum()).max() < 1e-13
    assert np.abs(np.abs(np.sum(axes * vectors[:, :-3:-1], axis=0)) - 1.0).max() < 1e-12


def test_one_atom_has_one_axis():
    atoms = some(1, 20)
    axes, share = main_axes(atoms)
    assert np.abs(np.abs(axes[:, 0] @ atoms.positions[0]) - 1.0) < 1e-14
    assert not axes[:, 1].any() and np.abs(share - [1.0, 0.0]).max() < 1e-14


def test_few_atoms_of_many_dimensions_need_no_square_of_these():
    """Eigenvectors of 20,000 dimensions took hours."""
    atoms = some(20, 3000)
    tracemalloc.start()
    main_axes(atoms)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4.0 * atoms.positions.nbytes


def test_main_axes_point_to_the_side_with_more_mass():
    """Of a grid and of particles of one flow they pointed to opposite sides."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        positions = rng.normal([1.0, 0.5, 0.0, -0.3], 0.6, (50, 4))
        positions /= np.linalg.norm(positions, axis=1, keepdims=True)
        mirrored = hkflow.PointMeasure(-positions)
        for atoms in (hkflow.PointMeasure(positions), mirrored):
            axes, _ = main_axes(atoms)
            assert (atoms.moment() @ axes > 0.0).all()
        even = hkflow.PointMeasure(np.concatenate([positions, -positions]))
        axes, _ = main_axes(even)
        assert (axes.max(axis=0) >= np.abs(axes).max(axis=0)).all()


def test_atoms_of_one_input_are_drawn():
    """Directions of one input without a bias are ±1, on one axis; the overview of such a run was a
    traceback."""
    atoms = hkflow.PointMeasure(np.array([[1.0], [-1.0]]), weights=np.array([2.0, 1.0]))
    axes, share = main_axes(atoms)
    assert axes.tolist() == [[1.0, 0.0]] and share.tolist() == [1.0, 0.0]
    draw_atoms(Figure().subplots(), atoms, (1,))
