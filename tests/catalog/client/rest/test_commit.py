"""Commits through a REST server: lost races, and outcomes that are settled by the content of the snapshot's file."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.rest import through_server
from interbed.catalog.client.rest.catalog import RestCatalog
from interbed.storage.base.errors import CommitConflictError, CommitError, CommitStateUnknownError
from tests.catalog.client.rest.answering_server import CLOSE, ChosenAnswer, ReceivedRequest, answering_server
from tests.support.servers.paimon_rest import PaimonRestServers, rest_options
from tests.support.waits import at_most

ROWS = pa.table({"id": [1, 2]})


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commits make their pauses at once."""
    monkeypatch.setattr(through_server, "BACKOFF", replace(through_server.BACKOFF, sleep=lambda seconds: None))


Altered = Callable[[ReceivedRequest, Callable[[], ChosenAnswer]], "ChosenAnswer | str"]


@contextmanager
def between(url: str, altered: Altered) -> Iterator[RestCatalog]:
    """Open a catalog through a proxy, which answers a commit as `altered` says; its argument asks the server."""

    def answers(asked: ReceivedRequest) -> "ChosenAnswer | str":
        def forwarded() -> ChosenAnswer:
            return _forwarded(url, asked)

        return altered(asked, forwarded) if asked.path.endswith("/commit") else forwarded()

    with answering_server(answers) as (proxy, _), interbed.load_catalog("lake", **rest_options(proxy)) as catalog:
        assert isinstance(catalog, RestCatalog)
        yield catalog


def _forwarded(url: str, asked: ReceivedRequest) -> ChosenAnswer:
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=at_most(30.0))
    headers = {k: v for k, v in asked.headers.items() if k.lower() not in ("host", "content-length")}
    connection.request(asked.method, asked.path, asked.body or None, headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return ChosenAnswer(response.status, body)


def data_files(directory: Path) -> int:
    """Return the number of data files of a table."""
    return len(list(directory.rglob("data-*.parquet")))


def test_a_lost_race_is_committed_on_the_newer_snapshot(catalog: RestCatalog) -> None:
    table = catalog.create_table("shop.t", ROWS.schema)
    other = catalog.get_table("shop.t")
    for _ in range(3):
        table.append(ROWS)
        other.append(ROWS)
    assert table.scan().count() == 12
    assert table.latest_snapshot().id == 6  # type: ignore[union-attr]


def test_a_commit_that_another_one_overtakes_is_tried_again(url: str, catalog: RestCatalog) -> None:
    catalog.create_table("shop.t", ROWS.schema)
    overtaken: list[str] = []

    def altered(asked: ReceivedRequest, forwarded: Callable[[], ChosenAnswer]) -> ChosenAnswer:
        if not overtaken:
            overtaken.append("once")
            catalog.get_table("shop.t").append(ROWS)
        answer = forwarded()
        overtaken.append(answer.body.decode())
        return answer

    with between(url, altered) as slow:
        slow.get_table("shop.t").append(ROWS)
    assert overtaken == ["once", '{"success":false}', '{"success":true}']
    assert catalog.get_table("shop.t").scan().count() == 4


def test_an_answer_that_is_lost_after_the_commit_is_settled_by_the_snapshot(
    url: str, catalog: RestCatalog, tmp_path: Path
) -> None:
    catalog.create_table("shop.t", ROWS.schema)

    def altered(asked: ReceivedRequest, forwarded: Callable[[], ChosenAnswer]) -> str:
        forwarded()
        return CLOSE

    with between(url, altered) as broken:
        table = broken.get_table("shop.t")
        assert table.append(ROWS) == 1
        assert table.append(ROWS) == 2
    assert catalog.get_table("shop.t").scan().count() == 4
    assert data_files(tmp_path / "lake") == 2


def test_a_request_that_is_lost_before_the_commit_is_sent_again(url: str, catalog: RestCatalog) -> None:
    catalog.create_table("shop.t", ROWS.schema)
    sent: list[str] = []

    def altered(asked: ReceivedRequest, forwarded: Callable[[], ChosenAnswer]) -> "ChosenAnswer | str":
        sent.append(json.loads(asked.body)["snapshot"]["uuid"])
        return CLOSE if len(sent) == 1 else forwarded()

    with between(url, altered) as broken:
        assert broken.get_table("shop.t").append(ROWS) == 1
    assert len(sent) == 2
    assert len(set(sent)) == 1


def test_a_race_that_is_lost_after_a_lost_request_is_not_a_success(url: str, catalog: RestCatalog) -> None:
    catalog.create_table("shop.t", ROWS.schema)
    sent: list[int] = []

    def altered(asked: ReceivedRequest, forwarded: Callable[[], ChosenAnswer]) -> "ChosenAnswer | str":
        sent.append(json.loads(asked.body)["snapshot"]["id"])
        if len(sent) == 1:
            catalog.get_table("shop.t").append(ROWS)
            return CLOSE
        return forwarded()

    with between(url, altered) as broken:
        assert broken.get_table("shop.t").append(ROWS) == 2
    assert sent == [1, 2]
    assert catalog.get_table("shop.t").scan().count() == 4


def test_files_stay_while_the_outcome_is_unknown(url: str, catalog: RestCatalog, tmp_path: Path) -> None:
    catalog.create_table("shop.t", ROWS.schema)
    with between(url, lambda asked, forwarded: CLOSE) as broken:
        table = broken.get_table("shop.t")
        with pytest.raises(CommitStateUnknownError, match=r"not known whether snapshot 1 of 'shop\.t' was created"):
            table.append(ROWS)
    assert data_files(tmp_path / "lake") == 1
    assert len(list((tmp_path / "lake").rglob("manifest-list-*"))) >= 1


@pytest.mark.parametrize("status", [400, 403, 501])
def test_files_of_a_refused_commit_are_deleted(url: str, catalog: RestCatalog, tmp_path: Path, status: int) -> None:
    catalog.create_table("shop.t", ROWS.schema)
    with between(url, lambda asked, forwarded: ChosenAnswer(status, b'{"message": "no"}')) as refused:
        table = refused.get_table("shop.t")
        with pytest.raises(interbed.InterbedError, match=f"answers {status}") as caught:
            table.append(ROWS)
    assert not isinstance(caught.value, CommitStateUnknownError)
    assert data_files(tmp_path / "lake") == 0


def test_a_server_that_fails_after_it_has_committed_is_no_failure(
    servers: PaimonRestServers, catalog: RestCatalog
) -> None:
    table = catalog.create_table("shop.t", ROWS.schema)
    with servers.failing_after_commits():
        for _ in range(3):
            table.append(ROWS)
    table.append(ROWS)
    assert catalog.get_table("shop.t").scan().count() == 8


def test_a_table_that_was_recreated_gets_no_rows_of_the_old_one(catalog: RestCatalog) -> None:
    old = catalog.create_table("shop.t", ROWS.schema)
    old.append(ROWS)
    catalog.drop_table("shop.t")
    with pytest.raises((CommitConflictError, CommitError)):
        old.append(ROWS)
    catalog.create_table("shop.t", ROWS.schema)
    with pytest.raises((CommitConflictError, CommitError)):
        old.append(ROWS)
    assert catalog.get_table("shop.t").scan().count() == 0
