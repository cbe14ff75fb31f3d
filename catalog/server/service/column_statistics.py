"""Column statistics as values: Hive's statistics of a column, how those of several partitions are merged, and their
part of a transaction.

The kinds and fields are Hive's ColumnStatisticsData. A kind has only some of the fields; the others are None.
"""

import base64
import dataclasses
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol

from interbed.catalog.server.service.model import PARAMETER_DDL_TIME, StorageDescriptor

COLUMN_STATS_ACCURATE = "COLUMN_STATS_ACCURATE"
"""The parameter that lists the columns whose statistics are accurate: `{"BASIC_STATS":"true","COLUMN_STATS":{"a":
"true"}}`.
"""

BASIC_STATISTICS = ("numRows", "numFiles", "totalSize", "rawDataSize", "numFilesErasureCoded")
"""Parameters with counts of what a table or a partition holds."""

DEFAULT_ENGINE = "hive"


class StatisticsKind(StrEnum):
    """The structure of Hive that holds the numbers."""

    BOOLEAN = "boolean"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"


Number = int | float | Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsData:
    """The numbers. `low` and `high` are int, float or Decimal by kind, days or seconds since the epoch for dates and
    timestamps; `distinct` is an estimate; sketches are kept as they came.
    """

    kind: StatisticsKind
    nulls: int = 0
    distinct: int | None = None
    low: Number | None = None
    high: Number | None = None
    length_max: int | None = None
    length_average: float | None = None
    trues: int | None = None
    falses: int | None = None
    bit_vectors: bytes | None = None
    histogram: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """The statistics of one column of a table or a partition."""

    column: str
    type: str
    data: StatisticsData
    analyzed_at: int = 0


class Statistics(Protocol):
    """Statistics of the columns of tables and partitions, separate for each engine. Columns are in lower case; None
    selects all of them. They are removed with their table or partition.
    """

    def of_table(self, table_id: int, columns: Sequence[str] | None, engine: str) -> list[ColumnStatistics]: ...
    def put_of_table(self, table_id: int, engine: str, statistics: Iterable[ColumnStatistics]) -> None:
        """Store statistics in place of the existing ones."""
        ...

    def remove_of_table(self, table_id: int, engine: str, columns: Sequence[str] | None) -> int: ...
    def keep_table_columns(self, table_id: int, keep: Collection[str]) -> None:
        """Remove the statistics of all columns of the table but these, whatever the engine."""
        ...

    def of_partitions(
        self, table_id: int, names: Sequence[str], columns: Sequence[str] | None, engine: str
    ) -> Iterator[tuple[str, ColumnStatistics]]:
        """Return the statistics of partitions, with their names, in order."""
        ...

    def put_of_partitions(self, table_id: int, engine: str, statistics: Iterable[tuple[int, ColumnStatistics]]) -> None:
        """Store statistics, each with the row id of its partition, in place of the existing ones."""
        ...

    def remove_of_partitions(self, partition_ids: Sequence[int], engine: str, columns: Sequence[str] | None) -> int: ...
    def keep_partition_columns(self, partition_id: int, keep: Collection[str]) -> None:
        """Remove the statistics of all columns of the partition but these, whatever the engine."""
        ...

    def keep_columns_of_partitions(self, table_id: int, keep: Collection[str]) -> None:
        """Remove the statistics of all columns of all partitions of the table but these, whatever the engine."""
        ...


def merged(parts: Sequence[ColumnStatistics]) -> ColumnStatistics:
    """Merge the statistics of all parts by Hive's rules: the least low, the greatest high, the maximum of lengths and
    of distinct values, the sum of the rest. The number of distinct values is limited to the range of whole numbers.

    ValueError if their kinds differ. Sketches of distinct values are kept only where there is one part: Hive merges
    them only with `metastore.stats.fetch.bitvector`, which is off by default.
    """
    if len(parts) == 1:
        return dataclasses.replace(parts[0], data=_bounded(parts[0].data))
    data = [part.data for part in parts]
    kinds = {each.kind for each in data}
    if len(kinds) > 1:
        raise ValueError(f"statistics of column {parts[0].column} are of several kinds: {', '.join(sorted(kinds))}")
    together = StatisticsData(
        kind=data[0].kind,
        nulls=sum(each.nulls for each in data),
        distinct=_greatest(each.distinct for each in data),
        low=_least(each.low for each in data),
        high=_greatest(each.high for each in data),
        length_max=_greatest(each.length_max for each in data),
        length_average=_greatest(each.length_average for each in data),
        trues=_sum(each.trues for each in data),
        falses=_sum(each.falses for each in data),
    )
    analyzed_at = max(part.analyzed_at for part in parts)
    return dataclasses.replace(parts[0], data=_bounded(together), analyzed_at=analyzed_at)


def scaled(statistics: ColumnStatistics, found: int, asked: int) -> ColumnStatistics:
    """Return the statistics of `found` partitions extrapolated to `asked`: counts grow in proportion."""
    if found >= asked:
        return statistics
    data = statistics.data

    def grown(count: int | None) -> int | None:
        return None if count is None else count * asked // found

    return dataclasses.replace(
        statistics,
        data=dataclasses.replace(
            data, nulls=grown(data.nulls) or 0, trues=grown(data.trues), falses=grown(data.falses)
        ),
    )


def statistics_to_keep(old: StorageDescriptor | None, new: StorageDescriptor | None) -> set[str] | None:
    """Return the columns whose statistics remain valid after a change of columns; None for all of them."""
    before = set() if old is None else {(column.name.lower(), column.type) for column in old.columns}
    after = set() if new is None else {(column.name.lower(), column.type) for column in new.columns}
    return None if before <= after else {name for name, _ in before & after}


