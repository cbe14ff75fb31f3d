"""CSV files: the rows of lines, and the lines of rows.

A record is one line, as for Java Paimon, Hive and Spark. Inside of quotes, and in a field that has begun, an escape
character stands before a quote or another escape character, and is left out before any other; two quotes are one. A
line of blanks alone is a row of nulls, and the null literal is null, whether or not it is quoted. So a writer refuses
an empty text where the null literal is empty, and any text that ends a line. Fields that a line lacks are null, further
ones are ignored. Source: paimon-format `csv.CsvParser`, `csv.CsvFormatWriter`.

In mode `permissive` a malformed field is null; Java Paimon also makes the fields after it null that are read with it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Mask
from interbed.storage.base.arrow_values import array_of, from_numpy, scalar_of, to_numpy
from interbed.storage.base.errors import CorruptFileError, InvalidInputError
from interbed.storage.base.types.data_type import AtomicType, DataField
from interbed.storage.files.text.options import BYTE_ORDER_MARK, STANDARD_DELIMITERS, CsvOptions, MalformedMode
from interbed.storage.files.text.values import Rows, equal_to, texts_of, values_of

Array = Any
_BLANKS = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)
_ESCAPED = {"n": "\n", "r": "\r"}
"""Letters that stand for ends of lines after an escape character, in Hive's files."""


