"""Rows of any type survive the round trip through files of every format, codec and reader."""

import gc
import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from pyarrow import orc

import interbed
from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import DataField, field_from_json, parse_atomic
from interbed.storage.files.format.api import FileWriter
from interbed.storage.files.format.layout import DataFileLayout, check_fields, file_schema
from interbed.storage.files.format.readers import reader_for
from interbed.storage.files.format.writer import open_writer
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.evolution import map_fields
from interbed.storage.meta.schema.table_schema import TableSchema
from tests.interop.strategies import random_examples, scalar_types, types, values
from tests.support.peers.json import comparable, parse_type, rows_to_table, table_to_rows

FORMATS = ("parquet", "orc", "avro")
CODECS = {
    "parquet": ("none", "zstd", "snappy", "gzip", "lz4", "brotli"),
    "orc": ("none", "zstd", "snappy", "zlib", "lz4"),
    "avro": ("none", "zstd", "snappy", "deflate", "bzip2", "xz"),
}


def layout_of(fields: tuple[DataField, ...], **options: str) -> DataFileLayout:
    schema = TableSchema(
        id=0, fields=fields, highest_field_id=len(fields), options=options, partition_keys=(), primary_keys=()
    )
    return DataFileLayout.of(schema, CoreOptions(options))


def write(path: Path, batches: list[pa.RecordBatch], fields: tuple[DataField, ...], **options: str) -> int:
    """Write the batches to a file, each in a group of its own, and return the size."""
    layout = layout_of(fields, **{k.replace("__", "."): v for k, v in options.items()})
    with path.open("wb") as sink:
        writer = open_writer(layout.kinds.at(0), layout, sink)
        for batch in batches:
            writer.write([batch])
        return writer.finish()


def read(path: Path, fields: tuple[DataField, ...], file_format: str, batch_rows: int = 1000) -> list[pa.RecordBatch]:
    """The batches as scans return them."""
    mapping = map_fields(fields, fields)
    found = reader_for(file_format, str(path)).positioned(
        str(path), mapping.file_fields, file_io=LocalFileIO(), batch_rows=batch_rows
    )
    batches, position = [], 0
    for start, batch in found:
        assert start == position
        position += batch.num_rows
        batches.append(mapping.apply(batch))
    return batches


@pytest.mark.longer
def test_flat_rows_of_many_avro_blocks_survive_the_round_trip(tmp_path: Path) -> None:
    @random_examples(60)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        kinds = data.draw(
            st.lists(st.tuples(scalar_types(), st.sampled_from(["", " NOT NULL"])), min_size=1, max_size=4)
        )
        columns = [kind + null for kind, null in kinds]
        fields = tuple(DataField(id=i, name=f"c{i}", type=parse_atomic(of)) for i, of in enumerate(columns))
        try:
            check_fields("avro", fields)
        except NotSupportedError:
            reject()
        of = [parse_type(c) for c in columns]
        rows = data.draw(st.lists(st.tuples(*map(values, of)).map(list), min_size=1, max_size=8))
        whole = rows_to_table(rows, [f.name for f in fields], of).combine_chunks()
        batch = pa.RecordBatch.from_arrays([c.combine_chunks() for c in whole.columns], schema=file_schema(fields))
        # Each write is a block of its own, with another length.
        cuts = [data.draw(st.integers(0, batch.num_rows - 1)) for _ in range(15)]
        path = tmp_path / "f.avro"
        write(path, [batch.slice(cut) for cut in cuts], fields, file__format="avro")
        found = pa.Table.from_batches(read(path, fields, "avro", batch_rows=data.draw(st.sampled_from([3, 1000]))))
        expected = [row for cut in cuts for row in rows[cut:]]
        assert comparable(table_to_rows(found, of), of) == comparable(expected, of)
        some = fields[-1:]
        narrow = pa.Table.from_batches(read(path, some, "avro"))
        assert narrow.column(0).equals(found.column(found.num_columns - 1))

    run()


@contextmanager
def refused_timestamps(file_format: str) -> Iterator[None]:
    """Discard examples with timestamps that ORC files do not support, and draw others."""
    try:
        yield
    except InvalidInputError as error:
        if file_format != "orc" or "timestamps before" not in str(error):
            raise
        reject()


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.longer
def test_rows_of_any_type_survive_the_round_trip(tmp_path: Path, file_format: str) -> None:
    @random_examples(60)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        columns = data.draw(st.lists(types(), min_size=1, max_size=4))
        fields = tuple(field_from_json({"id": i, "name": f"c{i}", "type": of}) for i, of in enumerate(columns))
        try:
            check_fields(file_format, fields)
        except NotSupportedError:
            reject()
        of = [parse_type(c) for c in columns]
        rows = data.draw(st.lists(st.tuples(*map(values, of)).map(list), max_size=12))
        whole = rows_to_table(rows, [f.name for f in fields], of).combine_chunks()
        batch = pa.RecordBatch.from_arrays([c.combine_chunks() for c in whole.columns], schema=file_schema(fields))
        cut = data.draw(st.integers(0, batch.num_rows))
        path = tmp_path / f"f.{file_format}"
        options = {"file__format": file_format, "file__compression": data.draw(st.sampled_from(CODECS[file_format]))}
        with refused_timestamps(file_format):
            size = write(path, [batch.slice(0, cut), batch.slice(cut)], fields, **options)
            assert size == path.stat().st_size
        found = read(path, fields, file_format, batch_rows=data.draw(st.sampled_from([2, 1000])))
        again = pa.Table.from_batches(found, whole.schema if not found else None)
        assert comparable(table_to_rows(again, of), of) == comparable(rows, of)

    run()


