"""A table whose catalog has row filters or column masks for its reader, or lets it read some columns only
(`query-auth.enabled`).

Its rows are read by scans, which ask the catalog about the columns that they need, and apply what it answers
(`read/guarded_scan.py`), as for lookups by key, and as changes and streams (`views/guarded_changes.py`). All else that
a table offers would go past the policies, and is refused by name: levels, system tables, plans, files, and writes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.table.described import DescribedTable, ScannedRows
from interbed.storage.table.table import Table

if TYPE_CHECKING:
    from interbed.storage.base.predicate.expr import Predicate
    from interbed.storage.base.types.data_type import DataField
    from interbed.storage.meta.file_store import FileStore
    from interbed.storage.meta.options.core import CoreOptions
    from interbed.storage.meta.options.stream import IncrementalScanMode
    from interbed.storage.meta.schema.table_schema import TableSchema
    from interbed.storage.read.guarded_scan import BoundRules, GuardedScan, RowRules
    from interbed.storage.read.point_lookup import Key
    from interbed.storage.views.guarded_changes import GuardedChangeQuery, GuardedChangeRead, GuardedChangeView
    from interbed.storage.views.stream.stream_scan import TableStream

QUERY_AUTH = "query-auth.enabled"

RulesOf = Callable[[str, Sequence[str]], "RowRules"]
"""Function that returns the present rules of a branch for a reader of columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderGuard:
    """A table without its policies, for engines that apply them, and the function that returns them."""

    table: Table
    rules_of: RulesOf


def guard_of(table: object) -> ReaderGuard | None:
    """Return the parts of a table that has policies for its reader; None for any other table.

    The caller has to apply the rules to all that it reads, and to refuse all other uses.
    """
    return ReaderGuard(table=table._table, rules_of=table.rules_of) if isinstance(table, GuardedTable) else None


