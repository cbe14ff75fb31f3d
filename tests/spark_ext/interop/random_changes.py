"""Random changes of one table for Hypothesis: statements of Spark, and writes and compactions of Java, in alternation.

`TableModel` has the expected rows of the table: by their key, or in an append table as often as they were written. A
step draws its rows and conditions from its seed when it is run, because columns may have changed by then.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from tests.support.shares import LONG

Row = dict[str, Any]
Hand = Literal["spark", "java"]
Condition = tuple[str, Callable[[Row], bool]]

PARTITIONS = ("x", "y", "z")
BY_SPARK = ("insert", "insert", "update", "delete", "merge", "overwrite", "compact", "alter", "truncate")
BY_JAVA = ("insert", "insert", "change", "overwrite", "compact")

Type = str | dict[str, Any]
NESTED: Type = {
    "type": "ROW",
    "fields": [
        {"id": 0, "name": "a", "type": "INT"},
        {"id": 1, "name": "b", "type": {"type": "ARRAY", "element": "STRING"}},
    ],
}
COLUMNS: dict[str, Type] = {"id": "INT NOT NULL", "p": "STRING NOT NULL", "v": "INT", "s": "STRING", "n": NESTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStep:
    """A change by one engine; the seed determines the rows."""

    by: Hand
    what: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomChanges:
    """A table and its changes."""

    keys: tuple[str, ...]
    partitioned: bool
    options: dict[str, str]
    steps: list[ChangeStep]


@st.composite
def random_changes(draw: st.DrawFn) -> RandomChanges:
    """Strategy for tables of any kind with a model of their rows.

    After the first insertion there are two to six steps, or at most three in `make test`.
    """
    keyed = draw(st.booleans())
    partitioned = draw(st.booleans())
    options = {"file.format": draw(st.sampled_from(("parquet", "parquet", "orc", "avro")))}
    buckets = ["1", "2", "-1"] if keyed or draw(st.booleans()) else ["-1"]
    options["bucket"] = draw(st.sampled_from(buckets))
    if not keyed and options["bucket"] != "-1":
        options["bucket-key"] = "id"
    if keyed:
        producer = draw(st.sampled_from(("none", "input", "lookup", "full-compaction")))
        if producer != "none":
            options["changelog-producer"] = producer
        if producer in ("none", "lookup") and draw(st.booleans()):
            options["deletion-vectors.enabled"] = "true"
        options["num-sorted-run.compaction-trigger"] = draw(st.sampled_from(("2", "5")))
    elif draw(st.booleans()):
        options["deletion-vectors.enabled"] = "true"
    seeds = st.integers(0, 2**32)
    steps = [ChangeStep(by=draw(st.sampled_from(("spark", "java"))), what="insert", seed=draw(seeds))]
    for _ in range(draw(st.integers(2, 6 if LONG else 3))):
        by: Hand = draw(st.sampled_from(("spark", "spark", "java")))
        what = draw(st.sampled_from(BY_SPARK if by == "spark" else BY_JAVA))
        steps.append(ChangeStep(by=by, what="insert" if what == "change" and not keyed else what, seed=draw(seeds)))
    keys = () if not keyed else ("p", "id") if partitioned else ("id",)
    return RandomChanges(keys=keys, partitioned=partitioned, options=options, steps=steps)


@dataclass(slots=True)
class TableModel:
    """The rows of a table with these keys (none: an append table), and its columns with their types."""

    keys: tuple[str, ...]
    columns: dict[str, Type] = field(default_factory=lambda: dict(COLUMNS))
    rows: list[Row] = field(default_factory=list)

    def key(self, row: Row) -> Any:
        """Return the key of a row."""
        return tuple(row[name] for name in self.keys)

    def upsert(self, rows: Iterable[Row]) -> None:
        """Write rows; a later row replaces an earlier one of the same key."""
        for row in rows:
            if self.keys:
                self.rows = [old for old in self.rows if self.key(old) != self.key(row)]
            self.rows.append(row)

    def remove(self, gone: Callable[[Row], bool]) -> None:
        """Remove the rows that satisfy the condition."""
        self.rows = [row for row in self.rows if not gone(row)]

    def update(self, chosen: Callable[[Row], bool], change: Callable[[Row], Row]) -> None:
        """Change rows, but not their keys."""
        self.rows = [change(row) if chosen(row) else row for row in self.rows]

    def listed(self, row: Row) -> list[Any]:
        """Return a row in the JSON of the peers."""
        return [row[name] for name in self.columns]

    def draw_rows(self, source: random.Random, most: int, *, distinct: tuple[str, ...] = ()) -> list[Row]:
        """Draw rows of any values, at most one for each value of `distinct`."""
        rows: dict[Any, Row] = {}
        for number in range(source.randint(1, most)):
            row = {name: _value(source, name, of) for name, of in self.columns.items()}
            rows[tuple(row[name] for name in distinct) if distinct else number] = row
        return list(rows.values())

    def sql_values(self, rows: Iterable[Row]) -> str:
        """Return rows as a SQL relation: SELECT … UNION ALL SELECT …, with the table's types and column names."""
        return " UNION ALL ".join(
            "SELECT "
            + ", ".join(
                f"CAST({literal(row[name], of)} AS {sql_type(of)}) AS {name}" for name, of in self.columns.items()
            )
            for row in rows
        )


