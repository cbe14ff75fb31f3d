"""REST interfaces, in this process, of a metastore with row filters and column masks."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interbed.catalog.server.process.main import dispatcher_for
from interbed.catalog.server.rest.iceberg.names import NamespaceMapping
from interbed.catalog.server.rest.iceberg.routes import interface as iceberg_interface
from interbed.catalog.server.rest.interface import RestError, RestInterface, RestRequest, RestResponse, RouteTable
from interbed.catalog.server.rest.mounted import guarded_iceberg, guarded_paimon
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.paimon.interface import paimon_interface
from interbed.catalog.server.service.access.objects import (
    PolicyKind,
    Privilege,
    TablePolicy,
    grantee_from_key,
    table_object,
)
from interbed.catalog.server.service.access.policies import PolicyAdministration, PolicyRules
from interbed.catalog.server.thrift.edge.call import current_session
from tests.catalog.server.access.guarded import OWNER, READER, GuardedMetastore, guarded_metastore, session_of

LAKE = table_object("hive", "sales", "lake")
TRUSTED = "engine"

_FIELDS = [
    {"id": 0, "name": "id", "type": "BIGINT NOT NULL"},
    {"id": 1, "name": "city", "type": "STRING"},
    {"id": 2, "name": "phone", "type": "STRING"},
]


@dataclass
class PolicedMetastore:
    """The interfaces of a metastore with policies."""

    guarded: GuardedMetastore
    interfaces: Mapping[str, RestInterface]

    def send(self, name: str, method: str, path: str, body: Any = None, *, interface: str = "paimon") -> Any:
        """Return status and JSON of the answer to a principal's request."""
        made = self.interfaces[interface]
        try:
            answer = self.answer(name, method, path, body, interface=interface)
        except Exception as error:
            refusal = error if isinstance(error, RestError) else made.translated(error)
            if refusal is None:
                raise
            return int(refusal.status), made.error_body(refusal)
        return int(answer.status), json.loads(answer.body) if answer.body else None

    def answer(self, name: str, method: str, path: str, body: Any = None, *, interface: str = "paimon") -> RestResponse:
        """Return the response to a principal's request. Raises the errors of its handler."""
        made = self.interfaces[interface]
        found = RouteTable(made.routes).find(method, path)
        assert found is not None, path
        route, parts = found
        content = b"" if body is None else json.dumps(body).encode()
        request = RestRequest(parts=parts, query={}, headers={}, body=content, session=session_of(name))
        token = current_session.set(request.session)
        try:
            return route.handler(request)
        finally:
            current_session.reset(token)

    @contextmanager
    def only_policies(self) -> Iterator[None]:
        """Drop the policies of the table `lake` that are set within the block."""
        administration = PolicyAdministration(self.guarded.store, self.guarded.grants)
        try:
            yield
        finally:
            for policy in administration.policies(LAKE, None):
                administration.drop(LAKE, policy.name, None)

    def set_filter(self, expression: str, *bound: str, name: str = "rows", table: str = "lake") -> None:
        """Set a row filter of a table of `sales`, for the reader by default."""
        self._set(TablePolicy(name=name, kind=PolicyKind.FILTER, expression=expression, bound=_bound(bound)), table)

    def set_mask(self, column: str, expression: str, *bound: str, table: str = "lake") -> None:
        """Set the mask of a column of a table of `sales`, for the reader by default."""
        policy = TablePolicy(
            name=f"hide-{column}", kind=PolicyKind.MASK, column=column, expression=expression, bound=_bound(bound)
        )
        self._set(policy, table)

    def _set(self, policy: TablePolicy, table: str) -> None:
        PolicyAdministration(self.guarded.store, self.guarded.grants).set(
            table_object("hive", "sales", table), policy, None
        )


def _bound(keys: tuple[str, ...]) -> Any:
    return tuple(map(grantee_from_key, keys or (f"user:{READER}",)))


@contextmanager
def policed_metastore(
    root: Path, *, keyed: bool = False, options: Mapping[str, str] | None = None
) -> Iterator[PolicedMetastore]:
    """Yield interfaces over a metastore with Paimon's table `sales.lake`, which `reader` and `engine` may read."""
    with guarded_metastore(root) as guarded:
        metastore = guarded.metastore
        metastore.policies = PolicyRules(guarded.store, metastore.access, [TRUSTED])
        paimon = paimon_interface(CatalogAccess(metastore, dispatcher_for(metastore)), metastore.functions)
        made = PolicedMetastore(
            guarded,
            {
                "paimon": guarded_paimon(metastore, paimon, {}),
                "iceberg": guarded_iceberg(metastore, iceberg_interface(metastore), NamespaceMapping()),
            },
        )
        schema = {
            "fields": _FIELDS,
            "partitionKeys": [],
            "primaryKeys": ["id"] if keyed else [],
            "options": dict(options or {}),
            "comment": "",
        }
        body = {"identifier": {"database": "sales", "object": "lake"}, "schema": schema}
        status, answer = made.send(OWNER, "POST", "v1/hive/databases/sales/tables", body)
        assert status == 200, answer
        for name in (READER, TRUSTED):
            guarded.grant(name, LAKE, Privilege.SELECT)
        yield made
