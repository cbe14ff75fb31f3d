"""An import: copies the objects of the source into the target.

Its state is the content of the target: each object is compared first, and written if it is missing or differs. So an
import that was interrupted is simply run again, and a later run brings the target up to date. Objects that only the
target has are left alone; `compare` reports them.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from interbed.catalog.server.migration.compare import differ
from interbed.catalog.server.migration.record import (
    FOREIGN_KEYS,
    CopyOutcome,
    CopySummary,
    Key,
    RecordKind,
    RefusedError,
)
from interbed.catalog.server.migration.selection import NameSet, ObjectSelection, chunks, selected_tables
from interbed.catalog.server.migration.source import TABLES_AT_ONCE, MetastoreSource, Source, partitions_at_once
from interbed.catalog.server.migration.target import Target
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import DEFAULT_DATABASE
from interbed.catalog.server.service.names import normalized

logger = logging.getLogger(__name__)

N = TypeVar("N")
P = ParamSpec("P")

Progress = Callable[[RecordKind, int, str], None]
"""Called with a kind, how many objects of it were processed, and the current table or database."""


class MetadataCopy:
    """One import. `target` is None for a dry run into a database that does not exist yet.

    `update_changed` decides about objects that differ from the source's: replace them, or only report them. Failures of
    single objects are in the summary; MigrationError if the source, MetastoreError if the target is lost.
    """

    def __init__(
        self,
        source: Source,
        target: Target | None,
        selection: ObjectSelection,
        *,
        update_changed: bool = True,
        dry_run: bool = False,
        progress: Progress = lambda kind, count, name: None,
    ) -> None:
        self._source = source
        self._target = target
        self._present: MetastoreSource | None = None if target is None else target.source
        self._selection = selection
        self._update_changed = update_changed
        self._dry_run = dry_run or target is None
        self._progress = progress
        self._foreign_keys: list[tuple[str, str, str, dict[str, Any]]] = []
        self.summary = CopySummary(dry_run=self._dry_run)

    def run(self) -> CopySummary:
        """Copy all selected objects."""
        started = time.monotonic()
        for catalog in self._source.catalogs():
            if self._selection.catalog(catalog):
                self._catalog(catalog)
                for database in self._source.databases(catalog):
                    if self._selection.database(catalog, database):
                        self._database(catalog, database)
        for catalog, database, table, structs in self._foreign_keys:
            self._put_constraints(catalog, database, table, structs)
        self.summary.notes.extend(self._source.notes)
        self.summary.seconds = time.monotonic() - started
        return self.summary

    def _catalog(self, catalog: str) -> None:
        struct = self._source.catalog(catalog)
        present = None if self._present is None else self._present.catalog(catalog)
        if struct is None:
            # Metastores before Hive 3 have no catalogs; the default catalog lies where its default database does.
            if present is None and self._target is not None and not self._dry_run:
                default = self._source.database(catalog, DEFAULT_DATABASE)
                self._target.put_catalog(catalog, None, (default.locationUri if default is not None else None) or "")
            return

        def put(chosen: Mapping[str, Any]) -> None:
            assert self._target is not None
            self._target.put_catalog(catalog, chosen[catalog], "")

        self._settle(RecordKind.CATALOG, {catalog: struct}, _by_name(catalog, present), put, catalog)

    def _database(self, catalog: str, database: str) -> None:
        """Copy a database with its content."""
        key = Key(kind=RecordKind.DATABASE, catalog=catalog, database=database)
        struct = self._source.database(catalog, database)
        if struct is None:
            self._note_gone(key)
            return
        present = None if self._present is None else self._present.database(catalog, database)

        def put(chosen: Mapping[str, Any]) -> None:
            assert self._target is not None
            self._target.put_database(catalog, chosen[database])

        self._settle(RecordKind.DATABASE, {database: struct}, _by_name(database, present), put, database)
        if self._selection.functions(catalog, database):
            self._guarded(
                Key(kind=RecordKind.FUNCTION, catalog=catalog, database=database), self._functions, catalog, database
            )
        for names in chunks(selected_tables(self._source, self._selection, catalog, database), TABLES_AT_ONCE):
            self._tables(catalog, database, names)

    def _functions(self, catalog: str, database: str) -> None:
        structs = self._source.functions(catalog, database)
        present = {} if self._present is None or not structs else self._present.functions(catalog, database)

        def put(chosen: Mapping[str, Any]) -> None:
            assert self._target is not None
            self._target.put_functions(catalog, database, list(chosen.values()))

        self._settle(RecordKind.FUNCTION, structs, present, put, database)

    def _tables(self, catalog: str, database: str, names: Sequence[str]) -> None:
        structs, refused = self._source.table_objects(catalog, database, names)
        for name, error in refused.items():
            self._failed(Key(kind=RecordKind.TABLE, catalog=catalog, database=database, name=name), error)
        for name in names:
            if name.lower() not in structs and name not in refused:
                self._note_gone(Key(kind=RecordKind.TABLE, catalog=catalog, database=database, name=name))
        present: dict[str, Any] = {}
        if self._present is not None:
            present, _ = self._present.table_objects(catalog, database, sorted(structs))

        def put(chosen: Mapping[str, Any]) -> None:
            assert self._target is not None
            self._target.put_tables(catalog, database, list(chosen.values()))

        failed = self._settle(RecordKind.TABLE, structs, present, put, database)
        for name in sorted(structs.keys() - failed):
            key = Key(kind=RecordKind.TABLE_STATISTICS, catalog=catalog, database=database, name=name)
            self._guarded(key, self._table_statistics, catalog, database, structs[name], name in present)
            if structs[name].partitionKeys:
                key = Key(kind=RecordKind.PARTITION, catalog=catalog, database=database, name=name)
                self._guarded(key, self._partitions, catalog, database, structs[name], name in present)
            key = Key(kind=RecordKind.CONSTRAINT, catalog=catalog, database=database, name=name)
            self._guarded(key, self._constraints, catalog, database, name)

    def _table_statistics(self, catalog: str, database: str, table: Any, was_there: bool) -> None:
        structs = self._source.table_statistics(catalog, database, table)
        present: dict[str, Any] = {}
        if structs and was_there and self._present is not None:
            present = self._present.table_statistics(catalog, database, table)

        def put(chosen: Mapping[str, Any]) -> None:
            assert self._target is not None
            self._target.put_table_statistics(catalog, database, normalized(table.tableName), list(chosen.values()))

        self._settle(RecordKind.TABLE_STATISTICS, structs, present, put, f"{database}.{table.tableName}")

    def _partitions(self, catalog: str, database: str, table: Any, was_there: bool) -> None:
        name = table.tableName
        anew = not (was_there and self._target is not None and self._target.has_partitions(catalog, database, name))

        def put(chosen: Mapping[str, Any]) -> None:
            assert self._target is not None
            self._target.put_partitions(catalog, database, name, chosen)

        with NameSet(self._source.partition_names(catalog, database, name)) as all_names:
            for names in all_names.batches(partitions_at_once(table)):
                structs = self._source.partitions(catalog, database, table, names)
                for partition in set(names) - structs.keys():
                    self._note_gone(
                        Key(
                            kind=RecordKind.PARTITION,
                            catalog=catalog,
                            database=database,
                            name=name,
                            partition=partition,
                        )
                    )
                present: dict[str, Any] = {}
                if not anew and self._present is not None:
                    present = self._present.partitions(catalog, database, table, names)
                failed = self._settle(RecordKind.PARTITION, structs, present, put, f"{database}.{name}")
                there = {partition: struct for partition, struct in structs.items() if partition not in failed}
                self._partition_statistics(catalog, database, table, there, present)

    def _partition_statistics(
        self,
        catalog: str,
        database: str,
        table: Any,
        partitions: Mapping[str, Any],
        present_partitions: Mapping[str, Any],
    ) -> None:
        structs = self._source.partition_statistics(catalog, database, table, list(partitions))
        present: dict[str, dict[str, Any]] = {}
        known = [name for name in structs if name in present_partitions]
        if known and self._present is not None:
            present = self._present.partition_statistics(catalog, database, table, known)
        # Both by (partition, column), which is how single ones are counted, and stored by partition.
        flat = {(partition, column): each for partition, by in structs.items() for column, each in by.items()}
        flat_present = {(partition, column): each for partition, by in present.items() for column, each in by.items()}

        def put(chosen: Mapping[tuple[str, str], Any]) -> None:
            assert self._target is not None
            by_partition: dict[str, list[Any]] = {}
            for (partition, _), struct in chosen.items():
                by_partition.setdefault(partition, []).append(struct)
            self._target.put_partition_statistics(catalog, database, normalized(table.tableName), by_partition)

        self._settle(RecordKind.PARTITION_STATISTICS, flat, flat_present, put, f"{database}.{table.tableName}")

    def _constraints(self, catalog: str, database: str, table: str) -> None:
        """Copy the constraints of a table, and keep its foreign keys for later: they refer to keys of other tables."""
        structs = self._selection.constraints(catalog, self._source.constraints(catalog, database, table))
        foreign = {name: columns for name, columns in structs.items() if name.startswith(FOREIGN_KEYS)}
        if foreign:
            self._foreign_keys.append((catalog, database, table, foreign))
        self._put_constraints(
            catalog, database, table, {name: columns for name, columns in structs.items() if name not in foreign}
        )

    def _put_constraints(self, catalog: str, database: str, table: str, structs: Mapping[str, Any]) -> None:
        present: dict[str, Any] = {}
        if structs and self._present is not None:
            present = self._present.constraints(catalog, database, table)

        def put(chosen: Mapping[str, Any]) -> None:
            assert self._target is not None
            self._target.put_constraints(catalog, database, table, chosen)

        self._settle(RecordKind.CONSTRAINT, structs, present, put, f"{database}.{table}")

    def _settle(
        self,
        kind: RecordKind,
        structs: Mapping[N, Any],
        present: Mapping[N, Any],
        put: Callable[[Mapping[N, Any]], None],
        where: str,
    ) -> set[N]:
        """Write missing and differing objects, and count; return the names of those that could not be written."""
        outcomes = {name: self._outcome(kind, struct, present.get(name)) for name, struct in structs.items()}
        chosen = {
            name: structs[name]
            for name, outcome in outcomes.items()
            if outcome in (CopyOutcome.COPIED, CopyOutcome.UPDATED)
        }
        failed = self._written(kind, chosen, put, where) if chosen and not self._dry_run else set()
        for name, outcome in outcomes.items():
            self.summary.count(kind, CopyOutcome.FAILED if name in failed else outcome)
        self._progress(kind, len(structs), where)
        return failed

    def _outcome(self, kind: RecordKind, struct: Any, present: Any | None) -> CopyOutcome:
        if present is None:
            return CopyOutcome.COPIED
        if not differ(kind, struct, present):
            return CopyOutcome.UNCHANGED
        return CopyOutcome.UPDATED if self._update_changed else CopyOutcome.DIFFERENT

    def _written(
        self, kind: RecordKind, chosen: Mapping[N, Any], put: Callable[[Mapping[N, Any]], None], where: str
    ) -> set[N]:
        try:
            put(chosen)
        except MetastoreError as error:
            assert self._target is not None
            # The database itself may be lost: then no other object can be written either.
            self._target.check()
            if len(chosen) == 1:
                self._record_failure(f"{kind} {where} {_shown(next(iter(chosen)))}", error)
                return set(chosen)
            return {name for name in chosen if self._written(kind, {name: chosen[name]}, put, where)}
        return set()

    def _guarded(self, key: Key, work: Callable[P, None], *arguments: P.args, **keywords: P.kwargs) -> None:
        """Run a piece of work; if the source refuses to answer for it, that is a failure of this key alone."""
        try:
            work(*arguments, **keywords)
        except RefusedError as error:
            self._failed(key, error)

    def _failed(self, key: Key, error: Exception) -> None:
        self.summary.count(key.kind, CopyOutcome.FAILED)
        self._record_failure(f"{key.kind} {key}", error)

    def _record_failure(self, name: str, error: Exception) -> None:
        logger.info("%s could not be copied: %s", name, error)
        self.summary.add_failure(name, str(error))

    def _note_gone(self, key: Key) -> None:
        self.summary.notes.append(f"{key.kind} {key} disappeared from {self._source.name} while it was copied")


def _by_name(name: str, struct: Any | None) -> dict[str, Any]:
    return {} if struct is None else {name: struct}


def _shown(name: object) -> str:
    return " ".join(str(part) for part in name) if isinstance(name, tuple) else str(name)
