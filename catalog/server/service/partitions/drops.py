"""Partitions: dropping them, with what is to become of their directories.

Which directories are deleted is decided in the transaction that removes the partitions; they are deleted after it, and
those that another partition uses by then are left.
"""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.directories.deletions import Deletions
from interbed.catalog.server.service.directories.guard import Claim
from interbed.catalog.server.service.errors import NoSuchObjectError
from interbed.catalog.server.service.filters.partition_expression import required_filter
from interbed.catalog.server.service.model import MetastorePartition, MetastoreTable
from interbed.catalog.server.service.names import check_number
from interbed.catalog.server.service.partition_names import partition_name, values_of_name
from interbed.catalog.server.service.partitions.reads import (
    Found,
    PartitionReads,
    TableKey,
    canonical_names,
    find_partition,
    find_table,
    values_in_name,
)
from interbed.catalog.server.service.partitions.truncate import truncate_partitions
from interbed.catalog.server.service.store import Store, Stored, Transaction
from interbed.catalog.server.service.tables.rules import owns_data, skips_trash

logger = logging.getLogger(__name__)

ORIGINAL_LOCATION = "original_location"
"""The parameter of a partition that Hive has archived: where its files were."""

LOCATIONS_JUDGED_AT_ONCE = 1000
"""Directories of dropped partitions that are deleted after one look at the partitions that there are by then."""


EXPRESSIONS_MAX = 5_000
"""Expressions of one request to drop partitions. Hive's MSCK sends one for each partition, 3,000 at a time."""
EXPRESSIONS_BYTES_MAX = 1_000_000
"""Their bytes, which are read while other writers wait."""


class PartitionDrops(PartitionReads):
    """The calls that remove partitions or their data."""

    def __init__(
        self,
        store: Store,
        deletions: Deletions,
        *,
        clock: Callable[[], float] = time.time,
        request_max: int | None = None,
    ) -> None:
        super().__init__(store, request_max=request_max)
        self._deletions = deletions
        self._clock = clock

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
            check_number("names of partitions", len(names))
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

    def truncate(self, key: TableKey, names: Sequence[str] | None = None) -> None:
        """Delete the data of the partitions of these names, or of all. MetastoreError, NoSuchObjectError."""
        truncate_partitions(self._store, self._deletions, self._clock, key, names)

    def purge(self, limit: int | None = None) -> int:
        """Remove some of the partitions that dropped tables left behind; 0 when none is left. To be called now and
        then.
        """
        return self._store.write(
            lambda transaction: transaction.partitions.purge() if limit is None else transaction.partitions.purge(limit)
        )

    def _table_to_change(self, transaction: Transaction, key: TableKey) -> Stored[MetastoreTable]:
        # Holding the table keeps a drop or a rename of it from passing between our reads and writes.
        return find_table(transaction, key, for_update=True)

    def _remove(
        self, transaction: Transaction, table: Stored[MetastoreTable], dropped: Sequence[MetastorePartition]
    ) -> None:
        keys = table.value.partition_keys
        transaction.partitions.remove(table.id, [partition_name(keys, each.values) for each in dropped])
        if dropped:
            transaction.events.append(events.drop_partition(table.value, dropped))

    def _left_alone(
        self,
        transaction: Transaction,
        table: Stored[MetastoreTable],
        dropped: Sequence[MetastorePartition],
        delete_data: bool,
    ) -> list[str]:
        """The directories that no partition uses, now that these are removed."""
        if not delete_data or not owns_data(table.value):
            return []
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
            claim = Claim(table_id=table_id, apart=table.location)
            for location in part:
                if location in used:
                    logger.warning("the data in %s was left alone: a partition was added there", location)
                elif self._deletions.discard(location, claim, purge=past_trash):
                    self._deletions.remove_empty_parents(location, claim, below=table.location)


def _used_again(
    transaction: Transaction, dropped: MetastoreTable, locations: Sequence[str]
) -> tuple[int | None, set[str]]:
    """The id of the table that partitions were dropped from, if it is still there, and those of the locations that
    partitions of it have by now.
    """
    table = transaction.tables.find(dropped.catalog, dropped.database, dropped.name)
    if table is None or table.value.number != dropped.number:
        return None, set()
    return table.id, transaction.partitions.shared(table.id, [("", location) for location in locations])


def _data_location(partition: MetastorePartition, table: MetastoreTable) -> str | None:
    """Where the partition's files are: of one that Hive has archived the directory that holds the archive, if it is in
    the table's.
    """
    if partition.parameters.get("is_archived", "").lower() == "true":
        original = partition.parameters.get(ORIGINAL_LOCATION)
        if original and table.location is not None and files.contains(table.location, original):
            return original
        if original:
            logger.warning("the data in %s was left alone: it is not in the directory of the table", original)
    return partition.storage.location if partition.storage is not None else None
