"""Data tokens: keys of an object store that the server of a REST catalog hands out for each table, for a time."""

import logging
import pickle
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import CatalogUnavailableError
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.rest.catalog import RestCatalog
from interbed.catalog.client.rest.data_tokens import (
    RENEWED_BEFORE_MILLIS,
    DataToken,
    DataTokens,
    TableTokens,
    origin_of,
)
from interbed.storage.base.clock import now_millis
from interbed.storage.base.errors import CorruptFileError, InvalidOptionError, StorageAccessError
from interbed.storage.io.local import LocalFileIO
from tests.support.servers.http_servers import running_s3
from tests.support.servers.paimon_rest import PaimonRestServers, rest_options
from tests.support.servers.store_proxy import Fault, Request, StoreProxy

ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})
HOUR = 3_600_000
_KEY = re.compile(r"Credential=([^/]+)/")


@dataclass
class KeyedStore:
    """Object store that accepts one key, and notes the keys of all requests."""

    accepted: str
    seen: list[str]

    def __call__(self, request: Request) -> Fault | None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        found = _KEY.search(headers.get("authorization", ""))
        key = "" if found is None else found[1]
        self.seen.append(key)
        return None if key == self.accepted else Fault(kind="answer", status=403, body=b"<Error/>")


@pytest.fixture(scope="module")
def store() -> Iterator[StoreProxy]:
    """Run an object store."""
    with running_s3("lake") as options, StoreProxy.before(options) as proxy:
        yield proxy


@pytest.fixture
def keys(store: StoreProxy) -> Iterator[KeyedStore]:
    """Let the store accept only the key `key-1`."""
    store.fault = keys = KeyedStore("key-1", [])
    yield keys
    store.fault = None


@pytest.fixture
def tokens_url(servers: PaimonRestServers, tmp_path: Path) -> Iterator[str]:
    """Run a server that hands out data tokens."""
    with servers.server(tmp_path / "lake", defaults={"data-token.enabled": "true"}) as address:
        yield address


@pytest.fixture
def catalog(tokens_url: str) -> Iterator[RestCatalog]:
    """Open a catalog without keys, with the database `shop`."""
    with interbed.load_catalog("lake", **rest_options(tokens_url)) as opened:
        assert isinstance(opened, RestCatalog)
        opened.create_database("shop")
        yield opened


def token_options(store: StoreProxy, number: int) -> dict[str, str]:
    """Return the options of a token, in the names of Paimon."""
    names = {"s3.access-key": f"key-{number}", "s3.secret-key": f"secret-{number}"}
    return {"s3.endpoint": store.options["s3.endpoint"], "s3.region": "us-east-1", **names}


def test_a_table_is_created_written_read_and_dropped_with_the_keys_of_its_token(
    servers: PaimonRestServers, tokens_url: str, catalog: RestCatalog, store: StoreProxy, keys: KeyedStore
) -> None:
    servers.set_token(tokens_url, "shop.t", token_options(store, 1), now_millis() + 10 * HOUR)
    table = catalog.create_table("shop.t", ROWS.schema, options={"path": "s3://lake/elsewhere/t"})
    table.append(ROWS)
    catalog.get_table("shop.t").append(ROWS)
    assert catalog.get_table("shop.t").scan().to_arrow()["id"].to_pylist() == [1, 2, 1, 2]
    assert catalog.get_table("shop.t$snapshots").scan().to_arrow().num_rows == 2
    servers.set_token(tokens_url, "shop.u", token_options(store, 1), now_millis() + 10 * HOUR)
    with pytest.raises(InvalidOptionError, match="which is not the requested schema"):
        catalog.create_table("shop.u", pa.schema([("x", pa.int32())]), options={"path": "s3://lake/elsewhere/t"})
    assert catalog.list_tables("shop") == ["t"]
    catalog.drop_table("shop.t")
    assert set(keys.seen) == {"key-1"}


def test_a_scan_survives_the_expiry_of_its_token(
    servers: PaimonRestServers, tokens_url: str, catalog: RestCatalog, store: StoreProxy, keys: KeyedStore
) -> None:
    servers.set_token(tokens_url, "shop.t", token_options(store, 1), now_millis() + 10 * HOUR)
    path = {"path": f"s3://lake/{tokens_url.rpartition(':')[2].strip('/')}/t", "bucket": "-1"}
    table = catalog.create_table("shop.t", ROWS.schema, options=path)
    for _ in range(3):
        table.append(ROWS)
    origin = origin_of(table.store.file_io)
    assert origin is not None
    clock = [now_millis()]
    tokens = DataTokens(catalog.client, catalog.options, clock=lambda: clock[0])
    files, _ = tokens.file_io(origin.identifier, origin.table_id, origin.path)
    name = next(e.path for e in files.list(f"{origin.path}/bucket-0") if e.name.endswith(".parquet"))
    content = files.read_bytes(name)
    opened = files.open_input(name)
    # The store no longer accepts the first key, and the server hands out another one.
    keys.accepted = "key-2"
    servers.set_token(tokens_url, "shop.t", token_options(store, 2), clock[0] + 20 * HOUR)
    clock[0] += 9 * HOUR + 1000
    with opened:
        assert opened.read() == content
    assert files.read_bytes(name) == content
    assert keys.seen[-1] == "key-2"


