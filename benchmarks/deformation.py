"""The deformational flow of Nair & Lauritzen (2010) and Lauritzen et al. (2012): two shapes on S²
are drawn out into filaments until half time and come back at T = 5, with and without a background
that turns the sphere once meanwhile. Errors at T by both reconstructions, and what half time leaves
of the area above a threshold.

python -m benchmarks.deformation [LEVEL …], of geodesic meshes
"""

import sys

import numpy as np

from hkflow import geodesic_mesh
from hkflow.methods.grid.advection import prescribed, stream_flows

END, STRENGTH, COURANT, LEVELS = 5.0, 2.0, 0.9, (4, 5, 6)
CENTERS = np.array([[np.cos(a), np.sin(a), 0.0] for a in (5 / 6 * np.pi, 7 / 6 * np.pi)])
THRESHOLDS = (0.2, 0.4, 0.6, 0.8)


def gaussian_hills(x):
    """Smooth."""
    return sum(0.95 * np.exp(-5.0 * ((x - c) ** 2).sum(axis=1)) for c in CENTERS)


def cosine_bells(x):
    """With a continuous slope, on a background of 0.1."""
    angles = [np.arccos(np.clip(x @ c, -1.0, 1.0)) for c in CENTERS]
    return 0.1 + 0.45 * sum((1.0 + np.cos(2.0 * np.pi * a)) * (a < 0.5) for a in angles)


def slotted_cylinders(x):
    """Discontinuous: 1 on two discs, but for a slot in each, and 0.1 elsewhere."""
    longitude, latitude = np.arctan2(x[:, 1], x[:, 0]) % (2.0 * np.pi), np.arcsin(x[:, 2])
    found = np.full(len(x), 0.1)
    for c, middle, side in zip(CENTERS, (5 / 6 * np.pi, 7 / 6 * np.pi), (-1.0, 1.0), strict=True):
        inside = np.arccos(np.clip(x @ c, -1.0, 1.0)) <= 0.5
        beside = np.abs(longitude - middle) >= 0.5 / 6.0
        found[inside & (beside | (side * latitude > 5 / 24))] = 1.0
    return found


SHAPES = {
    "Gaussian hills": gaussian_hills,
    "cosine bells": cosine_bells,
    "slotted cylinders": slotted_cylinders,
}


def stream(x, time, turns):
    """ψ at points (n, 3): 2 y′² cos(πt/T) − 2π turns z/T, y′ turned along with the background; the
    velocity is x × ∇ψ."""
    angle = 2.0 * np.pi * turns * time / END
    across = np.cos(angle) * x[:, 1] - np.sin(angle) * x[:, 0]
    fade = STRENGTH * np.cos(np.pi * time / END)
    return fade * across**2 - 2.0 * np.pi * turns / END * x[:, 2]


def velocity(x, time, turns):
    """x × ∇ψ at points (n, 3)."""
    angle = 2.0 * np.pi * turns * time / END
    axis = np.array([-np.sin(angle), np.cos(angle), 0.0])
    slope = 2.0 * STRENGTH * np.cos(np.pi * time / END) * (x @ axis)[:, None] * axis
    return np.cross(x, slope - [0.0, 0.0, 2.0 * np.pi * turns / END])


def deformed(mesh, shape, turns, reconstruction):
    """The density at the start, at half time and at the end, (n_cells,), and the steps taken."""
    start = SHAPES[shape](mesh.centers)

    def flows(time):  # `stream_flows` is for ∇ψ × x
        return stream_flows(mesh, -stream(mesh.vertices, time, turns))

    outflows = [prescribed(mesh, flows(t), "mc").outflow for t in np.linspace(0.0, END / 2, 6)]
    steps = 2 * int(np.ceil(END / 2 * max(outflows) / COURANT))
    dt, gauss = END / steps, 0.5 * np.array([1.0 - 3**-0.5, 1.0 + 3**-0.5])
    transport = prescribed(mesh, flows(0.0), "mc", reconstruction)
    begin, ways, out = sides(mesh)
    now, after = start[None].copy(), np.zeros((1, mesh.n_cells))
    for n in range(steps):
        if n == steps // 2:
            middle = now[0].copy()
        through = sum(flows((n + g) * dt) for g in gauss) / 2.0
        transport.flows[0, begin, out] = ways[0] * through[ways[1]]
        transport.divergence[0] = transport.flows[0].sum(axis=1) / mesh.volumes
        transport.velocity[0] = velocity(mesh.centers, (n + 0.5) * dt, turns)
        if reconstruction == "quadratic":
            transport.prescribe(transport.velocity[0])
        transport.move(dt, now, after)
        now, after = after, now
    return start, middle, now[0], steps


def sides(mesh):
    """Of half-faces: cells, (signs of flows from left to right, faces), slots."""
    from hkflow.geometry.mesh import half_faces

    cell, _, face, slot = half_faces(mesh)
    return cell, (np.where(cell == mesh.faces[face, 0], 1.0, -1.0), face), slot


def main(words):
    """Print the tables."""
    levels = [int(word) for word in words] or LEVELS
    kept = []
    print("| shapes | background | cells | steps | linear l2 | linear max | quadratic l2 | max |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for shape in SHAPES:
        for turns in (0, 1):
            for level in levels:
                mesh, errors = geodesic_mesh(level), []
                for reconstruction in ("linear", "quadratic"):
                    start, middle, end, steps = deformed(mesh, shape, turns, reconstruction)
                    wrong, volumes = end - start, mesh.volumes
                    errors += [
                        np.sqrt(wrong**2 @ volumes / (start**2 @ volumes)),
                        np.abs(wrong).max() / start.max(),
                    ]
                    assert end.min() >= 0.0 and abs(end @ volumes / (start @ volumes) - 1) < 1e-13
                    if shape == "cosine bells" and turns:
                        above = [
                            100 * volumes[middle >= x].sum() / volumes[start >= x].sum()
                            for x in THRESHOLDS
                        ]
                        kept.append((mesh.n_cells, reconstruction, above))
                print(
                    f"| {shape} | {'turning' if turns else 'none'} | {mesh.n_cells:,} | {steps} | "
                    + " | ".join(f"{error:.2e}" for error in errors)
                    + " |",
                    flush=True,
                )
    print("\n| cells | reconstruction | " + " | ".join(f"above {x}" for x in THRESHOLDS) + " |")
    print("| ---: | --- |" + " ---: |" * len(THRESHOLDS))
    for cells, reconstruction, above in kept:
        print(f"| {cells:,} | {reconstruction} | " + " | ".join(f"{a:.0f} %" for a in above) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
