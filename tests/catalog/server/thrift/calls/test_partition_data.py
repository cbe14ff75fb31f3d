"""The data of partitions: emptied by TRUNCATE, deleted with their directories by DROP PARTITION."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import storage, table

KEYS = (("a", "string"), ("b", "int"))


@pytest.fixture
def partitions(wire: Any, database: str) -> dict[str, Path]:
    """Create a table `t` with three partitions, each with a file and row counts; return names with
    their directories.
    """
    wire.create_table(table(database, "t", partition_keys=KEYS))
    directories = {}
    for values in (["x", "1"], ["x", "2"], ["y", "1"]):
        part = ttypes.Partition(
            dbName=database,
            tableName="t",
            values=values,
            sd=storage(),
            parameters={
                "numRows": "7",
                "numFiles": "1",
                "other": "kept",
                "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true","COLUMN_STATS":{"id":"true"}}',
            },
        )
        part.sd.location = None
        made = wire.add_partition(part)
        directory = Path(urlsplit(made.sd.location).path)
        (directory / "data").write_text("rows")
        directories["/".join(f"{k}={v}" for (k, _), v in zip(KEYS, values, strict=True))] = directory
    return directories


def counts(wire: Any, database: str) -> dict[str, str]:
    """Return the row count of each partition."""
    return {"/".join(p.values): p.parameters["numRows"] for p in wire.get_partitions(database, "t", -1)}


def test_truncated_partitions_have_a_row_count_of_zero(wire: Any, database: str, partitions: dict[str, Path]) -> None:
    before = wire.get_current_notificationEventId().eventId
    wire.truncate_table_req(ttypes.TruncateTableRequest(dbName=database, tableName="t", partNames=["a=x/b=2"]))
    assert counts(wire, database) == {"x/1": "7", "x/2": "0", "y/1": "7"}
    assert [sum(1 for _ in d.iterdir()) for d in partitions.values()] == [1, 0, 1]
    emptied = wire.get_partition(database, "t", ["x", "2"])
    assert (emptied.parameters["numFiles"], emptied.parameters["other"]) == ("0", "kept")
    assert json.loads(emptied.parameters["COLUMN_STATS_ACCURATE"]) == {"BASIC_STATS": "true"}
    (event,) = wire.get_next_notification(ttypes.NotificationEventRequest(lastEvent=before)).events
    assert event.eventType == "ALTER_PARTITION"
    assert json.loads(event.message)["isTruncateOp"] == "true"
    wire.truncate_table(database, "t", [])
    assert set(counts(wire, database).values()) == {"0"}
    assert not any(any(d.iterdir()) for d in partitions.values())


def test_a_dropped_partition_deletes_empty_parent_directories(
    wire: Any, database: str, partitions: dict[str, Path]
) -> None:
    home = partitions["a=x/b=1"].parent.parent
    assert wire.drop_partition(database, "t", ["x", "1"], True)
    assert sorted(p.name for p in home.iterdir()) == ["a=x", "a=y"]
    assert wire.drop_partition(database, "t", ["x", "2"], True)
    assert sorted(p.name for p in home.iterdir()) == ["a=y"]
    assert wire.drop_partition(database, "t", ["y", "1"], True)
    assert list(home.iterdir()) == []
