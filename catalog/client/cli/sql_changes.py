"""Execution of statements of `interbed sql` that change rows: INSERT, UPDATE, DELETE and MERGE INTO.

A statement reads one snapshot, and its changes are one commit. When another writer changes rows at the same time, the
statement is executed again, as in Spark.

DuckDB computes new values. They are converted as `append` converts them: exactly, or with an error. A text for a column
of another type is read like a field of a CSV file, so that `'2026-01-31'` is a DATE. For a MERGE INTO DuckDB joins the
rows of a snapshot with those of the source, clause by clause.
"""

import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.catalog.client.cli.forms.duckdb_sources import CatalogTables, quoted
from interbed.catalog.client.cli.group import check_no_system_table, suggesting
from interbed.catalog.client.cli.sql_statements import (
    DeleteStatement,
    InsertStatement,
    LiteralRows,
    MergeClause,
    MergeStatement,
    NewValues,
    RowStatement,
    UpdateStatement,
    named_columns,
    replaced,
    value_kind,
)
from interbed.storage.base.arrow_values import cast_exactly
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.incoming import duckdb_rows
from interbed.storage.base.predicate.conditions import bound_filter, char_lengths
from interbed.storage.base.predicate.expr import Predicate, columns_of
from interbed.storage.base.types.column_names import check_apart_without_case
from interbed.storage.base.types.data_type import DataField
from interbed.storage.commit.contention import RetryPolicy
from interbed.storage.meta.schema.system_fields import TRACKING_NAMES, readable_fields
from interbed.storage.read.columns import FILE_PATH, ROW_INDEX
from interbed.storage.table.table import Table
from interbed.storage.upkeep.changed_rows import SnapshotRows
from interbed.storage.write.row_statements import DELETE, UpdateCheck, refusals

ROW = "__interbed_row"
"""The column that numbers rows for DuckDB."""

