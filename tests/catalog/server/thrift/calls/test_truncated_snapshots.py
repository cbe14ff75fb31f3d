"""Files that snapshots name are deleted with their table alone, by no TRUNCATE and no DROP PARTITION."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import storage, table

KEYS = (("a", "string"),)
FORMATS: Mapping[str, Mapping[str, str]] = {
    "paimon": {},
    "iceberg": {"table_type": "ICEBERG", "metadata_location": "file:/m"},
    "both": {"table_type": "ICEBERG", "metadata_location": "file:/m"},
}
SKIPS = ttypes.EnvironmentContext(properties={"truncateSkipDataDeletion": "true"})
"""What Hive 4 sends after it has removed the rows of a table of Iceberg by a snapshot."""


def _created(wire: Any, database: str, kind: str, **fields: Any) -> Path:
    """Create a managed table of the format, and return its directory."""
    made = table(database, "t", **fields)
    made.parameters = {**(made.parameters or {}), **FORMATS[kind], "numRows": "7"}
    if kind != "iceberg":
        made.sd.inputFormat = "org.apache.paimon.hive.mapred.PaimonInputFormat"
        made.sd.outputFormat = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
    wire.create_table(made)
    return Path(urlsplit(wire.get_table(database, "t").sd.location).path)


def _with_file(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "data-1"
    file.write_text("rows")
    return file


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_with_snapshots_is_not_emptied(wire: Any, database: str, kind: str) -> None:
    file = _with_file(_created(wire, database, kind))
    request = ttypes.TruncateTableRequest(dbName=database, tableName="t")
    with pytest.raises(ttypes.MetaException, match="its snapshots name them"):
        wire.truncate_table(database, "t", None)
    with pytest.raises(ttypes.MetaException, match="its snapshots name them"):
        wire.truncate_table_req(request)
    assert file.exists()
    assert wire.get_table(database, "t").parameters["numRows"] == "7"


@pytest.mark.parametrize("kind", FORMATS)
def test_a_client_that_has_removed_the_rows_is_not_refused(wire: Any, database: str, kind: str) -> None:
    file = _with_file(_created(wire, database, kind))
    wire.truncate_table_req(ttypes.TruncateTableRequest(dbName=database, tableName="t", environmentContext=SKIPS))
    assert file.exists()
    assert wire.get_table(database, "t").parameters["numRows"] == "0"


@pytest.mark.parametrize("kind", ["paimon", "both"])
def test_partitions_with_snapshots_keep_their_files(wire: Any, database: str, kind: str) -> None:
    _created(wire, database, kind, partition_keys=KEYS)
    files = {}
    for value in "xyz":
        part = ttypes.Partition(dbName=database, tableName="t", values=[value], sd=storage())
        part.parameters = {"numRows": "7"}
        part.sd.location = None
        files[value] = _with_file(Path(urlsplit(wire.add_partition(part).sd.location).path))
    request = ttypes.TruncateTableRequest(dbName=database, tableName="t", partNames=["a=x"])
    calls: Sequence[tuple[Any, ...]] = (
        (wire.truncate_table_req, request),
        (wire.truncate_table, database, "t", []),
        (wire.drop_partition, database, "t", ["x"], True),
        (wire.drop_partition_by_name, database, "t", "a=x", True),
    )
    for call, *arguments in calls:
        with pytest.raises(ttypes.MetaException, match="its snapshots name them"):
            call(*arguments)
    assert wire.get_partition_names(database, "t", -1) == ["a=x", "a=y", "a=z"]
    request.environmentContext = SKIPS
    wire.truncate_table_req(request)
    assert wire.get_partition(database, "t", ["x"]).parameters["numRows"] == "0"
    # The entry alone is dropped, as Paimon's clients ask for it.
    assert wire.drop_partition(database, "t", ["y"], False)
    assert all(file.exists() for file in files.values())
    wire.drop_table(database, "t", True)
    assert not any(file.exists() for file in files.values())
