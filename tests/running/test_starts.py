"""Runs that start from files, expressions and functions, and data of given teachers."""

import numpy as np
import pytest

import hkflow

CASE = {
    "data": {"source": "inline", "inputs": [[0.5], [-1.0], [0.2]], "targets": [1.0, -1.0, -1.0]},
    "objective": {"bias": True, "loss": "square"},
    "domain": {"kind": "signed-sphere", "cells": 24},
    "flow": {"kind": "hellinger-kantorovich"},
    "time": {"end": 0.3, "saves": 2},
}
ROUND = CASE | {"domain": {"kind": "signed-sphere"}}


def start(initial, tables=CASE, **more):
    return hkflow.check(tables | {"initial": initial}, **more)[1]


# --- expressions


@pytest.mark.parametrize("kind", ["grid", "characteristics", "particles"])
def test_an_expression_is_the_density_that_it_says(kind):
    """von Mises–Fisher densities are the independent truth."""
    smooth = {"kind": "von-mises-fisher", "centers": [[3.0, 4.0]], "concentration": 2.0}
    words = {"kind": "expression", "density": "exp(2*(0.6*x + 0.8*theta2))"}
    tables = CASE if kind == "grid" else ROUND
    method = {"kind": kind} | ({} if kind == "grid" else {"particles": 40})
    for keys in ({}, {"signs": [-1], "mass": 3.0}):
        one, two = (start(table | keys, tables, method=method) for table in (smooth, words))
        a, b = one.atoms(), two.atoms()
        assert np.allclose(a.weights, b.weights, rtol=1e-13, atol=0.0) and len(a) == len(b)
        assert b.mass == pytest.approx(keys.get("mass", 1.0), rel=1e-13)
        if kind != "grid":
            points = one.atoms().positions
            for sign in (1.0, -1.0):
                known = [problem.initial_density(points, sign) for problem in (one, two)]
                assert np.allclose(*known, rtol=1e-13, atol=0.0)


def test_signs_may_have_densities_of_their_own():
    problem = start({"kind": "expression", "density": "where(sign > 0, 1 + x, 3 + 3*y)"})
    x, y = problem.mesh.centers.T
    density = problem.initial_parts[0]
    ratio = density / np.array([1.0 + x, 3.0 + 3.0 * y])
    assert np.allclose(ratio, ratio[0, 0], rtol=1e-13)
    assert density.sum() > 0.0 and not np.allclose(density[0], density[1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", r"'x' is -.* at θ = \(.*\), sign \+1; a density is finite and at least 0"),
        ("1/(x - x)", "is inf at"),
        ("1 + z", "names 'z', and points have 2 coordinates"),
        ("0*x", "zero in every cell"),
        ("1 + w", "initial.density: 'w' is unknown"),
        ("open('a')", "initial.density: 'open' is no function"),
    ],
)
def test_expressions_that_are_no_density_are_refused(text, said):
    with pytest.raises(hkflow.CaseError, match=said):
        start({"kind": "expression", "density": text})


def test_an_expression_is_kept_by_run_folders(tmp_path):
    table = {"kind": "expression", "density": "1 + 0.5*x*sign"}
    keys = {"method": {"kind": "characteristics", "particles": 40}}
    made = hkflow.run(ROUND | {"initial": table}, tmp_path / "case", **keys)
    problem = start(table, ROUND, **keys)
    again = hkflow.run(problem, tmp_path / "problem", end=0.3, kind="characteristics")
    assert np.array_equal(made.predictions, again.predictions)
    points = np.array([[0.6, 0.8], [-1.0, 0.0]])
    for path in ("case", "problem"):
        found = hkflow.load(tmp_path / path).density_at(points, 0)
        weight = found[0, 0] / (1.0 + 0.5 * 0.6)
        wanted = weight * (1.0 + 0.5 * np.outer([1, -1], points[:, 0]))
        assert np.allclose(found, wanted, rtol=1e-12)
    with pytest.raises(hkflow.CaseError, match="cannot draw from an expression"):
        start(table, ROUND, method=keys["method"] | {"points": "random"})


# --- files


def test_a_density_in_a_file_is_the_start(tmp_path, rng):
    density = rng.random((2, 24))
    np.save(tmp_path / "a.npy", density)
    np.savez(tmp_path / "a.npz", density=density)
    rows = [f"{s},{c},{density[k, c]!r}" for c in range(24) for k, s in ((1, -1), (0, 1))]
    text = "\n".join(["sign,cell,density", *rows]).replace("np.float64(", "").replace(")", "")
    (tmp_path / "a.csv").write_text(text)
    for name in ("a.npy", "a.npz", "a.csv"):
        problem = start({"kind": "file", "file": str(tmp_path / name)})
        assert np.array_equal(problem.initial_parts[0], density), name
        scaled = start({"kind": "file", "file": str(tmp_path / name), "mass": 2.0})
        assert scaled.atoms().mass == pytest.approx(2.0, rel=1e-13)
    cells = start(
        {"kind": "file", "file": str(tmp_path / "a.npy")},
        method={"kind": "particles", "points": "mesh"},
    )
    assert cells.atoms().mass == pytest.approx(problem.atoms().mass, rel=1e-13)
    one = CASE | {"domain": {"kind": "sphere", "cells": 24}}
    np.save(tmp_path / "one.npy", density[0])
    assert np.array_equal(
        start({"kind": "file", "file": str(tmp_path / "one.npy")}, one).initial, density[:1]
    )


