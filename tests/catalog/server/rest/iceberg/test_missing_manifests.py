"""A scan of a snapshot whose files were never written, or are deleted, is answered by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.rest.interface import RestError, RestRequest
from tests.catalog.server.rest.fuzzed_targets import SESSION, RestTarget, fuzzed_target
from tests.catalog.server.rest.valid_bodies import ICEBERG


def _call(target: RestTarget, method: str, path: str, body: Any) -> Any:
    found = target.table.find(method, path)
    assert found is not None
    route, parts = found
    content = json.dumps(body).encode()
    return route.handler(RestRequest(parts=parts, query={}, headers={}, body=content, session=SESSION))


def test_a_scan_whose_manifest_list_is_missing_is_not_found(tmp_path: Path) -> None:
    with fuzzed_target("iceberg", tmp_path) as target:
        table = "v1/hive/namespaces/d/tables/t"
        _call(target, "POST", "v1/hive/namespaces/d/tables", ICEBERG["createTable"][6])
        for number in (8, 9):
            given = json.dumps(ICEBERG["updateTable"][number]).replace("{root}", str(tmp_path))
            _call(target, "POST", table, json.loads(given))
        with pytest.raises(RestError, match=r"snap-7\.avro") as caught:
            _call(target, "POST", f"{table}/plan", {"snapshot-id": 7})
        assert (caught.value.status, caught.value.kind) == (404, "NotFoundException")