FIELDS = tuple(
    DataField(id=i, name=name, type=parse_atomic(kind))
    for i, (name, kind) in enumerate(
        [("id", "BIGINT"), ("name", "STRING"), ("ts", "TIMESTAMP(6)"), ("d", "DECIMAL(9, 2)")]
    )
)


def sample(rows: int) -> pa.RecordBatch:
    columns: dict[str, pa.Array[Any]] = {
        "id": pa.array(range(rows), pa.int64()),
        "name": pa.array([f"name {i}" if i % 3 else None for i in range(rows)]),
        "ts": pa.array([i * 1_000_003 for i in range(rows)], pa.timestamp("us")),
        "d": pa.array([Decimal(i) / 4 for i in range(rows)], pa.decimal128(9, 2)),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=file_schema(FIELDS))


@pytest.mark.parametrize(("file_format", "codec"), [(f, c) for f in FORMATS for c in CODECS[f]])
def test_files_of_every_codec_can_be_read(tmp_path: Path, file_format: str, codec: str) -> None:
    path = tmp_path / "f"
    size = write(path, [sample(5000)], FIELDS, file__format=file_format, file__compression=codec)
    assert pa.Table.from_batches(read(path, FIELDS, file_format)).to_pydict() == sample(5000).to_pydict()
    plain = write(tmp_path / "g", [sample(5000)], FIELDS, file__format=file_format, file__compression="none")
    assert (size != plain) == (codec != "none")


