"""File indexes of interbed and Java Paimon: each reads the other's, and skips the files that they exclude."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.files.file_index.api import IndexContainer
from interbed.storage.meta.manifest.entry import DataFileMeta
from tests.support.peers.interbed import InterbedTable, interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable

COLUMNS = [
    ("id", "BIGINT NOT NULL"),
    ("flag", "BOOLEAN"),
    ("small", "TINYINT"),
    ("number", "INT"),
    ("real", "DOUBLE"),
    ("text", "STRING"),
    ("day", "DATE"),
    ("moment", "TIMESTAMP(3)"),
    ("instant", "TIMESTAMP(6)"),
    ("price", "DECIMAL(9, 2)"),
    ("bytes", "BYTES"),
]
ROWS: list[list[Any]] = [
    [
        i,
        None if i % 7 == 0 else i % 2 == 0,
        i % 5 - 2,
        None if i % 11 == 0 else (i * 37) % 13 - 6,
        str((i % 9) / 4 - 1),
        None if i % 5 == 0 else f"täxt-{i % 17}" * (1 + i % 3),
        i % 20 - 5,
        (i % 30) * 1_001_000_000,
        (i % 30) * 1_001_001_000 - 7_000_000_000,
        f"{(i % 40) - 20}.25",
        None,
    ]
    for i in range(200)
]
KINDS = {
    "bloom-filter": "id,small,number,real,text,day,moment,instant",
    "bitmap": "id,flag,small,number,text,day,moment,instant",
    "bsi": "id,small,number,day,moment,instant,price",
    "range-bitmap": "id,flag,small,number,real,text,day,moment,instant,price",
}
OPTIONS = {
    **{f"file-index.{kind}.columns": columns for kind, columns in KINDS.items()},
    **{f"file-index.bloom-filter.{c}.items": "300" for c in KINDS["bloom-filter"].split(",")},
    "file-index.bitmap.text.index-block-size": "64 b",
    "file-index.bitmap.number.version": "1",
    "file-index.range-bitmap.text.chunk-size": "40 b",
    "file-index.range-bitmap.number.chunk-size": "20 b",
    "bucket": "1",
}
FILTERS: list[tuple[str, dict[str, Any]]] = [
    ("id = 42", {"op": "=", "field": "id", "value": 42}),
    ("number = -3", {"op": "=", "field": "number", "value": -3}),
    ("number <> -3", {"op": "<>", "field": "number", "value": -3}),
    ("number >= 4", {"op": ">=", "field": "number", "value": 4}),
    ("number < -4", {"op": "<", "field": "number", "value": -4}),
    ("number is null", {"op": "is null", "field": "number"}),
    ("text = 'täxt-3'", {"op": "=", "field": "text", "value": "täxt-3"}),
    ("text in ('täxt-3', 'no')", {"op": "in", "field": "text", "value": ["täxt-3", "no"]}),
    ("text > 'täxt-5'", {"op": ">", "field": "text", "value": "täxt-5"}),
    ("text is not null", {"op": "is not null", "field": "text"}),
    ("flag = true", {"op": "=", "field": "flag", "value": True}),
    ("real = 0.5", {"op": "=", "field": "real", "value": "0.5"}),
    ("real <= -0.75", {"op": "<=", "field": "real", "value": "-0.75"}),
    ("day = DATE '1970-01-08'", {"op": "=", "field": "day", "value": 7}),
    ("moment = TIMESTAMP '1970-01-01 00:00:03.003'", {"op": "=", "field": "moment", "value": 3_003_000_000}),
    ("instant < TIMESTAMP '1969-12-31 23:59:56'", {"op": "<", "field": "instant", "value": -4_000_000_000}),
    ("price > 15", {"op": ">", "field": "price", "value": "15.00"}),
]


def containers(ours: InterbedTable) -> Iterator[tuple[DataFileMeta, IndexContainer]]:
    """Yield every data file with its indexes, wherever these are stored."""
    for split in ours.load().new_scan().plan().splits:
        for file in split.files:
            if file.embedded_file_index is None:
                (name,) = file.extra_files
                content = (Path(split.bucket_path) / name).read_bytes()
            else:
                content = file.embedded_file_index
            source: Any = pa.BufferReader(content)
            yield file, IndexContainer(source, file.file_name)


def assert_equal_indexes(ours: InterbedTable, java: JavaTable) -> None:
    assert ours.read().comparable() == java.read().comparable()
    for text, peer in FILTERS:
        mine = ours.read(filter=text)
        assert mine.rows, text
        assert mine.comparable() == java.read(filter=peer).comparable(), text


@pytest.mark.parametrize("threshold", ["10 b", "10 mb"])
def test_each_reads_the_others_indexes(java_paimon: JavaPaimon, tmp_path: Path, threshold: str) -> None:
    options = {**OPTIONS, "bucket-key": "flag", "file-index.in-manifest-threshold": threshold}
    written = {}
    for who in ("java", "ours"):
        java = java_paimon.table(tmp_path, f"db.{who}")
        java.create(COLUMNS, options=options)
        ours = interbed_table(tmp_path, f"db.{who}")
        (java if who == "java" else ours).write(ROWS)
        assert_equal_indexes(ours, java)
        ((_, written[who]),) = containers(ours)
    theirs, mine = written["java"].all(), written["ours"].all()
    assert {c: set(kinds) for c, kinds in mine.items()} == {c: set(kinds) for c, kinds in theirs.items()}
    for column, kinds in theirs.items():
        for kind, content in kinds.items():
            # Java writes the bitmaps of `bitmap` in the order of a hash map.
            if kind != "bitmap":
                assert mine[column][kind] == content, (column, kind)


def test_java_skips_files_that_interbeds_indexes_exclude(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    assert_skipped(java_paimon, tmp_path, writer="ours", reader="java")


def test_interbed_skips_files_that_javas_indexes_exclude(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    assert_skipped(java_paimon, tmp_path, writer="java", reader="ours")


def assert_skipped(java_paimon: JavaPaimon, tmp_path: Path, *, writer: str, reader: str) -> None:
    for threshold in ("10 b", "10 mb"):
        name = f"db.t{threshold.replace(' ', '')}"
        java = java_paimon.table(tmp_path, name)
        java.create(COLUMNS, options={**OPTIONS, "bucket-key": "flag", "file-index.in-manifest-threshold": threshold})
        ours = interbed_table(tmp_path, name)
        even = [r for r in ROWS if r[0] % 2 == 0]
        odd = [r for r in ROWS if r[0] % 2 == 1]
        for rows in (even, odd):
            (ours if writer == "ours" else java).write(rows)
        # By statistics either file could contain the row.
        for split in ours.load().new_scan().plan().splits:
            for file in split.files:
                if file.min_sequence_number == 0:
                    Path(split.path_of(file)).write_bytes(b"not a data file")
        for text, peer in (
            ("id = 43", {"op": "=", "field": "id", "value": 43}),
            ("id in (43, 1000)", {"op": "in", "field": "id", "value": [43, 1000]}),
        ):
            found = ours.read(filter=text) if reader == "ours" else java.read(filter=peer)
            assert [row[0] for row in found.rows] == [43]


def test_both_write_a_table_with_deletion_vectors_and_indexes_in_turns(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    java = java_paimon.table(tmp_path, "db.t")
    options = {**OPTIONS, "deletion-vectors.enabled": "true", "file-index.in-manifest-threshold": "10 mb"}
    java.create(COLUMNS, primary_keys=["id"], options=options)
    ours = interbed_table(tmp_path, "db.t")
    source = random.Random(3)
    java.write(ROWS)
    for turn in range(4):
        rows = [[i, *ROWS[(i + turn + 1) % 200][1:]] for i in source.sample(range(200), 20)]
        kinds = [source.choice(["+I", "+I", "-D"]) for _ in rows]
        (ours if turn % 2 else java).write(rows, kinds=kinds)
        expected = java.read()
        assert ours.read().comparable() == expected.comparable()
        for text, peer in FILTERS[1:]:
            assert ours.read(filter=text).comparable() == java.read(filter=peer).comparable(), text
    assert all(container.columns for _, container in containers(ours))
