"""Parser of INSERT, UPDATE, DELETE and MERGE, and the new values of columns in them; other statements are refused by
name.

sqlglot parses them, in DuckDB's dialect, because DuckDB returns syntax trees of queries only.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from interbed.catalog.client.cli.forms.text_values import value_of_text
from interbed.catalog.client.cli.group import check_columns
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import INTEGERS, STRINGS, AtomicType, DataType, TypeRoot
from interbed.storage.base.types.exact_cast import exact_cast
from interbed.storage.base.types.nested import nullable_inside
from interbed.storage.table.table import Table

_DIALECT = "duckdb"
_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_SUPPORTED = "SELECT, INSERT INTO, UPDATE, DELETE FROM and MERGE INTO"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTable:
    """The table that a statement changes, and the qualifier of its columns."""

    name: str
    alias: str


@dataclass(frozen=True, slots=True)
class SqlNumber:
    """A number as text, in its original form."""

    text: str


@dataclass(frozen=True, slots=True)
class LiteralRows:
    """Rows of VALUES that consist of numbers, texts and NULL."""

    rows: tuple[tuple[SqlNumber | str | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertStatement:
    """Rows for columns: those named, those of the query (`by_name`), or all in their order.

    The sources are queries and literals, in this order. Each row of VALUES with other expressions is a query of its
    own, because DuckDB gives the values of a column one type, and some would lose digits.
    """

    target: ChangedTable
    columns: tuple[str, ...] | None
    by_name: bool
    sources: tuple[str | LiteralRows, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStatement:
    """A condition in the language of filters; None selects all rows."""

    target: ChangedTable
    condition: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStatement:
    """New values of columns, as SQL expressions, and a condition in the language of filters."""

    target: ChangedTable
    values: dict[str, str]
    condition: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """A WHEN of a MERGE. `values` is None if all columns are taken from the source by name."""

    matched: bool
    by_source: bool
    condition: str | None
    action: str
    values: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStatement:
    """The source in the form after FROM, and its alias; the condition is SQL."""

    target: ChangedTable
    source: str
    source_alias: str
    on: str
    clauses: tuple[MergeClause, ...]


RowStatement = InsertStatement | DeleteStatement | UpdateStatement | MergeStatement


def parse_statement(text: str, prepare: Callable[[exp.Expr], None] = lambda _: None) -> RowStatement:
    """Return the statement, which `prepare` may change first.

    Raises InvalidInputError for invalid SQL, NotSupportedError naming an unsupported statement.
    """
    try:
        parsed = [each for each in sqlglot.parse(text, dialect=_DIALECT) if each is not None]
    except SqlglotError as error:
        raise InvalidInputError(f"The statement is no SQL: {str(error).splitlines()[0]}") from error
    if len(parsed) != 1:
        raise InvalidInputError(f"`interbed sql` takes one statement, not {len(parsed)}.")
    prepare(parsed[0])
    _shorten_names(parsed[0])
    match parsed[0]:
        case exp.Insert() as insert:
            return _insert(insert)
        case exp.Delete() as delete:
            _check_parts(delete, "DELETE", {"this", "where"})
            target = _target(delete.this)
            return DeleteStatement(target=target, condition=_condition(text, target, delete))
        case exp.Update() as update:
            _check_parts(update, "UPDATE", {"this", "where", "expressions"})
            target = _target(update.this)
            values = _assignments(update.expressions, target, "UPDATE")
            return UpdateStatement(target=target, values=values, condition=_condition(text, target, update))
        case exp.Merge() as merge:
            return _merge(merge)
        case other:
            raise unsupported_statement(other.key.upper())


def _shorten_names(statement: exp.Expr) -> None:
    """Remove the database from columns that are qualified by the database and name of the target, as DuckDB expects."""
    target = statement.this
    if not isinstance(statement, exp.Update | exp.Merge) or not isinstance(target, exp.Table) or target.alias:
        return
    for column in statement.find_all(exp.Column):
        if (column.db.lower(), column.table.lower()) == (target.db.lower(), target.name.lower()):
            column.set("db", None)


def unsupported_statement(statement: str) -> NotSupportedError:
    """Return the error for a statement that does not change rows."""
    return NotSupportedError(
        f"`interbed sql` carries out {_SUPPORTED}, not {statement}. Tables are made and changed by `interbed table "
        "create | alter | drop`, databases by `interbed catalog`."
    )


def _insert(insert: exp.Insert) -> InsertStatement:
    _check_parts(insert, "INSERT", {"this", "expression", "by_name"})
    where, columns = insert.this, None
    if isinstance(where, exp.Schema):
        columns = tuple(_name(each, "INSERT") for each in where.expressions)
        where = where.this
    query = insert.expression
    by_name = bool(insert.args.get("by_name"))
    sources: tuple[str | LiteralRows, ...]
    if not isinstance(query, exp.Values):
        sources = (_sql(query),)
    elif by_name:
        sources = (_query_of(query.expressions),)
    else:
        sources = tuple(_rows_of_values(query))
    return InsertStatement(target=_target(where), columns=columns, by_name=by_name, sources=sources)


def _rows_of_values(values: exp.Values) -> Iterator[str | LiteralRows]:
    literals: list[tuple[SqlNumber | str | None, ...]] = []
    for row in values.expressions:
        try:
            literals.append(tuple(_literal(cell) for cell in row.expressions))
        except _NotLiteralError:
            if literals:
                yield LiteralRows(tuple(literals))
                literals = []
            yield _query_of([row])
    if literals:
        yield LiteralRows(tuple(literals))


def _query_of(rows: list[Any]) -> str:
    return _sql(exp.select("*").from_(exp.Values(expressions=rows)))


class _NotLiteralError(Exception):
    """An expression that DuckDB has to compute."""


def _literal(cell: Any) -> SqlNumber | str | None:
    match cell:
        case exp.Paren():
            return _literal(cell.this)
        case exp.Null():
            return None
        case exp.Literal() if cell.is_string:
            return str(cell.this)
        case exp.Literal() if _NUMBER.fullmatch(cell.this):
            return SqlNumber(cell.this)
        case exp.Neg():
            number = _literal(cell.this)
            if isinstance(number, SqlNumber) and not number.text.startswith("-"):
                return SqlNumber(f"-{number.text}")
    raise _NotLiteralError


def _merge(merge: exp.Merge) -> MergeStatement:
    _check_parts(merge, "MERGE", {"this", "using", "on", "whens"})
    target, source = _target(merge.this), merge.args["using"]
    alias = source.alias_or_name
    if not alias:
        raise InvalidInputError("The source of a MERGE needs a name: USING (SELECT …) AS s.")
    if alias.lower() == target.alias.lower():
        raise InvalidInputError(f"Target and source of the MERGE are both called {alias}; give one another name by AS.")
    clauses = [_clause(when, target) for when in merge.args["whens"].expressions]
    return MergeStatement(
        target=target, source=_sql(source), source_alias=alias, on=_sql(merge.args["on"]), clauses=tuple(clauses)
    )


def _clause(when: Any, target: ChangedTable) -> MergeClause:
    then, condition = when.args["then"], when.args.get("condition")
    common: dict[str, Any] = {
        "matched": bool(when.args.get("matched")),
        "by_source": bool(when.args.get("source")),
        "condition": None if condition is None else _sql(condition),
    }
    match then:
        case exp.Var() if then.name.upper() == "DELETE":
            return MergeClause(action="DELETE", **common)
        case exp.Update():
            given = then.expressions or []
            takes_all = not given or isinstance(given[0], exp.Star)
            values = None if takes_all else _assignments(given, target, "MERGE")
            return MergeClause(action="UPDATE", values=values, **common)
        case exp.Insert():
            return MergeClause(action="INSERT", values=_inserted(then), **common)
    raise NotSupportedError(f"`interbed sql` does not carry out THEN {_sql(then)} of a MERGE; UPDATE, DELETE, INSERT.")


def _inserted(then: exp.Insert) -> dict[str, str] | None:
    if isinstance(then.this, exp.Star) or (then.this is None and not then.expression):
        return None
    if not isinstance(then.this, exp.Tuple) or not isinstance(then.expression, exp.Tuple):
        raise NotSupportedError("An INSERT of a MERGE is written INSERT *, or INSERT (columns) VALUES (values).")
    names = [_name(each, "MERGE") for each in then.this.expressions]
    values = [_sql(each) for each in then.expression.expressions]
    if len(names) != len(values):
        raise InvalidInputError(f"The INSERT of the MERGE names {len(names)} columns and has {len(values)} values.")
    return dict(zip(names, values, strict=True))


def _assignments(given: Iterable[Any], target: ChangedTable, statement: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for each in given:
        if not isinstance(each, exp.EQ) or not isinstance(each.this, exp.Column):
            raise NotSupportedError(f"{statement} sets columns one by one, `SET a = 1, b = 2`; not {_sql(each)}.")
        qualifier = each.this.table
        if qualifier and qualifier.lower() != target.alias.lower():
            raise NotSupportedError(f"{statement} sets whole columns, not what is inside of one: {_sql(each.this)}.")
        if each.this.name in values:
            raise InvalidInputError(f"{statement} sets the column '{each.this.name}' twice.")
        values[each.this.name] = _sql(each.expression)
    return values


def _target(table: Any) -> ChangedTable:
    if not isinstance(table, exp.Table):
        raise InvalidInputError(f"{_sql(table)} is no table; write DATABASE.TABLE.")
    if table.catalog:
        raise InvalidInputError(
            f"The catalog is named by --catalog {table.catalog}; write {table.db}.{table.name} in the statement."
        )
    if not table.db:
        raise InvalidInputError(f"The table '{table.name}' lacks its database; write DATABASE.{table.name}.")
    return ChangedTable(name=f"{table.db}.{table.name}", alias=table.alias or table.name)


def _condition(text: str, target: ChangedTable, statement: Any) -> str | None:
    """Return the text after the outermost WHERE, without the table's name before columns."""
    tokens = sqlglot.tokenize(text, dialect=_DIALECT)
    depth = begin = 0
    for place, token in enumerate(tokens):
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(token.token_type.name, 0)
        if depth == 0 and token.token_type.name == "WHERE":
            begin = place + 1
            break
    if (statement.args.get("where") is None) != (begin == 0):
        raise InvalidInputError(f"The WHERE of the statement is not where it is expected: {text}")
    if not begin:
        return None
    _check_patterns(statement.args["where"])
    rest = [token for token in tokens[begin:] if token.token_type.name != "SEMICOLON"]
    kept, position = [], rest[0].start
    for place in range(len(rest)):
        first = _begin_of_qualifier(rest, place, target)
        if first is not None:
            kept.append(text[position : rest[first].start])
            position = rest[place + 1].end + 1
    return "".join(kept) + text[position : rest[-1].end + 1]


