"""A table whose catalog has row filters or column masks for its reader (`query-auth.enabled`).

Its rows are read by scans alone, which apply them (`read/guarded_scan.py`), as for lookups by key. All else that a
table offers would go past the policies, and is refused by name: changes and streams, levels, system tables, plans,
files, and writes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.table.described import DescribedTable, ScannedRows
from interbed.storage.table.table import Table

if TYPE_CHECKING:
    from interbed.storage.base.predicate.expr import Predicate
    from interbed.storage.meta.options.core import CoreOptions
    from interbed.storage.meta.schema.table_schema import TableSchema
    from interbed.storage.read.guarded_scan import GuardedScan, RowRules
    from interbed.storage.read.point_lookup import Key

QUERY_AUTH = "query-auth.enabled"

RulesOf = Callable[[str], "RowRules"]
"""Function that returns the present rules of a branch for the reader."""


class GuardedTable(DescribedTable, ScannedRows):
    """Rows and values of a table that policies show to the reader. `rules_of` is asked for each scan."""

    def __init__(self, table: Table, rules_of: RulesOf) -> None:
        # Without the option, by which tables are not read unless this class reads them.
        self._table = Table(table.name, table.store.with_options({QUERY_AUTH: "false"}))
        self._rules_of = rules_of

    def __repr__(self) -> str:
        return f"GuardedTable({self.name!r}, {self.location!r})"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not (name == "store" or hasattr(Table, name)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise self.refused(name)

    def refused(self, what: str) -> NotSupportedError:
        """Return the error for a way to read or change the table that would go past its policies."""
        return NotSupportedError(
            f"The table '{self.name}' has row filters or column masks for you, and {what!r} would not keep to them. "
            "Read it by scan, get or to_arrow, or have its owner exempt you."
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
        return GuardedTable(self._table.copy(options), self._rules_of)

    def branch(self, name: str) -> "GuardedTable":
        """Return a branch of this table, under the policies of the table."""
        return GuardedTable(self._table.branch(name), self._rules_of)

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

        Raises NotSupportedError for a version of the table that the policies do not fit.
        """
        from interbed.storage.base.predicate.conditions import bound_filter
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
        newest = store.schemas.latest()
        rules = self._rules_of(store.paths.branch).bound(
            store.schema.fields, (store.schema if newest is None else newest).fields
        )
        predicate = None if filter is None else bound_filter(filter, store.schema.fields)
        return GuardedScan(store, tuple(names), predicate, limit, snapshot_id, threads, rules=rules)

    def get(self, key: "Key", columns: Sequence[str] | None = None) -> dict[str, object] | None:
        """Return the row of a primary key as Table.get does; None also for one that is not shown. Of a masked key
        column the value is the mask.
        """
        from interbed.storage.base.row.python_values import python_rows

        rows = python_rows(self.scan(columns, self._with_key(key)).to_arrow())
        return rows[0] if rows else None

    def _with_key(self, key: "Key") -> "Predicate":
        """Return the condition on a primary key. InvalidInputError, NotSupportedError as by Table.get."""
        from interbed.storage.base.predicate.expr import Comparison, Op, and_

        names = self.primary_keys
        if not names:
            raise NotSupportedError(f"The table '{self.name}' has no primary key to look rows up by.")
        if isinstance(key, Mapping):
            values = dict(key)
        elif isinstance(key, tuple):
            values = dict(zip(names, key, strict=False)) if len(key) == len(names) else {}
        else:
            values = {names[0]: key} if len(names) == 1 else {}
        if sorted(values) != sorted(names) or None in values.values():
            raise InvalidInputError(f"The key of '{self.name}' has values of {', '.join(names)}, not {key!r}.")
        return and_(*(Comparison(Op.EQ, name, values[name]) for name in names))
