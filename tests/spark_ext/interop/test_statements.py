"""After every statement of Spark, Java Paimon and pypaimon read the rows that Spark reads, in every kind of table.

Tables of different kinds have the same rows after the same statements; the rows are beside the statements.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.spark_ext.interop.all_readers import AllReaders
from tests.support.shares import each_run


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of table: `keys` and `options` are its properties."""

    keys: str = ""
    partitioned: bool = False
    options: dict[str, str] = field(default_factory=dict)
    pypaimon: bool = True
    """Whether pypaimon supports the table's options."""

    def create(self, readers: AllReaders) -> None:
        """Create `db.t` of this kind."""
        properties = {**({"primary-key": self.keys} if self.keys else {}), **self.options}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        readers.sql(
            "CREATE TABLE {lake}.db.t (id INT NOT NULL, p STRING NOT NULL, v INT, s STRING)"
            + (" PARTITIONED BY (p)" if self.partitioned else "")
            + (f" TBLPROPERTIES ({listed})" if listed else "")
        )

    @property
    def producer(self) -> str:
        """The changelog producer of the table."""
        return self.options.get("changelog-producer", "none")


VECTORS = {"deletion-vectors.enabled": "true"}
PARTIAL = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}

KINDS = {
    "lookup with vectors, partitioned": Kind(
        keys="p,id", partitioned=True, options={"bucket": "2", "changelog-producer": "lookup", **VECTORS}
    ),
    "input in dynamic buckets": Kind(keys="p,id", partitioned=True, options={"changelog-producer": "input"}),
    "cross-partition": Kind(keys="id", partitioned=True, options={"bucket": "-1"}),
    "partial-update, full compaction": Kind(
        keys="id",
        options={"bucket": "1", "changelog-producer": "full-compaction", "file.format": "orc", **PARTIAL},
        pypaimon=False,
    ),
    "vectors in an append table": Kind(partitioned=True, options=VECTORS),
    "copies in an append table": Kind(options={"file.format": "avro"}),
    "append table with buckets": Kind(partitioned=True, options={"bucket": "2", "bucket-key": "id"}),
}

COMBINED = ("input in dynamic buckets", "vectors in an append table", "copies in an append table")
"""Kinds whose features the other kinds have separately."""

FIRST = "(1, 'x', 10, 'a'), (2, 'x', 20, NULL), (3, 'y', 30, 'c'), (4, 'y', 40, 'd'), (5, 'z', 50, 'e')"

SHARED: list[tuple[str, str]] = [
    (f"INSERT INTO {{t}} VALUES {FIRST}", "1 x 10 a; 2 x 20 null; 3 y 30 c; 4 y 40 d; 5 z 50 e"),
    (
        "UPDATE {t} SET v = v + 1, s = upper(s) WHERE id IN (1, 3)",
        "1 x 11 A; 2 x 20 null; 3 y 31 C; 4 y 40 d; 5 z 50 e",
    ),
    ("DELETE FROM {t} WHERE v = 20", "1 x 11 A; 3 y 31 C; 4 y 40 d; 5 z 50 e"),
    (
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (3, 'y', 0, 'gone'), (4, 'y', 44, 'm'), (6, 'x', 60, 'n'), "
        "(7, 'w', 70, 'skip') AS s(id, p, v, s)) s ON t.id = s.id AND t.p = s.p "
        "WHEN MATCHED AND s.s = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v, s = s.s "
        "WHEN NOT MATCHED AND s.s <> 'skip' THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN UPDATE SET v = -5 "
        "WHEN NOT MATCHED BY SOURCE AND t.v > 1000 THEN DELETE",
        "1 x 11 A; 4 y 44 m; 5 z -5 e; 6 x 60 n",
    ),
    (
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (1, 'x', 1, 'one'), (4, 'y', 4, 'four'), (8, 'z', 8, 'eight') "
        "AS s(id, p, v, s)) s ON t.id = s.id AND t.p = s.p WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE",
        "1 x 1 one; 4 y 4 four; 8 z 8 eight",
    ),
    (
        "INSERT INTO {t} BY NAME SELECT 'x' AS p, 'nine' AS s, 9 AS id, 9 AS v",
        "1 x 1 one; 4 y 4 four; 8 z 8 eight; 9 x 9 nine",
    ),
    ("CALL {lake}.sys.compact('db.t')", "1 x 1 one; 4 y 4 four; 8 z 8 eight; 9 x 9 nine"),
]
OF_PARTITIONS: list[tuple[str, str]] = [
    (
        "INSERT OVERWRITE {t} PARTITION (p = 'x') SELECT 1, 100, 'over'",
        "1 x 100 over; 4 y 4 four; 8 z 8 eight",
    ),
    (
        "INSERT OVERWRITE {t} VALUES (4, 'y', 400, 'dyn'), (10, 'v', 10, 'v')",
        "1 x 100 over; 4 y 400 dyn; 8 z 8 eight; 10 v 10 v",
    ),
    ("ALTER TABLE {t} DROP PARTITION (p = 'z')", "1 x 100 over; 4 y 400 dyn; 10 v 10 v"),
    ("DELETE FROM {t} WHERE p = 'v'", "1 x 100 over; 4 y 400 dyn"),
]
OF_ALL: list[tuple[str, str]] = [
    ("INSERT OVERWRITE {t} VALUES (1, 'x', 100, 'over'), (4, 'y', 400, 'dyn')", "1 x 100 over; 4 y 400 dyn"),
]
OF_KEYS_IN_ANY_PARTITION: list[tuple[str, str]] = [
    ("UPDATE {t} SET v = 100, s = 'over' WHERE p = 'x'", "1 x 100 over; 4 y 4 four; 8 z 8 eight; 9 x 100 over"),
    ("INSERT INTO {t} VALUES (4, 'v', 400, 'moved')", "1 x 100 over; 4 v 400 moved; 8 z 8 eight; 9 x 100 over"),
    ("ALTER TABLE {t} DROP PARTITION (p = 'x')", "4 v 400 moved; 8 z 8 eight"),
    ("INSERT INTO {t} VALUES (1, 'z', 100, 'again')", "1 z 100 again; 4 v 400 moved; 8 z 8 eight"),
]
"""A statement that replaces some of the partitions is refused there."""