def _check_patterns(where: Any) -> None:
    """Raise NotSupportedError for a backslash in LIKE, which DuckDB treats as a plain character in a SELECT."""
    for like in where.find_all(exp.Like):
        if "\\" in like.expression.name:
            raise NotSupportedError(
                f"{_sql(like)} would select other rows than in a SELECT: a backslash of LIKE escapes in a filter, and "
                "is a character for DuckDB. Compare by = or IN, or use Table.delete and `col(…).like`."
            )


def _begin_of_qualifier(tokens: list[Any], place: int, target: ChangedTable) -> int | None:
    """Return the index of the first token of the qualifier that ends at `place`; None without a qualifier."""
    names = [token.text.lower() for token in tokens[max(place - 3, 0) : place + 2]]
    before, after = names[: min(place, 3)], names[min(place, 3) :]
    if after != [target.alias.lower(), "."] or tokens[place].token_type.name == "STRING":
        return None
    if before[-1:] != ["."]:
        return place
    database, _, name = target.name.lower().partition(".")
    # The database may precede the name, but not an alias.
    is_whole = name == target.alias.lower() and before[-2:] == [database, "."] and before[-3:-2] != ["."]
    return place - 2 if is_whole else None


def _check_parts(statement: Any, name: str, known: Collection[str]) -> None:
    given = [key for key, value in statement.args.items() if value]
    for key in given:
        if key not in known:
            article = "an" if name[0] in "IU" else "a"
            part = key.rstrip("_").replace("_", " ").upper()
            raise NotSupportedError(f"`interbed sql` does not carry out {article} {name} with {part}.")


