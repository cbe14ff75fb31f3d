"""Drops of partitions, with their directories, truncation, and exchange of partitions between tables.

The transaction that removes the partitions decides which directories are deleted. They are deleted after it, and those
that another partition uses by then are kept. Truncated partitions lose their data and remain, with statistics that say
that they are empty.

An exchange moves the directory as a whole, without touching the data, as in Hive: for `dt=1` that of all partitions
that begin so. Every obstacle is reported as MetastoreError, as in Hive.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import partial

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.access.secured import needs, secured, the_table_of_the_key, unsecured
from interbed.catalog.server.service.column_statistics import emptied
from interbed.catalog.server.service.directories.deletions import GuardedDeletions
from interbed.catalog.server.service.directories.guard import DeletionClaim
from interbed.catalog.server.service.errors import InvalidOperationError, MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.filters.expression import required_filter
from interbed.catalog.server.service.filters.tree import filter_of_values
from interbed.catalog.server.service.model import (
    PAIMON_KINDS,
    MetastoreColumn,
    MetastorePartition,
    MetastoreTable,
)
from interbed.catalog.server.service.moves import DirectoryMover
from interbed.catalog.server.service.names import check_number, escaped, partition_name, shortened, values_of_name
from interbed.catalog.server.service.partitions.reads import (
    Found,
    PartitionReads,
    TableKey,
    canonical_names,
    find_partition,
    find_table,
    values_in_name,
)
from interbed.catalog.server.service.repository import Repository, StoredRow, Transaction
from interbed.catalog.server.service.tables.rules import check_may_empty, owns_data, skips_trash
from interbed.catalog.server.service.warehouse import child, contains

NAMES_IN_TRANSACTION_MAX = 1000
"""Partitions emptied in one transaction: writers of other tables run in between."""

logger = logging.getLogger(__name__)

ORIGINAL_LOCATION = "original_location"
"""The parameter of a partition archived by Hive with the original location of its files."""

_REMOVE = (Privilege.DELETE, Privilege.ALTER)

LOCATIONS_JUDGED_AT_ONCE = 1000
"""Directories of dropped partitions that are deleted after one query of the partitions that exist by then."""

EXPRESSIONS_MAX = 5_000
"""Expressions of one request to drop partitions. Hive's MSCK sends one for each partition, 3,000 at a time."""
EXPRESSIONS_BYTES_MAX = 1_000_000
"""Their total bytes; they are parsed while other writers wait."""


def truncate_partitions(
    store: Repository,
    deletions: GuardedDeletions,
    clock: Callable[[], float],
    key: TableKey,
    names: Sequence[str] | None,
    *,
    delete_data: bool,
) -> None:
    """Delete the data of the partitions of these names, or of all if None, and append an event for each.

    MetastoreError if the table does not own its data, or has snapshots; NoSuchObjectError if it does not exist. Names
    without a partition are skipped. Without `delete_data` only record that the partitions are empty.
    """

    def chosen(transaction: Transaction) -> list[str]:
        table = find_table(transaction, key)
        if delete_data:
            check_may_empty(table.value)
        if names is None:
            return transaction.partitions.names(table.id)
        return canonical_names(table.value.partition_keys, names)

    wanted = store.read(chosen)
    for start in range(0, len(wanted), NAMES_IN_TRANSACTION_MAX):
        part = wanted[start : start + NAMES_IN_TRANSACTION_MAX]
        if delete_data:
            _empty(store, deletions, key, part, None if names is None else frozenset(wanted))
        _record_empty(store, clock, key, part)


def _empty(
    store: Repository, deletions: GuardedDeletions, key: TableKey, names: Sequence[str], wanted: Set[str] | None
) -> None:
    # Files are deleted before the event is visible: a reader that reacts to it earlier would still see them.
    def read(transaction: Transaction) -> tuple[StoredRow[MetastoreTable], list[str]]:
        table = find_table(transaction, key)
        places = [
            (partition_name(table.value.partition_keys, partition.values), partition.storage.location)
            for partition in transaction.partitions.select(table.id, names)
            if partition.storage is not None and partition.storage.location is not None
        ]
        shared = transaction.partitions.shared(table.id, places)
        if shared and wanted is not None:
            _check_shared(table.value, transaction.partitions.select(table.id), shared, wanted)
        return table, list(dict.fromkeys(location for _, location in places))

    table, locations = store.read(read)
    claim = DeletionClaim(table_id=table.id, apart=table.value.location)
    for location in locations:
        deletions.empty(location, claim, purge=skips_trash(table.value))


