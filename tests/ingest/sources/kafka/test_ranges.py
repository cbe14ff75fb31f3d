"""Ranges of offsets: planned fairly, packed into tasks, and read exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.ingest.flow.messages import Positions, SourceGapError
from interbed.ingest.sources.kafka.source import KafkaRange, packed, ranges_between, read_ranges
from tests.ingest.test_kafka_to_tables import make_topic, produce
from tests.support.servers.kafka import KafkaServer


def ranges_of(*offsets: tuple[str, int, int, int]) -> list[KafkaRange]:
    return [KafkaRange(topic=t, partition=p, start=start, end=end) for t, p, start, end in offsets]


def test_small_partitions_get_all_of_their_messages_and_the_others_equal_shares() -> None:
    begins = Positions({"a": {0: 10}})
    ends = Positions({"a": {0: 12, 1: 1000, 2: 0}, "b": {0: 500}})
    whole = ranges_of(("a", 0, 10, 12), ("a", 1, 0, 1000), ("b", 0, 0, 500))
    assert ranges_between(begins, ends, most=10_000) == whole
    cut = ranges_of(("a", 0, 10, 12), ("a", 1, 0, 49), ("b", 0, 0, 49))
    assert ranges_between(begins, ends, most=100) == cut
    assert ranges_between(begins, ends, most=1) == ranges_of(("a", 0, 10, 11), ("a", 1, 0, 1), ("b", 0, 0, 1))
    assert ranges_between(ends, ends, most=100) == []


@given(st.lists(st.integers(1, 30), max_size=6), st.integers(1, 20))
def test_tasks_have_all_messages_once_and_no_partition_twice(lengths: list[int], size: int) -> None:
    ranges = ranges_of(*(("t", n, 5, 5 + length) for n, length in enumerate(lengths)))
    tasks = packed(ranges, size)
    assert [sum(map(len, task)) for task in tasks[:-1]] == [size] * len(tasks[:-1])
    assert all(len({each.partition for each in task}) == len(task) for task in tasks)
    found = [(each.partition, offset) for task in tasks for each in task for offset in range(each.start, each.end)]
    assert found == [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]


def test_exactly_the_messages_of_the_ranges_are_read(kafka: KafkaServer) -> None:
    make_topic(kafka, "ranges")
    make_topic(kafka, "ranges.too")
    for topic in ("ranges", "ranges.too"):
        produce(kafka, topic, [(i, {"n": i}) for i in range(20)])
    ranges = ranges_of(("ranges", 0, 5, 9), ("ranges.too", 0, 18, 20))
    found = [
        (messages.topic, offset)
        for messages in read_ranges(kafka.bootstrap_servers, ranges, group="g", settings={})
        for offset in messages.offsets.tolist()
    ]
    assert sorted(found) == [*(("ranges", n) for n in range(5, 9)), ("ranges.too", 18), ("ranges.too", 19)]


def test_a_range_beyond_the_end_of_the_topic_is_a_gap(kafka: KafkaServer) -> None:
    make_topic(kafka, "ranges.gap")
    with pytest.raises(SourceGapError):
        list(read_ranges(kafka.bootstrap_servers, ranges_of(("ranges.gap", 0, 5, 9)), group="g", settings={}))
