"""Partitions: add, alter, rename, drop. Reading is in partition_reads.py, exchange in partition_exchange.py.

A partition is known by its name within its table (partition_names.py).
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from interbed.catalog.metastore import events
from interbed.catalog.metastore import warehouse as files
from interbed.catalog.metastore.column_statistics import statistics_to_keep
from interbed.catalog.metastore.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
    OutcomeUnknownError,
)
from interbed.catalog.metastore.filters.partition_expression import required_filter
from interbed.catalog.metastore.model import PARAMETER_DDL_TIME, MetastorePartition, MetastoreTable, StorageDescriptor
from interbed.catalog.metastore.moves import Mover, carry_out
from interbed.catalog.metastore.names import shortened
from interbed.catalog.metastore.partition_names import NAME_BYTES_MAX, partition_name, values_of_name
from interbed.catalog.metastore.partitions.exchange import exchange_partitions
from interbed.catalog.metastore.partitions.reads import (
    Found,
    PartitionReads,
    TableKey,
    canonical_names,
    find_partition,
    find_table,
    name_of_spec,
    values_in_name,
)
from interbed.catalog.metastore.partitions.truncate import truncate_partitions
from interbed.catalog.metastore.store import Store, Stored, Transaction
from interbed.catalog.metastore.tables.rules import owns_data, skips_trash
from interbed.catalog.metastore.warehouse import Warehouse, child

__all__ = ["Found", "PartitionService", "TableKey"]

logger = logging.getLogger(__name__)

_NO_TABLE = "Unable to add partition because table or database do not exist"


class PartitionService(PartitionReads):
    """The calls about partitions. Each takes the table as (catalog, database, name) and returns it beside what was
    asked for.
    """

    def __init__(
        self,
        store: Store,
        warehouse: Warehouse,
        *,
        clock: Callable[[], float] = time.time,
        request_max: int | None = None,
    ) -> None:
        super().__init__(store, request_max=request_max)
        self._warehouse = warehouse
        self._clock = clock

    def add(
        self, key: TableKey, partitions: Sequence[MetastorePartition], *, if_not_exists: bool = False
    ) -> tuple[MetastoreTable, list[MetastorePartition]]:
        """Add partitions, all or none, and make their directories. Returns those that were added, complete.

        With `if_not_exists` those that are there already are passed over, otherwise AlreadyExistsError.
        InvalidObjectError if there is no such table, InvalidPartitionError for a wrong number of values,
        MetastoreError if one is in the list twice or its name is too long.
        """
        table, names, present = self._looked_at(key, partitions)
        for partition in partitions:
            _check_storage(table, partition)
        complete = [(n, self._completed(table, n, each)) for n, each in zip(names, partitions, strict=True)]
        new = [(name, partition) for name, partition in complete if name not in present]
        if len(new) < len(complete) and not if_not_exists:
            raise _exists(min(present))
        if len(set(names)) < len(names):
            raise MetastoreError("Duplicate partitions in the list")
        with _directories(partition.storage for _, partition in new):
            taken = set(self._store.write(lambda transaction: self._add(transaction, key, new, if_not_exists)))
        return table, [partition for name, partition in new if name not in taken]

    def require(self, key: TableKey) -> None:
        """InvalidObjectError if there is no table to add partitions to."""
        self._looked_at(key, ())

    def append(
        self, key: TableKey, values: Sequence[str] | None, name: str | None = None
    ) -> tuple[MetastoreTable, MetastorePartition]:
        """Add a partition that is like its table, by values or by name."""
        if values is None:
            table, _, _ = self._looked_at(key, ())
            try:
                values = values_in_name(table.partition_keys, name or "")
            except NoSuchObjectError as error:
                raise InvalidObjectError(str(error)) from error
        table, _, _ = self._looked_at(key, ())
        if table.is_view:
            raise MetastoreError(f"{table.database}.{table.name} is a view: a partition of it has no data to append")
        if not table.partition_keys:
            raise MetastoreError(f"Table {table.database}.{table.name} is not partitioned")
        like = dataclasses.replace(table.storage or StorageDescriptor(), location=None)
        table, added = self.add(key, [MetastorePartition(values=tuple(values), storage=like)])
        return table, added[0]

    def alter(self, key: TableKey, changed: Sequence[MetastorePartition]) -> None:
        """Store partitions anew, all or none, each known by its values. InvalidOperationError if one does not exist,
        or if there are none to change.
        """

        def work(transaction: Transaction) -> None:
            table = self._table_to_change(transaction, key)
            keys = table.value.partition_keys
            new = {partition_name(keys, each.values): each for each in changed}
            ids = transaction.partitions.ids(table.id, list(new))
            missing = [name for name in new if name not in ids]
            if missing:
                raise InvalidOperationError(
                    f"alter is not possible: NoSuchObjectException(message:partition values="
                    f"[{shortened(', '.join(new[missing[0]].values))}])"
                )
            before = transaction.partitions.select(table.id, list(new))
            merged = []
            changes = []
            for old in before:
                name = partition_name(keys, old.values)
                after = self._merged(old, new[name])
                merged.append((ids[name], name, after))
                changes.append(events.alter_partition(table.value, old, after))
                keep = statistics_to_keep(old.storage, after.storage)
                if keep is not None:
                    transaction.statistics.keep_partition_columns(ids[name], keep)
            transaction.partitions.replace_all(table.id, merged)
            transaction.events.append(*changes)

        if not changed:
            raise InvalidOperationError("the request has no partitions")
        self._store.write(work)

    def rename(self, key: TableKey, values: Sequence[str], changed: MetastorePartition) -> None:
        """Give a partition other values; its directory moves along if the table owns it and it lies where the name
        says.

        InvalidOperationError if the old one does not exist or the new one does.
        """

        def work(transaction: Transaction, mover: Mover) -> None:
            try:
                table = self._table_to_change(transaction, key)
            except NoSuchObjectError as error:
                raise InvalidOperationError(
                    "Unable to alter partition because table or database does not exist."
                ) from error
            keys = table.value.partition_keys
            if not values:
                raise InvalidOperationError("the request does not say which partition is to be renamed")
            old_name, new_name = partition_name(keys, values), _checked_name(table.value, changed)
            stored = transaction.partitions.find(table.id, old_name, for_update=True)
            if stored is None:
                raise InvalidOperationError("Unable to rename partition because old partition does not exist")
            values_text = shortened(", ".join(changed.values))
            taken = f"Partition already exists:{table.value.database}.{table.value.name}.[{values_text}]"
            if new_name != old_name and transaction.partitions.find(table.id, new_name) is not None:
                raise InvalidOperationError(taken)
            new = self._merged(stored.value, changed)
            if new_name != old_name:
                new = self._moved(transaction, mover, table, stored.value, new, (old_name, new_name))
            if not transaction.partitions.replace(stored.id, new_name, new):
                raise InvalidOperationError(taken)
            transaction.events.append(events.alter_partition(table.value, stored.value, new))

        carry_out(self._store, work)

    def drop(
        self,
        key: TableKey,
        values: Sequence[str] | None,
        name: str | None = None,
        *,
        delete_data: bool,
        purge: bool = False,
    ) -> None:
        """Drop one partition, by values or by name, with its data if the table owns it, past the trash if `purge`.
        NoSuchObjectError.
        """

        def work(transaction: Transaction) -> tuple[MetastoreTable, list[str]]:
            table = self._table_to_change(transaction, key)
            keys = table.value.partition_keys
            wanted = values if values is not None else values_in_name(keys, name or "")
            stored = find_partition(transaction, table, wanted)
            self._remove(transaction, table, [stored.value])
            return table.value, self._left_alone(transaction, table, [stored.value], delete_data)

        table, left = self._store.write(work)
        self._discard(table, left, purge)

    def drop_names(
        self, key: TableKey, names: Sequence[str], *, delete_data: bool, if_exists: bool, purge: bool = False
    ) -> Found:
        """Drop the partitions of these names, all or none. NoSuchObjectError if one is missing, unless `if_exists`."""

        def work(transaction: Transaction) -> tuple[MetastoreTable, list[MetastorePartition], list[str]]:
            table = self._table_to_change(transaction, key)
            keys = table.value.partition_keys
            if not if_exists:
                # A name that no partition can have is missing, too.
                canonical = list({partition_name(keys, values_of_name(keys, name)): None for name in names})
            else:
                canonical = canonical_names(keys, names)
            found = list(transaction.partitions.select(table.id, canonical))
            if len(found) < len(canonical) and not if_exists:
                raise NoSuchObjectError("Some partitions to drop are missing")
            self._remove(transaction, table, found)
            return table.value, found, self._left_alone(transaction, table, found, delete_data)

        table, dropped, left = self._store.write(work)
        self._discard(table, left, purge)
        return table, dropped

    def drop_expressions(
        self, key: TableKey, expressions: Sequence[bytes], *, delete_data: bool, if_exists: bool, purge: bool = False
    ) -> Found:
        """Drop the partitions that any of the expressions selects, all or none. BadFilterError if one cannot be read;
        NoSuchObjectError if one selects none, unless `if_exists`.
        """

        def work(transaction: Transaction) -> tuple[MetastoreTable, list[MetastorePartition], list[str]]:
            table = self._table_to_change(transaction, key)
            found: dict[tuple[str, ...], MetastorePartition] = {}
            for expression in expressions:
                where = required_filter(expression, table.value.partition_keys)
                selected = list(transaction.partitions.select(table.id, where=where))
                if not selected and not if_exists:
                    raise NoSuchObjectError("Some partitions to drop are missing")
                found.update((each.values, each) for each in selected)
            dropped = list(found.values())
            self._remove(transaction, table, dropped)
            return table.value, dropped, self._left_alone(transaction, table, dropped, delete_data)

        table, dropped, left = self._store.write(work)
        self._discard(table, left, purge)
        return table, dropped

    def exchange(self, spec: Mapping[str, str], source: TableKey, target: TableKey) -> Found:
        """Move the partitions with these values, which begin with the first key's, from one table to another of the
        same columns and keys, with their directory. MetastoreError, and nothing is moved.
        """
        return carry_out(
            self._store, lambda transaction, mover: exchange_partitions(transaction, mover, spec, source, target)
        )

    def mark(self, key: TableKey, spec: dict[str, str], event_type: int) -> None:
        """Remember that an event happened to the partition with these values, which need not exist."""

        def work(transaction: Transaction) -> None:
            table = self._table_to_change(transaction, key)
            transaction.partitions.mark(table.id, name_of_spec(table.value, spec), event_type)

        self._store.write(work)

    def truncate(self, key: TableKey, names: Sequence[str] | None = None) -> None:
        """Delete the data of the partitions of these names, or of all. MetastoreError, NoSuchObjectError."""
        truncate_partitions(self._store, self._warehouse, self._clock, key, names)

    def purge(self, limit: int | None = None) -> int:
        """Remove some of the partitions that dropped tables left behind; 0 when none is left. To be called now and
        then.
        """
        return self._store.write(
            lambda transaction: transaction.partitions.purge() if limit is None else transaction.partitions.purge(limit)
        )

    def _looked_at(
        self, key: TableKey, partitions: Sequence[MetastorePartition]
    ) -> tuple[MetastoreTable, list[str], set[str]]:
        """The table, the names of the partitions, and those of them that it has."""

        def work(transaction: Transaction) -> tuple[MetastoreTable, list[str], set[str]]:
            table = find_table(transaction, key)
            names = [_checked_name(table.value, each) for each in partitions]
            return table.value, names, transaction.partitions.present(table.id, names) if names else set()

        try:
            return self._store.read(work)
        except NoSuchObjectError as error:
            raise InvalidObjectError(_NO_TABLE) from error

    def _table_to_change(self, transaction: Transaction, key: TableKey) -> Stored[MetastoreTable]:
        # Holding the table keeps a drop or a rename of it from passing between our reads and writes.
        return find_table(transaction, key, for_update=True)

    def _completed(self, table: MetastoreTable, name: str, partition: MetastorePartition) -> MetastorePartition:
        """The partition of that name with a location and times."""
        storage = partition.storage
        if storage is None or table.is_view:
            # A partition of a view is a name without a place.
            pass
        elif storage.location is not None:
            storage = dataclasses.replace(storage, location=self._warehouse.absolute(storage.location))
        elif table.location is not None:
            storage = dataclasses.replace(storage, location=child(table.location, name))
        now = int(self._clock())
        parameters = {PARAMETER_DDL_TIME: str(now), **partition.parameters}
        return dataclasses.replace(partition, storage=storage, parameters=parameters, create_time=now)

    def _add(
        self,
        transaction: Transaction,
        key: TableKey,
        new: Sequence[tuple[str, MetastorePartition]],
        if_not_exists: bool,
    ) -> list[str]:
        try:
            table = self._table_to_change(transaction, key)
        except NoSuchObjectError as error:
            raise InvalidObjectError(_NO_TABLE) from error
        taken = transaction.partitions.add(table.id, new)
        if taken and not if_not_exists:
            raise _exists(taken[0])
        added = [partition for name, partition in new if name not in set(taken)] if taken else [each for _, each in new]
        if added:
            transaction.events.append(events.add_partition(table.value, added))
        return taken

    def _remove(
        self, transaction: Transaction, table: Stored[MetastoreTable], dropped: Sequence[MetastorePartition]
    ) -> None:
        keys = table.value.partition_keys
        transaction.partitions.remove(table.id, [partition_name(keys, each.values) for each in dropped])
        if dropped:
            transaction.events.append(events.drop_partition(table.value, dropped))

    def _merged(self, old: MetastorePartition, changed: MetastorePartition) -> MetastorePartition:
        storage = changed.storage if changed.storage is not None else old.storage
        if storage is not None and storage.location is None and old.storage is not None:
            storage = dataclasses.replace(storage, location=old.storage.location)
        parameters = {PARAMETER_DDL_TIME: str(int(self._clock())), **changed.parameters}
        return dataclasses.replace(
            changed, storage=storage, parameters=parameters, create_time=changed.create_time or old.create_time
        )

    def _moved(
        self,
        transaction: Transaction,
        mover: Mover,
        stored: Stored[MetastoreTable],
        old: MetastorePartition,
        new: MetastorePartition,
        names: tuple[str, str],
    ) -> MetastorePartition:
        table = stored.value
        location = old.storage.location if old.storage is not None else None
        if table.location is None or location is None or new.storage is None or table.is_external:
            return new
        if not files.same_location(location, child(table.location, names[0])):
            return new
        target = child(table.location, names[1])
        mover.reach(target)
        files.make_directory(target.rsplit("/", 1)[0])
        mover.move(transaction, stored.id, location, target, partition_name=names[1])
        return dataclasses.replace(new, storage=dataclasses.replace(new.storage, location=target))

    def _left_alone(
        self,
        transaction: Transaction,
        table: Stored[MetastoreTable],
        dropped: Sequence[MetastorePartition],
        delete_data: bool,
    ) -> list[str]:
        """The directories that nobody needs any more, now that these partitions are removed."""
        if not delete_data or not owns_data(table.value):
            return []
        places = [
            (partition_name(table.value.partition_keys, partition.values), location)
            for partition in dropped
            if (location := _data_location(partition)) is not None
        ]
        shared = transaction.partitions.shared(table.id, places)
        for location in sorted(shared):
            logger.warning("the data in %s was left alone: it is that of other partitions, too", location)
        return list(dict.fromkeys(location for _, location in places if location not in shared))

    def _discard(self, table: MetastoreTable, locations: Sequence[str], purge: bool) -> None:
        past_trash = skips_trash(table, purge=purge)
        for location in locations:
            # A partition that lies where the table or the warehouse lies must not take these along.
            if self._warehouse.is_protected(location) or files.contains(location, table.location):
                logger.warning("the data in %s was left alone: it holds more than the partition", location)
            elif self._warehouse.discard(location, purge=past_trash):
                files.remove_empty_parents(location, below=table.location)


def _data_location(partition: MetastorePartition) -> str | None:
    """Where the partition's files are: of one that Hive has archived the directory that holds the archive."""
    if partition.parameters.get("is_archived", "").lower() == "true":
        original = partition.parameters.get("original_location")
        if original:
            return original
    return partition.storage.location if partition.storage is not None else None