def _record_empty(store: Repository, clock: Callable[[], float], key: TableKey, names: Sequence[str]) -> None:
    def work(transaction: Transaction) -> None:
        table = find_table(transaction, key, for_update=True)
        ids = transaction.partitions.ids(table.id, names)
        changed, changes = [], []
        for old in transaction.partitions.select(table.id, names):
            name = partition_name(table.value.partition_keys, old.values)
            new = dataclasses.replace(old, parameters=emptied(old.parameters, int(clock())))
            changed.append((ids[name], name, new))
            changes.append(events.alter_partition(table.value, old, new, truncated=True))
        if changed:
            transaction.partitions.replace_all(table.id, changed)
            transaction.events.append(*changes)

    store.write(work)


def _check_shared(
    table: MetastoreTable, partitions: Iterable[MetastorePartition], shared: Collection[str], wanted: Set[str]
) -> None:
    """Raise MetastoreError if a directory also holds the data of partitions that are not to be emptied."""
    for partition in partitions:
        name = partition_name(table.partition_keys, partition.values)
        place = partition.storage.location if partition.storage is not None else None
        if name in wanted or place is None:
            continue
        for location in shared:
            if contains(location, place):
                raise MetastoreError(f"the data in {location} is that of the partition {shortened(name)}, too")


