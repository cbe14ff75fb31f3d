"""The rows of a CSV file as batches with the types of a table, and the lines that are no rows.

The file is read in blocks of whole records, with the numbers of their lines. A record ends with a line, unless the end
of the line is inside of quotes. A quote that is never closed would enclose the rest of the file; in that case its line
is a record of its own, and bad. A record is bad, too, if text follows the closing quote of a field: `"say "hi""`.

Arrow reads a block of records as a whole. If it refuses one, or rounds a number, the block is read again as texts, and
each value of the affected columns is converted separately. Far dates and timestamps are read in that way, too.
"""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from interbed.catalog.client.cli.forms.row_formats import BadLine, BadLines, FileBatch, shortened
from interbed.catalog.client.cli.forms.text_values import (
    TINY,
    VALUE_ERRORS,
    GuessedColumn,
    is_doubtful,
    not_utf8,
    value_of_text,
)
from interbed.storage.base.arrow_values import cast_exactly
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import BINARIES, AtomicType, DataField

_READ_BYTES = 4 << 20
_RECORD_BYTES_MAX = 32 << 20
"""The maximum size of a quoted field; a quote that is not closed within this counts as never closed."""


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """The bytes of a record without the end of its line, and the line in which it begins."""

    data: bytes
    line: int
    fields: int
    is_open: bool = False
    """Whether a quote in it is never closed."""
    is_clean: bool = True
    """Whether fields end with their closing quotes."""


class CsvBlock:
    """Consecutive whole records; `first_line` is the line of the first one."""

    def __init__(self, data: bytes, first_line: int, syntax: "CsvSyntax", *, is_open: bool = False) -> None:
        self.data = data
        self.first_line = first_line
        self.is_open = is_open
        self.syntax = syntax

    @property
    def lines(self) -> int:
        """The number of lines of the block."""
        return _lines(self.data)

    @cached_property
    def is_clean(self) -> bool:
        """Whether its quotes are closed, and fields end with their closing quotes, so that Arrow may read it whole."""
        return not self.is_open and self.syntax.is_clean(self.data)

    def records(self) -> Iterator[CsvRecord]:
        """Yield the records; empty lines are no records unless records have one field."""
        line = self.first_line
        if self.is_open:
            yield CsvRecord(self.data.rstrip(b"\r\n"), line, 1, is_open=True)
            return
        for match in self.syntax.record.finditer(self.data):
            body = match[1]
            # The pattern matches once more after the last line.
            if body or (self.syntax.has_one_field and match[0]):
                yield CsvRecord(body, line, self.syntax.fields(body), is_clean=self.syntax.is_clean(body))
            line += _lines(match[0])


class CsvSyntax:
    """The syntax of records with a delimiter between fields.

    An empty line is no record, unless `has_one_field`, which is set after reading the header: then it is an empty
    record.
    """

    def __init__(self, delimiter: str) -> None:
        self.has_one_field = False
        self._delimiter = delimiter.encode()
        escaped = re.escape(delimiter).encode()
        plain = rb"[^%s\r\n]*+" % escaped
        self._field = rb'(?:"[^"]*+(?:""[^"]*+)*+"(?!")%s|(?!")%s)' % (plain, plain)
        body = rb"%s(?:%s%s)*+" % (self._field, escaped, self._field)
        self.record: re.Pattern[bytes] = re.compile(rb"(%s)(?:\r\n|\n|\r|\Z)" % body)
        # In a part of a file the last line may continue, and a \r at its end may be followed by a \n.
        self.whole_records: re.Pattern[bytes] = re.compile(rb"(?:%s(?:\r\n|\n|\r(?!\Z)))*+" % body)
        field = rb'(?:"[^"]*+(?:""[^"]*+)*+"|(?!")%s)' % plain
        self._clean: re.Pattern[bytes] = re.compile(rb"(?:%s(?:%s|[\r\n]++|\Z))*+" % (field, escaped))

    def is_clean(self, records: bytes) -> bool:
        """Return whether the fields of whole records end with their closing quotes."""
        return b'"' not in records or self._clean.fullmatch(records) is not None

    def fields(self, record: bytes) -> int:
        """Return the number of fields of a record."""
        if b'"' not in record:
            return record.count(self._delimiter) + 1
        count = position = 0
        pattern = re.compile(self._field)
        while True:
            match: Any = pattern.match(record, position)
            count += 1
            position = match.end() + 1
            if position > len(record):
                return count


