"""Casts of a column to every other type: Java Paimon and interbed allow the same changes and read the same rows.

Tables are written and changed by Java. When some values cannot be cast, each value has its own partition, so that the
others can be read without it.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from interbed.storage.base.errors import NotSupportedError, SchemaMismatchError
from interbed.storage.base.types.data_type import type_from_json
from interbed.storage.meta.schema.apply import apply_changes
from interbed.storage.meta.schema.change import UpdateColumnType
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.option_rules import check_options
from interbed.storage.table.table import Table
from tests.golden.values import SCALARS, SECOND, b64
from tests.support.peers.interbed import InterbedTable, interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.peers.json import PeerType, TypeJson, normalised, parse_type, to_json_values
from tests.support.peers.process import PeerError
from tests.support.shares import each_run

_POINT: TypeJson = {
    "type": "ROW",
    "fields": [{"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "b", "type": "TIMESTAMP(3)"}],
}
_LEAP = 1_709_210_096_123_456_789
_DAY_MILLIS = 86_400_000


def _timestamps(digits: int) -> list[int]:
    """Return timestamps around the epoch; Java's readers of files before it are covered by another test."""
    step = 10 ** (9 - digits)
    return [value // step * step for value in (0, _LEAP, -_LEAP, SECOND * 86_399, -SECOND, 120_000_000, -1)]


VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": SCALARS["TINYINT"],
    "SMALLINT": SCALARS["SMALLINT"],
    "INT": SCALARS["INT"],
    "BIGINT": [*SCALARS["BIGINT"], 300, -(2**33), 16_777_217, 1_709_210_096],
    "FLOAT": [*SCALARS["FLOAT"], "100.0", "1.0E10", "0.10000000149011612", "3.4028234663852886E38", "-300.5"],
    "DOUBLE": [*SCALARS["DOUBLE"], "2.675", "100.0", "1.0E10", "-300.5", "123456.785", "9.3E18", "1.0E-5", "-1.0E7"],
    "DECIMAL(4, 2)": ["0.00", "99.99", "-99.99", "0.05", "-0.05", "1.50"],
    "DECIMAL(18, 9)": ["0.000000001", "123456789.987654321", "-300.500000000", "100.000000000"],
    "DECIMAL(38, 10)": SCALARS["DECIMAL(38, 10)"],
    "CHAR(5)": ["abcde", "1    ", "äöüßé"],
    "VARCHAR(20)": ["", "a", "longer than eight"],
    "BINARY(4)": [b64(b"\x00\x01\x02\x03"), b64(b"abcd"), b64(b"\xff\xfe\xfd\xfc")],
    "BYTES": [b64(b""), b64(b"a"), b64(b"longer than eight"), b64("äöüßé".encode())],
    "DATE": [0, 19_782, -1, 100_000, -100_000],
    "TIME(0)": [0, 1000, 86_399_000],
    "TIME(2)": [0, 120, 1230, 86_399_990],
    "TIME(3)": [0, 1, 120, 1234, 86_399_999],
    "TIMESTAMP(0)": _timestamps(0),
    "TIMESTAMP(2)": _timestamps(2),
    "TIMESTAMP(6)": _timestamps(6),
    "TIMESTAMP(9)": _timestamps(9),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": _timestamps(3),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": _timestamps(6),
}
TARGETS: list[TypeJson] = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    *("DECIMAL(4, 2)", "DECIMAL(5, 0)", "DECIMAL(18, 9)", "DECIMAL(38, 10)", "DECIMAL(38, 30)"),
    *("CHAR(5)", "CHAR(30)", "VARCHAR(4)", "STRING", "BINARY(2)", "BINARY(8)", "VARBINARY(3)", "BYTES"),
    *("DATE", "TIME(0)", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(2)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)"),
    *("TIMESTAMP(0) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    {"type": "ARRAY", "element": "INT"},
    {"type": "MAP", "key": "STRING", "value": "INT"},
    {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "INT"}]},
]
TEXT_TARGETS = ["CHAR(5)", "CHAR(30)", "VARCHAR(4)", "STRING", "BINARY(2)", "BINARY(8)", "VARBINARY(3)", "BYTES"]
APART = ("BIGINT", "FLOAT", "DOUBLE")
"""Types with values that cannot be cast to some types."""
NESTED: list[tuple[TypeJson, list[Any]]] = [
    ({"type": "ARRAY", "element": "INT"}, [[], [1, None, -3]]),
    ({"type": "ARRAY", "element": {"type": "ARRAY", "element": "DOUBLE"}}, [[["1.0E10", None], None, []]]),
    ({"type": "MAP", "key": "STRING", "value": "DECIMAL(4, 2)"}, [[], [["a", "1.50"]], [["b", None]]]),
    (_POINT, [[1, 120_000_000], [None, None]]),
    ({"type": "ARRAY", "element": _POINT}, [[[1, 0], None]]),
]
_NUMERALS = [
    "1",
    "-1",
    "+7",
    "007",
    "3.9",
    "-0.5",
    ".",
    "",
    "+",
    " 1",
    "1 ",
    "1e3",
    "x",
    "128",
    "99999999999",
    "9" * 20,
]
_FRACTIONS = [
    *_NUMERALS,
    " 1.5\t",
    "NaN",
    "-Infinity",
    "+NaN",
    "1.5f",
    "1d",
    "0x1p3",
    ".5",
    "5.",
    "1e400",
    "1_0",
    "nan",
]
_MOMENTS = [
    *("2024-02-29 12:34:56", "2024-02-29 12:34:56.1", "2024-02-29 12:34:56.123456789", "2024-02-29", "2024-2-9 1:2:3"),
    *("1969-12-31 23:59:59.999", "0001-01-01 00:00:00", "9999-12-31 23:59:59", "2023-02-30", "2024-01-01 24:00:00"),
    *(
        "2024-02-29 12:34",
        "2024-02-29T12:34:56",
        "2024-13-01",
        " 2024-01-01",
        "0000-01-01",
        "1709210096",
        "-5",
        "",
        "x",
    ),
]
_DATES = [
    *("2024-02-29", "2024-2-9", "2024-02", "2024", "0000-01-01", "9999-12-31", "2023-02-29", "2024-02-29 x", "x", ""),
    *("2024 -01-01", " 2024-01-01", "2024-1-1-1", "-5", "10000-01-01", "5 "),
]
_TIMES = [
    *("12:34:56", "12:34:56.7", "1:2:3.4567", "8:5", "8", "12345", "10:00:00+01:00", "10:00-02", "", "x", "1:x"),
    *("12:34:56.1x", " 8:05", "12:34:56.", "10:00:00+x", "10:00:00-11:00", "23:59:60"),
]
TEXTS: dict[str, list[str]] = {
    "BOOLEAN": ["t", "TRUE", "y", "Yes", "1", "f", "False", "n", "no", "0", "", "on", " true", "tr"],
    "TINYINT": _NUMERALS,
    "SMALLINT": ["32767", "-32768", "32768"],
    "INT": ["2147483647", "-2147483648", "2147483648", "-2147483649"],
    "BIGINT": ["9223372036854775807", "-9223372036854775808", "9223372036854775808", "3.x", "-"],
    "FLOAT": ["0.1", "1e39", "16777217", "NaN", "1.00000017881393432617187499"],
    "DOUBLE": _FRACTIONS,
    "DECIMAL(5, 2)": [*_NUMERALS, "1.005", "-1.005", "999.994", "999.995", "NaN", "1E-400", "1E+400", "12345"],
    "DATE": _DATES,
    "TIME(3)": _TIMES,
    "TIMESTAMP(0)": ["2024-02-29 12:34:56.9", "1709210096"],
    "TIMESTAMP(2)": ["2024-02-29 12:34:56.129", "1709210096"],
    "TIMESTAMP(6)": _MOMENTS,
    "TIMESTAMP(9)": ["2024-02-29 12:34:56.123456789", "2024-02-29 12:34:56.1", "1709210096"],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": _MOMENTS,
    "BINARY(3)": ["", "a", "äö", "abcdef"],
    "BYTES": ["", "a", "äö", "abcdef"],
    "CHAR(3)": ["", "a", "äöüß", "abcdef"],
    "VARCHAR(3)": ["", "a", "äöüß", "abcdef"],
}
REFUSED = "refused"


