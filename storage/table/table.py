"""A table: one-liners to write, read, change and compact it, and the parts that they are made of.

write:   new_write → write_arrow → prepare_commit → new_commit → commit
read:    new_scan → plan → splits → new_read → to_batches
"""

import uuid
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.meta.file_store import FileStore, changes_table
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.format import is_object_table
from interbed.storage.meta.schema.system_fields import readable_by_name, readable_fields
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.described import DescribedTable, ScannedRows, TableAccess
from interbed.storage.table.opening import open_store
from interbed.storage.table.table_maintenance import TableMaintenance
from interbed.storage.table.table_methods import PypaimonNames, TableChanges
from interbed.storage.table.table_versions import TableVersions
from interbed.storage.table.table_writes import TableWrites

if TYPE_CHECKING:
    import pyarrow as pa

    from interbed.storage.base.predicate.expr import Predicate
    from interbed.storage.commit.file_store_commit import FileStoreCommit
    from interbed.storage.meta.snapshot.snapshot import Snapshot
    from interbed.storage.read.point_lookup import Key
    from interbed.storage.read.query import Scan
    from interbed.storage.read.table_read import TableRead
    from interbed.storage.scan.explain import Explanation
    from interbed.storage.scan.partition_filter import Partitions
    from interbed.storage.scan.scan import TableScan
    from interbed.storage.views.levels import TableLevels
    from interbed.storage.write.commit_message import CompactionResult, Progress
    from interbed.storage.write.table_write import TableWrite


