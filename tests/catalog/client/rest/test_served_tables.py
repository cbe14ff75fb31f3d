"""Tables whose rows the server reads for interbed's REST client: each way to read shows what the policies show."""

import inspect
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from interbed.catalog.client.cli.forms.duckdb_sources import CatalogTables
from interbed.catalog.client.errors import CatalogAccessError, CatalogUnavailableError
from interbed.catalog.client.rest.through_server import ServedTable
from interbed.catalog.server.rest.rows.streams import CHECK_SECONDS
from interbed.cli import main
from interbed.storage.base.errors import (
    BranchNotFoundError,
    FilterError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
    TagNotFoundError,
)
from interbed.storage.base.predicate.conditions import col
from interbed.storage.table.guarded_table import GuardedTable
from interbed.storage.table.table import Table
from interbed.storage.views.system.table import SYSTEM_TABLES
from tests.catalog.client.rest.test_guarded_tables import WAYS
from tests.catalog.server.rest.rows.served_rows import ROWS, SHOWN, RowsServer, rows_server
from tests.support.waits import wait_until

OPTION = {"read.rows-from": "server"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RowsServer]:
    """Run a server with a table, a table with a key, and a tag and a branch."""
    with rows_server(tmp_path_factory.mktemp("served")) as made:
        with made.catalog("root") as catalog:
            schema = pa.schema([ROWS.schema.field(0).with_nullable(False), *list(ROWS.schema)[1:]])
            keyed = catalog.create_table("sales.keyed", schema, primary_keys=["id"], options={"bucket": "1"})
            keyed.upsert(ROWS)
            versions = catalog.get_table("sales.lake").versions
            versions.create_tag("first", 1)
            versions.create_branch("side", "first")
            for user in ("ann", "bea"):
                catalog.grant("SELECT", on="table sales.keyed", to=f"user {user}")
            catalog.set_row_filter("sales.keyed", "id > 2", to=["user ann"])
        wait_until(lambda: made.rows("bea", {"limit": 0}, "keyed").status == 200)
        wait_until(lambda: made.rows("clerk", {"columns": ["id"]}).status == 200)
        yield made


def _opened(server: RowsServer, user: str = "ann", name: str = "sales.lake", **options: str) -> Any:
    with server.catalog(user, **{**OPTION, **options}) as catalog:
        return catalog.get_table(name)


def _rows(table: Any) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("way", [way for way in WAYS if way != "options"])
def test_each_way_to_read_shows_the_rows_and_values_of_the_policies(server: RowsServer, way: str) -> None:
    table = _opened(server)
    assert isinstance(table, ServedTable)
    assert _rows(WAYS[way](table)) == SHOWN


def test_readers_without_policies_get_all_rows_from_the_server(server: RowsServer) -> None:
    assert _rows(_opened(server, "bea").to_arrow()) == ROWS.to_pylist()


def test_the_files_are_read_where_the_client_has_keys_and_by_default(server: RowsServer) -> None:
    for source in ("auto", "files"):
        with server.catalog("ann", **{"read.rows-from": source}) as catalog:
            table: object = catalog.get_table("sales.lake")
            assert isinstance(table, GuardedTable)
            assert _rows(table.to_arrow()) == SHOWN


def test_conditions_columns_and_limits_are_those_of_the_server(server: RowsServer) -> None:
    table = _opened(server)
    assert table.scan(["id"], "phone = '33'").to_arrow().num_rows == 0
    assert table.scan(["id"], "phone = '*Ulm'").to_arrow().to_pylist() == [{"id": 5}]
    assert table.scan(["id"], (col("phone") == "*Ulm") & (col("id") < 9)).to_arrow().to_pylist() == [{"id": 5}]
    assert table.scan(["phone", "id"], limit=1).to_arrow().column_names == ["phone", "id"]
    assert table.scan(limit=2).to_arrow().num_rows == table.scan(limit=2).count() == 2
    assert table.count() == table.scan([]).count() == 3
    assert table.scan(["id"]).schema == pa.schema([ROWS.schema.field("id")])
    for columns, condition, error in (
        (["none"], None, InvalidInputError),
        (["id", "id"], None, InvalidInputError),
        (None, "none = 1", FilterError),
    ):
        with pytest.raises(error):
            table.scan(columns, condition)


