"""Usage of worker time by tables, compared with a model that keeps all intervals."""

from collections.abc import Iterator
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from interbed.optimizer.flow.process import TaskRef
from interbed.optimizer.scheduling.table_queues import Usage

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "finish", "add", "ask", "forget"]),
        st.sampled_from("ab"),
        st.integers(0, 40),
        st.integers(0, 60),
    ),
    max_size=60,
)
WINDOW = 100


def ref(number: int) -> TaskRef:
    """Return a reference to an attempt."""
    return TaskRef(process="p", number=number, attempt=1)


@given(steps=STEPS)
def test_usage_counts_the_time_within_the_window(steps: list[tuple[str, str, int, int]]) -> None:
    usage, numbers, now = Usage(), count(), 1_000
    ended: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
    running: dict[str, dict[int, int]] = {"a": {}, "b": {}}

    def spans(table: str) -> Iterator[tuple[int, int]]:
        yield from ended[table]
        yield from ((start, now) for start in running[table].values())

    for step, table, passed, length in steps:
        now += passed
        if step == "begin":
            number = next(numbers)
            usage.begin(table, ref(number), now)
            running[table][number] = now
        elif step == "finish":
            number = min(running[table], default=-1)
            start = running[table].pop(number, None)
            assert usage.finish(table, ref(number), now) == (0.0 if start is None else (now - start) / 1000)
            if start is not None:
                ended[table].append((start, now))
        elif step == "add":
            usage.add(table, now - length, now)
            ended[table].append((now - length, now))
        elif step == "forget":
            usage.forget(table)
            ended[table].clear()
            running[table].clear()
        else:
            expected = sum(max(0, end - max(start, now - WINDOW)) for start, end in spans(table))
            assert usage.used(table, now, WINDOW) == expected / 1000


def test_an_attempt_that_is_finished_repeatedly_counts_once() -> None:
    usage = Usage()
    usage.begin("t", ref(1), 1_000)
    assert usage.finish("t", ref(1), 3_000) == 2.0
    assert usage.finish("t", ref(1), 9_000) == 0.0
    assert usage.used("t", 9_000, 60_000) == 2.0


def test_intervals_that_left_the_window_are_dropped() -> None:
    usage = Usage()
    for millis in range(0, 100_000, 10):
        usage.add("t", millis, millis + 5)
    assert usage.used("t", 1_000_000, 60_000) == 0.0
    assert not usage._ended
