"""Cases made at random of what the schema offers, small enough to run to their end: each is refused
with a sentence, or runs and has error bars, every picture, pages, exports, and resumes."""

import random
import shutil
import tempfile
import warnings
from pathlib import Path

import hkflow
from hkflow.app.report import write_report

from .fuzz import ROOT, Hang, time_limit
from .shown import views

SECONDS = 120  # of a run, or of all that is asked of it; what is compiled counts
LOSSES = ("square", "logistic", "exponential", "smooth-margin", "smooth-logistic-margin")
ACTIVATIONS = ("relu", "relu", "squared-relu", "linear", "absolute-value", "joint-relu")
CELLS = {1: (16, 64), 2: (42, 162), 3: (120,)}  # by the dimension of the sphere
FLOWS = (
    *("wasserstein", "hellinger-kantorovich", "hellinger-kantorovich", "hellinger", "perturbed"),
    *("spherical-hellinger-kantorovich", "spherical-hellinger", "diagonal", "output-layer"),
)
ENERGIES = (
    {"kind": "external", "potential": "x*y"},
    {"kind": "interaction", "kernel": "linear", "strength": -1.0},
    {"kind": "interaction", "kernel": "gaussian", "width": 0.5, "strength": 0.5},
)


def vector(rng, size):
    """A Gaussian one, with few digits."""
    return [round(rng.gauss(0.0, 1.0), 2) for _ in range(size)]


def data_of(rng, dim, inputs, objective):
    """A table [data] with so many inputs where it can have them; may change the objective's."""
    source, classes = rng.choice(SOURCES), objective["loss"] != "square"
    data = {"source": source}
    if source == "inline":
        n = rng.choice((1, 2, 5, 9))
        data["inputs"] = [vector(rng, inputs) for _ in range(n)]
        data["targets"] = rng.choices((1.0, -1.0), k=n) if classes else vector(rng, n)
        if rng.random() < 0.2:
            data["weights"] = [round(rng.random(), 2) for _ in range(n)]
    elif source == "teacher":
        data |= {"n": rng.choice((3, 10)), "dim": inputs, "units": rng.choice((1, 3))}
        data |= {"classify": True} if classes else {}
    elif source in ("xor", "parity"):
        data |= {"n": 12, "dim": max(2, inputs)}
    elif source == "cluster-grid":
        data |= {"n": rng.choice((10, 30)), "dim": max(2, inputs), "clusters": rng.choice((2, 3))}
    elif source == "file":
        columns = ["petal_length", "sepal_length"][: max(1, min(2, inputs))]
        data |= {"file": "iris.csv", "label": "species", "features": columns}
        data |= {"standardize": rng.random() < 0.5}
        data |= {"test_fraction": 0.25} if rng.random() < 0.3 else {}
        if not classes:
            data["label"] = "petal_width"
        elif rng.random() < 0.5:
            data |= {"positive": ["setosa"], "negative": ["virginica", "versicolor"]}
        else:
            objective["loss"] = "softmax"
    elif source == "moment":
        data |= {"direction": vector(rng, dim + 1), "target": rng.choice((0.5, 2.0))}
        objective |= {"activation": "linear", "loss": "square", "bias": False}
    elif source == "population":
        data |= {"units": 2, "dim": dim + 1}
        objective |= {"activation": "relu", "loss": "square", "bias": False}
    elif source == "scikit-learn":
        data |= {"name": "diabetes", "components": max(1, min(2, inputs)), "standardize": True}
        objective["loss"] = "square"
    return data


SOURCES = (
    *("inline", "inline", "teacher", "teacher", "xor", "cluster-grid", "parity", "file", "file"),
    *("moment", "population", "none", "scikit-learn"),
)


def method_of(rng):
    """A table [method], or {}."""
    kind = rng.choice(
        ("grid", "grid", *("particles", "network") * 2, "characteristics", "auto", "")
    )
    table = {"kind": kind} if kind else {}
    more = {
        "particles": {
            "particles": (10, 60),
            "points": ("quasi-uniform", "random", "gaussian", "mesh", None, None),
            "stepper": ("dopri5", "dop853", "euler", *[None] * 6),
            "imex": ("implicit", "explicit", *[None] * 6),
        },
        "characteristics": {
            "particles": (10, 60),
            "points": ("quasi-uniform", "random", "mesh", *[None] * 4),
        },
        "network": {
            "layers": ("both", "both", "both", "output", "normalized", "radii", "diagonal"),
            "training": ("gradient-flow", "gradient-flow", "gradient-descent", "sgd"),
            "units": (1, 8, 30),
            "points": ("quasi-uniform", "random", "gaussian", "mesh", *[None] * 4),
            "repeats": (2, *[None] * 4),
            "balance": (2.0, *[None] * 4),
        },
        "grid": {
            "stepper": ("muscl-hancock", "ssprk1", "ssprk2", "ssprk3", "strang", *[None] * 10),
            "limiter": ("mc", "van-leer", "koren", "ultimate", "first-order", *[None] * 20),
            "reconstruction": ("quadratic", *[None] * 9),
            "imex": ("implicit", "explicit", *[None] * 8),
        },
    }
    chosen = {key: rng.choice(values) for key, values in more.get(kind, {}).items()}
    table |= {key: value for key, value in chosen.items() if value is not None}
    if table.get("points") == "mesh" or table.get("layers") == "diagonal":
        table.pop("particles", None), table.pop("units", None)
    if table.get("layers") == "diagonal":
        table.pop("points", None)
    if table.get("training", "gradient-flow") != "gradient-flow":
        table["step"] = rng.choice((0.01, 0.1))
        table |= {"batch": 3} if table["training"] == "sgd" else {}
    return table