def shown(rows: list[list[object]]) -> str:
    """Format rows like the expected ones."""
    ordered = sorted(rows, key=lambda row: int(str(row[0])))
    return "; ".join(" ".join("null" if value is None else str(value) for value in row) for row in ordered)


@pytest.fixture
def dynamic_overwrites(readers: AllReaders) -> Iterator[None]:
    """Setting by which an overwrite without PARTITION replaces only the partitions that get rows."""
    readers.lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    yield
    readers.lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


@pytest.mark.sample(1)
@pytest.mark.usefixtures("dynamic_overwrites")
@pytest.mark.parametrize("name", each_run(KINDS, lambda name: name not in COMBINED))
def test_all_readers_agree_after_every_statement(readers: AllReaders, name: str) -> None:
    kind = KINDS[name]
    kind.create(readers)
    own = OF_KEYS_IN_ANY_PARTITION if name == "cross-partition" else OF_PARTITIONS if kind.partitioned else OF_ALL
    for part in (SHARED, own):
        for statement, expected in part:
            readers.sql(statement.replace("{t}", "{lake}.db.t"))
            assert shown(readers.agree("db.t", pypaimon=kind.pypaimon)) == expected, statement
        if part is SHARED and kind.producer != "none":
            check_changes(readers, kind)
    check_versions(readers, kind, own[-1][1])


def check_changes(readers: AllReaders, kind: Kind) -> None:
    """Assert that all readers return the same changes, and that these produce the rows."""
    last = readers.last_snapshot("db.t")
    readers.agree_on_changes("db.t", 1, last)
    rows: dict[str, list[object]] = {}
    # Snapshot by snapshot, because changes of a key are ordered only within one snapshot.
    for snapshot in range(1, last + 1):
        changed = readers.table("db.t").changes(snapshot, snapshot)
        for change, row in zip(changed.kinds, changed.rows, strict=True):
            if change in ("+I", "+U"):
                rows[str(row[:2])] = row
            elif change == "-D":
                rows.pop(str(row[:2]), None)
    assert shown(list(rows.values())) == shown(readers.agree("db.t", pypaimon=False))


def check_versions(readers: AllReaders, kind: Kind, rows: str) -> None:
    """Assert that a tag survives truncation, and that a branch is independent."""
    readers.sql("CALL {lake}.sys.create_tag('db.t', 'kept')")
    readers.sql("CALL {lake}.sys.create_branch('db.t', 'b', 'kept')")
    readers.sql("INSERT INTO {lake}.db.`t$branch_b` VALUES (77, 'x', 7, 'of the branch')")
    readers.sql("TRUNCATE TABLE {lake}.db.t")
    assert readers.agree("db.t", pypaimon=kind.pypaimon) == []
    assert shown(readers.agree("db.t", version="kept")) == rows
    assert shown(readers.agree("db.t$branch_b", pypaimon=False)) == f"{rows}; 77 x 7 of the branch"
