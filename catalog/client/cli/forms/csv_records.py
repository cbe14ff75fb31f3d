"""The records of a CSV file, with the lines that they begin in, as blocks of whole records.

A record ends with a line, unless this is inside of quotes. A quote that opens and is never closed would take all that
follows: then the line that it is in is a record of its own, and bad.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_READ_BYTES = 4 << 20
_RECORD_BYTES_MAX = 32 << 20
"""What a quote may enclose; one that is not closed within this counts as never closed."""


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """The bytes of a record without the end of its line, and the line that it begins in."""

    data: bytes
    line: int
    fields: int
    is_open: bool = False
    """Whether a quote in it is never closed."""


class CsvBlock:
    """Whole records that follow one another; `first_line` is the line of the first one."""

    def __init__(self, data: bytes, first_line: int, syntax: "CsvSyntax", *, is_open: bool = False) -> None:
        self.data = data
        self.first_line = first_line
        self.is_open = is_open
        self.syntax = syntax

    @property
    def lines(self) -> int:
        """The lines that the block has."""
        return _lines(self.data)

    def records(self) -> Iterator[CsvRecord]:
        """The records; empty lines are none unless records have one field."""
        line = self.first_line
        if self.is_open:
            yield CsvRecord(self.data.rstrip(b"\r\n"), line, 1, is_open=True)
            return
        for match in self.syntax.record.finditer(self.data):
            body = match[1]
            # The pattern matches once more behind the last line.
            if body or (self.syntax.has_one_field and match[0]):
                yield CsvRecord(body, line, self.syntax.fields(body))
            line += _lines(match[0])


class CsvSyntax:
    """The syntax of records with a character between fields.

    An empty line is no record, unless `has_one_field`, which is known when the header is: then it is one that is empty.
    """

    def __init__(self, delimiter: str) -> None:
        self.has_one_field = False
        self._delimiter = delimiter.encode()
        escaped = re.escape(delimiter).encode()
        plain = rb"[^%s\r\n]*+" % escaped
        self._field = rb'(?:"[^"]*+(?:""[^"]*+)*+"(?!")%s|(?!")%s)' % (plain, plain)
        body = rb"%s(?:%s%s)*+" % (self._field, escaped, self._field)
        self.record: re.Pattern[bytes] = re.compile(rb"(%s)(?:\r\n|\n|\r|\Z)" % body)
        # Of a part of a file the last line may go on, and a \r at its end be followed by a \n.
        self.whole_records: re.Pattern[bytes] = re.compile(rb"(?:%s(?:\r\n|\n|\r(?!\Z)))*+" % body)

    def fields(self, record: bytes) -> int:
        """How many fields a record has."""
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
    """The blocks of a file; the first begins with the header."""
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
            # A quote is opened here and not closed.
            end = min((at + 1 for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0), default=len(data))
            block = CsvBlock(data[:end], line, syntax, is_open=True)
        else:
            continue
        data, line = data[end:], line + block.lines
        yield block


def _end(data: bytes, syntax: CsvSyntax, *, at_end: bool) -> int:
    """Where the last record ends that is whole; at the end of a file one needs no end of a line."""
    if b'"' not in data:
        return data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, len(data) - 1) + 1
    whole: Any = syntax.whole_records.match(data)
    end: int = whole.end()
    if at_end and end < len(data):
        last = syntax.record.match(data, end)
        # A record that an open quote is in does not match.
        return last.end() if last is not None else end
    return end


def _lines(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
