"""Problems that are hostile to numbers: every one runs to its end, or is refused or stopped with a
sentence that is right."""

import numpy as np

import hkflow

KINDS = ("grid", "particles", "characteristics", "network")
RATES = (
    (1.0, 4.0, 0.0),
    (1.0, 2.0, 0.0),
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 0.0),
    (1.0, 1.0, 0.1),
    (0.0, 0.0, 1.0),
    (1e-3, 1e3, 0.0),
    (1e3, 1e-3, 0.0),
    (1.0, 1.0, 10.0),
    (1e-12, 1.0, 0.0),
)
FORMULAS = (
    "where(t < 0.005, 0, 1)",
    "exp(-300*t)",
    "sin(20*t)**2",
    "1e3*t",
    "where(t > 0.3, 0, 10)",
)
MESHES = {
    2: [hkflow.circle_mesh(8), hkflow.circle_mesh(64)],
    3: [hkflow.geodesic_mesh(0), hkflow.geodesic_mesh(2)],
    4: [hkflow.Domain(3).mesh(120)],
}


def tanh(s):
    """ψ and ψ′, smooth."""
    return np.tanh(s), 1.0 / np.cosh(np.minimum(np.abs(s), 300.0)) ** 2


def leaky(s):
    """ψ and ψ′, with a kink at 0."""
    return np.where(s > 0.0, s, 0.1 * s), np.where(s > 0.0, 1.0, 0.1)


def shifted(s):
    """ψ and ψ′, with a kink elsewhere."""
    return np.maximum(s - 0.2, 0.0), 1.0 * (s > 0.2)


FEATURES = {
    **hkflow.FEATURES,
    "tanh": hkflow.ridge(tanh),
    "leaky": hkflow.ridge(leaky, degree=1),
    "shifted": hkflow.ridge(shifted, kinks=[0.2]),
}
KNOWN = {  # to methods that have not all of them
    "characteristics": ("linear", "relu", "absolute-value", "leaky"),
    "network": ("linear", "relu", "squared-relu", "absolute-value", "leaky"),
}
# of |ν| max φ: where rounding of predictions decides; a run may say there that it cannot go on
HOPELESS = 1e12
VANISHED = 1e-15  # of the mass at the start: what is left is rounding of what was


def data_of(rng, axes, classifies):
    """Inputs (n, axes) and targets (n,) with one or more hostile features, and what they are
    called."""
    n = int(rng.choice((1, 2, 3, 10, 40)))
    inputs = rng.standard_normal((n, axes))
    targets = np.where(rng.random(n) < 0.5, -1.0, 1.0) if classifies else rng.standard_normal(n)
    words = [f"n = {n}"]
    for what in rng.choice(
        (
            "plain",
            "duplicated",
            "zero vectors",
            "tiny",
            "huge",
            "mixed sizes",
            "opposite labels",
            "one line",
            "fitted",
        ),
        2,
    ):
        words.append(what)
        if what == "duplicated":
            inputs, targets = np.repeat(inputs, 3, axis=0), np.repeat(targets, 3)
        elif what == "zero vectors":
            inputs[rng.random(len(inputs)) < 0.5] = 0.0
        elif what == "tiny":
            inputs *= 10.0 ** rng.choice((-150.0, -20.0, -8.0))
        elif what == "huge":
            inputs *= 10.0 ** rng.choice((150.0, 20.0, 4.0))
        elif what == "mixed sizes":
            inputs *= 10.0 ** rng.uniform(-8.0, 2.0, (len(inputs), 1))
        elif what == "opposite labels":
            inputs, targets = np.concatenate([inputs, inputs]), np.concatenate([targets, -targets])
        elif what == "one line":
            inputs = np.outer(rng.standard_normal(len(inputs)), inputs[0])
        elif what == "fitted" and not classifies:
            targets = np.zeros(len(inputs))
    return inputs, targets, words


def weights_of(rng, n):
    """Weights (n,) of the data, or None, and what they are called."""
    what = rng.choice(("equal", "none at all", "some zero", "1e-300 … 1"), p=(0.7, 0.1, 0.1, 0.1))
    weights = rng.random(n) * {"none at all": 0.0, "some zero": rng.random(n) < 0.5}.get(what, 1.0)
    weights = 10.0 ** rng.uniform(-300.0, 0.0, n) if what.startswith("1e") else weights
    return None if what == "equal" else weights, f"weights {what}"


