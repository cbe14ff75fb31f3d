"""Emptying partitions: their data goes, they themselves stay and know that they are empty."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence, Set

from interbed.catalog.server.service import events
from interbed.catalog.server.service.column_statistics import emptied
from interbed.catalog.server.service.directories.deletions import Deletions
from interbed.catalog.server.service.directories.guard import Claim
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import MetastorePartition, MetastoreTable
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.partition_names import partition_name
from interbed.catalog.server.service.partitions.reads import TableKey, canonical_names, find_table
from interbed.catalog.server.service.store import Store, Stored, Transaction
from interbed.catalog.server.service.tables.rules import owns_data, skips_trash
from interbed.catalog.server.service.warehouse import contains

NAMES_IN_TRANSACTION_MAX = 1000
"""Partitions emptied in one transaction: writers of other tables get their turn in between."""


def truncate_partitions(
    store: Store, deletions: Deletions, clock: Callable[[], float], key: TableKey, names: Sequence[str] | None
) -> None:
    """Delete the data of the partitions of these names, or of all if None, and append an event for each.

    MetastoreError if the table does not own its data, NoSuchObjectError if it does not exist. Names that no partition
    has are passed over.
    """

    def chosen(transaction: Transaction) -> list[str]:
        table = find_table(transaction, key)
        if not owns_data(table.value):
            raise MetastoreError(f"Cannot truncate non-managed table {table.value.database}.{table.value.name}.")
        if names is None:
            return transaction.partitions.names(table.id)
        return canonical_names(table.value.partition_keys, names)

    wanted = store.read(chosen)
    for start in range(0, len(wanted), NAMES_IN_TRANSACTION_MAX):
        part = wanted[start : start + NAMES_IN_TRANSACTION_MAX]
        _truncate(store, deletions, clock, key, part, None if names is None else frozenset(wanted))


def _truncate(
    store: Store,
    deletions: Deletions,
    clock: Callable[[], float],
    key: TableKey,
    names: Sequence[str],
    wanted: Set[str] | None,
) -> None:
    # Files are deleted before the event is visible: a reader that reacts to it earlier would still see them.
    def read(transaction: Transaction) -> tuple[Stored[MetastoreTable], list[str]]:
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
    claim = Claim(table_id=table.id, apart=table.value.location)
    for location in locations:
        deletions.empty(location, claim, purge=skips_trash(table.value))

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
    """MetastoreError if a directory holds the data of partitions that are not to be emptied."""
    for partition in partitions:
        name = partition_name(table.partition_keys, partition.values)
        place = partition.storage.location if partition.storage is not None else None
        if name in wanted or place is None:
            continue
        for location in shared:
            if contains(location, place):
                raise MetastoreError(f"the data in {location} is that of the partition {shortened(name)}, too")
