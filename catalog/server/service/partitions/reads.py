"""Reads of partitions. Lists are in the order of names.

`limit` is Hive's max_parts: a negative one, or None, means all. A server may limit the partitions that one request
returns (`metastore.limit.partition.request`): a request that selects more, unless its own `limit` is lower, is refused
with Hive's text. Names are not limited.
"""

from collections.abc import Sequence

from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.access.secured import SecuredService, needs, secured, the_table_of_the_key
from interbed.catalog.server.service.errors import InvalidPartitionError, MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.filters.expression import parse_expression, parse_filter
from interbed.catalog.server.service.filters.tree import EVERYTHING, PartitionFilter, filter_of_values
from interbed.catalog.server.service.model import MetastoreColumn, MetastorePartition, MetastoreTable
from interbed.catalog.server.service.names import (
    NAME_CHARACTERS_MAX,
    check_number,
    check_partition_name_length,
    normalized,
    parsed_name,
    partition_name,
    shortened,
    values_of_name,
)
from interbed.catalog.server.service.repository import Repository, StoredRow, Transaction
from interbed.catalog.server.service.tables.rules import table_not_found

TableKey = tuple[str, str, str]
"""Catalog, database and table, as the client wrote them."""

Found = tuple[MetastoreTable, Sequence[MetastorePartition]]
"""A table and some of its partitions. A long list is built during iteration, once."""