def without_stale_columns(
    parameters: Mapping[str, str], old: StorageDescriptor | None, new: StorageDescriptor | None
) -> dict[str, str]:
    """Return the parameters without the columns in COLUMN_STATS_ACCURATE whose statistics a change of columns drops."""
    keep = statistics_to_keep(old, new)
    if keep is None or old is None:
        return dict(parameters)
    return without_accurate_columns(parameters, {column.name.lower() for column in old.columns} - keep)


def with_accurate_columns(parameters: Mapping[str, str], columns: Iterable[str]) -> dict[str, str]:
    """Return the parameters with these columns added to COLUMN_STATS_ACCURATE."""
    basic, known = _accurate(parameters)
    return _with_accurate(parameters, basic, known | {column.lower() for column in columns})


def with_accurate_basics(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters with COLUMN_STATS_ACCURATE for the counts, and for no column."""
    return _with_accurate(parameters, True, set())


def emptied(parameters: Mapping[str, str], now: int) -> dict[str, str]:
    """Return the parameters of an emptied table or partition: its counts are zero and accurate, its column statistics
    are no longer accurate. Column statistics are kept, as in Hive.
    """
    zero = {each: "0" for each in BASIC_STATISTICS if each in parameters}
    if zero or COLUMN_STATS_ACCURATE in parameters:
        return {**with_accurate_basics({**parameters, **zero}), PARAMETER_DDL_TIME: str(now)}
    return {**parameters, PARAMETER_DDL_TIME: str(now)}


def without_accurate_columns(parameters: Mapping[str, str], columns: Iterable[str] | None) -> dict[str, str]:
    """Return the parameters with these columns, or all if None, removed from COLUMN_STATS_ACCURATE."""
    if COLUMN_STATS_ACCURATE not in parameters:
        return dict(parameters)
    basic, known = _accurate(parameters)
    return _with_accurate(
        parameters, basic, set() if columns is None else known - {column.lower() for column in columns}
    )


def with_only_accurate_columns(parameters: Mapping[str, str], keep: Collection[str]) -> dict[str, str]:
    """Return the parameters with all other columns removed from COLUMN_STATS_ACCURATE."""
    return without_accurate_columns(parameters, _accurate(parameters)[1].difference(keep))


def hive_fields(statistics: ColumnStatistics) -> dict[str, Any]:
    """Return a ColumnStatisticsObj as plain JSON, with Hive's names of fields; bytes as base64 text."""
    data = statistics.data
    fields: dict[str, Any] = {
        "numTrues": data.trues,
        "numFalses": data.falses,
        "lowValue": _hive_number(data.kind, data.low),
        "highValue": _hive_number(data.kind, data.high),
        "maxColLen": data.length_max,
        "avgColLen": data.length_average,
        "numNulls": data.nulls,
        "numDVs": data.distinct,
        "bitVectors": _base64(data.bit_vectors),
        "histogram": _base64(data.histogram),
    }
    present = {name: value for name, value in fields.items() if value is not None}
    return {
        "colName": statistics.column,
        "colType": statistics.type,
        "statsData": {f"{data.kind}Stats": present},
    }


def unscaled_bytes(number: Decimal) -> tuple[bytes, int]:
    """Return a decimal as Hive sends it: the digits as a big-endian number in two's complement, and the scale."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits)) or "0") * (10**exponent if exponent > 0 else 1)
    whole = -whole if sign else whole
    # As few bytes as the sign allows: -128 takes one, 128 takes two.
    length = (whole if whole >= 0 else whole + 1).bit_length() // 8 + 1
    return whole.to_bytes(length, "big", signed=True), max(-exponent, 0)


def _hive_number(kind: StatisticsKind, number: Number | None) -> Any:
    if number is None:
        return None
    if isinstance(number, Decimal):
        unscaled, scale = unscaled_bytes(number)
        return {"unscaled": _base64(unscaled), "scale": scale}
    if kind is StatisticsKind.DATE:
        return {"daysSinceEpoch": number}
    if kind is StatisticsKind.TIMESTAMP:
        return {"secondsSinceEpoch": number}
    return number


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bounded(data: StatisticsData) -> StatisticsData:
    if data.kind not in (StatisticsKind.LONG, StatisticsKind.DATE) or data.distinct is None:
        return data
    if not isinstance(data.low, int) or not isinstance(data.high, int):
        return data
    distinct = min(data.distinct, data.high - data.low + 1)
    return data if distinct == data.distinct else dataclasses.replace(data, distinct=distinct)


def _least(values: Iterable[Any]) -> Any:
    return min((value for value in values if value is not None), default=None)


def _greatest(values: Iterable[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)


def _sum(values: Iterable[int | None]) -> int | None:
    present = [value for value in values if value is not None]
    return sum(present) if present else None


def _accurate(parameters: Mapping[str, str]) -> tuple[bool, set[str]]:
    text = parameters.get(COLUMN_STATS_ACCURATE)
    if text is None:
        return False, set()
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        # Old clients wrote a bare true.
        return text.lower() == "true", set()
    columns = fields.get("COLUMN_STATS")
    known = {name for name, value in columns.items() if value == "true"} if isinstance(columns, dict) else set()
    return fields.get("BASIC_STATS") == "true", known


def _with_accurate(parameters: Mapping[str, str], basic: bool, columns: set[str]) -> dict[str, str]:
    fields: dict[str, Any] = {}
    if basic:
        fields["BASIC_STATS"] = "true"
    if columns:
        fields["COLUMN_STATS"] = dict.fromkeys(sorted(columns), "true")
    return {**parameters, COLUMN_STATS_ACCURATE: json.dumps(fields, separators=(",", ":"))}
