"""What Python callers get wrong is refused with a sentence: data that are no real numbers, options,
tolerances, times, meshes."""

import re

import numpy as np
import pytest

import hkflow
from hkflow import certificates as margins
from hkflow.arguments import real_array

X, Y = np.array([[0.5, 1.0], [-1.0, 1.0], [0.2, 1.0]]), np.array([1.0, -1.0, -1.0])
RELU, LOGISTIC = hkflow.FEATURES["relu"], hkflow.RISKS["logistic"]


def objective(inputs=X, targets=Y, weights=None, **more):
    return hkflow.Objective(RELU, LOGISTIC, inputs, targets, weights, **more)


def problem(initial=None, mesh=True):
    return hkflow.Problem(
        hkflow.circle_mesh(16) if mesh else None,
        objective(),
        hkflow.Flow(1.0, 2.0),
        (1, -1),
        initial,
    )


def solve(**options):
    return hkflow.solve(problem(), options.pop("end", 0.1), **options)


def sampled(density, signs, mesh=None):
    mesh = mesh or hkflow.circle_mesh(8)
    return hkflow.sampled(np.random.default_rng(0), 5, mesh, signs, density)


def moment(direction):
    return hkflow.MomentFlow(direction, 0.5, hkflow.Flow())


HANDED = {
    "inputs": lambda change: objective(inputs=change(X)),
    "targets": lambda change: objective(targets=change(Y)),
    "weights": lambda change: objective(weights=change(np.ones(3))),
    "a density": lambda change: problem(change(np.ones((2, 16)))),
    "positions": lambda change: hkflow.PointMeasure(change(X)),
    "signs": lambda change: hkflow.PointMeasure(X, change(Y)),
    "masses": lambda change: hkflow.PointMeasure(X, Y, change(np.ones(3))),
    "hidden units": lambda change: hkflow.Units(change(X), Y),
    "output weights": lambda change: hkflow.Units(X, change(Y)),
    "a domain of atoms": lambda change: hkflow.atoms_mesh(change(np.eye(3))),
    "a direction": lambda change: moment(change(np.array([0.3, 0.4]))),
    "a teacher": lambda change: hkflow.PopulationRisk(RELU, change(X), Y),
    "a kernel matrix": lambda change: margins.kernel_margin(change(X @ X.T), Y),
    "signed features": lambda change: margins.l1_margin(change(X)),
    "inputs of a path": lambda change: margins.path_point(change(X), Y, 1.0, 2.0),
    "times": lambda change: solve(saves=change(np.array([0.05, 0.1]))),
}
WRONG = {
    "masked": (
        lambda a: np.ma.masked_where(np.arange(a.size).reshape(a.shape) == 1, a),
        "must not be masked: take the rows",
    ),
    "complex": (lambda a: a + 1e-3j, "must be real numbers, got complex numbers: take array.real."),
    "dates": (lambda a: a.astype("M8[s]"), "must be real numbers, got dates: take numbers."),
    "durations": (
        lambda a: a.astype("m8[s]"),
        "must be real numbers, got durations: take numbers.",
    ),
    "text": (lambda a: a.astype(str), "must be real numbers, got text."),
    "objects": (lambda a: np.where(a == a.flat[0], None, a), "must be real numbers, got objects."),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("handed", HANDED)
def test_arrays_that_are_no_real_numbers_are_refused(handed, wrong):
    change, message = WRONG[wrong]
    with pytest.raises((ValueError, hkflow.CaseError), match=re.escape(message)):
        HANDED[handed](change)


def test_rows_that_are_masked_and_rows_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="Rows must not be masked"):
        real_array([np.ma.array([1.0, 2.0], mask=[False, True]), np.ones(2)], "Rows")
    with pytest.raises(ValueError, match="Rows must make an array, whose rows have one length"):
        real_array([[1.0], [1.0, 2.0]], "Rows")


