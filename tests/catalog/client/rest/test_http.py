"""HTTP of the REST client: retries, outcomes that are unknown, deadlines, and errors without secrets."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TypeAlias

import pytest

from interbed.catalog.client.errors import CallStateUnknownError, CatalogUnavailableError
from interbed.catalog.client.rest.http import BACKOFF, RestAddress, RestHttp, RestRefusedError, retry_after_seconds
from interbed.catalog.client.rest.tokens import BearerToken
from interbed.storage.base.errors import InvalidOptionError
from tests.catalog.client.rest.answering_server import (
    CLOSE,
    ChosenAnswer,
    ChosenAnswers,
    ReceivedRequest,
    answering_server,
)
from tests.support.servers.ports import free_port

pytestmark = pytest.mark.integration

SECRET = "a-secret-token"


def in_turn(*answers: "ChosenAnswer | str") -> ChosenAnswers:
    """Return the answers one after another, the last one for all further requests."""
    left = list(answers)
    return lambda asked: left.pop(0) if len(left) > 1 else left[0]


Opened: TypeAlias = Callable[[str, list[float]], RestHttp]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Open clients that record their pauses instead of waiting, and close them afterwards."""
    with ExitStack() as clients:

        def client(url: str, pauses: list[float]) -> RestHttp:
            http = RestHttp(url, BearerToken(SECRET), backoff=replace(BACKOFF, sleep=pauses.append))
            clients.callback(http.close)
            return http

        yield client


@pytest.mark.parametrize("first", [CLOSE, ChosenAnswer(503), ChosenAnswer(502), ChosenAnswer(504), ChosenAnswer(429)])
def test_a_read_is_repeated_after_a_failure_that_may_pass(opened: Opened, first: "ChosenAnswer | str") -> None:
    pauses: list[float] = []
    with answering_server(in_turn(first, first, ChosenAnswer(body=b'{"a": 1}'))) as (url, asked):
        assert opened(url, pauses).get("/v1/x") == {"a": 1}
        assert len(asked) == 3
        assert len(pauses) == 2


def test_the_pause_is_that_of_retry_after(opened: Opened) -> None:
    pauses: list[float] = []
    later = ChosenAnswer(503, headers={"Retry-After": "7"})
    with answering_server(in_turn(later, later, ChosenAnswer(503), ChosenAnswer())) as (url, _):
        opened(url, pauses).get("/v1/x")
    assert pauses[:2] == [7.0, 7.0]
    assert pauses[2] < 7.0


def test_a_pause_that_would_pass_the_bound_is_not_made(opened: Opened) -> None:
    pauses: list[float] = []
    with answering_server(in_turn(ChosenAnswer(429, headers={"Retry-After": "3600"}))) as (url, asked):
        with pytest.raises(RestRefusedError) as caught:
            opened(url, pauses).get("/v1/x")
        assert (caught.value.status, len(asked), pauses) == (429, 1, [])


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("12", 12.0),
        ("-3", 0.0),
        ("Fri, 31 Jan 2025 12:00:30 GMT", 30.0),
        ("Fri, 31 Jan 2025 11:00:00 GMT", 0.0),
        ("soon", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, 1738324800.0) == seconds


@pytest.mark.parametrize("answer", [CLOSE, ChosenAnswer(503), ChosenAnswer(504)])
def test_a_change_is_sent_once_when_its_outcome_is_unknown(opened: Opened, answer: "ChosenAnswer | str") -> None:
    pauses: list[float] = []
    with answering_server(in_turn(answer)) as (url, asked):
        with pytest.raises(CallStateUnknownError, match=r"not known whether .* has carried out POST /v1/x"):
            opened(url, pauses).post("/v1/x", {"a": 1})
        assert [(request.method, json.loads(request.body)) for request in asked] == [("POST", {"a": 1})]


def test_a_change_that_may_be_repeated_is_repeated(opened: Opened) -> None:
    pauses: list[float] = []
    with answering_server(in_turn(CLOSE, ChosenAnswer(503), ChosenAnswer(body=b""))) as (url, asked):
        assert opened(url, pauses).post("/v1/x", {}, repeatable=True) is None
        assert len(asked) == 3