class PartitionDrops(PartitionReads):
    """The calls that remove partitions or their data."""

    def __init__(
        self,
        store: Repository,
        deletions: GuardedDeletions,
        *,
        clock: Callable[[], float] = time.time,
        request_max: int | None = None,
    ) -> None:
        super().__init__(store, request_max=request_max)
        self._deletions = deletions
        self._clock = clock

    @secured(needs(_REMOVE, the_table_of_the_key))
    def drop(
        self,
        key: TableKey,
        values: Sequence[str] | None,
        name: str | None = None,
        *,
        delete_data: bool,
        purge: bool = False,
    ) -> None:
        """Drop one partition, by values or by name, with its data if the table owns it; `purge` bypasses the trash.
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

    @secured(needs(_REMOVE, the_table_of_the_key))
    def drop_names(
        self, key: TableKey, names: Sequence[str], *, delete_data: bool, if_exists: bool, purge: bool = False
    ) -> Found:
        """Drop the partitions of these names, all or none. NoSuchObjectError if one is missing, unless `if_exists`."""

        def work(transaction: Transaction) -> tuple[MetastoreTable, list[MetastorePartition], list[str]]:
            table = self._table_to_change(transaction, key)
            keys = table.value.partition_keys
            check_number("names of partitions", len(names))
            if not if_exists:
                # A name that is invalid for a partition counts as missing, too.
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

    @secured(needs(_REMOVE, the_table_of_the_key))
    def drop_expressions(
        self, key: TableKey, expressions: Sequence[bytes], *, delete_data: bool, if_exists: bool, purge: bool = False
    ) -> Found:
        """Drop the partitions that any of the expressions selects, all or none. BadFilterError if one cannot be read;
        NoSuchObjectError if one selects none, unless `if_exists`. MetastoreError for too many expressions.
        """
        check_number("expressions", len(expressions), EXPRESSIONS_MAX)
        check_number("bytes of expressions", sum(map(len, expressions)), EXPRESSIONS_BYTES_MAX)

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

    @secured(needs(Privilege.DELETE, the_table_of_the_key))
    def truncate(self, key: TableKey, names: Sequence[str] | None = None, *, delete_data: bool = True) -> None:
        """Delete the data of the partitions of these names, or of all. MetastoreError, NoSuchObjectError. Without
        `delete_data` only record that they are empty.
        """
        truncate_partitions(self._store, self._deletions, self._clock, key, names, delete_data=delete_data)

    @unsecured("the reaper calls it")
    def purge(self, limit: int | None = None) -> int:
        """Remove some of the partitions of dropped tables; return 0 when none is left. Called periodically."""
        return self._store.write(
            lambda transaction: transaction.partitions.purge() if limit is None else transaction.partitions.purge(limit)
        )

    def _table_to_change(self, transaction: Transaction, key: TableKey) -> StoredRow[MetastoreTable]:
        # The lock on the table excludes a drop or a rename of it between these reads and writes.
        return find_table(transaction, key, for_update=True)

    def _remove(
        self, transaction: Transaction, table: StoredRow[MetastoreTable], dropped: Sequence[MetastorePartition]
    ) -> None:
        keys = table.value.partition_keys
        transaction.partitions.remove(table.id, [partition_name(keys, each.values) for each in dropped])
        if dropped:
            transaction.events.append(events.drop_partition(table.value, dropped))

    def _left_alone(
        self,
        transaction: Transaction,
        table: StoredRow[MetastoreTable],
        dropped: Sequence[MetastorePartition],
        delete_data: bool,
    ) -> list[str]:
        """Return the directories that no partition uses after these were removed. MetastoreError for a table with
        snapshots.
        """
        if not delete_data or not owns_data(table.value):
            return []
        check_may_empty(table.value)
        places = [
            (partition_name(table.value.partition_keys, partition.values), location)
            for partition in dropped
            if (location := _data_location(partition, table.value)) is not None
        ]
        shared = transaction.partitions.shared(table.id, places)
        for location in sorted(shared):
            logger.warning("the data in %s was left alone: it is that of other partitions, too", location)
        return list(dict.fromkeys(location for _, location in places if location not in shared))

    def _discard(self, table: MetastoreTable, locations: Sequence[str], purge: bool) -> None:
        past_trash = skips_trash(table, purge=purge)
        for start in range(0, len(locations), LOCATIONS_JUDGED_AT_ONCE):
            part = locations[start : start + LOCATIONS_JUDGED_AT_ONCE]
            table_id, used = self._store.read(partial(_used_again, dropped=table, locations=part))
            claim = DeletionClaim(table_id=table_id, apart=table.location)
            for location in part:
                if location in used:
                    logger.warning("the data in %s was left alone: a partition was added there", location)
                elif self._deletions.discard(location, claim, purge=past_trash):
                    self._deletions.remove_empty_parents(location, claim, below=table.location)


def _used_again(
    transaction: Transaction, dropped: MetastoreTable, locations: Sequence[str]
) -> tuple[int | None, set[str]]:
    """Return the id of the table that partitions were dropped from, if it still exists, and those of the locations that
    its partitions use by now.
    """
    table = transaction.tables.find(dropped.catalog, dropped.database, dropped.name)
    if table is None or table.value.number != dropped.number:
        return None, set()
    return table.id, transaction.partitions.shared(table.id, [("", location) for location in locations])


def _data_location(partition: MetastorePartition, table: MetastoreTable) -> str | None:
    """Return the location of the partition's files. For a partition archived by Hive it is the directory that holds the
    archive, if that is in the table's.
    """
    if partition.parameters.get("is_archived", "").lower() == "true":
        original = partition.parameters.get(ORIGINAL_LOCATION)
        if original and table.location is not None and files.contains(table.location, original):
            return original
        if original:
            logger.warning("the data in %s was left alone: it is not in the directory of the table", original)
    return partition.storage.location if partition.storage is not None else None


def check_directories_may_move(table: MetastoreTable) -> None:
    """Raise InvalidOperationError for a table whose snapshots name the files in the directories of its partitions."""
    if table.kind in PAIMON_KINDS:
        raise InvalidOperationError(
            f"partitions of the Paimon table {shortened(table.database)}.{shortened(table.name)} are not renamed or "
            "exchanged, because its snapshots name the files in their directories: insert the rows with the new values "
            "and delete the old ones, through an engine that writes Paimon tables"
        )


def exchange_partitions(
    transaction: Transaction, mover: DirectoryMover, spec: Mapping[str, str], source_key: TableKey, target_key: TableKey
) -> Found:
    """Move the partitions with these values of their first keys to the target; return it and them."""
    source, target = _both(transaction, source_key, target_key)
    keys = source.value.partition_keys
    for table in (source, target):
        check_directories_may_move(table.value)
    if source.id == target.id:
        raise MetastoreError(f"The partitions of {source.value.name} cannot be exchanged with itself.")
    if not _same(_columns(source.value), _columns(target.value)) or not _same(keys, target.value.partition_keys):
        raise MetastoreError("The tables have different schemas. Their partitions cannot be exchanged.")
    values = _leading_values(keys, spec)
    exchanged = list(transaction.partitions.select(source.id, where=filter_of_values(keys, values)))
    if not exchanged:
        raise MetastoreError(
            f"No partition is found with the values {shortened(str(dict(spec)))} for the table {source.value.name}"
        )
    names = [partition_name(keys, each.values) for each in exchanged]
    taken = transaction.partitions.present(target.id, names)
    if taken:
        raise MetastoreError(f"The partition {shortened(min(taken))} already exists in the table {target.value.name}")
    if source.value.location is None or target.value.location is None:
        raise MetastoreError("Partitions of a table without a location cannot be exchanged.")
    prefix = "/".join(f"{escaped(key.name.lower())}={escaped(value)}" for key, value in zip(keys, values, strict=False))
    moved = [
        _relocated(each, name, source.value.location, target.value.location)
        for each, name in zip(exchanged, names, strict=True)
    ]
    mover.reach(source.value.location)
    if not files.directory_exists(child(source.value.location, prefix)):
        raise MetastoreError(f"The directory {child(source.value.location, prefix)} of the partitions does not exist")
    new_directory = child(target.value.location, prefix)
    mover.reach(new_directory)
    files.make_directory(new_directory.rsplit("/", 1)[0])
    old_directory = child(source.value.location, prefix)
    mover.move(transaction, target.id, old_directory, new_directory, partition_name=names[0], owner_id=source.id)
    transaction.partitions.remove(source.id, names)
    transaction.partitions.add(target.id, zip(names, moved, strict=True))
    transaction.events.append(events.add_partition(target.value, moved), events.drop_partition(source.value, exchanged))
    return target.value, moved


def _both(
    transaction: Transaction, source: TableKey, target: TableKey
) -> tuple[StoredRow[MetastoreTable], StoredRow[MetastoreTable]]:
    """Lock and return both tables; always in the same order, so that two exchanges do not wait for one another."""
    found = {}
    for key in sorted({source, target}):
        try:
            found[key] = find_table(transaction, key, for_update=True)
        except NoSuchObjectError as error:
            which = "source" if key == source else "destination"
            raise MetastoreError(f"The {which} table {shortened(key[1])}.{shortened(key[2])} not found") from error
    return found[source], found[target]


def _leading_values(keys: Sequence[MetastoreColumn], spec: Mapping[str, str]) -> list[str]:
    by_key = {name.lower(): value for name, value in spec.items()}
    # Other names are ignored, as in Hive.
    values = [by_key.get(key.name.lower(), "") for key in keys]
    while values and not values[-1]:
        values.pop()
    if not values:
        raise MetastoreError("Invalid partition key & values; keys [], values []")
    if not all(values):
        raise MetastoreError(
            "The values of an exchange have to begin with the first partition key, for one directory is moved; "
            f"it is {keys[0].name}"
        )
    return values


def _relocated(partition: MetastorePartition, name: str, source: str, target: str) -> MetastorePartition:
    if partition.storage is None:
        return partition
    if not files.same_location(partition.storage.location, child(source, name)):
        raise MetastoreError(
            f"The partition {shortened(name)} cannot be exchanged: its data is not in its table's directory, "
            f"but in {partition.storage.location}"
        )
    return dataclasses.replace(partition, storage=dataclasses.replace(partition.storage, location=child(target, name)))


def _columns(table: MetastoreTable) -> Sequence[MetastoreColumn]:
    return table.storage.columns if table.storage is not None else ()


def _same(left: Sequence[MetastoreColumn], right: Sequence[MetastoreColumn]) -> bool:
    return [(each.name.lower(), each.type) for each in left] == [(each.name.lower(), each.type) for each in right]