def start_of(rng, mesh, n_signs):
    """An initial density (n_signs, n_cells), and what it is called."""
    what = rng.choice(("uniform", "one cell", "1e-300 … 1e300", "tiny mass", "large mass", "holes"))
    density = np.full((n_signs, mesh.n_cells), 1.0 / mesh.volumes.sum())
    if what == "one cell":
        density[:] = 0.0
        density[0, rng.integers(mesh.n_cells)] = 1.0 / mesh.volumes[0]
    elif what == "1e-300 … 1e300":
        density = 10.0 ** rng.uniform(-300.0, 0.0, density.shape)
        density *= 10.0 ** rng.choice((0.0, 20.0))
    elif what == "tiny mass":
        density *= 1e-30
    elif what == "large mass":
        density *= 1e6
    elif what == "holes":
        density[rng.random(density.shape) < 0.7] = 0.0
    return density, str(what)


def flow_of(rng, kind, feature, risk):
    """A flow, which networks choose themselves."""
    rates = RATES[rng.integers(len(RATES))]
    if kind == "network":
        rates = (1.0, 4.0 if feature == "squared-relu" else 2.0, 0.0)
    elif kind == "characteristics":
        rates = (*rates[:2], 0.0)
    if kind in KINDS[:2] and rng.random() < 0.15:
        rates = list(rates)
        rates[rng.integers(2 if kind == "particles" else 3)] = str(rng.choice(FORMULAS))
    words = {}
    if "margin" in risk and not rates[2] and rng.random() < 0.3:
        words["time_variable"] = "margin"
    if kind != "network" and rng.random() < 0.2:
        words["drive"] = "probability"
    return hkflow.Flow(*rates, **words)


def options_of(rng, kind, entropy):
    """Options of a method, which hurt in many ways and not by being unknown."""
    chosen = {}

    def now_and_then(share, name, value):
        if rng.random() < share:
            chosen[name] = value

    now_and_then(0.4, "tolerance", float(10.0 ** rng.uniform(-9.0, -1.0)))
    now_and_then(0.2, "max_step", float(10.0 ** rng.uniform(-4.0, 0.0)))
    if kind != "network":
        now_and_then(0.3, "imex", str(rng.choice(("explicit", "implicit", "auto"))))
    if kind == "grid":
        limiters = ("mc", "minmod", "ultimate", "van-leer", "koren", "first-order")
        now_and_then(0.3, "limiter", str(rng.choice(limiters)))
        if "limiter" not in chosen:
            now_and_then(0.3, "reconstruction", "quadratic")
    if kind == "particles":
        now_and_then(0.3, "stepper", str(rng.choice(("auto", "dopri5", "dop853"))))
        now_and_then(0.3, "noise", "random")
        chosen["noise_points"] = 20  # each time, or particles become too many
        now_and_then(0.3, "noise_interval", float(rng.choice((1e-3, 0.05, 10.0))))
        if entropy:
            chosen["max_step"] = float(10.0 ** rng.uniform(-4.0, -1.0))
    return chosen


def one(seed):
    """Solve a hostile problem. Returns how it ended, "completed", "refused" or "stopped", its name,
    and what is wrong or None."""
    name, solution, few = solved(seed)
    if not isinstance(solution, hkflow.Solution):
        right = str(solution).rstrip().endswith(".")
        return "refused", name, None if right else f"a message without an end: {solution}"
    how = "completed" if solution.finished else "stopped"
    if solution.problem.objective.entropy and solution.method == "particles":
        return how, name, None  # which move at random
    return how, name, (faults if solution.finished else stopped)(solution, few.slack)