def test_a_refused_request_is_repeated_even_if_it_is_a_change(opened: Opened) -> None:
    pauses: list[float] = []
    with answering_server(in_turn(ChosenAnswer(429), ChosenAnswer())) as (url, asked):
        opened(url, pauses).post("/v1/x", {})
        assert len(asked) == 2


def test_what_an_earlier_attempt_has_deleted_is_deleted(opened: Opened) -> None:
    pauses: list[float] = []
    missing = ChosenAnswer(404, b'{"resourceType": "TABLE", "message": "no table", "code": 404}')
    with answering_server(in_turn(CLOSE, missing)) as (url, _):
        opened(url, pauses).delete("/v1/x")
    with answering_server(in_turn(missing)) as (url, _), pytest.raises(RestRefusedError) as caught:
        opened(url, pauses).delete("/v1/x")
    assert caught.value.is_missing("TABLE")


def test_a_server_that_is_down_is_named(opened: Opened) -> None:
    pauses: list[float] = []
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(CatalogUnavailableError, match=rf"{url} can't be reached: ConnectionRefusedError") as caught:
        opened(url, pauses).post("/v1/x", {})
    assert not isinstance(caught.value, CallStateUnknownError)
    assert len(pauses) == BACKOFF.retries


def test_connections_are_used_again(opened: Opened) -> None:
    ports: set[str] = set()
    with answering_server(in_turn(ChosenAnswer(body=b'{"a": "%s"}' % (b"x" * 200_000)))) as (url, _):
        http = opened(url, [])
        for _ in range(3):
            http.get("/v1/x")
            assert len(http._idle) == 1
            sock = http._idle[0].sock
            assert sock is not None
            ports.add(str(sock.getsockname()))
        http.close()
    assert len(ports) == 1


def test_a_message_has_neither_the_token_nor_a_password(opened: Opened) -> None:
    def answers(asked: ReceivedRequest) -> ChosenAnswer:
        said = f"bad header {asked.headers['Authorization']}, password=xyz"
        return ChosenAnswer(400, json.dumps({"message": said, "code": 400}).encode())

    with answering_server(answers) as (url, _):
        http = opened(url, [])
        with pytest.raises(RestRefusedError, match=r"answers 400 to GET /v1/x") as caught:
            http.get("/v1/x")
    assert SECRET not in str(caught.value)
    assert "xyz" not in str(caught.value)
    assert SECRET not in repr(http)


def test_a_token_with_a_line_break_is_refused_without_being_shown() -> None:
    with answering_server(in_turn(ChosenAnswer())) as (url, _):
        http = RestHttp(url, BearerToken(f"{SECRET}\nX-Other: 1"))
        with closing(http), pytest.raises(InvalidOptionError, match="characters that HTTP does not allow") as caught:
            http.get("/v1/x")
    assert SECRET not in str(caught.value)


def test_an_answer_that_is_no_json_is_not_quoted(opened: Opened) -> None:
    with (
        answering_server(in_turn(ChosenAnswer(body=b"<html>secret</html>"))) as (url, _),
        pytest.raises(RestRefusedError, match=r"19 bytes that are no JSON; check the option 'uri'") as caught,
    ):
        opened(url, []).get("/v1/x")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("http://h:1", RestAddress(is_tls=False, host="h", port=1, path="")),
        ("h:1/", RestAddress(is_tls=False, host="h", port=1, path="")),
        ("https://h/a/b/", RestAddress(is_tls=True, host="h", port=None, path="/a/b")),
    ],
)
def test_addresses_may_lack_scheme_and_port_and_have_a_path(uri: str, address: RestAddress) -> None:
    assert RestAddress.parse(uri) == address


@pytest.mark.parametrize("uri", ["thrift://h:1", "http://", "http://h:x", "http://u:hidden@h", "http://h?a=b"])
def test_other_addresses_are_refused(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="takes http://host:port or https://host") as caught:
        RestAddress.parse(uri)
    assert "hidden" not in str(caught.value)
