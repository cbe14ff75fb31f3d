"""Spark, Java Paimon and pypaimon, asked for the rows and the changes of one table; they must give one answer.

Spark is asked through the extension, the others read the warehouse by themselves. Values are compared in the JSON of
tests/support/peers/json.py, as far as Spark's types can tell them apart: a TIME is a number there, and a timestamp ends
with its microseconds.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.spark_ext.conftest import Lake
from tests.support.peers.java import JavaPaimon, JavaTable, PeerRows
from tests.support.peers.json import PeerType, normalised, to_json_values
from tests.support.peers.pypaimon import PyPaimon

Rows = list[list[Any]]

_MICROSECOND = 1_000


@dataclass(frozen=True, slots=True)
class Witness:
    """All who see the tables of one lake."""

    lake: Lake
    java: JavaPaimon
    python: PyPaimon

    def sql(self, statement: str) -> list[Any]:
        """The rows of a statement; `{lake}` stands for the catalog's name."""
        return self.lake.sql(statement)

    def table(self, name: str) -> JavaTable:
        """The table `database.table` (or its branch) as Java has it."""
        return self.java.table(self.lake.warehouse, name)

    def agree(self, name: str, *, pypaimon: bool = True, version: str | None = None) -> Rows:
        """What Spark, Java and (where it can) pypaimon read, in one order; AssertionError when they differ.

        A `version` is a snapshot's id or a tag, which pypaimon is not asked for.
        """
        of_java = self.table(name).read(options={} if version is None else {"scan.version": version})
        told = in_spark(of_java)
        of_spark = self.spark_rows(name, of_java.types, version=version)
        assert of_spark == told, f"Spark reads {name} as Java does: {difference(of_spark, told)}"
        if pypaimon and version is None:
            read = in_spark(self.python.table(self.lake.warehouse, name).read())
            assert read == told, f"pypaimon reads {name} as Java does: {difference(read, told)}"
        return told

    def spark_rows(
        self,
        name: str,
        types: Sequence[PeerType],
        options: Mapping[str, str] | None = None,
        *,
        version: str | None = None,
    ) -> Rows:
        """What Spark reads of a table whose columns have these types."""
        full = f"{self.lake.name}.{name.split('.', 1)[0]}.`{name.split('.', 1)[1]}`"
        if version is not None:
            frame = self.lake.frame(f"SELECT * FROM {full} VERSION AS OF '{version}'")
        else:
            frame = self.lake.spark.read.options(**dict(options or {})).table(full)
        return spark_rows(frame.toArrow(), types)

    def agree_on_changes(self, name: str, first: int, last: int) -> list[tuple[str, list[Any]]]:
        """What the snapshots from one to another, both included, changed, by Java and by Spark's audit log."""
        of_java = self.table(name).changes(first, last)
        types = (PeerType(root="STRING"), *of_java.types)
        told = [(kind, spark_row(row, of_java.types)) for kind, row in zip(of_java.kinds, of_java.rows, strict=True)]
        of_spark = self.spark_rows(f"{name}$audit_log", types, {"incremental-between": f"{first - 1},{last}"})
        assert Counter(map(_text, of_spark)) == Counter(_text([kind, *row]) for kind, row in told), "changes differ"
        return told

    def last_snapshot(self, name: str) -> int:
        """The id of the newest snapshot, 0 when there is none."""
        snapshots = self.table(name).snapshots()
        return int(snapshots[-1]["id"]) if snapshots else 0


def difference(left: Rows, right: Rows) -> str:
    """The first values that differ, for a message."""
    if len(left) != len(right):
        return f"{len(left)} rows, {len(right)} rows: {[row for row in left if row not in right][:3]}"
    rows = ((mine, other) for mine, other in zip(left, right, strict=True) if mine != other)
    return next((f"{mine}, {other}" for mine, other in rows), "none")


def in_spark(read: PeerRows) -> Rows:
    """What a peer read, as Spark would see it, in order."""
    return sorted((spark_row(row, read.types) for row in read.rows), key=_text)


def spark_row(row: Sequence[Any], types: Sequence[PeerType]) -> list[Any]:
    """A row of JSON values in the one form by which rows are compared."""
    return [_cut(normalised(value, of), of) for value, of in zip(row, types, strict=True)]


def spark_rows(table: pa.Table, types: Sequence[PeerType]) -> Rows:
    """Spark's answer in the same form and order."""
    columns = [to_json_values(_as_paimon(column, of), of) for column, of in zip(table.columns, types, strict=True)]
    return sorted((spark_row(row, types) for row in zip(*columns, strict=True)), key=_text)


def _as_paimon(column: Any, of: PeerType) -> Any:
    if of.root == "TIME":
        return pa.chunked_array([chunk.view(pa.time32("ms")) for chunk in column.chunks], pa.time32("ms"))
    return column


def _cut(value: Any, of: PeerType) -> Any:
    """The value with its timestamps cut to microseconds, as those of Spark are."""
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
