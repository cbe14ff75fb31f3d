"""Requests that are nested too deeply are refused by name: they are no internal errors, and change nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.server.rest.iceberg.local_requests import copied
from tests.catalog.server.rest.iceberg.rest_server import SCHEMA

VERSION = {"version-id": 1, "schema-id": 0, "timestamp-ms": 1, "representations": [], "default-namespace": ["a"]}
BODIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "snapshot": ("tables/t", lambda deep: _update({"action": "add-snapshot", "snapshot": deep})),
    "schema": ("tables/t", lambda deep: _update({"action": "add-schema", "schema": {**SCHEMA, "more": deep}})),
    "type": ("tables/t", lambda deep: _update({"action": "add-schema", "schema": {**SCHEMA, "fields": [deep]}})),
    "new table": ("tables", lambda deep: {"name": "u", "schema": {**SCHEMA, "more": deep}}),
    "new view": ("views", lambda deep: {"name": "v", "schema": SCHEMA, "view-version": {**VERSION, "summary": deep}}),
    "properties": ("properties", lambda deep: {"updates": deep}),
}


def _update(update: Any) -> Any:
    return {"requirements": [], "updates": [update]}


@pytest.mark.parametrize("kind", list(BODIES))
def test_a_request_that_is_nested_too_deeply_is_refused(template: Path, tmp_path: Path, kind: str) -> None:
    local = copied(template, tmp_path)
    local.send("POST", "namespaces", {"namespace": ["a"]})
    local.send("POST", "namespaces/a/tables", {"name": "t", "schema": SCHEMA})
    before = local.send("GET", "namespaces/a/tables/t")
    path, body = BODIES[kind]
    deep: Any = "v"
    for _ in range(700):
        deep = {"k": deep}
    status, message = local.send("POST", f"namespaces/a/{path}", body(deep))
    assert status == 400, message
    assert local.send("GET", "namespaces/a/tables/t") == before
    assert local.send("GET", "namespaces/a/views")[1]["identifiers"] == []
    local.repository.close()
