"""Sessions that ignore missing and damaged files: a snapshot names its files, so a statement that lacks one fails."""

from collections.abc import Iterator

import pytest

from tests.spark_ext.conftest import SparkLake

SETTINGS = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
TABLES = {
    "append": "'bucket' = '-1'",
    "vectors": "'deletion-vectors.enabled' = 'true'",
    "keys": "'primary-key' = 'id', 'bucket' = '1'",
}
STATEMENTS = (
    "SELECT * FROM {lake}.db.t",
    "UPDATE {lake}.db.t SET v = 'z' WHERE v >= 'a'",
    "INSERT OVERWRITE {lake}.db.t SELECT * FROM {lake}.db.t",
)


@pytest.fixture
def ignoring(lake: SparkLake) -> Iterator[SparkLake]:
    """A catalog in a session that ignores missing and damaged files."""
    for setting in SETTINGS:
        lake.spark.conf.set(setting, "true")
    yield lake
    for setting in SETTINGS:
        lake.spark.conf.unset(setting)


@pytest.mark.sample(3)
@pytest.mark.parametrize("damage", ["missing", "damaged"])
@pytest.mark.parametrize("options", TABLES.values(), ids=TABLES)
def test_no_row_of_a_missing_or_damaged_file_is_left_out(ignoring: SparkLake, options: str, damage: str) -> None:
    ignoring.sql(f"CREATE TABLE {{lake}}.db.t (id INT NOT NULL, v STRING) TBLPROPERTIES ({options})")
    ignoring.sql("INSERT INTO {lake}.db.t VALUES (1, 'a'), (2, 'b')")
    ignoring.sql("INSERT INTO {lake}.db.t VALUES (3, 'c'), (4, 'd')")
    if "deletion-vectors" in options:
        ignoring.sql("DELETE FROM {lake}.db.t WHERE id IN (2, 4)")
    if "primary-key" in options:
        ignoring.sql("CALL {lake}.sys.compact(table => 'db.t', compact_strategy => 'full')")
    snapshots = ignoring.tuples("SELECT snapshot_id FROM {lake}.db.`t$snapshots`")
    path = ignoring.tuples("SELECT max(file_path) FROM {lake}.db.`t$files`")[0][0]
    file = ignoring.warehouse / "db.db" / "t" / "bucket-0" / path.rsplit("/", 1)[-1]
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(content[:4] + bytes(len(content) - 4))

    for statement in STATEMENTS:
        with pytest.raises(Exception, match=file.name):
            ignoring.sql(statement)
    assert ignoring.tuples("SELECT snapshot_id FROM {lake}.db.`t$snapshots`") == snapshots
