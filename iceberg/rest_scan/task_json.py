"""Data files, delete files and tasks in the JSON of Iceberg's REST specification.

Partition values are as the specification's single values: texts for dates, times and decimals, hexadecimal for bytes.
Bounds are the bytes of the manifest in hexadecimal, which Java's clients decode. `referenced-data-file` is not in the
specification; clients need it to find the rows of a deletion vector. Source: Iceberg's REST specification, "DataFile",
"DeleteFile", and its table specification, "JSON single-value serialization".
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from interbed.iceberg.meta.live_files import LiveFile
from interbed.iceberg.meta.manifests import FIRST_ROW_ID
from interbed.storage.base.errors import NotSupportedError

_CONTENTS = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position-deletes",
    DataFileContent.EQUALITY_DELETES: "equality-deletes",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MICROS = 86_400_000_000
_DIGITS = Context(prec=76)
"""Digits of decimals, of which a column has at most 38."""
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


class FileJson:
    """Files of a table in JSON. `statistics` are the ids of the columns whose statistics are included."""

    def __init__(
        self, schema: Schema, specs: Mapping[int, PartitionSpec], statistics: Collection[int] = frozenset()
    ) -> None:
        self._schema = schema
        self._specs = specs
        self._statistics = frozenset(statistics)
        self._types: dict[int, Sequence[IcebergType]] = {}

    def data(self, file: DataFile) -> dict[str, Any]:
        """Return a data file. Raises NotSupportedError for a partition that JSON cannot express."""
        found = self._common(file)
        row_id = file._data[FIRST_ROW_ID]
        if row_id is not None:
            found["first-row-id"] = row_id
        for name in _COUNTS:
            found |= self._map(name, getattr(file, name), int)
        for name in _BOUNDS:
            found |= self._map(name, getattr(file, name), _hexadecimal)
        return found

    def delete(self, file: DataFile, live: LiveFile) -> dict[str, Any]:
        """Return a delete file. Raises NotSupportedError for a partition that JSON cannot express."""
        found = self._common(file)
        if live.equality_ids:
            found["equality-ids"] = list(live.equality_ids)
        if live.referenced is not None:
            found["referenced-data-file"] = live.referenced
        if live.offset is not None:
            found |= {"content-offset": live.offset, "content-size-in-bytes": live.length}
        return found

    def _common(self, file: DataFile) -> dict[str, Any]:
        found: dict[str, Any] = {
            "content": _CONTENTS[file.content],
            "file-path": file.file_path,
            "file-format": file.file_format.value.lower(),
            "spec-id": file.spec_id,
            "partition": self._partition(file),
            "file-size-in-bytes": file.file_size_in_bytes,
            "record-count": file.record_count,
        }
        if file.key_metadata is not None:
            found["key-metadata"] = _hexadecimal(file.key_metadata)
        if file.split_offsets is not None:
            found["split-offsets"] = list(file.split_offsets)
        if file.sort_order_id is not None:
            found["sort-order-id"] = file.sort_order_id
        return found

    def _partition(self, file: DataFile) -> list[Any]:
        kinds = self._types.get(file.spec_id)
        if kinds is None:
            fields = self._specs[file.spec_id].partition_type(self._schema).fields
            kinds = self._types[file.spec_id] = [field.field_type for field in fields]
        try:
            return [single_value(kind, file.partition[place]) for place, kind in enumerate(kinds)]
        except NotSupportedError as error:
            raise NotSupportedError(f"The partition of {file.file_path} can't be sent: {error}") from error

    def _map(self, name: str, given: Mapping[int, Any] | None, shown: Callable[[Any], Any]) -> dict[str, Any]:
        kept = {key: value for key, value in (given or {}).items() if key in self._statistics}
        if not kept:
            return {}
        return {name.replace("_", "-"): {"keys": list(kept), "values": [shown(value) for value in kept.values()]}}


def single_value(kind: IcebergType, value: Any) -> Any:
    """Return a value of a manifest as a single value in JSON.

    Raises NotSupportedError for NaN and infinities, for a date beyond the years 1 to 9999, and for a time beyond a day.
    """
    if value is None:
        return None
    match kind:
        case DateType():
            return _day(value)
        case TimeType():
            return _time(value)
        case TimestampType():
            return _moment(value)
        case TimestamptzType():
            return f"{_moment(value)}+00:00"
        case TimestampNanoType():
            return _nanoseconds(value)
        case TimestamptzNanoType():
            return f"{_nanoseconds(value)}+00:00"
        case DecimalType():
            return _decimal(value, kind.scale)
        case UUIDType():
            return str(value if isinstance(value, UUID) else UUID(bytes=bytes(value)))
        case BinaryType() | FixedType():
            return _hexadecimal(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise NotSupportedError(f"its value {value} has no form in JSON; plan this scan in the client.")
    return value


def _day(value: int) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    except OverflowError as error:
        raise NotSupportedError(f"its value {value} is a day beyond the years 1 to 9999.") from error


def _time(value: int) -> str:
    if not 0 <= value < _DAY_MICROS:
        raise NotSupportedError(f"its value {value} is no time of a day in microseconds.")
    return _moment(value).partition("T")[2]


def _moment(micros: int, given: int | None = None) -> str:
    try:
        found = _EPOCH + timedelta(microseconds=micros)
    except OverflowError as error:
        shown = micros if given is None else given
        raise NotSupportedError(f"its value {shown} is a moment beyond the years 1 to 9999.") from error
    return found.replace(tzinfo=None).isoformat(timespec="microseconds")


def _nanoseconds(value: int) -> str:
    micros, rest = divmod(value, 1000)
    return f"{_moment(micros, value)}{rest:03d}"


def _decimal(value: Decimal, scale: int) -> str:
    exact = value.quantize(Decimal(1).scaleb(-scale), context=_DIGITS)
    return f"{exact:f}" if scale >= 0 else str(exact)


def _hexadecimal(value: bytes) -> str:
    return bytes(value).hex().upper()
