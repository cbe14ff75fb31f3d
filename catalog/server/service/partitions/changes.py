"""Partitions: add, alter, rename, exchange, mark. Reads are in reads.py, drops and truncation in drops.py.

A partition is known by its name within its table (names.py).
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.access.guard import CHANGE
from interbed.catalog.server.service.access.objects import Privilege, SecuredObject
from interbed.catalog.server.service.access.places import CheckedPlace, TablePlaceRules
from interbed.catalog.server.service.access.secured import Arguments, needs, secured, table_of, the_table_of_the_key
from interbed.catalog.server.service.column_statistics import statistics_to_keep, without_stale_columns
from interbed.catalog.server.service.directories.deletions import GuardedDeletions
from interbed.catalog.server.service.directories.guard import DeletionClaim
from interbed.catalog.server.service.directories.locations import has_controls
from interbed.catalog.server.service.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
    OutcomeUnknownError,
)
from interbed.catalog.server.service.model import (
    PARAMETER_DDL_TIME,
    MetastorePartition,
    MetastoreTable,
    StorageDescriptor,
)
from interbed.catalog.server.service.moves import DirectoryMover, carry_out
from interbed.catalog.server.service.names import NAME_BYTES_MAX, normalized, partition_name, shortened
from interbed.catalog.server.service.partitions.drops import (
    ORIGINAL_LOCATION,
    PartitionDrops,
    check_directories_may_move,
    exchange_partitions,
)
from interbed.catalog.server.service.partitions.reads import (
    Found,
    TableKey,
    find_table,
    name_of_spec,
    values_in_name,
)
from interbed.catalog.server.service.repository import Repository, StoredRow, Transaction
from interbed.catalog.server.service.warehouse import Warehouse, child

__all__ = ["Found", "PartitionService", "TableKey"]

_NO_TABLE = "Unable to add partition because table or database do not exist"


_ADD = (Privilege.INSERT, Privilege.ALTER)
_REMOVE = (Privilege.DELETE, Privilege.ALTER)


def _the_source(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return (table_of(arguments["source"]),)


def _the_target(arguments: Arguments) -> tuple[SecuredObject, ...]:
    return (table_of(arguments["target"]),)


class PartitionService(PartitionDrops):
    """The calls about partitions. Each takes the table as (catalog, database, name) and returns it together with the
    result.
    """

    def __init__(
        self,
        store: Repository,
        warehouse: Warehouse,
        deletions: GuardedDeletions,
        *,
        clock: Callable[[], float] = time.time,
        request_max: int | None = None,
    ) -> None:
        super().__init__(store, deletions, clock=clock, request_max=request_max)
        self._warehouse = warehouse
        self._places = TablePlaceRules(store, warehouse, deletions.guard)

    @secured(needs(_ADD, the_table_of_the_key))
    def add(
        self, key: TableKey, partitions: Sequence[MetastorePartition], *, if_not_exists: bool = False
    ) -> tuple[MetastoreTable, list[MetastorePartition]]:
        """Add partitions, all or none, and make their directories. Returns those that were added, complete.

        With `if_not_exists` existing ones are skipped, otherwise AlreadyExistsError. InvalidObjectError if there is no
        such table, InvalidPartitionError for a wrong number of values, MetastoreError if one is in the list twice or
        its name is too long.
        """
        table, names, present = self._looked_at(key, partitions)
        for partition in partitions:
            _check_storage(table, partition)
        chosen = self._places.partitions(self._access, table, partitions)
        complete = [(n, self._completed(table, n, each)) for n, each in zip(names, partitions, strict=True)]
        new = [(name, partition) for name, partition in complete if name not in present]
        if len(new) < len(complete) and not if_not_exists:
            raise _exists(min(present))
        if len(set(names)) < len(names):
            raise MetastoreError("Duplicate partitions in the list")
        linked = self._linked(table, new)

        def work(transaction: Transaction) -> list[str]:
            taken = self._add(transaction, key, new, if_not_exists, linked)
            for place in chosen:
                place.check_again(transaction)
            return taken

        with _directories(partition.storage for _, partition in new):
            taken = set(self._store.write(work))
        return table, [partition for name, partition in new if name not in taken]

    @secured(needs(_ADD, the_table_of_the_key))
    def require(self, key: TableKey) -> None:
        """Raise InvalidObjectError if the table to which partitions are added does not exist."""
        self._looked_at(key, ())

    @secured(needs(_ADD, the_table_of_the_key))
    def append(
        self, key: TableKey, values: Sequence[str] | None, name: str | None = None
    ) -> tuple[MetastoreTable, MetastorePartition]:
        """Add a partition with the table's storage, by values or by name."""
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

    @secured(needs(CHANGE, the_table_of_the_key))
    def alter(self, key: TableKey, changed: Sequence[MetastorePartition]) -> None:
        """Store changed partitions, all or none, each identified by its values. InvalidOperationError if one does not
        exist, or if the list is empty.
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
                self._relink(transaction, table.id, name, old, after)
                merged.append((ids[name], name, after))
                changes.append(events.alter_partition(table.value, old, after))
                keep = statistics_to_keep(old.storage, after.storage)
                if keep is not None:
                    transaction.statistics.keep_partition_columns(ids[name], keep)
            transaction.partitions.replace_all(table.id, merged)
            transaction.events.append(*changes)
            for place in chosen:
                place.check_again(transaction)

        if not changed:
            raise InvalidOperationError("the request has no partitions")
        chosen = self._check_places(key, [(each.values, each) for each in changed])
        self._store.write(work)

    @secured(needs(Privilege.ALTER, the_table_of_the_key))
    def rename(self, key: TableKey, values: Sequence[str], changed: MetastorePartition) -> None:
        """Give a partition other values. Its directory is renamed with it if the table owns it and it has the
        partition's name.

        InvalidOperationError if the old one does not exist or the new one does.
        """

        def work(transaction: Transaction, mover: DirectoryMover) -> None:
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
                check_directories_may_move(table.value)
                new = self._moved(transaction, mover, table, stored.value, new, (old_name, new_name))
            if not transaction.partitions.replace(stored.id, new_name, new):
                raise InvalidOperationError(taken)
            self._relink(transaction, table.id, new_name, stored.value, new)
            transaction.events.append(events.alter_partition(table.value, stored.value, new))
            for place in chosen:
                place.check_again(transaction)

        chosen = self._check_places(key, [(tuple(values), changed)]) if values else ()
        carry_out(self._store, work, self._deletions.guard)

    @secured(needs(_REMOVE, _the_source), needs(_ADD, _the_target))
    def exchange(self, spec: Mapping[str, str], source: TableKey, target: TableKey) -> Found:
        """Move the partitions with these values, which begin with the first key's, from one table to another of the
        same columns and keys, with their directory. On a MetastoreError nothing is moved.
        """
        return carry_out(
            self._store,
            lambda transaction, mover: exchange_partitions(transaction, mover, spec, source, target),
            self._deletions.guard,
        )

    @secured(needs(CHANGE, the_table_of_the_key))
    def mark(self, key: TableKey, spec: dict[str, str], event_type: int) -> None:
        """Record that an event happened to the partition with these values, which need not exist."""

        def work(transaction: Transaction) -> None:
            table = self._table_to_change(transaction, key)
            transaction.partitions.mark(table.id, name_of_spec(table.value, spec), event_type)

        self._store.write(work)

    def _looked_at(
        self, key: TableKey, partitions: Sequence[MetastorePartition]
    ) -> tuple[MetastoreTable, list[str], set[str]]:
        """Return the table, the names of the partitions, and those names that exist already."""

        def work(transaction: Transaction) -> tuple[MetastoreTable, list[str], set[str]]:
            table = find_table(transaction, key)
            names = [_checked_name(table.value, each) for each in partitions]
            return table.value, names, transaction.partitions.present(table.id, names) if names else set()

        try:
            return self._store.read(work)
        except NoSuchObjectError as error:
            raise InvalidObjectError(_NO_TABLE) from error

    def _check_places(
        self, key: TableKey, changed: Sequence[tuple[tuple[str, ...], MetastorePartition]]
    ) -> Sequence[CheckedPlace]:
        """Raise AccessDeniedError if the caller may not choose a new directory of a partition, given by its values.
        Return the places, which the transaction checks again.
        """
        given = [each for each in changed if each[1].storage is not None and each[1].storage.location]
        if not given or self._access.caller() is None:
            return ()

        def read(transaction: Transaction) -> tuple[MetastoreTable, dict[str, str | None]] | None:
            table = transaction.tables.find(key[0], normalized(key[1]), normalized(key[2]))
            if table is None:
                return None
            keys = table.value.partition_keys
            names = [partition_name(keys, values) for values, _ in given]
            stored = transaction.partitions.select(table.id, names)
            places = {
                partition_name(keys, each.values): each.storage.location if each.storage else None for each in stored
            }
            return table.value, places

        found = self._store.read(read)
        if found is None:
            return ()
        table, places = found
        known = [places.get(partition_name(table.partition_keys, values)) for values, _ in given]
        new = [each for (_, each), old in zip(given, known, strict=True) if each.storage.location != old]  # type: ignore[union-attr]
        return self._places.partitions(self._access, table, new)

    def _completed(self, table: MetastoreTable, name: str, partition: MetastorePartition) -> MetastorePartition:
        """Return the partition of that name with a location and times."""
        storage = partition.storage
        if storage is None or table.is_view:
            # A partition of a view is a name without a location.
            pass
        elif storage.location is not None:
            storage = dataclasses.replace(storage, location=self._warehouse.qualified(storage.location))
        elif table.location is not None:
            storage = dataclasses.replace(storage, location=child(table.location, name))
        if storage is not None:
            self._warehouse.check_skew(storage)
        self._check_archive(partition, None)
        now = int(self._clock())
        parameters = {PARAMETER_DDL_TIME: str(now), **partition.parameters}
        return dataclasses.replace(partition, storage=storage, parameters=parameters, create_time=now)

    def _add(
        self,
        transaction: Transaction,
        key: TableKey,
        new: Sequence[tuple[str, MetastorePartition]],
        if_not_exists: bool,
        linked: Mapping[str, str],
    ) -> list[str]:
        try:
            table = self._table_to_change(transaction, key)
        except NoSuchObjectError as error:
            raise InvalidObjectError(_NO_TABLE) from error
        taken = transaction.partitions.add(table.id, new)
        for name, place in linked.items():
            if name not in taken:
                transaction.places.link(table.id, name, place)
        if taken and not if_not_exists:
            raise _exists(taken[0])
        added = [partition for name, partition in new if name not in set(taken)] if taken else [each for _, each in new]
        if added:
            transaction.events.append(events.add_partition(table.value, added))
        return taken

    def _merged(self, old: MetastorePartition, changed: MetastorePartition) -> MetastorePartition:
        storage = changed.storage if changed.storage is not None else old.storage
        before = old.storage.location if old.storage is not None else None
        if storage is not None:
            self._warehouse.check_skew(storage, old.storage)
            location = self._warehouse.qualified(storage.location, before) if storage.location is not None else before
            storage = dataclasses.replace(storage, location=location)
        self._check_archive(changed, old)
        parameters = without_stale_columns(
            {PARAMETER_DDL_TIME: str(int(self._clock())), **changed.parameters}, old.storage, storage
        )
        return dataclasses.replace(
            changed, storage=storage, parameters=parameters, create_time=changed.create_time or old.create_time
        )

    def _moved(
        self,
        transaction: Transaction,
        mover: DirectoryMover,
        stored: StoredRow[MetastoreTable],
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
        if not self._deletions.may_move(transaction, location, DeletionClaim(table_id=stored.id, apart=table.location)):
            return new
        files.make_directory(target.rsplit("/", 1)[0])
        mover.move(transaction, stored.id, location, target, partition_name=names[1])
        return dataclasses.replace(new, storage=dataclasses.replace(new.storage, location=target))

    def _linked(self, table: MetastoreTable, new: Sequence[tuple[str, MetastorePartition]]) -> dict[str, str]:
        """Return the targets of locations that lead through links, by the partitions' names, if they are not below the
        table's.
        """
        return {
            name: linked
            for name, partition in new
            if partition.storage is not None
            and partition.storage.location is not None
            and not (table.location and partition.storage.location.startswith(child(table.location, "")))
            and (linked := self._warehouse.linked(partition.storage.location)) is not None
        }

    def _relink(
        self, transaction: Transaction, table_id: int, name: str, old: MetastorePartition, new: MetastorePartition
    ) -> None:
        before = old.storage.location if old.storage is not None else None
        after = new.storage.location if new.storage is not None else None
        if after != before:
            transaction.places.link(table_id, name, self._warehouse.linked(after))

    def _check_archive(self, partition: MetastorePartition, before: MetastorePartition | None) -> None:
        """Raise InvalidLocationError if the directory of an archived partition is refused, unless it is
        stored already.
        """
        original = partition.parameters.get(ORIGINAL_LOCATION)
        if original and (before is None or original != before.parameters.get(ORIGINAL_LOCATION)):
            self._warehouse.qualified(original)


def check_storable(name: str) -> None:
    """Refuse the name of a partition that is not stored. MetastoreError."""
    if len(name.encode()) > NAME_BYTES_MAX:
        raise MetastoreError(f"the partition name {shortened(name)} has more than {NAME_BYTES_MAX} bytes")
    if "\0" in name:
        raise MetastoreError(f"a NUL character cannot be in a partition's value: {shortened(name)!r}")
    if has_controls(name):
        # Hive escapes control characters of ASCII. For others it has no escape, and no location may contain them.
        raise MetastoreError(f"a control character cannot be in a partition's value: {shortened(name)!r}")


def _checked_name(table: MetastoreTable, partition: MetastorePartition) -> str:
    """Return the partition's name, if it can be stored. InvalidPartitionError, MetastoreError."""
    name = partition_name(table.partition_keys, partition.values)
    if not table.partition_keys:
        raise InvalidObjectError(f"Table {table.database}.{table.name} is not partitioned")
    check_storable(name)
    return name


def _check_storage(table: MetastoreTable, partition: MetastorePartition) -> None:
    """Raise MetastoreError for a partition of a table without a storage descriptor or a SerDe, or a partition of a view
    with a location.
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
    """Make the directories of new partitions, and remove those that were made if storing the partitions fails."""
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
