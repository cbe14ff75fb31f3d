"""The REST interfaces of a guarded metastore in this process."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from interbed.catalog.server.credentials.issued import permitted_operation
from interbed.catalog.server.credentials.s3_requests import OwnKeys, S3Address, TableSigning
from interbed.catalog.server.process.main import dispatcher_for
from interbed.catalog.server.rest.iceberg.names import NamespaceMapping
from interbed.catalog.server.rest.iceberg.routes import interface as iceberg_interface
from interbed.catalog.server.rest.interface import RestInterface, RestRequest, RouteTable
from interbed.catalog.server.rest.mounted import guarded_iceberg, guarded_own, guarded_paimon
from interbed.catalog.server.rest.own_interface import own_interface
from interbed.catalog.server.rest.paimon.access import CatalogAccess
from interbed.catalog.server.rest.paimon.interface import paimon_interface
from interbed.catalog.server.rest.rows.routes import RowRoutes
from interbed.catalog.server.rest.rows.streams import RowStreams
from interbed.catalog.server.service.access.objects import Privilege, column_object, function_object, table_object
from interbed.catalog.server.service.model import MetastoreTable
from tests.catalog.server.access.guarded import (
    CLERK,
    OWNER,
    READER,
    STORAGE,
    WRITER,
    GuardedMetastore,
    guarded_metastore,
    json_answer,
    session_of,
)
from tests.catalog.server.rest.valid_bodies import ICEBERG, PAIMON

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}
ICE = table_object("hive", "sales", "ice")
LAKE = table_object("hive", "sales", "lake")
STORE, REGION = "https://store.example.org", "us-east-1"
CLOUD = "bucket/wh/sales.db/cloud"
"""Bucket and key of the directory of the table `cloud`."""


@dataclass
class GuardedRest:
    """The interfaces of a guarded metastore in this process."""

    guarded: GuardedMetastore
    interfaces: Mapping[str, RestInterface]

    def send(
        self,
        name: str,
        interface: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> tuple[int, Any]:
        """Return status and body of the answer to a principal's request."""
        made = self.interfaces[interface]
        found = RouteTable(made.routes).find(method, path)
        assert found is not None, path
        route, parts = found
        request = RestRequest(
            parts=parts,
            query=query or {},
            headers={} if key is None else {"idempotency-key": key},
            body=b"" if body is None else json.dumps(body).encode(),
            session=session_of(name),
        )
        return json_answer(made, route, request)


OF_SALES = ("ice", "cloud", "lake", "seen", "glance")
"""Tables and views of `sales` on which `reader` and `writer` have privileges; they have none on `secret` and `hidden`.
"""


@contextmanager
def guarded_rest(root: Path, *, filled: bool = True) -> Iterator[GuardedRest]:
    """Yield interfaces over a metastore in which `owner` has Iceberg's tables `ice`, `cloud` (in STORE) and `secret`,
    Paimon's `lake` and `hidden`, their views `seen` and `glance`, and the function `sums`. Requests on files in STORE
    are signed by the keys of the environment.
    """
    with guarded_metastore(root, undrop_seconds=3600, filled=filled) as guarded:
        metastore = guarded.metastore
        warehouses = {"directory": f"file:{root / 'directory'}"}
        access = CatalogAccess(metastore, dispatcher_for(metastore), warehouses)
        permitted = partial(permitted_operation, metastore.access, metastore.policies)
        signing = TableSigning(guarded.store, S3Address(region=REGION, endpoint=STORE), permitted, OwnKeys().sign)
        made = GuardedRest(
            guarded,
            {
                "iceberg": guarded_iceberg(
                    metastore, iceberg_interface(metastore, signing=signing), NamespaceMapping()
                ),
                "paimon": guarded_paimon(metastore, paimon_interface(access, metastore.functions), warehouses),
                "interbed": guarded_own(
                    metastore, own_interface(metastore, rows=RowRoutes(metastore, lambda: access, RowStreams()))
                ),
            },
        )
        if filled:
            _create(made)
        for name in OF_SALES:
            on = table_object("hive", "sales", name)
            guarded.grant(READER, on, Privilege.SELECT)
            guarded.grant(CLERK, column_object(on, "id"), Privilege.SELECT)
            guarded.grant(WRITER, on, Privilege.SELECT, Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE)
        for name in (READER, WRITER):
            guarded.grant(name, function_object("hive", "sales", "sums"), Privilege.SELECT)
        yield made


def _create(rest: GuardedRest) -> None:
    namespace, database = "v1/hive/namespaces/sales", "v1/hive/databases/sales"
    fields = [{"id": 0, "name": "id", "type": "BIGINT"}]
    lake = {"fields": fields, "partitionKeys": [], "primaryKeys": [], "options": {}, "comment": ""}
    view: Any = PAIMON["createView"][0]
    for interface, path, body in (
        ("iceberg", f"{namespace}/tables", {"name": "ice", "schema": SCHEMA}),
        ("iceberg", f"{namespace}/tables", {"name": "secret", "schema": SCHEMA}),
        ("iceberg", f"{namespace}/views", renamed(ICEBERG["createView"][0], v="seen", d="sales")),
        ("paimon", f"{database}/tables", {"identifier": {"database": "sales", "object": "lake"}, "schema": lake}),
        ("paimon", f"{database}/tables", {"identifier": {"database": "sales", "object": "hidden"}, "schema": lake}),
        ("paimon", f"{database}/views", renamed(view, v="glance", d="sales")),
        ("paimon", f"{database}/functions", renamed(PAIMON["createFunction"][0], f="sums")),
    ):
        status, answer = rest.send(OWNER, interface, "POST", path, body)
        assert status == 200, (path, answer)
    rest.guarded.metastore.tables.create(
        MetastoreTable(
            database="sales",
            name="cloud",
            owner=OWNER,
            storage=replace(STORAGE, location=f"s3://{CLOUD}"),
            table_type="EXTERNAL_TABLE",
            parameters={
                "EXTERNAL": "TRUE",
                "table_type": "ICEBERG",
                "metadata_location": f"s3://{CLOUD}/metadata/1.json",
            },
        )
    )


def renamed(body: object, **names: str) -> Any:
    """Return a body with other texts."""
    text = json.dumps(body)
    for old, new in names.items():
        text = text.replace(json.dumps(old), json.dumps(new))
    return json.loads(text)
