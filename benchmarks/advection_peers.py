"""How hkflow, pyclaw, PyMPDATA, py-pde and spherical harmonics by ducc0 turn a hill, as
contestants: called with sizes, they return {"shape, size": run}; a step of the run is one whole
turn, and its result hills.outcome.
"""

import os

import numpy as np

from .contest import timed
from .hills import POLAR, SHAPES, TILTED, TURN, hill, outcome, quad_areas, rotation

COURANT = 0.9  # of the step in which a cell would be emptied


def named(label, of):
    """{"shape, label": run} of a function that makes the run of a shape."""
    return {f"{shape}, {label}": of(shape) for shape in SHAPES}


# --- hkflow: finite volumes on geodesic cells


def with_hkflow(levels, reconstruction):
    """Geodesic meshes of these levels."""
    from hkflow import geodesic_mesh

    return {
        name: run
        for level in levels
        for name, run in hkflow_runs(geodesic_mesh(level), reconstruction).items()
    }


def hkflow_runs(mesh, reconstruction):
    """The runs on a mesh; fluxes are differences of the stream function, exact on every face."""
    from hkflow.methods.grid.advection import prescribed, stream_flows

    omega, center = rotation(TILTED)
    flows = stream_flows(mesh, mesh.vertices @ omega)
    transport = prescribed(mesh, flows, "mc", reconstruction)
    transport.velocity[0] = np.cross(omega, mesh.centers)
    if reconstruction == "quadratic":
        transport.prescribe(transport.velocity[0])
    steps = int(np.ceil(TURN * transport.outflow / COURANT))

    def take(turns, states):
        before, after = states
        for _ in range(turns * steps):
            transport.move(TURN / steps, before, after)
            before, after = after, before
        return before[0]

    def of(shape):
        start = hill(shape, mesh.centers, center)
        prepare = lambda: (start[None].copy(), np.zeros((1, mesh.n_cells)))
        return timed(prepare, take, lambda density: outcome(density, start, mesh.volumes, steps))

    return named(f"{mesh.n_cells:,} cells", of)


# --- pyclaw: unsplit wave propagation with the MC limiter, on the smooth mapping of a rectangle to
# the sphere by two discs
#     (Calhoun, Helzel & LeVeque 2008); fluxes are differences of the stream function, areas the
# capacity


def sphere_of_rectangle(x, y):
    """Points of the sphere for computational coordinates in [−3, 1] × [−1, 1] and, by symmetry,
    around it."""
    fold = np.abs(y) > 1.0
    x, y = np.where(fold, -2.0 - x, x), np.where(fold, 2.0 * np.sign(y) - y, y)
    x = (x + 3.0) % 4.0 - 3.0
    south = x < -1.0
    x = np.where(south, -2.0 - x, x)
    u, v = np.abs(x), np.abs(y)
    far = np.maximum(np.maximum(u, v), 1e-12)
    reach = far * (2.0 - far) / np.sqrt(2.0)
    middle = reach - np.sqrt(1.0 - reach**2)
    p, q = reach / far * u, reach / far * v
    p, q = (
        np.where(v < u, middle + np.sqrt(np.maximum(1.0 - q**2, 0.0)), p),
        np.where(v >= u, middle + np.sqrt(np.maximum(1.0 - p**2, 0.0)), q),
    )
    height = np.sqrt(np.maximum(1.0 - p**2 - q**2, 0.0))
    return np.stack([np.sign(x) * p, np.sign(y) * q, np.where(south, -height, height)], axis=-1)


def with_pyclaw(sizes):
    """2n × n cells for each n."""
    return {name: run for n in sizes for name, run in pyclaw_runs(n).items()}


