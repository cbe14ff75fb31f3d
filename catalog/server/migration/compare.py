"""Comparison of two metastores: objects that only one has, and fields that differ.

Memory is bounded by the names of one database's tables and a batch of partitions. A change during the comparison is
reported as a difference.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from interbed.catalog.server.migration.access import access_records
from interbed.catalog.server.migration.record import Key, RecordKind, constraint_fields, fields_of
from interbed.catalog.server.migration.selection import NameSet, ObjectSelection, chunks, selected_tables
from interbed.catalog.server.migration.source import TABLES_AT_ONCE, Source, column_names, partitions_at_once


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDifference:
    """One difference. `field` is a path such as `sd.cols[2].type`, None where one side lacks the whole object; a side
    that has no such field or object is None.
    """

    key: Key
    field: str | None
    left: Any
    right: Any

    def to_json(self) -> dict[str, Any]:
        """Return the object for `--json`."""
        return {
            "type": self.key.kind.value,
            "object": str(self.key),
            "field": self.field,
            "left": self.left,
            "right": self.right,
        }


PRESENT = "present"
"""The value in place of an object that the other side lacks."""

Compared = Callable[[RecordKind, int], None]
"""Called with the number of objects of a kind that were compared."""


class SourceComparison:
    """A comparison of two sources. `compared` is called with the progress."""

    def __init__(
        self,
        left: Source,
        right: Source,
        selection: ObjectSelection,
        compared: Compared = lambda kind, count: None,
        *,
        with_access: bool = False,
    ) -> None:
        """Compare also roles and grants `with_access`."""
        self._left = left
        self._right = right
        self._selection = selection
        self._compared = compared
        self._with_access = with_access

    def differences(self) -> Iterator[MetadataDifference]:
        """Yield all differences, in the order of names."""
        catalogs = [
            [name for name in source.catalogs() if self._selection.catalog(name)]
            for source in (self._left, self._right)
        ]
        for catalog in sorted({*catalogs[0], *catalogs[1]}):
            yield from self._catalog(catalog)
            databases = {
                database
                for side, source in enumerate((self._left, self._right))
                if catalog in catalogs[side]
                for database in source.databases(catalog)
                if self._selection.database(catalog, database)
            }
            for database in sorted(databases):
                yield from self._database(catalog, database)
        if self._with_access:
            yield from self._access()

    def _access(self) -> Iterator[MetadataDifference]:
        left, right = (access_records(each, self._selection) for each in (self._left, self._right))
        for refused, is_left in ((left.refused, True), (right.refused, False)):
            for key, reason in refused:
                # It has no form on the other side.
                yield MetadataDifference(
                    key=key, field=None, left=reason if is_left else None, right=None if is_left else reason
                )
        yield from self._objects(left.fields(), right.fields())

    def _catalog(self, catalog: str) -> Iterator[MetadataDifference]:
        left, right = self._left.catalog(catalog), self._right.catalog(catalog)
        # A metastore before Hive 3 has no catalogs: there is no object to compare with the other side's default
        # catalog.
        if left is not None and right is not None:
            key = Key(kind=RecordKind.CATALOG, catalog=catalog)
            yield from self._objects(
                {key: fields_of(RecordKind.CATALOG, left)}, {key: fields_of(RecordKind.CATALOG, right)}
            )

    def _database(self, catalog: str, database: str) -> Iterator[MetadataDifference]:
        key = Key(kind=RecordKind.DATABASE, catalog=catalog, database=database)
        structs = [source.database(catalog, database) for source in (self._left, self._right)]
        sides = [{} if struct is None else {key: fields_of(RecordKind.DATABASE, struct)} for struct in structs]
        yield from self._objects(sides[0], sides[1])
        if structs[0] is None or structs[1] is None:
            return
        if self._selection.functions(catalog, database):
            yield from self._objects(
                _functions(self._left, catalog, database), _functions(self._right, catalog, database)
            )
        names = {
            name.lower()
            for source in (self._left, self._right)
            for name in selected_tables(source, self._selection, catalog, database)
        }
        for some in chunks(sorted(names), TABLES_AT_ONCE):
            yield from self._tables(catalog, database, some)

    def _tables(self, catalog: str, database: str, names: Any) -> Iterator[MetadataDifference]:
        left, left_refused = self._left.table_objects(catalog, database, names)
        right, right_refused = self._right.table_objects(catalog, database, names)
        for name in names:
            key = Key(kind=RecordKind.TABLE, catalog=catalog, database=database, name=name)
            errors = [refused.get(name) for refused in (left_refused, right_refused)]
            if any(errors):
                # An object that cannot be read may differ.
                yield MetadataDifference(
                    key=key,
                    field=None,
                    left=str(errors[0]) if errors[0] else PRESENT,
                    right=str(errors[1]) if errors[1] else PRESENT,
                )
                continue
            sides = [{key: fields_of(RecordKind.TABLE, side[name])} if name in side else {} for side in (left, right)]
            yield from self._objects(sides[0], sides[1])
            if name in left and name in right:
                yield from self._details(catalog, database, name, left[name], right[name])

    def _details(self, catalog: str, database: str, name: str, left: Any, right: Any) -> Iterator[MetadataDifference]:
        def constraints(source: Source) -> dict[Key, dict[str, Any]]:
            return {
                Key(
                    kind=RecordKind.CONSTRAINT, catalog=catalog, database=database, name=name, constraint=constraint
                ): constraint_fields(structs)
                for constraint, structs in self._selection.constraints(
                    catalog, source.constraints(catalog, database, name)
                ).items()
            }

        def statistics(source: Source, table: Any) -> dict[Key, dict[str, Any]]:
            return {
                Key(
                    kind=RecordKind.TABLE_STATISTICS, catalog=catalog, database=database, name=name, column=column
                ): fields_of(RecordKind.TABLE_STATISTICS, struct)
                for column, struct in source.table_statistics(catalog, database, table).items()
            }

        yield from self._objects(constraints(self._left), constraints(self._right))
        yield from self._objects(statistics(self._left, left), statistics(self._right, right))
        if left.partitionKeys and right.partitionKeys:
            yield from self._partitions(catalog, database, name, left, right)

    def _partitions(
        self, catalog: str, database: str, name: str, left: Any, right: Any
    ) -> Iterator[MetadataDifference]:
        with NameSet(self._left.partition_names(catalog, database, name)) as names:
            names.add(self._right.partition_names(catalog, database, name))
            for some in names.batches(min(partitions_at_once(left), partitions_at_once(right))):
                sides = [
                    {
                        Key(
                            kind=RecordKind.PARTITION,
                            catalog=catalog,
                            database=database,
                            name=name,
                            partition=partition,
                        ): fields_of(RecordKind.PARTITION, struct)
                        for partition, struct in source.partitions(catalog, database, table, some).items()
                    }
                    for source, table in ((self._left, left), (self._right, right))
                ]
                yield from self._objects(sides[0], sides[1])
                statistics = [
                    {
                        Key(
                            kind=RecordKind.PARTITION_STATISTICS,
                            catalog=catalog,
                            database=database,
                            name=name,
                            partition=partition,
                            column=column,
                        ): fields_of(RecordKind.PARTITION_STATISTICS, struct)
                        for partition, columns in source.partition_statistics(catalog, database, table, some).items()
                        for column, struct in columns.items()
                    }
                    for source, table in ((self._left, left), (self._right, right))
                    if column_names(table)
                ]
                if len(statistics) == 2:
                    yield from self._objects(statistics[0], statistics[1])

    def _objects(
        self, left: Mapping[Key, dict[str, Any]], right: Mapping[Key, dict[str, Any]]
    ) -> Iterator[MetadataDifference]:
        for key in sorted({*left, *right}, key=str):
            if key not in left or key not in right:
                yield MetadataDifference(
                    key=key,
                    field=None,
                    left=PRESENT if key in left else None,
                    right=PRESENT if key in right else None,
                )
            else:
                for field, one, other in different_fields(left[key], right[key]):
                    yield MetadataDifference(key=key, field=field, left=one, right=other)
            self._compared(key.kind, 1)


def differ(kind: RecordKind, left: Any, right: Any | None) -> bool:
    """Return whether two objects of a kind differ; for constraints the lists of their structures. None differs from
    any.
    """
    if right is None:
        return True
    fields = constraint_fields if kind is RecordKind.CONSTRAINT else functools.partial(fields_of, kind)
    return next(different_fields(fields(left), fields(right)), None) is not None


def different_fields(left: Any, right: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the paths at which two values differ, with both values. Nothing, zero and false are equal: the interface's
    structures leave out fields with their default.
    """
    if left == right:
        return
    if isinstance(left, dict) or isinstance(right, dict):
        if all(isinstance(side, dict) or side is None for side in (left, right)):
            left, right = left or {}, right or {}
            for name in sorted({*left, *right}):
                yield from different_fields(left.get(name), right.get(name), f"{path}.{name}" if path else name)
            return
    elif isinstance(left, list) and isinstance(right, list):
        for position in range(max(len(left), len(right))):
            sides = [side[position] if position < len(side) else None for side in (left, right)]
            yield from different_fields(sides[0], sides[1], f"{path}[{position}]")
        return
    if not (_is_default(left) and _is_default(right)):
        yield path, left, right


def _is_default(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, int | float) and value == 0)


def _functions(source: Source, catalog: str, database: str) -> dict[Key, dict[str, Any]]:
    return {
        Key(kind=RecordKind.FUNCTION, catalog=catalog, database=database, name=name): fields_of(
            RecordKind.FUNCTION, struct
        )
        for name, struct in source.functions(catalog, database).items()
    }
