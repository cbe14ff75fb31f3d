"""Micro-batches of a stream: every row is in exactly one batch, for any limits and changes of limits."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interbed import load_catalog
from interbed.storage.base.errors import InvalidInputError, NotSupportedError, SnapshotNotFoundError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn
from interbed.storage.table.table import Table
from interbed.storage.views.stream.micro_batches import BatchLimits, MicroBatches
from interbed.storage.views.stream.position import StreamPosition
from tests.support.examples import examples

SCHEMA = pa.schema((("id", pa.int64()), ("p", pa.string())))


def _new(path: Path, *, keyed: bool = False, **options: str) -> Table:
    catalog = load_catalog(warehouse=str(path))
    catalog.create_database("db", ignore_if_exists=True)
    keys = ["id", "p"] if keyed else None
    given = {"bucket": "2" if keyed else "-1", **{k.replace("_", "-"): v for k, v in options.items()}}
    return catalog.create_table("db.t", SCHEMA, primary_keys=keys, partition_keys=["p"], options=given)


def _write(table: Table, *ids: int) -> None:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "p": [f"p{i % 2}" for i in ids]})
    table.upsert(rows) if table.primary_keys else table.append(rows)


def _read(table: Table, after: StreamPosition, end: StreamPosition) -> list[int]:
    splits = MicroBatches(table.store).splits(after, end)
    reader = table.new_read()
    columns: list[Any] = [batch["id"] for split in splits for batch in reader.to_batches(split)]
    return [i for column in columns for i in column.to_pylist()]


def _limits() -> st.SearchStrategy[BatchLimits]:
    number = st.none() | st.integers(1, 6)
    return st.builds(
        BatchLimits,
        files=number,
        rows=number,
        size=st.none() | st.sampled_from([1, 2_000, 100_000]),
        min_rows=st.none(),
    )


@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keyed=st.booleans(),
    before=st.integers(0, 3),
    steps=st.lists(st.tuples(_limits(), st.booleans()), max_size=6),
    last=_limits(),
)
def test_every_row_is_in_one_batch(
    tmp_path_factory: pytest.TempPathFactory,
    keyed: bool,
    before: int,
    steps: list[tuple[BatchLimits, bool]],
    last: BatchLimits,
) -> None:
    table = _new(tmp_path_factory.mktemp("table"), keyed=keyed)
    written = 0

    def write() -> None:
        nonlocal written
        _write(table, *range(written, written + 3))
        written += 3

    for _ in range(before):
        write()
    # Store the position as text, as a checkpoint does.
    position = MicroBatches(table.store).start().to_json()
    seen: list[int] = []
    for limits, more in [*steps, *[(last, False)] * 40]:
        after = StreamPosition.from_json(position)
        end = MicroBatches(table.store).advance(after, limits)
        if more:
            write()
        if end is not None:
            rows = _read(table, after, end)
            assert rows
            assert limits.rows is None or len(rows) <= max(limits.rows, 3)
            seen += rows
            position = end.to_json()
    assert sorted(seen) == list(range(written))


def test_a_batch_ends_at_the_given_snapshot(tmp_path: Path) -> None:
    table = _new(tmp_path)
    _write(table, 1)
    _write(table, 2)
    start = MicroBatches(table.store).start()
    _write(table, 3)

    end = MicroBatches(table.store).advance(start, last_snapshot=2)
    assert end is not None
    assert (end.full, sorted(_read(table, start, end))) == (True, [1, 2])
    assert MicroBatches(table.store).advance(end, last_snapshot=2) is None
    assert MicroBatches(table.store).advance(end, BatchLimits(min_rows=2)) is None
    assert MicroBatches(table.store).newest() == 3


def test_the_error_of_a_position_in_an_expired_snapshot_says_what_to_do(tmp_path: Path) -> None:
    table = _new(tmp_path, keyed=False, **{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    _write(table, 1)
    start = StreamPosition(snapshot_id=1)
    for number in (2, 3):
        _write(table, number)

    with pytest.raises(SnapshotNotFoundError, match=r"has expired; the oldest is 3.*consumer-id"):
        MicroBatches(table.store).advance(start)
    with pytest.raises(SnapshotNotFoundError, match="has expired"):
        MicroBatches(table.store).splits(start, StreamPosition(snapshot_id=2, index=0, total=1))


def test_a_consumer_advances_by_whole_snapshots(tmp_path: Path) -> None:
    table = _new(tmp_path)
    _write(table, 1, 2)
    batches = MicroBatches(table.copy({"consumer-id": "c"}).store)
    start = batches.start()

    half = batches.advance(start, BatchLimits(files=1))
    assert half is not None
    assert half.index == 0
    batches.commit(half)
    assert table.versions.consumers() == {}
    whole = batches.advance(half)
    assert whole is not None
    assert whole.is_complete
    batches.commit(whole)
    assert table.versions.consumers() == {"c": 2}
    _write(table, 3, 4)
    half = batches.advance(whole, BatchLimits(files=1))
    assert half is not None
    batches.commit(half)
    assert table.versions.consumers() == {"c": 2}
    assert batches.start() == StreamPosition(snapshot_id=2)


def test_a_change_of_columns_ends_the_stream_after_the_last_old_row(tmp_path: Path) -> None:
    table = _new(tmp_path)
    start = MicroBatches(table.store).start()
    _write(table, 1)
    table.store.alter([AddColumn("more", AtomicType(TypeRoot.INT))])
    altered = Table(table.name, table.store.refreshed())
    altered.append(pa.table({"id": pa.array([2], pa.int64()), "p": ["x"], "more": pa.array([5], pa.int32())}))

    end = MicroBatches(table.store).advance(start)
    assert end is not None
    assert _read(table, start, end) == [1]
    with pytest.raises(NotSupportedError, match="Restart the query"):
        MicroBatches(table.store).advance(end)
    later = MicroBatches(altered.store).advance(end)
    assert later is not None
    assert _read(altered, end, later) == [2]


def test_a_position_beyond_the_table_is_refused(tmp_path: Path) -> None:
    table = _new(tmp_path)
    _write(table, 1)
    batches = MicroBatches(table.store)

    with pytest.raises(SnapshotNotFoundError, match="start a new stream"):
        batches.splits(StreamPosition(snapshot_id=1), StreamPosition(snapshot_id=1, index=4, total=5))
    with pytest.raises(SnapshotNotFoundError, match="start a new stream"):
        batches.splits(StreamPosition(snapshot_id=1, index=0), StreamPosition(snapshot_id=1))
    with pytest.raises(InvalidInputError, match="part 1 of 7, but the snapshot has 1 parts"):
        batches.advance(StreamPosition(snapshot_id=1, index=0, total=7))
    for text in ("", "{}", "[]", '{"snapshotId": "x", "index": 1, "scanSnapshot": false}'):
        with pytest.raises(InvalidInputError, match="Not a position"):
            StreamPosition.from_json(text)
    with pytest.raises(InvalidInputError, match="one or more files"):
        BatchLimits(files=0)
