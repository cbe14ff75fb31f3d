"""Metadata that interbed writes about its files equals Java Paimon's about the same rows."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.interop.limits import holds_key, holds_partition, holds_value
from tests.interop.strategies import RANDOM, TableHistory, append_histories, keyed_histories
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable

# Names, sizes and bytes of files differ; statistics used for pruning and merging must not.
COMPARED = (
    "row_count",
    "level",
    "schema_id",
    "min_sequence_number",
    "max_sequence_number",
    "delete_row_count",
    "file_source",
    "min_key",
    "max_key",
    "key_stats",
    "value_stats_cols",
    "value_stats",
)


def files_of(table: JavaTable) -> list[Any]:
    """Return the plan's files sorted, without the fields that may differ."""
    found = [
        {
            "partition": split["partition"],
            "bucket": split["bucket"],
            "raw_convertible": split["raw_convertible"],
            **{name: file.get(name) for name in COMPARED},
        }
        for split in table.plan()
        for file in split["files"]
    ]
    return sorted(found, key=str)


def write_both(java: JavaPaimon, warehouse: Path, history: TableHistory) -> tuple[JavaTable, JavaTable]:
    """Replay the history by Java Paimon and by interbed, each in its own table; return both as Java Paimon's tables."""
    ours, theirs = interbed_table(warehouse, "db.ours"), java.table(warehouse, "db.theirs")
    for table in (ours, theirs):
        table.create(
            history.columns,
            primary_keys=history.primary_keys,
            partition_keys=history.partition_keys,
            options=history.options,
        )
        for commit in history.commits:
            table.write([row for _, row in commit], kinds=[kind for kind, _ in commit])
    seen = java.table(warehouse, "db.ours")
    assert schema_of(seen) == schema_of(theirs)
    return seen, theirs


def schema_of(table: JavaTable) -> dict[str, Any]:
    """Return the schema without the location and time of its creation."""
    schema = table.schema()
    options = {key: value for key, value in schema["options"].items() if key != "path"}
    return {**schema, "options": options, "timeMillis": 0}


LIMITS: Any = {
    "value": lambda of: holds_value("java", of),
    "key": lambda of: holds_key("java", of),
    "partition": lambda of: holds_partition("java", of),
}


@pytest.mark.longer
def test_file_metadata_of_keyed_tables_equals_javas(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    count = itertools.count()

    @RANDOM
    @given(history=keyed_histories(**LIMITS, options={"write-only": "true"}))
    def run(history: TableHistory) -> None:
        ours, theirs = write_both(java_paimon, tmp_path / f"w{next(count)}", history)
        assert files_of(ours) == files_of(theirs)

    run()


@pytest.mark.longer
def test_file_metadata_of_append_tables_equals_javas(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    count = itertools.count()

    @RANDOM
    @given(history=append_histories(**LIMITS))
    def run(history: TableHistory) -> None:
        ours, theirs = write_both(java_paimon, tmp_path / f"w{next(count)}", history)
        assert files_of(ours) == files_of(theirs)

    run()
