"""The header Idempotency-Key: a repeated request is carried out once, and answered as the first time."""

import random
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interbed.catalog.server.rest.iceberg import routes
from interbed.catalog.server.rest.iceberg.routes import interface
from interbed.catalog.server.service.idempotency import KEPT_SECONDS, IdempotencyService
from interbed.catalog.server.service.tables.pointers import PointerService, TableLockedError
from tests.catalog.server.rest.iceberg.local_requests import LocalRequests, copied
from tests.catalog.server.rest.iceberg.rest_server import SCHEMA, IcebergRest, new_view, set_properties
from tests.support.examples import examples
from tests.support.waits import at_most

HEADER = "Idempotency-Key"


def new_key(dice: random.Random | None = None) -> str:
    """Return a UUID of version 7."""
    number = (dice or random).getrandbits(128)
    return str(uuid.UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 7 << 76 | 2 << 62))


def test_the_configuration_has_the_lifetime_of_keys(server: IcebergRest) -> None:
    assert server.call_at("GET", "v1/config").expect(200)["idempotency-key-lifetime"] == "PT30M"


def test_each_change_is_carried_out_once(server: IcebergRest, namespace: str) -> None:
    tables = f"namespaces/{namespace}/tables"
    entry, other = ({"namespace": [namespace], "name": name} for name in ("t", "u"))
    created = server.create(namespace, "first")
    removal = {"removals": ["a", "none"], "updates": {"b": "1"}}
    update = {"requirements": [{"type": "assert-table-uuid", "uuid": created["metadata"]["table-uuid"]}]}
    changes: list[tuple[str, str, Any]] = [
        ("POST", "namespaces", {"namespace": [f"{namespace}_more"]}),
        ("POST", f"namespaces/{namespace}/properties", removal),
        ("POST", tables, {"name": "t", "schema": SCHEMA}),
        ("POST", tables, {"name": "staged", "schema": SCHEMA, "stage-create": True}),
        ("POST", f"{tables}/first", {**update, "updates": [set_properties(a="1")]}),
        ("POST", "tables/rename", {"source": entry, "destination": other}),
        ("POST", f"namespaces/{namespace}/views", new_view("v")),
        ("DELETE", f"namespaces/{namespace}/views/v", None),
        ("DELETE", f"{tables}/u", None),
        ("DELETE", f"{tables}/u", None),
        ("POST", tables, {"name": "first", "schema": SCHEMA}),
        ("DELETE", f"namespaces/{namespace}", None),
        ("DELETE", f"namespaces/{namespace}_more", None),
    ]
    statuses = []
    for method, path, body in changes:
        header = {HEADER: new_key()}
        first = server.call(method, path, body, header)
        assert first.status < 500
        for _ in range(2):
            again = server.call(method, path, body, header)
            assert (again.status, again.body) == (first.status, first.body), path
            assert again.headers.get("etag") == first.headers.get("etag")
        statuses.append(first.status)
    assert statuses == [200, 200, 200, 200, 200, 204, 200, 204, 204, 404, 409, 409, 204]
    logged = server.call("GET", f"{tables}/first").expect(200)["metadata"]["metadata-log"]
    assert len(logged) == 1


def test_a_key_is_of_one_request(server: IcebergRest, namespace: str) -> None:
    header, path = {HEADER: new_key()}, f"namespaces/{namespace}/tables"
    server.call("POST", path, {"name": "t", "schema": SCHEMA}, header).expect(200)
    for method, other, body in (("POST", path, {"name": "u", "schema": SCHEMA}), ("DELETE", f"{path}/t", None)):
        message = server.call(method, other, body, header).error(422, "UnprocessableEntityException")
        assert header[HEADER] in message
    assert server.call("HEAD", f"{path}/u").status == 404
    assert server.call("HEAD", f"{path}/t").status == 204
    server.call("GET", f"{path}/t", headers=header).expect(200)


@pytest.mark.parametrize("key", ["", "x", str(uuid.UUID(int=4 << 76 | 2 << 62)), "01890f0e7c2a7bbf8c1d0a1b2c3d4e5f"])
def test_a_key_that_is_no_uuid_of_version_7_is_refused(server: IcebergRest, namespace: str, key: str) -> None:
    answer = server.call("DELETE", f"namespaces/{namespace}", headers={HEADER: key})
    answer.error(400, "BadRequestException")
    server.call("GET", f"namespaces/{namespace}").expect(200)


