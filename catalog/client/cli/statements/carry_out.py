"""Carrying out statements that change rows: what they read is of one snapshot, and their changes are one commit.

When another writer changes rows meanwhile, the statement is worked out again, as in Spark.
"""

import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from interbed.catalog.client.cli.forms.duckdb_tables import CatalogTables, quoted
from interbed.catalog.client.cli.near_names import check_no_system_table, suggesting
from interbed.catalog.client.cli.statements.parse import (
    DeleteStatement,
    InsertStatement,
    LiteralRows,
    MergeStatement,
    RowStatement,
    UpdateStatement,
)
from interbed.catalog.client.cli.statements.row_changes import (
    ROW,
    MergeStatementPlan,
    NewValues,
    check_keys_stay,
    replaced,
)
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.incoming import duckdb_rows
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.types.column_names import check_apart_without_case
from interbed.storage.commit.retry import RetryPolicy
from interbed.storage.table.table import Table
from interbed.storage.upkeep.changed_rows import SnapshotRows
from interbed.storage.write.kept_updates import UpdateCheck
from interbed.storage.write.row_statements import DELETE, refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """The rows that a statement changed, and the snapshot that it made, if it made one."""

    table: str
    statement: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    snapshot: int | None = None

    def __str__(self) -> str:
        where = "no new snapshot" if self.snapshot is None else f"snapshot {self.snapshot}"
        counts = {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}
        if self.statement != "MERGE":
            word = {"INSERT": "inserted", "UPDATE": "updated", "DELETE": "deleted"}[self.statement]
            counts = {word: counts[word]}
        parts = [f"{count} {'row' if count == 1 else 'rows'} {word}" for word, count in counts.items()]
        return f"{self.table}: {', '.join(parts)}: {where}"

    def to_json(self) -> dict[str, object]:
        """The result as a JSON object."""
        return {
            "table": self.table,
            "statement": self.statement,
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "snapshot": self.snapshot,
        }


def carry_out(tables: CatalogTables, statement: RowStatement) -> StatementResult:
    """Carry the statement out; raises what `append` and CatalogTables.define raise, FilterError, CommitError."""
    name = statement.target.name
    with suggesting(tables.catalog, name):
        table = tables.catalog.get_table(name)
    check_no_system_table(name, table)
    check_apart_without_case(table.arrow_schema, f"the table '{name}'")
    if isinstance(statement, InsertStatement):
        return _Insert(tables, table, statement).carry_out()
    _check_takes(table, name, statement)
    work: Callable[[SnapshotRows], StatementResult]
    match statement:
        case DeleteStatement():
            predicate = _predicate(table, statement.condition)
            work = lambda rows: _delete(rows, name, predicate)  # noqa: E731
        case UpdateStatement():
            update = _Update(tables, table, statement)
            work = update.carry_out
        case MergeStatement():
            tables.define(f"SELECT * FROM {statement.source}")
            merge = MergeStatementPlan(tables.connection, table, statement)
            work = lambda rows: _merged(merge, rows)  # noqa: E731
    # Each try reads the newest snapshot.
    policy = RetryPolicy.of(table.options)
    return policy.redo(lambda: work(SnapshotRows(table.store, str(uuid.uuid4()))))


def _check_takes(table: Table, name: str, statement: DeleteStatement | UpdateStatement | MergeStatement) -> None:
    """Raise NotSupportedError for a statement that a table with a primary key can't take."""
    if not table.schema.has_primary_key:
        return
    words = [type(statement).__name__.removesuffix("Statement").upper()]
    if isinstance(statement, MergeStatement) and any(clause.action == DELETE for clause in statement.clauses):
        words.append(DELETE)
    refused = refusals(name, table.schema)
    for word in words:
        if word in refused:
            raise NotSupportedError(refused[word])


