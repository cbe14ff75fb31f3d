"""Lines of a file that a table can't take: the first ends the import, or all are left out and written to a file.

A file of rejected lines has an object a line: `{"file": "orders.csv", "line": 3, "column": "amount", "reason": "…",
"text": "1,two"}`. Rows of files that have no lines (Parquet, ORC, Arrow) have `row`, counted from 0, instead of `line`.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from interbed.storage.base.errors import InvalidInputError

_TEXT_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line, or a row where the format has no lines; `reason` is what is wrong with it, and begins in lower case."""

    path: Path
    number: int
    reason: str
    text: str
    column: str | None = None
    unit: str = "line"

    def __str__(self) -> str:
        counted = " (counted from 0)" if self.unit == "row" else ""
        column = "" if self.column is None else f", column '{self.column}'"
        return f"{self.path}, {self.unit} {self.number}{counted}{column}: {self.reason.rstrip('.')}"

    def to_json(self) -> dict[str, object]:
        """The object of the file of rejected lines; the text is whole there."""
        place: dict[str, object] = {"file": str(self.path), self.unit: self.number}
        return {**place, "column": self.column, "reason": self.reason, "text": self.text}


class BadLines:
    """What becomes of bad lines: without `skip` the first is raised, else they are counted and written to `sink`."""

    def __init__(self, *, skip: bool, sink: IO[bytes] | None = None) -> None:
        self._sink = sink
        self.skip = skip
        self.count = 0
        self.first: BadLine | None = None

    def add(self, found: Iterable[BadLine]) -> None:
        """Take bad lines of one file; raises InvalidInputError for the first of them unless they are skipped."""
        for line in sorted(found, key=lambda each: each.number):
            if not self.skip:
                shown = shortened(line.text)
                raise InvalidInputError(
                    f"{line}. The {line.unit}: {shown}. Nothing was written; --skip-bad leaves out such "
                    f"{line.unit}s, --rejects FILE lists them."
                )
            self.first = self.first or line
            self.count += 1
            if self._sink is not None:
                self._sink.write(json.dumps(line.to_json()).encode() + b"\n")


def shortened(text: str) -> str:
    """A text for an error, in one line."""
    shown = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"
    return repr(shown)
