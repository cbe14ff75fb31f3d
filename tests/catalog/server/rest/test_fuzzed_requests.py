"""Requests that no client sends: each has an answer of the specification, without an internal error or a traceback."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.process.main import dispatcher_for
from interbed.catalog.server.rest.iceberg.routes import interface as iceberg_interface
from interbed.catalog.server.rest.interface import RestError, RestInterface, RestRequest, RouteTable
from interbed.catalog.server.rest.own_interface import own_interface
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.paimon.iceberg_form import PaimonAsIceberg
from interbed.catalog.server.rest.paimon.interface import paimon_interface
from interbed.catalog.server.service.errors import AlreadyExistsError, MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.model import MetastoreDatabase, MetastoreTable, StorageDescriptor
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.call import ClientSession
from tests.catalog.server.rest.valid_bodies import ICEBERG, OWN, PAIMON
from tests.support import shares
from tests.support.fuzzed_requests import OWN_TABLE, FuzzedRequest, FuzzedRoute, RequestGenerator, without_each_part
from tests.support.sandbox import LEADS_OUT, sandbox
from tests.support.tally import Tally

REQUESTS = 40_000 if shares.LONG else 400
SESSION = ClientSession(peer="192.0.2.1:1234")
BODIES: Mapping[str, Mapping[str, Sequence[object]]] = {"iceberg": ICEBERG, "paimon": PAIMON, "interbed": OWN}


@dataclass(slots=True)
class RestTarget:
    """An interface in this process, on SQLite; `prefix` is that of the paths."""

    interface: RestInterface
    table: RouteTable
    metastore: Metastore
    prefix: str = "hive"
    statuses: dict[int, int] = field(default_factory=dict)

    @property
    def routes(self) -> list[FuzzedRoute]:
        """The routes, as the generator takes them."""
        return [FuzzedRoute(each.method, each.template, each.operation) for each in self.interface.routes]

    def take(self, sent: FuzzedRequest) -> int:
        """Carry out a request as the server does; return the status of the answer. AssertionError for a failure."""
        try:
            found = self.table.find(sent.method, sent.path.replace("/hive/", f"/{self.prefix}/", 1))
            query = parse_qsl(sent.query, keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError:
            return self._counted(HTTPStatus.BAD_REQUEST)
        if found is None:
            return self._counted(self.interface.missing(sent.method, sent.path).status)
        route, parts = found
        request = RestRequest(parts=parts, query=dict(query), headers=sent.headers, body=sent.body, session=SESSION)
        try:
            return self._counted(route.handler(request).status)
        except RestError as error:
            refused: RestError | None = error
        except Exception as error:
            refused = self.interface.translated(error)
            if isinstance(error, MetastoreError) and LEADS_OUT in str(error):
                return self._counted(HTTPStatus.INTERNAL_SERVER_ERROR)
            if refused is None:
                error.add_note(f"of {sent.method} {sent.path}?{sent.query} {sent.headers} {sent.body[:3000]!r}")
                raise
        assert refused is not None
        assert self.interface.error_body(refused)
        return self._counted(refused.status)

    def _counted(self, status: int) -> int:
        self.statuses[int(status)] = self.statuses.get(int(status), 0) + 1
        return int(status)


@pytest.fixture(params=["iceberg", "paimon", "directory", "interbed"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestTarget]:
    """Return an interface whose changes of files are limited to a directory."""
    monkeypatch.chdir(tmp_path)
    store = SqlRepository(f"sqlite:///{tmp_path / 'metastore.db'}")
    schema.upgrade(store.engine)
    metastore = Metastore(store, f"file:{tmp_path / 'warehouse'}", undrop_seconds=3600)
    metastore.databases.bootstrap()
    access = CatalogAccess(metastore, dispatcher_for(metastore), {"directory": f"file:{tmp_path / 'directory'}"})
    paimon = paimon_interface(access, metastore.functions)
    made = paimon
    if request.param == "iceberg":
        made = iceberg_interface(metastore, PaimonAsIceberg(access, None))
    elif request.param == "interbed":
        made = own_interface(metastore)
    with closing(store), sandbox(tmp_path):
        if request.param == "iceberg":
            _create_own_table(RestTarget(paimon, RouteTable(paimon.routes), metastore), tmp_path)
        prefix = "directory" if request.param == "directory" else "hive"
        yield RestTarget(made, RouteTable(made.routes), metastore, prefix)


def _create_own_table(target: RestTarget, root: Path) -> None:
    """Create a table in Paimon's format with the name that is one of the generator's."""
    by_name = {route.operation: route for route in target.routes}
    body: Any = PAIMON["createTable"][0]
    bodies = {
        "createDatabase": [{"name": "d"}],
        "createTable": [{**body, "identifier": {"database": "d", "object": OWN_TABLE}}],
    }
    for operation, path in (("createDatabase", "databases"), ("createTable", "databases/d/tables")):
        requests = RequestGenerator(1, root, [by_name[operation]], bodies)
        sent = replace(requests.plain(by_name[operation]), path=f"v1/hive/{path}")
        assert target.take(sent) == 200


def _setup(target: RestTarget, requests: RequestGenerator) -> None:
    """Create the namespace and the objects that most requests name, if they are missing."""
    by_name = {route.operation: route for route in target.routes}
    for operation in ("createNamespace", "createDatabase", "createTable", "createView"):
        if operation in by_name:
            target.take(requests.plain(by_name[operation]))
    if target.interface.name == "interbed":
        _drop_and_create(target.metastore)


def _drop_and_create(metastore: Metastore) -> None:
    """Create the tables that most requests name, and drop one; they may exist."""
    with suppress(AlreadyExistsError):
        metastore.databases.create(MetastoreDatabase(name="d"))
    for name in ("t", "x"):
        with suppress(AlreadyExistsError):
            metastore.tables.create(MetastoreTable(database="d", name=name, storage=StorageDescriptor()))
    with suppress(NoSuchObjectError):
        metastore.tables.drop("hive", "d", "x", delete_data=True)


@pytest.mark.longer
def test_mutated_requests_cause_no_internal_error(target: RestTarget, tmp_path: Path, tally: Tally) -> None:
    requests = RequestGenerator(1, tmp_path, target.routes, BODIES[target.interface.name])
    for number in range(REQUESTS):
        if number % 20 == 0:
            _setup(target, requests)
        target.take(requests.next())
    done = sum(count for status, count in target.statuses.items() if status < 300)
    assert done > REQUESTS // 10, target.statuses
    for status, number in sorted(target.statuses.items()):
        tally(f"fuzzed requests of {target.interface.name}, answered {status}", number)


@pytest.mark.longer
def test_requests_without_one_of_their_parts_cause_no_internal_error(
    target: RestTarget, tmp_path: Path, tally: Tally
) -> None:
    bodies = BODIES[target.interface.name]
    taken = 0
    for route in target.routes:
        for body in bodies.get(route.operation, ())[: None if shares.LONG else 1]:
            for number, lacking in enumerate(without_each_part(body)):
                if number % (1 if shares.LONG else 8):
                    continue
                requests = RequestGenerator(number, tmp_path, [route], {route.operation: [lacking]})
                _setup(target, RequestGenerator(number, tmp_path, target.routes, bodies))
                target.take(requests.plain(route))
                taken += 1
    assert taken > len(target.routes) // 4
    tally(f"requests of {target.interface.name} without one of their parts", taken)


def _metadata(target: RestTarget, tmp_path: Path) -> Any:
    """Return the metadata of a table with a snapshot and references."""
    by_name = {route.operation: route for route in target.routes}

    def sent(operation: str, body: object) -> None:
        requests = RequestGenerator(1, tmp_path, [by_name[operation]], {operation: [body]})
        path = f"v1/hive/namespaces/d/tables{'/t' if operation == 'updateTable' else ''}"
        assert target.take(replace(requests.plain(by_name[operation]), path=path)) == 200

    sent("createTable", ICEBERG["createTable"][7])
    for number in (8, 9, 10, 16):
        sent("updateTable", ICEBERG["updateTable"][number])
    newest = max(tmp_path.glob("warehouse/d.db/*/metadata/*.metadata.json"))
    return json.loads(newest.read_bytes())


@pytest.mark.longer
@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
def test_mutated_metadata_files_cause_no_internal_error(target: RestTarget, tmp_path: Path, tally: Tally) -> None:
    """A file is registered, loaded, changed and dropped: a client may place any content in a metadata file."""
    document = _metadata(target, tmp_path)
    by_name = {route.operation: route for route in target.routes}
    file = tmp_path / "00000-a.metadata.json"
    body = {"name": "r", "metadata-location": f"file:{file}"}
    bodies = {**ICEBERG, "registerTable": [body]}
    for number in range(REQUESTS // 4):
        made = RequestGenerator(number, tmp_path, target.routes, bodies)
        file = tmp_path / f"{number:05d}-a.metadata.json"
        file.write_bytes(made.mutated_json(document))
        body["metadata-location"] = f"file:{file}"
        path = "v1/hive/namespaces/d/tables/r"
        target.take(replace(made.plain(by_name["registerTable"]), path="v1/hive/namespaces/d/register"))
        target.take(replace(made.plain(by_name["loadTable"]), path=path))
        target.take(replace(made.plain(by_name["updateTable"]), path=path))
        target.take(replace(made.plain(by_name["dropTable"]), path=path))
    tally("mutated metadata files", REQUESTS // 4)
