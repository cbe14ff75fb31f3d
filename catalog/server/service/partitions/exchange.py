"""Exchange of partitions: from one table to another, with their directory, without touching the data.

The directory is moved as a whole, as in Hive: for `dt=1` that of all partitions that begin so. Every obstacle is
reported as MetastoreError, as in Hive.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from interbed.catalog.server.service import events
from interbed.catalog.server.service import warehouse as files
from interbed.catalog.server.service.errors import MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.filters.tree import filter_of_values
from interbed.catalog.server.service.model import MetastoreColumn, MetastorePartition, MetastoreTable
from interbed.catalog.server.service.moves import DirectoryMover
from interbed.catalog.server.service.names import escaped, partition_name, shortened
from interbed.catalog.server.service.partitions.reads import Found, TableKey, find_table
from interbed.catalog.server.service.repository import StoredRow, Transaction
from interbed.catalog.server.service.warehouse import child


def exchange_partitions(
    transaction: Transaction, mover: DirectoryMover, spec: Mapping[str, str], source_key: TableKey, target_key: TableKey
) -> Found:
    """Move the partitions with these values of their first keys to the target; return it and them."""
    source, target = _both(transaction, source_key, target_key)
    keys = source.value.partition_keys
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