def _checked_name(table: MetastoreTable, partition: MetastorePartition) -> str:
    """The partition's name, if it can be stored. InvalidPartitionError, MetastoreError."""
    name = partition_name(table.partition_keys, partition.values)
    if not table.partition_keys:
        raise InvalidObjectError(f"Table {table.database}.{table.name} is not partitioned")
    if len(name.encode()) > NAME_BYTES_MAX:
        raise MetastoreError(f"the partition name {shortened(name)} has more than {NAME_BYTES_MAX} bytes")
    if "\0" in name:
        raise MetastoreError(f"a NUL character cannot be in a partition's value: {shortened(name)!r}")
    return name


def _check_storage(table: MetastoreTable, partition: MetastorePartition) -> None:
    """MetastoreError for a partition of a table without a storage descriptor or a SerDe, or one of a view with a
    place.
    """
    storage = partition.storage
    if table.is_view:
        if storage is not None and storage.location:
            raise MetastoreError(f"{table.database}.{table.name} is a view: a partition of it has no location")
        return
    if storage is None or storage.serde is None:
        missing = "storage descriptor" if storage is None else "SerDe"
        raise MetastoreError(
            f"the partition [{shortened(', '.join(partition.values))}] of table {table.name} has no {missing}"
        )


def _exists(name: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"Partition already exists: {shortened(name)}")


@contextmanager
def _directories(storages: Iterable[StorageDescriptor | None]) -> Iterator[None]:
    """Make the directories of new partitions, and take back those that were made if storing the partitions fails."""
    locations = [storage.location for storage in storages if storage is not None and storage.location is not None]
    made: list[str] = []
    try:
        files.make_directories(locations, made)
        yield
    except OutcomeUnknownError:
        raise
    except MetastoreError:
        for location in made:
            files.remove_empty_directory(location)
        raise