def draw_condition(source: random.Random) -> Condition:
    """Return a condition in SQL and in Python."""
    number = source.randint(0, 9)
    partition = source.choice(PARTITIONS)
    conditions: list[Condition] = [
        (f"v > {number}", lambda row: row["v"] is not None and row["v"] > number),
        (f"id IN ({number}, {number + 1})", lambda row: row["id"] in (number, number + 1)),
        (f"p = '{partition}'", lambda row: row["p"] == partition),
        ("v IS NULL", lambda row: row["v"] is None),
        ("n.a IS NULL", lambda row: row["n"] is None or row["n"][0] is None),
        (f"p <> '{partition}' AND id < {number}", lambda row: row["p"] != partition and row["id"] < number),
    ]
    return source.choice(conditions)


def _value(source: random.Random, name: str, of: Type) -> Any:
    if name == "id":
        return source.randint(0, 9)
    if name == "p":
        return source.choice(PARTITIONS)
    return drawn(source, of)


def drawn(source: random.Random, of: Type) -> Any:
    """Draw a value of the type in the JSON of the peers, or null."""
    if source.random() < 0.2:
        return None
    if isinstance(of, dict):
        if of["type"] == "ROW":
            return [drawn(source, inner["type"]) for inner in of["fields"]]
        return [drawn(source, of["element"]) for _ in range(source.randint(0, 2))]
    return source.choice(("", "a", "b c", "it's")) if of == "STRING" else source.randint(0, 9)


def literal(value: Any, of: Type) -> str:
    """Return a value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(of, dict):
        if of["type"] == "ROW":
            pairs = (f"'{f['name']}', {_typed(v, f['type'])}" for v, f in zip(value, of["fields"], strict=True))
            return f"named_struct({', '.join(pairs)})"
        return f"array({', '.join(_typed(v, of['element']) for v in value)})"
    return "'{}'".format(value.replace("'", "\\'")) if isinstance(value, str) else str(value)


def _typed(value: Any, of: Type) -> str:
    return f"CAST({literal(value, of)} AS {sql_type(of)})"


def sql_type(of: Type) -> str:
    """Return a type of Spark."""
    if isinstance(of, dict):
        if of["type"] == "ROW":
            fields = (f"{f['name']}: {sql_type(f['type'])}" for f in of["fields"])
            return f"STRUCT<{', '.join(fields)}>"
        return f"ARRAY<{sql_type(of['element'])}>"
    return of.removesuffix(" NOT NULL")
