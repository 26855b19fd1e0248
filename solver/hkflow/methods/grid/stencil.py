"""What the kernels need to know of a mesh: for each cell its neighbours, and the geometry of the
faces towards them."""

from dataclasses import dataclass

import numpy as np

from ...arguments import Floats
from ...geometry.mesh import Mesh, half_faces
from ...geometry.sphere import normalize


@dataclass(frozen=True, eq=False)
class Stencil:
    """Neighbour tables; a cell with fewer neighbours than slots lists itself, with weight zero.

    neighbors, back : (n_cells, n_slots) int; back_ck is the slot of c among the neighbours of its
        neighbour k
    conductances : (n_cells, n_slots) face area / length of the chord between the centres
    gradient_weights : (n_cells, n_slots, d+1), ∇ν_c = Σ_k gradient_weights_ck (ν_k − ν_c)
    offsets : (n_cells, n_slots, d+1) from the middle of the two centres to the middle of the face
    centers : (n_cells, d+1);  volumes : (n_cells,);  axes : tuple of length d+1
    """

    neighbors: np.ndarray
    back: np.ndarray
    conductances: np.ndarray
    gradient_weights: np.ndarray
    offsets: np.ndarray
    centers: np.ndarray
    volumes: np.ndarray
    axes: tuple


def face_conductances(mesh: Mesh) -> Floats:
    """Area of each face over the length of the chord between the centres on its sides, (n_faces,).

    Along the chord, not the arc: a potential that is linear in R^(d+1), as ReLU's are between their
    kinks, then has its exact normal velocity on the whole face, because the face lies in the plane
    that bisects the chord.
    """
    left, right = mesh.centers[mesh.faces[:, 0]], mesh.centers[mesh.faces[:, 1]]
    return mesh.face_areas / np.linalg.norm(left - right, axis=1)


def stencil_of(mesh: Mesh) -> Stencil:
    """The neighbour tables of a mesh; gradients by least squares weighted with the conductances,
    exact for linear functions."""
    cell, neighbor, face, slot = half_faces(mesh)
    n, slots, x = mesh.n_cells, slot.max(initial=-1) + 1, mesh.centers
    neighbors = np.repeat(np.arange(n, dtype=np.int32)[:, None], slots, axis=1)
    conductances = np.zeros((n, slots))
    offsets = np.zeros((n, slots, mesh.dim + 1))
    middles = normalize(x[mesh.faces[:, 0]] + x[mesh.faces[:, 1]])
    neighbors[cell, slot] = neighbor
    back = np.tile(np.arange(slots, dtype=np.int32), (n, 1))
    sides = np.argsort(face, kind="stable").reshape(-1, 2)  # the two halves of each face
    back[cell[sides], slot[sides]] = slot[sides[:, ::-1]]
    conductances[cell, slot] = face_conductances(mesh)[face]
    offsets[cell, slot] = (mesh.face_midpoints - middles)[face]
    steps = x[neighbors] - x[:, None]
    steps -= np.einsum("cka,ca->ck", steps, x)[..., None] * x[:, None]
    moment = np.einsum("ck,cka,ckb->cab", conductances, steps, steps)
    # the normal direction is in the kernel of `moment`; adding it makes the matrix regular and
    # drops out again
    moment += np.einsum("c,ca,cb->cab", np.einsum("caa->c", moment), x, x)
    moments = np.swapaxes(conductances[..., None] * steps, 1, 2)
    weights = np.linalg.solve(moment, moments) if slots else moments
    return Stencil(
        neighbors=neighbors,
        back=back,
        conductances=conductances,
        gradient_weights=np.ascontiguousarray(np.swapaxes(weights, 1, 2)),
        offsets=offsets,
        centers=x,
        volumes=mesh.volumes,
        axes=(0,) * (mesh.dim + 1),
    )
