import numpy as np
import pytest
import reference
from conftest import hypersphere_of

from hkflow.geometry import circle_mesh, geodesic_mesh
from hkflow.methods.grid import kernels
from hkflow.methods.grid import muscl_hancock as hancock
from hkflow.methods.grid.frozen import Transport
from hkflow.methods.grid.limiters import LIMITERS, limited, limiter_code
from hkflow.methods.grid.stencil import face_conductances, stencil_of
from hkflow.operators.parallel_loops import n_blocks

MESHES = {
    "circle": lambda: circle_mesh(700),
    "sphere": lambda: geodesic_mesh(3),
    "S3": lambda: hypersphere_of(840),
}


@pytest.fixture(params=MESHES, scope="module")
def mesh(request):
    return MESHES[request.param]()


def fields(mesh, rng, n_signs=2):
    shape = (n_signs, mesh.n_cells)
    return rng.random(shape) ** 4, rng.normal(size=shape)


def test_gradients_are_exact_for_linear_functions(mesh, rng):
    st, slope = stencil_of(mesh), rng.normal(size=mesh.dim + 1)
    out = np.empty((1, mesh.n_cells, mesh.dim + 1))
    kernels.gradients(st.neighbors, st.gradient_weights, (mesh.centers @ slope)[None], st.axes, out)
    tangential = slope - (mesh.centers @ slope)[:, None] * mesh.centers
    assert np.abs(out[0] - tangential).max() < 1.5 * mesh.width**2 * np.linalg.norm(slope)
    normal = np.einsum("ca,ca->c", out[0], mesh.centers)
    assert np.abs(normal).max() < 1e-12


def test_what_answers_to_data_agrees_with_its_twin(mesh, rng):
    nu, J = fields(mesh, rng)
    faces, conductances = np.ascontiguousarray(mesh.faces.T), face_conductances(mesh)
    given = *faces, conductances, mesh.volumes, J, nu, nu**2, 0.7, 1.3
    masses, flowing = np.empty(mesh.n_cells), np.empty(len(conductances))
    kernels.carriers(*given, masses, flowing)
    for got, wanted in zip((masses, flowing), reference.carriers(*given), strict=True):
        assert np.abs(got - wanted).max() < 1e-13 * np.abs(wanted).max()
    rate = np.empty_like(masses)
    kernels.carried(*faces, masses, flowing, J[0], rate)
    wanted = reference.carried(*faces, masses, flowing, J[0])
    assert np.abs(rate - wanted).max() < 1e-13 * np.abs(wanted).max()


@pytest.mark.parametrize("limiter", LIMITERS)
def test_transport_agrees_with_its_twin(mesh, limiter, rng):
    st = stencil_of(mesh)
    nu, J = fields(mesh, rng)
    G, out, outflow = (
        np.empty((*nu.shape, mesh.dim + 1)),
        np.empty_like(nu),
        np.empty(n_blocks(mesh.n_cells)),
    )
    kernels.gradients(st.neighbors, st.gradient_weights, nu, st.axes, G)
    size = np.abs(G).max()
    assert np.abs(G - reference.gradients(st, nu)).max() < 1e-13 * size
    code = limiter_code(limiter)
    kernels.transport(
        st.neighbors,
        st.conductances,
        st.offsets,
        st.centers,
        st.volumes,
        nu,
        J,
        G,
        0.7,
        code,
        st.axes,
        out,
        outflow,
    )
    wanted, rates = reference.transport(st, nu, J, 0.7, limiter)
    assert np.abs(out - wanted).max() < 1e-13 * np.abs(wanted).max()
    assert outflow.max() == pytest.approx(rates.max(), rel=1e-13)
    assert abs((out * st.volumes).sum()) < 1e-13 * (np.abs(out) * st.volumes).sum()


def random_field(mesh, rng, code, n_signs=2):
    """A Transport along the descent of a random potential, with its flows scaled to a largest
    outflow of one."""
    moved = Transport(stencil_of(mesh), code, n_signs)
    potential = rng.normal(size=(n_signs, mesh.n_cells))
    moved.follow(potential, 0.7)
    return moved, potential


