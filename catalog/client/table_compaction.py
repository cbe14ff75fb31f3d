"""Compaction of tables of a catalog by name: selection of the tables, and a report about each.

Names and patterns follow Paimon's procedures `compact` and `compact_database`: patterns are regular expressions that
match whole names, those of tables with their database. The failure of a table does not prevent the compaction of the
others.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from interbed.catalog.client.api import Catalog, parse_table_name
from interbed.catalog.client.table_parts import as_object_table
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.scan.partition_filter import Partitions
from interbed.storage.table.table import Table
from interbed.storage.write.commit_message import CompactionResult, PlannedCompaction

if TYPE_CHECKING:
    from interbed.iceberg.optimize.compact import IcebergCompaction
    from interbed.iceberg.optimize.planner import OptimizeUnit

Progress = Callable[[str, int, int], None]
"""Called with the name of the table, the number of finished buckets, and the number of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePatterns:
    """Regular expressions for whole names; those of tables match `database.table`. Raises InvalidInputError."""

    including_databases: str = ".*"
    including_tables: str = ".*"
    excluding_tables: str | None = None

    def __post_init__(self) -> None:
        for pattern in (self.including_databases, self.including_tables, self.excluding_tables or ""):
            try:
                re.compile(pattern)
            except re.error as error:
                raise InvalidInputError(f"{pattern!r} is no regular expression: {error}.") from error

    def has_database(self, name: str) -> bool:
        """Return whether tables of the database may be selected."""
        return re.fullmatch(self.including_databases, name) is not None

    def has_table(self, name: str) -> bool:
        """Return whether the table, named with its database, is selected."""
        if re.fullmatch(self.including_tables, name) is None:
            return False
        return self.excluding_tables is None or re.fullmatch(self.excluding_tables, name) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionScope:
    """The scope of a compaction: full or only what is due, some partitions, a bucket, or idle partitions.

    It also has the order to sort by, and options of the tables for this compaction.
    """

    full: bool = True
    partitions: Partitions | None = None
    bucket: int | None = None
    partition_idle_time: timedelta | None = None
    order_strategy: str | None = None
    order_by: Sequence[str] | str | None = None
    major: bool = False
    """For Iceberg tables: compact what is due, and files with many deleted rows."""
    table_options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutcome:
    """The outcome for one table: a result, or the plans of a dry run, or an error."""

    table: str
    result: "CompactionResult | IcebergCompaction | None" = None
    plans: "tuple[PlannedCompaction | OptimizeUnit, ...] | None" = None
    error: str | None = None

    def __str__(self) -> str:
        if self.plans is not None:
            return "\n  ".join([f"{self.table}:{'' if self.plans else ' nothing to compact'}", *map(str, self.plans)])
        return f"{self.table}: {self.result if self.error is None else f'FAILED: {self.error}'}"

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        if self.error is not None:
            return {"table": self.table, "error": self.error}
        if self.plans is not None:
            return {"table": self.table, "plans": [plan.to_json() for plan in self.plans]}
        return {"table": self.table, "result": None if self.result is None else self.result.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """The outcomes for all tables, in the order of their compaction."""

    outcomes: tuple[TableOutcome, ...]

    @property
    def failures(self) -> int:
        """The number of tables that were not compacted because of an error."""
        return sum(outcome.error is not None for outcome in self.outcomes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.outcomes))

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {"failures": self.failures, "tables": [outcome.to_json() for outcome in self.outcomes]}


def tables_meant(catalog: Catalog, names: Sequence[str], patterns: TablePatterns) -> list[str]:
    """Return the named tables, and those of the named databases (without names: of all) that match the patterns.

    A table that is named need not match. Raises DatabaseNotFoundError for a missing database, and InvalidInputError
    when no table is left.
    """
    found: dict[str, None] = {}
    for name in names or [d for d in catalog.list_databases() if patterns.has_database(d)]:
        if "." in name:
            found[str(parse_table_name(name))] = None
            continue
        of_files = set(catalog.list_format_tables(name))
        tables = (f"{name}.{table}" for table in catalog.list_tables(name) if table not in of_files)
        found.update((table, None) for table in tables if patterns.has_table(table))
    if not found:
        raise InvalidInputError("There are no tables to compact: no table matches the names and patterns given.")
    return list(found)


def compact_tables(
    catalog: Catalog,
    tables: Sequence[str],
    scope: CompactionScope,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> CompactionReport:
    """Compact the tables one after the other, or only plan it; the report contains the errors."""
    outcomes = []
    for name in tables:
        try:
            outcomes.append(compact_one_table(catalog, name, scope, dry_run=dry_run, progress=progress))
        except InterbedError as error:
            outcomes.append(TableOutcome(table=name, error=str(error)))
    return CompactionReport(outcomes=tuple(outcomes))


def compact_one_table(
    catalog: Catalog, name: str, scope: CompactionScope, *, dry_run: bool = False, progress: Progress | None = None
) -> TableOutcome:
    """Compact a table, or only plan it; raise the errors of Table.compact and IcebergTable.compact."""
    return compact_opened(catalog.get_table(name), name, scope, dry_run=dry_run, progress=progress)


def compact_opened(
    table: Any, name: str, scope: CompactionScope, *, dry_run: bool = False, progress: Progress | None = None
) -> TableOutcome:
    """Compact an open table, a Table or an IcebergTable, as compact_one_table does; an object table has nothing to
    compact.
    """
    how: dict[str, Any] = {}
    if as_object_table(table) is not None:
        return TableOutcome(table=name, plans=())
    if not isinstance(table, Table):
        if scope.table_options:
            raise NotSupportedError(f"'{name}' is an Iceberg table, which has no options for one compaction alone.")
        how["mode"] = "full" if scope.full else "major" if scope.major else "minor"
    elif scope.major:
        raise InvalidInputError(f"A major compaction is one of Iceberg's tables; '{name}' takes a minor or a full one.")
    if scope.table_options:
        table = table.copy(scope.table_options)
    if dry_run:
        planner = table.maintenance if isinstance(table, Table) else table
        plans = planner.plan_compaction(
            **how,
            full=scope.full,
            partitions=scope.partitions,
            bucket=scope.bucket,
            partition_idle_time=scope.partition_idle_time,
            order_strategy=scope.order_strategy,
            order_by=scope.order_by,
        )
        return TableOutcome(table=name, plans=tuple(plans))

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(name, done, total)

    result = table.compact(
        **how,
        full=scope.full,
        partitions=scope.partitions,
        bucket=scope.bucket,
        partition_idle_time=scope.partition_idle_time,
        order_strategy=scope.order_strategy,
        order_by=scope.order_by,
        progress=report,
    )
    return TableOutcome(table=name, result=result)