def test_of_requests_at_once_one_is_carried_out(server: IcebergRest, namespace: str) -> None:
    created = server.create(namespace, "t")
    tables = f"namespaces/{namespace}/tables"
    requirement = {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2}
    field = {"id": 3, "name": "n", "required": False, "type": "int"}
    added = {"action": "add-schema", "schema": {**SCHEMA, "schema-id": 1, "fields": [*SCHEMA["fields"], field]}}
    for path, body in (
        (tables, {"name": "u", "schema": SCHEMA}),
        (f"{tables}/t", {"requirements": [requirement], "updates": [added]}),
    ):
        header = {HEADER: new_key()}
        found: list[tuple[int, Any]] = []

        def send(path: str = path, body: Any = body, header: Any = header, found: Any = found) -> None:
            answer = server.call("POST", path, body, header)
            found.append((answer.status, answer.body))

        threads = [threading.Thread(target=send) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(at_most(60))
        assert [status for status, _ in found] == [200] * 6
        assert len({body["metadata-location"] for _, body in found}) == 1
    folder = Path(created["metadata"]["location"].removeprefix("file:")) / "metadata"
    assert len(list(folder.iterdir())) == 2


Change = tuple[str, str, Any]


def _changes() -> st.SearchStrategy[Change]:
    names, spaces = st.sampled_from("ab"), st.sampled_from("xy")
    place = st.builds(lambda space, name: (space, name), spaces, names)
    return st.one_of(
        st.builds(lambda n: ("POST", "namespaces", {"namespace": [n]}), spaces),
        st.builds(lambda n: ("DELETE", f"namespaces/{n}", None), spaces),
        st.builds(lambda p: ("POST", f"namespaces/{p[0]}/tables", {"name": p[1], "schema": SCHEMA}), place),
        st.builds(lambda p: ("DELETE", f"namespaces/{p[0]}/tables/{p[1]}", None), place),
        st.builds(
            lambda p, value: (
                "POST",
                f"namespaces/{p[0]}/tables/{p[1]}",
                {"requirements": [], "updates": [set_properties(a=str(value))]},
            ),
            place,
            st.integers(0, 9),
        ),
        st.builds(
            lambda p, q: (
                "POST",
                "tables/rename",
                {
                    "source": {"namespace": [p[0]], "name": p[1]},
                    "destination": {"namespace": [q[0]], "name": q[1]},
                },
            ),
            place,
            place,
        ),
    )


def test_an_answer_that_is_not_stored_is_loaded_again(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "ANSWER_BYTES_MAX", 0)
    server = copied(template, tmp_path)
    version = {"version-id": 1, "schema-id": 0, "timestamp-ms": 1, "summary": {}, "representations": []}
    view = {"name": "v", "schema": SCHEMA, "view-version": {**version, "default-namespace": ["a"]}, "properties": {}}
    update = {"requirements": [], "updates": [set_properties(a="1")]}
    found: dict[str, Any] = {}

    def twice(name: str, path: str, body: Any) -> None:
        key = new_key()
        first = server.send("POST", path, body, key)
        assert first[0] == 200, first
        again = server.send("POST", path, body, key)
        for answer in (first, again):
            for member in ("config", "missing"):
                answer[1].pop(member, None)
        assert again == first, name
        found[name] = first[1]

    twice("createNamespace", "namespaces", {"namespace": ["a"]})
    twice("updateProperties", "namespaces/a/properties", {"updates": {"b": "1"}, "removals": []})
    twice("createTable", "namespaces/a/tables", {"name": "t", "schema": SCHEMA})
    twice("updateTable", "namespaces/a/tables/t", update)
    twice("createView", "namespaces/a/views", view)
    twice("replaceView", "namespaces/a/views/v", update)
    files = {each: found[each]["metadata-location"] for each in ("updateTable", "replaceView")}
    server.send("DELETE", "namespaces/a/views/v")
    twice("registerTable", "namespaces/a/register", {"name": "u", "metadata-location": files["updateTable"]})
    twice("registerView", "namespaces/a/register-view", {"name": "w", "metadata-location": files["replaceView"]})
    twice("unregisterTable", "namespaces/a/tables/u/unregister", None)
    assert found["unregisterTable"]["metadata-location"] == files["updateTable"]
    without = {"dropNamespace", "dropTable", "dropView", "renameTable", "renameView", "commitTransaction"}
    changes = {each.operation for each in interface(server.services).routes if each.is_change}
    assert changes == set(found) | without
    server.repository.close()


@settings(max_examples=examples(40), deadline=None)
@given(
    changes=st.lists(_changes(), min_size=1, max_size=12),
    retries=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=12),
    lost=st.sets(st.integers(0, 11)),
)
def test_retries_in_any_order_change_nothing_more(
    tmp_path_factory: pytest.TempPathFactory,
    template: Path,
    changes: list[Change],
    retries: list[tuple[int, int]],
    lost: set[int],
) -> None:
    model, real = (copied(template, tmp_path_factory.mktemp(name)) for name in ("model", "real"))
    changes = [
        ("POST", "namespaces", {"namespace": ["x"]}),
        ("POST", "namespaces/x/tables", {"name": "a", "schema": SCHEMA}),
        *changes,
    ]
    keys, statuses = [], []
    for number, change in enumerate(changes):
        keys.append(new_key(random.Random(number)))
        statuses.append(model.send(*change)[0])
        with pytest.MonkeyPatch.context() as patch:
            if number in lost:
                patch.setattr(IdempotencyService, "finish", _killed)
                # The process ends before it answers. A change is complete, and a refusal is not stored.
                real.send(*change, keys[-1])
            else:
                assert real.send(*change, keys[-1])[0] == statuses[-1]
        if number in lost:
            assert real.send(*change, keys[-1])[0] == statuses[-1]
        for after, which in retries:
            if after == number and which <= number:
                again = real.send(*changes[which], keys[which])[0]
                # The answer to a lost change is made from the present state: what it created may have been dropped.
                assert again == statuses[which] or (which in lost and again == 404)
    assert real.state() == model.state()
    for each in (model, real):
        each.repository.close()


