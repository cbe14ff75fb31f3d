"""The changes of rows that DuckDB computes: values for a table's columns, and what a MERGE INTO changes.

Values are taken as `append` takes them, as they are, or with an error. A text for a column of another type is read as
a field of a CSV file is, so that `'2026-01-31'` is a DATE.

For a MERGE INTO DuckDB joins the rows of a snapshot with those of the source, clause by clause.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from interbed.catalog.client.cli.forms.duckdb_tables import quoted
from interbed.catalog.client.cli.forms.text_values import value_of_text
from interbed.catalog.client.cli.near_names import check_columns
from interbed.catalog.client.cli.statements.parse import LiteralRows, MergeClause, MergeStatement, SqlNumber
from interbed.storage.base.arrow_values import cast_exactly
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.incoming import duckdb_rows
from interbed.storage.base.types.data_type import INTEGERS, STRINGS, AtomicType, DataType, TypeRoot
from interbed.storage.base.types.exact_cast import exact_cast
from interbed.storage.base.types.nested import nullable_inside
from interbed.storage.table.table import Table
from interbed.storage.upkeep.changed_rows import SnapshotRows
from interbed.storage.write.kept_updates import UpdateCheck

_NUMBERS = INTEGERS | {TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE}
ROW = "__interbed_row"
"""The column that numbers rows for DuckDB."""


class NewValues:
    """The columns of one table, and the names that a statement may call them by."""

    def __init__(self, table: Table, name: str) -> None:
        self._name = name
        self._types: dict[str, DataType] = {f.name: f.type for f in table.schema.fields}
        self._arrow = table.arrow_schema
        self._by_lower = {n.lower(): n for n in self._types}

    @property
    def names(self) -> list[str]:
        """All columns, in their order."""
        return list(self._types)

    def column(self, name: str) -> str:
        """The column of that name, whose case has no say as in DuckDB; raises InvalidInputError for another."""
        found = self._by_lower.get(name.lower())
        if found is None:
            check_columns(self._name, self.names, [name])
        return found or name

    def columns(self, given: Mapping[str, str]) -> dict[str, str]:
        """Expressions by the column that they are for."""
        return {self.column(name): value for name, value in given.items()}

    def batch(self, rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """The columns of a result as columns of these names; what they lack is filled in by the writer."""
        columns = [self.fitting(rows.column(i), name) for i, name in enumerate(names)]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def literals(self, literals: LiteralRows, names: Sequence[str]) -> pa.RecordBatch:
        """Rows of VALUES as columns of these names. Numbers are read from their texts; raises InvalidInputError."""
        cells = zip(*literals.rows, strict=True)
        columns = [self._of_literals(list(column), name) for column, name in zip(cells, names, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def _of_literals(self, cells: list[SqlNumber | str | None], name: str) -> Any:
        kind = self._types[name]
        numbers = [cell for cell in cells if isinstance(cell, SqlNumber)]
        texts = [cell for cell in cells if isinstance(cell, str)]
        if not numbers and not texts:
            return pa.nulls(len(cells), self._arrow.field(name).type)
        if not numbers or (isinstance(kind, AtomicType) and kind.root in _NUMBERS):
            read = [cell.text if isinstance(cell, SqlNumber) else cell for cell in cells]
            return self.fitting(pa.array(read, pa.string()), name)
        if texts:
            raise InvalidInputError(
                f"The column '{name}' of {self._name} is given the number {numbers[0].text} and the text "
                f"{texts[0]!r}; write all of its values in one way."
            )
        # `append` casts it, or says that no number fits.
        values = [Decimal(cell.text) if isinstance(cell, SqlNumber) else None for cell in cells]
        is_whole = all(value is None or value == int(value) for value in values)
        return pa.array([None if v is None else int(v) for v in values] if is_whole else values)

    def same(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """The batch with the types of the table, as `append` casts them; `first_row` counts from 0 for errors."""
        columns: list[Any] = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            target = nullable_inside(self._arrow.field(name).type)
            chunked: Any = pa.chunked_array([column])
            what = f"the table '{self._name}'"
            cast = exact_cast(chunked, target, name=name, what=what, first_row=first_row)
            columns.append(cast.combine_chunks())
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def fitting(self, column: Any, name: str) -> Any:
        """The values for a column of this name; texts are read. Raises InvalidInputError naming the value."""
        kind = self._types[name]
        if not isinstance(kind, AtomicType) or kind.root in STRINGS or not _is_text(column.type):
            return column
        try:
            values = [None if text is None else value_of_text(text, kind) for text in column.to_pylist()]
        except ValueError as error:
            raise InvalidInputError(f"The column '{name}' of {self._name}: {error}.") from error
        return pa.array(values, self._arrow.field(name).type)


def replaced(batch: pa.RecordBatch, found: Any, names: list[str], values: NewValues) -> pa.RecordBatch:
    """The rows of a batch with new values for some columns."""
    for name in names:
        column = values.fitting(found.column(name).combine_chunks(), name)
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


def check_keys_stay(table: Table, names: Iterable[str], statement: str) -> None:
    """Raise NotSupportedError when a statement sets a column of the primary key."""
    for name in names:
        if name in table.primary_keys:
            raise NotSupportedError(
                f"{statement} can't set '{name}', a column of the primary key of '{table.name}': the row would become "
                "another one. DELETE the row, and INSERT the new one."
            )


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


_TARGET, _SOURCE = "interbed_target", "interbed_source"


@dataclass(slots=True)
class MergeChanges:
    """Rows that go, rows with new values, and new rows."""

    deleted: list[pa.RecordBatch] = field(default_factory=list)
    updated: list[pa.RecordBatch] = field(default_factory=list)
    inserted: list[pa.RecordBatch] = field(default_factory=list)


class MergeStatementPlan:
    """A MERGE whose names are those of its table; the source is read once for each try."""

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
        """The changes of the rows of a snapshot, which are held in memory.

        Raises InvalidInputError where a row of the table goes with several of the source.
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
        self._check_once(changed, target)
        return found

    def inserted(self, changes: MergeChanges) -> int:
        """How many rows the insertions make: those of one key become one."""
        keys = list(self._table.primary_keys)
        if not keys or not changes.inserted:
            return sum(batch.num_rows for batch in changes.inserted)
        rows = pa.Table.from_batches([self._values.same(batch.select(keys), 0) for batch in changes.inserted])
        return rows.group_by(keys).aggregate([]).num_rows

    def _rows_of(self, clause: MergeClause, expressions: dict[str, str], where: str) -> Any:
        target, source, on = self._target, self._source, self._statement.on
        join = f"{target} ANTI JOIN {source}" if clause.by_source else f"{target} JOIN {source}"
        row = f"{quoted(self._statement.target.alias)}.{ROW}"
        columns = ", ".join([row, *(f"({value}) AS {quoted(name)}" for name, value in expressions.items())])
        return duckdb_rows(self._connection.sql(f"SELECT {columns} FROM {join} ON ({on}) WHERE {where}")).read_all()

    def _inserted(self, clause: MergeClause, where: str) -> list[pa.RecordBatch]:
        values = self._of_source() if clause.values is None else self._values.columns(clause.values)
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
        """All columns of the table, as columns of the source of the same names."""
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
        """Where all columns are taken from the source, those of the key have to be the same."""
        for name in self._table.primary_keys:
            if name in result.column_names:
                new: Any = self._values.fitting(result.column(name).combine_chunks(), name)
                if not pc.all(pc.equal(cast_exactly(new, batch.column(name).type), batch.column(name))).as_py():
                    raise NotSupportedError(
                        f"The MERGE would change '{name}', a column of the primary key of {self.name}; let ON compare "
                        "the whole key, or name the columns to be set."
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
                f"The MERGE matches a row of {self.name} ({shown}) with several rows of the source, so that it is "
                "undecided what becomes of it. Make the source have one row for each."
            )
