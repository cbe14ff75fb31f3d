"""Commits of a server that is killed in the middle: every table is as before, or all are changed."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.rest.iceberg.commits import TableCommit, TableCommitter
from interbed.catalog.server.rest.iceberg.metadata.documents import new_table
from interbed.catalog.server.rest.iceberg.metadata.updates import RequirementFailedError, SetProperties
from interbed.catalog.server.rest.iceberg.names import IcebergName
from interbed.catalog.server.rest.iceberg.store import TableStore, now_ms
from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.service.errors import OutcomeUnknownError
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.tables.pointers import PointerService
from tests.catalog.server.rest.iceberg.commit_process import creation
from tests.catalog.server.rest.iceberg.rest_server import SCHEMA
from tests.support.databases import open_migrated
from tests.support.waits import at_most

NAMES = [IcebergName(catalog="hive", levels=("default",), name=name) for name in ("one", "two")]
COMMITS = [TableCommit(name=name, requirements=[], updates=[SetProperties(updates={"a": "2"})]) for name in NAMES]


def _store_of(db: str, root: str) -> tuple[SqlRepository, TableStore]:
    repository = open_migrated(db)
    services = Metastore(repository, root)
    services.databases.bootstrap()
    return repository, TableStore(services)


def _create(store: TableStore, root: str) -> None:
    for name in NAMES:
        store.create(name, new_table(SCHEMA, None, None, f"{root}/{name.name}", {}, now_ms()), None)


def _properties(store: TableStore) -> list[str | None]:
    return [store.load(name).document()["properties"].get("a") for name in NAMES]


def _files(tmp_path: Path) -> int:
    return len(list(tmp_path.glob("warehouse/*/metadata/*")))


@pytest.mark.parametrize(("when", "value"), [("written", None), ("swapped", "1")])
def test_a_killed_transaction_is_complete_or_has_no_effect(
    database_url: str, tmp_path: Path, when: str, value: str | None
) -> None:
    root = f"file:{tmp_path}/warehouse"
    repository, store = _store_of(database_url, root)
    _create(store, root)
    module = "tests.catalog.server.rest.iceberg.commit_process"
    ended = subprocess.run(
        [sys.executable, "-m", module, database_url, root, when, "three"],
        capture_output=True,
        timeout=at_most(120),
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert _properties(store) == [value, value]
    assert store.names("hive", ("default",), "ICEBERG", None) == sorted(
        ["one", "two", *(["three"] if value is not None else [])]
    )
    # The files of the killed commit remain, and no table names those of one that had no effect.
    assert _files(tmp_path) == 5
    TableCommitter(store).commit([*COMMITS, *([creation("three", root)] if value is None else [])], None)
    assert _properties(store) == ["2", "2"]
    assert store.load(IcebergName(catalog="hive", levels=("default",), name="three")).document()["snapshots"] == []
    repository.close()


def test_a_transaction_whose_new_table_exists_changes_nothing(database_url: str, tmp_path: Path) -> None:
    root = f"file:{tmp_path}/warehouse"
    repository, store = _store_of(database_url, root)
    _create(store, root)
    committer = TableCommitter(store)
    with pytest.raises(RequirementFailedError, match="table already exists"):
        committer.commit([COMMITS[0], creation("two", root)], None)
    # Another client creates the table between the check and the transaction.
    swap = TableStore.swap
    third = IcebergName(catalog="hive", levels=("default",), name="three")

    def late(self: TableStore, *arguments: Any) -> None:
        store.create(third, new_table(SCHEMA, None, None, f"{root}/theirs", {"by": "them"}, now_ms()), None)
        swap(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableStore, "swap", late)
        with pytest.raises(RequirementFailedError, match="table already exists"):
            committer.commit([*COMMITS, creation("three", root)], None)
    assert _properties(store) == [None, None]
    assert store.load(third).document()["properties"]["by"] == "them"
    assert _files(tmp_path) == 3
    repository.close()


def test_nothing_is_deleted_when_the_outcome_is_unknown(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"file:{tmp_path}/warehouse"
    repository, store = _store_of(database_url, root)
    _create(store, root)
    swap = PointerService.swap

    def lost(self: PointerService, *arguments: object) -> None:
        swap(self, *arguments)  # type: ignore[arg-type]
        raise OutcomeUnknownError("the connection was lost")

    monkeypatch.setattr(PointerService, "swap", lost)
    with pytest.raises(OutcomeUnknownError):
        TableCommitter(store).commit(COMMITS, None)
    assert _files(tmp_path) == 4
    assert _properties(store) == ["2", "2"]
    repository.close()


def test_a_refused_commit_leaves_no_file(database_url: str, tmp_path: Path) -> None:
    root = f"file:{tmp_path}/warehouse"
    repository, store = _store_of(database_url, root)
    _create(store, root)
    store.metastore.tables.drop("hive", "default", "two", delete_data=False)
    with pytest.raises(RestError, match=r"Table does not exist: default\.two"):
        TableCommitter(store).commit(COMMITS, None)
    assert _files(tmp_path) == 2
    repository.close()
