"""Log lines as text and as JSON, with the request that they belong to."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from interbed.catalog.server.ops.logs import SlowCallLog, configure_logging
from interbed.catalog.server.thrift.edge.call import (
    Call,
    CallOutcome,
    ClientSession,
    current_method,
    current_request,
    current_session,
)
from interbed.storage.base.shown_text import without_credentials
from tests.support.tally import Tally


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Return the stream that receives the log; restore the test's own logging afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def request_of_ann() -> Iterator[None]:
    """Let this thread serve a request."""
    tokens = [
        (current_request, current_request.set("r-7")),
        (current_method, current_method.set("get_table")),
        (current_session, current_session.set(ClientSession(peer="10.0.0.1:4", user="ann"))),
    ]
    yield
    for variable, token in tokens:
        variable.reset(token)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("request_of_ann")
def test_a_json_line_has_the_request_the_method_the_peer_and_the_user(stream: io.StringIO) -> None:
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


def test_lines_outside_of_requests_have_no_request_and_errors_have_a_traceback(stream: io.StringIO) -> None:
    configure_logging("INFO", "json", stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("interbed.x").exception("it failed")
    line = json.loads(stream.getvalue())
    assert "request_id" not in line
    assert "ValueError: broken" in line["exception"]


@pytest.mark.usefixtures("request_of_ann")
def test_a_text_line_ends_with_the_request(stream: io.StringIO) -> None:
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


FORGERIES = [
    *(chr(number) for number in (*range(0x20), *range(0x7F, 0xA0))),
    *"\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\ud800\udfff",
]
"""Characters that end a line, move the cursor, change the direction of writing, or have no encoding."""


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.attack("log injection")
def test_text_of_clients_cannot_forge_a_log_line(stream: io.StringIO, form: str, tally: Tally) -> None:
    configure_logging("INFO", form, stream)
    for forgery in FORGERIES:
        stream.seek(0)
        stream.truncate()
        text = f"a{forgery}2026-01-01 00:00:00,000 ERROR interbed: forged"
        session = ClientSession(peer="10.0.0.1:4", user=text)
        tokens = [(current_method, current_method.set(text)), (current_session, current_session.set(session))]
        request = current_request.set("r-1")
        try:
            raise ValueError(text)
        except ValueError:
            logging.getLogger("interbed.x").exception("a client called %s", text, extra={"fields": {"user": text}})
        finally:
            current_request.reset(request)
            for variable, token in tokens:
                variable.reset(token)  # type: ignore[attr-defined]
        written = stream.getvalue().encode().decode()
        lines = written.splitlines()
        assert [line for line in lines if line.startswith("2026-01-01")] == []
        assert forgery == "\n" or not set(written) & set(FORGERIES) - {"\n"}
        assert form == "text" or len(lines) == 1
        # Only a traceback has lines of its own, and they are indented.
        assert all(line.startswith("    ") for line in lines[1:])
    tally("characters that forge no line", len(FORGERIES))


SECRETS = [
    "s3a://KEY:SECRET@bucket/x",
    "s3a://KEY:SEC/SECRET+x@bucket/x",
    "s3a://KEY%3ASECRET@bucket/x",
    "s3a:/KEY:SECRET@bucket/x",
    "hdfs://user:SECRET@host:8020/x",
    "hdfs://user:SEC@SECRET@host/x",
    "postgresql://user:SECRET@host/db",
    "jdbc:postgresql://host/db?user=a&password=SECRET",
    "{'fs.s3a.secret.key': 'SECRET'}",
    '{"fs.azure.account.key.x.dfs.core.windows.net": "x", "fs.s3a.session.token": "SECRET"}',
    "fs.s3a.secret.key=SECRET",
    "AccountKey=SECRET;x=1",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.attack("secrets in logs, errors, command lines and core dumps")
def test_credentials_are_masked_in_lines(stream: io.StringIO, form: str, secret: str) -> None:
    configure_logging("INFO", form, stream)
    logging.getLogger("interbed.x").warning("could not delete the data in %s", secret, extra={"fields": {"at": secret}})
    assert "SECRET" not in stream.getvalue()
    assert "******" in stream.getvalue()


@pytest.mark.parametrize(
    "plain", ["hdfs://host:8020/a@b", "file:/x/y@z", "thrift://host:9083", "no table d.t@branch", "a=b c: d"]
)
def test_text_that_is_no_credential_is_not_masked(plain: str) -> None:
    assert without_credentials(plain) == plain


def test_long_messages_are_cut(stream: io.StringIO) -> None:
    configure_logging("INFO", "text", stream)
    logging.getLogger("interbed.x").info("hello %s", "x" * 1_000_000)
    assert len(stream.getvalue()) < 5_000
    assert "(1000006 characters)" in stream.getvalue()
