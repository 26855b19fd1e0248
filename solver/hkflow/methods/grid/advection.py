"""Advection of a density in a prescribed velocity field, ∂_t ν + div(ν U) = 0, by the transport of
the flows."""

import numpy as np

from ...arguments import Floats, nonnegative, real_array
from ...geometry.mesh import Mesh, half_faces
from ..rules import check_reconstruction
from .frozen import Transport
from .limiters import limiter_code
from .quadratic import QuadraticTransport
from .stencil import stencil_of


def stream_flows(mesh: Mesh, stream: Floats) -> Floats:
    """Flows (n_faces,) from left to right through the faces of a mesh of S², U = ∇ψ × x:
    differences of ψ, free of divergence.

    stream : (n_vertices,) ψ at the corners of the cells; ω·x turns around ω, by |ω| per time
    """
    left, right = mesh.centers[mesh.faces[:, 0]], mesh.centers[mesh.faces[:, 1]]
    begin, end = (mesh.vertices[corner] for corner in mesh.face_vertices.T)
    outward = np.einsum("fa,fa->f", np.cross(end - begin, mesh.face_midpoints), right - left)
    change = stream[mesh.face_vertices[:, 1]] - stream[mesh.face_vertices[:, 0]]
    return np.where(outward > 0.0, change, -change)


def advect(
    mesh: Mesh,
    flows: Floats,
    density: Floats,
    time: float,
    cfl: float = 0.9,
    limiter: str = "mc",
    reconstruction: str = "linear",
) -> Floats:
    """The density (n_cells,) after a time; mass is kept to rounding and ν ≥ 0.

    flows : (n_faces,) volume per time from the left cell of each face to the right one;  density :
        (n_cells,)
    cfl : step in units of the time in which a cell would be emptied, at most 1;  limiter,
        reconstruction : see FiniteVolume
    Raises ValueError for a Courant number or a time out of range, and for flows or a density that
    do not fit the mesh.
    """
    if not 0.0 < cfl <= 1.0:
        raise ValueError(f"cfl must lie in (0, 1], got {cfl}.")
    time = nonnegative(time, "time")
    density, flows = real_array(density, "Densities"), real_array(flows, "Flows")
    if density.shape != (mesh.n_cells,) or flows.shape != (len(mesh.faces),):
        raise ValueError(
            f"A density on {mesh.n_cells} cells and flows through {len(mesh.faces)} faces are"
            f" wanted, got {density.shape} and {flows.shape}."
        )
    if not (np.isfinite(density).all() and (density >= 0.0).all() and np.isfinite(flows).all()):
        raise ValueError("The density must be finite and at least 0, and flows finite.")
    transport = prescribed(mesh, flows, limiter, reconstruction)
    steps = max(1, int(np.ceil(time * transport.outflow / cfl)))
    now, after = np.array(density, dtype=float)[None], np.zeros((1, mesh.n_cells))
    for _ in range(steps):
        transport.move(time / steps, now, after)
        now, after = after, now
    return now[0]


def prescribed(
    mesh: Mesh, flows: Floats, limiter: str = "mc", reconstruction: str = "linear"
) -> Transport:
    """A Transport that moves along given flows (n_faces,); U at a centre x is Σ_k flow_k (x_k − x)
    / volume, x_k on the faces."""
    check_reconstruction(reconstruction, None, limiter)
    stencil, quadratic = stencil_of(mesh), reconstruction == "quadratic"
    transport = (
        QuadraticTransport(stencil, mesh)
        if quadratic
        else Transport(stencil, limiter_code(limiter))
    )
    cell, _, face, slot = half_faces(mesh)
    out = np.where(cell == mesh.faces[face, 0], flows[face], -flows[face])
    transport.flows[0, cell, slot] = out
    arms = mesh.face_midpoints[face] - mesh.centers[cell]
    np.add.at(transport.velocity[0], cell, out[:, None] * arms / mesh.volumes[cell, None])
    transport.divergence[0] = transport.flows[0].sum(axis=1) / mesh.volumes
    transport.outflow = float(
        (np.maximum(transport.flows[0], 0.0).sum(axis=1) / mesh.volumes).max()
    )
    if isinstance(transport, QuadraticTransport):
        transport.prescribe(transport.velocity[0])
    return transport
