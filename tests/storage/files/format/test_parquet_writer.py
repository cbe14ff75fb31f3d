"""Parquet files: encodings chosen by the data, and timestamps of both physical types in one file."""

import io
from collections.abc import Mapping
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interbed.storage.files.format.parquet_writer import ParquetFileWriter, TimestampAnnotation, annotate_timestamps
from interbed.storage.meta.options.core import CoreOptions

WHEN = datetime(2024, 5, 6, 7, 8, 9, 123000)


def written(
    *batches: pa.RecordBatch,
    ascending: frozenset[str] = frozenset(),
    codec: str | None = "zstd",
    options: Mapping[str, str] | None = None,
) -> pq.ParquetFile:
    sink = io.BytesIO()
    writer = ParquetFileWriter(sink, batches[0].schema, CoreOptions(options or {}), codec=codec, ascending=ascending)
    for batch in batches:
        writer.write([batch])
    assert writer.finish() == len(sink.getvalue())
    return pq.ParquetFile(io.BytesIO(sink.getvalue()))


def encodings(file: pq.ParquetFile) -> dict[str, tuple[str, ...]]:
    group = file.metadata.row_group(0)
    return {group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)}


def test_encodings_follow_the_data() -> None:
    rows = 6000
    batch = pa.record_batch(
        {
            "key": pa.array(range(rows)),
            "same": pa.array(["x", "y"] * (rows // 2)),
            "distinct": pa.array([str(i) for i in range(rows)]),
            "list": pa.array([["a", "b"]] * rows),
            "map": pa.array([[(str(i), 1)] for i in range(rows)], pa.map_(pa.string(), pa.int32())),
        }
    )
    found = encodings(written(batch, ascending=frozenset({"key", "distinct"})))
    assert "DELTA_BINARY_PACKED" in found["key"]
    assert "RLE_DICTIONARY" in found["same"]
    assert "RLE_DICTIONARY" in found["list.list.element"]
    assert "RLE_DICTIONARY" in found["map.key_value.value"]
    assert "RLE_DICTIONARY" not in found["distinct"]
    assert "RLE_DICTIONARY" not in found["map.key_value.key"]
    # Java Paimon 1.4.2 misreads it.
    assert not any("DELTA_BYTE_ARRAY" in e for e in found.values())
    plain = encodings(written(batch, options={"parquet.enable.dictionary": "false"}))
    assert not any("RLE_DICTIONARY" in e for e in plain.values())


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "brotli"])
def test_numbers_that_hardly_compress_are_stored_uncompressed(codec: str) -> None:
    random = np.random.default_rng(5)
    hashes = random.integers(-(2**63), 2**63 - 1, 6000)
    batch = pa.record_batch(
        {
            "hash": pa.array(hashes, mask=hashes % 7 == 0),
            "measure": pa.array(random.random(6000)),
            "narrow": pa.array(random.integers(-128, 127, 6000), pa.int8()),
            "ascending": pa.array(range(6000)),
            "text": pa.array([str(h) for h in hashes]),
            "list": pa.array([[m] for m in random.random(6000)]),
            "none": pa.nulls(6000, pa.int64()),
        }
    )
    file = written(batch, codec=codec)
    group = file.metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    plain = {c.path_in_schema for c in columns if c.compression == "UNCOMPRESSED"}
    assert plain == {"hash", "measure", "list.list.element"}
    assert file.read().to_batches() == [batch]


def test_pages_are_indexed_and_of_bounded_length() -> None:
    batch = pa.record_batch({"key": pa.array(range(60_000))})
    file = written(batch, ascending=frozenset({"key"}))
    assert file.metadata.row_group(0).column(0).has_column_index
    assert file.metadata.row_group(0).column(0).has_offset_index


NANOS_AND_OTHERS = pa.schema(
    (
        pa.field("nanos", pa.timestamp("ns")),
        pa.field("millis", pa.timestamp("ms"), nullable=False),
        pa.field("micros", pa.timestamp("us", "UTC")),
        pa.field("number", pa.int64()),
        pa.field("list", pa.list_(pa.field("element", pa.timestamp("us")))),
        pa.field("map", pa.map_(pa.string(), pa.struct([("t", pa.timestamp("ms"))]))),
    )
)


def rows_with_timestamps() -> pa.RecordBatch:
    row = {
        "nanos": WHEN,
        "millis": WHEN,
        "micros": WHEN,
        "number": 1,
        "list": [WHEN, None],
        "map": [("k", {"t": WHEN})],
    }
    return pa.RecordBatch.from_pylist([row, {"millis": WHEN}, row], schema=NANOS_AND_OTHERS)


def test_only_nanoseconds_are_int96_and_all_timestamps_survive_the_round_trip() -> None:
    batch = rows_with_timestamps().slice(1)
    file = written(batch)
    columns = {c.path: (c.physical_type, str(c.logical_type)) for c in (file.schema.column(i) for i in range(7))}
    assert columns["nanos"][0] == "INT96"
    for path, unit, utc in (
        ("millis", "milliseconds", "false"),
        ("micros", "microseconds", "true"),
        ("list.list.element", "microseconds", "false"),
        ("map.key_value.value.t", "milliseconds", "false"),
    ):
        physical, logical = columns[path]
        assert physical == "INT64"
        assert f"isAdjustedToUTC={utc}, timeUnit={unit}" in logical
    assert columns["number"][1] == "None"
    assert file.read().to_pylist() == pa.Table.from_batches([batch]).to_pylist()


def test_without_nanoseconds_arrow_writes_the_footer() -> None:
    batch = pa.record_batch({"t": pa.array([WHEN], pa.timestamp("us"))})
    assert written(batch).read().to_batches()[0].equals(batch)


def test_a_file_without_rows_has_its_columns() -> None:
    sink = io.BytesIO()
    ParquetFileWriter(sink, NANOS_AND_OTHERS, CoreOptions(), codec=None).finish()
    file = pq.ParquetFile(io.BytesIO(sink.getvalue()))
    assert file.read().num_rows == 0
    assert file.schema_arrow.names == NANOS_AND_OTHERS.names


def test_bytes_that_are_no_footer_are_refused() -> None:
    with pytest.raises(ValueError, match="does not begin with its version"):
        annotate_timestamps(b"\x19\x00", {0: TimestampAnnotation("ms", utc=False)})