def test_atoms_in_a_file_are_the_start_of_particles_and_grids(tmp_path, rng):
    positions, signs, weights = rng.normal(size=(7, 2)), rng.choice([-1.0, 1.0], 7), rng.random(7)
    np.savez(tmp_path / "a.npz", positions=positions, signs=signs, weights=weights)
    np.save(tmp_path / "a.npy", positions)
    rows = np.column_stack([positions, signs, weights])
    np.savetxt(tmp_path / "a.csv", rows, "%.17g", ",", header="a,b,sign,weight", comments="")
    for name in ("a.npz", "a.csv"):
        atoms = start({"kind": "file", "file": str(tmp_path / name)}, ROUND).initial
        known = hkflow.PointMeasure(positions, signs, weights)
        assert np.array_equal(atoms.weights, weights) and np.array_equal(atoms.signs, signs)
        assert np.allclose(atoms.positions, known.positions, rtol=1e-15)
        grid = start({"kind": "file", "file": str(tmp_path / name)})
        volumes = grid.mesh.volumes
        for k, sign in enumerate((1.0, -1.0)):
            mass = grid.initial_parts[0][k] @ volumes
            assert mass == pytest.approx(weights[signs == sign].sum(), rel=1e-13)
    equal = start({"kind": "file", "file": str(tmp_path / "a.npy")}, ROUND).initial
    assert equal.mass == pytest.approx(1.0) and (equal.signs == 1.0).all()


def test_what_one_run_left_goes_on_from_a_file(tmp_path):
    """Two halves are the whole, to what a step that ends in the middle changes."""
    smooth = CASE | {"objective": CASE["objective"] | {"activation": "squared-relu"}}
    whole = hkflow.run(smooth, tmp_path / "whole", **{"time.saves": [0.0, 0.15, 0.3]})
    np.savez(tmp_path / "middle.npz", density=whole.cell_density_at(1))
    rest = smooth | {"initial": {"kind": "file", "file": str(tmp_path / "middle.npz")}}
    rest = hkflow.run(rest, tmp_path / "rest", **{"time.end": 0.15})
    assert np.array_equal(rest.predictions[0], whole.predictions[1])
    assert np.allclose(rest.predictions[-1], whole.predictions[-1], rtol=0.0, atol=1e-4)
    assert not np.allclose(rest.predictions[0], whole.predictions[0], rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "content", "tables", "said"),
    [
        ("a.npy", np.ones((2, 23)), CASE, r"wanted a density \(signs, cells\) = \(2, 24\), got"),
        ("a.npy", -np.ones((2, 24)), CASE, "nonnegative"),
        ("a.npy", np.full((2, 24), np.nan), CASE, "finite"),
        ("a.npy", np.ones((2, 24)), ROUND, "there is no mesh"),
        ("a.npy", np.array([[0.0, 0.0]]), ROUND, "not zero"),
        ("a.npy", np.array(["a"]), CASE, "wanted real numbers"),
        ("a.npy", np.array([{}]), CASE, "wanted real numbers"),
        ("a.npy", b"nothing of the kind", CASE, "wanted real numbers"),
        ("a.npz", b"PK nothing", CASE, "wanted real numbers"),
        ("a.npz", {"densities": np.ones((2, 24))}, CASE, "neither 'density' nor 'positions'"),
        ("a.npz", {"positions": np.ones((3, 3))}, ROUND, r"wanted positions \(n, 2\), got"),
        ("a.npz", {"positions": np.ones((3, 2)), "signs": np.ones(2)}, ROUND, "3 positions need"),
        ("a.csv", b"density,sign\n1,1\n", CASE, "as many rows for each of the signs"),
        ("a.csv", b"density\nx\n", CASE, "line 2, column 'density': 'x' is not a number"),
        ("a.csv", b"density,sign\n1,1\n,1\n", CASE, "line 3, column 'density'"),
        ("b.npy", np.ones(3), CASE, "cannot be read"),
    ],
)
def test_files_that_are_no_start_are_refused(tmp_path, name, content, tables, said):
    path = tmp_path / ("a" + name[1:])
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        np.savez(path, **content)
    else:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(hkflow.CaseError, match=said) as found:
        start({"kind": "file", "file": str(tmp_path / name)}, tables)
    assert name in str(found.value) or "initial density" in str(found.value)


def test_a_pickle_in_a_file_is_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "caught"), "w"))

    np.save(tmp_path / "a.npy", np.array([Trap()]), allow_pickle=True)
    with pytest.raises(hkflow.CaseError):
        start({"kind": "file", "file": str(tmp_path / "a.npy")})
    assert not (tmp_path / "caught").exists()


def test_faults_name_the_key():
    with pytest.raises(hkflow.CaseError, match="initial.file: is missing"):
        start({"kind": "file"})
    with pytest.raises(hkflow.CaseError, match="initial.file: .*got 3"):
        start({"kind": "file", "file": 3})