class PartitionReads(SecuredService):
    """The calls that read. Each takes the table as (catalog, database, name); NoSuchObjectError if there is none."""

    def __init__(self, store: Repository, *, request_max: int | None = None) -> None:
        self._store = store
        self._request_max = request_max

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def get(self, key: TableKey, values: Sequence[str]) -> tuple[MetastoreTable, MetastorePartition]:
        """Return the partition with these values. NoSuchObjectError; InvalidPartitionError for a wrong number of
        values.
        """

        def work(transaction: Transaction) -> tuple[MetastoreTable, MetastorePartition]:
            table = find_table(transaction, key)
            return table.value, find_partition(transaction, table, values).value

        return self._store.read(work)

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def get_by_name(self, key: TableKey, name: str) -> tuple[MetastoreTable, MetastorePartition]:
        """Return the partition of this name. NoSuchObjectError."""

        def work(transaction: Transaction) -> tuple[MetastoreTable, MetastorePartition]:
            table = find_table(transaction, key)
            values = values_in_name(table.value.partition_keys, name)
            if not _has_lower_keys(table.value.partition_keys, name):
                raise NoSuchObjectError(f"partition name={shortened(name)}")
            return table.value, find_partition(transaction, table, values).value

        return self._store.read(work)

    @secured(needs(None, the_table_of_the_key))
    def has_table(self, key: TableKey) -> bool:
        """Return whether the table exists."""
        catalog, database, name = key
        return self._store.read(
            lambda transaction: transaction.tables.find(catalog, normalized(database), normalized(name)) is not None
        )

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def select(self, key: TableKey, limit: int | None = None) -> Found:
        """Return all partitions, or the first `limit` of them."""
        return self.select_filter(key, None, limit)

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def names(self, key: TableKey, limit: int | None = None) -> list[str]:
        """Return the names of all partitions, or of the first `limit` of them; none for 0."""
        return self.names_filter(key, None, limit)

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def select_names(self, key: TableKey, names: Sequence[str]) -> Found:
        """Return the partitions of these names that exist."""

        def work(transaction: Transaction) -> Found:
            table = find_table(transaction, key)
            keys = table.value.partition_keys
            self._check_number(table.value, len(names))
            return table.value, transaction.partitions.select(table.id, canonical_names(keys, names))

        return self._store.read(work)

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def select_partial(self, key: TableKey, values: Sequence[str], limit: int | None = None) -> Found:
        """Return the partitions that have these values; an empty value, or one that is missing at the end,
        matches any.
        """

        def work(transaction: Transaction) -> Found:
            table = find_table(transaction, key)
            keys = table.value.partition_keys
            check_partial(keys, values)
            where = filter_of_values(keys, values)
            self._check_request(transaction, table, where, limit)
            return table.value, transaction.partitions.select(table.id, limit=limit_of(limit), where=where)

        return self._store.read(work)

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def names_partial(self, key: TableKey, values: Sequence[str], limit: int | None = None) -> list[str]:
        """Return the names of the partitions that select_partial returns."""

        def work(transaction: Transaction) -> list[str]:
            table = find_table(transaction, key)
            keys = table.value.partition_keys
            check_partial(keys, values)
            return transaction.partitions.names(table.id, limit_of(limit), where=filter_of_values(keys, values))

        return self._store.read(work)

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def select_filter(self, key: TableKey, text: str | None, limit: int | None = None) -> Found:
        """Return the partitions that a filter selects (all if it is empty). BadFilterError."""

        def work(transaction: Transaction) -> Found:
            table = find_table(transaction, key)
            where = parse_filter(text, table.value.partition_keys)
            self._check_request(transaction, table, where, limit)
            return table.value, transaction.partitions.select(table.id, limit=limit_of(limit), where=where)

        return self._store.read(work)

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def names_filter(self, key: TableKey, text: str | None, limit: int | None = None) -> list[str]:
        """Return the names of the partitions that a filter selects (of all if it is empty). BadFilterError."""

        def work(transaction: Transaction) -> list[str]:
            table = find_table(transaction, key)
            where = parse_filter(text, table.value.partition_keys)
            return transaction.partitions.names(table.id, limit_of(limit), where=where)

        return self._store.read(work)

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def count_filter(self, key: TableKey, text: str | None) -> int:
        """Return the number of partitions that a filter selects. BadFilterError."""

        def work(transaction: Transaction) -> int:
            table = find_table(transaction, key)
            return transaction.partitions.count(table.id, parse_filter(text, table.value.partition_keys))

        return self._store.read(work)

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def select_expression(
        self, key: TableKey, expression: bytes | None, limit: int | None = None
    ) -> tuple[Found, bool]:
        """Return the partitions that an expression may select, and whether its exact result is unknown."""

        def work(transaction: Transaction) -> tuple[Found, bool]:
            table = find_table(transaction, key)
            where = parse_expression(expression, table.value.partition_keys)
            chosen = EVERYTHING if where is None else where
            self._check_request(transaction, table, chosen, limit)
            found = transaction.partitions.select(table.id, limit=limit_of(limit), where=chosen)
            return (table.value, found), where is None

        return self._store.read(work)

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def names_expression(self, key: TableKey, expression: bytes | None, limit: int | None = None) -> list[str]:
        """Return the names of the partitions that an expression may select: of all if it cannot be read."""

        def work(transaction: Transaction) -> list[str]:
            table = find_table(transaction, key)
            where = parse_expression(expression, table.value.partition_keys)
            chosen = EVERYTHING if where is None else where
            return transaction.partitions.names(table.id, limit_of(limit), where=chosen)

        return self._store.read(work)

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def value_rows(
        self,
        key: TableKey,
        columns: Sequence[str],
        *,
        text: str | None = None,
        distinct: bool = True,
        order: Sequence[str] = (),
        ascending: bool = True,
        limit: int | None = None,
    ) -> list[tuple[str, ...]]:
        """Return the values of some keys in the partitions that a filter selects, each row once if `distinct`, ordered
        by the keys `order`, or by `columns` without it. BadFilterError; MetastoreError for a name that is no key.
        """
        if not columns:
            raise MetastoreError("the request has no partition keys whose values are asked for")
        table = self._store.read(lambda transaction: find_table(transaction, key)).value
        positions = {column.name.lower(): number for number, column in enumerate(table.partition_keys)}
        if len(columns) > len(positions) or len(order) > len(positions):
            raise MetastoreError(
                f"the request asks for {max(len(columns), len(order))} keys and the table has {len(positions)}"
            )
        unknown = [name for name in (*columns, *order) if name.lower() not in positions]
        if unknown:
            raise MetastoreError(f"{shortened(unknown[0])} is not a partitioning key for the table")
        chosen = [positions[name.lower()] for name in columns]
        sorted_by = [positions[name.lower()] for name in order] or chosen
        # Two rows that differ only in a key of the order are distinct; so the order is part of the comparison.
        rows: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        for name in self.names_filter(key, text):
            values = [value for _, value in parsed_name(name)]
            rows.append((tuple(values[each] for each in sorted_by), tuple(values[each] for each in chosen)))
        rows.sort(reverse=not ascending)
        found = [row for _, row in rows]
        return (list(dict.fromkeys(found)) if distinct else found)[: limit_of(limit)]

    @secured(needs(Privilege.SELECT, the_table_of_the_key))
    def is_marked(self, key: TableKey, spec: dict[str, str], event_type: int) -> bool:
        """Return whether the event was recorded for the partition with these values. InvalidPartitionError."""

        def work(transaction: Transaction) -> bool:
            table = find_table(transaction, key)
            return transaction.partitions.is_marked(table.id, name_of_spec(table.value, spec), event_type)

        return self._store.read(work)

    def _check_request(
        self, transaction: Transaction, table: StoredRow[MetastoreTable], where: PartitionFilter, limit: int | None
    ) -> None:
        asked = limit_of(limit)
        if self._request_max is not None and (asked is None or asked > self._request_max):
            self._check_number(table.value, transaction.partitions.count(table.id, where))

    def _check_number(self, table: MetastoreTable, number: int) -> None:
        """Raise MetastoreError if a request selects more partitions than the server's limit."""
        if self._request_max is not None and number > self._request_max:
            raise MetastoreError(
                f"Number of partitions scanned (={number}) on table '{table.name}' exceeds limit "
                f"(={self._request_max}). This is controlled on the metastore server by "
                "metastore.limit.partition.request."
            )


