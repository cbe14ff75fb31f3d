"""The routes compared with Iceberg's REST specification.

operations.json lists its paths and operations, taken from open-api/rest-catalog-open-api.yaml of Iceberg's main branch
after 1.10.
"""

import json
from pathlib import Path

import pytest

from interbed.catalog.server.rest.iceberg import routes
from interbed.catalog.server.rest.iceberg.routes import UNSUPPORTED, interface
from interbed.catalog.server.rest.interface import RouteTable
from interbed.catalog.server.service.service import Metastore
from tests.catalog.server.rest.iceberg.rest_server import IcebergRest

SPECIFIED = {
    (each["method"], each["path"].removeprefix("/")): each["operation"]
    for each in json.loads((Path(__file__).parent / "operations.json").read_text())
}


def test_each_operation_is_carried_out_or_refused_by_name(rest_on_sqlite: IcebergRest) -> None:
    refused = {(method, path): operation for method, path, operation in UNSUPPORTED}
    configured = rest_on_sqlite.call_at("GET", "v1/config").expect(200)["endpoints"]
    carried = {("GET", "v1/config")} | {(each.split(" /")[0], each.split(" /")[1]) for each in configured}
    assert not carried & set(refused)
    assert carried | set(refused) == set(SPECIFIED)
    assert all(SPECIFIED[key] == operation for key, operation in refused.items())


def test_each_route_bears_the_name_of_its_operation(metastore_services: Metastore) -> None:
    for route in interface(metastore_services).routes:
        assert SPECIFIED[route.method, route.template] == route.operation
    RouteTable(interface(metastore_services).routes)


def test_a_refused_operation_is_named_with_status_406(rest_on_sqlite: IcebergRest) -> None:
    for method, path, operation in UNSUPPORTED:
        if method == "HEAD":
            continue
        filled = path.replace("{prefix}", "hive").replace("{", "").replace("}", "")
        answer = rest_on_sqlite.call_at(method, filled, {})
        assert operation in answer.error(406, "UnsupportedOperationException")


def test_planning_is_refused_by_name_without_pyiceberg(
    metastore_services: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "is_installed", lambda name: name != "pyiceberg")
    without = interface(metastore_services)
    operations = {route.operation for route in without.routes}
    assert {"planTableScan", "fetchPlanningResult", "cancelPlanning", "fetchScanTasks"}.isdisjoint(operations)
    table = "v1/hive/namespaces/a/tables/t"
    for method, path in (("POST", "plan"), ("GET", "plan/x"), ("DELETE", "plan/x"), ("POST", "tasks")):
        error = without.missing(method, f"{table}/{path}")
        assert error.status == 406
        assert "interbed[iceberg]" in str(error)


def test_a_namespace_has_no_function(rest_on_sqlite: IcebergRest) -> None:
    found = rest_on_sqlite.call("GET", "namespaces/default/functions?pageSize=5").expect(200)
    assert found == {"identifiers": [], "next-page-token": None}
    missing = rest_on_sqlite.call("GET", "namespaces/default/functions/f")
    assert missing.error(404, "NoSuchFunctionException") == "Function does not exist: default.f"
    for path in ("functions", "functions/f"):
        rest_on_sqlite.call("GET", f"namespaces/none/{path}").error(404, "NoSuchNamespaceException")


def test_an_unknown_path_is_not_found(rest_on_sqlite: IcebergRest) -> None:
    for path in ("v1", "v1/hive/namespaces/a/tables/b/files", "v2/config", "v1/hive/%ff"):
        assert rest_on_sqlite.call_at("GET", path).status in (400, 404)
