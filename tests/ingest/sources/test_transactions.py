"""Messages of several topics, cut such that no transaction of their source is split."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.ingest.flow.messages import Messages, Positions, SourceGapError
from interbed.ingest.formats.debezium_transactions import DebeziumJsonTransactions
from interbed.ingest.sources.source import LOST_SECONDS, TransactionalSource
from interbed.storage.base.errors import InvalidInputError
from tests.ingest.memory_source import MemorySource, Value, messages_of

OF_TRANSACTIONS = "s.transaction"
Place = tuple[str, int]


@dataclass(frozen=True)
class TransactionStream:
    """Topics with the events of some transactions, and the events of each transaction, by topic and number."""

    topics: dict[str, list[list[tuple[Value, Value]]]]
    events: list[set[int]]


def changed(transaction: int | None, number: int) -> tuple[Value, Value]:
    """Return a change in a transaction, or a row of a snapshot."""
    about = None if transaction is None else {"id": f"{transaction}:{number}", "total_order": 1}
    return None, {"op": "r" if transaction is None else "c", "after": {"n": number}, "transaction": about}


def begun(transaction: int) -> tuple[Value, Value]:
    return None, {"status": "BEGIN", "id": f"{transaction}:0", "event_count": None, "data_collections": None}


def ended(transaction: int, counts: dict[str, int]) -> tuple[Value, Value]:
    collections = [{"data_collection": name, "event_count": n} for name, n in counts.items()]
    return None, {"status": "END", "id": f"{transaction}:9", "event_count": 1, "data_collections": collections}


def stream_of(transactions: Sequence[Sequence[Place]], rows_read: Sequence[Place] = ()) -> TransactionStream:
    """Return a stream in which each transaction changes rows in these places, after a snapshot of `rows_read`."""
    topics: dict[str, list[list[tuple[Value, Value]]]] = {"s.a": [[], []], "s.b": [[]], OF_TRANSACTIONS: [[]]}
    numbers = iter(range(10_000))
    events: list[set[int]] = []
    for topic, partition in rows_read:
        topics[topic][partition].append(changed(None, next(numbers)))
    for transaction, places in enumerate(transactions):
        topics[OF_TRANSACTIONS][0].append(begun(transaction))
        counts: dict[str, int] = {"elsewhere": 7}
        events.append(set())
        for topic, partition in places:
            number = next(numbers)
            events[-1].add(number)
            topics[topic][partition].append(changed(transaction, number))
            counts[topic.removeprefix("s.")] = counts.get(topic.removeprefix("s."), 0) + 1
        topics[OF_TRANSACTIONS][0].append(ended(transaction, counts))
    return TransactionStream(topics, events)


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def source_of(stream: TransactionStream, sizes: Sequence[int], clock: FakeClock | None = None) -> TransactionalSource:
    inner = MemorySource(stream.topics, sizes)
    return TransactionalSource(inner, OF_TRANSACTIONS, DebeziumJsonTransactions(), clock=clock or FakeClock())


def numbers_in(messages: Messages) -> set[int]:
    read: list[Any] = messages.values.to_pylist()
    return {int(text.split(b'"n":')[1].split(b"}")[0]) for text in read}


PLACES = st.sampled_from([("s.a", 0), ("s.a", 1), ("s.b", 0)])


@settings(deadline=None)
@given(
    transactions=st.lists(st.lists(PLACES, max_size=5), max_size=8),
    rows_read=st.lists(PLACES, max_size=3),
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any),
    polls=st.lists(st.integers(0, 6), max_size=6),
)
def test_each_cut_has_whole_transactions_and_the_rest_follows(
    transactions: list[list[Place]], rows_read: list[Place], sizes: list[int], polls: list[int]
) -> None:
    stream = stream_of(transactions, rows_read)
    ends = MemorySource(stream.topics).ends()
    given_so_far: set[int] = set()
    positions = Positions()
    for count in [*polls, None]:
        # Each time another process continues.
        source = source_of(stream, sizes)
        source.seek(positions)
        polled = 0
        while not source.has_reached(ends) if count is None else polled < count:
            polled += 1
            for messages in source.poll(timeout_seconds=0, most=100):
                assert messages.topic != OF_TRANSACTIONS
                assert not given_so_far & numbers_in(messages)
                given_so_far |= numbers_in(messages)
        while not source.is_whole(wanted=True):
            for messages in source.poll(timeout_seconds=0, most=100):
                assert not given_so_far & numbers_in(messages)
                given_so_far |= numbers_in(messages)
        for events in stream.events:
            assert events <= given_so_far or not events & given_so_far
        positions = source.positions()
    assert set().union(*stream.events) <= given_so_far
    assert len(given_so_far) == sum(map(len, stream.events)) + len(rows_read)
    assert positions.has_reached(ends)


def test_an_open_transaction_waits() -> None:
    stream = stream_of([[("s.a", 0)], [("s.a", 0), ("s.b", 0)]])
    stream.topics[OF_TRANSACTIONS][0].pop()
    source = source_of(stream, [10])
    source.seek(Positions())
    found = set().union(*(numbers_in(m) for _ in range(5) for m in source.poll(timeout_seconds=0, most=100)))
    assert found == stream.events[0]
    assert source.is_whole(wanted=True)
    assert source.has_reached(source.ends())
    assert source.positions() == Positions({"s.a": {0: 1, 1: 0}, "s.b": {0: 0}, OF_TRANSACTIONS: {0: 3}})


def test_missing_messages_are_reported_as_lost() -> None:
    clock = FakeClock()
    stream = stream_of([[("s.a", 0)], [("s.a", 0), ("s.b", 0)]])
    source = source_of(stream, [10], clock)
    source.seek(Positions({"s.a": {0: 1}, "s.b": {0: 1}, OF_TRANSACTIONS: {0: 2}}))
    for _ in range(5):
        source.poll(timeout_seconds=0, most=100)
    assert not source.is_whole(wanted=True)
    clock.now = LOST_SECONDS
    with pytest.raises(SourceGapError, match=r"missing: 1 of transaction 1 in topic s\.b"):
        source.is_whole(wanted=True)


def test_the_first_transactions_may_be_incomplete(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    stream = stream_of([[("s.a", 0), ("s.b", 0)], [("s.b", 0)]])
    # The retained messages of this topic begin later.
    del stream.topics["s.a"][0][0]
    source = source_of(stream, [10], clock)
    source.seek(Positions())
    for _ in range(5):
        source.poll(timeout_seconds=0, most=100)
    assert not source.is_whole(wanted=True)
    clock.now = LOST_SECONDS
    assert source.is_whole(wanted=True)
    assert "1 of transaction 0 in topic s.a" in caplog.text


def test_ends_of_transactions_of_other_tables_are_skipped() -> None:
    stream = stream_of([[], [], []])
    source = source_of(stream, [10])
    source.seek(Positions())
    source.poll(timeout_seconds=0, most=100)
    assert source.is_whole()
    assert source.positions().get(OF_TRANSACTIONS, 0) == 6


def test_a_repeated_end_of_a_transaction_counts_once() -> None:
    stream = stream_of([[("s.a", 0)]])
    stream.topics[OF_TRANSACTIONS][0] *= 2
    stream.topics["s.a"][0] *= 2
    source = source_of(stream, [10])
    source.seek(Positions())
    while not source.has_reached(source.ends()):
        source.poll(timeout_seconds=0, most=100)
    assert source.is_whole(wanted=True)
    assert source.positions() == source.ends()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"op": "c", "after": {"n": 1}, "transaction": None}, "topic t, partition 0, offset 0 names no transaction"),
        ({"schema": None, "payload": {"op": "d", "before": {"n": 1}}}, "provide.transaction.metadata=true"),
    ],
)
def test_changes_require_a_transaction(value: Value, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        DebeziumJsonTransactions().ids(messages_of([value]))


def test_messages_without_changes_require_no_transaction() -> None:
    values: list[Value] = [None, b"no JSON", {"op": "r", "after": {"n": 1}}, {"op": "m"}]
    assert DebeziumJsonTransactions().ids(messages_of(values)).null_count == len(values)


def test_another_topic_is_no_topic_of_transactions() -> None:
    with pytest.raises(InvalidInputError, match="says nothing of a transaction: it has no status and id"):
        DebeziumJsonTransactions().ended(messages_of([changed(1, 1)[1]]))


def test_a_topic_of_transactions_has_one_partition() -> None:
    stream = stream_of([])
    stream.topics[OF_TRANSACTIONS].append([])
    with pytest.raises(InvalidInputError, match="has 2 partitions"):
        source_of(stream, [1]).seek(Positions())


def test_topics_are_looked_up_in_the_inner_source() -> None:
    below = MemorySource(stream_of([[("s.a", 0)]]).topics)
    below.ids = {"s.a": "one"}
    source = TransactionalSource(below, OF_TRANSACTIONS, DebeziumJsonTransactions())
    source.seek(Positions())
    assert source.positions().ids == below.ids
    source.check({"shop.a": source.positions()})
    assert list(below.checked) == ["shop.a"]