def find_table(transaction: Transaction, key: TableKey, *, for_update: bool = False) -> StoredRow[MetastoreTable]:
    """Return the table of a key. NoSuchObjectError if there is none."""
    catalog, database, name = key
    found = transaction.tables.find(catalog, normalized(database), normalized(name), for_update=for_update)
    if found is None:
        raise table_not_found(database, name)
    return found


def find_partition(
    transaction: Transaction, table: StoredRow[MetastoreTable], values: Sequence[str]
) -> StoredRow[MetastorePartition]:
    """Return the partition with these values. NoSuchObjectError, InvalidPartitionError."""
    name = partition_name(table.value.partition_keys, values)
    stored = None if "\0" in name else transaction.partitions.find(table.id, name)
    if stored is None:
        raise NoSuchObjectError(f"partition values=[{shortened(', '.join(values))}]")
    return stored


def values_in_name(keys: Sequence[MetastoreColumn], name: str) -> tuple[str, ...]:
    """Return the values of a name. MetastoreError if it is empty, NoSuchObjectError if it lacks a key."""
    if not name:
        raise MetastoreError("Partition name is invalid. ")
    check_partition_name_length(name)
    return values_of_name(keys, name)


def canonical_names(keys: Sequence[MetastoreColumn], names: Sequence[str]) -> list[str]:
    """Return the names as they are stored, each once, without invalid ones. A client may order or escape a name
    otherwise: its values count. MetastoreError for too many of them.
    """
    check_number("names of partitions", len(names))
    canonical: dict[str, None] = {}
    for name in names:
        if len(name) > NAME_CHARACTERS_MAX:
            continue
        # A name with more keys than the table has means another table's partition, which must not be dropped here.
        if sum(part != "" for part in name.split("/")) != len(keys) or not _has_lower_keys(keys, name):
            continue
        try:
            canonical[partition_name(keys, values_of_name(keys, name))] = None
        except NoSuchObjectError:
            continue
    return [name for name in canonical if "\0" not in name]


def _has_lower_keys(keys: Sequence[MetastoreColumn], name: str) -> bool:
    """Return whether a name has the keys in lower case, as in the names of partitions: Hive finds no others."""
    known = {key.name.lower() for key in keys}
    return all(key in known for key, _ in parsed_name(name))


def name_of_spec(table: MetastoreTable, spec: dict[str, str]) -> str:
    """Return the name of the partition with these values by key. InvalidPartitionError with Hive's text."""
    if len(spec) != len(table.partition_keys):
        raise InvalidPartitionError(
            f"Number of partition columns in table: {len(table.partition_keys)} doesn't match with number of supplied "
            f"partition values: {len(spec)}"
        )
    by_key = {name.lower(): value for name, value in spec.items()}
    missing = [key.name for key in table.partition_keys if key.name.lower() not in by_key]
    if missing:
        raise InvalidPartitionError(f"Partition value for column {shortened(missing[0])} is not supplied")
    return partition_name(table.partition_keys, [by_key[key.name.lower()] for key in table.partition_keys])


def check_partial(keys: Sequence[MetastoreColumn], values: Sequence[str]) -> None:
    """Raise InvalidPartitionError if there are more values than keys, or no values at all, which Hive treats as an
    error.
    """
    if not values:
        raise InvalidPartitionError("Invalid partition key & values; keys [], values []")
    if any("\0" in value for value in values):
        raise InvalidPartitionError("A NUL character cannot be in a partition's value")
    if len(values) > len(keys):
        raise InvalidPartitionError(
            f"Incorrect number of partition values. numPartKeys={len(keys)}, part_val={len(values)}"
        )


def limit_of(limit: int | None) -> int | None:
    """Return the limit, None for a negative one, by which clients mean all."""
    return None if limit is None or limit < 0 else limit