def test_all_that_is_real_numbers_is_taken():
    for value in (
        [1, 2],
        (True, False),
        np.arange(3, dtype=np.uint8),
        np.float32([0.5]),
        [2**70, 1],
        np.ma.array([1.0]),
        3,
    ):
        array = real_array(value, "Numbers")
        assert array.dtype == float and np.array_equal(array, np.asarray(value, dtype=float))


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: objective(weights=[1.0, -1.0, 1.0]),
            "Weights must be at least 0 and not all 0; the smallest is -1.",
        ),
        (
            lambda: objective(weights=[0.0, 0.0, 0.0]),
            "Weights must be at least 0 and not all 0; the smallest is 0.",
        ),
        (
            lambda: objective([], []),
            "Inputs need at least one row and one column, got an array of shape (1, 0).",
        ),
        (
            lambda: objective(np.zeros((0, 2)), []),
            "Inputs need at least one row and one column, got an array of shape (0, 2).",
        ),
        (
            lambda: objective(np.zeros((3, 2, 2))),
            "Inputs need at least one row and one column, got an array of shape (3, 2, 2).",
        ),
        (
            lambda: objective(operator="dens"),
            "Unknown operator 'dens'. Did you mean 'dense'? Choose from: auto, dense,",
        ),
        (lambda: hkflow.Domain(2, (2,)), "signs must be (1,) or (1, -1), got (2,)."),
        (lambda: hkflow.Domain(2, (-1, 1)), "signs must be (1,) or (1, -1), got (-1, 1)."),
        (
            lambda: hkflow.Domain(1.5),
            "The dimension of a sphere must be a whole number, at least 0, got 1.5.",
        ),
        (
            lambda: hkflow.atoms_mesh([[1.0, 0.0], [np.nan, 1.0]]),
            "Positions must be finite, got [nan  1.] in row 1.",
        ),
        (
            lambda: hkflow.atoms_mesh([[1.0, 0.0], [3.0, 4.0]]),
            "Positions must be unit vectors, as directions are everywhere, got the length 5 in row"
            " 1. Divide them by their lengths;",
        ),
        (lambda: hkflow.atoms_mesh([[1.000002, 0.0]]), "got the length 1.000002 in row 0."),
        (
            lambda: hkflow.atoms_mesh([]),
            "Positions need at least one row and one column, got an array of shape (1, 0).",
        ),
        (
            lambda: sampled(np.ones((2, 8)), (1,)),
            "The density must have the shape (1, 8), (signs, cells), got (2, 8). A sign without"
            " mass has a row of zeros.",
        ),
        (
            lambda: sampled([[0.0] * 8], (1,)),
            "The density must be finite, nonnegative and not zero everywhere, got 0 to 0.",
        ),
        (
            lambda: sampled(np.ones((1, 3)), (1,), hkflow.atoms_mesh(np.eye(3))),
            "Points are drawn within the cells of a sphere's mesh, got fixed features, whose cells"
            " are points. Draw some of mesh.centers.",
        ),
        (lambda: hkflow.Flow(None), "transport must be a real number, got None."),
        (lambda: hkflow.Flow(10**400), "transport is too large for a float."),
        (lambda: hkflow.Flow(depth="2"), "depth must be a real number, got '2'."),
        (lambda: objective(weight_decay=1j), "weight_decay must be a real number, got 1j."),
        (lambda: hkflow.Sum(axes=3, entropy="1"), "entropy must be a real number, got '1'."),
        (lambda: hkflow.geodesic_mesh(-1), "The level must be a whole number, at least 0, got -1."),
        (
            lambda: hkflow.geodesic_mesh(1.5),
            "The level must be a whole number, at least 0, got 1.5.",
        ),
        (
            lambda: hkflow.circle_mesh(2),
            "The number of cells must be a whole number, at least 3, got 2.",
        ),
        (
            lambda: hkflow.circle_mesh(16.5),
            "The number of cells must be a whole number, at least 3, got 16.5.",
        ),
        (
            lambda: solve(saves=[np.nan]),
            "time.saves: listed times must increase within [0, 0.1], got [nan].",
        ),
        (
            lambda: solve(saves=[0.05, np.nan]),
            "time.saves: listed times must increase within [0, 0.1]",
        ),
        (
            lambda: solve(saves=np.nan),
            "time.saves: the number of saves (the start and the end count) must be a whole number",
        ),
        (
            lambda: solve(end=5e-324, saves=3),
            "time.saves: 3 of them up to t = 4.94066e-324 are too close to be told apart",
        ),
        (lambda: solve(saves=np.zeros(1000)), "got [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ...]."),
        (lambda: solve(saves=2.5), "must be a whole number, at least 2, got 2.5."),
        (lambda: solve(saves=[[0.05]]), "time.saves: listed times must increase within [0, 0.1]"),
        (lambda: solve(end=np.nan), "time.end must be a finite number greater than 0, got nan."),
        (lambda: solve(end="1"), "time.end must be a finite number greater than 0, got '1'."),
        (
            lambda: solve(record_interval="1"),
            "record_interval must be at least 0 and until_margin a number, got '1' and None.",
        ),
        (
            lambda: solve(record_interval=np.nan),
            "record_interval must be at least 0 and until_margin a number, got nan and None.",
        ),
        (
            lambda: solve(until_margin=np.nan),
            "record_interval must be at least 0 and until_margin a number, got 0.0 and nan.",
        ),
        (
            lambda: solve(kind="particles", noise_interval=-1.0),
            "noise_interval must be a finite number greater than 0, got -1.0.",
        ),
        (
            lambda: solve(kind="particles", noise_interval="1"),
            "noise_interval must be a finite number greater than 0, got '1'.",
        ),
        (
            lambda: solve(kind="network", step=-0.1),
            "step must be a finite number greater than 0, got -0.1.",
        ),
        (
            lambda: solve(kind="network", balance=np.nan),
            "balance must be a finite number greater than 0, got nan.",
        ),
        (
            lambda: solve(kind="network", batch=0),
            "batch must be a whole number, at least 1, got 0.",
        ),
    ],
)
def test_numbers_out_of_range_are_refused(call, message):
    with pytest.raises((ValueError, hkflow.CaseError), match=re.escape(message)):
        call()


