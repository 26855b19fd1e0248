"""What is remembered of an object goes with it."""

import gc
import weakref

import numpy as np

import hkflow
from hkflow.certificates.contradiction import contradiction
from hkflow.certificates.global_upper_bound import global_upper_bound
from hkflow.remembered import remembered


def test_it_is_computed_once_for_the_same_object_among_the_latest():
    asked = []

    @remembered(most=2)
    def total(values):
        asked.append(id(values))
        return values.sum()

    one, two, three = (np.full(3, float(k)) for k in range(3))
    assert [total(v) for v in (one, two, one, one.copy(), one)] == [0.0, 3.0, 0.0, 0.0, 0.0]
    assert asked.count(id(one)) == 1 and len(asked) == 3
    assert [total(three), total(two), total(one)] == [6.0, 3.0, 0.0]  # one was pushed out
    assert asked.count(id(one)) == 2


def test_another_object_in_the_same_place_is_another():
    found = remembered(most=4)(lambda values: values[0])
    for k in range(100):
        assert found(np.full(1000, float(k))) == k


def test_data_that_were_searched_are_let_go(rng):
    relu = hkflow.FEATURES["relu"]
    inputs = rng.normal(size=(50, 3))
    objective = hkflow.Objective(relu, hkflow.RISKS["logistic"], inputs, np.sign(inputs[:, 0]))
    assert contradiction(objective) is None
    global_upper_bound(relu, inputs, inputs[:, 0])
    gone = weakref.ref(objective), weakref.ref(inputs)
    del objective, inputs
    gc.collect()
    assert [one() for one in gone] == [None, None]
