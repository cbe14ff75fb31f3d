"""What interbed writes about its files is what Java Paimon writes about the same rows."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.interop.limits import holds_key, holds_partition, holds_value
from tests.interop.strategies import RANDOM, Story, append_stories, keyed_stories
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable

# Names, sizes and bytes of files differ; what readers prune and merge by must not.
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
    """What the plan says, without what may differ, in an order of its own."""
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


def write_both(java: JavaPaimon, warehouse: Path, story: Story) -> tuple[JavaTable, JavaTable]:
    """The story told by Java Paimon and by interbed, each in a table of its own, both as Java Paimon sees them."""
    ours, theirs = interbed_table(warehouse, "db.ours"), java.table(warehouse, "db.theirs")
    for table in (ours, theirs):
        table.create(
            story.columns, primary_keys=story.primary_keys, partition_keys=story.partition_keys, options=story.options
        )
        for commit in story.commits:
            table.write([row for _, row in commit], kinds=[kind for kind, _ in commit])
    seen = java.table(warehouse, "db.ours")
    assert schema_of(seen) == schema_of(theirs)
    return seen, theirs


def schema_of(table: JavaTable) -> dict[str, Any]:
    """The schema, without where and when the table was made."""
    schema = table.schema()
    options = {key: value for key, value in schema["options"].items() if key != "path"}
    return {**schema, "options": options, "timeMillis": 0}


LIMITS: Any = {
    "value": lambda of: holds_value("java", of),
    "key": lambda of: holds_key("java", of),
    "partition": lambda of: holds_partition("java", of),
}


@pytest.mark.longer
def test_files_of_keyed_tables_are_described_alike(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    count = itertools.count()

    @RANDOM
    @given(story=keyed_stories(**LIMITS, options={"write-only": "true"}))
    def run(story: Story) -> None:
        ours, theirs = write_both(java_paimon, tmp_path / f"w{next(count)}", story)
        assert files_of(ours) == files_of(theirs)

    run()


@pytest.mark.longer
def test_files_of_append_tables_are_described_alike(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    count = itertools.count()

    @RANDOM
    @given(story=append_stories(**LIMITS))
    def run(story: Story) -> None:
        ours, theirs = write_both(java_paimon, tmp_path / f"w{next(count)}", story)
        assert files_of(ours) == files_of(theirs)

    run()
