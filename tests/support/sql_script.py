"""SQL with its expected answers beside it, for pages of docs/ and for scripts.

    SELECT id, name FROM shop.orders;
    -- 1, x
    -- 2, null
    DELETE FROM shop.orders VERSION AS OF 1;
    -- ! can't be changed

Lines that begin with `-- ` right after a statement are its rows (`-- (nothing)` for none), a line that begins with
`-- ! ` is a part of the error that it ends with, and a statement without either has to succeed. Rows are compared in
order if the statement has an ORDER BY or is a DESCRIBE, SHOW or EXPLAIN, otherwise in any order; `...` in an
expected row stands for any text. Other comments are written as `/* … */` or stand before a statement.
"""

import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

NOTHING = "(nothing)"
_ORDERED = re.compile(r"\bORDER\s+BY\b|^\s*(DESC|DESCRIBE|SHOW|EXPLAIN)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Statement:
    """SQL statement; `rows` and `error` are None where nothing is expected of them. `line` counts from 1."""

    sql: str
    line: int
    rows: tuple[str, ...] | None = None
    error: str | None = None

    @property
    def ordered(self) -> bool:
        """Whether the order of the rows matters."""
        return _ORDERED.search(self.sql) is not None


def statements_of(script: str) -> list[Statement]:
    """Return the statements of a script; each ends with a semicolon at the end of a line."""
    return list(_statements(script.splitlines()))


def _statements(lines: Sequence[str]) -> Iterator[Statement]:
    sql: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not sql and (not line.strip() or line.startswith("--")):
            continue
        sql.append(line)
        if not line.rstrip().endswith(";"):
            continue
        begin = number - len(sql) + 1
        said = []
        while number < len(lines) and lines[number].startswith("-- "):
            said.append(lines[number][3:].rstrip())
            number += 1
        text = "\n".join(sql).rstrip().rstrip(";")
        if said and said[0].startswith("! "):
            yield Statement(text, begin, error=" ".join(said)[2:])
        else:
            yield Statement(text, begin, rows=None if not said else tuple(r for r in said if r != NOTHING))
        sql = []
    assert not sql, f"no semicolon ends: {' '.join(sql)}"


def run_script(script: str, execute: Callable[[str], list[Any]]) -> int:
    """Run all statements; `execute` returns the rows of one. Return their number. Raises AssertionError for the first
    difference.
    """
    statements = statements_of(script)
    for statement in statements:
        check(statement, execute)
    return len(statements)


def check(statement: Statement, execute: Callable[[str], list[Any]]) -> None:
    """Run one statement. Raises AssertionError with the difference."""
    place = f"line {statement.line}: {statement.sql}"
    try:
        rows = [row_text(row) for row in execute(statement.sql)]
    except Exception as error:
        # Clients raise different classes; only the text of the error is compared.
        if statement.error is None:
            raise AssertionError(f"{place}\nfailed with {type(error).__name__}: {error}") from error
        if statement.error not in str(error):
            raise AssertionError(f"{place}\nfailed otherwise, with {type(error).__name__}: {error}") from error
        return
    assert statement.error is None, f"{place}\ndid not fail"
    if statement.rows is None:
        return
    expected = list(statement.rows)
    if not statement.ordered:
        rows, expected = sorted(rows), sorted(expected)
    same = len(rows) == len(expected) and all(map(_matches, expected, rows))
    assert same, f"{place}\nexpected {expected}\ngot      {rows}"


def _matches(expected: str, found: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), found, re.DOTALL) is not None


def row_text(row: Any) -> str:
    """Return a row as a line of text."""
    return ", ".join(value_text(value) for value in row)


def value_text(value: Any) -> str:
    """Return a value as text: null, true, 1.5, [1, 2], {k: v}, {field, field}, X'00ff', and str() of other values."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case bytes() | bytearray():
            return f"X'{value.hex()}'"
        case Decimal():
            return f"{value:f}"
        case datetime.datetime():
            return value.isoformat(" ")
        case dict():
            return "{" + ", ".join(f"{value_text(k)}: {value_text(v)}" for k, v in value.items()) + "}"
        case tuple():
            return "{" + ", ".join(map(value_text, value)) + "}"
        case list():
            return "[" + ", ".join(map(value_text, value)) + "]"
        case _:
            return str(value)
