"""The text of atomic types, as in schema files: `DECIMAL(10, 2) NOT NULL`, `STRING`.

Source: Paimon's documentation of data types.
"""

import re
from typing import NamedTuple

from interbed.storage.base.errors import NotSupportedError

MAX_LENGTH = 2**31 - 1
"""The length that makes VARCHAR a STRING and VARBINARY a BYTES."""

_NOT_NULL = re.compile(r"\s+NOT\s+NULL\s*$")
_ATOMIC = re.compile(
    r"^\s*(?P<name>[A-Z_]+(?:\s+PRECISION)?)\s*(?:\(\s*(?P<first>\d+)\s*(?:,\s*(?P<second>\d+)\s*)?\))?"
    r"(?P<suffix>\s+WITH(?:OUT)?(?:\s+LOCAL)?\s+TIME\s+ZONE)?\s*$"
)
_ALIASES = {"INTEGER": "INT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "DOUBLE PRECISION": "DOUBLE"}
_WIDEST = {"STRING": "VARCHAR", "BYTES": "VARBINARY"}
_WITH_LENGTH = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})
UNSUPPORTED = frozenset({"VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY"})


class AtomicText(NamedTuple):
    """The parts of an atomic type's text; `root` is the name without aliases, which may be of no type at all."""

    root: str
    length: int | None
    precision: int | None
    scale: int | None
    nullable: bool


def split_atomic(text: str) -> AtomicText | None:
    """The parts of `VARCHAR(10) NOT NULL`, None for other text; raises NotSupportedError for BLOB and the like."""
    body, nullable = split_nullable(text.upper())
    match = _ATOMIC.match(body)
    if match is None:
        return None
    name = " ".join(match["name"].split())
    name = _ALIASES.get(name, name)
    if name in UNSUPPORTED:
        raise NotSupportedError(f"Columns of type {name} are not supported yet.")
    if name in _WIDEST:
        return AtomicText(_WIDEST[name], MAX_LENGTH, None, None, nullable)
    if name == "TIMESTAMP" and "LOCAL" in (match["suffix"] or ""):
        name = "TIMESTAMP_LTZ"
    first = int(match["first"]) if match["first"] else None
    second = int(match["second"]) if match["second"] else None
    if name in _WITH_LENGTH:
        return AtomicText(name, first, None, None, nullable)
    return AtomicText(name, None, first, second, nullable)


def split_nullable(text: str) -> tuple[str, bool]:
    """The text without `NOT NULL` at its end, and whether it admits nulls."""
    stripped, count = _NOT_NULL.subn("", text)
    return stripped, count == 0


def atomic_text(root: str, length: int | None, precision: int | None, scale: int | None) -> str:
    """The text of a type, without whether it admits nulls."""
    if root == "VARCHAR" and length == MAX_LENGTH:
        return "STRING"
    if root == "VARBINARY" and length == MAX_LENGTH:
        return "BYTES"
    if root in _WITH_LENGTH:
        return f"{root}({length})"
    if root == "DECIMAL":
        return f"DECIMAL({precision}, {scale})"
    if root in ("TIME", "TIMESTAMP"):
        return f"{root}({precision})"
    if root == "TIMESTAMP_LTZ":
        return f"TIMESTAMP({precision}) WITH LOCAL TIME ZONE"
    return root
