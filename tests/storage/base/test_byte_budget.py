"""A byte budget admits a few pieces of work of any weight, more while all are light, and none once it is closed."""

import threading
from collections.abc import Sequence

import pytest

from interbed.storage.base.prefetch import BudgetClosedError, ByteBudget
from tests.support.waits import at_most

SECONDS_MAX = at_most(60)


class PiecesOfWork:
    """Pieces of work in threads of their own, each of which continues at a signal."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._begun = threading.Condition()
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []
        self.running: list[int] = []
        self.refused: list[int] = []

    def add(self, weights: Sequence[int]) -> None:
        for weight in weights:
            self._threads.append(threading.Thread(target=self._do, args=(weight,)))
            self._threads[-1].start()

    def wait_for(self, count: int) -> None:
        with self._begun:
            assert self._begun.wait_for(lambda: len(self.running) == count, SECONDS_MAX)

    def end(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(SECONDS_MAX)
            assert not thread.is_alive()

    def _do(self, weight: int) -> None:
        try:
            with self._budget.reserve(weight):
                with self._begun:
                    self.running.append(weight)
                    self._begun.notify_all()
                assert self._end.wait(SECONDS_MAX)
        except BudgetClosedError:
            self.refused.append(weight)


@pytest.mark.parametrize("weights", [[100, 200], [3, 3, 4]])
def test_a_few_pieces_may_have_any_weight_and_more_are_admitted_while_all_are_light(weights: list[int]) -> None:
    work = PiecesOfWork(ByteBudget(2, 10))
    work.add(weights)
    work.wait_for(len(weights))
    assert sorted(work.running) == weights
    work.end()


@pytest.mark.parametrize(("weights", "more"), [([100, 1], 1), ([4, 4], 3)])
def test_work_beyond_the_budget_waits_until_it_is_admitted(weights: list[int], more: int) -> None:
    budget = ByteBudget(2, 10)
    work = PiecesOfWork(budget)
    work.add(weights)
    work.wait_for(2)
    late = PiecesOfWork(budget)
    late.add([more])
    assert late.running == []
    work.end()
    late.wait_for(1)
    late.end()


def test_no_work_begins_once_the_budget_is_closed() -> None:
    budget = ByteBudget(1, 0)
    work = PiecesOfWork(budget)
    work.add([5])
    work.wait_for(1)
    late = PiecesOfWork(budget)
    late.add([6, 7])
    budget.close()
    late.end()
    assert sorted(late.refused) == [6, 7]
    work.end()
    with pytest.raises(BudgetClosedError), budget.reserve(0):
        pass
