"""Column statistics of tables and partitions: store, read, merge, delete.

A client that stores them also updates COLUMN_STATS_ACCURATE of the table or partition. They are kept by a rename, and
removed with the table, the partition, or the column, or when its type changes.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interbed.catalog.server.service import events
from interbed.catalog.server.service.access.guard import CHANGE
from interbed.catalog.server.service.access.objects import Privilege, SecuredObject
from interbed.catalog.server.service.access.secured import (
    SecuredService,
    a_column_of_the_table_of_the_key,
    needs,
    secured,
    table_of,
    the_table_of_the_key,
)
from interbed.catalog.server.service.column_statistics import (
    DEFAULT_ENGINE,
    ColumnStatistics,
    hive_fields,
    merged,
    scaled,
    with_accurate_columns,
    without_accurate_columns,
)
from interbed.catalog.server.service.errors import InvalidObjectError, MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.model import MetastoreColumn, MetastoreTable
from interbed.catalog.server.service.names import LISTED_MAX, check_number, normalized, partition_name, shortened
from interbed.catalog.server.service.partitions.reads import TableKey, canonical_names, values_in_name
from interbed.catalog.server.service.repository import Repository, StoredRow, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsUpdate:
    """Statistics of columns of a table, or of its partition of this name."""

    partition: str | None = None
    columns: tuple[ColumnStatistics, ...]


class StatisticsService(SecuredService):
    """The calls about column statistics. Each takes the table as (catalog, database, name)."""

    def __init__(
        self,
        store: Repository,
        *,
        clock: Callable[[], float] = time.time,
        hidden: Callable[[SecuredObject], Callable[[str], bool]] = lambda _table: lambda _column: False,
    ) -> None:
        """Make the service. `hidden` returns of which columns of a table the caller sees no statistics."""
        self._store = store
        self._clock = clock
        self._hidden = hidden

    @secured(needs(CHANGE, the_table_of_the_key))
    def update(
        self,
        key: TableKey,
        updates: Sequence[StatisticsUpdate],
        *,
        merge: bool = False,
        engine: str = DEFAULT_ENGINE,
    ) -> None:
        """Store statistics, all or none; with `merge` they are added to the existing ones.

        NoSuchObjectError for the table or a partition, InvalidObjectError for the name of a partition or the table of
        one, MetastoreError for an unknown column.
        """
        of_table = [update for update in updates if update.partition is None]
        of_partitions = [update for update in updates if update.partition is not None]

        def work(transaction: Transaction) -> None:
            table = _table_to_change(transaction, key, of_partitions=bool(of_partitions))
            now = int(self._clock())
            for update in of_table:
                _check_columns(table.value, update.columns)
            changes = [self._update_table(transaction, table, update, merge, engine, now) for update in of_table]
            changes.extend(self._update_partitions(transaction, table, of_partitions, merge, engine, now))
            transaction.events.append(*changes)

        if updates:
            self._store.write(work)

    @secured(needs(Privilege.SELECT, a_column_of_the_table_of_the_key))
    def of_table(
        self, key: TableKey, columns: Sequence[str] | None, engine: str = DEFAULT_ENGINE
    ) -> tuple[MetastoreTable, list[ColumnStatistics]]:
        """Return the statistics of these columns of the table, of all if None. NoSuchObjectError for the table.

        Statistics of columns that a policy masks for the caller, or that it may not read, are left out, and all of them
        for a caller that sees some rows only.
        """
        is_hidden = self._hidden(table_of(key))

        def work(transaction: Transaction) -> tuple[MetastoreTable, list[ColumnStatistics]]:
            table = _table(transaction, key)
            known = transaction.statistics.of_table(table.id, _lower(columns), engine)
            return table.value, [each for each in known if not is_hidden(each.column)]

        return self._store.read(work)

    @secured(needs(Privilege.SELECT, a_column_of_the_table_of_the_key))
    def of_partitions(
        self, key: TableKey, names: Sequence[str], columns: Sequence[str] | None, engine: str = DEFAULT_ENGINE
    ) -> dict[str, list[ColumnStatistics]]:
        """Return the statistics of these columns of these partitions by the stored name, without partitions that have
        none. Hidden ones are left out as by `of_table`.
        """
        is_hidden = self._hidden(table_of(key))

        def work(transaction: Transaction) -> dict[str, list[ColumnStatistics]]:
            table = _table(transaction, key)
            found: dict[str, list[ColumnStatistics]] = {}
            canonical = canonical_names(table.value.partition_keys, names)
            for name, statistics in transaction.statistics.of_partitions(table.id, canonical, _lower(columns), engine):
                if not is_hidden(statistics.column):
                    found.setdefault(name, []).append(statistics)
            return found

        return self._store.read(work)

    @secured(needs(Privilege.SELECT, a_column_of_the_table_of_the_key))
    def aggregate(
        self, key: TableKey, names: Sequence[str], columns: Sequence[str], engine: str = DEFAULT_ENGINE
    ) -> tuple[list[ColumnStatistics], int]:
        """Return the statistics of these partitions merged, and the number of partitions that have statistics of all
        the columns. Counts are extrapolated to the partitions that lack a column.
        """
        by_partition = self.of_partitions(key, names, columns, engine)
        by_column: dict[str, list[ColumnStatistics]] = {}
        for each in by_partition.values():
            for statistics in each:
                by_column.setdefault(statistics.column, []).append(statistics)
        wanted = set(_lower(columns) or ())
        found = sum({each.column for each in known} >= wanted for known in by_partition.values())
        asked = len(set(names))
        try:
            together = [scaled(merged(parts), len(parts), asked) for parts in by_column.values()]
        except ValueError as error:
            raise MetastoreError(f"the partitions' statistics cannot be put together: {error}") from error
        return (together, found) if found else ([], 0)

    @secured(needs(CHANGE, the_table_of_the_key))
    def delete(
        self,
        key: TableKey,
        columns: Sequence[str] | None,
        partitions: Sequence[str] | None = None,
        engine: str = DEFAULT_ENGINE,
    ) -> None:
        """Remove the statistics of these columns (all if None) of the table, or of some of its partitions.
        NoSuchObjectError if the columns have none, InvalidObjectError for the name of a partition.
        """

        def work(transaction: Transaction) -> None:
            table = _table_to_change(transaction, key, of_partitions=partitions is not None)
            chosen = _lower(columns)
            if partitions is None:
                self._delete_of_table(transaction, table, chosen, engine)
            else:
                self._delete_of_partitions(transaction, table, partitions, chosen, engine)

        self._store.write(work)

    def _update_table(
        self,
        transaction: Transaction,
        table: StoredRow[MetastoreTable],
        update: StatisticsUpdate,
        merge: bool,
        engine: str,
        now: int,
    ) -> events.NotificationEvent:
        new = _stamped(update.columns, now)
        if merge:
            known = transaction.statistics.of_table(table.id, [each.column for each in new], engine)
            new = _together(known, new)
        transaction.statistics.put_of_table(table.id, engine, new)
        changed = dataclasses.replace(
            table.value, parameters=with_accurate_columns(table.value.parameters, [each.column for each in new])
        )
        transaction.tables.replace(table.id, None, changed, table.value)
        described = _described(changed, None, new, engine)
        return events.update_table_column_statistics(changed, described, before=table.value)

    def _update_partitions(
        self,
        transaction: Transaction,
        table: StoredRow[MetastoreTable],
        updates: Sequence[StatisticsUpdate],
        merge: bool,
        engine: str,
        now: int,
    ) -> Iterable[events.NotificationEvent]:
        if not updates:
            return []
        keys = table.value.partition_keys
        new = {_stored_name(keys, update.partition or ""): _stamped(update.columns, now) for update in updates}
        ids = transaction.partitions.ids(table.id, list(new))
        if len(ids) < len(new):
            raise NoSuchObjectError("Partition for which stats is gathered doesn't exist.")
        for update in updates:
            _check_columns(table.value, update.columns)
        if merge:
            known: dict[str, list[ColumnStatistics]] = {}
            for name, each in transaction.statistics.of_partitions(table.id, list(new), None, engine):
                known.setdefault(name, []).append(each)
            new = {name: _together(known.get(name, ()), statistics) for name, statistics in new.items()}
        transaction.statistics.put_of_partitions(
            table.id, engine, [(ids[name], each) for name, statistics in new.items() for each in statistics]
        )
        changes = []
        changed = []
        for partition in transaction.partitions.select(table.id, list(new)):
            name = partition_name(keys, partition.values)
            columns = [each.column for each in new[name]]
            after = dataclasses.replace(partition, parameters=with_accurate_columns(partition.parameters, columns))
            changed.append((ids[name], name, after))
            described = _described(table.value, name, new[name], engine)
            changes.append(events.update_partition_column_statistics(table.value, after, described))
        transaction.partitions.replace_all(table.id, changed)
        return changes

    def _delete_of_table(
        self, transaction: Transaction, table: StoredRow[MetastoreTable], columns: Sequence[str] | None, engine: str
    ) -> None:
        removed = transaction.statistics.remove_of_table(table.id, engine, columns)
        if not removed:
            # The table may have no statistics at all.
            if columns is None:
                return
            raise NoSuchObjectError(_unknown(table.value, None, columns))
        changed = dataclasses.replace(table.value, parameters=without_accurate_columns(table.value.parameters, columns))
        transaction.tables.replace(table.id, None, changed, table.value)
        # One of the events has the change of the table's parameters.
        changes = [
            events.delete_table_column_statistics(changed, each, engine, before=None if index else table.value)
            for index, each in enumerate(columns or (None,))
        ]
        transaction.events.append(*changes)

    def _delete_of_partitions(
        self,
        transaction: Transaction,
        table: StoredRow[MetastoreTable],
        names: Sequence[str],
        columns: Sequence[str] | None,
        engine: str,
    ) -> None:
        keys = table.value.partition_keys
        canonical = [_stored_name(keys, name) for name in names]
        ids = transaction.partitions.ids(table.id, canonical)
        for name in canonical:
            if name not in ids:
                raise NoSuchObjectError(
                    f"Partition {shortened(name)} for which stats deletion is requested doesn't exist"
                )
        if not transaction.statistics.remove_of_partitions(list(ids.values()), engine, columns):
            raise NoSuchObjectError(_unknown(table.value, ", ".join(canonical[:3]), columns))
        changes: list[events.NotificationEvent] = []
        changed = []
        for partition in transaction.partitions.select(table.id, canonical):
            name = partition_name(keys, partition.values)
            parameters = without_accurate_columns(partition.parameters, columns)
            changed.append((ids[name], name, dataclasses.replace(partition, parameters=parameters)))
            changes.extend(
                events.delete_partition_column_statistics(table.value, partition, name, each, engine)
                for each in columns or (None,)
            )
        transaction.partitions.replace_all(table.id, changed)
        transaction.events.append(*changes)


def _table(transaction: Transaction, key: TableKey, *, for_update: bool = False) -> StoredRow[MetastoreTable]:
    catalog, database, name = key
    found = transaction.tables.find(catalog, normalized(database), normalized(name), for_update=for_update)
    if found is None:
        raise NoSuchObjectError(f"Specified database/table does not exist : {shortened(database)}.{shortened(name)}")
    return found


def _table_to_change(transaction: Transaction, key: TableKey, *, of_partitions: bool) -> StoredRow[MetastoreTable]:
    try:
        return _table(transaction, key, for_update=True)
    except NoSuchObjectError as error:
        if of_partitions:
            # Hive's error for the table of a partition.
            raise InvalidObjectError(str(error)) from error
        raise


def _check_columns(table: MetastoreTable, columns: Iterable[ColumnStatistics]) -> None:
    present = {column.name.lower() for column in table.storage.columns} if table.storage is not None else set()
    for each in columns:
        if each.column.lower() not in present:
            raise MetastoreError(
                f"Column {shortened(each.column)} doesn't exist in table {table.name} in database {table.database}"
            )


def _stamped(columns: Iterable[ColumnStatistics], now: int) -> list[ColumnStatistics]:
    return [dataclasses.replace(each, column=each.column.lower(), analyzed_at=now) for each in columns]


def _together(known: Iterable[ColumnStatistics], new: Sequence[ColumnStatistics]) -> list[ColumnStatistics]:
    by_column = {each.column: each for each in known}
    try:
        return [merged([by_column[each.column], each]) if each.column in by_column else each for each in new]
    except ValueError as error:
        raise MetastoreError(f"the statistics cannot be merged: {error}") from error


def _stored_name(keys: Sequence[MetastoreColumn], name: str) -> str:
    try:
        return partition_name(keys, values_in_name(keys, name))
    except NoSuchObjectError as error:
        raise InvalidObjectError(str(error)) from error


def _lower(columns: Sequence[str] | None) -> list[str] | None:
    # An empty list asks for all.
    check_number("names of columns", len(columns or ()), LISTED_MAX)
    return None if not columns else [column.lower() for column in columns]


def _described(
    table: MetastoreTable, partition: str | None, columns: Iterable[ColumnStatistics], engine: str
) -> Mapping[str, Any]:
    described: dict[str, Any] = {
        "isTblLevel": partition is None,
        "dbName": table.database,
        "tableName": table.name,
        "catName": table.catalog,
    }
    if partition is not None:
        described["partName"] = partition
    return {"statsDesc": described, "statsObj": [hive_fields(each) for each in columns], "engine": engine}


def _unknown(table: MetastoreTable, partition: str | None, columns: Sequence[str] | None) -> str:
    place = f"db={table.database} table={table.name}"
    if partition is not None:
        place += f" partition={shortened(partition)}"
    return f"Column stats doesn't exist for {place} col={'null' if columns is None else ', '.join(columns)}"