def test_fastavro_reads_our_avro_files_and_we_read_its_own(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write(ours, [sample(100)], FIELDS, file__format="avro")
    with ours.open("rb") as file:
        reader = fastavro.reader(file)
        records: list[Any] = list(reader)
        schema: Any = reader.writer_schema
    assert records[4]["name"] == "name 4"
    assert records[4]["d"] == Decimal("1.00")
    with theirs.open("wb") as file:
        fastavro.writer(file, schema, records, codec="deflate")
    assert read(theirs, FIELDS, "avro")[0].equals(read(ours, FIELDS, "avro")[0])


def test_only_the_columns_asked_for_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for file_format in FORMATS:
        write(path, [sample(10)], FIELDS, file__format=file_format)
        absent = DataField(id=9, name="absent", type=parse_atomic("INT"))
        found = reader_for(file_format, "f").positioned(
            str(path), [FIELDS[3], absent, FIELDS[0]], file_io=LocalFileIO(), batch_rows=7
        )
        assert [(start, b.schema.names, b.num_rows) for start, b in found] == [(0, ["d", "id"], 7), (7, ["d", "id"], 3)]
        none = reader_for(file_format, "f").positioned(str(path), [absent], file_io=LocalFileIO(), batch_rows=7)
        assert [(start, b.num_columns, b.num_rows) for start, b in none] == [(0, 0, 7), (7, 0, 3)]


def test_avro_blocks_with_a_wrong_row_count_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write(path, [sample(3)] * 20, FIELDS, file__format="avro", file__compression="none")
    content = bytearray(path.read_bytes())
    at = content.index(b"name 1") - 1
    for byte in (0x7E, 0x01, 0xFF):
        content[at] = byte
        path.write_bytes(content)
        with pytest.raises(CorruptFileError, match=str(path)):
            read(path, FIELDS, "avro")


@pytest.mark.parametrize("damage", ["cut", "marker", "codec", "schema"])
def test_the_error_names_a_damaged_avro_file(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "f"
    write(path, [sample(20_000)], FIELDS, file__format="avro")
    content = bytearray(path.read_bytes())
    match damage:
        case "cut":
            del content[-100:]
        case "marker":
            content[-1] ^= 1
        case "codec":
            content = content.replace(b"zstandard", b"nonsense!")
        case _:
            content = content.replace(b'"record"', b'"recird"', 1)
    path.write_bytes(content)
    with pytest.raises((CorruptFileError, NotSupportedError), match=str(path)):
        read(path, FIELDS, "avro")


def _fill(writer: FileWriter) -> None:
    for _ in range(10):
        writer.write([sample(10_000)])
    writer.finish()


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_failing_sink_fails_its_writer_and_no_other(file_format: str) -> None:
    class FullSink(io.BytesIO):
        def write(self, data: Any) -> int:
            if self.tell() + len(data) > 2000:
                raise OSError(28, "No space left on device")
            return super().write(data)

    layout = layout_of(FIELDS, **{"file.format": file_format, "file.block-size": "64 kb"})
    sink = FullSink()
    writer = open_writer(layout.kinds.at(0), layout, sink)
    with pytest.raises(OSError, match="No space left"):
        _fill(writer)
    sink.close()
    del writer
    gc.collect()


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_an_abandoned_writer_does_not_use_its_sink_any_more(file_format: str) -> None:
    layout = layout_of(FIELDS, **{"file.format": file_format})
    sink = io.BytesIO()
    writer = open_writer(layout.kinds.at(0), layout, sink)
    writer.write([sample(10)])
    sink.close()
    del writer
    gc.collect()


def test_timestamps_that_orc_cannot_represent_are_refused(tmp_path: Path) -> None:
    field = DataField(id=0, name="t", type=parse_atomic("TIMESTAMP(6)"))
    for micros, why in (253_402_300_799_000_000, "after 2261"), (-1, "fraction of milliseconds"):
        batch = pa.RecordBatch.from_arrays([pa.array([micros], pa.timestamp("us"))], schema=file_schema([field]))
        with pytest.raises(InvalidInputError, match=f"'t' has timestamps before.*{why}"):
            write(tmp_path / "f", [batch], (field,), file__format="orc")


def test_avro_files_do_not_take_nanoseconds() -> None:
    field = DataField(id=0, name="t", type=parse_atomic("TIMESTAMP(9)"))
    with pytest.raises(NotSupportedError, match="'t'"):
        layout_of((field,), **{"file.format": "avro"})


def test_options_of_a_format_take_effect_on_its_files(tmp_path: Path) -> None:
    orc_file, parquet_file = tmp_path / "f.orc", tmp_path / "f.parquet"
    stripes = {"orc__stripe__size": "64 kb", "orc__row__index__stride": "1000", "orc__compress__size": "16 kb"}
    write(orc_file, [sample(50_000)], FIELDS, file__format="orc", **stripes, orc__bloom__filter__columns="id")
    assert orc.ORCFile(str(orc_file)).nstripes > 1
    assert orc.ORCFile(str(orc_file)).row_index_stride == 1000
    assert orc.ORCFile(str(orc_file)).compression_size == 64 << 10
    plain = {"parquet__enable__dictionary": "false", "parquet__compression": "gzip"}
    write(parquet_file, [sample(5000)], FIELDS, parquet__page__row__count__limit="100", **plain)
    column = pq.ParquetFile(parquet_file).metadata.row_group(0).column(1)
    assert (column.compression, column.has_dictionary_page) == ("GZIP", False)
    assert len(read(parquet_file, FIELDS, "parquet")) == 5


def test_orc_files_contain_the_ids_of_columns(tmp_path: Path) -> None:
    fields = (
        DataField(id=3, name="a", type=parse_atomic("TIME(3)")),
        field_from_json({"id": 5, "name": "l", "type": {"type": "ARRAY", "element": "CHAR(3)"}}),
    )
    batch = pa.RecordBatch.from_pylist([{"a": None, "l": ["x"]}], schema=file_schema(fields))
    write(tmp_path / "f", [batch], fields, file__format="orc")
    schema = orc.ORCFile(str(tmp_path / "f")).schema
    inner = schema.field("l").type.value_field
    assert [(f.metadata or {})[b"paimon.id"] for f in (schema.field("a"), schema.field("l"), inner)] == [
        b"3",
        b"5",
        str(536870911 + 5 * 1024 + 1).encode(),
    ]
    assert schema.field("a").type == pa.int32()


def test_avro_refuses_a_null_in_a_not_null_column(tmp_path: Path) -> None:
    field = DataField(id=0, name="v", type=parse_atomic("INT NOT NULL"))
    batch = pa.RecordBatch.from_arrays([pa.array([1, None], pa.int32())], schema=file_schema([field]))
    with pytest.raises(InvalidInputError, match="'v' admits no nulls"):
        write(tmp_path / "f", [batch], (field,), file__format="avro")


def test_a_time_that_orc_cannot_represent_is_refused_by_name_and_leaves_no_file(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}")
    catalog.create_database("d")
    schema = pa.schema([("id", pa.int64()), ("t", pa.timestamp("us"))])
    table = catalog.create_table("d.t", schema, primary_keys=["id"], options={"bucket": "1", "file.format": "orc"})
    with pytest.raises(InvalidInputError, match="The column 't' has timestamps before 1678 or after 2261"):
        table.upsert([{"id": 1, "t": datetime(9999, 12, 31)}])
    assert not list(tmp_path.rglob("*.orc"))
