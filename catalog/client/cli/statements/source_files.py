"""Files that a statement reads, with columns that lose nothing: DuckDB guesses DOUBLE for any number with a fraction.

A CSV file is read by DuckDB, which finds out how it is written. Columns that it guesses to be DOUBLE, dates or times
are looked at as texts first: numbers of which a DOUBLE would lose digits are a DECIMAL, and texts stay texts where
neither fits or where a date is written in no ISO form. JSON files are read by interbed, because DuckDB reads every
number of one as a DOUBLE.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import sqlglot
from sqlglot import expressions as exp

from interbed.catalog.client.cli.forms.duckdb_tables import CatalogTables, noting, quoted
from interbed.catalog.client.cli.forms.file_batch import BadLine, BadLines, shortened
from interbed.catalog.client.cli.forms.file_rows import FileRows
from interbed.catalog.client.cli.forms.guessed_types import GuessedColumn
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.base.types.arrow import FieldIds, fields_from_arrow
from interbed.storage.base.types.column_names import check_apart_without_case

_DIALECT = "duckdb"
_CSV = frozenset({".csv", ".tsv"})
_JSON = frozenset({".json", ".jsonl", ".ndjson"})
_COMPRESSED = frozenset({".gz", ".zst"})
_CSV_FUNCTIONS = frozenset({"read_csv", "read_csv_auto"})
_JSON_FUNCTIONS = frozenset(
    f"read_{form}{end}" for form in ("json", "ndjson") for end in ("", "_auto", "_objects", "_objects_auto")
)
_TYPES_GIVEN = frozenset({"columns", "types", "dtypes", "column_types", "all_varchar", "auto_type_candidates"})
_EVERY_LINE = {
    "allow_quoted_nulls": "false",
    "sample_size": "-1",
    "skip": "0",
    "comment": "''",
    "null_padding": "false",
    "strict_mode": "true",
    "quote": "'\"'",
    "escape": "'\"'",
}
"""What DuckDB would find out from a sample of the lines: it rounds later ones, or leaves lines out."""
_ISO_DAY = r"\d{4}-\d{2}-\d{2}"
_ISO_TIME = r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?"
_ISO = {
    "DATE": f"^{_ISO_DAY}$",
    "TIME": f"^{_ISO_TIME}$",
    "TIMESTAMP": f"^{_ISO_DAY}([ T]{_ISO_TIME})?$",
    "TIMESTAMP WITH TIME ZONE": rf"^{_ISO_DAY}[ T]{_ISO_TIME} ?(Z|[+-]\d{{2}}(:?\d{{2}})?)$",
}
"""What a text of a type looks like of which DuckDB loses nothing: it has microseconds."""


class SourceFiles:
    """Has the files that statements name read without loss, on one connection of DuckDB."""

    def __init__(self, tables: CatalogTables) -> None:
        self._tables = tables
        self._connection = tables.connection

    def prepare(self, statement: exp.Expr) -> None:
        """Change how the statement reads its files. Raises NotSupportedError for functions that lose digits."""
        for table in list(statement.find_all(exp.Table)):
            source = table.this
            if isinstance(source, exp.Identifier) and not table.db:
                self._prepare_file(table, source.name)
                continue
            name = _function_of(source)
            if name in _CSV_FUNCTIONS:
                table.set("this", self._exact_csv(source))
            elif name in _JSON_FUNCTIONS:
                raise NotSupportedError(
                    f"{name} reads numbers of JSON as DOUBLE, which loses digits; name the file as a table: "
                    "FROM 'orders.jsonl'."
                )

    def _prepare_file(self, table: Any, name: str) -> None:
        suffixes = [s.lower() for s in Path(name).suffixes if s.lower() not in _COMPRESSED]
        suffix = suffixes[-1] if suffixes else ""
        if suffix in _CSV:
            [call] = _tables(f"SELECT * FROM read_csv({_text(name)})")
            if not table.alias:
                # As DuckDB calls a file.
                table.set("alias", exp.TableAlias(this=exp.to_identifier(Path(name).name.split(".")[0], quoted=True)))
            table.set("this", self._exact_csv(call.this))
        elif suffix in _JSON:
            self._connection.register(name, JsonFile(Path(name), self._tables.failures))

    def _exact_csv(self, call: Any) -> Any:
        """The call that reads a CSV file, with types for the columns that DuckDB would lose something of.

        Every line is a row, and empty texts in quotes stay apart from nulls.
        """
        given = _named_arguments(call)
        for name, value in _EVERY_LINE.items():
            if name not in given and not (name == "escape" and "quote" in given):
                call = _with_argument(call, f"{name} = {value}")
        if not _TYPES_GIVEN.isdisjoint(given):
            return call
        relation = self._connection.sql(f"SELECT * FROM {_sql(call)}")
        kinds = {n: str(kind) for n, kind in zip(relation.columns, relation.types, strict=True)}
        guessed = {"DOUBLE"} if _says_form(given) else {"DOUBLE", *_ISO}
        doubtful = {name: kind for name, kind in kinds.items() if kind in guessed}
        if not doubtful:
            return call
        as_texts = _sql(_with_types(call, dict.fromkeys(doubtful, "VARCHAR")))
        texts = self._connection.sql(f"SELECT {', '.join(map(quoted, doubtful))} FROM {as_texts}")
        exact = _exact_types(pa.RecordBatchReader.from_stream(texts), doubtful, given.get("decimal_separator", "."))
        return _with_types(call, exact) if exact else call


class JsonFile(ds.Dataset):
    """A JSON file as what DuckDB scans, with types that hold all its values."""

    def __init__(self, path: Path, failures: list[InterbedError]) -> None:
        # The base class is only an interface here: it has no data of its own.
        self._rows = FileRows.of(path)
        self._schema = self._rows.inferred_schema()
        check_apart_without_case(self._schema, f"the file '{path}'")
        self._failures = failures

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return self._schema

    def scanner(self, columns: list[str] | None = None, filter: Any = None, *_: Any, **__: Any) -> ds.Scanner:  # noqa: A002
        """The rows with some columns, for which the filter is true."""
        reader = pa.RecordBatchReader.from_batches(self._schema, noting(self._batches(), self._failures))
        return ds.Scanner.from_batches(reader, columns=columns, filter=filter)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        fields = fields_from_arrow(list(self._schema), FieldIds())
        for each in self._rows.batches(str(self._rows.path), fields, self._schema, _FirstBadLine(skip=False)):
            yield each.batch


class _FirstBadLine(BadLines):
    """Raises the first bad line; a statement leaves none out."""

    def add(self, found: Iterable[BadLine]) -> None:
        for line in sorted(found, key=lambda each: each.number):
            raise InvalidInputError(f"{line}. The {line.unit}: {shortened(line.text)}.")


def _exact_types(batches: Iterable[pa.RecordBatch], kinds: Mapping[str, str], separator: str) -> dict[str, str]:
    """The types, by DuckDB's words, of columns of which those that it guessed would lose something."""
    numbers = {name: GuessedColumn() for name, kind in kinds.items() if kind == "DOUBLE"}
    are_iso = {name: True for name in kinds if name not in numbers}
    for batch in batches:
        for name, column in numbers.items():
            texts: Any = batch.column(name)
            column.add(texts if separator == "." else pc.replace_substring(texts, separator, "."), pa.null())
        for name, is_iso in are_iso.items():
            matches: Any = pc.match_substring_regex(batch.column(name), _ISO[kinds[name]])
            are_iso[name] = is_iso and bool(pc.all(matches, min_count=0).as_py())
    exact = {name: "VARCHAR" for name, is_iso in are_iso.items() if not is_iso}
    for name, column in numbers.items():
        kind = column.type
        if pa.types.is_decimal(kind):
            exact[name] = f"DECIMAL({kind.precision}, {kind.scale})"
        elif pa.types.is_string(kind):
            exact[name] = "VARCHAR"
    return exact


def _function_of(source: Any) -> str | None:
    if isinstance(source, exp.ReadCSV):
        return "read_csv"
    return str(source.name).lower() if isinstance(source, exp.Anonymous) else None


def _named_arguments(call: Any) -> dict[str, str]:
    """The text of each argument that is given by name."""
    named = (each for each in call.expressions if isinstance(each, exp.EQ | exp.PropertyEQ))
    return {each.this.name.lower(): each.expression.name for each in named}


def _says_form(given: Collection[str]) -> bool:
    return not {"dateformat", "timestampformat"}.isdisjoint(given)


def _with_types(call: Any, types: Mapping[str, str]) -> Any:
    pairs = ", ".join(f"{_text(name)}: {_text(kind)}" for name, kind in types.items())
    return _with_argument(call, f"types = {{{pairs}}}")


def _with_argument(call: Any, argument: str) -> Any:
    [table] = _tables(f"SELECT * FROM {_sql(call)[:-1]}, {argument})")
    return table.this


def _tables(query: str) -> list[Any]:
    return list(sqlglot.parse_one(query, dialect=_DIALECT).find_all(exp.Table))


def _sql(expression: Any) -> str:
    return str(expression.sql(dialect=_DIALECT))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