_TARGET, _SOURCE = "interbed_target", "interbed_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """The rows that a statement changed, and the snapshot that it made, if any."""

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
        """Return the result as a JSON object."""
        return {
            "table": self.table,
            "statement": self.statement,
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "snapshot": self.snapshot,
        }


def execute_statement(tables: CatalogTables, statement: RowStatement) -> StatementResult:
    """Execute the statement; raise the errors of `append` and CatalogTables.define, FilterError, CommitError."""
    name = statement.target.name
    with suggesting(tables.catalog, name):
        table = tables.catalog.get_table(name)
    check_no_system_table(name, table)
    check_apart_without_case(table.arrow_schema, f"the table '{name}'")
    if isinstance(statement, InsertStatement):
        return _InsertRun(tables, table, statement).execute()
    _check_takes(table, name, statement)
    work: Callable[[SnapshotRows], StatementResult]
    match statement:
        case DeleteStatement():
            predicate = _predicate(table, statement.condition)
            work = lambda rows: _delete(rows, name, predicate)  # noqa: E731
        case UpdateStatement():
            update = _Update(tables, table, statement)
            work = update.execute
        case MergeStatement():
            tables.define(f"SELECT * FROM {statement.source}")
            merge = MergeStatementPlan(tables.connection, table, statement)
            work = lambda rows: _merged(merge, rows)  # noqa: E731
    # Each retry reads the newest snapshot.
    policy = RetryPolicy.of(table.options)
    return policy.redo(lambda: work(SnapshotRows(table.store, str(uuid.uuid4()))))


def _check_takes(table: Table, name: str, statement: DeleteStatement | UpdateStatement | MergeStatement) -> None:
    """Raise NotSupportedError for a statement that the table does not support."""
    if not table.schema.has_primary_key and not table.options.data_evolution_enabled:
        return
    words = [type(statement).__name__.removesuffix("Statement").upper()]
    if isinstance(statement, MergeStatement) and any(clause.action == DELETE for clause in statement.clauses):
        words.append(DELETE)
    refused = refusals(name, table.schema)
    for word in words:
        if word in refused:
            raise NotSupportedError(refused[word])


def check_keys_stay(table: Table, names: Iterable[str], statement: str) -> None:
    """Raise NotSupportedError when a statement sets a column of the primary key."""
    for name in names:
        if name in table.primary_keys:
            raise NotSupportedError(
                f"{statement} can't set '{name}', a column of the primary key of '{table.name}': the row would become "
                "another one. DELETE the row, and INSERT the new one."
            )


class _InsertRun:
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

    def execute(self) -> StatementResult:
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
        """Return the columns of the values; `found` are their names in the query."""
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
    # Blanks at the end of a CHAR count in every statement, because they do in DuckDB.
    return None if condition is None else bound_filter(condition, readable_fields(table.schema), blanks_count=True)


def _delete(rows: SnapshotRows, name: str, predicate: Predicate | None) -> StatementResult:
    count = 0

    def deleted() -> Iterator[pa.RecordBatch]:
        nonlocal count
        for batch in rows.batches(predicate):
            count += batch.num_rows
            yield batch

    snapshot = rows.commit(deleted=deleted())
    return StatementResult(table=name, statement="DELETE", deleted=count, snapshot=snapshot)


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
        if any(value_kind(value) == "window" for value in self._set.values()):
            raise NotSupportedError("UPDATE takes no window function: values are computed for one block of rows each.")
        self._predicate = _predicate(table, statement.condition)
        # The columns that are read; None for all.
        self._columns: list[str] | None = None
        self._needed: set[str] | None = None
        if table.options.data_evolution_enabled:
            self._needed = named_columns(self._set.values(), [*self._values.names, *TRACKING_NAMES])
        if self._needed is not None:
            self._columns = [n for n in self._values.names if n in self._needed or n in self._set]
            self._needed |= set() if self._predicate is None else columns_of(self._predicate)

    def execute(self, rows: SnapshotRows) -> StatementResult:
        # All blocks of rows see the same rows of the tables that subqueries name.
        self._tables.define(f"SELECT {', '.join(f'({value})' for value in self._set.values())}", hold=True)
        count = 0

        def updated() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in rows.batches(self._predicate, self._columns):
                count += batch.num_rows
                yield self._updated(batch)

        snapshot = rows.commit(updated=updated(), assigned=list(self._set), columns=self._needed)
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


@dataclass(slots=True)
class MergeChanges:
    """Deleted rows, rows with new values, and new rows of a MERGE."""

    deleted: list[pa.RecordBatch] = field(default_factory=list)
    updated: list[pa.RecordBatch] = field(default_factory=list)
    inserted: list[pa.RecordBatch] = field(default_factory=list)
    assigned: list[str] | None = None
    """The columns of updated rows that are written, in a table that writes them alone."""


class MergeStatementPlan:
    """A MERGE with the columns of its table; the source is read once for each try."""

    def __init__(self, connection: Any, table: Table, statement: MergeStatement) -> None:
        self.name = statement.target.name
        self._connection = connection
        self._statement = statement
        self._table = table
        self._values = NewValues(table, self.name)
        self._check = UpdateCheck(table.schema, f"MERGE of '{self.name}'", nulls_keep=True)
        self._target = f"{_TARGET} AS {quoted(statement.target.alias)}"
        self._source = f"{_SOURCE} AS {quoted(statement.source_alias)}"
        for clause in statement.clauses:
            if clause.action == "UPDATE" and clause.values is not None:
                check_keys_stay(table, self._values.columns(clause.values), "MERGE")
            if (clause.action == "INSERT") == (clause.matched or clause.by_source):
                raise InvalidInputError("A MERGE inserts WHEN NOT MATCHED, and updates or deletes otherwise.")

    def changes(self, rows: SnapshotRows) -> MergeChanges:
        """Return the changes of the rows of a snapshot, which are held in memory.

        Raises InvalidInputError if a row of the table matches several rows of the source.
        """
        target = pa.Table.from_batches(rows.batches(), schema=rows.arrow_schema)
        self._connection.register(_TARGET, target.append_column(ROW, pa.array(range(target.num_rows), pa.int64())))
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {_SOURCE} AS SELECT * FROM {self._statement.source}")
        found = MergeChanges()
        earlier: dict[tuple[bool, bool], list[str]] = {}
        changed: list[Any] = []
        for clause in self._statement.clauses:
            before = earlier.setdefault((clause.matched, clause.by_source), [])
            condition = f"coalesce(({clause.condition or 'true'}), false)"
            where = " AND ".join([condition, *(f"NOT {each}" for each in before)])
            before.append(condition)
            if clause.action == "INSERT":
                found.inserted += self._inserted(clause, where)
                continue
            expressions = {} if clause.action == "DELETE" else self._assigned(clause)
            result = self._rows_of(clause, expressions, where)
            if not result.num_rows:
                continue
            changed.append(result.column(ROW).combine_chunks())
            [batch] = target.take(result.column(ROW)).combine_chunks().to_batches()
            if clause.action == "DELETE":
                found.deleted.append(batch)
            else:
                self._check_keys(batch, result)
                others = [name for name in expressions if name not in self._table.primary_keys]
                made = replaced(batch, result, others, self._values)
                self._check.check(batch, made)
                found.updated.append(made)
        if rows.store.options.data_evolution_enabled:
            self._order(found)
        self._check_once(changed, target)
        self._check_distinct(found)
        self._check_blanks(found.inserted, target)
        return found

    def _order(self, found: MergeChanges) -> None:
        """Put updated rows in the order in which their columns are written."""
        clauses = [clause for clause in self._statement.clauses if clause.action == "UPDATE"]
        assigned = {name for clause in clauses for name in self._assigned(clause)}
        found.assigned = [name for name in self._values.names if name in assigned]
        located = [FILE_PATH, ROW_INDEX]
        parts = [
            pa.RecordBatch.from_arrays(
                [*self._values.same(batch.select(found.assigned), 0).columns, *batch.select(located).columns],
                names=[*found.assigned, *located],
            )
            for batch in found.updated
        ]
        if parts:
            rows = pa.Table.from_batches(parts).sort_by([(name, "ascending") for name in located])
            found.updated = rows.combine_chunks().to_batches()

    def _rows_of(self, clause: MergeClause, expressions: dict[str, str], where: str) -> Any:
        target, source, on = self._target, self._source, self._statement.on
        join = f"{target} ANTI JOIN {source}" if clause.by_source else f"{target} JOIN {source}"
        row = f"{quoted(self._statement.target.alias)}.{ROW}"
        columns = ", ".join([row, *(f"({value}) AS {quoted(name)}" for name, value in expressions.items())])
        return duckdb_rows(self._connection.sql(f"SELECT {columns} FROM {join} ON ({on}) WHERE {where}")).read_all()

    def _inserted(self, clause: MergeClause, where: str) -> list[pa.RecordBatch]:
        values = self._assigned(clause)
        columns = ", ".join(f"({value}) AS {quoted(name)}" for name, value in values.items())
        found = duckdb_rows(
            self._connection.sql(
                f"SELECT {columns} FROM {self._source} ANTI JOIN {self._target} ON ({self._statement.on}) WHERE {where}"
            )
        ).read_all()
        return [self._values.batch(batch, list(values)) for batch in found.to_batches()]

    def _assigned(self, clause: MergeClause) -> dict[str, str]:
        return self._of_source() if clause.values is None else self._values.columns(clause.values)

    def _of_source(self) -> dict[str, str]:
        """Return all columns of the table, as columns of the source of the same names."""
        alias = quoted(self._statement.source_alias)
        known = {row[0].lower() for row in self._connection.execute(f"DESCRIBE {_SOURCE}").fetchall()}
        missing = [name for name in self._values.names if name.lower() not in known]
        if missing:
            raise InvalidInputError(
                f"The source of the MERGE lacks the column '{missing[0]}' of {self.name}; name the columns that it "
                "has: UPDATE SET a = s.a, INSERT (a) VALUES (s.a)."
            )
        return {name: f"{alias}.{quoted(name)}" for name in self._values.names}

    def _check_keys(self, batch: pa.RecordBatch, result: Any) -> None:
        """Raise NotSupportedError if columns that are all taken from the source change the primary key."""
        for name in self._table.primary_keys:
            if name in result.column_names:
                new: Any = self._values.fitting(result.column(name).combine_chunks(), name)
                if not pc.all(pc.equal(cast_exactly(new, batch.column(name).type), batch.column(name))).as_py():
                    raise NotSupportedError(
                        f"The MERGE would change '{name}', a column of the primary key of {self.name}; let ON compare "
                        "the whole key, or name the columns to be set."
                    )

    def _check_distinct(self, found: MergeChanges) -> None:
        """Raise InvalidInputError if an inserted row has the key of another one that the statement writes."""
        keys = list(self._table.primary_keys)
        if not keys or not any(batch.num_rows for batch in found.inserted):
            return
        written = [b for b in (*found.updated, *found.inserted) if set(keys) <= set(b.schema.names)]
        if not written:
            # The writer refuses rows without a key.
            return
        rows = [self._values.same(batch.select(keys), 0) for batch in written]
        counts = pa.Table.from_batches(rows).group_by(keys).aggregate([([], "count_all")])
        twice = counts.filter(pc.greater(counts.column("count_all"), pa.scalar(1, pa.int64())))
        if twice.num_rows:
            shown = ", ".join(f"{name} = {twice.column(name)[0]}" for name in keys)
            raise InvalidInputError(
                f"The MERGE would write several rows with the primary key {shown} into {self.name}, one of them "
                "inserted, and the table would keep only that one. Let the source have one row of each key, and ON "
                "compare the whole key."
            )

    def _check_blanks(self, inserted: Sequence[pa.RecordBatch], target: pa.Table) -> None:
        """Raise InvalidInputError for a new key that differs from one of the table by blanks at the end of a CHAR."""
        keys = list(self._table.primary_keys)
        new = [
            self._values.same(b.select(keys), 0) for b in inserted if b.num_rows and set(keys) <= set(b.schema.names)
        ]
        twin = _twin_of_blanks(pa.Table.from_batches(new), target.select(keys), self._table.fields) if new else None
        if twin is not None:
            raise InvalidInputError(
                f"The MERGE would insert a row into {self.name} whose primary key differs from that of the row "
                f"{twin} by blanks at the end of a CHAR alone, which do not count. Let ON compare them without blanks: "
                f"rtrim(t.{quoted(keys[0])}) = rtrim(s.{quoted(keys[0])})."
            )

    def _check_once(self, changed: Sequence[Any], target: pa.Table) -> None:
        if not changed:
            return
        counts: Any = pa.concat_arrays(changed).value_counts()
        more_than_once: Any = pc.greater(counts.field("counts"), pa.scalar(1, pa.int64()))
        twice = counts.filter(more_than_once)
        if len(twice):
            row = twice.field("values")[0].as_py()
            names = self._table.primary_keys or self._values.names
            shown = ", ".join(f"{name} = {target.column(name)[row]}" for name in names)
            raise InvalidInputError(
                f"The MERGE matches a row of {self.name} ({shown}) with several rows of the source, so that its "
                "new values are ambiguous. Make the source have one row for each."
            )


def _twin_of_blanks(new: pa.Table, old: pa.Table, fields: Sequence[DataField]) -> str | None:
    """Return a row of `old`, in words, that equals one of `new` but for blanks at the end of CHAR columns.

    Both have the same columns, of the same types. Return None if there is no such row.
    """
    lengths = char_lengths([field for field in fields if field.name in old.column_names])
    if not lengths:
        return None
    names = old.column_names
    both: Any = pa.concat_tables([old, new.select(names).cast(old.schema)])
    for place, name in enumerate(names):
        if name in lengths:
            both = both.append_column(f"{place}", both.column(name))
            both = both.set_column(place, name, pc.utf8_rtrim(both.column(name), " "))
    stored = both.column_names[len(names) :]
    every = both.group_by(names + stored).aggregate([])
    apart = every.group_by(names).aggregate([([], "count_all")])
    twins = apart.filter(pc.greater(apart.column("count_all"), pa.scalar(1, pa.int64()))).select(names)
    if not twins.num_rows:
        return None
    # The two forms of a key may both have been in the table before.
    bare = both.slice(old.num_rows).select([*names, *stored]).group_by(names).aggregate([(stored[0], "min")])
    found = twins.join(bare, keys=names, join_type="inner")
    return None if not found.num_rows else ", ".join(f"{name} = {found.column(name)[0]}" for name in names)


def _merged(merge: MergeStatementPlan, rows: SnapshotRows) -> StatementResult:
    changes = merge.changes(rows)
    snapshot = rows.commit(
        deleted=changes.deleted, updated=changes.updated, inserted=changes.inserted, assigned=changes.assigned
    )
    return StatementResult(
        table=merge.name,
        statement="MERGE",
        inserted=sum(batch.num_rows for batch in changes.inserted),
        updated=sum(batch.num_rows for batch in changes.updated),
        deleted=sum(batch.num_rows for batch in changes.deleted),
        snapshot=snapshot,
    )