class _Insert:
    """An INSERT into one table: rows of queries, and literals."""

    def __init__(self, tables: CatalogTables, table: Table, statement: InsertStatement) -> None:
        self._tables = tables
        self._connection = tables.connection
        self._table = table
        self._statement = statement
        self._values = NewValues(table, statement.target.name)
        self._names: list[str] | None = None
        if not statement.by_name:
            self._names = [self._values.column(name) for name in statement.columns or self._values.names]
        self._rows = 0

    def carry_out(self) -> StatementResult:
        """See carry_out."""
        snapshot = None
        with closing(self._batches()) as found:
            first = next(found, None)
            if first is not None:
                reader = pa.RecordBatchReader.from_batches(first.schema, chain((first,), found))
                try:
                    snapshot = self._table.append(reader)
                finally:
                    reader.close()
        name = self._statement.target.name
        return StatementResult(table=name, statement="INSERT", inserted=self._rows, snapshot=snapshot)

    def _batches(self) -> Generator[pa.RecordBatch, None, None]:
        several = len(self._statement.sources) > 1
        for source in self._statement.sources:
            for batch in self._of_literals(source) if isinstance(source, LiteralRows) else self._of_query(source):
                yield self._values.same(batch, self._rows) if several else batch
                self._rows += batch.num_rows

    def _of_literals(self, source: LiteralRows) -> Iterator[pa.RecordBatch]:
        [names] = {tuple(self._checked([None] * len(row))) for row in source.rows}
        yield self._values.literals(source, names)

    def _of_query(self, query: str) -> Iterator[pa.RecordBatch]:
        self._tables.define(query)
        relation = self._connection.sql(query)
        names = self._checked(relation.columns)
        with duckdb_rows(relation) as reader:
            for batch in reader:
                yield self._values.batch(batch, names)

    def _checked(self, found: Sequence[str | None]) -> list[str]:
        """The columns that values are for; `found` are their names in the query."""
        names = self._names
        if names is None:
            names = [self._values.column(name or "") for name in found]
        if len(names) != len(found):
            raise InvalidInputError(
                f"The INSERT has {len(found)} values for {len(names)} columns: {', '.join(names)}. "
                "Name the columns that the values are for: INSERT INTO t (a, b) VALUES (1, 2)."
            )
        if len(set(names)) < len(names):
            raise InvalidInputError(f"The INSERT names a column twice: {', '.join(names)}.")
        return names


def _predicate(table: Table, condition: str | None) -> Predicate | None:
    return None if condition is None else bound_filter(condition, table.schema.fields)


def _delete(rows: SnapshotRows, name: str, predicate: Predicate | None) -> StatementResult:
    count = 0

    def deleted() -> Iterator[pa.RecordBatch]:
        nonlocal count
        for batch in rows.batches(predicate):
            count += batch.num_rows
            yield batch

    snapshot = rows.commit(deleted=deleted())
    return StatementResult(table=name, statement="DELETE", deleted=count, snapshot=snapshot)


def _merged(merge: MergeStatementPlan, rows: SnapshotRows) -> StatementResult:
    changes = merge.changes(rows)
    snapshot = rows.commit(deleted=changes.deleted, updated=changes.updated, inserted=changes.inserted)
    return StatementResult(
        table=merge.name,
        statement="MERGE",
        inserted=merge.inserted(changes),
        updated=sum(batch.num_rows for batch in changes.updated),
        deleted=sum(batch.num_rows for batch in changes.deleted),
        snapshot=snapshot,
    )


class _Update:
    """An UPDATE of one table: the rows of its condition, with new values that DuckDB computes block by block."""

    def __init__(self, tables: CatalogTables, table: Table, statement: UpdateStatement) -> None:
        self._tables = tables
        self._connection = tables.connection
        self._name = statement.target.name
        self._alias = statement.target.alias
        self._values = NewValues(table, self._name)
        self._set = self._values.columns(statement.values)
        self._check = UpdateCheck(table.schema, f"UPDATE of '{self._name}'")
        check_keys_stay(table, self._set, "UPDATE")
        self._predicate = _predicate(table, statement.condition)

    def carry_out(self, rows: SnapshotRows) -> StatementResult:
        """See carry_out."""
        # All blocks of rows see the same rows of the tables that subqueries name.
        self._tables.define(f"SELECT {', '.join(f'({value})' for value in self._set.values())}", hold=True)
        count = 0

        def updated() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in rows.batches(self._predicate):
                count += batch.num_rows
                yield self._updated(batch)

        snapshot = rows.commit(updated=updated())
        return StatementResult(table=self._name, statement="UPDATE", updated=count, snapshot=snapshot)

    def _updated(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbered = pa.Table.from_batches([batch]).append_column(ROW, pa.array(range(batch.num_rows), pa.int64()))
        self._connection.register("interbed_rows", numbered)
        expressions = ", ".join(f"({value}) AS {quoted(name)}" for name, value in self._set.items())
        query = f"SELECT {ROW}, {expressions} FROM interbed_rows AS {quoted(self._alias)}"
        found = duckdb_rows(self._connection.sql(query)).read_all().combine_chunks().sort_by(ROW)
        made = replaced(batch, found, list(self._set), self._values)
        self._check.check(batch, made)
        return made
