"""Maintenance of an Iceberg table, as methods of the table."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING

from pyiceberg.table import Table as Metadata

from interbed.iceberg.meta.table_metadata import is_published, readable_fields
from interbed.storage.base.clock import moment_millis
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.expr import AlwaysFalse, Comparison, IsNull, Op, Or, Predicate, and_, bind
from interbed.storage.base.row.values import parse_text

if TYPE_CHECKING:
    from interbed.iceberg.commit.home import TableHome
    from interbed.iceberg.optimize.compact import IcebergCompaction, OptimizeScope, Progress
    from interbed.iceberg.optimize.expire import IcebergExpiry, IcebergOrphans
    from interbed.iceberg.optimize.planner import OptimizeUnit
    from interbed.storage.scan.partition_filter import Partitions
    from interbed.storage.write.sort.key import SortOrder


class IcebergUpkeep:
    """The maintenance methods of `IcebergTable`; `home` is where it commits, None if that is not known."""

    name: str
    metadata: Metadata
    home: "TableHome | None"

    def compact(
        self,
        *,
        full: bool = True,
        mode: str | None = None,
        partitions: "Partitions | None" = None,
        bucket: int | None = None,
        partition_idle_time: timedelta | None = None,
        order_strategy: str | None = None,
        order_by: Sequence[str] | str | None = None,
        progress: "Progress | None" = None,
    ) -> "IcebergCompaction":
        """Rewrite the newest snapshot for fast reads, by one commit, or none if there is nothing to do.

        `mode` is `minor` (small files become larger ones; equality deletes become vectors, or positions before version
        3), `major` (also files with many deleted rows are rewritten) or `full` (all files are rewritten); without it
        `full` selects `full` or `minor`. `partitions` restricts it to files that may hold such rows. With
        `order_strategy` `order`, `zorder` or `hilbert` a full compaction sorts by the columns `order_by`. `progress` is
        called after each unit of work with the number of finished units, and of all.

        Concurrent appends and equality deletes do not conflict. If another commit replaced the same files, the
        compaction is planned again. Raises CommitConflictError or CommitFailedError after repeated conflicts, without
        leaving files, CommitStateUnknownError, NotSupportedError for a table without a catalog that takes commits.
        """
        from interbed.iceberg.optimize.compact import optimize_table

        home = self.required_home()
        _check_unknown(bucket, partition_idle_time)
        scope = self.scope(full, mode, partitions, order_strategy, order_by)
        result = optimize_table(home, scope, progress=progress)
        if result.snapshot_id is not None:
            self.metadata = home.load()
        return result

    def plan_compaction(
        self,
        *,
        full: bool = True,
        mode: str | None = None,
        partitions: "Partitions | None" = None,
        bucket: int | None = None,
        partition_idle_time: timedelta | None = None,
        order_strategy: str | None = None,
        order_by: Sequence[str] | str | None = None,
    ) -> "list[OptimizeUnit]":
        """Return the units of work of `compact` for the table as it was loaded, with reasons and costs, the costliest
        first.

        Nothing is changed.
        """
        from interbed.iceberg.optimize.compact import plan_optimization

        _check_unknown(bucket, partition_idle_time)
        plan = plan_optimization(self.metadata, self.scope(full, mode, partitions, order_strategy, order_by))
        return [] if plan is None else list(plan.units)

    def expire_snapshots(
        self,
        *,
        older_than: "datetime | int | str | None" = None,
        retain_last: int | None = None,
        dry_run: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> "IcebergExpiry":
        """Remove old snapshots from the metadata, and delete the files that no newer snapshot, branch or tag needs.

        The defaults are the properties `history.expire.max-snapshot-age-ms` and `history.expire.min-snapshots-to-keep`;
        `older_than` is a datetime or a text, in UTC without a time zone, or milliseconds since the epoch. Raises
        NotSupportedError if `gc.enabled` is false, and as `compact` does.
        """
        from interbed.iceberg.optimize.expire import SnapshotRetention, expire_snapshots

        home = self.required_home()
        if retain_last is not None and retain_last < 1:
            raise InvalidInputError(f"At least one snapshot is retained, not {retain_last}.")
        retention = SnapshotRetention(
            older_than_millis=None if older_than is None else moment_millis(older_than, UTC), retain_last=retain_last
        )
        result = expire_snapshots(home, retention, dry_run=dry_run, clock=clock)
        if not dry_run:
            self.metadata = home.load()
        return result

    def remove_orphan_files(
        self, older_than: "datetime | int | str | None" = None, *, dry_run: bool = False
    ) -> "IcebergOrphans":
        """Delete files in the table's directory that nothing names and that are older than three days, or than the
        given time.

        Raises InvalidInputError for a time in the future, NotSupportedError if `gc.enabled` is false.
        """
        from interbed.iceberg.optimize.expire import remove_orphan_files

        limit = None if older_than is None else moment_millis(older_than, UTC)
        return remove_orphan_files(self.required_home(), limit, dry_run=dry_run)

    def compact_manifests(self) -> int | None:
        """Merge small manifests. Return the id of the new snapshot, None if there is nothing to do.

        `commit.manifest.target-size-bytes` is their target size. Raises as `compact` does.
        """
        from interbed.iceberg.commit.replace import merge_manifests

        home = self.required_home()
        made = merge_manifests(home)
        if made is not None:
            self.metadata = home.load()
        return made

    def required_home(self) -> "TableHome":
        """Return where the table commits. Raises NotSupportedError if that is not known, and for a published table."""
        if self.home is None:
            raise NotSupportedError(
                f"The table '{self.name}' was opened by its metadata file, to which nothing can be committed; open it "
                "by its catalog, or by its directory where it has no catalog."
            )
        if is_published(self.metadata.metadata):
            raise NotSupportedError(
                f"The table '{self.name}' is published of a table in Paimon's format at "
                f"{self.metadata.metadata.location}, whose commits replace its metadata; compact and expire that one."
            )
        return self.home

    def scope(
        self,
        full: bool,
        mode: str | None,
        partitions: "Partitions | None",
        order_strategy: str | None,
        order_by: Sequence[str] | str | None,
    ) -> "OptimizeScope":
        """Return the scope that the arguments of `compact` define; raises as `compact` does."""
        from interbed.iceberg.optimize.compact import OptimizeScope
        from interbed.iceberg.optimize.planner import Mode

        try:
            chosen = Mode(mode.lower()) if mode is not None else Mode.FULL if full else Mode.MINOR
        except ValueError:
            raise InvalidInputError(f"The mode {mode!r} is not known; it is 'minor', 'major' or 'full'.") from None
        order = self._order(order_strategy, order_by)
        if order is not None and chosen is not Mode.FULL:
            raise InvalidInputError("Rows are sorted by a full compaction only.")
        return OptimizeScope(mode=chosen, predicate=self._predicate(partitions), order=order)

    def _order(self, strategy: str | None, order_by: Sequence[str] | str | None) -> "SortOrder | None":
        from interbed.storage.write.sort.key import SortOrder

        return SortOrder.of_columns(readable_fields(self.metadata.schema()), strategy, order_by)

    def _predicate(self, partitions: "Partitions | None") -> Predicate | None:
        if partitions is None:
            return None
        fields = readable_fields(self.metadata.schema())
        if isinstance(partitions, str | Predicate):
            return bound_filter(partitions, fields)
        specs = [partitions] if isinstance(partitions, Mapping) else list(partitions)
        by_name = {field.name: field for field in fields}
        choices: list[Predicate] = []
        for spec in specs:
            parts: list[Predicate] = []
            for name, value in spec.items():
                field = by_name.get(name)
                if field is None:
                    raise InvalidInputError(f"The table '{self.name}' has no column {name!r} that can be filtered by.")
                if isinstance(value, str):
                    value = parse_text(value, field.type)
                parts.append(IsNull(name) if value is None else Comparison(Op.EQ, name, value))
            if not parts:
                return None
            choices.append(reduce(and_, parts))
        return bind(Or(tuple(choices)), fields) if choices else AlwaysFalse()


def _check_unknown(bucket: int | None, partition_idle_time: timedelta | None) -> None:
    if bucket is not None:
        raise InvalidInputError("Iceberg's tables have no buckets to choose from; leave 'bucket' out.")
    if partition_idle_time is not None:
        raise NotSupportedError(
            "Iceberg's metadata do not say when a partition got something new; choose partitions by a filter."
        )
