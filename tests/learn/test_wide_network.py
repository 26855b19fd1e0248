"""Infinitely wide networks as estimators of scikit-learn."""

import pickle
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator

import hkflow
from hkflow import WideNetworkClassifier, WideNetworkRegressor

QUICK = {"particles": 60, "time": 30.0}
CHECKED = {"particles": 20, "time": 4.0}  # of networks that pass with the defaults, in a minute


@pytest.mark.filterwarnings("ignore:Estimator's parameters")
@pytest.mark.parametrize(
    "made",
    [WideNetworkClassifier, WideNetworkRegressor, partial(WideNetworkClassifier, loss="softmax")],
)
def test_scikit_learn_accepts_them(made):
    check_estimator(made(**CHECKED), on_skip=None)


def test_sibling_an_estimator_that_takes_any_number_of_inputs_is_refused():
    class Careless(WideNetworkClassifier):
        def _prepared(self, X):
            return self.scaler_.transform(np.asarray(X, dtype=float))

    with pytest.raises(Exception, match=r"(?i)not ?fitted|nan|expected"):
        check_estimator(Careless(**CHECKED), on_skip=None)


def blobs(n=45, classes=3):
    return make_blobs(n, centers=classes, cluster_std=0.8, random_state=3)


def test_it_is_the_flow_that_solve_computes():
    """Two classes, by hand."""
    X, y = blobs(classes=2)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    objective = hkflow.Objective(
        hkflow.FEATURES["relu"], hkflow.RISKS["logistic"], hkflow.with_bias(scaled), 2.0 * y - 1.0
    )
    points = np.tile(hkflow.quasi_uniform(30, 2), (2, 1))
    initial = hkflow.PointMeasure(points, np.repeat([1.0, -1.0], 30))
    problem = hkflow.Problem(None, objective, hkflow.Flow(1.0, 2.0), (1, -1), initial)
    wanted = hkflow.solve(problem, 30.0, kind="characteristics")
    fitted = WideNetworkClassifier(**QUICK).fit(X, y)
    h = fitted.decision_function(X)
    np.testing.assert_allclose(h, wanted.predictions[-1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(X)[:, 1], 1.0 / (1.0 + np.exp(-h)), rtol=1e-12)
    np.testing.assert_allclose(
        fitted.margin_, np.min((2.0 * y - 1.0) * h) / wanted.mass[-1], rtol=1e-12
    )


def test_more_classes_are_networks_of_one_against_the_rest():
    X, y = blobs()
    names = np.array(["setosa", "aster", "rose"])[y]
    fitted = WideNetworkClassifier(**QUICK).fit(X, names)
    assert fitted.classes_.tolist() == ["aster", "rose", "setosa"]
    h = fitted.decision_function(X)
    for k, name in enumerate(fitted.classes_):
        alone = WideNetworkClassifier(**QUICK).fit(X, names == name)
        np.testing.assert_array_equal(alone.decision_function(X), h[:, k])
    assert fitted.score(X, names) == 1.0
    p = fitted.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    assert (fitted.classes_[p.argmax(axis=1)] == fitted.predict(X)).all()


def test_permuted_names_permute_decisions():
    X, y = blobs()
    names = [np.array(list(order))[y] for order in ("abc", "cab")]
    first, second = (WideNetworkClassifier(**QUICK).fit(X, name) for name in names)
    np.testing.assert_array_equal(
        first.decision_function(X), second.decision_function(X)[:, [2, 0, 1]]
    )


def test_margin_is_positive_where_data_are_separated_alone():
    x, y = np.array([[0.0], [0.0], [1.0], [2.0]]), np.array([0, 1, 0, 1])
    assert WideNetworkClassifier().fit(x, y).margin_ <= 0.0
    assert WideNetworkClassifier().fit(x[1:], y[1:]).margin_ > 0.0


def test_smooth_margin_beyond_numbers_reaches_the_max_margin():
    """Mass e^600 and more; the max-margin is that of the linear programme."""
    x = np.array([[-1.0], [-0.2], [0.3], [1.5]])
    fitted = WideNetworkClassifier(loss="smooth-margin", particles=200, time=2000.0)
    fitted.fit(x, [0, 0, 1, 1])
    solution = fitted.solutions_[0]
    assert solution.log_mass[-1] > 600.0 and np.isfinite(fitted.decision_function(x)).all()
    gamma = hkflow.certificates.max_margin(solution.problem.objective, (1, -1))
    assert 0.98 * gamma.lower < fitted.margin_[0] <= gamma.upper
    assert not hasattr(fitted, "predict_proba")


def test_regression_in_the_units_of_its_targets():
    x = np.linspace(-1.0, 1.0, 41)[:, None]
    y = 1e3 + 50.0 * np.abs(x[:, 0])
    fitted = WideNetworkRegressor(time=100.0).fit(x, y)
    assert fitted.score(x, y) > 0.999
    shifted = WideNetworkRegressor(time=100.0).fit(3.0 * x - 1.0, -2.0 * y)
    np.testing.assert_allclose(
        shifted.predict(3.0 * x - 1.0), -2.0 * fitted.predict(x), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("activation", ["linear", "squared-relu", "joint-relu", "absolute-value"])
def test_every_activation_has_its_flow(activation):
    X, y = blobs(classes=2)
    fitted = WideNetworkClassifier(activation, particles=40, time=2.0).fit(X, y)
    assert fitted.score(X, y) == 1.0
    beta = {"linear": 2.0, "absolute-value": 2.0}.get(activation, 4.0)
    assert fitted.solutions_[0].flow == hkflow.Flow(1.0, beta)


def test_tools_of_scikit_learn_take_them():
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(MinMaxScaler(), WideNetworkClassifier(**QUICK))
    assert cross_val_score(model, X, y, cv=2).min() > 0.9
    X, y = load_wine(return_X_y=True)
    train, test, labels, wanted = train_test_split(X, y, random_state=0)
    fitted = WideNetworkClassifier(**QUICK).fit(train, labels)
    assert fitted.score(test, wanted) > 0.95
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.decision_function(test), fitted.decision_function(test))


def test_networks_pickled_by_earlier_versions_have_parameters_of_later_ones():
    """Those of a version without class_weight predicted, but neither showed nor fitted again."""
    X, y = blobs(classes=2)
    fitted = WideNetworkClassifier(**QUICK).fit(X, y)
    state = dict(fitted.__getstate__())
    del state["class_weight"]
    earlier = WideNetworkClassifier.__new__(WideNetworkClassifier)
    earlier.__setstate__(state)
    assert repr(earlier) == repr(fitted)
    np.testing.assert_array_equal(earlier.fit(X, y).predict(X), fitted.predict(X))


def test_a_subclass_that_is_pickled_has_its_own_parameters_alone():
    """Those without a default became the class inspect._empty."""

    class Named(WideNetworkClassifier):
        def __init__(self, label, **options):
            super().__init__(**options)
            self.label = label

    made = Named("first", **QUICK)
    again = Named.__new__(Named)
    again.__setstate__(made.__getstate__())
    assert vars(again) == vars(made)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_transformers_may_make_frames(kind):
    """As sklearn.set_config has it for a whole session."""
    X, y = blobs(classes=2)
    for model in (WideNetworkRegressor(time=1.0, particles=20), WideNetworkClassifier(**QUICK)):
        wanted = clone(model).fit(X, y).predict(X)
        with config_context(transform_output=kind):
            found = clone(model).fit(X, y).predict(X)
        np.testing.assert_array_equal(found, wanted)


def test_the_order_of_inputs_in_memory_changes_no_bit(rng):
    """Frames of pandas come with their columns one after another."""
    X = rng.normal(size=(60, 3))
    y = X[:, 0] * X[:, 1]
    for model, targets in (
        (WideNetworkRegressor(time=2.0, particles=20), y),
        (WideNetworkClassifier(time=2.0, particles=20), y > 0.0),
    ):
        columns, rows = (clone(model).fit(x, targets) for x in (np.asfortranarray(X), X))
        np.testing.assert_array_equal(rows.scaler_.mean_, columns.scaler_.mean_)
        np.testing.assert_array_equal(rows.predict(X), columns.predict(np.asfortranarray(X)))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"activation": "rellu"}, "Unknown activation 'rellu'. Did you mean 'relu'"),
        ({"loss": "hinge"}, "Unknown loss 'hinge'"),
        ({"loss": "square"}, "Unknown loss 'square'"),
        ({"flow": "gradient"}, "Unknown flow 'gradient'"),
        ({"flow": "output-layer"}, r"depth 2; this one, Flow\(transport=0.0, reaction=1.0, dep"),
        ({"loss": ["logistic"]}, r"Unknown loss '\['logistic'\]'. Did you mean 'logistic'"),
        ({"activation": np.tanh}, "of a function of your own take hkflow.ridge"),
        ({"class_weight": "even"}, "'class_weight' parameter"),
        ({"class_weight": {0: -1.0}}, "Weights of classes must be at least 0"),
        ({"class_weight": {0: 0.0, 1: 0.0, 2: 0.0}}, "not all 0 and not infinite, got"),
        ({"class_weight": {0: np.inf}}, r"not infinite, got \{0: inf, 1: 1.0"),
        ({"particles": 41}, "particles must be even"),
        ({"bias": "no"}, "bias must be True or False, got 'no'"),
        ({"time": 0.0}, "time must be"),
    ],
)
def test_wrong_parameters_are_sentences(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        WideNetworkClassifier(**parameters).fit(*blobs())


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="got one class alone: 7"):
        WideNetworkClassifier().fit([[0.0], [1.0]], [7, 7])