def pyclaw_runs(n):
    """The runs on 2n × n cells."""
    from clawpack import pyclaw, riemann

    ghost, h = 2, 2.0 / n
    i, j = np.arange(-ghost, 2 * n + ghost + 1), np.arange(-ghost, n + ghost + 1)
    corners = sphere_of_rectangle(*np.meshgrid(-3.0 + h * i, -1.0 + h * j, indexing="ij"))
    centers = sphere_of_rectangle(
        *np.meshgrid(-3.0 + h * (i[:-1] + 0.5), -1.0 + h * (j[:-1] + 0.5), indexing="ij")
    )
    omega, center = rotation(TILTED)
    stream, areas = -corners @ omega, quad_areas(corners)
    inside = (slice(ghost, -ghost), slice(ghost, -ghost))
    aux = np.stack(
        [np.diff(stream, axis=1)[:-1] / h, -np.diff(stream, axis=0)[:, :-1] / h, areas / h**2]
    )

    def fill_aux(state, dim, t, qbc, auxbc, num_ghost):
        auxbc[:] = aux

    def below(state, dim, t, qbc, auxbc, num_ghost):
        qbc[:, :, :ghost] = qbc[:, ::-1, 2 * ghost - 1 : ghost - 1 : -1]

    def above(state, dim, t, qbc, auxbc, num_ghost):
        qbc[:, :, -ghost:] = qbc[:, ::-1, -ghost - 1 : -2 * ghost - 1 : -1]

    def prepare(start):
        solver = pyclaw.ClawSolver2D(riemann.vc_advection_2D)
        solver.limiters = pyclaw.limiters.tvd.MC
        solver.dimensional_split, solver.transverse_waves = False, solver.trans_cor
        solver.bc_lower[:], solver.bc_upper[:] = (
            [pyclaw.BC.periodic, pyclaw.BC.custom],
            [pyclaw.BC.periodic, pyclaw.BC.custom],
        )
        solver.aux_bc_lower[:], solver.aux_bc_upper[:] = (
            [pyclaw.BC.custom] * 2,
            [pyclaw.BC.custom] * 2,
        )
        solver.user_bc_lower, solver.user_bc_upper = below, above
        solver.user_aux_bc_lower = solver.user_aux_bc_upper = fill_aux
        solver.cfl_desired, solver.cfl_max, solver.max_steps, solver.dt_initial = (
            COURANT,
            1.0,
            100_000,
            0.1 * h,
        )
        domain = pyclaw.Domain(
            [pyclaw.Dimension(-3.0, 1.0, 2 * n, name="x"), pyclaw.Dimension(-1.0, 1.0, n, name="y")]
        )
        state = pyclaw.State(domain, 1, 3)
        state.index_capa = 2
        state.aux[:], state.q[0] = aux[(slice(None), *inside)], start
        solution = pyclaw.Solution(state, domain)
        solver.setup(solution)
        return solver, solution

    def take(turns, made):
        solver, solution = made
        status = solver.evolve_to_time(solution, turns * TURN)
        return solution.state.q[0], status["numsteps"]

    def of(shape):
        start = hill(shape, centers, center)[inside]
        return timed(
            lambda: prepare(start),
            take,
            lambda found: outcome(found[0], start, areas[inside], found[1]),
        )

    return named(f"{2 * n} × {n}", of)


# --- PyMPDATA: longitude by latitude, its own boundary condition at the poles


def with_pympdata(sizes, axis, options):
    """2n × n cells for each n; steps of the Courant number COURANT."""
    return {name: run for n in sizes for name, run in pympdata_runs(n, axis, options).items()}


def pympdata_runs(n, axis, options):
    """The runs on 2n × n cells."""
    from PyMPDATA import Options, ScalarField, Solver, Stepper, VectorField
    from PyMPDATA.boundary_conditions import Periodic, Polar

    omega, center = rotation(axis)
    longitude, latitude = (
        np.linspace(0.0, TURN, 2 * n + 1),
        np.linspace(-0.5 * np.pi, 0.5 * np.pi, n + 1),
    )
    sphere = lambda l, b: np.stack(
        [np.cos(b) * np.cos(l), np.cos(b) * np.sin(l), np.sin(b) + 0.0 * l], axis=-1
    )
    corners = sphere(*np.meshgrid(longitude, latitude, indexing="ij"))
    middles = np.meshgrid(
        0.5 * (longitude[1:] + longitude[:-1]), 0.5 * (latitude[1:] + latitude[:-1]), indexing="ij"
    )
    areas = np.outer(np.diff(longitude), np.diff(np.sin(latitude)))
    stream = -corners @ omega
    east, north = np.diff(stream, axis=1), -np.diff(stream, axis=0)
    leaving = sum(
        np.maximum(flow, 0.0) for flow in (east[1:], -east[:-1], north[:, 1:], -north[:, :-1])
    )
    steps = int(np.ceil(TURN * (leaving / areas).max() / COURANT))
    cell = (longitude[1] - longitude[0]) * (latitude[1] - latitude[0])
    stepper_options = Options(**options)
    threads = int(os.environ["NUMBA_NUM_THREADS"])
    stepper = Stepper(options=stepper_options, n_dims=2, non_unit_g_factor=True, n_threads=threads)
    shared = {"halo": stepper_options.n_halo}
    shared["boundary_conditions"] = (
        Periodic(),
        Polar(grid=areas.shape, longitude_idx=0, latitude_idx=1),
    )
    solver = Solver(
        stepper=stepper,
        advectee=ScalarField(np.zeros_like(areas), **shared),
        advector=VectorField(tuple(flow * TURN / steps / cell for flow in (east, north)), **shared),
        g_factor=ScalarField(areas / cell, **shared),
    )
    solver.advance(1)  # compiles

    def take(turns, _):
        solver.advance(turns * steps)
        return solver.advectee.get()

    def of(shape):
        start = hill(shape, sphere(*middles), center)
        return timed(
            lambda: np.copyto(solver.advectee.get(), start),
            take,
            lambda found: outcome(found, start, areas, steps),
        )

    return named(f"{2 * n} × {n}", of)


