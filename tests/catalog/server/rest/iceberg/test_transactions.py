"""The number of transactions that the requests of writers take."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.rest.iceberg.routes import interface
from interbed.catalog.server.rest.interface import RouteTable
from interbed.catalog.server.service.repository import Repository, Transaction
from interbed.catalog.server.service.service import Metastore
from tests.catalog.server.rest.iceberg.local_requests import LocalRequests

T = TypeVar("T")

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
TABLES = "namespaces/a/tables"


class CountingRepository:
    """Repository that records its transactions."""

    def __init__(self, inner: SqlRepository) -> None:
        self._inner = inner
        self.log: list[str] = []

    @property
    def files(self) -> Sequence[str]:
        return self._inner.files

    def read(self, work: Callable[[Transaction], T]) -> T:
        self.log.append("read")
        return self._inner.read(work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        self.log.append("write")
        return self._inner.write(work)

    def close(self) -> None:
        self._inner.close()


@pytest.fixture
def requests(tmp_path: Path) -> LocalRequests:
    """Return requests to an interface whose transactions are counted, with a namespace."""
    made = LocalRequests(tmp_path)
    assert made.send("POST", "namespaces", {"namespace": ["a"]})[0] == 200
    return made


def counted(requests: LocalRequests) -> CountingRepository:
    """Return the repository, behind the interface from now on."""
    repository = CountingRepository(requests.repository)
    store: Repository = repository
    services = Metastore(store, requests.services.warehouse.root)
    requests.routes = RouteTable(interface(services).routes)
    return repository


def test_a_table_is_created_by_one_reading_and_one_writing_transaction(requests: LocalRequests) -> None:
    repository = counted(requests)
    status, created = requests.send("POST", TABLES, {"name": "t", "schema": SCHEMA})
    assert (status, repository.log) == (200, ["read", "write"])
    # The answer is what a load returns.
    assert requests.send("GET", f"{TABLES}/t")[1] == created


def test_a_commit_takes_one_reading_and_one_writing_transaction(requests: LocalRequests) -> None:
    assert requests.send("POST", TABLES, {"name": "t", "schema": SCHEMA})[0] == 200
    repository = counted(requests)
    change = {"action": "set-properties", "updates": {"owner": "b"}}
    status, committed = requests.send("POST", f"{TABLES}/t", {"requirements": [], "updates": [change]})
    assert (status, repository.log) == (200, ["read", "write"])
    assert requests.send("GET", f"{TABLES}/t")[1]["metadata"] == committed["metadata"]
