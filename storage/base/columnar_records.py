"""Parquet and ORC files of records of metadata: manifests, manifest lists and index manifests (`manifest.format`).

Files of interbed have checksums (`interbed.storage.base.checksums`): in Parquet of each page and of the footer, in ORC
of the whole file. Files of other writers have none and are not checked.

Their Arrow schemas are made of the Avro schemas that `interbed.storage.base.avro.records` describes. Paimon's field ids
count the fields of each record from 0, but for `_VERSION`, which comes first in the outermost record and has -1.
Elements of lists have ids computed from the id of their field. Source: paimon-core `VersionedObjectSerializer` and
paimon-common `SpecialFields`.
"""

import io
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.checksums import MAGIC, ChecksumSink, check_orc, open_parquet, with_footer_checksum
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.types.arrow import FIELD_ID

PARQUET, ORC = "parquet", "orc"
CODECS: Mapping[str, Mapping[str, str]] = {
    PARQUET: {c: c for c in ("zstd", "snappy", "gzip", "lz4", "brotli")} | {"lz4_raw": "lz4"},
    ORC: {c: c for c in ("zstd", "snappy", "zlib", "lz4")},
}
"""The name of a codec in the format's writer by its name in the options, by format."""
UNCOMPRESSED = ("none", "uncompressed", "null")

_ORC_MAGIC = b"ORC"


def format_of(content: bytes) -> str | None:
    """Return `parquet` or `orc` by the magic number at the beginning of a file, None for any other file."""
    if content.startswith(MAGIC):
        return PARQUET
    return ORC if content.startswith(_ORC_MAGIC) else None


def codec_of(file_format: str, compression: str) -> str | None:
    """Return the writer's name of a value of `manifest.compression`. Raises InvalidOptionError."""
    if compression.lower() in UNCOMPRESSED:
        return None
    codecs = CODECS[file_format]
    if compression.lower() not in codecs:
        known = ", ".join(("none", *codecs))
        raise InvalidOptionError(
            f"Option 'manifest.compression' takes one of {known} for manifests in {file_format}, not '{compression}'."
        )
    return codecs[compression.lower()]


def write_columns(
    schema: pa.Schema, records: Iterable[Mapping[str, Any]], file_format: str, codec: str | None
) -> bytes:
    """Return the content of a file of the records; `codec` is the name in the format's writer."""
    rows: Any = array_of(list(records), pa.struct(list(schema)))
    table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)]).cast(schema)
    target = io.BytesIO()
    if file_format == PARQUET:
        _write_parquet(table, target, codec)
        return _with_parquet_checksum(target.getvalue())
    from pyarrow import orc

    # The stubs of pyarrow lag behind what the writer takes.
    make: Any = orc.ORCWriter
    sink = ChecksumSink(target)
    with make(sink, compression=codec or "uncompressed") as writer:
        writer.write(table)
    sink.write_checksum()
    return target.getvalue()


def read_columns(content: bytes) -> pa.Table:
    """Return the records of a Parquet or ORC file of metadata.

    Raises ValueError and Arrow's errors for bytes that are no such file.
    """
    if format_of(content) == ORC:
        from pyarrow import orc

        check_orc(pa.BufferReader(content))
        stripes = orc.ORCFile(pa.BufferReader(content))
        found, expected = stripes.read(), stripes.nrows
    else:
        with open_parquet(pa.BufferReader(content)) as file:
            # A thread for each of some forty columns costs more than it gains.
            found, expected = file.read(use_threads=False), file.metadata.num_rows
    if found.num_rows != expected:
        raise ValueError(f"it has {found.num_rows} records instead of {expected}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFile:
    """The records of a Parquet or ORC file with all of their fields, and how they are written."""

    records: list[dict[str, Any]]
    schema: pa.Schema
    file_format: str
    codec: str | None

    @staticmethod
    def read(content: bytes, codec: str | None) -> "ColumnFile":
        """Return the file of that content, to be written with the codec. Raises the errors of `read_columns`."""
        table = read_columns(content)
        found = format_of(content) or PARQUET
        return ColumnFile(records=table.to_pylist(), schema=table.schema, file_format=found, codec=codec)

    @property
    def names(self) -> set[str]:
        """The names of all fields, at every depth."""
        return _names(self.schema)

    def to_bytes(self) -> bytes:
        """Return the content of a file of the records."""
        return write_columns(self.schema, self.records, self.file_format, self.codec)


def _names(fields: Iterable["pa.Field[Any]"]) -> set[str]:
    found: set[str] = set()
    for field in fields:
        inner = field.type.value_type if isinstance(field.type, pa.ListType) else field.type
        found |= {field.name} | (_names(inner) if isinstance(inner, pa.StructType) else set())
    return found


def _write_parquet(table: pa.Table, target: io.BytesIO, codec: str | None) -> None:
    import pyarrow.parquet as pq

    make: Any = pq.ParquetWriter
    with make(
        target,
        table.schema,
        compression=codec or "none",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=table.num_rows)


def _with_parquet_checksum(content: bytes) -> bytes:
    length = int.from_bytes(content[-8:-4], "little")
    footer = with_footer_checksum(content[-8 - length : -8], b"")
    return b"".join((content[: -8 - length], footer, len(footer).to_bytes(4, "little"), MAGIC))


# -- schemas -----------------------------------------------------------------------------------------------------------

ORC_ID = b"paimon.id"
"""The attribute of ORC's types that holds the field id."""
NESTED_ID_BASE = (2**31 - 1) // 4
NESTED_DEPTHS = 1024
"""The ids of elements, keys and values are computed from the column's id and their depth in it."""
VERSION = "_VERSION"

_PRIMITIVES: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}


def parquet_schema(avro: dict[str, Any], tiny: Collection[str]) -> pa.Schema:
    """Return the schema of a Parquet file of such records; `tiny` names the TINYINT fields, a type that Avro lacks."""
    return pa.schema(_fields(avro, tiny, FIELD_ID, strict=True))


def orc_schema(avro: dict[str, Any], tiny: Collection[str]) -> pa.Schema:
    """Return the schema of an ORC file of such records, all of whose fields admit nulls."""
    return pa.schema(_fields(avro, tiny, ORC_ID, strict=False))


def _fields(record: dict[str, Any], tiny: Collection[str], key: bytes, *, strict: bool) -> list["pa.Field[Any]"]:
    first = -1 if record["fields"][0]["name"] == VERSION else 0
    return [_field(f["name"], f["type"], n, tiny, key, strict=strict) for n, f in enumerate(record["fields"], first)]


def _field(name: str, avro: Any, number: int, tiny: Collection[str], key: bytes, *, strict: bool) -> "pa.Field[Any]":
    optional = isinstance(avro, list)
    kind = avro[1] if optional else avro
    arrow = pa.int8() if name in tiny else _type(kind, number, tiny, key, strict=strict)
    return pa.field(name, arrow, optional or not strict, {key: str(number).encode()})


def _type(avro: Any, number: int, tiny: Collection[str], key: bytes, *, strict: bool) -> pa.DataType:
    if isinstance(avro, str):
        return _PRIMITIVES[avro]
    if avro["type"] == "record":
        return pa.struct(_fields(avro, tiny, key, strict=strict))
    if avro["type"] == "array":
        element = NESTED_ID_BASE + number * NESTED_DEPTHS + 1
        # The stubs of pyarrow know list_ for types only.
        inner: Any = _field("element", avro["items"], element, tiny, key, strict=strict)
        elements: pa.DataType = pa.list_(inner)
        return elements
    # A long of the logical type timestamp-millis is the only other type of such records.
    return pa.timestamp("ms")
