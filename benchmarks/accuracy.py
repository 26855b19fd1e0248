"""Relative L1 and maximum errors against the closed-form solutions on S², with observed orders, as a Markdown table."""

import numpy as np

import hkflow

DIRECTION, TARGET, TIME, LEVELS = np.array([0.3, -0.5, 0.8]), 0.8, 2.0, (3, 4, 5, 6)


def errors(mesh, flow):
    """Relative L1 error and relative maximum error at the end."""
    exact = hkflow.MomentFlow(DIRECTION, TARGET, flow)
    density = hkflow.solve(hkflow.Problem(mesh, exact.objective(), flow, exact=exact), TIME).density[-1, 0]
    wanted = exact.density(mesh.centers, TIME)
    return np.abs(density - wanted) @ mesh.volumes / (wanted @ mesh.volumes), np.abs(density - wanted).max() / wanted.max()


def main():
    """Print one row per mesh, two columns of errors and orders per flow."""
    flows = {"α = 1, β = 0": hkflow.Flow(1.0, 0.0), "α = 1, β = 4": hkflow.Flow(1.0, 4.0)}
    print("| cells |" + "".join(f" L¹, {name} | order | max | order |" for name in flows))
    print("| ---: |" + " ---: | ---: | ---: | ---: |" * len(flows))
    before = None
    for level in LEVELS:
        mesh = hkflow.geodesic_mesh(level)
        now = np.array([errors(mesh, flow) for flow in flows.values()])
        orders = np.full(now.shape, np.nan) if before is None else np.log2(before / now)
        cells = [f" {e:.2e} | {'' if np.isnan(p) else f'{p:.2f}'} |" for e, p in zip(now.ravel(), orders.ravel(), strict=True)]
        print(f"| {mesh.n_cells} |" + "".join(cells))
        before = now


if __name__ == "__main__":
    main()