def test_engines_push_columns_and_conditions_to_the_server(server: RowsServer) -> None:
    table = _opened(server)
    assert table.to_duckdb().filter("phone = '66' OR phone = '*Ulm'").project("id").fetchall() == [(5,)]
    assert table.to_duckdb().aggregate("count(*)").fetchall() == [(3,)]
    polars = pytest.importorskip("polars")
    found = (
        table.scan(filter="id < 6").to_polars(lazy=True).filter(polars.col("phone") == "*Ulm").select("id").collect()
    )
    assert found.rows() == [(5,)]


def test_older_versions_tags_and_branches(server: RowsServer) -> None:
    table = _opened(server)
    assert _rows(table.scan(snapshot_id=1).to_arrow()) == SHOWN[:1]
    assert table.scan(snapshot_id=1).schema == ROWS.schema
    assert _rows(table.copy({"scan.tag-name": "first"}).to_arrow()) == SHOWN[:1]
    assert table.copy({"scan.tag-name": "first"}).to_duckdb().filter("id > 3").fetchall() == []
    assert _rows(table.copy({"scan.timestamp-millis": "4102444800000"}).to_arrow()) == SHOWN
    assert _rows(table.branch("side").to_arrow()) == SHOWN[:1]
    assert _rows(_opened(server, name="sales.lake$branch_side").to_arrow()) == SHOWN[:1]
    cases: Sequence[tuple[Callable[[], object], type[Exception]]] = (
        (lambda: table.scan(snapshot_id=77).to_arrow(), SnapshotNotFoundError),
        (lambda: table.copy({"scan.tag-name": "none"}).to_arrow(), TagNotFoundError),
        (lambda: table.branch("none").to_arrow(), BranchNotFoundError),
        (lambda: table.copy({"scan.timestamp-millis": "soon"}), InvalidInputError),
        (lambda: table.copy({"scan.mode": "latest"}), NotSupportedError),
    )
    for read, error in cases:
        with pytest.raises(error):
            read()


def test_lookups_by_key(server: RowsServer) -> None:
    table = _opened(server, name="sales.keyed")
    assert table.get(3) == {"id": 3, "city": "Bonn", "phone": "33"}
    assert table.get({"id": 3}, ["phone"]) == {"phone": "33"}
    assert table.get(1) is None
    with pytest.raises(NotSupportedError, match="no primary key"):
        _opened(server).get(3)


def test_readers_of_some_columns_are_refused_others_by_name(server: RowsServer) -> None:
    table = _opened(server, "clerk")
    assert table.scan(["id", "city"], "id < 2").to_arrow().to_pylist() == [{"id": 1, "city": "Bonn"}]
    assert table.count() == 6
    with pytest.raises(CatalogAccessError, match="on the column phone of the table"):
        table.to_arrow()


READS = frozenset(
    (
        *("name", "schema", "options", "fields", "field_names", "arrow_schema", "primary_keys", "partition_keys"),
        *("copy", "branch", "refused", "open", "scan", "get", "count"),
        *("to_arrow", "to_pandas", "to_polars", "to_duckdb"),
    )
)
"""Members that the server answers; the others of a table are refused."""


def test_no_further_member_of_a_table_is_answered_by_the_server() -> None:
    assert {name for name in dir(ServedTable) if not name.startswith("_")} == READS


def test_every_other_member_and_system_table_is_refused_by_name(server: RowsServer) -> None:
    table = _opened(server)
    members = {"store", *(name for name, _ in inspect.getmembers(Table) if not name.startswith("_"))} - READS
    for name in members:
        with pytest.raises(NotSupportedError, match=f"'{name}' needs the files of the table 'sales.lake'"):
            getattr(table, name)
    for kind in (*SYSTEM_TABLES, "audit_log", "binlog", "ro"):
        with pytest.raises(NotSupportedError, match=rf"'\${kind}' needs the files"):
            _opened(server, name=f"sales.lake${kind}")


