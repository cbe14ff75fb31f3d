"""Column statistics in SQL. The numbers are a JSON document; no query searches by them."""

import base64
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, delete, select, text
from sqlalchemy.dialects import postgresql, sqlite

from interbed.catalog.server.database.models import (
    PartitionRow,
    PartitionSetRow,
    PartitionStatisticsRow,
    TableStatisticsRow,
)
from interbed.catalog.server.service.column_statistics import ColumnStatistics, StatisticsData, StatisticsKind

ROWS_FETCHED = 10_000

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_PLAIN = ("nulls", "distinct", "length_max", "length_average", "trues", "falses")


class SqlStatistics:
    """Statistics of the columns of tables and of partitions, separate for each engine."""

    __slots__ = ("_connection", "_postgresql")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._postgresql = connection.dialect.name == "postgresql"

    def of_table(self, table_id: int, columns: Sequence[str] | None, engine: str) -> list[ColumnStatistics]:
        """Return the statistics of these columns, of all if None, in the order of their names."""
        row = TableStatisticsRow
        statement = (
            select(row.column_name, row.column_type, row.analyzed_at, row.document)
            .where(row.table_id == table_id, row.engine == engine)
            .order_by(row.column_name)
        )
        chosen = None if columns is None else set(columns)
        rows = self._connection.execute(statement)
        return [_statistics(each) for each in rows if chosen is None or each.column_name in chosen]

    def put_of_table(self, table_id: int, engine: str, statistics: Iterable[ColumnStatistics]) -> None:
        """Store statistics in place of the existing ones."""
        rows = [{"table_id": table_id, "engine": engine, **_row(each)} for each in statistics]
        if rows:
            self._connection.execute(self._upsert(TableStatisticsRow, ("table_id", "engine", "column_name")), rows)

    def remove_of_table(self, table_id: int, engine: str, columns: Sequence[str] | None) -> int:
        """Remove the statistics of these columns, all if None; return how many there were."""
        row = TableStatisticsRow
        statement = delete(row).where(row.table_id == table_id, row.engine == engine)
        if columns is not None:
            statement = statement.where(row.column_name.in_(columns))
        return self._connection.execute(statement).rowcount

    def keep_table_columns(self, table_id: int, keep: Collection[str]) -> None:
        """Remove the statistics of all columns of the table but these, whatever the engine."""
        row = TableStatisticsRow
        self._connection.execute(delete(row).where(row.table_id == table_id, row.column_name.not_in(keep)))

    def of_partitions(
        self, table_id: int, names: Sequence[str], columns: Sequence[str] | None, engine: str
    ) -> Iterator[tuple[str, ColumnStatistics]]:
        """Return the statistics of these columns of these partitions, with the partitions' names, in their order."""
        statement = (
            "SELECT p.name, c.column_name, c.column_type, c.analyzed_at, c.document "
            "FROM partition_sets s JOIN partitions p ON p.set_id = s.id "
            "JOIN partition_statistics c ON c.partition_id = p.id AND c.engine = :engine "
            f"WHERE s.table_id = :table_id AND p.name {self._among('names')}"
        )
        parameters = {"table_id": table_id, "engine": engine, "names": self._list(names)}
        if columns is not None:
            statement += f" AND c.column_name {self._among('columns')}"
            parameters["columns"] = self._list(columns)
        rows = self._connection.execute(text(statement + " ORDER BY p.name, c.column_name"), parameters)
        for part in rows.partitions(ROWS_FETCHED):
            yield from ((row.name, _statistics(row)) for row in part)

    def put_of_partitions(self, table_id: int, engine: str, statistics: Iterable[tuple[int, ColumnStatistics]]) -> None:
        """Store statistics, each with the row id of its partition, in place of the existing ones."""
        set_id = self._connection.execute(
            select(PartitionSetRow.id).where(PartitionSetRow.table_id == table_id)
        ).scalar_one_or_none()
        rows = [
            {"partition_id": partition_id, "engine": engine, "set_id": set_id, **_row(each)}
            for partition_id, each in statistics
        ]
        if rows:
            keys = ("partition_id", "engine", "column_name")
            self._connection.execute(self._upsert(PartitionStatisticsRow, keys), rows)

    def remove_of_partitions(self, partition_ids: Sequence[int], engine: str, columns: Sequence[str] | None) -> int:
        """Remove the statistics of these columns (all if None) of partitions; return how many there were."""
        statement = f"DELETE FROM partition_statistics WHERE partition_id {self._among('ids')} AND engine = :engine"
        parameters = {"ids": self._list(partition_ids), "engine": engine}
        if columns is not None:
            statement += f" AND column_name {self._among('columns')}"
            parameters["columns"] = self._list(columns)
        return self._connection.execute(text(statement), parameters).rowcount

    def keep_partition_columns(self, partition_id: int, keep: Collection[str]) -> None:
        """Remove the statistics of all columns of the partition but these, whatever the engine."""
        row = PartitionStatisticsRow
        self._connection.execute(delete(row).where(row.partition_id == partition_id, row.column_name.not_in(keep)))

    def keep_columns_of_partitions(self, table_id: int, keep: Collection[str]) -> None:
        """Remove the statistics of all columns of all partitions of the table but these, whatever the engine."""
        row = PartitionStatisticsRow
        ids = (
            select(PartitionRow.id)
            .join(PartitionSetRow, PartitionSetRow.id == PartitionRow.set_id)
            .where(PartitionSetRow.table_id == table_id)
        )
        self._connection.execute(delete(row).where(row.partition_id.in_(ids), row.column_name.not_in(keep)))

    def _upsert(self, model: Any, keys: Sequence[str]) -> Any:
        statement = (postgresql if self._postgresql else sqlite).insert(model)
        fields = ("column_type", "analyzed_at", "document")
        return statement.on_conflict_do_update(
            index_elements=list(keys), set_={name: getattr(statement.excluded, name) for name in fields}
        )

    def _among(self, parameter: str) -> str:
        return f"= ANY (:{parameter})" if self._postgresql else f"IN (SELECT value FROM json_each(:{parameter}))"

    def _list(self, values: Sequence[Any]) -> Any:
        return list(values) if self._postgresql else json.dumps(list(values))


def _row(statistics: ColumnStatistics) -> dict[str, Any]:
    return {
        "column_name": statistics.column,
        "column_type": statistics.type,
        "analyzed_at": statistics.analyzed_at,
        "document": _document(statistics.data),
    }


def _document(data: StatisticsData) -> str:
    fields: dict[str, Any] = {"kind": str(data.kind)}
    fields.update((name, getattr(data, name)) for name in _PLAIN)
    for name in ("low", "high"):
        number = getattr(data, name)
        fields[name] = str(number) if isinstance(number, Decimal) else number
    for name in ("bit_vectors", "histogram"):
        value = getattr(data, name)
        fields[name] = None if value is None else base64.b64encode(value).decode()
    return _encode({name: value for name, value in fields.items() if value is not None})


def _statistics(row: Any) -> ColumnStatistics:
    fields = json.loads(row.document)
    kind = StatisticsKind(fields.pop("kind"))
    for name in ("low", "high"):
        if kind is StatisticsKind.DECIMAL and name in fields:
            fields[name] = Decimal(fields[name])
    for name in ("bit_vectors", "histogram"):
        if name in fields:
            fields[name] = base64.b64decode(fields[name])
    return ColumnStatistics(
        column=row.column_name,
        type=row.column_type,
        analyzed_at=row.analyzed_at,
        data=StatisticsData(kind=kind, **fields),
    )