class RestrictedTable(DescribedTable, ABC):
    """A table that offers some of the uses of `Table`; the others are refused by name."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not (name == "store" or hasattr(Table, name)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise self.refused(name)

    @abstractmethod
    def refused(self, what: str) -> NotSupportedError:
        """Return the error for a use that the table does not offer."""
        ...


class GuardedTable(RestrictedTable, ScannedRows):
    """Rows and values of a table that policies show to the reader. `rules_of` is asked for each scan."""

    def __init__(self, table: Table, rules_of: RulesOf) -> None:
        # Without the option, by which tables are not read unless this class reads them. A copy of the table must not
        # have it, either.
        store = table.store.with_options({QUERY_AUTH: None}).with_options({QUERY_AUTH: "false"})
        self._table = Table(table.name, store)
        self.rules_of = rules_of

    def __repr__(self) -> str:
        return f"GuardedTable({self.name!r}, {self.location!r})"

    def refused(self, what: str) -> NotSupportedError:
        """Return the error for a way to read or change the table that would go past its policies."""
        return NotSupportedError(
            f"The table '{self.name}' has row filters or column masks for you, and {what!r} would not keep to them, or "
            "you may read some of its columns only. Read it by scan, get, changes or stream, or have its owner exempt "
            "you or grant you SELECT on the whole table."
        )

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The full name of the table."""
        return self._table.name

    @property
    def schema(self) -> "TableSchema":
        """The schema, with its options."""
        return self._table.schema

    @property
    def options(self) -> "CoreOptions":
        """The options of the table, typed."""
        return self._table.options

    @property
    def location(self) -> str:
        """The directory of the table."""
        return self._table.location

    def copy(self, dynamic_options: Mapping[str, object]) -> "GuardedTable":
        """Return the same table with options on top of its own, under the same policies; see Table.copy."""
        options = {key: value for key, value in dynamic_options.items() if key != QUERY_AUTH}
        return GuardedTable(self._table.copy(options), self.rules_of)

    def branch(self, name: str) -> "GuardedTable":
        """Return a branch of this table, under the policies of the table."""
        return GuardedTable(self._table.branch(name), self.rules_of)

    # -- read ------------------------------------------------------------------------------------------------------

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: "str | Predicate | None" = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
        *,
        threads: int | None = None,
    ) -> "GuardedScan":
        """Query the table as Table.scan does; a condition on a masked column sees the mask.

        Raises NotSupportedError for a version of the table that the policies do not fit, InterbedError naming the
        columns of the query that the reader may not read.
        """
        from interbed.storage.base.predicate.conditions import bound_filter
        from interbed.storage.base.predicate.expr import columns_of
        from interbed.storage.read.guarded_scan import GuardedScan
        from interbed.storage.scan.starting_point import at_snapshot

        store = self._table.store
        if snapshot_id is not None:
            store = at_snapshot(store, snapshot_id)
        names = store.schema.names if columns is None else columns
        check_asked_once(names)
        unknown = [each for each in names if each not in store.schema.by_name]
        if unknown:
            raise InvalidInputError(
                f"The table '{self.name}' has no column {unknown[0]!r}; it has {', '.join(store.schema.names)}."
            )
        predicate = None if filter is None else bound_filter(filter, store.schema.fields)
        asked = {*names, *(() if predicate is None else columns_of(predicate))}
        rules = self._bound_rules(store, asked)
        return GuardedScan(store, tuple(names), predicate, limit, snapshot_id, threads, rules=rules)

    def count(self) -> int:
        """Return the number of rows of the newest snapshot that the row filters show; it needs no column."""
        return self.scan([]).count()

    def get(self, key: "Key", columns: Sequence[str] | None = None) -> dict[str, object] | None:
        """Return the row of a primary key as Table.get does; None also for one that is not shown. Of a masked key
        column the value is the mask.
        """
        from interbed.storage.base.row.python_values import python_rows

        rows = python_rows(self.scan(columns, key_condition(self.name, self.primary_keys, key)).to_arrow())
        return rows[0] if rows else None

    # -- changes ---------------------------------------------------------------------------------------------------

    def changes(
        self,
        from_snapshot: int | None = None,
        to_snapshot: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: "str | Predicate | None" = None,  # noqa: A002 - the field's word for it
        mode: str = "auto",
    ) -> "GuardedChangeQuery":
        """Query the changes of snapshots as Table.changes does; a condition on a masked column sees the mask.

        An update that moves a row out of the row filter is a deletion, one that moves it into the filter an insertion.
        Raises NotSupportedError, when it is read, for a table with a primary key whose changes lack the rows before
        updates.
        """
        from interbed.storage.views.guarded_changes import GuardedChangeQuery

        source = self._table.changes(from_snapshot, to_snapshot, mode=mode)
        return GuardedChangeQuery(source, self._change_read(source.store, columns, filter, source.mode))

    def stream(
        self,
        from_snapshot: int | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: "str | Predicate | None" = None,  # noqa: A002
        poll_seconds: float | None = None,
        idle_seconds: float | None = None,
        max_splits: int | None = None,
        max_files: int | None = None,
    ) -> "TableStream":
        """Stream the changes of the table as Table.stream does, without its log. Rows are those of `changes`; the
        policies are asked for with each part of the stream.
        """
        from interbed.storage.meta.options.stream import IncrementalScanMode
        from interbed.storage.views.stream.stream_scan import StreamLimits, TableStream, streamed

        store = streamed(self._table.store)
        scan = self._table.new_stream_scan()
        scan.restore(from_snapshot)
        return TableStream(
            scan=scan,
            read=self._change_read(store, columns, filter, IncrementalScanMode.AUTO),
            limits=StreamLimits(splits=max_splits, files=max_files),
            poll_seconds=store.options.discovery_interval_millis / 1000 if poll_seconds is None else poll_seconds,
            idle_seconds=idle_seconds,
        )

    def change_view(self, kind: str) -> "GuardedChangeView":
        """Return the audit log or the binlog of the table (`audit_log`, `binlog`), under the policies of the table.

        Raises NotSupportedError naming another system table: it would show hidden rows, or figures of them.
        """
        from interbed.storage.views.changes import AUDIT_LOG, BINLOG, ChangeView
        from interbed.storage.views.guarded_changes import GuardedChangeView

        if kind not in (AUDIT_LOG, BINLOG):
            raise self.refused(f"${kind}")
        return GuardedChangeView(ChangeView.of(self.name, self._table.store, kind), self._bound_rules)

    def _change_read(
        self,
        store: "FileStore",
        columns: Sequence[str] | None,
        condition: "str | Predicate | None",
        mode: "IncrementalScanMode",
    ) -> "GuardedChangeRead":
        from interbed.storage.base.predicate.conditions import bound_filter
        from interbed.storage.base.predicate.expr import columns_of
        from interbed.storage.views.guarded_changes import GuardedChangeRead

        predicate = None if condition is None else bound_filter(condition, store.schema.fields)
        asked = {*(store.schema.names if columns is None else columns)}
        asked.update(() if predicate is None else columns_of(predicate))
        return GuardedChangeRead(store, columns, predicate, lambda: self._bound_rules(store, asked), mode=mode)

    def _bound_rules(self, store: "FileStore", names: Iterable[str]) -> "BoundRules":
        newest = store.schemas.latest()
        present = (store.schema if newest is None else newest).fields
        rules = self.rules_of(store.paths.branch, present_names(names, store.schema.fields, present))
        return rules.bound(store.schema.fields, present)


def key_condition(name: str, names: Sequence[str], key: "Key") -> "Predicate":
    """Return the condition on the primary key of a table, whose columns are `names`. InvalidInputError,
    NotSupportedError as by Table.get.
    """
    from interbed.storage.base.predicate.expr import Comparison, Op, and_

    if not names:
        raise NotSupportedError(f"The table '{name}' has no primary key to look rows up by.")
    if isinstance(key, Mapping):
        values = dict(key)
    elif isinstance(key, tuple):
        values = dict(zip(names, key, strict=False)) if len(key) == len(names) else {}
    else:
        values = {names[0]: key} if len(names) == 1 else {}
    if sorted(values) != sorted(names) or None in values.values():
        raise InvalidInputError(f"The key of '{name}' has values of {', '.join(names)}, not {key!r}.")
    return and_(*(Comparison(Op.EQ, each, values[each]) for each in names))


def present_names(names: Iterable[str], fields: Sequence["DataField"], present: Sequence["DataField"]) -> list[str]:
    """Return the present names of the columns of a version of a table, in its order; that of a dropped one stays."""
    wanted = set(names)
    now = {field.id: field.name for field in present}
    return [now.get(field.id, field.name) for field in fields if field.name in wanted]
