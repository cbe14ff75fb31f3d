"""A REST interface of a running server: limits, errors, request ids, the audit log."""

import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.process.main import Server, run
from interbed.catalog.server.rest import mounted
from interbed.catalog.server.rest.interface import (
    NO_CONTENT,
    ObjectKind,
    RestError,
    RestInterface,
    RestRequest,
    RestResponse,
    json_response,
    route,
)
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.settings import ServerSettings
from tests.support.waits import at_most

pytestmark = pytest.mark.integration

BODY_BYTES_MAX = 1 << 20


def _echoed(request: RestRequest) -> RestResponse:
    value = {"parts": dict(request.parts), "query": dict(request.query), "user": request.session.user}
    return json_response({**value, "body": request.json(dict[str, Any]) if request.body else None})


def _refused(request: RestRequest) -> RestResponse:
    raise RestError(HTTPStatus.CONFLICT, "Taken", "the name is taken at s3://KEY:SECRET@bucket/x", owner="anna")


def _broken(request: RestRequest) -> RestResponse:
    raise ZeroDivisionError("nothing to divide by")


def _handled(request: RestRequest) -> RestResponse:
    raise KeyError("a name")


def _translated(error: Exception) -> RestError | None:
    return RestError(HTTPStatus.NOT_FOUND, "Missing", str(error)) if isinstance(error, KeyError) else None


def _interface() -> RestInterface:
    usage, alter, kind = Privilege.USAGE, Privilege.ALTER, ObjectKind.CATALOG
    return RestInterface(
        name="probe",
        path="/probe",
        routes=[
            route("GET", "v1/{prefix}/echo/{namespace}", "get-echo", usage, kind, _echoed),
            route("POST", "v1/{prefix}/echo/{namespace}", "post-echo", alter, kind, _echoed),
            route("DELETE", "v1/{prefix}/echo/{namespace}", "delete-echo", alter, kind, lambda request: NO_CONTENT),
            route("GET", "v1/{prefix}/refused", "get-refused", usage, kind, _refused),
            route("POST", "v1/{prefix}/broken", "post-broken", alter, kind, _broken),
            route("GET", "v1/{prefix}/handled", "get-handled", usage, kind, _handled),
        ],
        error_body=lambda error: {"error": str(error), "type": error.kind, "code": int(error.status), **error.fields},
        translated=_translated,
        missing=lambda method, path: RestError(HTTPStatus.NOT_FOUND, "NoRoute", f"{method} {path} is not served"),
    )


@dataclass(frozen=True, slots=True)
class ReceivedAnswer:
    """A response: status, headers with names in lower case, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body's value."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class RestPort:
    """The HTTP port of a server in this process, and its audit log."""

    address: tuple[str, int]
    audit: Path

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> ReceivedAnswer:
        """Return the response to one request."""
        connection = http.client.HTTPConnection(*self.address, timeout=at_most(60))
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return ReceivedAnswer(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )
        finally:
            connection.close()

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of the audit log."""
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


@contextmanager
def _running(directory: Path) -> Iterator[RestPort]:
    settings = ServerSettings(
        port=0,
        http_port=0,
        rest_interfaces="probe",
        db=f"sqlite:///{directory / 'metastore.db'}",
        warehouse=f"file:{directory / 'warehouse'}",
        audit_log=directory / "audit.jsonl",
        message_bytes_max=BODY_BYTES_MAX,
    )
    servers: list[Server] = []
    ready = threading.Event()

    def on_ready(server: Server) -> None:
        servers.append(server)
        ready.set()

    thread = threading.Thread(target=run, args=(settings,), kwargs={"on_ready": on_ready})
    thread.start()
    try:
        assert ready.wait(at_most(60))
        address = servers[0].http_address
        assert address is not None
        yield RestPort(address, directory / "audit.jsonl")
    finally:
        servers[0].stop()
        thread.join(at_most(60))


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestPort]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mounted, "interfaces", lambda metastore, edge, settings: {"probe": _interface})
        patch.setattr(mounted, "PATHS", {"probe": "/probe"})
        with _running(tmp_path_factory.mktemp("server")) as running:
            yield running


def test_parts_are_decoded_as_forms_and_an_encoded_slash_is_no_separator(port: RestPort) -> None:
    answer = port.ask("GET", "/probe/v1/hive/echo/new%2Fdb+%C3%BC%24%2B?warehouse=a%26b&empty=")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["parts"] == {"prefix": "hive", "namespace": "new/db ü$+"}
    assert answer.json()["query"] == {"warehouse": "a&b", "empty": ""}


