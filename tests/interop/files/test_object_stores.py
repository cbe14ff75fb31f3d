"""Tables in a store with S3's interface, by Java Paimon through Hadoop's S3AFileSystem and by interbed, in turns."""

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


class Both:
    """A table as both see it."""

    def __init__(self, java: JavaPaimon, store: dict[str, str], warehouse: str) -> None:
        self.java: JavaTable = java.table(f"s3a://lake/{warehouse}", "db.t")
        self.ours: InterbedTable = interbed_table(f"s3://lake/{warehouse}", "db.t", store)

    def see(self, rows: list[list[Any]]) -> None:
        assert self.ours.read().comparable() == sorted(rows, key=str)
        assert self.java.read().comparable() == sorted(rows, key=str)


@pytest.fixture
def both(java: JavaPaimon, store: dict[str, str], request: pytest.FixtureRequest) -> Both:
    return Both(java, store, request.node.name.replace("[", "-").rstrip("]"))


@pytest.mark.parametrize("creator", ["interbed", "java"])
def test_rows_with_keys_go_from_one_to_the_other_and_back(both: Both, creator: str) -> None:
    table: Any = both.ours if creator == "interbed" else both.java
    table.create(COLUMNS, primary_keys=["dt", "id"], partition_keys=["dt"], options={"bucket": "2"})
    # Names of directories that have to be written otherwise in an address.
    both.ours.write([[1, "ours", "a/b %"], [2, "ours", "a/b %"], [3, "ours", "z"]])
    both.see([[1, "ours", "a/b %"], [2, "ours", "a/b %"], [3, "ours", "z"]])
    both.java.write([[2, "java", "a/b %"], [3, "java", "z"], [4, "java", "ü"]], kinds=["+U", "-D", "+I"])
    both.see([[1, "ours", "a/b %"], [2, "java", "a/b %"], [4, "java", "ü"]])
    both.ours.write([[1, "again", "a/b %"], [4, "again", "ü"]])
    both.java.compact()
    both.see([[1, "again", "a/b %"], [2, "java", "a/b %"], [4, "again", "ü"]])
    both.ours.load().delete("id = 1")
    both.ours.compact()
    both.java.write([[5, "java", "z"]])
    both.see([[2, "java", "a/b %"], [4, "again", "ü"], [5, "java", "z"]])
    # Each goes back to what the other wrote.
    assert both.java.read(snapshot_id=1).comparable() == both.ours.read(snapshot_id=1).comparable()
    assert len(both.ours.read(snapshot_id=1).rows) == 3
    both.ours.load().versions.create_tag("kept")
    assert set(both.java.version("tags")["tags"]) == {"kept"}


@pytest.mark.parametrize("creator", ["interbed", "java"])
def test_deletion_vectors_of_each_hide_rows_from_the_other(both: Both, creator: str) -> None:
    table: Any = both.ours if creator == "interbed" else both.java
    table.create(
        COLUMNS,
        primary_keys=["id", "dt"],
        partition_keys=["dt"],
        options={"bucket": "1", "deletion-vectors.enabled": "true"},
    )
    both.ours.write([[i, "first", "a"] for i in range(100)])
    both.java.write([[i, "java", "a"] for i in range(0, 100, 3)])
    expected = {i: "java" if i % 3 == 0 else "first" for i in range(100)}
    both.see([[i, v, "a"] for i, v in expected.items()])
    both.ours.load().delete("id >= 90")
    both.ours.write([[1, "ours", "a"], [200, "ours", "b"]])
    expected = {i: v for i, v in expected.items() if i < 90} | {1: "ours"}
    both.see([*([i, v, "a"] for i, v in expected.items()), [200, "ours", "b"]])
    splits = both.ours.load().new_scan().plan().splits
    assert any(split.deletion_files for split in splits)
    both.java.compact()
    both.see([*([i, v, "a"] for i, v in expected.items()), [200, "ours", "b"]])


@pytest.mark.parametrize("creator", ["interbed", "java"])
def test_appended_rows_are_everybodys(both: Both, creator: str) -> None:
    table: Any = both.ours if creator == "interbed" else both.java
    table.create(COLUMNS, partition_keys=["dt"], options={"bucket": "-1"})
    for number in range(3):
        both.ours.write([[number, "ours", "a"]])
        both.java.write([[number, "java", "a"]])
    rows = [[number, who, "a"] for number in range(3) for who in ("ours", "java")]
    both.see(rows)
    both.ours.compact()
    both.java.write([[7, "java", "b"]])
    both.see([*rows, [7, "java", "b"]])
    names = ["id", "v", "dt"]
    both.ours.load().overwrite(pa.table([[9], ["ours"], ["b"]], names=names), partitions={"dt": "b"})
    both.see([*rows, [9, "ours", "b"]])
