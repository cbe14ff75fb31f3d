"""Tables of every merge engine, and generators of changes for them.

A case has the columns and options of a table. Rows and kinds come from a source of randomness, which a test seeds or
Hypothesis draws: few keys, nulls, equal and late sequence numbers, and the row kinds that the table accepts.
"""

import base64
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import datasketches
from pyroaring import BitMap

from interbed.storage.lsm.merge_function.fields.roaring64 import Roaring64Bitmap
from tests.support.peers.java import PeerRows
from tests.support.peers.json import TypeJson

Draw = Callable[[random.Random], Any]


def _number(source: random.Random) -> Any:
    return None if source.random() < 0.25 else source.randrange(-9, 10)


def _sequence(source: random.Random) -> Any:
    return None if source.random() < 0.2 else source.randrange(6)


def _text(source: random.Random) -> Any:
    return None if source.random() < 0.25 else source.choice(["", "a", "b", "c,a", "zz"])


def _boolean(source: random.Random) -> Any:
    return None if source.random() < 0.3 else source.random() < 0.5


def _decimal(source: random.Random) -> Any:
    return None if source.random() < 0.25 else f"{source.randrange(-500, 500) / 100:.2f}"


def _double(source: random.Random) -> Any:
    return None if source.random() < 0.25 else source.choice(["0.1", "-0.0", "1.0E10", "-2.5", "0.3", "NaN"])


def _factor(source: random.Random) -> Any:
    return None if source.random() < 0.25 else source.choice([1, 2, 3, -1])


def _array(source: random.Random) -> Any:
    return None if source.random() < 0.2 else [source.choice([None, 1, 2, 3]) for _ in range(source.randrange(4))]


def _map(source: random.Random) -> Any:
    chosen = source.sample(["a", "b", "c"], source.randrange(4))
    return None if source.random() < 0.2 else [[key, _number(source)] for key in chosen]


def _timed_map(source: random.Random) -> Any:
    def value() -> Any:
        return None if source.random() < 0.2 else [_number(source), _text(source)]

    chosen = source.sample(["a", "b", "c"], source.randrange(4))
    return None if source.random() < 0.2 else [[key, value()] for key in chosen]


def _rows(source: random.Random) -> Any:
    if source.random() < 0.2:
        return None
    return [[source.randrange(3), _number(source), _text(source)] for _ in range(source.randrange(3))]


def _bitmap(source: random.Random) -> Any:
    if source.random() < 0.2:
        return None
    first = source.randrange(70_000)
    numbers = BitMap([*range(first, first + source.randrange(9)), source.randrange(1 << 31)])
    return base64.b64encode(numbers.serialize()).decode()


def _wide_bitmap(source: random.Random) -> Any:
    if source.random() < 0.2:
        return None
    # Near and far numbers: shared containers, and branches of the tree at any depth.
    first = source.randrange(1 << source.choice([17, 33, 49]))
    far = [source.randrange(1 << 64) for _ in range(source.randrange(3))]
    spread = [(source.randrange(70) << 16) + source.randrange(40) for _ in range(source.choice([0, 0, 30]))]
    return base64.b64encode(
        Roaring64Bitmap.of([*range(first, first + source.randrange(9)), *far, *spread]).to_bytes()
    ).decode()


def _set(source: random.Random) -> list[int]:
    # Many numbers from few draws.
    first, step = source.randrange(20_000), source.choice([1, 7])
    return [(first + step * i) % 20_000 for i in range(source.choice([0, 1, 5, 40, 300, 6_000]))]


def _hll(source: random.Random) -> Any:
    if source.random() < 0.2:
        return None
    sketch = datasketches.hll_sketch(12, datasketches.HLL_4)
    for number in _set(source):
        sketch.update(number)
    return base64.b64encode(sketch.serialize_compact()).decode()


def _theta(source: random.Random) -> Any:
    if source.random() < 0.2:
        return None
    sketch = datasketches.update_theta_sketch()
    for number in _set(source):
        sketch.update(number)
    return base64.b64encode(sketch.compact().serialize()).decode()


def _kind(source: random.Random) -> Any:
    return source.choice(["+I", "+I", "-U", "+U", "-D"])