class Table(DescribedTable, ScannedRows, TableWrites, TableChanges, PypaimonNames):
    """A table; reads see the latest snapshot by default.

    The object has one version of the schema: that of the moment when it was opened, or which its own methods have made
    since. Methods that change the table's schema (`update_schema`, `merge_schema`, `rescale`, `fast_forward`, writes
    with `merge_schema`) change this object with it, and no other one: a table that was opened before goes on with its
    own columns. Only `copy` and `branch`, which look at a table in another way, return another Table.
    """

    def __init__(self, name: str, store: FileStore) -> None:
        self.name = name
        self.store = store

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {self.location!r})"

    def _repr_html_(self) -> str:
        """Return the columns and other metadata as HTML, for notebooks; no rows are read."""
        from interbed.storage.read.arrow_rows import html_facts

        latest = self.latest_snapshot()
        facts = [(f.name, str(self.arrow_schema.field(f.name).type)) for f in self.fields]
        facts.append(("primary key", ", ".join(self.primary_keys) or "none"))
        facts.append(("partitioned by", ", ".join(self.partition_keys) or "nothing"))
        facts.append(
            ("newest snapshot", "none" if latest is None else f"{latest.id}, {latest.total_record_count} records")
        )
        return html_facts(facts, repr(self))

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> TableSchema:
        """The schema, with its options."""
        return self.store.schema

    @property
    def location(self) -> str:
        """The directory of the table."""
        return self.store.location

    @property
    def options(self) -> CoreOptions:
        """The options, typed, with dynamic ones on top."""
        return self.store.options

    def snapshots(self) -> "list[Snapshot]":
        """Return all snapshots that have not expired, oldest first; raises SnapshotNotFoundError as latest_snapshot."""
        found = [self.store.snapshots.snapshot(i) for i in self.store.snapshots.ids()]
        if not found:
            self.store.check_not_gone()
        return found

    def latest_snapshot(self) -> "Snapshot | None":
        """Return the newest snapshot; None while nothing was committed.

        Raises SnapshotNotFoundError when the table was dropped or renamed since it was opened.
        """
        return self.store.newest_snapshot()

    def levels(self, *, partitions: "Partitions | None" = None, bucket: int | None = None) -> "TableLevels":
        """Return the LSM tree of every bucket of the newest snapshot, or of some:
        `table.levels().plot("levels.svg")`.
        """
        # Imported by use, like all modules that draw.
        from interbed.storage.views.levels import levels_of

        return levels_of(self.store, name=self.name, partitions=partitions, bucket=bucket)

    def copy(self, dynamic_options: Mapping[str, object]) -> "Table":
        """Return the same table with options on top of its own, for this object only; None for an option's default.

        With `scan.snapshot-id` or `scan.timestamp-millis` it has the columns that it had then.
        """
        from interbed.storage.scan.starting_point import at_snapshot

        return Table(self.name, at_snapshot(self.store.with_options(dynamic_options)))

    def branch(self, name: str) -> "Table":
        """Return a branch of this table, with its own schema and snapshots; `main` is the table.

        BranchNotFoundError.
        """
        return Table(f"{self.name.partition('$')[0]}$branch_{name}", self.store.on_branch(name))

    # -- read ------------------------------------------------------------------------------------------------------

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: "str | Predicate | None" = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
        *,
        threads: int | None = None,
    ) -> "Scan":
        """Query the table: `scan(columns=["id"], filter="amount > 5 and name = 'x'", limit=10).to_arrow()`.

        An older snapshot has the columns that the table had then. If the filter names at most 16 primary keys, their
        rows are looked up as by get_many. Raises FilterError for a filter that does not parse or fit, InvalidInputError
        for an unknown column, and SnapshotNotFoundError.
        """
        from interbed.storage.read.query import Scan
        from interbed.storage.scan.starting_point import at_snapshot

        store = self.store if snapshot_id is None else at_snapshot(self.store, snapshot_id)
        if columns is not None:
            check_asked_once(columns)
            unknown = [c for c in columns if c not in readable_by_name(store.schema)]
            if unknown:
                raise InvalidInputError(
                    f"The table '{self.name}' has no column {unknown[0]!r}; it has {', '.join(store.schema.names)}."
                )
        predicate = None if filter is None else _bound(filter, store)
        return Scan(store, None if columns is None else tuple(columns), predicate, limit, snapshot_id, threads)

    def get(self, key: "Key", columns: Sequence[str] | None = None) -> dict[str, object] | None:
        """Return the row of a primary key, given as a dict, a tuple or the only column's value; None when there is
        none.

        Raises InvalidInputError for a key that does not fit, NotSupportedError for a table without a primary key.
        """
        from interbed.storage.base.row.python_values import python_rows
        from interbed.storage.read.point_lookup import PointLookup

        rows = python_rows(PointLookup(self.store, columns).rows([key]))
        return rows[0] if rows else None

    def get_many(self, keys: Any, columns: Sequence[str] | None = None) -> "pa.Table":
        """Return the rows of primary keys, in the order of the keys; missing keys are left out.

        `keys` are Arrow data with the key's columns (an array where there is one), or a sequence of what `get` takes.
        Decoded pages are cached for later lookups, up to `lookup.cache-max-memory-size` bytes. Raises as `get` does.
        """
        from interbed.storage.read.point_lookup import PointLookup

        return PointLookup(self.store, columns).rows(keys)

    def explain(
        self,
        filter: "str | Predicate | None" = None,  # noqa: A002 - the field's word for it
        snapshot_id: int | None = None,
        *,
        analyze: bool = False,
    ) -> "Explanation":
        """Explain what a scan with that filter would read and why: pruning, levels, splits.

        With `analyze` the rows are read, and the result says how many were decoded for those returned, and why. Filters
        that name keys are explained as if their rows were not looked up. For an object store the result contains the
        requests of the whole process in the meantime.
        """
        from interbed.storage.io.stores.requests import counted_requests

        with counted_requests() as requests:
            explanation = self._explained(filter, snapshot_id, analyze=analyze)
        return replace(explanation, requests=requests) if requests.kinds else explanation

    def _explained(
        self, condition: "str | Predicate | None", snapshot_id: int | None, *, analyze: bool
    ) -> "Explanation":
        from interbed.storage.scan.explain import explain_plan
        from interbed.storage.scan.scan import plan_rows
        from interbed.storage.scan.starting_point import at_snapshot

        store = self.store if snapshot_id is None else at_snapshot(self.store, snapshot_id)
        predicate = None if condition is None else _bound(condition, store)
        plan = plan_rows(store, predicate=predicate, snapshot_id=snapshot_id)
        explanation = explain_plan(self.name, plan)
        if not analyze:
            return explanation
        from interbed.storage.read.table_read import with_reading

        return with_reading(explanation, store, plan.splits, predicate)

    # -- parts -----------------------------------------------------------------------------------------------------

    def new_scan(
        self, *, predicate: "Predicate | None" = None, limit: int | None = None, snapshot_id: int | None = None
    ) -> "TableScan":
        """Return the planner of one read."""
        from interbed.storage.scan.scan import TableScan

        return TableScan(self.store, predicate=predicate, limit=limit, snapshot_id=snapshot_id)

    def new_read(self, columns: Sequence[str] | None = None, predicate: "Predicate | None" = None) -> "TableRead":
        """Return the reader of splits."""
        from interbed.storage.read.table_read import TableRead

        return TableRead(self.store, None if columns is None else tuple(columns), predicate)

    def new_write(self, commit_user: str, *, overwrite: bool = False, batch: bool = False) -> "TableWrite":
        """Return the writer of one job or task; `overwrite` when its rows replace all rows of the partitions.

        With `batch`, the rows of a table with postponed buckets go to real buckets, if no other rows wait there.
        """
        from interbed.storage.scan.live_files import NothingBefore
        from interbed.storage.write.bucket_strategy import batch_strategy_of, strategy_of
        from interbed.storage.write.table_write import TableWrite

        strategy = batch_strategy_of if batch else strategy_of
        restore = NothingBefore if overwrite else None
        return TableWrite(self.store, commit_user, restore, strategy=strategy, name=self.name)

    def new_commit(self, commit_user: str) -> "FileStoreCommit":
        """Return the committer of one job."""
        from interbed.storage.commit.file_store_commit import FileStoreCommit

        return FileStoreCommit(self.store, commit_user)

    @changes_table
    def compact(
        self,
        *,
        full: bool = True,
        partitions: "Partitions | None" = None,
        bucket: int | None = None,
        partition_idle_time: timedelta | None = None,
        order_strategy: str | None = None,
        order_by: Sequence[str] | str | None = None,
        progress: "Progress | None" = None,
    ) -> "CompactionResult":
        """Merge the sorted runs of every bucket into one (small files into larger ones on append tables).

        Without `full` only compactions that the universal strategy finds due are done. `partitions` and `bucket`
        restrict it, and `partition_idle_time` to partitions without new rows for that time. The content of the table
        stays the same; the result is one COMPACT snapshot, or none when there was nothing to do. `progress` is called
        after each bucket with the number of finished buckets and the number of all.

        With `order_strategy` `order`, `zorder` or `hilbert` all rows of the chosen partitions of an append table
        without buckets are rewritten in the order of the columns `order_by` (a sequence, or names with commas), so that
        filters on them skip more files. Raises InvalidInputError for arguments that can't be combined,
        NotSupportedError for a table that can't be sorted, CommitConflictError when another compaction was faster.
        """
        from interbed.storage.table.table_maintenance import chosen_partitions, sort_order
        from interbed.storage.upkeep.append_compact import sort_compact_table
        from interbed.storage.upkeep.compact_table import compact_table

        order = sort_order(self.store.schema, order_strategy, order_by, bucket, partition_idle_time)
        chosen = chosen_partitions(partitions, self.store)
        user = str(uuid.uuid4())
        if order is not None:
            return sort_compact_table(self.store, user, order, partition=chosen, progress=progress)
        return compact_table(
            self.store,
            user,
            full=full,
            partition=chosen,
            bucket=bucket,
            partition_idle_time=partition_idle_time,
            progress=progress,
        )

    # -- administration --------------------------------------------------------------------------------------------

    @property
    def versions(self) -> TableVersions:
        """Snapshots by name and time, tags, branches, rollback, consumers: `table.versions.create_tag("v1")`."""
        return TableVersions(self)

    @property
    def maintenance(self) -> TableMaintenance:
        """Rescaling, statistics, expiry, orphan files, checks: `table.maintenance.expire_snapshots(retain_max=10)`."""
        return TableMaintenance(self)

    @property
    def access(self) -> TableAccess:
        """The parts of the table for the layers above storage; not a part of the public API."""
        return TableAccess(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return what `versions`, `maintenance` and `access` have by the names that a table had itself before."""
            for part, owner in _PARTS.items():
                if not name.startswith("_") and name in vars(owner):
                    return getattr(getattr(self, part), name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


_PARTS = {"versions": TableVersions, "maintenance": TableMaintenance, "access": TableAccess}


def load_table(location: str, *, schema_json: str | None = None, options: Mapping[str, str] | None = None) -> Table:
    """Return the table at a location, without a catalog; `schema_json` saves reading the schema file.

    For workers that got a location, and for tables that are in no catalog. Commits are not locked.
    """
    schema = None if schema_json is None else TableSchema.from_json(schema_json, source=location)
    return Table(location.rstrip("/").rsplit("/", 1)[-1], open_store(location, schema=schema, dynamic_options=options))


def with_schema(table: Table, schema: TableSchema) -> Table:
    """Return a table seen through another of its schemas; the options that it was opened with stay."""
    found = copy(table)
    found.store = replace(table.store, schema=schema)
    return found


def _bound(given: "str | Predicate", store: FileStore) -> "Predicate":
    """Return the filter, checked against the table's columns."""
    from interbed.storage.base.predicate.conditions import bound_filter

    return bound_filter(given, readable_fields(store.schema))


def opened_table(name: str, store: FileStore) -> Table:
    """Return the table of a file store, an ObjectTable if its schema says so; raises NotSupportedError for a schema of
    an object table with other columns.
    """
    if is_object_table(store.schema.options):
        from interbed.storage.table.object_table import ObjectTable, check_columns

        check_columns(name, store.schema)
        # Readers use only methods that both kinds of tables have, or are refused by name.
        return cast(Table, ObjectTable(name, store.location, store.file_io, store.schema))
    return Table(name, store)