def blocks(source: Any, delimiter: str) -> Iterator[CsvBlock]:
    """Yield the blocks of a file; the first begins with the header."""
    syntax = CsvSyntax(delimiter)
    data, line, at_end = b"", 1, False
    while not at_end or data:
        if not at_end:
            read = source.read(_READ_BYTES)
            at_end = not read
            data += read
        if line == 1 and data.startswith(b"\xef\xbb\xbf"):
            data = data[3:]
        end = len(data) if at_end and b'"' not in data else _end(data, syntax, at_end=at_end)
        if end:
            block = CsvBlock(data[:end], line, syntax)
        elif data and (at_end or len(data) > _RECORD_BYTES_MAX):
            # A quote is opened here and never closed.
            end = min((at + 1 for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0), default=len(data))
            block = CsvBlock(data[:end], line, syntax, is_open=True)
        else:
            continue
        data, line = data[end:], line + block.lines
        yield block


def _end(data: bytes, syntax: CsvSyntax, *, at_end: bool) -> int:
    """Return the end of the last whole record; at the end of a file the last line needs no line end."""
    if b'"' not in data:
        return data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, len(data) - 1) + 1
    whole: Any = syntax.whole_records.match(data)
    end: int = whole.end()
    if at_end and end < len(data):
        last = syntax.record.match(data, end)
        # A record with an open quote does not match.
        return last.end() if last is not None else end
    return end


