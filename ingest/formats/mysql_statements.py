"""Statements of MySQL's SQL that end a table's name: from then on it is the name of another table or of none.

    DROP TABLE [IF EXISTS] a, `shop`.`b`          RENAME TABLE a TO c, b TO a
    DROP DATABASE shop                            ALTER TABLE a ADD d INT, RENAME TO c
    CREATE OR REPLACE TABLE a (…)

A rename ends both names, the old one and the new one: another table has the new name from then on. Temporary tables do
not count, because no messages have their rows. Source: MySQL's manual, chapter SQL Statements; MariaDB's.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from interbed.ingest.flow.changes import EndedName

_TOKENS = re.compile(
    r"""
      /\*M?!\d*  | \*/                      # The text between these is executed.
    | /\*.*?(?:\*/|\Z)                      # Other comments are not executed.
    | --(?=\s|\Z)[^\n]* | \#[^\n]*
    | \s+
    | `(?P<name>(?:[^`]|``)*)`
    | (?P<text>"(?:[^"\\]|\\.|"")*" | '(?:[^'\\]|\\.|'')*')
    | (?P<word>[\w$]+)
    | (?P<sign>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_RENAMED_PARTS = ("COLUMN", "INDEX", "KEY", "CONSTRAINT")
DROPPED = "was dropped"
DROPPED_DATABASE = "was dropped with its database"
REPLACED = "was dropped and created again"
REPLACED_BY_RENAME = "is another table that was renamed to its name"


def renamed(new: str) -> str:
    """Return the description of a table that was renamed."""
    return f"was renamed to {new}"


class _Token(NamedTuple):
    """A word, a sign, or a quoted text; `word` is the keyword in upper case, and empty in quotes."""

    text: str
    word: str
    is_name: bool


class _Name(NamedTuple):
    database: str | None
    name: str

    def __str__(self) -> str:
        return self.name if self.database is None else f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class _EndedTable:
    """A name that a statement ends. A `name` without a database is in the database of the statement."""

    database: str | None
    name: str | None
    what: str


class _UnreadableError(Exception):
    """The statement is of a kind that is not known here."""


def ended_names(sql: str, database: str) -> "Sequence[EndedName] | None":
    """Return the names that a statement ends, possibly none; None if it cannot be parsed.

    The message names one `database`: that of the table which the statement names first or last. If some of the names
    have a database of their own, the database of the other names is not known, and they are names of any database.
    """
    found: list[_EndedTable] = []
    is_read = False
    for statement in _statements(sql):
        try:
            found += _Statement(statement).ended()
            is_read = True
        except _UnreadableError:
            continue
    if not is_read:
        return None
    is_mixed = len({each.database is None for each in found}) > 1
    own = None if is_mixed or not database else database
    by_name: dict[tuple[str | None, str | None], EndedName] = {}
    for each in found:
        name = EndedName(own if each.database is None else each.database, each.name, each.what)
        by_name.setdefault((name.database, name.name), name)
    return list(by_name.values())


def _statements(sql: str) -> Iterator[list[_Token]]:
    """Yield the tokens of each statement, without comments."""
    tokens: list[_Token] = []
    # A loop over the tokens of one message, which has no rows.
    for match in _TOKENS.finditer(sql):
        name, text, word, sign = match.group("name", "text", "word", "sign")
        if name is not None:
            tokens.append(_Token(name.replace("``", "`"), "", True))
        elif text is not None:
            # With ANSI_QUOTES a text in double quotes is a name.
            tokens.append(_Token(text[1:-1].replace('""', '"'), "", text[0] == '"'))
        elif word is not None:
            tokens.append(_Token(word, word.upper(), True))
        elif sign == ";":
            if tokens:
                yield tokens
            tokens = []
        elif sign is not None:
            tokens.append(_Token(sign, sign, False))
    if tokens:
        yield tokens


class _Statement:
    """Parser of one statement, from its first token on."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def ended(self) -> list[_EndedTable]:
        """Return the names that the statement ends. Raises _UnreadableError."""
        if self._has("RENAME"):
            return self._renamed_tables() if self._has("TABLE") or self._has("TABLES") else []
        if self._has("ALTER"):
            return self._altered_table()
        if self._has("DROP"):
            return self._dropped()
        if self._has("CREATE"):
            return self._replaced()
        raise _UnreadableError

    def _dropped(self) -> list[_EndedTable]:
        if self._has("TEMPORARY"):
            return []
        if self._has("DATABASE") or self._has("SCHEMA"):
            self._if_exists()
            return [_EndedTable(self._next_name(), None, DROPPED_DATABASE)]
        if not (self._has("TABLE") or self._has("TABLES")):
            return []
        self._if_exists()
        names = [self._name()]
        while self._has(","):
            names.append(self._name())
        return [_EndedTable(*name, DROPPED) for name in names]

    def _replaced(self) -> list[_EndedTable]:
        if not (self._has("OR") and self._has("REPLACE") and self._has("TABLE")):
            return []
        return [_EndedTable(*self._name(), REPLACED)]

    def _renamed_tables(self) -> list[_EndedTable]:
        found = self._renamed_table()
        while self._has(","):
            found += self._renamed_table()
        return found

    def _renamed_table(self) -> list[_EndedTable]:
        self._if_exists()
        old = self._name()
        self._wait()
        if not self._has("TO"):
            raise _UnreadableError
        return _renaming(old, self._name())

    def _altered_table(self) -> list[_EndedTable]:
        while self._has("ONLINE") or self._has("OFFLINE") or self._has("IGNORE"):
            pass
        if not self._has("TABLE"):
            return []
        self._if_exists()
        old = self._name()
        self._wait()
        found: list[_EndedTable] = []
        while self._at < len(self._tokens):
            if self._has("RENAME") and not self._is_one_of(_RENAMED_PARTS):
                if not (self._has("TO") or self._has("AS")):
                    self._has("=")
                found += _renaming(old, self._name())
            self._skip_clause()
        return found

    def _skip_clause(self) -> None:
        """Skip to behind the next comma that is not in parentheses."""
        depth = 0
        while self._at < len(self._tokens):
            sign = self._tokens[self._at].word
            self._at += 1
            depth += (sign == "(") - (sign == ")")
            if sign == "," and depth <= 0:
                return

    def _has(self, word: str) -> bool:
        """Consume the next token if it is the keyword or sign, and return whether it was."""
        found = self._is_one_of((word,))
        self._at += found
        return found

    def _is_one_of(self, words: Sequence[str]) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].word in words

    def _if_exists(self) -> None:
        if [each.word for each in self._tokens[self._at : self._at + 2]] == ["IF", "EXISTS"]:
            self._at += 2

    def _wait(self) -> None:
        """Skip MariaDB's limit of how long a statement waits for locks."""
        if not self._has("NOWAIT") and self._has("WAIT"):
            self._at += 1

    def _name(self) -> _Name:
        """Return the name of a table, with its database or without it."""
        first = self._next_name()
        return _Name(first, self._next_name()) if self._has(".") else _Name(None, first)

    def _next_name(self) -> str:
        if self._at == len(self._tokens) or not self._tokens[self._at].is_name:
            raise _UnreadableError
        self._at += 1
        return self._tokens[self._at - 1].text


def _renaming(old: _Name, new: _Name) -> list[_EndedTable]:
    """Return both names, unless they are the same."""
    return [] if old == new else [_EndedTable(*old, renamed(str(new))), _EndedTable(*new, REPLACED_BY_RENAME)]