def _name(column: Any, statement: str) -> str:
    if isinstance(column, exp.Identifier | exp.Column):
        return str(column.name)
    raise NotSupportedError(f"{statement} names columns, and {_sql(column)} is none.")


def _sql(expression: Any) -> str:
    return str(expression.sql(dialect=_DIALECT))


_NUMBERS = INTEGERS | {TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE}


class NewValues:
    """The columns of one table, and their names in a statement."""

    def __init__(self, table: Table, name: str) -> None:
        self._name = name
        self._types: dict[str, DataType] = {f.name: f.type for f in table.schema.fields}
        self._arrow = table.arrow_schema
        self._by_lower = {n.lower(): n for n in self._types}

    @property
    def names(self) -> list[str]:
        """The names of all columns, in their order."""
        return list(self._types)

    def column(self, name: str) -> str:
        """Return the column of that name, ignoring case as DuckDB does; raise InvalidInputError for an unknown one."""
        found = self._by_lower.get(name.lower())
        if found is None:
            check_columns(self._name, self.names, [name])
        return found or name

    def columns(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return expressions by the columns that they are for."""
        return {self.column(name): value for name, value in given.items()}

    def batch(self, rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Return the columns of a result as columns of these names; the writer fills in missing columns."""
        columns = [self.fitting(rows.column(i), name) for i, name in enumerate(names)]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def literals(self, literals: LiteralRows, names: Sequence[str]) -> pa.RecordBatch:
        """Return rows of VALUES as columns of these names.

        Numbers are read from their texts; raises InvalidInputError.
        """
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
        # `append` casts it, or raises an error.
        values = [Decimal(cell.text) if isinstance(cell, SqlNumber) else None for cell in cells]
        is_whole = all(value is None or value == int(value) for value in values)
        return pa.array([None if v is None else int(v) for v in values] if is_whole else values)

    def same(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """Return the batch with the types of the table, as `append` casts them; `first_row` counts
        from 0 for errors.
        """
        columns: list[Any] = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            target = nullable_inside(self._arrow.field(name).type)
            chunked: Any = pa.chunked_array([column])
            what = f"the table '{self._name}'"
            cast = exact_cast(chunked, target, name=name, what=what, first_row=first_row)
            columns.append(cast.combine_chunks())
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def fitting(self, column: Any, name: str) -> Any:
        """Return the values for a column of this name; texts are parsed. Raises InvalidInputError naming the value."""
        kind = self._types[name]
        if not isinstance(kind, AtomicType) or kind.root in STRINGS or not _is_text(column.type):
            return column
        try:
            values = [None if text is None else value_of_text(text, kind) for text in column.to_pylist()]
        except ValueError as error:
            raise InvalidInputError(f"The column '{name}' of {self._name}: {error}.") from error
        return pa.array(values, self._arrow.field(name).type)


def value_kind(expression: str) -> str:
    """Return "subquery" or "window" for an expression that reads other rows, "row" for others.

    Raises InvalidInputError for invalid SQL.
    """
    try:
        parsed = sqlglot.parse_one(expression, dialect=_DIALECT)
    except SqlglotError as error:
        raise InvalidInputError(f"{expression!r} is no SQL expression: {str(error).splitlines()[0]}") from error
    if parsed.find(exp.Query) is not None:
        return "subquery"
    return "row" if parsed.find(exp.Window) is None else "window"


def named_columns(expressions: Iterable[str], names: Collection[str]) -> set[str] | None:
    """Return those of the columns that SQL expressions name; None for subqueries and stars, which may name any."""
    known = {name.lower(): name for name in names}
    found: set[str] = set()
    for expression in expressions:
        parsed = sqlglot.parse_one(expression, dialect=_DIALECT)
        if parsed.find(exp.Query, exp.Star) is not None:
            return None
        # The first part of a name may be a column whose field is named.
        parts = (part.name.lower() for column in parsed.find_all(exp.Column) for part in column.parts)
        found |= {known[part] for part in parts if part in known}
    return found


def replaced(batch: pa.RecordBatch, found: Any, names: list[str], values: NewValues) -> pa.RecordBatch:
    """Return the rows of a batch with new values for some columns."""
    for name in names:
        column = values.fitting(found.column(name).combine_chunks(), name)
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
