"""Hostile names passed to commands and to a metastore are refused with clear errors, and nothing is
created elsewhere.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.cli import main
from interbed.storage.base.errors import InterbedError
from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.hostile_names import NAMES, TABLES
from tests.support.sentinel import Sentinel
from tests.support.servers.metastore import metastore
from tests.support.shares import LONG
from tests.support.tally import Tally

pytestmark = pytest.mark.longer

# Arguments of a program contain no NUL and no lone surrogate, and an argument that begins with a dash is an option.
GIVEN = [name for name in TABLES if "\x00" not in name and name.isprintable() and not name.startswith("-")]
LESS = 1 if LONG else 8
ROWS = pa.table({"id": [1]})

COMMANDS = (
    "catalog create-database {}",
    "catalog drop-database {} --cascade",
    "catalog functions alter d.{} --comment c",
    "catalog functions create d.{} --sql 1",
    "catalog functions drop d.{}",
    "catalog functions list {}",
    "catalog functions show d.{}",
    "catalog purge d.{}",
    "catalog repair d.{}",
    "catalog undrop d.{}",
    "compact d.{}",
    "table add-column d.{} c INT --compute id",
    "table alter d.{} --set bucket=1",
    "table branches d.{}",
    "table changes d.{}",
    "table clear-consumers d.{}",
    "table compact d.{}",
    "table compact-manifests d.{}",
    "table consumers d.{}",
    "table create d.{} --column id:BIGINT",
    "table create-automatic-tags d.{}",
    "table create-branch d.ok {}",
    "table create-branch d.{} b",
    "table create-tag d.ok {}",
    "table create-tag d.{} t",
    "table delete-branch d.ok {}",
    "table delete-branch d.{} b",
    "table delete-tag d.ok {}",
    "table delete-tag d.{} t",
    "table describe d.{}",
    "table drop d.{} --yes",
    "table expire-partitions d.{} --expiration-time 1d",
    "table expire-snapshots d.{}",
    "table expire-tags d.{}",
    "table explain d.{}",
    "table fast-forward d.ok {}",
    "table fast-forward d.{} b",
    "table fsck d.{}",
    "table get d.{} 1",
    "table head d.{}",
    "table health d.{}",
    "table import d.{} rows.csv",
    "table levels d.{}",
    "table list {}",
    "table mark-partition-done d.{} dt=x",
    "table merge-branch d.ok {}",
    "table merge-branch d.{} b",
    "table publish-iceberg d.{}",
    "table publish-log d.{}",
    "table purge d.{} --yes",
    "table remove-orphan-files d.{}",
    "table remove-unexisting-files d.{}",
    "table rename d.ok d.{}",
    "table rename d.{} d.other",
    "table rename-branch d.ok b {}",
    "table rename-branch d.ok {} b",
    "table rename-branch d.{} a b",
    "table rename-tag d.ok t {}",
    "table rename-tag d.ok {} t",
    "table rename-tag d.{} a b",
    "table replace-tag d.ok {}",
    "table replace-tag d.{} t",
    "table rescale d.{} --buckets 2",
    "table reset-consumer d.ok {} 1",
    "table reset-consumer d.{} c 1",
    "table rollback d.ok {}",
    "table rollback d.{} 1",
    "table scan d.{}",
    "table schema d.{}",
    "table snapshots d.{}",
    "table tags d.{}",
)
OF_ENTRIES = frozenset(("locks", "metastore", "optimizer"))
"""Groups whose names are entries of a database, and no paths."""


def commands_with_names(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the commands that have arguments."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands_with_names(inner, (*path, name))
    elif any(isinstance(each, click.Argument) for each in command.params):
        yield " ".join(path)


def test_each_command_with_a_name_is_tried() -> None:
    named = {each for each in commands_with_names(main) if each.split()[0] not in OF_ENTRIES} - {"sql"}
    assert named - {each for each in named if any(command.startswith(f"{each} ") for command in COMMANDS)} == set()


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