def test_a_user_that_names_itself_is_in_the_session(port: RestPort) -> None:
    assert port.ask("GET", "/probe/v1/p/echo/n", None, **{"x-actor-username": "anna"}).json()["user"] == "anna"


def test_errors_have_the_body_of_the_interface_and_no_credentials(port: RestPort) -> None:
    answer = port.ask("GET", "/probe/v1/p/refused")
    assert answer.status == 409
    assert answer.json()["owner"] == "anna"
    assert "SECRET" not in answer.body.decode()
    assert port.ask("GET", "/probe/v1/p/handled").json()["type"] == "Missing"


def test_an_internal_error_is_answered_with_500_and_logged(port: RestPort, caplog: pytest.LogCaptureFixture) -> None:
    answer = port.ask("POST", "/probe/v1/p/broken", b"{}")
    assert answer.status == 500
    assert "probe.post-broken" in answer.json()["error"]
    assert "probe.post-broken failed" in caplog.text


def test_changes_are_in_the_audit_log_with_the_id_of_the_request(port: RestPort) -> None:
    made = port.ask("POST", "/probe/v1/hive/echo/sales", b"{}")
    dropped = port.ask("DELETE", "/probe/v1/hive/echo/sales")
    assert dropped.status == 204
    by_id = {line["request_id"]: line for line in port.lines()}
    line = by_id[made.headers["x-request-id"]]
    assert (line["method"], line["catalog"], line["database"]) == ("probe.post-echo", "hive", "sales")
    assert by_id[dropped.headers["x-request-id"]]["outcome"] == "ok"
    # Reads are not.
    assert port.ask("GET", "/probe/v1/hive/echo/sales").headers["x-request-id"] not in by_id


def test_a_path_or_a_method_without_a_route_is_refused_by_name(port: RestPort) -> None:
    for method, path in (("GET", "/probe/v1/p/nothing"), ("PUT", "/probe/v1/p/echo/n"), ("GET", "/probe/")):
        answer = port.ask(method, path)
        assert answer.status == 404
        assert answer.json()["type"] == "NoRoute"
    assert port.ask("GET", "/other/v1/config").status == 404


@pytest.mark.parametrize(
    "path", ["/probe/v1/%ff/echo/n", "/probe/v1/p/echo/n?a=%ff", "/probe/v1/p/echo/n?" + "a=1&" * 200]
)
def test_addresses_that_cannot_be_decoded_are_refused(port: RestPort, path: str) -> None:
    assert port.ask("GET", path).status == 400


@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"a": "\xff"}', b"[" * 100_000, b'{"a":' * 50_000])
def test_bodies_that_are_not_of_the_type_are_refused(port: RestPort, body: bytes) -> None:
    answer = port.ask("POST", "/probe/v1/p/echo/n", body)
    assert answer.status == 400
    assert "invalid" in answer.json()["error"]


def test_a_body_is_limited_with_and_without_a_length(port: RestPort) -> None:
    large = json.dumps({"text": "x" * (BODY_BYTES_MAX // 2)}).encode()
    assert port.ask("POST", "/probe/v1/p/echo/n", large).json()["body"] == json.loads(large)
    assert port.ask("POST", "/probe/v1/p/echo/n", b"x" * (BODY_BYTES_MAX + 1)).status == 413
    with socket.create_connection(port.address, timeout=at_most(60)) as client:
        client.sendall(b"POST /probe/v1/p/echo/n HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        part = b"x" * 65536
        try:
            for _ in range(BODY_BYTES_MAX // len(part) + 2):
                client.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        except ConnectionError:
            # The server has refused, and closed.
            pass
        assert client.recv(65536).startswith(b"HTTP/1.1 413")


def test_packed_bodies_are_refused_by_name(port: RestPort) -> None:
    packed = gzip.compress(b'{"a": 1}')
    answer = port.ask("POST", "/probe/v1/p/echo/n", packed, **{"Content-Encoding": "gzip"})
    assert (answer.status, "'gzip' is not read" in answer.body.decode()) == (415, True)
    assert port.ask("POST", "/probe/v1/p/echo/n", b'{"a": 1}', **{"Content-Encoding": "identity"}).status == 200


def test_requests_of_many_clients_are_answered_to_each(port: RestPort) -> None:
    answers: dict[int, Any] = {}

    def ask(number: int) -> None:
        body = json.dumps({"number": number, "text": "x" * 20_000}).encode()
        answers[number] = port.ask("POST", f"/probe/v1/p/echo/n{number}", body).json()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(40)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(at_most(60))
    assert {n: (a["parts"]["namespace"], a["body"]["number"]) for n, a in answers.items()} == {
        n: (f"n{n}", n) for n in range(40)
    }
