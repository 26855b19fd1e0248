"""Stages in which a second process compiles the kernels of a run: which ones a run wants, in the
order in which it wants them, and the calls that compile each."""

from collections.abc import Callable

import numpy as np

from ..certificates.certificate import certifies_margin
from ..certificates.gap import bounds_every_gap
from ..certificates.global_upper_bound import global_upper_bound
from ..certificates.search import local_maxima
from ..measures.point_measure import PointMeasure
from ..methods.rules import many_kinks
from ..objectives.activations import feature_named, is_built_in
from ..objectives.losses import RISKS
from ..objectives.objective import Objective
from ..operators.dense import SMALL, blocked
from ..problem.flow import Flow
from ..problem.problem import Problem
from ..solving.final_margin import seeks_max_margin
from ..solving.predicting import BLOCK, predictions_of

STEP, SLIDING, HELD, IMPLICIT = "step", "sliding", "held", "implicit"
BOUND, MAX_MARGIN, PICTURE, PREDICTIONS = "bound", "max_margin", "picture", "predictions"
# what a process compiles itself while it waits for a stage, by the kind of method, for runs that
# seek the max-margin
MEANWHILE = {
    "characteristics": {STEP: [HELD, IMPLICIT], MAX_MARGIN: [PICTURE, PREDICTIONS]},
    "particles": {SLIDING: [IMPLICIT, MAX_MARGIN]},
}


def order_for(
    problem: Problem,
    kind: str,
    stepper: str = "auto",
    proves: bool = True,
    tolerance: float | None = None,
) -> tuple[str, int, list[str]]:
    """What a second process compiles for a run by a kind of method: the name of the feature, axes
    of the inputs, and stages.

    stepper, tolerance : of particles;  proves : whether the run may take time for the max-margin
    """
    objective = problem.objective
    feature, axes = objective.feature, objective.inputs.shape[1]
    stages = [STEP, PICTURE, PREDICTIONS] if kind == "characteristics" else []
    if kind == "grid":
        from ..methods.grid.capture import captures

        stages = [STEP] if captures(problem) else []  # by the kernels of characteristics
    if kind == "particles" and stepper in ("auto", "sliding") and objective.entropy == 0.0:
        from ..methods.particles.ode import default_tolerance

        many = many_kinks(feature.outputs, tolerance or default_tolerance(objective))
        few = 0 < len(objective.inputs) < many or stepper == "sliding"
        stages = [SLIDING] if few and problem.flow.transport > 0.0 and feature.kink else []
    if certifies_margin(problem) and not problem.domain.fixed:
        # the bound is wanted with the first record, late where a grid's sums are to be compiled; of
        # several outputs it takes longest, and is late as well
        of_margins = [BOUND] if kind == "grid" or feature.outputs > 1 else []
        if proves and seeks_max_margin(problem):
            of_margins.append(MAX_MARGIN)
        stages[1:1] = of_margins
    if BOUND not in stages and bounds_every_gap(problem):
        stages.append(BOUND)  # for the summary
    return feature.name, axes, stages if is_built_in(feature) else []


def compile_stage(stage: str, name: str, axes: int) -> None:
    """Call the kernels of a stage, for a built-in feature and inputs of so many axes."""
    COMPILE[stage](feature_named(name), np.eye(1, axes))


def _steps(feature, inputs):
    from ..methods.frozen_relu.kinks import Kinks
    from ..methods.frozen_relu.movement import Movement

    move = Movement(Kinks.of(feature, inputs), 1)
    before, after = ((blocked(inputs), np.zeros(1), np.zeros(1, dtype=np.int64)) for _ in range(2))
    move(before, np.ones(1), np.zeros(1), Flow(1.0, 1.0), 0.0, 0.0, 0.0, after)


def _sliding_steps(feature, inputs):
    from ..methods.particles.shifted import kinks_of
    from ..methods.particles.waveform import NODES, Sliding

    kinks, outputs = kinks_of(feature, inputs), feature.outputs
    move, drive = Sliding(kinks, feature.joint, 1, outputs), (np.ones((len(NODES), outputs)), NODES)
    points = blocked(np.ones((1, inputs.shape[1] + feature.joint * outputs)))
    nodes = NODES[1:]
    out = np.zeros((len(nodes), *points.shape)), np.zeros((len(nodes), 1))
    move((points, np.zeros(1)), np.ones(1), drive, (1.0, 1.0, 0.0, 0.0), 1.0, 0.0, nodes, out)


def _coupling_of_held(feature, inputs):
    from ..methods.frozen_relu.tangent_gram import held_coupling

    one_held = np.ones((2, inputs.shape[1])), np.ones(2), np.arange(2) == 1
    held_coupling(_datum(feature, inputs), inputs, *one_held, Flow(1.0, 1.0))


def _implicit_steps(feature, inputs):
    from ..methods.stepping.implicit_loss_gradients import Coupling

    coupling = Coupling.stored(_datum(feature, inputs), 0.0, np.eye(1))
    coupling.solve(1.0, np.zeros(1), -np.ones(1))


def _datum(feature, inputs):
    return Objective(feature, RISKS["smooth-margin"], inputs, np.ones(1))


def _bound(feature, inputs):
    global_upper_bound(feature, inputs, np.ones(feature.outputs))


def _max_margin(feature, inputs):
    import scipy.optimize  # noqa: F401

    from ..certificates import column_generation  # noqa: F401

    local_maxima(feature, inputs, np.ones(feature.outputs), share=0.5)


def _backward_paths(feature, inputs):
    from ..methods.characteristics.backward import followed_back
    from ..methods.characteristics.history import History
    from ..methods.frozen_relu.kinks import Kinks

    kinks, nothing = Kinks.of(feature, inputs), History(np.zeros((1, 3)))
    followed_back(kinks, nothing, Flow(1.0, 1.0), 0.0, inputs, 1.0)


def _predictions(feature, inputs):
    """So many that threads share them."""
    axes = inputs.shape[1]
    units = PointMeasure(np.ones((SMALL // BLOCK, axes + feature.joint)))
    predictions_of(feature, units, np.zeros((BLOCK, axes)))


COMPILE: dict[str, Callable] = {
    STEP: _steps,
    SLIDING: _sliding_steps,
    HELD: _coupling_of_held,
    IMPLICIT: _implicit_steps,
    BOUND: _bound,
    MAX_MARGIN: _max_margin,
    PICTURE: _backward_paths,
    PREDICTIONS: _predictions,
}
