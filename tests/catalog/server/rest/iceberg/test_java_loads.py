"""Random updates, sent as JSON: Iceberg's library in Java loads the table after each that the server accepts."""

import http.client
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.server.rest.iceberg.rest_server import IcebergRest
from tests.support.servers.http_servers import running_rest_catalog
from tests.support.servers.metastore import BACKENDS
from tests.support.waits import at_most

pytestmark = pytest.mark.long

STEPS = 25
TYPES = ("int", "long", "string", "double", "date", "timestamp", "timestamptz", "decimal(9, 2)", "uuid", "fixed[2]")
NESTED: tuple[dict[str, Any], ...] = (
    {"type": "struct", "fields": [{"id": 20, "name": "x", "required": True, "type": "int"}]},
    {"type": "list", "element-id": 30, "element": "string", "element-required": False},
    {"type": "map", "key-id": 40, "key": "string", "value-id": 50, "value": "int", "value-required": False},
)
VALUES = (
    None,
    1,
    True,
    1.5,
    "x",
    "2020-01-01",
    "2020-01-01T00:00:00",
    "2020-01-01T00:00:00.123456789",
    "12.34",
    "00ff",
)
TRANSFORMS = ("identity", "bucket[4]", "bucket[0]", "truncate[3]", "day", "hour", "void", "future")


class RandomUpdates:
    """Updates of clients with wrong clocks, wrong types and old states, among right ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.version = self._pick(1, 2, 2, 3, 3)

    def _pick(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _rarely(self) -> bool:
        return self._random.random() < 0.15

    def next(self, table: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the updates of a commit to a table with this metadata."""
        make = self._pick(*[self._snapshots] * 3, self._schema, self._spec, self._ref, self._removal, self._statistics)
        return list(make(table))

    def _schema(self, table: dict[str, Any]) -> Iterator[dict[str, Any]]:
        fields = []
        for number in self._random.sample(range(1, 7), self._pick(1, 2, 3)):
            field = {"id": number, "name": self._pick(*"abcdef", "p1"), "required": self._rarely()}
            field["type"] = self._pick(*NESTED) if self._rarely() else self._pick(*TYPES)
            for key in ("initial-default", "write-default"):
                if self._rarely():
                    field[key] = self._pick(*VALUES)
            fields.append(field)
        schema: dict[str, Any] = {"type": "struct", "fields": fields}
        if self._rarely():
            schema["identifier-field-ids"] = [self._pick(1, 2, 3, 20, 30)]
        yield {"action": "add-schema", "schema": schema}
        yield {"action": "set-current-schema", "schema-id": self._pick(-1, -1, -1, 0)}

    def _spec(self, table: dict[str, Any]) -> Iterator[dict[str, Any]]:
        names = self._random.sample(("a", "b", "p1", "p2"), self._pick(0, 1, 2))
        fields = [
            {"source-id": self._pick(1, 2, 3, 20), "name": name, "transform": self._pick(*TRANSFORMS)} for name in names
        ]
        yield {"action": "add-spec", "spec": {"fields": fields}}
        if not self._rarely():
            yield {"action": "set-default-spec", "spec-id": -1}

    def _snapshots(self, table: dict[str, Any]) -> Iterator[dict[str, Any]]:
        number = self._random.randrange(1 << 40)
        snapshot: dict[str, Any] = {
            "snapshot-id": number,
            "sequence-number": table.get("last-sequence-number", 0) + (self._pick(0, -1, 3) if self._rarely() else 1),
            "timestamp-ms": int(time.time() * 1000) + (self._pick(-120_000, 120_000, 30_000) if self._rarely() else 0),
            "manifest-list": f"file:/tmp/{number}.avro",
            "summary": {"operation": "append"},
        }
        if self.version == 1 and not self._rarely():
            del snapshot["sequence-number"]
        if not self._rarely():
            snapshot["parent-snapshot-id"] = table.get("current-snapshot-id")
        if table["format-version"] > 2:
            snapshot["first-row-id"] = table["next-row-id"] + (self._pick(-1, 5) if self._rarely() else 0)
            snapshot["added-rows"] = self._pick(-1, 0) if self._rarely() else 5
        yield {"action": "add-snapshot", "snapshot": snapshot}
        yield {
            "action": "set-snapshot-ref",
            "ref-name": self._pick("main", "main", "b"),
            "type": "branch",
            "snapshot-id": number,
        }

    def _known(self, table: dict[str, Any]) -> int:
        found: int = self._pick(7, *[each["snapshot-id"] for each in table.get("snapshots", [])])
        return found

    def _ref(self, table: dict[str, Any]) -> Iterator[dict[str, Any]]:
        update = {
            "action": "set-snapshot-ref",
            "ref-name": self._pick("main", "b", "c"),
            "type": self._pick("branch", "tag"),
        }
        for key in ("max-ref-age-ms", "min-snapshots-to-keep", "max-snapshot-age-ms"):
            if self._rarely():
                update[key] = self._pick(1000, 0, -1)
        yield {**update, "snapshot-id": self._known(table)}

    def _removal(self, table: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._rarely():
            yield {"action": "upgrade-format-version", "format-version": self._pick(2, 3)}
        elif self._rarely():
            yield {"action": "remove-snapshot-ref", "ref-name": self._pick("main", "b")}
        else:
            yield {"action": "remove-snapshots", "snapshot-ids": [self._known(table)]}

    def _statistics(self, table: dict[str, Any]) -> Iterator[dict[str, Any]]:
        file = {"snapshot-id": self._known(table), "statistics-path": "file:/tmp/s", "file-size-in-bytes": 9}
        whole = {**file, "file-footer-size-in-bytes": 4, "blob-metadata": []}
        for each in (file, whole):
            if self._rarely():
                del each[self._pick(*each)]
        yield {"action": "set-partition-statistics", "partition-statistics": file}
        yield {"action": "set-statistics", "statistics": whole}


def _posted(address: str, path: str, body: dict[str, Any]) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=at_most(30))
    try:
        connection.request("POST", path, body=json.dumps(body), headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module", params=BACKENDS[:1])
def server(request: pytest.FixtureRequest) -> IcebergRest:
    """Return a server on one kind of database: metadata are the same on both."""
    running: IcebergRest = request.getfixturevalue(f"rest_on_{request.param}")
    return running


def test_java_loads_the_table_after_each_commit(server: IcebergRest, namespace: str, tmp_path: Path) -> None:
    commits = 0
    with running_rest_catalog(tmp_path) as java:
        assert _posted(java, "/v1/namespaces", {"namespace": ["n"]})[0] == 200
        for seed in range(30):
            updates = RandomUpdates(seed)
            path = f"namespaces/{namespace}/tables"
            fields = [
                {"id": place, "name": name, "required": False, "type": "timestamp"} for place, name in enumerate("abc")
            ]
            body = {
                "name": f"t{seed}",
                "schema": {"type": "struct", "fields": fields},
                "properties": {"format-version": str(updates.version)},
            }
            table = server.call("POST", path, body).expect(200)["metadata"]
            for step in range(STEPS):
                chosen = updates.next(table)
                answer = server.call("POST", f"{path}/t{seed}", {"requirements": [], "updates": chosen})
                if answer.status != 200:
                    assert answer.status in (400, 409), (answer.body, chosen)
                    continue
                table = answer.body["metadata"]
                name = {"name": f"t{seed}_{step}", "metadata-location": answer.body["metadata-location"]}
                status, loaded = _posted(java, "/v1/namespaces/n/register", name)
                assert status == 200, (seed, step, loaded, chosen)
                commits += 1
    assert commits > 300
