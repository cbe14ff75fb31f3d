"""The ten lines of the README that make a server safe: they are those of docs/access.md, and they do what they say."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from thrift.Thrift import TApplicationException

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.auth.test_authenticated_server import asked, bearer, thrift_over_http
from tests.catalog.server.migration.commands import run
from tests.support.servers.metastore import metastore_under_test, plain_client, table

ROOT = Path(__file__).resolve().parents[4]
README, ACCESS = ROOT / "README.md", ROOT / "docs" / "access.md"

SERVER = "interbed server --config server.toml"


def ten_lines(page: Path) -> tuple[str, list[str]]:
    """Return the settings and the commands of a page."""
    blocks = re.findall(r"^```(toml|sh|shell)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for (kind, settings), (_, commands) in pairwise(blocks):
        if kind == "toml" and "access_authorizer" in settings and SERVER in commands:
            return settings, commands.splitlines()
    raise AssertionError(f"{page.name} has no such lines")


def test_the_pages_have_the_same_ten_lines() -> None:
    settings, commands = ten_lines(README)
    assert ten_lines(ACCESS) == (settings, commands)
    assert len([line for line in settings.splitlines() if not line.startswith("#")]) + len(commands) == 10


def test_a_server_of_these_lines_is_safe(tmp_path: Path) -> None:
    settings, (first, *commands) = ten_lines(README)
    assert first == SERVER
    (tmp_path / "server.toml").write_text(settings)
    db = f"sqlite:///{tmp_path / 'metastore.db'}"
    config = ("--config", str(tmp_path / "server.toml"), "--http-port", "0")
    with metastore_under_test(db, tmp_path, *config) as server:
        tokens: dict[str, str] = {}
        for line in commands:
            interbed, group, *words = shlex.split(line)
            assert (interbed, group) == ("interbed", "metastore")
            if words[0] == "grant":
                with thrift_over_http(server, bearer(tokens["root"])) as root:
                    for database in ("shop", "hr"):
                        root.create_database(ttypes.Database(name=database))
                        root.create_table(table(database, "orders"))
            shown = run(*words, "--db", db).strip()
            if words[:2] == ["token", "create"]:
                tokens[words[2]] = shown
        tokens["eve"] = run("token", "create", "eve", "--db", db).strip()
        for path in (
            "/iceberg/v1/config",
            "/paimon/v1/config?warehouse=hive",
            "/interbed/v1/access/roles",
            "/metastore",
        ):
            assert asked(server, path, None)[0] == 401
        with plain_client(server.port) as stranger, pytest.raises(TApplicationException, match="not authenticated"):
            stranger.get_all_databases()
        with thrift_over_http(server, bearer(tokens["ann"])) as ann:
            assert ann.get_table("shop", "orders").tableName == "orders"
            assert "hr" not in ann.get_all_databases()
            with pytest.raises(ttypes.NoSuchObjectException):
                ann.get_table("hr", "orders")
            with pytest.raises(
                (ttypes.MetaException, ttypes.InvalidOperationException), match="lacks the privilege DROP"
            ):
                ann.drop_table("shop", "orders", True)
        with thrift_over_http(server, bearer(tokens["eve"])) as eve:
            assert eve.get_all_databases() == ["default"]
