"""Hostile names passed to commands and to a metastore are refused with clear errors, and nothing is
created elsewhere.
"""

import copy
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.cli import main
from interbed.storage.base.errors import InterbedError
from interbed.testing import metastore
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.hostile_names import NAMES, TABLES
from tests.support.sentinel import Sentinel
from tests.support.shares import LONG
from tests.support.tally import Tally

pytestmark = pytest.mark.longer

# Arguments of a program contain no NUL and no lone surrogate, and an argument that begins with a dash is an option.
GIVEN = [name for name in TABLES if "\x00" not in name and name.isprintable() and not name.startswith("-")]
LESS = 1 if LONG else 8
ROWS = pa.table({"id": [1]})

COMMANDS = (
    "table create d.{} --column id:BIGINT",
    "table drop d.{} --yes",
    "table rename d.ok d.{}",
    "table rename d.{} d.other",
    "table head d.{}",
    "table schema d.{}",
    "table describe d.{}",
    "table snapshots d.{}",
    "table compact d.{}",
    "table fsck d.{}",
    "table expire-snapshots d.{}",
    "table remove-orphan-files d.{}",
    "table purge d.{} --yes",
    "table create-tag d.ok {}",
    "table delete-tag d.ok {}",
    "table create-branch d.ok {}",
    "table delete-branch d.ok {}",
    "table fast-forward d.ok {}",
    "table reset-consumer d.ok {} 1",
    "catalog create-database {}",
    "catalog drop-database {} --cascade",
    "table list {}",
)


def run(warehouse: Path, command: str, name: str) -> Result:
    group, *arguments = [part.replace("{}", name) for part in command.split(" ")]
    return CliRunner().invoke(main, [group, "-o", f"warehouse={warehouse}", *arguments])


def test_every_command_refuses_every_hostile_name(tmp_path: Path, tally: Tally) -> None:
    sentinel = Sentinel.made_in(tmp_path)
    with interbed.load_catalog("lake", warehouse=str(sentinel.warehouse)) as catalog:
        catalog.create_database("d")
        catalog.create_table("d.ok", ROWS.schema).append(ROWS)
    outside, inside = sentinel.outside(), sentinel.inside()
    tried = 0
    for number, command in enumerate(COMMANDS):
        for name in islice(cycle(GIVEN), number, number + len(GIVEN), LESS):
            if name in (".hidden", "a.b") or "$" in name:
                # Names of databases, tags and branches may contain dots and dollar signs.
                continue
            result = run(sentinel.warehouse, command, name)
            assert result.exit_code != 0, (command, name, result.output)
            assert isinstance(result.exception, SystemExit), (command, name, result.exception)
            assert "Traceback" not in result.output
            tried += 1
    assert sentinel.outside() == outside
    assert sentinel.inside().keys() - inside.keys() == set()
    assert sentinel.inside() == inside
    tally("hostile names given to commands", tried)


def test_a_metastore_refuses_every_hostile_name(tmp_path: Path, tally: Tally) -> None:
    sentinel = Sentinel.made_in(tmp_path)
    with metastore(warehouse=f"file:{sentinel.warehouse}") as uri:
        options = {"warehouse": str(sentinel.warehouse), "metastore": "hive", "uri": uri}
        with interbed.load_catalog("lake", **options) as catalog:
            assert isinstance(catalog, HiveCatalog)
            catalog.create_database("d")
            catalog.create_table("d.ok", ROWS.schema).append(ROWS)
            entry = catalog.client.get_table("d", "ok")
            outside, inside = sentinel.outside(), sentinel.inside()
            # A metastore ignores blanks around a name, as Hive's does.
            names = [name for name in NAMES if name.isprintable() and not name.strip().isalnum()][:: LESS // 2 or 1]
            for name in names:
                for call in _calls(catalog, entry, name):
                    with pytest.raises((InterbedError, CatalogError)):
                        call()
            assert (sentinel.outside(), sentinel.inside()) == (outside, inside)
            assert catalog.list_databases() == ["d", "default"]
            assert catalog.list_tables("d") == ["ok"]
            tally("hostile names given to a metastore", 4 * len(names))


def _calls(catalog: HiveCatalog, entry: ttypes.Table, name: str) -> list[Callable[[], object]]:
    client = catalog.client
    named = copy.copy(entry)
    named.tableName = name
    return [
        partial(client.create_database, ttypes.Database(name=name)),
        partial(client.create_table, named),
        partial(client.alter_table, "d", "ok", named),
        partial(catalog.drop_database, name, cascade=True),
    ]