def test_face_flows_agree_with_their_twin(mesh, rng):
    moved, potential = random_field(mesh, rng, 2)
    wanted = reference.face_flows(moved.stencil, potential, 0.7)
    for got, want in zip(
        (moved.flows, moved.velocity, moved.divergence, moved.decline), wanted[:4], strict=True
    ):
        assert np.abs(got - want).max() < 1e-13 * np.abs(want).max()
    assert moved.outflow == pytest.approx(wanted[4].max(), rel=1e-13)


@pytest.mark.parametrize("limiter", LIMITERS)
@pytest.mark.parametrize("courant", [0.3, 1.0])
def test_crossings_agree_with_their_twin(mesh, limiter, courant, rng):
    moved, _ = random_field(mesh, rng, limiter_code(limiter))
    nu, _ = fields(mesh, rng)
    nu[0, ::3] = 0.0
    out, dt = np.empty_like(nu), courant / moved.outflow
    moved.move(dt, nu, out)
    leaving, wanted = reference.crossings(
        moved.stencil, dt, nu, moved.flows, moved.velocity, moved.divergence, limiter
    )
    assert np.abs(moved.leaving - leaving).max() < 1e-13 * leaving.max()
    assert np.abs(out - wanted).max() < 1e-13 * wanted.max()
    assert out.min() >= 0.0
    assert (out @ mesh.volumes).sum() == pytest.approx((nu @ mesh.volumes).sum(), rel=1e-13)


def test_each_half_of_a_face_knows_the_other(mesh):
    st, own = stencil_of(mesh), np.arange(mesh.n_cells)[:, None]
    there = st.conductances > 0.0
    assert np.array_equal(
        st.neighbors[st.neighbors, st.back][there], np.broadcast_to(own, there.shape)[there]
    )


@pytest.mark.parametrize("sigma", [0.0, 0.3])
@pytest.mark.parametrize("dt", [0.2, 1e-4])
def test_the_reaction_agrees_with_its_twin(sigma, dt, rng):
    J, decline, start, volumes = (
        rng.normal(size=(2, 600)),
        rng.random((2, 600)),
        rng.random((2, 600)),
        rng.random(600),
    )
    arguments = (dt, 4.0, sigma, 0.7 * (sigma > 0.0), 0.05, 0.01, volumes, J, decline, start)
    wanted, sums = reference.react(*arguments)
    out, got = np.empty_like(start), np.empty((n_blocks(600), 5))
    hancock.react(*arguments, out, got)
    assert out == pytest.approx(wanted, rel=1e-13, abs=1e-13)
    size = reference.react(*arguments[:7], np.abs(J), decline, start)[1]
    assert np.all(
        np.abs(got.sum(axis=0) - sums) <= 1e-13 * (np.abs(size) + volumes @ start.sum(axis=0))
    )
    hancock.react(*arguments, start, got)
    assert np.array_equal(start, out)


def test_the_exchange_agrees_with_its_twin(rng):
    J, start, density, volumes = *rng.normal(size=(3, 2, 600)), rng.random(600)
    out = np.empty((n_blocks(600), 2))
    hancock.exchange(volumes, J, start, density, out)
    assert out.sum(axis=0) == pytest.approx(
        reference.exchange(volumes, J, start, density), rel=1e-12, abs=1e-12
    )


def test_integrals_agree_with_their_twin(mesh, rng):
    nu, J = fields(mesh, rng)
    nu, m, div = nu - 0.3, nu**1.5, rng.normal(size=nu.shape)
    out = np.empty((n_blocks(mesh.n_cells), 7))
    kernels.integrals(nu, m, J, div, mesh.volumes, out)
    got = np.append(out[:, :5].sum(axis=0), out[:, 5:].min(axis=0))
    size = np.abs(reference.integrals(np.abs(nu), m, np.abs(J), np.abs(div), mesh.volumes))
    size[5:] = 1.0
    assert np.all(np.abs(got - reference.integrals(nu, m, J, div, mesh.volumes)) <= 1e-13 * size)


def test_integrals_show_nan(mesh, rng):
    nu, J = fields(mesh, rng)
    nu[0, 5] = np.nan
    out = np.empty((n_blocks(mesh.n_cells), 7))
    kernels.integrals(nu, nu, J, J, mesh.volumes, out)
    assert np.isnan(out[0, 0])


