"""Room for work: a few pieces of any weight, more while all are light, none once it is closed."""

import threading
from collections.abc import Sequence

import pytest

from interbed.storage.base.byte_budget import BudgetClosedError, ByteBudget

SECONDS_MAX = 60


class Work:
    """Pieces of work in threads of their own, which go on when they are told to."""

    def __init__(self, room: ByteBudget) -> None:
        self._room = room
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
            with self._room.reserve(weight):
                with self._begun:
                    self.running.append(weight)
                    self._begun.notify_all()
                assert self._end.wait(SECONDS_MAX)
        except BudgetClosedError:
            self.refused.append(weight)


@pytest.mark.parametrize("weights", [[100, 200], [3, 3, 4]])
def test_a_few_pieces_may_weigh_anything_and_more_are_done_while_all_are_light(weights: list[int]) -> None:
    work = Work(ByteBudget(2, 10))
    work.add(weights)
    work.wait_for(len(weights))
    assert sorted(work.running) == weights
    work.end()


@pytest.mark.parametrize(("weights", "more"), [([100, 1], 1), ([4, 4], 3)])
def test_what_has_no_room_waits_and_begins_once_there_is_some(weights: list[int], more: int) -> None:
    room = ByteBudget(2, 10)
    work = Work(room)
    work.add(weights)
    work.wait_for(2)
    late = Work(room)
    late.add([more])
    assert late.running == []
    work.end()
    late.wait_for(1)
    late.end()


def test_nothing_begins_once_it_is_closed() -> None:
    room = ByteBudget(1, 0)
    work = Work(room)
    work.add([5])
    work.wait_for(1)
    late = Work(room)
    late.add([6, 7])
    room.close()
    late.end()
    assert sorted(late.refused) == [6, 7]
    work.end()
    with pytest.raises(BudgetClosedError), room.reserve(0):
        pass