def test_the_readers_of_a_process_share_a_token_and_a_pickle_has_none(
    servers: PaimonRestServers,
    tokens_url: str,
    catalog: RestCatalog,
    store: StoreProxy,
    keys: KeyedStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers.set_token(tokens_url, "shop.t", token_options(store, 1), now_millis() + 10 * HOUR)
    asked: list[str] = []
    fetch = catalog.client.table_token

    def counted(identifier: Identifier) -> dict[str, Any]:
        asked.append(str(identifier))
        return fetch(identifier)

    monkeypatch.setattr(catalog.client, "table_token", counted)
    catalog.create_table("shop.t", ROWS.schema, options={"path": "s3://lake/shared/t"}).append(ROWS)
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda _: catalog.get_table("shop.t").scan().count(), range(8)))
    assert counts == [2] * 8
    assert asked == ["shop.t"]
    table = catalog.get_table("shop.t")
    pickled = pickle.dumps(table.store.read_only())
    assert b"secret-1" not in pickled
    assert "secret-1" not in repr(table.store)
    assert pickle.loads(pickled).snapshots.latest_id() == 1


def test_a_refused_key_is_not_shown(
    servers: PaimonRestServers, tokens_url: str, catalog: RestCatalog, store: StoreProxy, keys: KeyedStore
) -> None:
    servers.set_token(tokens_url, "shop.t", token_options(store, 3), now_millis() + 10 * HOUR)
    with pytest.raises(StorageAccessError) as caught:
        catalog.create_table("shop.t", ROWS.schema, options={"path": "s3://lake/refused/t"})
    assert "secret-3" not in str(caught.value)
    assert catalog.list_tables("shop") == []


def test_files_on_a_local_disk_need_no_token(catalog: RestCatalog, tmp_path: Path) -> None:
    # The reference server gives all local files a scheme of its own, so that only the choice is tested.
    files, location = DataTokens(catalog.client, catalog.options).file_io(Identifier("d", "t"), "1", f"file:{tmp_path}")
    assert isinstance(files, LocalFileIO)
    assert location == str(tmp_path)


# -- renewal -----------------------------------------------------------------------------------------------------------


class TokenServer:
    """Server of tokens with a clock."""

    def __init__(self, lifetime_millis: int) -> None:
        self.now = 1_000_000
        self.lifetime_millis = lifetime_millis
        self.calls = 0
        self.error: Exception | None = None
        self.tokens = TableTokens(self._fetch, "shop.t", lambda: self.now)

    def _fetch(self) -> DataToken:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return DataToken(options={"n": str(self.calls)}, expires_millis=self.now + self.lifetime_millis)

    def number(self) -> int:
        """Return the number of the token that is used now."""
        return int(self.tokens.valid().options["n"])


def test_a_token_is_renewed_an_hour_before_it_expires_or_after_half_of_its_time() -> None:
    for lifetime, renewed_after in ((10 * HOUR, 10 * HOUR - RENEWED_BEFORE_MILLIS), (HOUR, HOUR // 2)):
        server = TokenServer(lifetime)
        assert server.number() == 1
        server.now += renewed_after - 1
        assert server.number() == 1
        server.now += 1
        assert server.number() == 2
        assert server.calls == 2


def test_one_of_many_threads_renews_a_token() -> None:
    server = TokenServer(10 * HOUR)
    barrier = threading.Barrier(8)

    def use(_: int) -> int:
        barrier.wait()
        return server.number()

    for number in (1, 2):
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(use, range(8))) == {number}
        server.now += 10 * HOUR
    assert server.calls == 2


def test_a_valid_token_is_used_while_the_server_can_not_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    server = TokenServer(10 * HOUR)
    assert server.number() == 1
    server.error = CatalogUnavailableError("it is down")
    server.now += 9 * HOUR + 1
    with caplog.at_level(logging.WARNING):
        assert [server.number(), server.number()] == [1, 1]
    # The next attempt follows after a pause.
    assert server.calls == 2
    assert "was not renewed, and is still valid: it is down" in caplog.text
    server.now += HOUR
    with pytest.raises(CatalogUnavailableError):
        server.number()
    server.error = None
    assert server.number() == 4


@pytest.mark.parametrize("answer", [None, {}, {"token": {"s3.secret-key": "hush"}}, {"token": "hush"}])
def test_a_response_without_a_token_is_refused_without_being_shown(answer: Any) -> None:
    with pytest.raises(CorruptFileError, match="The answer has no valid token") as caught:
        DataToken.from_json(answer, source="The answer")
    assert "hush" not in str(caught.value)
    assert "hush" not in repr(DataToken(options={"s3.secret-key": "hush"}, expires_millis=1))
