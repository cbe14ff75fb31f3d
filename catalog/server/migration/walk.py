"""All objects of a source, one after the other: what an export writes."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from interbed.catalog.server.migration.errors import RefusedError
from interbed.catalog.server.migration.name_set import NameSet
from interbed.catalog.server.migration.record import Key, RecordKind, constraint_fields, fields_of
from interbed.catalog.server.migration.selection import ObjectSelection
from interbed.catalog.server.migration.source import TABLES_AT_ONCE, Source, partitions_at_once

T = TypeVar("T")


def objects(source: Source, selection: ObjectSelection) -> Iterator[tuple[Key, dict[str, Any]]]:
    """Every selected object with its fields, what contains others before them. RefusedError for one that the source
    will not give.
    """
    for catalog in source.catalogs():
        if not selection.catalog(catalog):
            continue
        struct = source.catalog(catalog)
        if struct is not None:
            yield Key(kind=RecordKind.CATALOG, catalog=catalog), fields_of(RecordKind.CATALOG, struct)
        for database in source.databases(catalog):
            if selection.database(catalog, database):
                yield from _of_database(source, selection, catalog, database)


def selected_tables(source: Source, selection: ObjectSelection, catalog: str, database: str) -> list[str]:
    """The selected tables of a database, in order."""
    return [name for name in source.tables(catalog, database) if selection.table(catalog, database, name)]


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items, `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _of_database(
    source: Source, selection: ObjectSelection, catalog: str, database: str
) -> Iterator[tuple[Key, dict[str, Any]]]:
    struct = source.database(catalog, database)
    if struct is None:
        return
    yield Key(kind=RecordKind.DATABASE, catalog=catalog, database=database), fields_of(RecordKind.DATABASE, struct)
    if selection.functions(catalog, database):
        for name, function in sorted(source.functions(catalog, database).items()):
            key = Key(kind=RecordKind.FUNCTION, catalog=catalog, database=database, name=name)
            yield key, fields_of(RecordKind.FUNCTION, function)
    for names in chunks(selected_tables(source, selection, catalog, database), TABLES_AT_ONCE):
        tables, refused = source.table_objects(catalog, database, names)
        if refused:
            name, error = next(iter(refused.items()))
            raise RefusedError(f"table {database}.{name}: {error}")
        for name, table in sorted(tables.items()):
            yield from _of_table(source, selection, catalog, database, name, table)


def _of_table(
    source: Source, selection: ObjectSelection, catalog: str, database: str, name: str, table: Any
) -> Iterator[tuple[Key, dict[str, Any]]]:
    yield Key(kind=RecordKind.TABLE, catalog=catalog, database=database, name=name), fields_of(RecordKind.TABLE, table)
    constraints = selection.constraints(catalog, source.constraints(catalog, database, name))
    for constraint, structs in sorted(constraints.items()):
        key = Key(kind=RecordKind.CONSTRAINT, catalog=catalog, database=database, name=name, constraint=constraint)
        yield key, constraint_fields(structs)
    for column, statistics in sorted(source.table_statistics(catalog, database, table).items()):
        key = Key(kind=RecordKind.TABLE_STATISTICS, catalog=catalog, database=database, name=name, column=column)
        yield key, fields_of(RecordKind.TABLE_STATISTICS, statistics)
    if not table.partitionKeys:
        return
    with NameSet(source.partition_names(catalog, database, name)) as all_names:
        for names in all_names.batches(partitions_at_once(table)):
            for partition, struct in sorted(source.partitions(catalog, database, table, names).items()):
                key = Key(kind=RecordKind.PARTITION, catalog=catalog, database=database, name=name, partition=partition)
                yield key, fields_of(RecordKind.PARTITION, struct)
            by_partition = source.partition_statistics(catalog, database, table, names)
            for partition, by_column in sorted(by_partition.items()):
                for column, statistics in sorted(by_column.items()):
                    key = Key(
                        kind=RecordKind.PARTITION_STATISTICS,
                        catalog=catalog,
                        database=database,
                        name=name,
                        partition=partition,
                        column=column,
                    )
                    yield key, fields_of(RecordKind.PARTITION_STATISTICS, statistics)