def solved(seed):
    """A hostile problem's name, its Solution or the error that refused it, and the Few."""
    rng = np.random.default_rng(seed)
    axes, kind = int(rng.choice((2, 3, 4))), str(rng.choice(KINDS))
    risk = str(rng.choice((*hkflow.RISKS, "softmax")))
    vectors = risk == "softmax"  # of 3 outputs, on a sphere that no mesh covers
    kind = "particles" if vectors else kind
    feature = str(rng.choice(("linear", "relu") if vectors else KNOWN.get(kind, tuple(FEATURES))))
    inputs, targets, words = data_of(rng, axes - (feature == "joint-relu"), risk != "square")
    mesh = MESHES[axes][rng.integers(len(MESHES[axes]))]
    one_sign = feature == "joint-relu" or vectors or kind != "network" and rng.random() < 0.3
    signs = (1,) if one_sign else (1, -1)
    density, start = start_of(rng, mesh, len(signs))
    weights, weighing = weights_of(rng, len(targets))
    flow, end = flow_of(rng, kind, feature, risk), float(rng.choice((1e-12, 0.01, 1.0)))
    entropy = 10.0 ** rng.uniform(-3.0, 1.0) if kind in KINDS[:2] and rng.random() < 0.1 else 0.0
    options, decay = options_of(rng, kind, entropy), float(rng.choice((0.0, 0.0, 0.01, 10.0)))
    name = ", ".join(
        [
            f"seed {seed}", f"S^{axes - 1}", feature, risk, *words, weighing, start, f"{flow}",
            kind, f"{options}", f"τ = {entropy:.2g}", f"λ = {decay}", f"t = {end:g}",
        ]
    )  # fmt: skip
    few = Few()
    try:
        with np.errstate(all="ignore"):
            if vectors:
                mesh, targets = None, rng.integers(3, size=len(targets))
                points = hkflow.quasi_uniform(20, axes + 2)
                density = hkflow.PointMeasure(points, np.ones(20), 10.0 ** rng.uniform(-3, 1, 20))
            objective = hkflow.Objective(
                hkflow.vector_feature(feature, 3) if vectors else FEATURES[feature],
                hkflow.SOFTMAX if vectors else hkflow.RISKS[risk],
                inputs,
                targets,
                weights,
                weight_decay=decay,
                entropy=entropy,
            )
            problem = hkflow.Problem(mesh, objective, flow, signs, density)
            solution = hkflow.solve(problem, end, kind=kind, observers=(few,), **options)
    except (ValueError, hkflow.HkflowError) as error:
        return name, error, few
    return name, solution, few


class Few(hkflow.Observer):
    """Ends a run after some steps: stiff ones need many, each of which is guarded like the
    first.

    slack : of the energy that was exchanged, what the method may give back
    """

    STEPS = 400

    def __init__(self):
        self.steps, self.slack = 0, 0.0

    def step(self, method, clock):
        self.steps += 1
        self.slack = method.energy_slack * clock.budget["energy_exchanged"]

    def stop(self):
        return "Enough steps" if self.steps >= self.STEPS else None


def faults(solution, slack=0.0):
    """What is wrong with a run that ended, or None; slack as of Few."""
    records = solution.records
    for name in ("objective", "mass", "log_mass"):
        if np.isnan(records[name]).any():
            return f"{name} is nan"
    # in plain units they may be beyond numbers
    if not np.isfinite(solution.scaled_predictions).all():
        return "predictions are not finite"
    rising = np.diff(records["objective"] * np.exp(np.minimum(records["log_scale"], 600.0)))
    objective, mass = solution.problem.objective, records["mass"].max()
    size = mass * objective.largest_feature
    slope = 1.0 if objective.risk.classifies else size + np.abs(objective.targets).max()
    allowed = (
        1e-6 * np.abs(records["objective"]).max()
        + 1e-12 * (size + objective.weight_decay * mass) * slope
        + (1e-14 * size) ** 2  # of a loss that is curved where predictions are rounded
        + slack
    )
    if (
        solution.problem.flow.noise == 0.0
        and (records["log_scale"] == 0.0).all()
        and (rising > allowed).any()
    ):
        return f"the objective rose by {rising.max():.3g}"
    return None


def stopped(solution, slack):
    """What is wrong with the way a run stopped, or None: numbers that ran out are no fault of the
    run."""
    if solution.status.startswith("Enough steps"):
        return faults(solution, slack)
    reasons = (
        "not finite",
        "not both finite",
        "beyond",
        "is inf",
        "is nan",
        "overflow",
        "too large",
        "so large",
        "rounding",
        "loses",
        "coupling through the data",
        "margin does not grow",
        "no mass is left",
        "in a row were tiny",
    )
    if any(reason in solution.status for reason in reasons):
        return None
    objective = solution.problem.objective
    # networks have explicit steps alone, as short as 1 / (|ν| max φ²)
    power = 2.0 if solution.method == "network" else 1.0
    masses = np.exp(solution.records["log_mass"])
    size = objective.largest_feature**power * (1.0 + masses[0])
    hopeless = size > HOPELESS or masses[-1] < VANISHED * masses[0]
    if solution.problem.flow.time_variable == "margin":  # clocks may stand still, or in rounding
        hopeless |= objective.weight_decay > 0.0 or size * np.finfo(float).eps > solution.time[-1]
    return None if hopeless else f"stopped: {solution.status}"


def campaign(tries, first=0, told=lambda done: None):
    """Solve so many problems; returns how many ended in which way, and {name: fault}."""
    ends, wrong = {}, {}
    for seed in range(first, first + tries):
        try:
            how, name, fault = one(seed)
        except Exception as error:
            how, name, fault = "broken", f"seed {seed}", f"{type(error).__name__}: {error}"
        ends[how] = ends.get(how, 0) + 1
        if fault:
            wrong[name] = fault
        told(seed - first + 1)
    return ends, wrong