class CastTable:
    """A table whose columns have values of one type, and the results of reading them after ALTER TABLE."""

    def __init__(self, java: JavaPaimon, warehouse: Path, file_format: str = "parquet") -> None:
        self.java: JavaTable = java.table(warehouse, "db.t")
        self.ours: InterbedTable = interbed_table(warehouse, "db.t")
        self._options = {"file.format": file_format}

    def create(self, columns: Sequence[tuple[TypeJson, Sequence[Any]]], *, apart: bool) -> None:
        """Create a table with these columns, each with its values followed by nulls; `apart` writes every row to its
        own file.
        """
        names = [(f"c{i}", of) for i, (of, _) in enumerate(columns)]
        self.java.create([("id", "INT"), ("p", "INT"), *names], partition_keys=["p"], options=self._options)
        count = max(len(values) for _, values in columns) + 1
        self.java.write(
            [
                [i, i if apart else 0, *(values[i] if i < len(values) else None for _, values in columns)]
                for i in range(count)
            ]
        )

    def accepted(self, targets: Sequence[tuple[str, TypeJson]]) -> dict[tuple[str, str], tuple[bool, bool]]:
        """Return the columns whose type Java and interbed change; in Java's table the change is made."""
        schema = self.ours.load().schema
        return {
            (column, str(of)): (_java_accepts(self.java, column, of), _interbed_accepts(schema, column, of))
            for column, of in targets
        }

    def differences(
        self, source: TypeJson, columns: Sequence[tuple[str, TypeJson, Sequence[Any]]]
    ) -> dict[tuple[str, str, Any], tuple[Any, Any]]:
        """Return the values that Java and interbed read differently after all type changes, without the known
        differences.
        """
        table = self.ours.load()
        found = {}
        for column, target, values in columns:
            of = parse_type(target)
            given = [*values, None]
            both = _of_java(self.java, column), _of_ours(table, column, of)
            pairs: Iterable[tuple[Any, Any]] = zip(*both, strict=True)
            if REFUSED in both:
                rows = range(len(given))
                pairs = [(_of_java(self.java, column, i), _of_ours(table, column, of, i)) for i in rows]
            for value, (java, ours) in zip(given, pairs, strict=False):
                java, ours = (v if v == REFUSED else normalised(v, of) for v in (java, ours))
                if java != ours and not _is_known(parse_type(source), of, value, java, ours):
                    found[str(source), str(target), str(value)] = (java, ours)
        return found