def test_a_run_that_stops_warns(monkeypatch):
    def stopped(*args, **options):
        solution = hkflow.solve(*args, **options)
        solution.end |= {"finished": False, "status": "Stopped at t = 0.5: why."}
        return solution

    monkeypatch.setattr("hkflow.learn.wide_network.solve", stopped)
    with pytest.warns(ConvergenceWarning, match="Stopped at t = 0.5: why."):
        WideNetworkRegressor(**QUICK).fit([[0.0], [1.0]], [0.0, 1.0])


def test_without_scikit_learn_a_sentence_says_what_to_install():
    code = (
        "import sys; sys.modules['sklearn'] = None; import hkflow\n"
        "try: hkflow.WideNetworkClassifier\n"
        "except ImportError as error: print(error)\n"
        "from hkflow import *"  # of what can be had
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'hkflow[data]'" in found.stdout


def test_softmax_is_one_network_with_an_output_for_each_class():
    X, y = blobs()
    fitted = WideNetworkClassifier(loss="softmax", **QUICK).fit(X, np.array(list("bca"))[y])
    (solution,) = fitted.solutions_
    assert solution.problem.objective.feature.outputs == 3 and solution.method == "particles"
    h, p = fitted.decision_function(X), fitted.predict_proba(X)
    np.testing.assert_allclose(h, solution.predictions[-1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.diff(np.log(p), axis=1), np.diff(h, axis=1), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    assert fitted.score(X, np.array(list("bca"))[y]) == 1.0
    lead = np.sort(h, axis=1)[:, -1] - np.sort(h, axis=1)[:, -2]
    np.testing.assert_allclose(fitted.margin_, [lead.min() / solution.mass[-1]], rtol=1e-10)


def test_softmax_of_two_classes_decides_by_their_difference():
    X, y = blobs(classes=2)
    fitted = WideNetworkClassifier(loss="softmax", **QUICK).fit(X, y)
    h = fitted.solutions_[0].predictions[-1]
    np.testing.assert_allclose(fitted.decision_function(X), h[:, 1] - h[:, 0], rtol=1e-10)
    p = fitted.predict_proba(X)[:, 1]
    np.testing.assert_allclose(p, 1.0 / (1.0 + np.exp(h[:, 0] - h[:, 1])), rtol=1e-10)
    with pytest.raises(ValueError, match="Unknown activation of vectors 'squared-relu'"):
        WideNetworkClassifier("squared-relu", loss="softmax").fit(X, y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("losses", [("softmax", "logistic"), ("logistic", "softmax")])
def test_a_loss_that_is_set_after_the_fit_changes_nothing_before_the_next(losses, classes):
    """What predicts is what was fitted: of a softmax of two classes one output of the two decided,
    and networks of one against the rest had probabilities of a softmax."""
    X, y = blobs(classes=classes)
    fitted = WideNetworkClassifier(loss=losses[0], **QUICK).fit(X, y)
    h, p = fitted.decision_function(X), fitted.predict_proba(X)
    fitted.set_params(loss=losses[1])
    np.testing.assert_array_equal(fitted.decision_function(X), h)
    np.testing.assert_array_equal(fitted.predict_proba(X), p)
    assert hasattr(fitted.set_params(loss="exponential"), "predict_proba")
    assert not hasattr(fitted.fit(X, y), "predict_proba")
    assert not hasattr(WideNetworkClassifier(loss=["softmax"]), "predict_proba")


@pytest.mark.parametrize("made", [WideNetworkClassifier, WideNetworkRegressor])
def test_a_fit_that_is_broken_off_leaves_the_one_before_it(made, monkeypatch):
    """Its classes and scales belonged to other networks: predictions were of neither fit."""
    X, y = blobs(classes=2)
    fitted = made(**QUICK).fit(X, y)
    wanted = fitted.predict(X)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("hkflow.learn.wide_network.solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(10.0 + X, 5 * y + 1)
    np.testing.assert_array_equal(fitted.predict(X), wanted)


@pytest.mark.parametrize("made", [WideNetworkClassifier, WideNetworkRegressor])
def test_a_fit_that_is_refused_leaves_the_number_of_inputs_too(made):
    X, y = blobs(classes=2)
    fitted = made(**QUICK).fit(X, y)
    wanted = fitted.predict(X)
    with pytest.raises(ValueError, match="whose squares are numbers"):
        fitted.fit(np.column_stack([X, 1e200 * X[:, 0]]), y)
    np.testing.assert_array_equal(fitted.predict(X), wanted)
    assert fitted.n_features_in_ == X.shape[1]


@pytest.mark.parametrize("activation", ["absolute-value", "relu"])
def test_fitted_networks_of_any_activation_can_be_pickled(activation):
    X, y = blobs(classes=2)
    fitted = WideNetworkRegressor(activation, **QUICK).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


@pytest.mark.parametrize("loss", ["logistic", "softmax", "smooth-margin"])
def test_weights_are_numbers_of_copies(loss):
    X, y = blobs(30)
    counts = np.tile([2, 0, 1], 10)
    fitted = WideNetworkClassifier(loss=loss, **QUICK).fit(X, y, 0.1 * counts)
    copies = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    copied = WideNetworkClassifier(loss=loss, **QUICK).fit(*copies)
    np.testing.assert_allclose(
        fitted.decision_function(X), copied.decision_function(X), rtol=1e-7, atol=1e-9
    )
    unlike = WideNetworkClassifier(loss=loss, **QUICK).fit(X, y)
    assert np.abs(fitted.decision_function(X) - unlike.decision_function(X)).max() > 1e-3
    for weights in (0.0 * counts, counts - 1.0):
        with pytest.raises(ValueError, match=r"(?i)sample"):
            WideNetworkClassifier(**QUICK).fit(X, y, weights)


def test_weights_of_classes_are_those_of_their_data():
    X, y = blobs(30)
    y, counts = np.array(list("abc"))[y], np.tile([2.0, 1.0, 3.0], 10)
    wanted = WideNetworkClassifier(**QUICK).fit(X, y, np.where(y == "b", 5.0, 1.0))
    fitted = WideNetworkClassifier(class_weight={"b": 5.0}, **QUICK).fit(X, y)
    h, same = wanted.decision_function(X), {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(fitted.decision_function(X), h, **same)
    even = counts / np.array([counts[y == label].sum() for label in y])
    wanted = WideNetworkClassifier(**QUICK).fit(X, y, even)
    fitted = WideNetworkClassifier(class_weight="balanced", **QUICK).fit(X, y, counts)
    np.testing.assert_allclose(fitted.decision_function(X), wanted.decision_function(X), **same)
    unlike = WideNetworkClassifier(**QUICK).fit(X, y, counts)
    assert np.abs(fitted.decision_function(X) - unlike.decision_function(X)).max() > 1e-3


@pytest.mark.parametrize("beyond", [1e200, -1e308])
def test_numbers_whose_squares_are_none_are_told(beyond):
    X, y = blobs(classes=2)
    wide = np.where(X[0, 0] == X, beyond, X)
    for made in (WideNetworkClassifier(**QUICK), WideNetworkRegressor(**QUICK)):
        with pytest.raises(ValueError, match=r"Inputs must be numbers up to 1e\+150"):
            made.fit(wide, y)
        with pytest.raises(ValueError, match=r"Inputs must be numbers up to 1e\+150"):
            made.fit(X, y).predict(wide)
    with pytest.raises(ValueError, match=r"Targets must be numbers up to 1e\+150"):
        WideNetworkRegressor(**QUICK).fit(X, beyond * y)


def test_columns_whose_squares_are_zero_are_told():
    """One passed for constant, and targets came back as rounding; smaller rows are none. A row of
    weight 0 makes no column larger."""
    X, y = blobs(classes=2)
    narrow = X * [1.0, 1e-165]
    beside, counts = np.vstack([narrow, [0.0, 1.0]]), np.append(np.ones(len(y)), 0.0)
    for made in (WideNetworkClassifier(**QUICK), WideNetworkRegressor(**QUICK)):
        with pytest.raises(ValueError, match=r"Inputs must reach 1e-150.*e-16\d\. Mul"):
            made.fit(narrow, y)
        with pytest.raises(ValueError, match="Inputs must reach 1e-150"):
            made.fit(beside, np.append(y, y[0]), counts)
        assert np.isfinite(made.fit(X * [1.0, 0.0], y).predict(1e-165 * X)).all()
    with pytest.raises(ValueError, match="Targets must reach 1e-150"):
        WideNetworkRegressor(**QUICK).fit(X, 1e-165 * y)
    model = WideNetworkRegressor(time=1.0, particles=20)
    small, wanted = X * [1.0, 1e-140], clone(model).fit(X, y).predict(X)
    np.testing.assert_allclose(clone(model).fit(small, y).predict(small), wanted, rtol=1e-12)


def test_constant_columns_of_weighted_data_are_no_warning():
    """Rounding made their variances negative, of which scikit-learn takes a root."""
    X, y = blobs(classes=2)
    constant = np.column_stack([X, np.full(len(y), 0.1)])
    counts = np.random.default_rng(0).integers(1, 5, (10, len(y)))
    model = WideNetworkRegressor(time=1.0, particles=20)
    for weights in counts.astype(float):
        found = clone(model).fit(constant, y, sample_weight=weights).predict(constant)
        copies = np.repeat(np.arange(len(y)), weights.astype(int))
        wanted = clone(model).fit(constant[copies], y[copies]).predict(constant)
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
        same = clone(model).fit(X, np.full(len(y), 0.1), sample_weight=weights).predict(X)
        np.testing.assert_allclose(same, 0.1, rtol=1e-12)


def test_weights_may_be_near_the_largest_numbers():
    """Their sum was infinite, and they were said to be all 0; one that is nothing beside them made
    a division by zero of balanced classes."""
    X, y = blobs(classes=2)
    counts = np.random.default_rng(0).integers(1, 5, len(y)).astype(float)
    model = WideNetworkClassifier(time=1.0, particles=20, class_weight="balanced")
    wanted = clone(model).fit(X, y, sample_weight=counts).decision_function(X)
    found = clone(model).fit(X, y, sample_weight=4e307 * counts).decision_function(X)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    counts = np.where(y == y[0], 1e-320, 1e10)
    with pytest.raises(ValueError, match="data of two classes"):
        model.fit(X, y, sample_weight=counts)


def test_noise_makes_particles_up_to_ten_times_as_many():
    """It made 1000 every 0.05: two millions to the default time. The grid is an independent
    answer."""
    X, y = blobs(classes=2)
    flow = hkflow.Flow(1.0, 2.0, 0.1)
    fitted = WideNetworkClassifier(flow=flow, particles=400, time=4.0).fit(X, y)
    solution = fitted.solutions_[0]
    assert solution.finished and solution.records["particles"][-1] <= 11 * 400
    made = solution.problem
    grid = hkflow.Problem(hkflow.Domain(2).mesh(2562), made.objective, made.flow, (1, -1))
    wanted = hkflow.solve(grid, 4.0).predictions[-1]
    h = fitted.decision_function(X)
    assert np.linalg.norm(h - wanted) < 0.01 * np.linalg.norm(wanted)


def test_logarithms_of_tiny_probabilities():
    X, y = blobs(classes=2)
    fitted = WideNetworkClassifier(**QUICK).fit(X, y)
    far = 1e4 * X[:2]
    h, logs = fitted.decision_function(far), fitted.predict_log_proba(far)
    assert np.abs(h).min() > 1e3
    np.testing.assert_allclose(logs.min(axis=1), -np.abs(h), rtol=1e-12)
    np.testing.assert_array_equal(np.exp(logs), fitted.predict_proba(far))
    assert not hasattr(WideNetworkClassifier(loss="exponential"), "predict_log_proba")


def test_where_decay_leaves_no_mass_predictions_are_zero():
    X, y = blobs(classes=2)
    fitted = WideNetworkClassifier(weight_decay=10.0, particles=20).fit(X, y)
    assert fitted.solutions_[0].log_mass[-1] < -700.0 and np.isfinite(fitted.margin_).all()
    np.testing.assert_array_equal(fitted.predict_proba(X), 0.5)
    fitted = WideNetworkRegressor(weight_decay=30.0, particles=20).fit(X, y)
    np.testing.assert_allclose(fitted.predict(X), y.mean())