@pytest.mark.parametrize("kind", ["grid", "particles", "network"])
@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan, np.inf, "1e-3", 1e-3 + 0j, None])
def test_a_tolerance_is_a_positive_number(kind, value):
    if value is None and kind != "grid":
        return  # their own
    with pytest.raises(
        ValueError,
        match=re.escape(f"tolerance must be a finite number greater than 0, got {value!r}."),
    ):
        solve(kind=kind, tolerance=value)


@pytest.mark.parametrize("kind", ["grid", "particles", "network"])
@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan])
def test_a_largest_step_is_positive(kind, value):
    with pytest.raises(
        ValueError, match=re.escape(f"max_step must be a number greater than 0, got {value}.")
    ):
        solve(kind=kind, max_step=value)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"tolerence": 1e-3},
            (
                "Unknown grid option 'tolerence'. Did you mean 'tolerance'? Choose from: cfl,"
                " end, imex, kind, "
            ),
        ),
        ({"savse": 3}, "Unknown grid option 'savse'. Did you mean 'saves'? Choose from: "),
        (
            {"kind": "particles", "noise_point": 3},
            "Unknown particles option 'noise_point'. Did you mean 'noise_points'?",
        ),
        (
            {"kind": "network", "layer": "both"},
            "Unknown network option 'layer'. Did you mean 'layers'?",
        ),
        (
            {"kind": "netwrk"},
            (
                "Unknown method 'netwrk'. Did you mean 'network'? Choose from: auto,"
                " characteristics, grid, network, particles."
            ),
        ),
    ],
)
def test_a_wrong_keyword_is_told_with_the_nearest(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        solve(**options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"limiter": ["mc"]}, "Unknown limiter '['mc']'."),
        ({"stepper": ["hancock"]}, "Unknown stepper '['hancock']'."),
        ({"kind": "particles", "stepper": ["bs3"]}, "Unknown stepper '['bs3']'."),
        ({"kind": "network", "layers": ["both"]}, "Unknown layers '['both']'."),
        ({"kind": ["grid"]}, "Unknown method '['grid']'."),
    ],
)
def test_a_list_is_no_name(options, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        solve(**options)


def test_what_is_no_problem_is_told():
    with pytest.raises(hkflow.CaseError, match="Wanted a hkflow.Problem, got 'rings.toml'"):
        hkflow.solve("rings.toml", 1.0)


def test_an_option_of_another_method_is_told_with_those_of_this():
    from hkflow.methods.choice import make_method

    with pytest.raises(ValueError, match="Unknown grid option 'noise'. Choose from: cfl, imex, "):
        make_method(problem(), "grid", noise="random")
