"""Results that are kept for each case."""

import gc
import weakref

import numpy as np

from stabdiag.model.history import History, Series, Source
from stabdiag.model.limits import Limits
from stabdiag.model.manifest import Manifest
from stabdiag.tree.case import Case
from stabdiag.tree.once import once_per_case


def make_case(loss: float) -> Case:
    steps = np.arange(40)
    series = Series(role="loss", column="loss", steps=steps, values=np.full(40, loss))
    history = History(
        series={"loss": series}, source=Source(name="run", format="memory", records=40)
    )
    return Case(history=history, manifest=Manifest(), limits=Limits())


def test_a_result_is_computed_once_for_each_case():
    calls = []

    @once_per_case
    def first_loss(case):
        calls.append(case)
        return float(case.loss.values[0])

    low, high = make_case(1.0), make_case(2.0)
    assert [first_loss(case) for case in (low, high, low, high)] == [1.0, 2.0, 1.0, 2.0]
    assert calls == [low, high]


def test_none_is_a_result():
    calls = []
    find = once_per_case(calls.append)
    case = make_case(1.0)
    assert find(case) is None
    assert find(case) is None
    assert calls == [case]


def test_a_result_does_not_keep_its_case():
    find = once_per_case(lambda case: len(case.loss))
    case = make_case(1.0)
    find(case)
    reference = weakref.ref(case)
    del case
    gc.collect()
    assert reference() is None