class CsvCodec:
    """Codec of the columns `fields` of CSV files, in their order; `wanted` names those that are decoded."""

    def __init__(self, fields: Sequence[DataField], syntax: CsvOptions, wanted: Sequence[str] | None = None) -> None:
        self._fields = tuple(fields)
        self._syntax = syntax
        self._wanted = [f.name for f in fields] if wanted is None else list(wanted)
        self.line_delimiter = syntax.line_delimiter
        self.header_lines = syntax.header_lines

    # -- rows of lines -------------------------------------------------------------------------------------------------

    def check_header(self, lines: Sequence[bytes], path: str) -> None:
        """Refuse a header that has columns of the table in another order: fields are read by their places.

        Raises CorruptFileError naming the file. A header with other names is skipped.
        """
        if len(lines) != 1 or self.header_lines != 1:
            return
        fields, _ = self._fields_of(decoded_lines(lines, 1, path)[0].as_py())
        names = [(name or "").strip().lower() for name in fields]
        known = [f.name.lower() for f in self._fields]
        if set(names) <= set(known) and names != known[: len(names)]:
            raise CorruptFileError(
                f"The header of the data file {path} has the columns {', '.join(names)}, and the table has "
                f"{', '.join(known)}: fields are read by their places, so values would be in other columns. Write the "
                "file again with the columns in the table's order."
            )

    def decode(self, lines: Sequence[bytes], first_line: int, path: str) -> pa.RecordBatch:
        """Return the rows of lines, of which the first has that number in the file; raises CorruptFileError."""
        texts = decoded_lines(lines, first_line, path)
        fields, broken, blank = self._split(texts)
        # A malformed row is dropped whatever columns are read.
        drops = self._syntax.mode is MalformedMode.DROP
        malformed = np.zeros(len(texts), np.bool_)
        columns: dict[str, Array] = {}
        for place, field in enumerate(self._fields):
            if not drops and field.name not in self._wanted:
                continue
            values, wrong = self._column(fields, place, field, broken, blank)
            if wrong is not None:
                if self._syntax.mode is MalformedMode.FAIL:
                    raise self._malformed(wrong, lines, first_line, field, path)
                malformed |= wrong
            columns[field.name] = values
        found = (
            pa.RecordBatch.from_arrays([columns[name] for name in self._wanted], names=self._wanted)
            if self._wanted
            else _without_columns(len(texts))
        )
        return found.filter(from_numpy(~malformed)) if drops and malformed.any() else found

    def _column(
        self, fields: Array, place: int, field: DataField, broken: Mask, blank: Mask
    ) -> tuple[Array, Mask | None]:
        offsets = to_numpy(fields.offsets)
        lengths = np.diff(offsets)
        missing = (lengths <= place) | blank
        # The last field of a line whose quote is not closed has no value.
        unclosed = broken & (lengths == place + 1)
        places = np.where(missing, 0, offsets[:-1] + place)
        texts: Any = fields.values.take(from_numpy(places.astype(np.int64), missing | unclosed))
        if self._syntax.null_literal is not None and not self._syntax.escapes_all:
            null = pc.equal(texts, scalar_of(self._syntax.null_literal, pa.string())).fill_null(True)
            texts = pc.if_else(null, scalar_of(None, pa.string()), texts)
        assert isinstance(field.type, AtomicType)
        values, wrong = values_of(texts, field.type, numeric_times=not self._syntax.escapes_all)
        if unclosed.any():
            wrong = unclosed if wrong is None else wrong | unclosed
        return values, wrong

    def _malformed(
        self, wrong: Mask, lines: Sequence[bytes], first_line: int, field: DataField, path: str
    ) -> CorruptFileError:
        row = int(np.flatnonzero(wrong)[0])
        shown = lines[row][:200].decode(errors="replace")
        return CorruptFileError(
            f"Line {first_line + row} of the data file {path} has no value of the column {field.name!r}, {field.type}: "
            f"{shown!r}. Mend the line, or set 'csv.mode' to 'permissive' or 'dropmalformed'."
        )

    def _split(self, texts: Array) -> tuple[Array, Mask, Mask]:
        """Return the lists of the fields of lines, the lines with an open quote, and the lines of blanks."""
        syntax = self._syntax
        rows = len(texts)
        blank = np.zeros(rows, np.bool_)
        if not syntax.blank_rows:
            trimmed: Any = pc.utf8_trim(texts, characters=_BLANKS)
            blank = to_numpy(equal_to(trimmed, ""))
        special = np.zeros(rows, np.bool_)
        for character in (syntax.quote, syntax.escape):
            if character is not None:
                found: Array = pc.match_substring(texts, character)
                special |= to_numpy(found)
        broken = np.zeros(rows, np.bool_)
        lists: Any = pc.split_pattern(texts, syntax.delimiter)
        if syntax.escapes_all and syntax.null_literal is not None:
            lists = _with_nulls(_from_start(lists), syntax.null_literal)
        if not special.any():
            return _from_start(lists), broken, blank
        places = np.flatnonzero(special)
        # A loop over the lines with quotes: Arrow's reader of CSV has other rules for them.
        records = [self._fields_of(texts[int(place)].as_py()) for place in places]
        broken[places] = [is_open for _, is_open in records]
        parsed = array_of([parts for parts, _ in records], pa.list_(pa.string()))
        order = np.empty(rows, np.int64)
        order[~special] = np.arange(rows - len(places))
        order[places] = np.arange(rows - len(places), rows)
        plain = lists.filter(from_numpy(~special)).cast(parsed.type)
        return _from_start(pa.concat_arrays([plain, parsed]).take(from_numpy(order))), broken, blank

    def _fields_of(self, line: str) -> tuple[list[str | None], bool]:
        """Return the fields of a line, and whether the last one has a quote that is not closed."""
        syntax = self._syntax
        found: list[str | None] = []
        value: list[str] = []
        quoted = begun = False
        position, last = 0, len(line) - 1
        start = 0

        def end() -> None:
            # The null literal may contain an escape character itself: it is compared before escapes are resolved.
            is_null = line[start:position] == syntax.null_literal
            found.append(None if is_null else "".join(value))
            value.clear()

        while position <= last:
            letter = line[position]
            following = line[position + 1] if position < last else None
            if letter == syntax.escape:
                if syntax.escapes_all and following is not None:
                    value.append(_ESCAPED.get(following, following))
                    position += 1
                elif (quoted or begun) and following is not None and following in (syntax.quote, syntax.escape):
                    value.append(following)
                    position += 1
            elif letter == syntax.quote:
                if (quoted or begun) and following == letter:
                    value.append(letter)
                    position += 1
                else:
                    if (
                        position > 2
                        and line[position - 1] != syntax.delimiter
                        and following
                        not in (
                            None,
                            syntax.delimiter,
                        )
                    ):
                        # A quote in the middle of a field is a part of it; blanks before it are none.
                        if value and not "".join(value).strip(_BLANKS):
                            value.clear()
                        else:
                            value.append(letter)
                    quoted = not quoted
                begun = not begun
            elif letter == syntax.delimiter and not quoted:
                end()
                begun, start = False, position + 1
            else:
                value.append(letter)
                begun = True
            position += 1
        end()
        return found, quoted

    # -- lines of rows -------------------------------------------------------------------------------------------------

    @property
    def header(self) -> str | None:
        """The first line of a file, or None."""
        if not self._syntax.header_lines:
            return None
        names = array_of([f.name for f in self._fields], pa.string())
        return self._syntax.delimiter.join(self._quoted(names).to_pylist())

    def encode(self, batch: pa.RecordBatch, rows: Rows) -> list[str]:
        """Return the lines of rows without their ends. Raises InvalidInputError naming the column and the row."""
        columns: list[Any] = []
        for array, field in zip(batch.columns, self._fields, strict=True):
            columns.append(self._texts(array, field, rows))
        joined: Any = pc.binary_join_element_wise(*columns, scalar_of(self._syntax.delimiter, pa.string()))
        lines: list[str] = joined.to_pylist()
        return lines

    def _texts(self, array: Array, field: DataField, rows: Rows) -> Array:
        syntax = self._syntax
        assert isinstance(field.type, AtomicType)
        texts = texts_of(array, field.type, name=field.name, rows=rows)
        check_ends_no_line(texts, syntax.line_delimiter, field, rows)
        if syntax.null_literal is None:
            _refuse(to_numpy(texts.is_null()), texts, field, rows, "such files hold no NULL")
            return self._quoted(texts)
        written = self._quoted(texts)
        null: Any = pc.equal(written if syntax.escapes_all else texts, scalar_of(syntax.null_literal, pa.string()))
        _refuse(
            to_numpy(null.fill_null(False)),
            texts,
            field,
            rows,
            f"it is the 'csv.null-literal', {syntax.null_literal!r}, and would be read as NULL; set that option to a "
            "text that no value has, such as NULL",
        )
        return written.fill_null(syntax.null_literal)

    def _quoted(self, texts: Array) -> Array:
        syntax = self._syntax
        # A file's reader would skip the mark.
        marked: Any = pc.starts_with(texts, BYTE_ORDER_MARK)
        special = pc.or_(pc.match_substring(texts, syntax.delimiter), marked)
        for character in (syntax.quote, syntax.escape):
            if character is not None:
                special = pc.or_(special, pc.match_substring(texts, character))
        if syntax.escapes_all:
            return self._escaped(texts, special)
        # A line of blanks would be a row of nulls.
        special = pc.or_(special, pc.equal(pc.utf8_trim(texts, characters=_BLANKS), scalar_of("", pa.string())))
        if not pc.any(special).as_py():
            return texts
        if syntax.quote is None or syntax.escape is None:
            row = int(np.flatnonzero(to_numpy(special.fill_null(False)))[0])
            raise InvalidInputError(
                f"The text {texts[row].as_py()!r} needs quotes in a CSV file; set 'csv.quote-character' and "
                "'csv.escape-character', or 'csv.field-delimiter' to a character that no text has."
            )
        escaped = pc.replace_substring(texts, syntax.escape, syntax.escape * 2)
        escaped = pc.replace_substring(escaped, syntax.quote, syntax.escape + syntax.quote)
        whole: Any = pc.binary_join_element_wise(
            scalar_of(syntax.quote, pa.string()),
            escaped,
            scalar_of(syntax.quote, pa.string()),
            scalar_of("", pa.string()),
        )
        return pc.if_else(special, whole, texts)

    def _escaped(self, texts: Array, special: Array) -> Array:
        syntax = self._syntax
        if not pc.any(special).as_py():
            return texts
        if syntax.escape is None:
            row = int(np.flatnonzero(to_numpy(special.fill_null(False)))[0])
            raise InvalidInputError(
                f"The text {texts[row].as_py()!r} has the delimiter of the table's fields or begins with a byte order "
                "mark, and the table has no 'escape.delim'; keep such texts in Parquet, ORC or Avro files."
            )
        escaped: Any = pc.replace_substring(texts, syntax.escape, syntax.escape * 2)
        escaped = pc.if_else(
            pc.starts_with(escaped, BYTE_ORDER_MARK),
            pc.binary_join_element_wise(scalar_of(syntax.escape, pa.string()), escaped, scalar_of("", pa.string())),
            escaped,
        )
        return pc.replace_substring(escaped, syntax.delimiter, syntax.escape + syntax.delimiter)


