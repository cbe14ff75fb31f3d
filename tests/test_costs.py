"""`make test` takes as many parameter sets of an expensive function as it can afford."""

import itertools
from pathlib import Path

from tests.support.costs import FUNCTION_SECONDS, LEAST_SECONDS, RECORDED, affordable, expensive, recorded
from tests.support.durations import file_of

ROOT = Path(__file__).resolve().parents[1]


def test_chosen_sets_have_each_value_if_they_can() -> None:
    rows = [frozenset({("a", x), ("b", y)}) for x, y in itertools.product("123", "xyz")]
    assert set().union(*(rows[number] for number in affordable(rows, 3))) == set().union(*rows)
    assert affordable(rows, 100) == set(range(9))


def test_sets_of_one_parameter_are_chosen_from_the_whole_range() -> None:
    assert affordable([frozenset({("a", str(number))}) for number in range(9)], 3) == {0, 4, 8}


def test_functions_of_several_sets_are_expensive_by_their_sum() -> None:
    each = FUNCTION_SECONDS / 2
    tests = {f"t.py::a[{n}]": each for n in range(3)} | {"t.py::b": 99.0, "t.py::c[1]": 0.1, "t.py::c[2]": 0.1}
    assert expensive(tests) == {"t.py::a": each}
    assert expensive(tests, known={"t.py::c"}) == {"t.py::a": each, "t.py::c": 0.1}


def test_functions_of_many_quick_sets_have_a_cost() -> None:
    assert expensive({f"t.py::a[{n}]": FUNCTION_SECONDS / 5000 for n in range(6000)}) == {"t.py::a": LEAST_SECONDS}


def test_recorded_functions_exist() -> None:
    gone = [name for name in recorded(RECORDED) if not (ROOT / file_of(name)).exists()]
    assert not gone, "record again: python -m tests.support.durations report.xml --record"
