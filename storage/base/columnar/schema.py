"""Arrow schemas of files of metadata, made of the Avro schemas that `interbed.storage.base.avro.records` describes.

Paimon's field ids count the fields of each record from 0, but for `_VERSION`, which comes first in the outermost record
and has -1; elements of lists have ids made of their field's. Source: paimon-core `VersionedObjectSerializer` and
paimon-common `SpecialFields`.
"""

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from interbed.storage.base.types.arrow import FIELD_ID

ORC_ID = b"paimon.id"
"""The attribute of ORC's types that holds the field id."""
NESTED_ID_BASE = (2**31 - 1) // 4
NESTED_DEPTHS = 1024
"""Elements, keys and values have no ids of their own: theirs are made of the column's id and their depth in it."""
VERSION = "_VERSION"

_PRIMITIVES: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}


def parquet_schema(avro: dict[str, Any], tiny: Collection[str]) -> pa.Schema:
    """The schema of a Parquet file of such records; `tiny` names the fields that are TINYINT, which Avro has not."""
    return pa.schema(_fields(avro, tiny, FIELD_ID, strict=True))


def orc_schema(avro: dict[str, Any], tiny: Collection[str]) -> pa.Schema:
    """The schema of an ORC file of such records, all of whose fields admit nulls."""
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