def _killed(*_: object) -> None:
    raise RuntimeError("killed")


def test_refusals_because_of_other_clients_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = LocalRequests(tmp_path)
    local.send("POST", "namespaces", {"namespace": ["x"]})
    local.send("POST", "namespaces/x/tables", {"name": "a", "schema": SCHEMA})
    ends = {"namespace": ["x"], "name": "a"}, {"namespace": ["x"], "name": "b"}
    renamed = {"source": ends[0], "destination": ends[1]}
    key = new_key()

    def locked(*_: object) -> None:
        raise TableLockedError("locked")

    with monkeypatch.context() as patch:
        patch.setattr("interbed.catalog.server.rest.iceberg.tables.BACKOFF", _NoPause())
        patch.setattr(PointerService, "swap", locked)
        assert local.send("POST", "tables/rename", renamed, key)[0] == 409
    assert local.send("POST", "tables/rename", renamed, key)[0] == 204
    local.repository.close()


class _NoPause:
    """Back-off that gives up at once."""

    def start(self, *_: object) -> "_NoPause":
        """Begin with no requests."""
        return self

    def pause(self, *_: object) -> bool:
        """Refuse another try of it."""
        return False


def test_old_keys_are_removed(tmp_path: Path) -> None:
    local, now = LocalRequests(tmp_path), [1000.0]
    keys = IdempotencyService(local.repository, clock=lambda: now[0])
    with keys.claiming(new_key(), "digest") as claim:
        keys.finish(claim, b"{}")
    now[0] += KEPT_SECONDS
    assert keys.expire() == 0
    assert keys.find(claim.key) is not None
    now[0] += 1
    assert keys.expire() == 1
    assert keys.find(claim.key) is None
    local.repository.close()


_PROGRAM = """
import os, signal, sys
from pathlib import Path
from interbed.catalog.server.service.idempotency import IdempotencyService
from interbed.catalog.server.database.client_keys import SqlIdempotencyKeys
from interbed.catalog.server.rest.iceberg.routes import RepeatableRoutes
from tests.catalog.server.rest.iceberg.test_idempotency import LocalRequests, UPDATE

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

directory, step, key = sys.argv[1:]
target, name = {
    "before the change": (SqlIdempotencyKeys, "claim"),
    "before the answer": (IdempotencyService, "finish"),
    "after the answer": (None, ""),
}[step]
if target is not None:
    setattr(target, name, kill)
LocalRequests(Path(directory)).send(*UPDATE, key)
kill()
"""
UPDATE: Change = ("POST", "namespaces/x/tables/a", {"requirements": [], "updates": [set_properties(a="1")]})


@pytest.mark.parametrize("step", ["before the change", "before the answer", "after the answer"])
def test_a_change_is_made_once_after_a_kill_at_any_step(tmp_path: Path, step: str) -> None:
    local = LocalRequests(tmp_path)
    local.send("POST", "namespaces", {"namespace": ["x"]})
    local.send("POST", "namespaces/x/tables", {"name": "a", "schema": SCHEMA})
    key = new_key()
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path), step, key]
    killed = subprocess.run(command, check=False, timeout=at_most(60), cwd=Path(__file__).parents[5])
    assert killed.returncode == -signal.SIGKILL
    logged = len(local.send("GET", "namespaces/x/tables/a")[1]["metadata"].get("metadata-log", ()))
    assert logged == (0 if step == "before the change" else 1)
    for _ in range(2):
        status, body = local.send(*UPDATE, key)
        assert status == 200
        assert body["metadata"]["properties"]["a"] == "1"
        assert len(body["metadata"]["metadata-log"]) == 1
    local.repository.close()