@pytest.mark.parametrize("with_transport", [True, False])
def test_stages_agree_with_their_twins(with_transport, rng):
    shape = (2, 600)
    start, factor, div, J, growth = (
        rng.random(shape),
        rng.random(shape),
        *(rng.normal(size=(3, *shape))),
    )
    arguments = (0.1, with_transport, 4.0, 0.3, 0.05, 0.7, start, div, J)
    wanted = reference.stage(0.25, *arguments, factor, growth)
    density = np.empty(shape)
    kernels.stage(0.25, *arguments, factor, growth, density)
    for got, want in zip((factor, growth, density), wanted, strict=True):
        assert got == pytest.approx(want, rel=1e-13, abs=1e-13)
    kernels.begin_stages(start, factor, growth)
    assert np.array_equal(factor, start) and not growth.any()
    kernels.euler_stage(*arguments, density)
    assert density == pytest.approx(reference.euler_stage(*arguments), rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("depth", [1.0, 1.5, 3.0, 10.0])
def test_mobility_stage_and_mobilities_agree_with_their_twins(depth, rng):
    shape = (2, 600)
    start, J, growth = rng.random(shape) + 0.5, *(0.2 * rng.normal(size=(2, *shape)))
    wanted = reference.mobility_stage(0.25, 0.1, 4.0, depth, 0.7, start, J, growth)
    density = np.empty(shape)
    kernels.mobility_stage(0.25, 0.1, 4.0, depth, 0.7, start, J, growth, density)
    assert growth == pytest.approx(wanted[0], rel=1e-13, abs=1e-15) and density == pytest.approx(
        wanted[1], rel=1e-12
    )
    kernels.mobilities(start - 0.7, depth, 0.7, density)
    assert density == pytest.approx(reference.mobilities(start - 0.7, depth, 0.7), rel=1e-12)


@pytest.mark.parametrize("name", [name for name in LIMITERS if name != "first-order"])
def test_limiters(name, rng):
    a, b = rng.normal(size=(2, 500))
    got = np.array([limited(LIMITERS[name], x, y) for x, y in zip(a, b, strict=True)])
    assert got == pytest.approx(reference.limited(name, a, b), rel=1e-13, abs=1e-15)
    assert np.all(np.abs(got) <= 2 * np.minimum(np.abs(a), np.abs(b)) * (1 + 1e-15))
    assert np.all(got[a * b < 0] == 0.0)
    assert limited(LIMITERS[name], 0.7, 0.7) == pytest.approx(0.7, rel=1e-15)


@pytest.mark.parametrize("courant", [0.0, 0.1, 0.7, 1.0, 1.2])
def test_the_ultimate_limiter_is_monotone_at_its_courant_number(courant, rng):
    """A step of ν_t + ν_x = 0 on a circle adds no extremum, but with slopes for half the number."""
    a, b = rng.normal(size=(2, 500))
    code, c = LIMITERS["ultimate"], min(courant, 1.0)
    got = np.array([limited(code, x, y, courant) for x, y in zip(a, b, strict=True)])
    assert got == pytest.approx(reference.limited("ultimate", a, b, courant), rel=1e-13, abs=1e-15)

    def step(nu, told):
        before, ahead = nu - np.roll(nu, 1), np.roll(nu, -1) - nu
        slopes = [limited(code, x, y, told) for x, y in zip(before, ahead, strict=True)]
        face = nu + 0.5 * (1.0 - c) * np.array(slopes)
        return nu - c * (face - np.roll(face, 1))

    nu = rng.random(500)
    assert step(nu, courant).min() >= -1e-15 and step(nu, courant).max() <= nu.max() + 1e-15
    if courant == 0.1:
        ragged = np.tile([0.0, 0.02, 1.0, 1.0, 1.0], 100)
        assert step(ragged, courant).min() >= -1e-15 > step(ragged, 0.02).min()


def test_an_unknown_limiter_is_refused_with_the_choices():
    with pytest.raises(
        ValueError, match="Unknown limiter 'vanleer'. Did you mean 'van-leer'.*koren, mc, minmod"
    ):
        limiter_code("vanleer")