def check_ends_no_line(texts: Array, delimiter: str, field: DataField, rows: Rows) -> None:
    """Raise InvalidInputError naming the column and the row of a text that would end a line."""
    pattern = "[\r\n]" if delimiter in STANDARD_DELIMITERS else None
    matching: Any = pc.match_substring_regex(texts, pattern) if pattern else pc.match_substring(texts, delimiter)
    _refuse(
        to_numpy(matching.fill_null(False)),
        texts,
        field,
        rows,
        "it would end the line; keep such texts in JSON, Parquet, ORC or Avro files",
    )


def check_begins_without_mark(texts: Array, field: DataField, rows: Rows) -> None:
    """Raise InvalidInputError naming the column and the row of a text that begins with a byte order mark."""
    marked: Any = pc.starts_with(texts, BYTE_ORDER_MARK)
    _refuse(
        to_numpy(marked.fill_null(False)),
        texts,
        field,
        rows,
        "it begins with a byte order mark, which readers skip; keep such texts in JSON, Parquet, ORC or Avro files",
    )


def _refuse(wrong: Mask, texts: Array, field: DataField, rows: Rows, why: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvalidInputError(
            f"The column {field.name!r} has {texts[row].as_py()!r} in row {rows[row]} (counted from 0): {why}."
        )


def decoded_lines(lines: Sequence[bytes], first_line: int, path: str) -> Array:
    """Return lines as texts; raises CorruptFileError naming a line that is not UTF-8."""
    binary: Any = array_of(lines, pa.binary())
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        row = next(i for i, line in enumerate(lines) if _is_not_utf8(line))
        raise CorruptFileError(f"Line {first_line + row} of the data file {path} is not UTF-8.") from None


def _is_not_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return False


def _from_start(lists: Any) -> Any:
    """Return the lists with offsets that begin at their own values."""
    return pa.concat_arrays([lists]) if lists.offset else lists


def _with_nulls(lists: Any, literal: str) -> Any:
    null: Any = pc.equal(lists.values, scalar_of(literal, pa.string()))
    values: Any = pc.if_else(null, scalar_of(None, pa.string()), lists.values)
    return pa.ListArray.from_arrays(lists.offsets, values)


def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["x"]).select([])
