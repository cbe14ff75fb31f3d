"""Statistics of a table that ANALYZE has left with a snapshot: `statistics/stat-…`, by interbed or Java Paimon."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interbed.storage.base.errors import CorruptFileError, InvalidInputError, plain_errors
from interbed.storage.base.row.values import parse_text
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.json_object import MemberType, read_object
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumnStatistics:
    """Statistics of a column. `least` and `greatest` are the column's Python values, lengths in characters or bytes.

    `distinct` is an estimate, within about 1 %.
    """

    column_id: int
    distinct: int
    nulls: int
    least: object = None
    greatest: object = None
    average_length: int
    maximal_length: int


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatistics:
    """Rows and bytes of a table as of a snapshot, and the analysed columns."""

    snapshot_id: int
    schema_id: int
    row_count: int
    byte_size: int
    columns: dict[str, TableColumnStatistics]


_MEMBERS: Mapping[str, MemberType] = {
    "snapshotId": int,
    "schemaId": int,
    "mergedRecordCount": int,
    "mergedRecordSize": int,
    "colStats": dict,
}


def read_statistics(store: FileStore, snapshot: Snapshot) -> TableStatistics | None:
    """Return the statistics of the table as of a snapshot, by current column names; None if it was never analysed.

    Columns that were dropped or are of another type are left out. Raises CorruptFileError.
    """
    if snapshot.statistics is None:
        return None
    path = store.paths.statistics(snapshot.statistics)
    try:
        value = read_object(store.file_io.read_bytes(path), _MEMBERS, source=path, what="a file of statistics")
        schema_id = int(value["schemaId"])
        then = store.schema_of(schema_id)
        return TableStatistics(
            snapshot_id=int(value["snapshotId"]),
            schema_id=schema_id,
            row_count=int(value.get("mergedRecordCount") or 0),
            byte_size=int(value.get("mergedRecordSize") or 0),
            columns=_columns(value.get("colStats") or {}, then, store.schema),
        )
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, FileNotFoundError) as error:
        raise CorruptFileError(f"{path} does not hold statistics: {error}") from error


def _columns(given: Mapping[str, Any], then: TableSchema, now: TableSchema) -> dict[str, TableColumnStatistics]:
    ids = {field.id: field for field in then.fields}
    found: dict[str, TableColumnStatistics] = {}
    for value in given.values():
        field = ids.get(int(value["colId"]))
        current = next((f for f in now.fields if field is not None and f.id == field.id), None)
        if field is None or current is None or current.type.with_nullable(True) != field.type.with_nullable(True):
            continue
        found[current.name] = TableColumnStatistics(
            column_id=field.id,
            distinct=int(value.get("distinctCount") or 0),
            nulls=int(value.get("nullCount") or 0),
            least=_value(value.get("min"), field),
            greatest=_value(value.get("max"), field),
            average_length=int(value.get("avgLen") or 0),
            maximal_length=int(value.get("maxLen") or 0),
        )
    return found


def _value(text: str | None, field: DataField) -> object:
    """Return a bound from the text that Java's serializers write; None if it can't be read."""
    if text is None:
        return None
    with contextlib.suppress(InvalidInputError):
        return parse_text(text, field.type)
    return None
