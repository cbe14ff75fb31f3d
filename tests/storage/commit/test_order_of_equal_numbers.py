"""Writers that begin together give their rows the same sequence numbers.

Of two rows of one key the file that was written later has the newer one. Reads, compactions and changelogs agree on it,
and no compaction changes what readers see, whatever key ranges the files have.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed import CommitConflictError, Table

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))
KINDS: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "write-only": {"write-only": "true"},
}
SECOND = {"first": (2, 0), "last": (2, 3)}
"""The second key of the first and of the second writer: which of the files begins, or ends, with the smaller key."""


@pytest.fixture
def catalog(tmp_path: Path) -> interbed.Catalog:
    opened = interbed.load_catalog(warehouse=f"file:{tmp_path}")
    opened.create_database("shop")
    return opened


class _PreparedCommit:
    """Rows of a writer that are written, and compacted if the table's options ask for it, but not committed."""

    def __init__(self, table: Table, keys: Sequence[int], value: str) -> None:
        builder = table.new_batch_write_builder()
        write = builder.new_write()
        write.write_arrow(pa.table({"id": keys, "v": [value] * len(keys)}, schema=SCHEMA))
        self._commit = builder.new_commit()
        self._messages = write.prepare_commit()

    def commit(self) -> None:
        self._commit.commit(self._messages)


def rows(table: Table, snapshot_id: int | None = None) -> dict[int, str]:
    return {r["id"]: r["v"] for r in table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()}


def replayed(table: Table) -> dict[int, str]:
    found: dict[int, str] = {}
    for row in table.changes(1).to_arrow().to_pylist():
        kind, key, value = row["_row_kind"], row["id"], row["v"]
        if kind in (0, 2):
            found[key] = value
        else:
            assert found.pop(key) == value, f"{row} removes another row"
    return found


@pytest.mark.parametrize("first_compacts", [False, True])
@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_no_compaction_changes_the_winner_of_two_writers(
    catalog: interbed.Catalog, options: Mapping[str, str], second: tuple[int, int], first_compacts: bool
) -> None:
    name = "shop.orders"
    catalog.create_table(name, SCHEMA, primary_keys=["id"], options={"bucket": "1", **options})
    for value in ("a", "b"):
        catalog.get_table(name).upsert([{"id": key, "v": value} for key in range(5)])
    began = catalog.get_table(name)
    earlier = _PreparedCommit(
        began if first_compacts else began.copy({"write-only": "true"}), (1, second[0]), "earlier"
    )
    later = _PreparedCommit(catalog.get_table(name), (1, second[1]), "later")
    earlier.commit()
    later.commit()
    with suppress(CommitConflictError):
        catalog.get_table(name).compact(full=False)
    catalog.get_table(name).compact()
    table = catalog.get_table(name)
    seen = [(s.id, s.commit_kind.value, rows(table, s.id)) for s in table.snapshots()]
    for (_, _, before), (snapshot_id, kind, after) in pairwise(seen):
        assert kind != "COMPACT" or after == before, f"the compaction of snapshot {snapshot_id} changed rows: {seen}"
    assert rows(table)[1] == "later"
    if options.get("changelog-producer") in ("lookup", "full-compaction"):
        assert replayed(table) == rows(table)


def test_a_compaction_is_given_up_that_would_move_rows_below_older_ones(catalog: interbed.Catalog) -> None:
    name = "shop.orders"
    options = {"bucket": "1", "changelog-producer": "full-compaction"}
    catalog.create_table(name, SCHEMA, primary_keys=["id"], options=options)
    catalog.get_table(name).upsert([{"id": key, "v": "a"} for key in range(5)])
    began = catalog.get_table(name)
    earlier = _PreparedCommit(began.copy({"write-only": "true"}), [1, 2], "earlier")
    later = _PreparedCommit(began, [0, 1], "later")
    earlier.commit()
    before = len(began.snapshots())
    later.commit()
    table = catalog.get_table(name)
    assert [s.commit_kind.value for s in table.snapshots()][before:] == ["APPEND"]
    assert rows(table) == {0: "later", 1: "later", 2: "earlier", 3: "a", 4: "a"}
    table.compact()
    assert rows(table) == {0: "later", 1: "later", 2: "earlier", 3: "a", 4: "a"}
