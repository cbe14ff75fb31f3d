"""The REST interfaces in this process, for requests that no client sends.

    python -m tests.catalog.server.rest.fuzzed_targets --bodies 1000000

sends this number of requests with mutated bodies, paths and headers, without a network. It prints the answers by
status. An internal error is printed with its request, and makes the exit code 1. `--seed` begins with another sequence.
"""

import argparse
import asyncio
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from interbed.catalog.server.process.main import dispatcher_for
from interbed.catalog.server.rest.iceberg.routes import interface as iceberg_interface
from interbed.catalog.server.rest.interface import BodyStream, RestError, RestInterface, RestRequest, RouteTable
from interbed.catalog.server.rest.own_interface import own_interface
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.paimon.interface import PaimonAsIceberg, paimon_interface
from interbed.catalog.server.rest.rows.routes import RowRoutes
from interbed.catalog.server.rest.rows.streams import RowStreams
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.policies import PolicyAdministration
from interbed.catalog.server.service.errors import AlreadyExistsError, MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.model import MetastoreDatabase, MetastoreTable, StorageDescriptor
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.call import ClientSession
from tests.catalog.server.rest.valid_bodies import ICEBERG, OWN, PAIMON
from tests.support.databases import open_migrated
from tests.support.fuzzed_requests import OWN_TABLE, FuzzedRequest, FuzzedRoute, RequestGenerator
from tests.support.sandbox import LEADS_OUT, sandbox

KINDS = ("iceberg", "paimon", "directory", "interbed")

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
            answer = route.handler(request)
            if answer.stream is not None:
                asyncio.run(_read(answer.stream))
            return self._counted(answer.status)
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


async def _read(stream: BodyStream) -> None:
    try:
        while await stream.next_part() is not None:
            pass
    finally:
        stream.close()


@contextmanager
def fuzzed_target(kind: str, directory: Path) -> Iterator[RestTarget]:
    """Return an interface whose changes of files are limited to a directory, which is the working directory, too."""
    store = open_migrated(f"sqlite:///{directory / 'metastore.db'}")
    authorizer = BuiltinAuthorizer(store)
    guard = AccessGuard(authorizer if kind == "interbed" else None)
    metastore = Metastore(store, f"file:{directory / 'warehouse'}", undrop_seconds=3600, access=guard)
    metastore.databases.bootstrap()
    access = CatalogAccess(metastore, dispatcher_for(metastore), {"directory": f"file:{directory / 'directory'}"})
    paimon = paimon_interface(access, metastore.functions)
    made = paimon
    if kind == "iceberg":
        made = iceberg_interface(metastore, PaimonAsIceberg(access, None))
    elif kind == "interbed":
        made = own_interface(
            metastore,
            AccessAdministration(store, authorizer),
            PolicyAdministration(store, authorizer),
            RowRoutes(metastore, lambda: access, RowStreams()),
        )
    with closing(store), chdir(directory), sandbox(directory):
        if kind == "iceberg":
            _create_own_table(RestTarget(paimon, RouteTable(paimon.routes), metastore), directory)
        prefix = "directory" if kind == "directory" else "hive"
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


def set_up(target: RestTarget, requests: RequestGenerator) -> None:
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


AT_ONCE = 5_000
"""Requests to one interface before it gets an empty warehouse, so that no state becomes large."""

FAILURES_MAX = 20


def run(bodies: int, seed: int) -> int:
    """Send requests to all interfaces in turn; return the number of internal errors."""
    statuses, sent, failures, begun = Counter[int](), 0, 0, time.monotonic()
    while sent < bodies and failures < FAILURES_MAX:
        for kind in KINDS:
            count = min(AT_ONCE, bodies - sent)
            if not count:
                break
            failures += _send(kind, seed, count, statuses)
            sent += count
            rate = sent / (time.monotonic() - begun)
            answers = ", ".join(f"{status}: {number:,}" for status, number in sorted(statuses.items()))
            print(f"{sent:,} requests, {rate:.0f} a second, {failures} internal errors; answers {answers}", flush=True)
        seed += 1
    return failures


def _send(kind: str, seed: int, count: int, statuses: Counter[int]) -> int:
    failures = 0
    with tempfile.TemporaryDirectory(prefix="interbed-fuzz-") as name, fuzzed_target(kind, Path(name)) as target:
        requests = RequestGenerator(seed, Path(name), target.routes, BODIES[target.interface.name])
        for number in range(count):
            if number % 20 == 0:
                set_up(target, requests)
            try:
                target.take(requests.next())
            except Exception:  # noqa: BLE001 - every error is a finding, which is printed
                failures += 1
                print(f"{kind}, seed {seed}, request {number}:", file=sys.stderr)
                traceback.print_exc()
        statuses.update(target.statuses)
    return failures


def main() -> None:
    """Run the command of this module."""
    parser = argparse.ArgumentParser(description="Send mutated requests to the REST interfaces, in this process.")
    parser.add_argument("--bodies", type=int, default=10_000, help="the number of requests")
    parser.add_argument("--seed", type=int, default=1, help="the first sequence of requests")
    given = parser.parse_args()
    sys.exit(1 if run(given.bodies, given.seed) else 0)


if __name__ == "__main__":
    main()
