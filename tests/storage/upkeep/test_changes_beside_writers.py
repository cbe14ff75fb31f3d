"""Changes computed from rows that another writer changes concurrently: no committed value is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.commit.publication import Publication
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.table.table import Table

SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
KINDS: dict[str, dict[str, str]] = {
    "plain": {"bucket": "1"},
    "deletion vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "deletion vectors, lookup": {
        "bucket": "1",
        "deletion-vectors.enabled": "true",
        "changelog-producer": "lookup",
    },
    "lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "dynamic buckets": {"bucket": "-1"},
}


@pytest.fixture(params=list(KINDS))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("db")
    made = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=KINDS[request.param])
    made.upsert([{"k": k, "a": 1, "b": 1} for k in range(3)])
    return made


def again(table: Table) -> Table:
    """Open the table as another writer does."""
    return table.copy({})


def rows(table: Table) -> list[dict[str, object]]:
    return sorted(again(table).scan().to_arrow().to_pylist(), key=str)


def before_first(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, other: Callable[[], object]) -> None:
    """Call `other` once, before the first call of a method."""
    method = getattr(owner, name)
    pending = [other]

    def called(self: object, *arguments: object, **named: object) -> object:
        if pending:
            pending.pop()()
        return method(self, *arguments, **named)

    monkeypatch.setattr(owner, name, called)


def test_a_deletion_leaves_a_row_that_no_longer_matches(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    update = [{"k": 2, "a": 10, "b": 2}]
    before_first(monkeypatch, FileStoreCommit, "commit", lambda: again(table).upsert(update))
    again(table).delete("a < 5")
    assert rows(table) == update


def test_a_deletion_deletes_a_row_that_matches_by_now(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.upsert([{"k": 2, "a": 10, "b": 2}])
    before_first(monkeypatch, FileStoreCommit, "commit", lambda: again(table).upsert([{"k": 2, "a": 0, "b": 0}]))
    again(table).delete("a < 5")
    assert rows(table) == []


def test_present_columns_keep_values_of_another_writer(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lookup happens between the APPEND and the COMPACT snapshot of the other writer, if it makes both."""
    publish = Publication._publish
    pending = [lambda: again(table).upsert(pa.table({"k": [1], "a": [7]}), columns="present")]

    def published(self: Publication, part: Any) -> object:
        if pending and part.facts.kind is CommitKind.COMPACT:
            pending.pop()()
        return publish(self, part)

    monkeypatch.setattr(Publication, "_publish", published)
    again(table).upsert([{"k": 1, "a": 1, "b": 9}])
    if pending:
        pending.pop()()
    assert [row for row in rows(table) if row["k"] == 1] == [{"k": 1, "a": 7, "b": 9}]


def test_present_columns_keep_values_that_no_compaction_has_made_visible(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("db")
    made = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=KINDS["deletion vectors"])
    made.upsert([{"k": 1, "a": 1, "b": 1}])
    made.copy({"write-only": "true"}).upsert([{"k": 1, "a": 1, "b": 9}])
    again(made).upsert(pa.table({"k": [1], "a": [7]}), columns="present")
    made.compact()
    assert rows(made) == [{"k": 1, "a": 7, "b": 9}]


def test_a_deletion_sees_rows_that_no_compaction_has_made_visible(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("db")
    made = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=KINDS["deletion vectors"])
    made.copy({"write-only": "true"}).upsert([{"k": 1, "a": 1, "b": 9}, {"k": 2, "a": 1, "b": 1}])
    again(made).delete("b = 9")
    made.compact()
    assert rows(made) == [{"k": 2, "a": 1, "b": 1}]