def _java_accepts(java: JavaTable, column: str, target: TypeJson) -> bool:
    try:
        java.alter({"op": "update_type", "path": [column], "type": target})
    except PeerError:
        return False
    return True


def _interbed_accepts(schema: TableSchema, column: str, target: TypeJson) -> bool:
    try:
        check_options(apply_changes(schema, [UpdateColumnType(column, type_from_json(target))]), before=schema)
    except NotSupportedError:
        return False
    return True


def _of_java(java: JavaTable, column: str, row: int | None = None) -> Any:
    """Return the column in the order of the rows, or a row's value; `refused` when reading fails."""
    chosen = None if row is None else {"op": "=", "field": "p", "value": row}
    try:
        rows = java.read(columns=[column, "id"], filter=chosen).rows
    except PeerError:
        return REFUSED
    values = [value for value, _ in sorted(rows, key=lambda pair: int(pair[1]))]
    return values if row is None else values[0]


def _of_ours(table: Table, column: str, of: PeerType, row: int | None = None) -> Any:
    try:
        rows = table.scan(columns=[column, "id"], filter=None if row is None else f"p = {row}").to_arrow()
    except SchemaMismatchError:
        return REFUSED
    values = to_json_values(rows.sort_by("id").column(column), of)
    return values if row is None else values[0]


