"""Records of Kafka partitions, assembled to the changes of snapshots."""

import numpy as np
import pytest

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.log.api import GroupAssembler, LogGroup, LogMarker, LogRecords


def marker(last: int, *, records: int = 0, line: int = 0, told: bool = True) -> LogMarker:
    return LogMarker(first=last, last=last, uuid="u", line=line, table=1, schema_id=0, records=records, told=told)


def records(count: int) -> LogRecords:
    return LogRecords(keys=[b"k"] * count, values=[b"v"] * count, kinds=np.zeros(count, np.int8))


def shape(groups: list[LogGroup]) -> list[tuple[int, bool, dict[int, int]]]:
    return [(g.marker.last, g.is_whole, {p: len(r) for p, r in g.records.items()}) for g in groups]


def test_a_snapshot_is_complete_when_every_partition_has_its_records() -> None:
    assembler = GroupAssembler(2)
    assembler.add(0, marker(1, records=2), records(2), 3)
    assembler.add(0, marker(2), records(0), 5)
    assert list(assembler.complete()) == []
    assembler.add(1, marker(1, records=1), records(1), 2)
    (group,) = assembler.complete()
    assert shape([group]) == [(1, True, {0: 2, 1: 1})]
    assert group.offsets == {0: 3, 1: 2}
    assembler.add(1, marker(2), records(0), 4)
    assert shape(list(assembler.complete())) == [(2, True, {})]


def test_a_snapshot_with_deleted_records_in_one_partition_is_incomplete() -> None:
    assembler = GroupAssembler(2)
    # Partition 1 has no record of snapshot 1 any more, and partition 0 lacks a record of snapshot 2.
    assembler.add(0, marker(1, records=1), records(1), 1)
    assembler.add(0, marker(2, records=3), records(2), 4)
    assembler.add(1, marker(2, records=1), records(1), 7)
    assert shape(list(assembler.complete())) == [(2, False, {0: 2, 1: 1})]


def test_skipped_snapshots_and_new_histories_keep_their_order() -> None:
    assembler = GroupAssembler(1)
    assembler.add(0, marker(7, told=False), records(0), 1)
    assembler.add(0, marker(3, line=1), records(0), 2)
    assert shape(list(assembler.complete())) == [(7, False, {}), (3, True, {})]


def test_a_marker_survives_the_round_trip_and_other_bytes_are_no_marker() -> None:
    written = marker(9, records=4, line=2, told=False)
    assert LogMarker.from_json(written.to_json(), place="p") == written
    for content in (b"", b"[]", b'{"from": 1}', b'{"from": "x"}'):
        with pytest.raises(CorruptFileError, match="of p"):
            LogMarker.from_json(content, place="p")
