"""Recipes of the golden tables: steps that any peer's table can run.

`TABLES` maps a name to its recipe; `TableRecipe.steps` runs in order against a table of Java Paimon.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.golden.values import LEAP, NESTED, SCALARS, b64
from tests.support.peers.java import JavaTable
from tests.support.peers.json import TypeJson

Columns = list[tuple[str, TypeJson]]
Step = Callable[[JavaTable], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecipe:
    """Columns, keys and options of a table, and the steps that fill it."""

    columns: Columns
    steps: Sequence[Step]
    primary_keys: list[str] = field(default_factory=list)
    partition_keys: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)


def put(*rows: Sequence[Any], **arguments: Any) -> Step:
    """Return the step that commits rows."""
    return lambda table: table.write(list(rows), **arguments)


def change(*kinds_and_rows: tuple[str, Sequence[Any]]) -> Step:
    """Return the step that commits rows with their kinds."""
    kinds = [kind for kind, _ in kinds_and_rows]
    return lambda table: table.write([row for _, row in kinds_and_rows], kinds=kinds)


def alter(*changes: dict[str, Any]) -> Step:
    """Return the step that changes the schema."""
    return lambda table: table.alter(*changes)


def columns(names: Sequence[str], *rows: Sequence[Any], first_row_id: int = 0) -> Step:
    """Return the step that commits values of some columns for the rows from a row id on."""
    return lambda table: table.write_columns(names, list(rows), first_row_id=first_row_id)


def compact(table: JavaTable) -> object:
    """Run a full compaction of the table."""
    return table.compact()


_VALUE_TYPES: list[tuple[TypeJson, list[Any]]] = [*SCALARS.items(), *NESTED]
ALL_TYPES: Columns = [(f"c{i}", of) for i, (of, _) in enumerate(_VALUE_TYPES)]


def all_types_row(turn: int) -> list[Any]:
    """Return a row with the `turn`-th value of every type, so that a few turns use all values."""
    return [values[turn % len(values)] for _, values in _VALUE_TYPES]


_NULLS: list[Any] = [None] * len(_VALUE_TYPES)

# Keys of every type that Paimon allows in a primary key.
_KEY_TYPES = [of for of in SCALARS if of not in ("TIME(0)", "DECIMAL(1, 0)")]
_KEYS: Columns = [(f"k{i}", f"{of} NOT NULL") for i, of in enumerate(_KEY_TYPES)]


def _key_row(turn: int, value: str | None) -> list[Any]:
    return [*(SCALARS[of][turn % len(SCALARS[of])] for of in _KEY_TYPES), value]


_SIMPLE: Columns = [("id", "INT NOT NULL"), ("name", "STRING"), ("amount", "DECIMAL(12, 2)"), ("ts", "TIMESTAMP(3)")]


def _simple(key: int, turn: int = 0) -> list[Any]:
    if key % 5 == 4:
        return [key, None, None, None]
    return [key, f"name {key} of turn {turn}", f"{key * 10 + turn}.25", (key * 1000 + turn) * 1_000_000]


_LEVEL_STEPS: list[Step] = [
    put(*(_simple(i) for i in range(20))),
    change(("+U", _simple(3, 1)), ("-D", _simple(4, 1)), ("+I", _simple(20, 1))),
    change(("+I", _simple(4, 2)), ("-D", _simple(5)), ("-D", _simple(99))),
]

_EVOLUTION: list[Step] = [
    put([1, 10, "1.5", "one", "5.25", [1, "x"], "gone"], [2, None, None, None, None, None, None]),
    alter(
        {"op": "add", "path": ["extra"], "type": "STRING", "comment": "added"},
        {"op": "rename", "path": ["name"], "to": "title"},
        {"op": "drop", "path": ["old"]},
    ),
    put([1, 11, "2.5", "uno", "6.25", [2, "y"], "extra 1"], [3, 30, "3.5", "three", "7.25", [3, "z"], None]),
    alter(
        {"op": "update_type", "path": ["n"], "type": "BIGINT"},
        {"op": "update_type", "path": ["f"], "type": "DOUBLE"},
        {"op": "update_type", "path": ["d"], "type": "DECIMAL(20, 4)"},
        {"op": "add", "path": ["r", "q"], "type": "DATE"},
        {"op": "add", "path": ["front"], "type": "INT", "first": True},
        # A dropped name is used again for another column.
        {"op": "add", "path": ["old"], "type": "BIGINT", "after": "title"},
    ),
    put([7, 4, 2**40, "0.1", "four", 44, "8.1234", [4, "w", 19782], "extra 4"]),
]
_EVOLVING: Columns = [
    ("id", "INT NOT NULL"),
    ("n", "INT"),
    ("f", "FLOAT"),
    ("name", "STRING"),
    ("d", "DECIMAL(10, 2)"),
    (
        "r",
        {
            "type": "ROW",
            "fields": [{"id": 0, "name": "p", "type": "INT"}, {"id": 1, "name": "s", "type": "STRING"}],
        },
    ),
    ("old", "STRING"),
]

ODD_STRINGS = [
    None,
    "",
    " ",
    "plain",
    "a/b",
    "a:b",
    "a=b",
    "a%b",
    "100%25",
    "a b",
    "tab\tline\nend",
    "quote'\"",
    "back\\slash",
    "{brace}[x]^",
    "#?*<>|",
    "日本",
    ".dot",
    "..",
    "null",
]
_PARTITION_TYPES: Columns = [
    ("p_bool", "BOOLEAN"),
    ("p_tiny", "TINYINT"),
    ("p_int", "INT"),
    ("p_big", "BIGINT"),
    ("p_float", "FLOAT"),
    ("p_double", "DOUBLE"),
    ("p_dec", "DECIMAL(10, 2)"),
    ("p_char", "CHAR(3)"),
    ("p_date", "DATE"),
    ("p_time", "TIME(3)"),
    ("p_ts", "TIMESTAMP(6)"),
    ("p_ltz", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
]
_PARTITION_ROWS: list[list[Any]] = [
    [True, 1, 2, 3, "1.5", "2.5", "3.25", "abc", 19782, 45_296_123, LEAP // 1000 * 1000, LEAP // 10**6 * 10**6],
    [False, -1, -2, -3, "-0.0", "1e+20", "-0.01", "x y", -1, 0, -1_000, 0],
    [None] * 12,
]


def _partition_types(legacy: str) -> TableRecipe:
    return TableRecipe(
        columns=[("id", "INT NOT NULL"), *_PARTITION_TYPES],
        partition_keys=[name for name, _ in _PARTITION_TYPES],
        options={"partition.legacy-name": legacy},
        steps=[put(*([i, *row] for i, row in enumerate(_PARTITION_ROWS)))],
    )


# Without it Java Paimon would compact during the writes, and level 0 would be empty.
_WRITE_ONLY = {"write-only": "true"}

TABLES: dict[str, TableRecipe] = {
    "pk_all_types": TableRecipe(
        columns=[("id", "INT NOT NULL"), ("dt", "STRING NOT NULL"), *ALL_TYPES],
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={"bucket": "2", **_WRITE_ONLY},
        steps=[
            put(*([i, f"2024-01-0{1 + i % 2}", *all_types_row(i)] for i in range(9)), [9, "2024-01-01", *_NULLS]),
            change(
                ("+U", [0, "2024-01-01", *_NULLS]),
                ("+U", [9, "2024-01-01", *all_types_row(3)]),
                ("+I", [1, "2024-01-01", *all_types_row(1)]),
            ),
            change(
                ("-D", [2, "2024-01-01", *all_types_row(2)]),
                ("-D", [3, "2024-01-02", *_NULLS]),
                ("+I", [10, "2024-01-03", *all_types_row(4)]),
            ),
        ],
    ),
    "pk_all_key_types": TableRecipe(
        columns=[*_KEYS, ("v", "STRING")],
        primary_keys=[name for name, _ in _KEYS],
        options={"bucket": "3", **_WRITE_ONLY},
        steps=[
            put(*(_key_row(turn, f"v{turn}") for turn in range(12))),
            change(("+U", _key_row(3, None)), ("-D", _key_row(5, "v5")), ("+I", _key_row(12, "v12"))),
        ],
    ),
    "pk_thin": TableRecipe(
        columns=_SIMPLE,
        primary_keys=["id"],
        options={"bucket": "2", "data-file.thin-mode": "true", **_WRITE_ONLY},
        steps=_LEVEL_STEPS,
    ),
    "pk_compacted": TableRecipe(
        columns=_SIMPLE, primary_keys=["id"], options={"bucket": "2"}, steps=[*_LEVEL_STEPS, compact]
    ),
    "pk_levels": TableRecipe(
        columns=_SIMPLE,
        primary_keys=["id"],
        options={"bucket": "1", **_WRITE_ONLY},
        steps=[
            *_LEVEL_STEPS,
            compact,
            change(("+U", _simple(0, 3)), ("-D", _simple(1))),
            change(("-U", _simple(2)), ("+U", _simple(2, 4)), ("+I", _simple(30, 4))),
        ],
    ),
    "pk_many_files": TableRecipe(
        # Small files: one bucket whose key ranges form several intervals.
        columns=_SIMPLE,
        primary_keys=["id"],
        options={"bucket": "1", **_WRITE_ONLY},
        steps=[
            *(put(*(_simple(i) for i in range(start, start + 10))) for start in range(0, 40, 10)),
            change(("+U", _simple(12, 1)), ("-D", _simple(18))),
        ],
    ),
    "pk_overwritten": TableRecipe(
        columns=[("id", "INT NOT NULL"), ("dt", "STRING NOT NULL"), ("v", "BIGINT")],
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={"bucket": "1", **_WRITE_ONLY},
        steps=[
            put([1, "a", 1], [2, "a", 2], [1, "b", 3], [1, "c", 4]),
            put([3, "a", 5], overwrite={}),
            put([9, "b", 6], overwrite={"dt": "b"}, options={"dynamic-partition-overwrite": "false"}),
            put([4, "c", 7]),
        ],
    ),
    "append_unaware": TableRecipe(
        columns=[("dt", "STRING"), *ALL_TYPES],
        partition_keys=["dt"],
        steps=[
            put(*([f"d{i % 2}", *all_types_row(i)] for i in range(9)), ["d0", *_NULLS]),
            put(["d0", *all_types_row(1)], ["d0", *all_types_row(1)]),
        ],
    ),
    "append_tracked": TableRecipe(
        columns=_SIMPLE,
        options={"row-tracking.enabled": "true", "compaction.min.file-num": "2"},
        steps=[
            put(*(_simple(i) for i in range(3))),
            put(_simple(3)),
            compact,
            put(*(_simple(i) for i in range(4, 6))),
            put(_simple(6), overwrite={}),
            put(_simple(7)),
            compact,
            put(_simple(8)),
        ],
    ),
    "append_columns": TableRecipe(
        columns=_SIMPLE,
        options={
            "row-tracking.enabled": "true",
            "data-evolution.enabled": "true",
            "compaction.min.file-num": "2",
            "file.format": "avro",
        },
        steps=[
            put(*(_simple(i) for i in range(3))),
            put(*(_simple(i) for i in range(3, 5))),
            columns(["name"], *([f"new {i}"] for i in range(3))),
            alter(
                {"op": "add", "path": ["more"], "type": "BIGINT"},
                {"op": "rename", "path": ["name"], "to": "title"},
                {"op": "set_option", "key": "file.format", "value": "parquet"},
            ),
            columns(["more", "amount"], [1, "1.00"], [None, None], first_row_id=3),
            columns(["title"], *([f"newer {i}"] for i in range(3))),
            compact,
            put([*_simple(5), 6]),
            columns(["more"], *([i] for i in range(5))),
            columns(["ts"], [None], first_row_id=5),
        ],
    ),
    "append_bucketed": TableRecipe(
        columns=_SIMPLE,
        options={"bucket": "2", "bucket-key": "id", **_WRITE_ONLY},
        steps=[put(*(_simple(i) for i in range(10))), put(_simple(3), _simple(11))],
    ),
    "append_stats": TableRecipe(
        columns=[("a", "STRING"), ("b", "STRING"), ("c", "INT"), ("d", "STRING"), ("e", "BIGINT")],
        options={
            "metadata.stats-mode": "none",
            "fields.a.stats-mode": "full",
            "fields.b.stats-mode": "truncate(4)",
            "fields.c.stats-mode": "counts",
            "fields.e.stats-mode": "full",
        },
        steps=[
            put(["a long string of letters", "long string", 1, "x", None], [None, "z", None, None, None]),
            # The character 🦆 is at a position where a truncated string must be rounded up.
            put(["日本語" * 8, "日本語のテキスト", 2, "y", 5], ["b", "🦆🦆🦆🦆🦆", 3, "", -(2**40)]),
        ],
    ),
    "pk_evolved": TableRecipe(
        columns=_EVOLVING, primary_keys=["id"], options={"bucket": "1", **_WRITE_ONLY}, steps=_EVOLUTION
    ),
    "append_evolved": TableRecipe(columns=_EVOLVING, steps=_EVOLUTION),
    "odd_partitions": TableRecipe(
        columns=[("id", "INT NOT NULL"), ("p", "STRING"), ("q", "INT")],
        partition_keys=["p", "q"],
        steps=[put(*([i, p, None if i % 3 == 0 else i] for i, p in enumerate(ODD_STRINGS)))],
    ),
    "typed_partitions_legacy": _partition_types("true"),
    "typed_partitions": _partition_types("false"),
    "pk_partition_dates": TableRecipe(
        columns=[("id", "INT NOT NULL"), ("day", "DATE NOT NULL"), ("b", f"BINARY({3})")],
        primary_keys=["id", "day"],
        partition_keys=["day"],
        options={"bucket": "1", **_WRITE_ONLY},
        steps=[put([1, 0, b64(b"abc")], [1, 19782, None], [2, -1, b64(b"\x00\x01\x02")])],
    ),
}