def _is_known(old: PeerType, new: PeerType, value: Any, java: Any, ours: Any) -> bool:
    """Return whether a difference is known: a limit of interbed's types in memory, or an error of Java Paimon 1.4.2."""
    if new.root.startswith("TIMESTAMP") and isinstance(java, int):
        if ours == REFUSED:
            # Nanoseconds since 1970 end in 2262, and Java's seconds wrap around.
            wraps = old.root == "BIGINT" and abs(value) > 2**63 // 1000
            return wraps or (new.arguments[0] > 6 and not -(2**63) <= java < 2**63)
        # 1.4.2 keeps digits that the new type does not have when there are few of them.
        step = 10 ** (9 - new.arguments[0])
        return java % step != 0 and bool(ours == java // step * step)
    if new.root == "TIME" and isinstance(java, int) and not 0 <= java < _DAY_MILLIS:
        # The result is no time of a day.
        return bool(ours == (java % _DAY_MILLIS if old.root.startswith("TIMESTAMP") else REFUSED))
    return False


# Other lengths and digits of the same types.
OF_LONG_RUNS = ("SMALLINT", "DECIMAL(18, 9)", "VARCHAR(20)", *("TIME(0)", "TIME(2)", "TIMESTAMP(0)", "TIMESTAMP(2)"))


@pytest.mark.sample(3)
@pytest.mark.parametrize("source", each_run(VALUES, lambda source: source not in OF_LONG_RUNS))
def test_every_cast_of_an_atomic_type_gives_javas_value(java_paimon: JavaPaimon, tmp_path: Path, source: str) -> None:
    _same_casts(CastTable(java_paimon, tmp_path), source, VALUES[source])


# Each type and each format once; all combinations take too long.
FORMATS = list(product(["INT", "DECIMAL(18, 9)", "CHAR(5)", "DATE", "TIME(3)", "TIMESTAMP(6)"], ["orc", "avro"]))
OF_EACH_RUN = (*FORMATS[0::4], *FORMATS[3::4])


@pytest.mark.long
@pytest.mark.sample(2)
@pytest.mark.parametrize(("source", "file_format"), each_run(FORMATS, lambda case: case in OF_EACH_RUN))
def test_casts_do_not_depend_on_the_format(
    java_paimon: JavaPaimon, tmp_path: Path, source: str, file_format: str
) -> None:
    # Java reads CHARs from ORC without trailing blanks.
    values = [value for value in VALUES[source] if value != "1    "]
    _same_casts(CastTable(java_paimon, tmp_path, file_format), source, values)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("source", "values"), NESTED, ids=str)
def test_nested_values_are_cast_to_javas_text(
    java_paimon: JavaPaimon, tmp_path: Path, source: TypeJson, values: list[Any]
) -> None:
    _same_casts(CastTable(java_paimon, tmp_path), source, values)


def _same_casts(cast_table: CastTable, source: TypeJson, values: Sequence[Any]) -> None:
    columns = [(f"c{i}", target) for i, target in enumerate(t for t in TARGETS if t != source)]
    cast_table.create([(source, values) for _ in columns], apart=source in APART)
    accepted = cast_table.accepted(columns)
    assert {pair: both for pair, both in accepted.items() if both[0] != both[1]} == {}
    # Other types are cast from text in the test of text.
    read = TEXT_TARGETS if source in ("CHAR(5)", "VARCHAR(20)") else TARGETS
    wrong = cast_table.differences(
        source, [(c, target, values) for c, target in columns if accepted[c, str(target)][0] and target in read]
    )
    assert not wrong, _lines(wrong)