ARRAY: TypeJson = {"type": "ARRAY", "element": "INT"}
MAP: TypeJson = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}
TIMED: TypeJson = {
    "type": "MAP",
    "key": "STRING NOT NULL",
    "value": {
        "type": "ROW",
        "fields": [{"id": 100, "name": "n", "type": "INT"}, {"id": 101, "name": "at", "type": "STRING"}],
    },
}
NESTED: TypeJson = {
    "type": "ARRAY",
    "element": {
        "type": "ROW",
        "fields": [
            {"id": 110, "name": "k", "type": "INT"},
            {"id": 111, "name": "n", "type": "INT"},
            {"id": 112, "name": "t", "type": "STRING"},
        ],
    },
}


KEYS = 6
"""Number of keys of a case."""


@dataclass(frozen=True, kw_only=True)
class MergeCase:
    """A table and the generators of its rows; `unordered` names array columns whose order is not significant."""

    name: str
    columns: Sequence[tuple[str, TypeJson, Draw]]
    options: dict[str, str]
    kinds: str = "+I"
    unordered: Sequence[str] = ()
    unique_in_commit: bool = False
    keys: Sequence[str] = field(default=("id",))

    @property
    def removes(self) -> bool:
        """Whether -D rows remove the row of their key."""
        return any("remove-record-on" in option for option in self.options)


def _aggregation(functions: dict[str, tuple[TypeJson, Draw, str]], **more: Any) -> dict[str, Any]:
    columns = [(name, of, draw) for name, (of, draw, _) in functions.items()]
    options = {f"fields.{name}.aggregate-function": function for name, (_, _, function) in functions.items()}
    return {
        "columns": columns,
        "options": {"merge-engine": "aggregation", **options, **more.pop("options", {})},
        **more,
    }


RETRACTABLE: dict[str, tuple[TypeJson, Draw, str]] = {
    "si": ("INT", _number, "sum"),
    "st": ("TINYINT", _number, "sum"),
    "sd": ("DECIMAL(10, 2)", _decimal, "sum"),
    "sw": ("DECIMAL(30, 2)", _decimal, "sum"),
    "sf": ("DOUBLE", _double, "sum"),
    "lv": ("STRING", _text, "last_value"),
    "ln": ("STRING", _text, "last_non_null_value"),
    "co": (ARRAY, _array, "collect"),
    "mm": (MAP, _map, "merge_map"),
    "nu": (NESTED, _rows, "nested_update"),
}
ADDING: dict[str, tuple[TypeJson, Draw, str]] = {
    "pi": ("INT", _factor, "product"),
    "pd": ("DECIMAL(12, 2)", _decimal, "product"),
    "mx": ("STRING", _text, "max"),
    "mn": ("DOUBLE", _double, "min"),
    "md": ("DECIMAL(12, 2)", _decimal, "max"),
    "fv": ("INT", _number, "first_value"),
    "fn": ("STRING", _text, "first_non_null_value"),
    "la": ("STRING", _text, "listagg"),
    "ld": ("STRING", _text, "listagg"),
    "ba": ("BOOLEAN", _boolean, "bool_and"),
    "bo": ("BOOLEAN", _boolean, "bool_or"),
    "cd": (ARRAY, _array, "collect"),
    "mt": (TIMED, _timed_map, "merge_map_with_keytime"),
    "nk": (NESTED, _rows, "nested_update"),
    "np": (NESTED, _rows, "nested_partial_update"),
}
ADDING_OPTIONS = {
    "fields.ld.distinct": "true",
    "fields.ld.list-agg-delimiter": ",",
    "fields.la.list-agg-delimiter": "; ",
    "fields.cd.distinct": "true",
    "fields.nk.nested-key": "k",
    "fields.np.nested-key": "k",
}
GROUPED: list[tuple[str, TypeJson, Draw]] = [
    ("a", "INT", _number),
    ("g", "INT", _sequence),
    ("b", "STRING", _text),
    ("h", "INT", _sequence),
    ("h2", "INT", _sequence),
    ("c", "INT", _number),
    ("d", "STRING", _text),
    ("e", "INT", _number),
]
SEQUENCES = ("g", "h", "h2")
GROUPS = {"merge-engine": "partial-update", "fields.g.sequence-group": "a,b", "fields.h,h2.sequence-group": "c,d"}
PLAIN: list[tuple[str, TypeJson, Draw]] = [("a", "INT", _number), ("s", "INT", _sequence), ("b", "STRING", _text)]

KINDED: list[tuple[str, TypeJson, Draw]] = [*PLAIN, ("k", "STRING", _kind)]