def _lines(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns of the file, in its order, and the columns of the table of the same names, with their Arrow types."""

    names: Sequence[str]
    fields: dict[str, AtomicType]
    types: dict[str, pa.DataType]
    delimiter: str

    def typed(self, data: bytes) -> pa.RecordBatch | None:
        """Return the rows of whole records; None if Arrow refuses one of them, or a number has to be checked."""
        if any(kind.root in BINARIES for kind in self.fields.values()):
            return None
        # Arrow overflows silently for decimals without space for the digits of their scale.
        decimals = [name for name, kind in self.types.items() if pa.types.is_decimal(kind)]
        try:
            table = self._read(data, {**self.types, **dict.fromkeys(decimals, pa.string())})
            for name in decimals:
                texts: Any = table.column(name).combine_chunks()
                column: Any = cast_exactly(texts, self.types[name])
                table = table.set_column(table.schema.get_field_index(name), name, column)
        except pa.ArrowInvalid:
            return None
        if any(is_doubtful(table.column(n), kind, lambda: _has_tiny(data)) for n, kind in self.fields.items()):
            return None
        return _one_batch(table)

    def texts(self, data: bytes) -> pa.RecordBatch:
        """Return the rows of whole records with all columns as texts."""
        return _one_batch(self._read(data, dict.fromkeys(self.names, pa.string())))

    def guessed(self, data: bytes, columns: dict[str, GuessedColumn]) -> tuple[pa.RecordBatch, pa.Schema] | None:
        """Return the rows as texts, and the types that Arrow infers for them; None if it refuses a record."""
        try:
            texts = self.texts(data)
            known: dict[str, pa.DataType] = {name: pa.string() for name, column in columns.items() if column.is_text}
            return texts, texts.schema if len(known) == len(columns) else self._read(data, known).schema
        except pa.ArrowInvalid:
            return None

    def _read(self, data: bytes, types: dict[str, pa.DataType]) -> pa.Table:
        return pyarrow.csv.read_csv(
            io.BytesIO(data),
            read_options=pyarrow.csv.ReadOptions(column_names=list(self.names), block_size=max(len(data), 1 << 20) + 1),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=len(self.names) > 1
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )


def csv_batches(
    source: Any, path: Path, delimiter: str, fields: Sequence[DataField], schema: pa.Schema, bad: BadLines
) -> Iterator[FileBatch]:
    """Yield the rows of a file with a header, for columns of which `schema` has the Arrow types.

    The first batch has all columns of the file, and may have no rows. Raises InvalidInputError for a header without
    columns, and the errors of BadLines.add.
    """
    names, found = _with_header(source, path, delimiter)
    known = {f.name: f.type for f in fields}
    for name in names:
        if name in known and not isinstance(known[name], AtomicType):
            raise InvalidInputError(f"{path}: CSV can't hold the nested column '{name}'; use JSON lines or Parquet.")
    atomic = {n: t for n in names if isinstance(t := known.get(n), AtomicType)}
    types: dict[str, pa.DataType] = {n: schema.field(n).type if n in atomic else pa.string() for n in names}
    yield FileBatch.without_rows(path, pa.schema([(n, types[n]) for n in names]))
    layout = _Layout(names, atomic, types, delimiter)
    for block in found:
        yield from _block_batches(block, layout, path, bad)


def inferred_csv_schema(source: Any, path: Path, delimiter: str) -> pa.Schema:
    """Return the columns of a file with types that hold all its texts; lines that are no records are skipped."""
    names, found = _with_header(source, path, delimiter)
    columns = {name: GuessedColumn() for name in names}
    layout = _Layout(names, {}, {}, delimiter)
    rows = 0
    first_problem: str | None = None
    for block in found:
        read = layout.guessed(block.data, columns) if block.is_clean else None
        if read is None:
            records = []
            for record in block.records():
                problem = _problem(record, len(names))
                if problem is None:
                    records.append(record.data)
                elif first_problem is None:
                    first_problem = f"line {record.line}: {problem}"
            read = layout.guessed(b"\n".join(records) + b"\n", columns) if records else None
        if read is not None:
            texts, kinds = read
            rows += texts.num_rows
            for name, column in columns.items():
                column.add(texts.column(name), kinds.field(name).type)
    if not rows:
        why = "" if first_problem is None else f" that can be read; {first_problem}"
        raise InvalidInputError(f"{path} has no rows to take columns of{why}.")
    return pa.schema([(name, column.type) for name, column in columns.items()])


def _with_header(source: Any, path: Path, delimiter: str) -> tuple[list[str], Iterator[CsvBlock]]:
    """Return the names of the columns of a file, and the blocks of its records."""
    found = blocks(source, delimiter)
    first = next(found, None)
    names, rest = _header(first, path, delimiter)
    if first is not None:
        first.syntax.has_one_field = len(names) == 1
    return names, found if rest is None else chain((rest,), found)


def _header(first: CsvBlock | None, path: Path, delimiter: str) -> tuple[list[str], CsvBlock | None]:
    """Return the names of the columns, and the rest of the first block after the header."""
    header = None if first is None else next(first.records(), None)
    if first is None or header is None:
        raise InvalidInputError(f"{path} is empty; the first line of a CSV file names its columns.")
    if header.is_open:
        raise InvalidInputError(f"{path}, line {header.line}: the header has a quote that is never closed.")
    if not header.is_clean:
        raise InvalidInputError(f"{path}, line {header.line}: in the header, text follows a closing quote.")
    try:
        header.data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path}, line {header.line}: the header is {not_utf8(error)}.") from None
    table = pyarrow.csv.read_csv(
        io.BytesIO(header.data + b"\n"),
        read_options=pyarrow.csv.ReadOptions(autogenerate_column_names=True, block_size=len(header.data) + 2),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={f"f{i}": pa.string() for i in range(header.fields)}, strings_can_be_null=False
        ),
    )
    names = [str(value) for [value] in (column.to_pylist() for column in table.columns)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"{path}, line {header.line}: the header names the column {twice!r} twice.")
    # Empty lines before the header count as lines.
    end = first.data.find(header.data) + len(header.data)
    end += 2 if first.data[end : end + 2] == b"\r\n" else 1
    rest = first.data[end:]
    if not rest:
        return names, None
    before = CsvBlock(first.data[:end], first.first_line, first.syntax)
    return names, CsvBlock(rest, first.first_line + before.lines, first.syntax)


def _block_batches(block: CsvBlock, layout: _Layout, path: Path, bad: BadLines) -> Iterator[FileBatch]:
    typed = layout.typed(block.data) if block.is_clean else None
    if typed is not None:
        yield FileBatch(batch=typed, path=path, unit="line", find=lambda: list(block.records()))
        return
    found: list[BadLine] = []
    good: list[CsvRecord] = []
    for record in block.records():
        problem = _problem(record, len(layout.names))
        if problem is None:
            good.append(record)
        else:
            found.append(BadLine(path=path, number=record.line, reason=problem, text=_text(record)))
    if not good:
        bad.add(found)
        return
    texts = layout.texts(b"\n".join(record.data for record in good) + b"\n")
    columns: list[Any] = []
    is_good = [True] * len(good)
    for name in layout.names:
        column, refused = _converted(texts.column(name), layout.fields.get(name), layout.types[name])
        columns.append(column)
        for row, reason in refused.items():
            if is_good[row]:
                record = good[row]
                found.append(BadLine(path=path, number=record.line, column=name, reason=reason, text=_text(record)))
            is_good[row] = False
    bad.add(found)
    batch = pa.RecordBatch.from_arrays(columns, names=list(layout.names))
    if not all(is_good):
        batch = batch.filter(pa.array(is_good))
        good = [record for record, whole in zip(good, is_good, strict=True) if whole]
    yield FileBatch(batch=batch, path=path, unit="line", find=lambda: good)


def _problem(record: CsvRecord, columns: int) -> str | None:
    """Return the reason why a record does not fit the file; None if it does."""
    if record.is_open:
        return "a quote is opened and never closed"
    if not record.is_clean:
        return "text follows a closing quote; a quote inside of quotes is written twice"
    if record.fields != columns:
        fields = "1 field" if record.fields == 1 else f"{record.fields} fields"
        lines = record.data.count(b"\n")
        spans = f"; it goes on to line {record.line + lines}, because of a quote" if lines else ""
        return f"it has {fields}, and the header {columns}{spans}"
    try:
        record.data.decode()
    except UnicodeDecodeError as error:
        return f"it is {not_utf8(error)}"
    return None


def _text(record: CsvRecord) -> str:
    return record.data.decode(errors="backslashreplace")


def _has_tiny(data: bytes) -> bool:
    """Return whether a block may have a number that a FLOAT or a DOUBLE rounds to zero."""
    return re.search(TINY.encode(), data) is not None


def _have_tiny(texts: Any) -> bool:
    """Return whether one of the texts may be a number that a FLOAT or a DOUBLE rounds to zero."""
    return bool(pc.any(pc.match_substring_regex(texts, TINY)).as_py())


def _converted(texts: Any, kind: AtomicType | None, target: pa.DataType) -> tuple[Any, dict[int, str]]:
    """Return the column with the type of the table, and the reasons for rows without a value, which are null there."""
    if kind is None or target == pa.string():
        return texts, {}
    if kind.root not in BINARIES:
        try:
            whole: Any = cast_exactly(texts, target)
        except VALUE_ERRORS:
            pass
        else:
            if not is_doubtful(whole, kind, lambda: _have_tiny(texts)):
                return whole, {}
    # Value by value, but each distinct text only once.
    encoded = texts.dictionary_encode()
    values: list[Any] = []
    reasons: dict[int, str] = {}
    for place, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            values.append(value_of_text(text, kind))
        except ValueError as error:
            values.append(None)
            reasons[place] = str(error) if text else f"the text is empty, and no value of type {kind}"
    try:
        distinct: Any = pa.array(values, target)
    except VALUE_ERRORS:
        distinct = _one_by_one(values, target, encoded.dictionary, reasons)
    column = distinct.take(encoded.indices)
    if not reasons:
        return column, {}
    rows = enumerate(encoded.indices.to_pylist())
    return column, {row: reasons[place] for row, place in rows if place in reasons}


def _one_by_one(values: list[Any], target: pa.DataType, texts: Any, reasons: dict[int, str]) -> Any:
    """Return the values that Arrow accepts; add the others to `reasons`."""
    taken: list[Any] = []
    for place, value in enumerate(values):
        try:
            pa.array([value], target)
        except VALUE_ERRORS:
            reasons.setdefault(place, f"{shortened(texts[place].as_py())} is not a value of type {target}")
            value = None
        taken.append(value)
    return pa.array(taken, target)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)
