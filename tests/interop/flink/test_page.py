"""docs/flink.md is correct, in Flink and, for catalogs, in Spark."""

import shlex
from typing import Any

import pytest
from click.testing import CliRunner

import interbed
from interbed.cli import main
from tests.interop.flink.conftest import KINDS, Server, read, streamed, types_of
from tests.support.pages import Page
from tests.support.peers.flink import Flink, FlinkSession

PAGE = Page("flink.md")
URI = "thrift://127.0.0.1:9083"
WAREHOUSE = "file:/tmp/lake"


def execute(session: FlinkSession, statement: str) -> list[list[Any]]:
    """Return the rows of a statement; a streaming INSERT has ended by then."""
    if statement.startswith("INSERT"):
        session.submit(statement).wait()
        return []
    return session.sql(statement).rows


@pytest.mark.long
def test_statements_and_commands_do_what_the_page_says(flink: Flink, server: Server) -> None:
    def here(text: str) -> str:
        return text.replace(URI, server.uri).replace(WAREHOUSE, f"file:{server.warehouse}")

    options = {"metastore": "hive", "uri": server.uri, "warehouse": f"file:{server.warehouse}"}
    with flink.session() as session, interbed.CatalogFactory.create(options) as catalog:
        assert PAGE.run_sql(lambda statement: execute(session, here(statement))) == 11
        assert PAGE.check_commands() == 1
        program, *arguments = shlex.split(here(PAGE.blocks("sh")[0]))
        done = CliRunner().invoke(main, arguments)
        assert (program, done.exit_code) == ("interbed", 0), done.output
        table = catalog.get_table("shop.orders")
        assert isinstance(table, interbed.Table)
        assert table.snapshots()[-1].commit_kind == "COMPACT"
        # The compaction produced the changelog.
        assert {kind for kind, _ in streamed(table, {"scan.snapshot-id": "1"})} <= set(KINDS)
        session.sql("SET 'execution.runtime-mode' = 'batch'")
        assert session.sql("SELECT * FROM orders").comparable() == read(table).comparable()
        assert len(types_of(table)) == 3
        catalog.drop_database("shop", cascade=True)
