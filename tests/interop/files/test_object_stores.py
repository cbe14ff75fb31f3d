"""Tables in an S3 object store, written in turns by Java Paimon through Hadoop's S3AFileSystem and by interbed."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.support.peers.interbed import InterbedTable, interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.servers.http_servers import for_hadoop, running_s3

pytestmark = pytest.mark.long

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING"), ("dt", "STRING NOT NULL")]


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with running_s3("lake") as options:
        yield options


@pytest.fixture(scope="module")
def java(store: dict[str, str]) -> Iterator[JavaPaimon]:
    with JavaPaimon(hadoop=for_hadoop(store)) as peer:
        yield peer


class SharedS3Table:
    """A table as opened by Java Paimon and by interbed."""

    def __init__(self, java: JavaPaimon, store: dict[str, str], warehouse: str) -> None:
        self.java: JavaTable = java.table(f"s3a://lake/{warehouse}", "db.t")
        self.ours: InterbedTable = interbed_table(f"s3://lake/{warehouse}", "db.t", store)

    def assert_both_read(self, rows: list[list[Any]]) -> None:
        assert self.ours.read().comparable() == sorted(rows, key=str)
        assert self.java.read().comparable() == sorted(rows, key=str)


@pytest.fixture
def shared(java: JavaPaimon, store: dict[str, str], request: pytest.FixtureRequest) -> SharedS3Table:
    return SharedS3Table(java, store, request.node.name.replace("[", "-").rstrip("]"))


@pytest.mark.parametrize("creator", ["interbed", "java"])
def test_keyed_rows_are_exchanged_in_both_directions(shared: SharedS3Table, creator: str) -> None:
    table: Any = shared.ours if creator == "interbed" else shared.java
    table.create(COLUMNS, primary_keys=["dt", "id"], partition_keys=["dt"], options={"bucket": "2"})
    # Directory names that must be escaped in an address.
    shared.ours.write([[1, "ours", "a/b %"], [2, "ours", "a/b %"], [3, "ours", "z"]])
    shared.assert_both_read([[1, "ours", "a/b %"], [2, "ours", "a/b %"], [3, "ours", "z"]])
    shared.java.write([[2, "java", "a/b %"], [3, "java", "z"], [4, "java", "ü"]], kinds=["+U", "-D", "+I"])
    shared.assert_both_read([[1, "ours", "a/b %"], [2, "java", "a/b %"], [4, "java", "ü"]])
    shared.ours.write([[1, "again", "a/b %"], [4, "again", "ü"]])
    shared.java.compact()
    shared.assert_both_read([[1, "again", "a/b %"], [2, "java", "a/b %"], [4, "again", "ü"]])
    shared.ours.load().delete("id = 1")
    shared.ours.compact()
    shared.java.write([[5, "java", "z"]])
    shared.assert_both_read([[2, "java", "a/b %"], [4, "again", "ü"], [5, "java", "z"]])
    # Each reads the version that the other wrote before.
    assert shared.java.read(snapshot_id=1).comparable() == shared.ours.read(snapshot_id=1).comparable()
    assert len(shared.ours.read(snapshot_id=1).rows) == 3
    shared.ours.load().versions.create_tag("kept")
    assert set(shared.java.version("tags")["tags"]) == {"kept"}


@pytest.mark.parametrize("creator", ["interbed", "java"])
def test_deletion_vectors_of_each_hide_rows_from_the_other(shared: SharedS3Table, creator: str) -> None:
    table: Any = shared.ours if creator == "interbed" else shared.java
    table.create(
        COLUMNS,
        primary_keys=["id", "dt"],
        partition_keys=["dt"],
        options={"bucket": "1", "deletion-vectors.enabled": "true"},
    )
    shared.ours.write([[i, "first", "a"] for i in range(100)])
    shared.java.write([[i, "java", "a"] for i in range(0, 100, 3)])
    expected = {i: "java" if i % 3 == 0 else "first" for i in range(100)}
    shared.assert_both_read([[i, v, "a"] for i, v in expected.items()])
    shared.ours.load().delete("id >= 90")
    shared.ours.write([[1, "ours", "a"], [200, "ours", "b"]])
    expected = {i: v for i, v in expected.items() if i < 90} | {1: "ours"}
    shared.assert_both_read([*([i, v, "a"] for i, v in expected.items()), [200, "ours", "b"]])
    splits = shared.ours.load().new_scan().plan().splits
    assert any(split.deletion_files for split in splits)
    shared.java.compact()
    shared.assert_both_read([*([i, v, "a"] for i, v in expected.items()), [200, "ours", "b"]])


@pytest.mark.parametrize("creator", ["interbed", "java"])
def test_both_read_the_appended_rows_of_the_other(shared: SharedS3Table, creator: str) -> None:
    table: Any = shared.ours if creator == "interbed" else shared.java
    table.create(COLUMNS, partition_keys=["dt"], options={"bucket": "-1"})
    for number in range(3):
        shared.ours.write([[number, "ours", "a"]])
        shared.java.write([[number, "java", "a"]])
    rows = [[number, who, "a"] for number in range(3) for who in ("ours", "java")]
    shared.assert_both_read(rows)
    shared.ours.compact()
    shared.java.write([[7, "java", "b"]])
    shared.assert_both_read([*rows, [7, "java", "b"]])
    names = ["id", "v", "dt"]
    shared.ours.load().overwrite(pa.table([[9], ["ours"], ["b"]], names=names), partitions={"dt": "b"})
    shared.assert_both_read([*rows, [9, "ours", "b"]])