CASES = [
    MergeCase(name="partial-update", columns=PLAIN, options={"merge-engine": "partial-update"}),
    MergeCase(
        name="partial-update-by-sequence",
        columns=PLAIN,
        options={"merge-engine": "partial-update", "sequence.field": "s"},
    ),
    MergeCase(
        name="partial-update-removing",
        columns=PLAIN,
        options={"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        # In Java a -U row at the start of a flush begins a row with its values; interbed ignores -U rows.
        kinds="+I +I +I +U -D",
    ),
    MergeCase(
        name="partial-update-ignoring",
        columns=PLAIN,
        options={"merge-engine": "partial-update", "ignore-delete": "true"},
        kinds="+I +U -U -D",
    ),
    MergeCase(name="groups", columns=GROUPED, options=GROUPS),
    MergeCase(name="groups-retracting", columns=GROUPED, options=GROUPS, kinds="+I +I +U -U -D"),
    MergeCase(
        name="groups-removing",
        columns=GROUPED,
        options={**GROUPS, "partial-update.remove-record-on-sequence-group": "g"},
        kinds="+I +I +I -U -D",
    ),
    MergeCase(
        name="groups-aggregating",
        columns=GROUPED,
        options={
            **GROUPS,
            "fields.a.aggregate-function": "sum",
            "fields.b.aggregate-function": "last_non_null_value",
            "fields.c.aggregate-function": "sum",
            "fields.d.aggregate-function": "last_value",
        },
        kinds="+I +I +U -U -D",
    ),
    MergeCase(
        name="groups-aggregating-late",
        columns=GROUPED,
        options={
            **GROUPS,
            "fields.a.aggregate-function": "first_value",
            "fields.b.aggregate-function": "listagg",
            "fields.c.aggregate-function": "max",
            "fields.d.aggregate-function": "first_non_null_value",
        },
    ),
    MergeCase(
        name="groups-aggregating-ignoring-retracts",
        columns=GROUPED,
        options={
            **GROUPS,
            "fields.default-aggregate-function": "last_non_null_value",
            "fields.c.aggregate-function": "min",
            "fields.c.ignore-retract": "true",
            "fields.a.aggregate-function": "first_value",
            "fields.a.ignore-retract": "true",
        },
        kinds="+I +I +U -U -D",
    ),
    MergeCase(name="aggregation-adding", unordered=("cd", "nk", "np"), **_aggregation(ADDING, options=ADDING_OPTIONS)),
    MergeCase(
        name="aggregation-retracting", unordered=("co", "nu"), kinds="+I +I +I +U -U -D", **_aggregation(RETRACTABLE)
    ),
    MergeCase(
        name="aggregation-removing",
        unordered=("co", "nu"),
        kinds="+I +I +U -U -D",
        **_aggregation(RETRACTABLE, options={"aggregation.remove-record-on-delete": "true"}),
    ),
    MergeCase(
        name="aggregation-by-sequence",
        columns=[("v", "INT", _number), ("s", "INT", _sequence), ("w", "STRING", _text)],
        options={
            "merge-engine": "aggregation",
            "sequence.field": "s",
            "fields.v.aggregate-function": "sum",
            "fields.w.aggregate-function": "last_value",
        },
    ),
    MergeCase(
        name="deduplicate-two-sequences", columns=GROUPED, options={"sequence.field": "g,h"}, kinds="+I +I +U -U -D"
    ),
    MergeCase(
        name="deduplicate-descending",
        columns=GROUPED,
        options={"sequence.field": "g,h", "sequence.field.sort-order": "descending"},
        kinds="+I +I +U -U -D",
        # Paimon 1.4.2 sorts its write buffer in ascending order despite this option; 2.0 does not.
        unique_in_commit=True,
    ),
    MergeCase(name="first-row", columns=PLAIN, options={"merge-engine": "first-row", "write-only": "false"}),
    MergeCase(
        name="first-row-ignoring",
        columns=PLAIN,
        options={"merge-engine": "first-row", "ignore-delete": "true", "write-only": "false"},
        kinds="+I +U -U -D",
    ),
    MergeCase(
        name="looked-up-groups",
        columns=GROUPED,
        options={
            **GROUPS,
            "changelog-producer": "lookup",
            "write-only": "false",
            "fields.a.aggregate-function": "sum",
        },
        kinds="+I +I +U -U -D",
    ),
    MergeCase(
        name="looked-up-aggregation",
        columns=[("v", "INT", _number), ("w", "STRING", _text)],
        options={
            "merge-engine": "aggregation",
            "deletion-vectors.enabled": "true",
            "write-only": "false",
            "fields.v.aggregate-function": "sum",
            "fields.w.aggregate-function": "last_value",
        },
        kinds="+I +I +U -U -D",
    ),
    MergeCase(
        name="bitmaps",
        **_aggregation({"bm": ("BYTES", _bitmap, "rbm32"), "wide": ("BYTES", _wide_bitmap, "rbm64")}),
    ),
    MergeCase(
        name="sketches",
        **_aggregation({"hll": ("BYTES", _hll, "hll_sketch"), "theta": ("BYTES", _theta, "theta_sketch")}),
    ),
    MergeCase(
        name="groups-of-sets",
        columns=[("g", "INT", _sequence), ("bm", "BYTES", _wide_bitmap), ("hll", "BYTES", _hll)],
        options={
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "bm,hll",
            "fields.bm.aggregate-function": "rbm64",
            "fields.hll.aggregate-function": "hll_sketch",
        },
    ),
    MergeCase(name="rowkind-field", columns=KINDED, options={"rowkind.field": "k"}),
    MergeCase(
        name="deduplicate-ignoring-updates-before",
        columns=PLAIN,
        options={"ignore-update-before": "true"},
        kinds="+I -U +U -D",
    ),
]


def changes(
    case: MergeCase, source: random.Random, rows: int, *, continued: bool = False
) -> tuple[list[list[Any]], list[str]]:
    """Return rows of a commit and their kinds; keys repeat, unless the case allows each of them once.

    When -D rows remove the row of a key, the key repeats in the same commit only if it is `continued`.
    """
    if case.unique_in_commit:
        ids = source.sample(range(KEYS), min(KEYS - 1, rows))
    else:
        ids = [source.randrange(KEYS) for _ in range(rows)]
    drawn = [[i, *(draw(source) for _, _, draw in case.columns)] for i in ids]
    kinds = [source.choice(case.kinds.split()) for _ in ids]
    if not case.removes:
        return drawn, kinds
    # Java's writers keep the values of a -D row for the next partial one; interbed's discard them.
    cleared = [name not in {*case.keys, *SEQUENCES} for name in ("id", *(name for name, _, _ in case.columns))]
    for row, kind in zip(drawn, kinds, strict=True):
        if kind == "-D":
            row[:] = [None if clear else value for clear, value in zip(cleared, row, strict=True)]
    return (drawn, kinds) if continued else _without_more_after_deletions(drawn, kinds)


def _without_more_after_deletions(rows: list[list[Any]], kinds: list[str]) -> tuple[list[list[Any]], list[str]]:
    """Return the changes without those that follow a -D row of their key.

    Java's writers merge such rows with the deletion, which then removes nothing; interbed's do not.
    """
    deleted: set[Any] = set()
    kept_rows, kept_kinds = [], []
    for row, kind in zip(rows, kinds, strict=True):
        if row[0] not in deleted:
            kept_rows.append(row)
            kept_kinds.append(kind)
        if kind == "-D":
            deleted.add(row[0])
    return kept_rows, kept_kinds


def in_order(row: Sequence[Any], names: Sequence[str], case: MergeCase) -> list[Any]:
    """Return the row with insignificant orders of arrays sorted, and bitmaps as their numbers.

    The containers of equal bitmaps of 64 bits are in the order of insertion, which depends on the order of merging. In
    bitmaps of 32 bits a container may be a run in one library and an array in the other.
    """
    return [_without_order(value, name, case) for name, value in zip(names, row, strict=True)]


def _without_order(value: Any, name: str, case: MergeCase) -> Any:
    if value is None:
        return None
    if name in case.unordered:
        return sorted(value, key=json.dumps)
    match case.options.get(f"fields.{name}.aggregate-function"):
        case "rbm32":
            return list(BitMap.deserialize(base64.b64decode(value)))
        case "rbm64":
            return list(Roaring64Bitmap(base64.b64decode(value)).numbers())
    return value


def canonical_rows(read: PeerRows, case: MergeCase) -> list[list[Any]]:
    """Return the rows read in a canonical form, in which equal tables are equal lists."""
    return [in_order(row, read.names, case) for row in read.comparable()]
