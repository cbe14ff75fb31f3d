"""The operations of Paimon's document: each has a route, which carries it out or refuses it by name.

operations.json has method, path and operation of static/rest-catalog-open-api.yaml of Paimon (master of November 2026).
"""

import json
from pathlib import Path

import pytest

from interbed.catalog.server.rest.paimon.interface import refused_routes
from tests.catalog.server.rest.paimon.conftest import RestClient

OPERATIONS = json.loads((Path(__file__).parent / "operations.json").read_text())
REFUSED = {(route.method, route.template) for route in refused_routes()}


@pytest.mark.parametrize(("method", "template", "operation"), OPERATIONS, ids=lambda value: str(value))
def test_each_operation_has_a_route(rest: RestClient, method: str, template: str, operation: str) -> None:
    parts = [part.replace("{prefix}", "hive") for part in template.removeprefix("v1/").split("/")]
    path = ["no_such_thing" if part.startswith("{") else part for part in parts]
    answer = rest.call(method, *path, body={} if method == "POST" else None)
    if (method, template) in REFUSED:
        assert answer.status == 501
        assert answer.body["code"] == 501
        assert "not supported" in answer.body["message"]
    else:
        # A path without a route would be refused by this text.
        assert answer.status in (200, 400, 404)
        assert "has no" not in str(answer.body.get("message"))


def test_a_path_without_a_route_is_missing(rest: RestClient) -> None:
    answer = rest.call("PUT", "hive", "databases")
    assert answer.status == 404
    assert answer.body == {
        "message": "Paimon's REST interface has no PUT v1/hive/databases.",
        "resourceType": None,
        "resourceName": None,
        "code": 404,
    }