def test_points_of_a_file_are_as_many_as_there_are(tmp_path):
    with pytest.raises(hkflow.CaseError, match="the initial points are those in a file"):
        start(
            {"kind": "file", "file": "a.npy"}, ROUND, method={"kind": "particles", "particles": 9}
        )


# --- functions


def hill(points, sign):
    return np.exp(points[:, 0]) * (1.0 + 0.5 * sign)


def test_a_function_is_the_start_and_is_found_again(tmp_path, monkeypatch):
    (tmp_path / "mine_hill.py").write_text(
        "import numpy as np\ndef hill(points, sign):\n"
        "    return np.exp(points[:, 0]) * (1.0 + 0.5 * sign)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    function = __import__("mine_hill").hill
    whole = hkflow.check(CASE)[1]
    parts = whole.mesh, whole.objective, whole.flow, whole.signs
    problem = hkflow.Problem(*parts, initial=function)
    wanted = np.array([hill(whole.mesh.centers, sign) for sign in (1, -1)])
    assert np.array_equal(problem.initial_parts[0], wanted) and problem.density is function
    hkflow.run(problem, tmp_path / "run", end=0.2, kind="characteristics")
    stored = hkflow.load(tmp_path / "run")
    points = np.array([[0.6, 0.8], [0.0, -1.0]])
    assert stored.own.density.function == "mine_hill:hill"
    assert np.allclose(stored.density_at(points, 0, 1), hill(points, 1), rtol=1e-12)
    with pytest.raises(ValueError, match="needs a mesh"):
        hkflow.Problem(None, *parts[1:], initial=function)
    with pytest.raises(ValueError, match=r"must have the shape \(24,\)"):
        hkflow.Problem(*parts, initial=lambda points, sign: np.ones(3))
    with pytest.raises(ValueError, match="nonnegative"):
        hkflow.Problem(*parts, initial=lambda points, sign: points[:, 0])


# --- given teachers

TEACHER = {
    "positions": [[3.0, 4.0, 0.0], [0.0, 0.0, -2.0]],
    "signs": [1, -1],
    "weights": [2.0, 0.5],
}
TAUGHT = CASE | {
    "data": {"source": "teacher", "n": 30, "dim": 2} | TEACHER,
    "domain": {"kind": "signed-sphere", "cells": 162},
}


@pytest.mark.parametrize("activation", ["relu", "squared-relu", "linear", "joint-relu"])
def test_a_given_teacher_makes_the_targets(activation):
    tables = TAUGHT | {"objective": {"bias": True, "loss": "square", "activation": activation}}
    if activation == "joint-relu":
        tables |= {"domain": {"kind": "sphere", "cells": 840}}
    problem = hkflow.check(tables)[1]
    x, y = problem.objective.inputs, problem.objective.targets
    s = x @ np.array([[0.6, 0.8, 0.0], [0.0, 0.0, -1.0]]).T
    phi = {"linear": s, "squared-relu": np.maximum(s, 0.0) ** 2}.get(activation, np.maximum(s, 0.0))
    assert np.allclose(y, 2.0 * phi[:, 0] - 0.5 * phi[:, 1], rtol=1e-13, atol=1e-13)
    more, values = problem.draw(np.random.default_rng(1), 5)
    assert more.shape == (5, 3) and values.shape == (5,)


def test_a_given_teacher_is_known_to_its_run(tmp_path):
    run = hkflow.run(TAUGHT, tmp_path / "run", **{"time.end": 0.05})
    directions, outputs = hkflow.load(run.path).teacher_network
    assert np.allclose(directions, [[0.6, 0.8, 0.0], [0.0, 0.0, -1.0]]) and outputs.tolist() == [
        2.0,
        -0.5,
    ]
    population = {"source": "population", "dim": 2, "positions": [[0.6, 0.8]], "weights": [2.0]}
    tables = CASE | {"data": population, "objective": {"loss": "square"}}
    objective = hkflow.check(tables)[1].objective
    assert np.allclose(objective.teacher, [[0.6, 0.8]]) and objective.teacher_weights.tolist() == [
        2.0
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"signs": [1]}, "1 signs for 2 positions"),
        ({"weights": [1.0]}, "1 weights for 2 positions"),
        ({"units": 2}, "a random teacher alone reads 'units'"),
        ({"positions": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]}, "nonzero vectors"),
        ({"positions": [[1.0, 0.0], [0.0, 1.0]]}, r"data.positions: wanted vectors of R\^3"),
        ({"positions": [[1.0, 0.0], [0.0, 1.0, 2.0]]}, "of one length"),
    ],
)
def test_teachers_that_do_not_fit_are_refused(change, said):
    with pytest.raises(hkflow.CaseError, match=said):
        hkflow.check(TAUGHT | {"data": TAUGHT["data"] | change})


def test_random_teachers_alone_have_units():
    data = {"source": "teacher", "n": 30, "signs": [1]}
    with pytest.raises(hkflow.CaseError, match="given positions alone read 'signs'"):
        hkflow.check(TAUGHT | {"data": data})
