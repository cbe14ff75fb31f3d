"""Log lines, for people and as JSON, with the request that they belong to."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from interbed.catalog.server.edge.call import (
    Call,
    CallOutcome,
    ClientSession,
    current_method,
    current_request,
    current_session,
)
from interbed.catalog.server.operate.logs import SlowCallLog, configure_logging


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where the log goes; the test's own logging is put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def request_of_ann() -> Iterator[None]:
    """This thread serves a request."""
    tokens = [
        (current_request, current_request.set("r-7")),
        (current_method, current_method.set("get_table")),
        (current_session, current_session.set(ClientSession(peer="10.0.0.1:4", user="ann"))),
    ]
    yield
    for variable, token in tokens:
        variable.reset(token)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("request_of_ann")
def test_a_line_of_json_has_the_request_the_method_the_peer_and_the_user(stream: io.StringIO) -> None:
    configure_logging("INFO", "json", stream)
    logging.getLogger("interbed.x").info("hello %s", "wörld\n")
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("+00:00")
    assert line.pop("process") > 0
    assert line == {
        "level": "INFO",
        "logger": "interbed.x",
        "message": "hello wörld\n",
        "request_id": "r-7",
        "method": "get_table",
        "peer": "10.0.0.1:4",
        "user": "ann",
    }


def test_outside_of_requests_there_is_none_to_tell_and_errors_have_their_traceback(stream: io.StringIO) -> None:
    configure_logging("INFO", "json", stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("interbed.x").exception("it failed")
    line = json.loads(stream.getvalue())
    assert "request_id" not in line
    assert "ValueError: broken" in line["exception"]


@pytest.mark.usefixtures("request_of_ann")
def test_a_line_for_people_ends_with_the_request(stream: io.StringIO) -> None:
    configure_logging("INFO", "text", stream)
    logging.getLogger("interbed.x").info("hello")
    logging.getLogger("interbed.x").debug("not asked for")
    [line] = stream.getvalue().splitlines()
    assert line.endswith("INFO interbed.x: hello [request_id=r-7 method=get_table peer=10.0.0.1:4 user=ann]")


def test_slow_calls_are_logged_and_quick_ones_are_not(stream: io.StringIO) -> None:
    configure_logging("INFO", "json", stream)
    log = SlowCallLog(0.5)
    for seconds in (0.4, 1.25):
        log.observed(
            Call(
                request_id="r-9",
                method="get_all_tables",
                session=ClientSession(peer="10.0.0.1:4"),
                seconds=seconds,
                outcome=CallOutcome.OK,
            )
        )
    line = json.loads(stream.getvalue())
    assert (line["level"], line["message"]) == ("WARNING", "slow call: get_all_tables took 1.2 s")
    assert (line["request_id"], line["method"], line["seconds"], line["outcome"]) == (
        "r-9",
        "get_all_tables",
        1.25,
        "ok",
    )
