"""The OpenAPI document of the routes about roles and grants."""

import json
import re
from typing import Any

from interbed.catalog.server.rest.access.routes import MESSAGES
from tests.catalog.server.rest.access.served import ManagedAccess
from tests.support.access_openapi import PAGE, ROWS_PAGE, document, page, rows_document, rows_page


def test_the_document_is_that_of_the_routes(managed: ManagedAccess) -> None:
    assert PAGE.read_text() == page(managed.metastore), "python -m tests.support.access_openapi"


def test_the_document_of_rows_is_that_of_its_route(managed: ManagedAccess) -> None:
    assert ROWS_PAGE.read_text() == rows_page(managed.metastore), "python -m tests.support.access_openapi"
    made = rows_document(managed.metastore)
    ((path, operations),) = made["paths"].items()
    assert path == "/v1/{prefix}/databases/{database}/tables/{table}/rows"
    assert set(operations) == {"post"}
    references = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(made)))
    assert references == set(made["components"]["schemas"])


def test_each_route_has_its_operation_and_each_reference_its_schema(managed: ManagedAccess) -> None:
    made = document(managed.metastore)
    operations = {
        (method.upper(), path.removeprefix("/")): operation["operationId"]
        for path, methods in made["paths"].items()
        for method, operation in methods.items()
    }
    own = [each for each in managed.interface.routes if each.template.startswith("v1/access/")]
    assert operations == {(each.method, each.template): each.operation for each in own}
    assert set(operations.values()) == set(MESSAGES)
    references = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(made)))
    assert references == set(made["components"]["schemas"])


def test_answers_have_the_fields_of_their_schemas(managed: ManagedAccess) -> None:
    managed.send("POST", "roles", {"name": "readers"})
    managed.send("POST", "roles/readers/members", {"member": {"kind": "user", "name": "ann"}})
    grant = {"privilege": "SELECT", "on": {"kind": "server"}, "to": {"kind": "role", "name": "readers"}}
    managed.send("POST", "grants", {"grants": [grant]})
    made = document(managed.metastore)
    schemas = made["components"]["schemas"]
    on = "kind=server"
    for address, operation in (
        ("roles", "listRoles"),
        ("roles/readers/members", "listMembers"),
        ("current", "currentCaller"),
        ("grants", "listGrants"),
        (f"effective?principal=ann&{on}", "effectivePrivileges"),
        (f"why-denied?principal=ann&privilege=SELECT&{on}", "whyDenied"),
    ):
        status, answer = managed.send("GET", address)
        assert status == 200, answer
        kind = MESSAGES[operation].answer
        assert kind is not None
        _check(answer, schemas[kind.__name__], schemas)


def _check(value: Any, schema: Any, schemas: Any) -> None:
    """Fail for a field that the schema lacks, and for one that it requires."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if schema.get("type") == "array":
        for each in value:
            _check(each, schema["items"], schemas)
    elif schema.get("type") == "object":
        assert set(value) <= set(schema["properties"])
        assert set(schema["required"]) <= set(value)
        for name, each in value.items():
            _check(each, schema["properties"][name], schemas)
    elif "enum" in schema:
        assert value in schema["enum"]