# --- py-pde knows no sphere: the same hill crosses a periodic square of the sphere's area, at the
# same speed and as far


def with_pypde(sizes):
    """n × n cells for each n; central differences, Runge–Kutta of order four."""
    return {name: run for n in sizes for name, run in pypde_runs(n).items()}


def pypde_runs(n):
    """The runs on n × n cells."""
    import pde

    side = np.sqrt(4.0 * np.pi)
    grid, velocity = pde.CartesianGrid([[0.0, side]] * 2, n, periodic=True), np.array([0.6, 0.8])

    def exact(shape, time):
        away = (grid.cell_coords - velocity * time) % side - 0.5 * side
        return hill(shape, away, np.zeros(2))

    equation = pde.PDE({"c": f"- {velocity[0]} * d_dx(c) - {velocity[1]} * d_dy(c)"})
    steps = int(np.ceil(TURN * n / (0.5 * side)))
    solver = pde.RungeKuttaSolver(equation, adaptive=False)
    stepper = solver.make_stepper(pde.ScalarField(grid), TURN / steps)  # compiles

    def take(turns, state):
        stepper(state, 0.0, turns * TURN)
        return state.data, turns

    def of(shape):
        start, areas = pde.ScalarField(grid, exact(shape, 0.0)), np.ones((n, n))
        return timed(
            start.copy,
            take,
            lambda found: outcome(found[0], exact(shape, found[1] * TURN), areas, steps),
        )

    return named(f"{n} × {n}", of)


# --- spherical harmonics up to a degree, products on a Gauss–Legendre grid, Runge–Kutta of order
# four


def with_harmonics(degrees):
    """Harmonics up to each of these degrees."""
    return {name: run for highest in degrees for name, run in harmonics_runs(highest).items()}


def harmonics_runs(highest):
    """The runs with (highest + 1)² harmonics; −v·∇ρ with v and ∇ρ in the directions south and
    east."""
    from ducc0.sht import analysis_2d, synthesis_2d

    omega, center = rotation(TILTED)
    rings, ring = highest + 1, 2 * highest + 2
    height, weight = np.polynomial.legendre.leggauss(rings)
    polar, longitude = np.meshgrid(np.arccos(-height), TURN * np.arange(ring) / ring, indexing="ij")
    (ct, st), (cp, sp) = (np.cos(polar), np.sin(polar)), (np.cos(longitude), np.sin(longitude))
    points, areas = (
        np.stack([st * cp, st * sp, ct], axis=-1),
        np.repeat(weight[:, None], ring, axis=1),
    )
    velocity = np.cross(omega, points)
    south = (
        velocity @ [1, 0, 0] * ct * cp + velocity @ [0, 1, 0] * ct * sp - velocity @ [0, 0, 1] * st
    )
    east = -velocity @ [1, 0, 0] * sp + velocity @ [0, 1, 0] * cp
    options = {"lmax": highest, "geometry": "GL", "nthreads": int(os.environ["OMP_NUM_THREADS"])}
    steps = int(np.ceil(TURN * highest / 2.0))  # Runge–Kutta of order four is stable to 2.8
    dt = TURN / steps

    def rate(harmonics):
        slope = synthesis_2d(
            alm=harmonics, spin=1, mode="DERIV1", ntheta=rings, nphi=ring, **options
        )
        return analysis_2d(map=-(south * slope[0] + east * slope[1])[None], spin=0, **options)

    def take(turns, a):
        for _ in range(turns * steps):
            k1 = rate(a)
            k2 = rate(a + 0.5 * dt * k1)
            k3 = rate(a + 0.5 * dt * k2)
            a = a + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + rate(a + dt * k3))
        return a

    def of(shape):
        start = hill(shape, points, center)
        density = lambda a: synthesis_2d(alm=a, spin=0, ntheta=rings, nphi=ring, **options)[0]
        prepare = lambda: analysis_2d(map=start[None], spin=0, **options)
        return timed(prepare, take, lambda a: outcome(density(a), start, areas, steps))

    return named(f"degree {highest}", of)


LIMITED = {"infinite_gauge": True, "nonoscillatory": True}
LEVELS = (3, 4, 5, 6)
OURS = (with_hkflow, LEVELS, "quadratic")
PEERS = {
    "hkflow, linear": (with_hkflow, LEVELS, "linear"),
    "pyclaw": (with_pyclaw, (28, 56, 111, 222)),
    "PyMPDATA": (with_pympdata, (32, 64), TILTED, LIMITED),
    "PyMPDATA around its poles": (with_pympdata, (64, 128), POLAR, LIMITED),
    "harmonics by ducc0": (with_harmonics, (15, 31, 63, 127)),
    "py-pde on a plane": (with_pypde, (64, 128)),
}