@pytest.mark.long
def test_every_cast_of_text_gives_javas_value(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    cast_table = CastTable(java_paimon, tmp_path)
    cast_table.create([("STRING", texts) for texts in TEXTS.values()], apart=True)
    columns: list[tuple[str, TypeJson]] = [(f"c{i}", target) for i, target in enumerate(TEXTS)]
    assert set(cast_table.accepted(columns).values()) == {(True, True)}
    wrong = cast_table.differences("STRING", [(c, t, TEXTS[str(t)]) for c, t in columns])
    assert not wrong, _lines(wrong)


def _lines(wrong: Mapping[Any, Any]) -> str:
    return "\n".join(f"{key}: {value}" for key, value in wrong.items())


def test_implicit_casts_are_those_that_java_allows(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    cast_table = CastTable(java_paimon, tmp_path)
    # One type of each kind.
    sources = {parse_type(of).root: of for of in [*VALUES, "STRING"]}.values()
    targets = {parse_type(of).root: of for of in TARGETS}.values()
    pairs = [(source, target) for source in sources for target in targets if source != target]
    cast_table.java.create(
        [("id", "INT"), *((f"c{i}", source) for i, (source, _) in enumerate(pairs))],
        options={"disable-explicit-type-casting": "true"},
    )
    schema = cast_table.ours.load().schema
    ours = [_interbed_accepts(schema, f"c{i}", target) for i, (_, target) in enumerate(pairs)]
    changes = [{"op": "update_type", "path": [f"c{i}"], "type": target} for i, (_, target) in enumerate(pairs)]
    # Casts that interbed allows are made in one change, the others one by one, because a refused one ends its change.
    cast_table.java.alter(*(change for change, allowed in zip(changes, ours, strict=True) if allowed))
    others = [i for i, allowed in enumerate(ours) if not allowed]
    assert [pairs[i] for i in others if _java_accepts(cast_table.java, f"c{i}", pairs[i][1])] == []


@pytest.mark.parametrize(
    "zone", each_run(["Europe/Berlin", "America/St_Johns"], lambda zone: zone == "America/St_Johns")
)
def test_instants_are_cast_in_the_local_time_zone_as_in_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    # Around the hours that a change of daylight saving time skips and repeats, and before time zones existed.
    local = [1_711_848_600, 1_711_850_400, 1_711_852_200, 1_729_994_400, 1_729_996_200, 1_730_597_400, 1_710_037_800]
    moments = [*(second * SECOND + 123_456_000 for second in local), 0, -SECOND, -3_000_000_000 * SECOND]
    sources: dict[str, list[Any]] = {
        "TIMESTAMP(6)": moments,
        "TIMESTAMP(6) WITH LOCAL TIME ZONE": moments,
        "DATE": [0, 19_782, -1, -30_000],
        "TIME(3)": [0, 86_399_999],
        "INT": [0, 1_711_850_400, -1],
        "STRING": ["2024-03-31 02:30:00", "2024-10-27 02:30:00.5", "1800-01-01 00:00:00"],
    }
    targets: list[TypeJson] = ["TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(3)", "STRING", "DATE", "TIME(3)", "INT"]
    columns = [(source, target) for source in sources for target in targets if source != target]
    with JavaPaimon(zone=zone) as java:
        cast_table = CastTable(java, tmp_path)
        cast_table.create([(source, sources[source]) for source, _ in columns], apart=False)
        accepted = cast_table.accepted([(f"c{i}", target) for i, (_, target) in enumerate(columns)])
        wrong: dict[tuple[str, str, Any], tuple[Any, Any]] = {}
        for i, (source, target) in enumerate(columns):
            read = accepted[f"c{i}", str(target)][0] and (source != "STRING" or "ZONE" in str(target))
            wrong |= cast_table.differences(source, [(f"c{i}", target, sources[source])] if read else [])
    assert not wrong, _lines(wrong)


PATHS = {
    ("list", "element"): "STRING",
    ("map", "value"): "INT",
    ("row", "a"): "TIMESTAMP(3)",
    ("rows", "element", "b"): "DECIMAL(10, 5)",
}


def test_elements_map_values_and_fields_are_cast_as_in_java(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    cast_table = CastTable(java_paimon, tmp_path)
    columns: list[tuple[str, TypeJson]] = [
        ("id", "INT"),
        ("list", {"type": "ARRAY", "element": "INT"}),
        ("map", {"type": "MAP", "key": "STRING", "value": "DOUBLE"}),
        ("row", {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "STRING"}]}),
        (
            "rows",
            {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 0, "name": "b", "type": "DECIMAL(4, 2)"}]}},
        ),
    ]
    cast_table.java.create(columns)
    rows: list[list[Any]] = [
        [1, [1, None, -3], [["k", "1.0E10"], ["z", None]], ["2024-02-29 1:2:3"], [["1.50"], None]],
        [2, [], [], [None], []],
        [3, None, None, None, None],
    ]
    cast_table.java.write(rows)
    for path, target in PATHS.items():
        cast_table.java.alter({"op": "update_type", "path": list(path), "type": target})
    assert cast_table.ours.read().comparable() == cast_table.java.read().comparable()
