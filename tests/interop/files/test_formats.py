"""Tables with files in ORC, in Avro, or in several formats by level are equal for interbed and the peers."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.interop.change_histories import COMPACTED_ON_DEMAND
from tests.interop.files.test_file_metadata import files_of
from tests.interop.limits import values_held_by
from tests.interop.lsm.test_lookup_compaction import changelog, changes
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.json import PeerType, TypeJson, comparable, parse_type
from tests.support.peers.pypaimon import Engine, PyPaimon
from tests.support.shares import each_run, pairwise

FORMATS = ("orc", "avro")
Values = list[tuple[TypeJson, list[Any]]]


def supported(file_format: str, values: Values) -> Values:
    """Return the values that Java Paimon reads unchanged from files of the format; README.md lists the others."""
    if file_format == "avro":
        return [(of, those) for of, those in values if not _has_nanoseconds(parse_type(of))]
    return [(of, [_moved(v, parse_type(of)) for v in those]) for of, those in values]


def _is_timestamp(of: PeerType) -> bool:
    return of.root in ("TIMESTAMP", "TIMESTAMP_LTZ")


def _has_nanoseconds(of: PeerType) -> bool:
    return (_is_timestamp(of) and of.arguments[0] > 6) or any(_has_nanoseconds(child) for child in of.children)


def _moved(value: Any, of: PeerType) -> Any:
    """Return the value with times before the epoch at whole seconds."""
    if of.root == "ARRAY" and value is not None:
        return [_moved(v, of.children[0]) for v in value]
    if value is None or not _is_timestamp(of) or value >= 0:
        return value
    return value // 10**9 * 10**9


def rows_of(values: Values) -> list[list[Any]]:
    """Return rows with a number and every value at least once, and one row of nulls."""
    turns = max(len(those) for _, those in values)
    rows: list[list[Any]] = [[i, *(those[i % len(those)] for _, those in values)] for i in range(turns)]
    return [*rows, [turns, *(None for _ in values)]]


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_java_and_interbed_read_all_types_of_each_other(
    java_paimon: JavaPaimon, tmp_path: Path, file_format: str, keyed: bool
) -> None:
    values = supported(file_format, values_held_by("java"))
    columns = [("id", "INT NOT NULL"), *((f"c{i}", of) for i, (of, _) in enumerate(values))]
    types = [parse_type(of) for _, of in columns]
    options = {"file.format": file_format} | ({"bucket": "1", "write-only": "true"} if keyed else {})
    ours, theirs = interbed_table(tmp_path, "db.t"), java_paimon.table(tmp_path, "db.t")
    ours.create(columns, primary_keys=["id"] if keyed else [], options=options)
    rows = rows_of(values)

    def assert_both_read(expected: list[list[Any]]) -> None:
        assert theirs.read().comparable() == comparable(expected, types)
        assert ours.read().comparable() == comparable(expected, types)

    ours.write(rows)
    assert_both_read(rows)
    again = [[0, *rows[1][1:]], [len(rows), *rows[2][1:]]]
    theirs.write(again)
    rows = [*(rows[1:] if keyed else rows), *again]
    assert_both_read(rows)
    ours.compact()
    assert_both_read(rows)
    ours.write(rows[-1:])
    theirs.compact()
    assert_both_read(rows if keyed else [*rows, rows[-1]])
    assert {Path(f).suffix for f in data_files(tmp_path)} == {f".{file_format}"}


@pytest.mark.parametrize(("file_format", "engine", "keyed"), pairwise(FORMATS, ["python", "rust"], [True, False]))
def test_pypaimon_reads_all_types(
    pypaimon: PyPaimon, tmp_path: Path, file_format: str, engine: Engine, keyed: bool
) -> None:
    values = supported(file_format, values_held_by(engine))
    columns = [("id", "INT NOT NULL"), *((f"c{i}", of) for i, (of, _) in enumerate(values))]
    options = {"file.format": file_format} | ({"bucket": "1", "write-only": "true"} if keyed else {})
    ours = interbed_table(tmp_path, "db.t")
    ours.create(columns, primary_keys=["id"] if keyed else [], options=options)
    rows = rows_of(values)
    ours.write(rows)
    if keyed:
        ours.write(rows[:1], kinds=["-D"])
        rows.pop(0)
    expected = comparable(rows, [parse_type(of) for _, of in columns])
    assert pypaimon.table(tmp_path, "db.t", engine).read().comparable() == expected


def data_files(warehouse: Path) -> list[str]:
    """Return the names of the data files of the table."""
    return [str(p) for p in (warehouse / "db.db" / "t").rglob("bucket-*/*") if p.is_file()]


SIMPLE: list[tuple[str, TypeJson]] = [
    ("id", "INT NOT NULL"),
    ("name", "STRING"),
    ("raw", "BYTES"),
    ("l", {"type": "ARRAY", "element": "INT"}),
    ("price", "DOUBLE"),
    ("ts", "TIMESTAMP(3)"),
]
LONG = "a name of more than sixteen characters"
SIMPLE_ROWS: list[list[Any]] = [
    [1, LONG, "AAEC", [1, 2], "1.5", 0],
    [2, None, "//////////////////////////////8=", None, None, None],
    [3, "short", None, [], "-2.5", 86_400_000_000_000],
    [4, LONG.upper(), "/w==", [None], "0.0", 1_000_000],
]


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metadata.stats-mode": "full"},
        {"metadata.stats-mode": "none"},
        {"metadata.stats-mode": "counts", "metadata.stats-dense-store": "false"},
        {"fields.raw.stats-mode": "truncate(4)", "fields.name.stats-mode": "none"},
        {"metadata.stats-keep-first-n-columns": "4"},
        {"data-file.thin-mode": "true", "metadata.stats-keep-first-n-columns": "3"},
    ],
    ids=str,
)
@pytest.mark.parametrize("file_format", FORMATS)
def test_manifests_describe_files_as_javas_do(
    java_paimon: JavaPaimon, tmp_path: Path, file_format: str, options: dict[str, str]
) -> None:
    for keys, more in (["id"], {"bucket": "1", "write-only": "true"}), ([], {}):
        ours = interbed_table(tmp_path, f"db.ours{len(keys)}")
        theirs = java_paimon.table(tmp_path, f"db.theirs{len(keys)}")
        for table in (ours, theirs):
            table.create(SIMPLE, primary_keys=keys, options={"file.format": file_format, **more, **options})
            table.write(SIMPLE_ROWS)
            table.write(SIMPLE_ROWS[:2], kinds=["-D", "+I"] if keys else None)
        assert files_of(java_paimon.table(tmp_path, ours.name)) == files_of(theirs)


BY_LEVEL = {
    "file.format": "parquet",
    "file.format.per.level": "0:avro,5:orc",
    "file.compression.per.level": "0:snappy,5:zlib",
    "metadata.stats-mode.per.level": "0:none,5:full",
}
CHANGELOG = {
    "changelog-file.format": "avro",
    "changelog-file.compression": "deflate",
    "changelog-file.stats-mode": "counts",
}
LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction", **COMPACTED_ON_DEMAND}
VECTORS = {"deletion-vectors.enabled": "true"}
TABLES: list[tuple[str, dict[str, str]]] = [
    ("orc, lookup", {"file.format": "orc", **LOOKUP}),
    ("avro, vectors", {"file.format": "avro", **VECTORS}),
    ("orc, vectors and lookup", {"file.format": "orc", **VECTORS, **LOOKUP, "file.compression": "lz4"}),
    ("by level, lookup", {**BY_LEVEL, **CHANGELOG, **LOOKUP}),
    ("by level, vectors", {**BY_LEVEL, **VECTORS, "file.suffix.include.compression": "true"}),
    ("by level, full compaction", {**BY_LEVEL, **CHANGELOG, **FULL}),
    ("by level", {**BY_LEVEL, "file.format.per.level": "5:avro", "file.compression.per.level": "5:none"}),
]


# The other cases cover pairs of these options, these one option each.
COMBINED = ("orc, lookup", "by level")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("name", "options"),
    each_run(TABLES, lambda table: table[0] not in COMBINED),
    ids=[name for name, _ in TABLES],
)
def test_tables_with_any_file_formats_equal_javas_after_each_commit(
    java_paimon: JavaPaimon, tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    options = {"bucket": "1", "target-file-size": "2 kb", "num-sorted-run.compaction-trigger": "3", **options}
    columns = [("id", "INT NOT NULL"), ("p", "STRING"), ("v", "INT")]
    model, table = java_paimon.table(tmp_path, "db.model"), java_paimon.table(tmp_path, "db.t")
    for java in (model, table):
        java.create(columns, primary_keys=["id"], options=options)
    ours = interbed_table(tmp_path, "db.t")
    for turn, (rows, kinds) in enumerate(changes(random.Random(name))):
        model.write(rows, kinds=kinds)
        (table if turn % 3 == 2 else ours).write(rows, kinds=kinds)
        if turn % 4 == 3:
            model.compact()
            ours.compact()
        expected = model.read().comparable()
        assert ours.read().comparable() == expected
        assert table.read().comparable() == expected
        if "vectors" in name:
            assert ours.read(filter="v = 1").comparable() == [r for r in expected if r[2] == 1]
    assert changelog(table) == changelog(model)
    endings = {f["level"]: f["file_name"].partition(".")[2] for f in table.files()}
    assert endings == {f["level"]: f["file_name"].partition(".")[2] for f in model.files()}
    changelog_formats = {p.name.partition(".")[2] for p in (tmp_path / "db.db" / "t").rglob("changelog-*")}
    assert changelog_formats == {p.name.partition(".")[2] for p in (tmp_path / "db.db" / "model").rglob("changelog-*")}
