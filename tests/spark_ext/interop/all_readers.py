"""Comparison of the rows and changes that Spark, Java Paimon and pypaimon read of one table.

Spark reads through the extension, the others read the warehouse directly. Values are compared in the JSON of
tests/support/peers/json.py, as far as Spark's types distinguish them: a TIME is a number there, and a timestamp has
microseconds at most.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.spark_ext.conftest import SparkLake
from tests.support.peers.java import JavaPaimon, JavaTable, PeerRows
from tests.support.peers.json import PeerType, normalised, to_json_values
from tests.support.peers.pypaimon import PyPaimon

Rows = list[list[Any]]

_MICROSECOND = 1_000


@dataclass(frozen=True, slots=True)
class AllReaders:
    """All readers of the tables of one lake."""

    lake: SparkLake
    java: JavaPaimon
    python: PyPaimon

    def sql(self, statement: str) -> list[Any]:
        """Return the rows of a statement; `{lake}` is replaced by the catalog's name."""
        return self.lake.sql(statement)

    def table(self, name: str) -> JavaTable:
        """Return the table `database.table` (or its branch) in Java."""
        return self.java.table(self.lake.warehouse, name)

    def agree(self, name: str, *, pypaimon: bool = True, version: str | None = None) -> Rows:
        """Assert that Spark, Java and (where it can) pypaimon read the same rows, and return the rows in one order.

        A `version` is a snapshot's id or a tag, which pypaimon is not asked for.
        """
        of_java = self.table(name).read(options={} if version is None else {"scan.version": version})
        expected = in_spark(of_java)
        of_spark = self.spark_rows(name, of_java.types, version=version)
        assert of_spark == expected, f"Spark reads {name} as Java does: {difference(of_spark, expected)}"
        if pypaimon and version is None:
            read = in_spark(self.python.table(self.lake.warehouse, name).read())
            assert read == expected, f"pypaimon reads {name} as Java does: {difference(read, expected)}"
        return expected

    def spark_rows(
        self,
        name: str,
        types: Sequence[PeerType],
        options: Mapping[str, str] | None = None,
        *,
        version: str | None = None,
    ) -> Rows:
        """Return the rows that Spark reads of a table whose columns have these types."""
        full = f"{self.lake.name}.{name.split('.', 1)[0]}.`{name.split('.', 1)[1]}`"
        if version is not None:
            frame = self.lake.frame(f"SELECT * FROM {full} VERSION AS OF '{version}'")
        else:
            frame = self.lake.spark.read.options(**dict(options or {})).table(full)
        return spark_rows(frame.toArrow(), types)

    def agree_on_changes(self, name: str, first: int, last: int) -> list[tuple[str, list[Any]]]:
        """Assert that Java and Spark's audit log have the same changes from one snapshot to another, inclusive. Return
        them.
        """
        of_java = self.table(name).changes(first, last)
        types = (PeerType(root="STRING"), *of_java.types)
        expected = [
            (kind, spark_row(row, of_java.types)) for kind, row in zip(of_java.kinds, of_java.rows, strict=True)
        ]
        of_spark = self.spark_rows(f"{name}$audit_log", types, {"incremental-between": f"{first - 1},{last}"})
        assert Counter(map(_text, of_spark)) == Counter(_text([kind, *row]) for kind, row in expected), "changes differ"
        return expected

    def last_snapshot(self, name: str) -> int:
        """Return the id of the newest snapshot, or 0 without a snapshot."""
        snapshots = self.table(name).snapshots()
        return int(snapshots[-1]["id"]) if snapshots else 0


def difference(left: Rows, right: Rows) -> str:
    """Return the first values that differ, for a message."""
    if len(left) != len(right):
        return f"{len(left)} rows, {len(right)} rows: {[row for row in left if row not in right][:3]}"
    rows = ((mine, other) for mine, other in zip(left, right, strict=True) if mine != other)
    return next((f"{mine}, {other}" for mine, other in rows), "none")


def in_spark(read: PeerRows) -> Rows:
    """Return the rows of a peer in Spark's form, in order."""
    return sorted((spark_row(row, read.types) for row in read.rows), key=_text)


def spark_row(row: Sequence[Any], types: Sequence[PeerType]) -> list[Any]:
    """Return a row of JSON values in the canonical form for comparisons."""
    return [_cut(normalised(value, of), of) for value, of in zip(row, types, strict=True)]


def spark_rows(table: pa.Table, types: Sequence[PeerType]) -> Rows:
    """Return Spark's rows in the same form and order."""
    columns = [to_json_values(_as_paimon(column, of), of) for column, of in zip(table.columns, types, strict=True)]
    return sorted((spark_row(row, types) for row in zip(*columns, strict=True)), key=_text)


def _as_paimon(column: Any, of: PeerType) -> Any:
    if of.root == "TIME":
        return pa.chunked_array([chunk.view(pa.time32("ms")) for chunk in column.chunks], pa.time32("ms"))
    return column


def _cut(value: Any, of: PeerType) -> Any:
    """Return the value with its timestamps truncated to microseconds, as in Spark."""
    if value is None:
        return None
    match of.root:
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return value // _MICROSECOND * _MICROSECOND
        case "ARRAY":
            return [_cut(element, of.children[0]) for element in value]
        case "MAP" | "MULTISET":
            return [[_cut(key, of.children[0]), _cut(item, of.children[1])] for key, item in value]
        case "ROW":
            return [_cut(field, child) for field, child in zip(value, of.children, strict=True)]
        case _:
            return value


def _text(row: Any) -> str:
    return json.dumps(row)