def test_queries_in_sql(server: RowsServer) -> None:
    duckdb = pytest.importorskip("duckdb")
    with server.catalog("ann", **OPTION) as catalog:
        tables = CatalogTables(catalog, duckdb.connect())
        query = "SELECT id, phone FROM sales.lake WHERE phone <> '*Ulm' ORDER BY id"
        tables.define(query)
        assert tables.connection.execute(query).fetchall() == [(3, "*Bonn"), (6, "*Bonn")]


def test_commands_show_rows(server: RowsServer) -> None:
    options = {
        **OPTION,
        "metastore": "rest",
        "uri": f"{server.running.http}/paimon",
        "warehouse": "hive",
        "token.provider": "bear",
        "token": server.tokens["ann"],
    }
    given = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]

    def run(*arguments: str) -> str:
        found = CliRunner().invoke(main, [*arguments[:2], *given, *arguments[2:]], catch_exceptions=False)
        assert found.exit_code == 0, found.output
        return found.output

    lines = run("table", "scan", "sales.lake", "--format", "json").splitlines()
    assert sorted((json.loads(line) for line in lines), key=lambda row: row["id"]) == SHOWN
    assert "*Bonn" in run("table", "head", "sales.lake")


# -- streams that are cut ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide(server: RowsServer) -> None:
    """Create a table that is larger than what sockets buffer."""
    count, width = 200_000, 500
    text = np.random.default_rng(1).integers(97, 122, count * width, dtype=np.uint8).tobytes().decode()
    rows = pa.table({"id": range(count), "text": [text[start : start + width] for start in range(0, len(text), width)]})
    with server.catalog("root") as catalog:
        catalog.create_table("sales.wide", rows.schema).append(rows)
        catalog.grant("SELECT", on="table sales.wide", to="user ann")
    wait_until(lambda: server.rows("ann", {"limit": 0}, "wide").status == 200)


@pytest.mark.usefixtures("wide")
def test_a_cut_stream_raises_its_reason_and_no_shorter_result(server: RowsServer) -> None:
    reader = _opened(server, name="sales.wide").scan().to_arrow_batch_reader()
    assert reader.read_next_batch().num_rows
    read_at = time.monotonic()
    server.command("revoke", "SELECT", "on", "table", "sales.wide", "from", "user", "ann")
    try:
        wait_until(lambda: server.rows("ann", {"limit": 0}, "wide").status == 404)
        # A stream is checked again after CHECK_SECONDS.
        wait_until(lambda: time.monotonic() - read_at > 2 * CHECK_SECONDS)
        with pytest.raises(CatalogUnavailableError, match="ended before their end: ann lacks the privilege SELECT"):
            reader.read_all()
    finally:
        server.command("grant", "SELECT", "on", "table", "sales.wide", "to", "user", "ann")
        wait_until(lambda: server.rows("ann", {"limit": 0}, "wide").status == 200)


@pytest.mark.usefixtures("wide")
def test_a_reader_that_stops_early_ends_the_stream(server: RowsServer) -> None:
    table = _opened(server, name="sales.wide")
    reader = table.scan().to_arrow_batch_reader()
    assert reader.read_next_batch().num_rows
    reader.close()
    del reader
    assert table.scan(["id"]).to_duckdb().limit(1).fetchall()
    wait_until(lambda: server.figure("interbed_row_streams ") == 0)


Cut = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    "cut",
    [
        lambda body: body[:-8],
        lambda body: body[:-4],
        lambda body: body[: len(body) // 2],
        lambda body: b"",
        lambda body: b"<html>",
    ],
    ids=["mark", "half of the mark", "half", "all", "another"],
)
def test_a_body_that_a_proxy_ends_early_is_not_taken_for_a_result(
    server: RowsServer, cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = cut(server.rows("ann").body)

    class _EndedResponse:
        left = body

        def read1(self, size: int) -> bytes:
            part, self.left = self.left[:size], self.left[size:]
            return part

        def close(self) -> None:
            """Close nothing at all."""

    from interbed.catalog.client.rest.client import RestRows
    from interbed.catalog.client.rest.http import StreamedBody

    fake: Any = _EndedResponse()
    monkeypatch.setattr(RestRows, "open", lambda *_: StreamedBody("http://here", fake, fake))
    with pytest.raises(CatalogUnavailableError, match="ended before their end"):
        _opened(server).to_arrow()