def case_of(rng):
    """The tables of a case, right or wrong."""
    dim, bias = rng.choice((1, 2, 2, 3)), rng.random() < 0.5
    objective = {"activation": rng.choice(ACTIVATIONS), "bias": bias, "loss": rng.choice(LOSSES)}
    joint = objective["activation"] == "joint-relu"
    data = data_of(rng, dim, max(1, dim + 1 - bias - joint), objective)
    case = {"data": data, "objective": objective, "domain": {"kind": "signed-sphere"}}
    if rng.random() < 0.15 and "margin" not in objective["loss"]:
        objective["weight_decay"] = rng.choice((0.01, 1.0))
    if data["source"] == "none" or rng.random() < 0.08:
        case["energy"] = [rng.choice(ENERGIES)]
    case["method"] = method = method_of(rng)
    kind, domain = method.get("kind"), case["domain"]
    if rng.random() < 0.15 or joint or objective["loss"] == "softmax":
        domain["kind"] = "sphere"
    if objective["loss"] == "softmax":
        objective["activation"] = rng.choice(("relu", "linear"))
    if rng.random() < 0.1 or method.get("layers") == "diagonal":
        domain["kind"] = "fixed-features"
        objective |= {"activation": "linear", "bias": False}
    elif kind in (None, "grid", "auto") or method.get("points") == "mesh":
        domain["cells"] = rng.choice(CELLS[dim])
    if data["source"] == "none":
        del case["data"], case["objective"]
        domain["dim"] = dim
    if kind != "network" or rng.random() < 0.1:
        flow = case["flow"] = {"kind": rng.choice(FLOWS)}
        if flow["kind"] == "perturbed" or rng.random() < 0.1:
            flow["noise"] = rng.choice((0.01, "0.1*exp(-t)"))
        if domain["kind"] == "fixed-features":
            case["flow"] = {"kind": "diagonal", "depth": rng.choice((1, 2, 3))}
        elif rng.random() < 0.1:
            case["flow"] = {"transport": "1/(1+t)", "reaction": rng.choice((0.0, 2.0, "exp(-t)"))}
    starts = (
        {"kind": "uniform", "mass": rng.choice((0.1, 5.0))},
        {"kind": "von-mises-fisher", "centers": [vector(rng, dim + 1)], "concentration": 3.0},
        {"kind": "expression", "density": "1+x*x"},
        {"kind": "points", "positions": [vector(rng, dim + 1) for _ in range(6)]},
        {"kind": "caps", "centers": [vector(rng, dim + 1)], "radius": 1.0},
        {"kind": "zero"},
        {"kind": "scaled", "scale": rng.choice((0.1, 3.0))},
        {"kind": "balanced"},
    )
    if rng.random() < 0.35:
        case["initial"] = rng.choice(starts)
        if case["initial"]["kind"] == "points":
            method.pop("particles", None), method.pop("units", None)
    time = case["time"] = {"end": rng.choice((0.02, 0.3, 1.0))}
    if rng.random() < 0.5:
        time["saves"] = rng.choice((2, 5, [0.0, 0.01, time["end"]]))
    if rng.random() < 0.1 and "margin" in objective["loss"]:
        time["until_margin"] = 0.5
    if rng.random() < 0.3:
        time["records"] = rng.choice((0.05, 0.01))
    case["error"] = {"companions": rng.choice(("all", "all", "all", "own", "none"))}
    case["seed"], case["certificate"] = rng.randrange(100), {"seconds": 0.2}
    return case


def asked(case, folder):
    """(what, function) of a run and all that is asked of it, in order."""
    out = folder / "run"
    yield "run", lambda: hkflow.run(case, output=out, force=True, quiet=True)
    kept = hkflow.load(out)
    yield from views(kept, folder)
    for format in ("csv", "vtk"):
        yield format, lambda format=format: hkflow.export(kept, format, output=folder / "exported")
    yield "report", lambda: write_report([kept], folder / "report.html")
    yield "page", lambda: hkflow.page(kept, folder / "view.html")
    yield "resume", lambda: hkflow.resume(out)


def one(seed, folder):
    """Run the case of a seed and ask all of it; returns what is wrong, or None. The folder holds
    the data file."""
    case = case_of(random.Random(seed))
    if "file" in case.get("data", {}):
        case["data"]["file"] = str(folder / "iris.csv")
    try:
        with time_limit(SECONDS):
            hkflow.check(case)
        for what, ask in asked(case, folder):
            try:
                with warnings.catch_warnings(), time_limit(SECONDS):
                    warnings.simplefilter("error")
                    ask()
            except (hkflow.HkflowError, ValueError) as error:
                if not str(error).rstrip().endswith((".", ")", "'")):
                    return f"{what}: a message without an end: {error}; {case}"
                if what == "run":  # its method does not fit
                    return None
            except Hang:
                return f"{what}: no answer within {SECONDS} s; {case}"
            except Exception as error:
                return f"{what}: {type(error).__name__}: {error}; {case}"
    except hkflow.CaseError:
        return None
    return None


def campaign(tries, first=0, told=lambda done: None):
    """Run so many cases; returns {seed: fault}."""
    faults = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copy(ROOT / "cases" / "quickstart" / "iris.csv", folder)
        for seed in range(first, first + tries):
            if fault := one(seed, folder):
                faults[seed] = fault
            told(seed - first + 1)
    return faults
