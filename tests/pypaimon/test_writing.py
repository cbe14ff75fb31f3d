"""Write builders of pypaimon, and refused calls."""

from collections.abc import Callable
from datetime import UTC, datetime, time
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import interbed
from interbed import pypaimon as pp
from interbed.storage.base.errors import (
    InvalidInputError,
    NotSupportedError,
    SchemaMismatchError,
    UsedTwiceError,
)
from tests.pypaimon.tables import bought, written


def test_callbacks_receive_every_snapshot_with_its_files(orders: interbed.Table) -> None:
    class RecordingCallback(pp.CommitCallback):
        def __init__(self) -> None:
            self.contexts: list[pp.CommitCallbackContext] = []
            self.closed = False

        def call(self, context: pp.CommitCallbackContext) -> None:
            self.contexts.append(context)

        def close(self) -> None:
            self.closed = True

    callback = RecordingCallback()
    written(orders, bought((1, "x", 1.0)), callback)
    assert [(c.snapshot.id, len(c.commit_entries), c.identifier) for c in callback.contexts] == [
        (1, 1, pp.BATCH_COMMIT_IDENTIFIER)
    ]
    assert callback.closed
    builder = orders.new_stream_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        commit.add_commit_callback(callback)
        for identifier in (7, 8, 8):
            write.write_arrow(bought((2, "y", float(identifier))))
            commit.commit(write.prepare_commit(identifier), identifier)
    assert [c.identifier for c in callback.contexts[1:]] == [7, 8]
    with pytest.raises(NotImplementedError, match="CommitCallback has no method 'call'"):
        pp.CommitCallback().call(callback.contexts[0])


def test_rows_are_written_one_by_one_between_batches(lines: interbed.Table, orders: interbed.Table) -> None:
    builder = orders.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_row((1, "x", 1.0))
        write.write_arrow_batch(bought((1, "z", 3.0), (2, "y", 2.0)).to_batches()[0])
        write.write_row({"name": "w", "amount": None, "id": 2})
        for wrong in ((1, "x"), {"id": 1}, (1, "x", 1.0, 2.0)):
            with pytest.raises(InvalidInputError, match="id, name, amount"):
                write.write_row(wrong)
        commit.commit(write.prepare_commit())
    assert orders.scan().to_arrow().sort_by("id").to_pylist() == bought((1, "z", 3.0), (2, "w", None)).to_pylist()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 1.5),
        (pa.date32(), datetime(2024, 1, 1, 12, 30)),
        (pa.timestamp("us"), datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.timestamp("ms"), datetime(2024, 1, 1, 0, 0, 0, 123456)),
        (pa.timestamp("us"), pd.Timestamp("2024-01-01 00:00:00.000000789")),
        (pa.time32("ms"), time(1, 2, 3, 456789)),
        (pa.struct([("a", pa.int64())]), {"a": 1, "b": 2}),
        (pa.binary(), "text"),
        (pa.map_(pa.string(), pa.int64()), [("a", 1), ("a", 2)]),
    ],
    ids=str,
)
def test_a_value_that_a_column_would_cut_is_refused(catalog: interbed.Catalog, kind: pa.DataType, value: Any) -> None:
    table = catalog.create_table("shop.cut", pa.schema([("x", kind)]))
    frame = pd.DataFrame({"x": pd.Series([value], dtype=object)})
    builder = table.new_batch_write_builder()
    with builder.new_write() as write:
        with pytest.raises(SchemaMismatchError, match="'x'"):
            write.write_pandas(frame)
        write.write_row([None])
        write.write_row([value])
        # The error repeats, because no row may be missing from the commit.
        for _ in range(2):
            with pytest.raises(SchemaMismatchError, match="'x'"):
                write.write_arrow(pa.Table.from_pylist([{"x": None}]))


def test_named_levels_of_the_index_of_a_frame_are_columns(orders: interbed.Table) -> None:
    rows = bought((1, "x", 1.0), (2, "y", 2.0))
    for levels in (["id"], ["name", "id"]):
        builder = orders.new_batch_write_builder().overwrite()
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_pandas(rows.to_pandas().set_index(levels))
            commit.commit(write.prepare_commit())
        assert orders.scan().to_arrow().sort_by("id").to_pylist() == rows.to_pylist()


def test_a_stream_can_overwrite(lines: interbed.Table) -> None:
    builder = lines.new_stream_write_builder().overwrite()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(pa.table({"n": [99]}))
        commit.commit(write.prepare_commit(1), 1)
    assert lines.scan().to_arrow()["n"].to_pylist() == [99]


def test_a_batch_writer_and_its_commit_are_used_only_once(orders: interbed.Table) -> None:
    builder = orders.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        assert write.table_pyarrow_schema == orders.arrow_schema
        commit.commit(write.prepare_commit())
        for again in (write.prepare_commit, lambda: commit.commit([]), commit.truncate_table):
            with pytest.raises(UsedTwiceError, match="once") as caught:
                again()
            assert isinstance(caught.value, RuntimeError)


def test_features_that_interbed_lacks_are_refused_by_name(orders: interbed.Table) -> None:
    reads, writes = orders.new_read_builder(), orders.new_batch_write_builder()
    scan, read, write = reads.new_scan(), reads.new_read(), writes.new_write()
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: read.to_ray([]), "ray.data.from_arrow"),
        (lambda: read.to_torch([]), "PyTorch"),
        (lambda: write.write_ray(None), "write_arrow"),
        (lambda: write.with_write_type(["id"]), "all columns"),
        (lambda: writes.new_update(), "UPDATE and MERGE"),
        (lambda: scan.with_row_ranges([]), "with_slice"),
        (lambda: scan.with_chunk_shuffle(1, 2), "with_slice"),
        (lambda: scan.with_global_index_result(None), "with_filter"),
    ]
    for refused, words in refusals:
        with pytest.raises(NotSupportedError, match=words):
            refused()
    write.close()
