"""Commits of a server that is killed in the middle: every table is as before, or all are changed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.rest.iceberg.commits import TableCommit, TableCommitter
from interbed.catalog.server.rest.iceberg.metadata.documents import new_table
from interbed.catalog.server.rest.iceberg.metadata.updates import SetProperties
from interbed.catalog.server.rest.iceberg.names import IcebergName
from interbed.catalog.server.rest.iceberg.store import TableStore, now_ms
from interbed.catalog.server.rest.interface import RestError
from interbed.catalog.server.service.errors import OutcomeUnknownError
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.tables.pointers import PointerService
from tests.catalog.server.rest.iceberg.rest_server import SCHEMA
from tests.support.waits import at_most

NAMES = [IcebergName(catalog="hive", levels=("default",), name=name) for name in ("one", "two")]
COMMITS = [TableCommit(name=name, requirements=[], updates=[SetProperties(updates={"a": "2"})]) for name in NAMES]


def _store_of(db: str, root: str) -> tuple[SqlRepository, TableStore]:
    repository = SqlRepository(db)
    schema.upgrade(repository.engine)
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
        [sys.executable, "-m", module, database_url, root, when],
        capture_output=True,
        timeout=at_most(120),
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert _properties(store) == [value, value]
    # The files of the killed commit remain, and no table names those of one that had no effect.
    assert _files(tmp_path) == 4
    TableCommitter(store).commit(COMMITS, None)
    assert _properties(store) == ["2", "2"]
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
